package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/channel/standard"
	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/testhouse"
)

func refundBody(number string, amount int) string {
	return fmt.Sprintf(`{"out_refund_no":%q,"amount":%d,"reason":"torn"}`, number, amount)
}

// refunded reports the end of a refund, as the channel standard does, and books it.
func (f *face) refunded(t *testing.T, kind, number string, amount int64) {
	t.Helper()
	body, err := json.Marshal(standard.Message{Type: kind, Timestamp: time.Now(), Data: standard.Data{
		RefundID: "f-" + number, OutRefundNo: number, Amount: amount, Currency: "CNY",
	}})
	require.NoError(t, err)
	f.report(t, body)
	f.driver.Book(t, f.Books)
}

func TestARefundOverHTTP(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	f.order(t, "o")
	f.call(t, "POST", "/v1/payments/o/refunds", refundBody("r", 500)).problem(t, 409, "payment_not_paid")
	f.pay(t, "tx", "o", 9900)

	made := f.call(t, "POST", "/v1/payments/o/refunds", refundBody("r", 500)).is(t, 201).fields(t)
	require.Equal(t, "PENDING", made["state"])
	require.Equal(t, "o", made["out_trade_no"])
	require.Equal(t, "tx", made["transaction_id"])
	require.NotContains(t, made, "workflow_id", "this channel cannot be asked: no flow waits")
	require.Equal(t, json.Number("500"), f.call(t, "GET", "/v1/payments/o", "").fields(t)["refund_pending"])
	require.Equal(t, json.Number("9400"), f.call(t, "GET", "/v1/accounts/merchant", "").fields(t)["available"])

	f.refunded(t, "refund.succeeded", "r", 500)
	require.Equal(t, made["created_at"], f.call(t, "POST", "/v1/payments/o/refunds", refundBody("r", 500)).is(t, 200).fields(t)["created_at"], "the same again is the original")
	got := f.call(t, "GET", "/v1/refunds/r", "").is(t, 200).fields(t)
	require.Equal(t, "SUCCEEDED", got["state"])
	require.Equal(t, []any{"refund:r"}, got["journal_keys"])
	paid := f.call(t, "GET", "/v1/payments/o", "").fields(t)
	require.Equal(t, "PAID", paid["state"])
	require.Equal(t, "PARTIAL", paid["refund_state"])
	require.Equal(t, json.Number("500"), paid["refunded_amount"])
	f.RequireInvariants(t)
}

func TestRefundsThatAreRefused(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	f.order(t, "o")
	f.order(t, "o2")
	f.pay(t, "tx", "o", 9900)
	f.pay(t, "tx2", "o2", 9900)
	f.call(t, "POST", "/v1/payments/o/refunds", refundBody("r", 9000)).is(t, 201)
	for path, c := range map[string]struct {
		body   string
		status int
		code   string
	}{
		"/v1/payments/o/refunds#more":      {refundBody("r2", 901), 409, "refund_exceeds_captured"},
		"/v1/payments/o/refunds#amount":    {refundBody("r", 8999), 422, "out_refund_no_reused"},
		"/v1/payments/o2/refunds#payment":  {refundBody("r", 9000), 422, "out_refund_no_reused"},
		"/v1/payments/none/refunds":        {refundBody("r3", 1), 404, "payment_not_found"},
		"/v1/payments/no%20ne/refunds":     {refundBody("r3", 1), 404, "payment_not_found"},
		"/v1/payments/o/refunds#zero":      {refundBody("r3", 0), 400, "amount_invalid"},
		"/v1/payments/o/refunds#absent":    {`{"out_refund_no":"r3"}`, 400, "amount_invalid"},
		"/v1/payments/o/refunds#fraction":  {`{"out_refund_no":"r3","amount":1.5}`, 400, "amount_invalid"},
		"/v1/payments/o/refunds#number":    {`{"out_refund_no":"a/b","amount":1}`, 400, "out_refund_no_invalid"},
		"/v1/payments/o/refunds#reason":    {`{"out_refund_no":"r3","amount":1,"reason":"` + strings.Repeat("x", 81) + `"}`, 400, "reason_invalid"},
		"/v1/payments/o/refunds#unknown":   {`{"out_refund_no":"r3","amount":1,"currency":"CNY"}`, 400, "field_unknown"},
		"/v1/refunds/none/retry":           {`{}`, 404, "refund_not_found"},
		"/v1/refunds/no%20ne/retry":        {`{}`, 404, "refund_not_found"},
		"/v1/refunds/r/retry":              {`{}`, 409, "channel_cannot_be_asked"},
		"/v1/events/123456/refund":         {`{"reason":"why not"}`, 404, "event_not_found"},
		"/v1/events/123456/refund#silence": {`{"reason":" "}`, 400, "reason_invalid"},
	} {
		path, _, _ = strings.Cut(path, "#")
		f.call(t, "POST", path, c.body).problem(t, c.status, c.code)
	}
	f.call(t, "GET", "/v1/refunds/none", "").problem(t, 404, "refund_not_found")
	f.call(t, "GET", "/v1/refunds?state=LOST", "").problem(t, 400, "state_invalid")
	require.Equal(t, 1, f.Count(t, "SELECT count(*) FROM refunds"))

	// Money that the merchant has paid out is not there to go back.
	f.account(t, "supplier", 0)
	f.call(t, "POST", "/v1/transfers", `{"from":"merchant","to":"supplier","amount":9900,"currency":"CNY","reference":"out"}`).is(t, 201)
	f.call(t, "POST", "/v1/payments/o2/refunds", refundBody("r4", 9900)).problem(t, 409, "insufficient_funds")
	f.RequireInvariants(t)
}

func TestRefundsAreListedAndRetried(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	for _, order := range []string{"a", "b"} {
		f.order(t, order)
		f.pay(t, "tx-"+order, order, 9900)
		for i := range 2 {
			f.call(t, "POST", "/v1/payments/"+order+"/refunds", refundBody(fmt.Sprint(order, i), 100)).is(t, 201)
		}
	}
	f.refunded(t, "refund.succeeded", "a0", 100)
	f.refunded(t, "refund.failed", "a1", 100)
	for query, want := range map[string][]any{
		"":                             {"b1", "b0", "a1", "a0"},
		"?state=PENDING":               {"b1", "b0"},
		"?state=FAILED":                {"a1"},
		"?out_trade_no=a":              {"a1", "a0"},
		"?out_trade_no=b&state=FAILED": {},
	} {
		require.Equal(t, want, f.call(t, "GET", "/v1/refunds"+query, "").items(t, "out_refund_no"), query)
	}
	require.Equal(t, []any{"b1", "b0", "a1", "a0"}, f.pages(t, "/v1/refunds?limit=3", "out_refund_no", nil))
	f.call(t, "POST", "/v1/refunds/a0/retry", "").problem(t, 409, "refund_ended")

	// As if the channel could be asked.
	_, err := f.Owner.Exec(t.Context(), "UPDATE refunds SET asks = true, next_drive_at = now() WHERE out_refund_no = 'b0'")
	require.NoError(t, err)
	got := f.call(t, "POST", "/v1/refunds/b0/retry", "").is(t, 200).fields(t)
	require.Equal(t, "refund/"+f.Tenant+"/b0", got["workflow_id"])
	require.Len(t, f.driver.TakeRefunds(), 1)
	require.Equal(t, 1, f.Count(t, "SELECT count(*) FROM audit_log WHERE action = 'refund_retried'"))
}

func TestMoneyInSuspenseGoesBackOverHTTP(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	f.order(t, "o")
	f.pay(t, "tx", "o", 9900)
	f.report(t, testhouse.Paid(t, "tx2", "o", 9900))
	require.Equal(t, []payment.Outcome{payment.SecondPayment}, f.driver.Book(t, f.Books))
	event := f.eventOf(t, "tx2", "SECOND_PAYMENT")
	made := f.call(t, "POST", event+"/refund", `{"reason":"paid twice"}`).is(t, 201).fields(t)
	require.Equal(t, "suspense", made["origin"])
	number := made["out_refund_no"].(string)
	require.Equal(t, number, f.call(t, "POST", event+"/refund", `{"reason":"paid twice"}`).is(t, 200).fields(t)["out_refund_no"])
	f.call(t, "POST", f.eventOf(t, "tx", "CREDITED")+"/refund", `{"reason":"no"}`).problem(t, 409, "not_in_suspense")
	f.refunded(t, "refund.succeeded", number, 9900)
	require.Equal(t, json.Number("0"), f.call(t, "GET", "/v1/accounts/suspense", "").fields(t)["balance"])
	require.Equal(t, json.Number("0"), f.call(t, "GET", "/v1/payments/o", "").fields(t)["refunded_amount"])
	require.Equal(t, 1, f.Count(t, "SELECT count(*) FROM audit_log WHERE action = 'suspense_refunded' AND detail = 'paid twice'"))
	f.RequireInvariants(t)
}
