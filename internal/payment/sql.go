package payment

import (
	_ "embed"
	"strings"
)

var (
	//go:embed sql/event.sql
	eventSQL string
	//go:embed sql/look_up.sql
	lookUpSQL string
	//go:embed sql/insert_receipt.sql
	insertReceiptSQL string
	//go:embed sql/insert_event.sql
	insertEventTemplate string
	//go:embed sql/credit.sql
	creditSQL string
	//go:embed sql/rejudge_event.sql
	rejudgeEventSQL string
	//go:embed sql/settle_event.sql
	settleEventSQL string
	//go:embed sql/claim_received.sql
	claimReceivedSQL string
	//go:embed sql/expire.sql
	expireSQL string
	//go:embed sql/expire_one.sql
	expireOneSQL string
	//go:embed sql/claim_parked.sql
	claimParkedSQL string
	//go:embed sql/matched.sql
	matchedSQL string
	//go:embed sql/payment.sql
	paymentSQL string
	//go:embed sql/create.sql
	createSQL string
	//go:embed sql/close.sql
	closeSQL string
	//go:embed sql/close_asked.sql
	closeAskedSQL string
	//go:embed sql/request_close.sql
	requestCloseSQL string
	//go:embed sql/prepay_again.sql
	prepayAgainSQL string
	//go:embed sql/ship.sql
	shipSQL string
	//go:embed sql/complete.sql
	completeSQL string
	//go:embed sql/pay.sql
	paySQL string
	//go:embed sql/close_by_channel.sql
	closeByChannelSQL string
	//go:embed sql/waiting_payment.sql
	waitingPaymentSQL string
	//go:embed sql/exit_event.sql
	exitEventSQL string
	//go:embed sql/claim_resume.sql
	claimResumeSQL string
)

var (
	// insertEventSQL takes the id of the receipt as $4; storeEventSQL makes it, of the hash $4, the body $23 and the time $15.
	insertEventSQL = strings.Replace(insertEventTemplate, "{receipt}", "SELECT $4::bigint AS id", 1)
	storeEventSQL  = strings.Replace(insertEventTemplate, "{receipt}", renumber(insertReceiptSQL), 1)
)

// renumber gives the receipt's parameters the numbers that they have in storeEventSQL.
func renumber(receipt string) string {
	return strings.NewReplacer("$5", "$23", "$6", "$15").Replace(receipt)
}
