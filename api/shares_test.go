package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/channel/standard"
)

// shared is a message of the standard channel about the legs of a sharing: account, amount and state by turns.
func shared(t *testing.T, number string, legs ...any) []byte {
	t.Helper()
	data := standard.Data{ShareID: "id-" + number, OutOrderNo: number, Currency: "CNY"}
	for i := 0; i < len(legs); i += 3 {
		data.Receivers = append(data.Receivers, standard.Receiver{Account: legs[i].(string), Amount: int64(legs[i+1].(int)), State: legs[i+2].(string)})
	}
	body, err := json.Marshal(standard.Message{Type: "share.result", Timestamp: time.Unix(1_770_000_000, 0).UTC(), Data: data})
	require.NoError(t, err)
	return body
}

func (f *face) paidOrder(t *testing.T, number string) {
	t.Helper()
	f.order(t, number)
	f.pay(t, "tx-"+number, number, 9900)
}

func TestASharingOverHTTP(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	f.paidOrder(t, "o")
	body := `{"out_order_no":"s","receivers":[{"account":"b","ratio":70},{"account":"a","ratio":30,"type":"MERCHANT_ID","description":"for a"}],"finish":true}`
	created := f.call(t, "POST", "/v1/payments/o/shares", body).is(t, http.StatusCreated).fields(t)
	require.Equal(t, "PENDING", created["state"])
	require.Equal(t, json.Number("9900"), created["amount"])
	require.Equal(t, "share/"+f.Tenant+"/s", created["workflow_id"])
	require.Equal(t, "http://ui.invalid/share/"+f.Tenant+"/s", created["temporal_ui"])
	require.Len(t, f.driver.TakeShares(), 1)

	permuted := `{"finish":true,"receivers":[{"description":"for a","account":"a","ratio":30,"type":"MERCHANT_ID"},{"account":"b","ratio":70}],"out_order_no":"s"}`
	require.JSONEq(t, marshal(t, created), f.call(t, "POST", "/v1/payments/o/shares", permuted).is(t, http.StatusOK).Text)
	require.Empty(t, f.driver.TakeShares(), "a repeat starts nothing")
	f.call(t, "POST", "/v1/payments/o/shares", strings.Replace(body, "70", "71", 1)).problem(t, 422, "out_order_no_reused")

	f.report(t, shared(t, "s", "a", 2970, "SUCCEEDED", "b", 6930, "CLOSED"))
	f.driver.Book(t, f.Books)
	got := f.call(t, "GET", "/v1/shares/s", "").is(t, http.StatusOK).fields(t)
	require.Equal(t, "PARTIAL", got["state"])
	receivers := got["receivers"].([]any)
	require.Equal(t, "a", receivers[0].(map[string]any)["account"])
	require.Equal(t, "SUCCEEDED", receivers[0].(map[string]any)["state"])
	require.Equal(t, "share:s:a", receivers[0].(map[string]any)["journal_key"])
	require.Equal(t, "CLOSED", receivers[1].(map[string]any)["state"])
	require.Equal(t, "2970", f.balance(t, "receiver:a"))
	require.Equal(t, "6930", f.balance(t, "merchant"))
	require.Equal(t, got["state"], f.call(t, "POST", "/v1/payments/o/shares", body).is(t, http.StatusOK).fields(t)["state"], "as it is now")

	require.Equal(t, []any{"s"}, f.call(t, "GET", "/v1/shares?out_trade_no=o", "").items(t, "out_order_no"))
	require.Empty(t, f.call(t, "GET", "/v1/shares?out_trade_no=p", "").items(t, "out_order_no"))
	require.Empty(t, f.call(t, "GET", "/v1/shares?state=SUCCEEDED", "").items(t, "out_order_no"))
	f.call(t, "POST", "/v1/shares/s/retry", "").problem(t, 409, "share_not_refused")
	f.RequireInvariants(t)
	f.requireNoError(t)
}

func TestWhyASharingIsRefused(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	f.paidOrder(t, "o")
	f.order(t, "unpaid")
	f.call(t, "POST", "/v1/payments", `{"out_trade_no":"planned","amount":9900,"currency":"CNY","profit_sharing":{"receivers":[{"account":"a","ratio":1}],"merchant_ratio":2}}`).is(t, 201)
	f.pay(t, "tx-planned", "planned", 9900)
	const receivers = `"receivers":[{"account":"a","amount":100}]`
	for name, c := range map[string]struct {
		order, body string
		status      int
		code        string
	}{
		"no number":              {"o", `{` + receivers + `}`, 400, "out_order_no_invalid"},
		"a number with a slash":  {"o", `{"out_order_no":"a/b",` + receivers + `}`, 400, "out_order_no_invalid"},
		"no such payment":        {"nobody", `{"out_order_no":"s",` + receivers + `}`, 404, "payment_not_found"},
		"no payment's number":    {"no%20body", `{"out_order_no":"s",` + receivers + `}`, 404, "payment_not_found"},
		"not paid":               {"unpaid", `{"out_order_no":"s",` + receivers + `}`, 409, "payment_not_paid"},
		"too much":               {"o", `{"out_order_no":"s","receivers":[{"account":"a","amount":9901}]}`, 409, "share_exceeds_left"},
		"no plan":                {"o", `{"out_order_no":"s"}`, 422, "sharing_plan_missing"},
		"another than the plan":  {"planned", `{"out_order_no":"s","receivers":[{"account":"a","ratio":1}],"merchant_ratio":1}`, 422, "sharing_plan_differs"},
		"nobody":                 {"o", `{"out_order_no":"s","receivers":[]}`, 422, "share_invalid"},
		"a ratio alone":          {"o", `{"out_order_no":"s","receivers":[{"account":"a","ratio":30}]}`, 422, "share_invalid"},
		"a fraction":             {"o", `{"out_order_no":"s","receivers":[{"account":"a","amount":1.5}]}`, 400, "receivers_invalid"},
		"a text as amount":       {"o", `{"out_order_no":"s","receivers":[{"account":"a","amount":"1"}]}`, 400, "receivers_invalid"},
		"an unknown field":       {"o", `{"out_order_no":"s","receivers":[{"account":"a","amonut":1}]}`, 400, "field_unknown"},
		"a part of the merchant": {"o", `{"out_order_no":"s","merchant_ratio":"1",` + receivers + `}`, 400, "merchant_ratio_invalid"},
		"no object":              {"o", `[]`, 400, "json_malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			f.call(t, "POST", "/v1/payments/"+c.order+"/shares", c.body).problem(t, c.status, c.code)
		})
	}
	require.Zero(t, f.Count(t, "SELECT count(*) FROM shares"))
	f.call(t, "GET", "/v1/shares/s", "").problem(t, 404, "share_not_found")
	f.call(t, "GET", "/v1/shares/no%20body", "").problem(t, 404, "share_not_found")
	f.call(t, "POST", "/v1/shares/s/retry", "").problem(t, 404, "share_not_found")
	f.call(t, "GET", "/v1/shares?state=DONE", "").problem(t, 400, "state_invalid")
	f.call(t, "GET", "/v1/shares?out_trade_no=a/b", "").problem(t, 400, "out_trade_no_invalid")
	f.call(t, "GET", "/v1/shares?limit=0", "").problem(t, 400, "limit_invalid")

	f.call(t, "POST", "/v1/payments/planned/shares", `{"out_order_no":"p","finish":true}`).is(t, 201)
	f.call(t, "POST", "/v1/payments/planned/shares", `{"out_order_no":"q","finish":true,"receivers":[]}`).problem(t, 409, "sharing_finished")
	require.Equal(t, json.Number("3300"), f.call(t, "GET", "/v1/shares/p", "").is(t, 200).fields(t)["amount"])
	f.RequireInvariants(t)
	f.requireNoError(t)
}

func TestSharingsAreListedNewestFirstInPages(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	f.paidOrder(t, "o")
	for i := range 5 {
		f.call(t, "POST", "/v1/payments/o/shares", fmt.Sprintf(`{"out_order_no":"s%d","receivers":[{"account":"a","amount":1}]}`, i)).is(t, 201)
	}
	page := f.call(t, "GET", "/v1/shares?limit=3", "")
	require.Equal(t, []any{"s4", "s3", "s2"}, page.items(t, "out_order_no"))
	cursor := page.fields(t)["next_cursor"].(string)
	page = f.call(t, "GET", "/v1/shares?limit=3&cursor="+cursor, "")
	require.Equal(t, []any{"s1", "s0"}, page.items(t, "out_order_no"))
	require.NotContains(t, page.fields(t), "next_cursor")
}

func TestASharingUnderWayIsAskedAboutNow(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	f.paidOrder(t, "o")
	f.call(t, "POST", "/v1/payments/o/shares", `{"out_order_no":"s","receivers":[{"account":"a","amount":1}]}`).is(t, 201)
	f.driver.TakeShares()
	require.Equal(t, "PENDING", f.call(t, "POST", "/v1/shares/s/retry", "").is(t, 200).fields(t)["state"])
	require.Len(t, f.driver.TakeShares(), 1)
	require.Equal(t, 1, f.Count(t, "SELECT count(*) FROM audit_log WHERE action = 'share_retried' AND target = 'sharing s' AND actor = $1", f.APIKey[:10]))
	f.call(t, "POST", "/v1/shares/none/retry", "").is(t, 404)
	require.Equal(t, 1, f.Count(t, "SELECT count(*) FROM audit_log WHERE action = 'share_retried'"))
}

func TestWhatReceiversOweAfterARefund(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	f.paidOrder(t, "o")
	f.paidOrder(t, "other") // so that the merchant has money
	f.call(t, "POST", "/v1/payments/o/shares", `{"out_order_no":"s","receivers":[{"account":"a","ratio":30},{"account":"b","ratio":70}]}`).is(t, 201)
	f.call(t, "POST", "/v1/payments/o/refunds", `{"out_refund_no":"r","amount":100}`).problem(t, 409, "sharing_in_progress")
	f.report(t, shared(t, "s", "a", 2970, "SUCCEEDED", "b", 6930, "SUCCEEDED"))
	f.driver.Book(t, f.Books)
	f.call(t, "POST", "/v1/shares/s/collect", "").problem(t, 409, "nothing_owed")

	// The channel of this account cannot be asked: receivers cannot give back first.
	f.call(t, "POST", "/v1/payments/o/refunds", `{"out_refund_no":"r","amount":100}`).is(t, 201)
	f.report(t, []byte(`{"type":"refund.succeeded","timestamp":"2026-03-01T08:00:00Z","data":{"transaction_id":"tx-o","out_trade_no":"o","refund_id":"x","out_refund_no":"r","amount":100,"currency":"CNY"}}`))
	f.driver.Book(t, f.Books)
	got := f.call(t, "GET", "/v1/shares/s", "").is(t, 200).fields(t)
	returns := got["returns"].([]any)
	require.Len(t, returns, 2)
	require.Equal(t, "OWED", returns[0].(map[string]any)["state"])
	require.Equal(t, "receivable:a", returns[0].(map[string]any)["ledger_account"])
	require.Equal(t, "30", f.balance(t, "receivable:a"))
	require.Equal(t, "70", f.balance(t, "receivable:b"))
	require.Equal(t, "2940", f.balance(t, "receiver:a"))
	f.call(t, "POST", "/v1/shares/s/collect", `{"account":"z"}`).problem(t, 409, "nothing_owed")
	f.driver.TakeShares()
	asked := f.call(t, "POST", "/v1/shares/s/collect", `{"account":"a"}`).is(t, 200).fields(t)
	require.Equal(t, true, asked["returns"].([]any)[0].(map[string]any)["collecting"])
	require.Len(t, f.driver.TakeShares(), 1)
	require.Equal(t, 1, f.Count(t, "SELECT count(*) FROM audit_log WHERE action = 'share_collected'"))
	// Nobody but the merchant's books moves such an account.
	f.account(t, "mine", 0)
	f.transfer(t, "k", move("receivable:a", "mine", 1)).problem(t, 422, "transfer_invalid")
	f.RequireInvariants(t)
	f.requireNoError(t)
}
