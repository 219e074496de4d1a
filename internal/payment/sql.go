package payment

import _ "embed"

var (
	//go:embed sql/event.sql
	eventSQL string
	//go:embed sql/insert_receipt.sql
	insertReceiptSQL string
	//go:embed sql/insert_event.sql
	insertEventSQL string
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
