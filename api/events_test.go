package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/testhouse"
)

// eventOf finds the one event with this transaction and outcome ("" for none yet) and gives its path.
func (f *face) eventOf(t *testing.T, transactionID, outcome string) string {
	t.Helper()
	var found []string
	for _, item := range f.call(t, "GET", "/v1/events", "").is(t, 200).fields(t)["items"].([]any) {
		event := item.(object)
		if event["transaction_id"] == transactionID && (event["outcome"] == outcome || outcome == "" && event["outcome"] == nil) {
			found = append(found, fmt.Sprint("/v1/events/", event["id"]))
		}
	}
	require.Len(t, found, 1, "%s %s", transactionID, outcome)
	return found[0]
}

func TestEventsAreListedNewestFirstAndNarrowed(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	f.order(t, "a")
	f.order(t, "b")
	f.pay(t, "1", "a", 9900)
	f.report(t, testhouse.Paid(t, "2", "b", 9900))
	f.report(t, testhouse.Paid(t, "3", "elsewhere", 9900))
	f.report(t, testhouse.Body(t, "customer.created", "4", "a", 1, "CNY"))
	for query, want := range map[string][]any{
		"":                             {"", "3", "2", "1"},
		"?state=DONE":                  {"1"},
		"?state=RECEIVED":              {"2"},
		"?state=PARKED":                {"3"},
		"?state=IGNORED":               {""},
		"?out_trade_no=b":              {"2"},
		"?out_trade_no=none":           {},
		"?out_trade_no=a&state=DONE":   {"1"},
		"?out_trade_no=a&state=PARKED": {},
	} {
		require.Equal(t, want, f.call(t, "GET", "/v1/events"+query, "").items(t, "transaction_id"), query)
	}
	require.Equal(t, []any{"", "3", "2", "1"}, f.pages(t, "/v1/events?limit=2", "transaction_id", nil))

	got := f.call(t, "GET", f.eventOf(t, "1", "CREDITED"), "").is(t, 200).fields(t)
	require.Equal(t, "standard:1:PAY_SUCCESS", got["event_key"])
	require.Equal(t, "standard", got["channel"])
	require.Equal(t, f.Account.Name, got["account"])
	require.Equal(t, json.Number("9900"), got["amount"])
	require.NotEmpty(t, got["journal_key"])
}

func TestAConflictingReportIsAnItemOfItsOwn(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	f.order(t, "o")
	f.pay(t, "tx", "o", 9900)
	original := f.eventOf(t, "tx", "CREDITED")
	before := f.call(t, "GET", original, "").is(t, 200).Text
	for range 2 {
		f.report(t, testhouse.Paid(t, "tx", "o", 1))
	}
	conflict := f.call(t, "GET", f.eventOf(t, "tx", "CONFLICT"), "").is(t, 200).fields(t)
	require.Equal(t, "PARKED", conflict["state"])
	require.Equal(t, json.Number("1"), conflict["amount"])
	require.Equal(t, original, fmt.Sprint("/v1/events/", conflict["conflicts_with"]))
	require.Equal(t, before, f.call(t, "GET", original, "").Text, "the original is untouched")
	require.Len(t, f.call(t, "GET", "/v1/payments/o", "").fields(t)["events"], 2)

	// Its transaction is booked: it cannot be taken in a second time.
	f.call(t, "POST", f.eventOf(t, "tx", "CONFLICT")+"/suspense", `{"reason":"r"}`).problem(t, 409, "already_booked")
	require.Equal(t, 9900, f.Balance(t, "merchant"))
	require.Zero(t, f.Balance(t, "suspense"))
	f.RequireInvariants(t)
}

func TestAParkedReportOfAnOrderIsCreditedOnceTheOrderIsThere(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	f.report(t, testhouse.Paid(t, "tx", "o", 9900))
	f.eventOf(t, "tx", "UNKNOWN_ORDER")
	f.order(t, "o") // looks for events that came before it
	require.Equal(t, []payment.Outcome{payment.Credited}, f.driver.Book(t, f.Books))
	require.Equal(t, "PAID", f.call(t, "GET", "/v1/payments/o", "").fields(t)["state"])
}

func TestReplayTakesTheStoredBodyThroughTheEntryAgain(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	f.report(t, testhouse.Paid(t, "tx", "o", 9900))
	path := f.eventOf(t, "tx", "UNKNOWN_ORDER")
	require.Equal(t, "PARKED", f.call(t, "POST", path+"/replay", "").is(t, 200).fields(t)["state"])

	// The order comes by a way that does not look for events.
	_, _, err := f.Orders.Create(t.Context(), f.Tenant, testhouse.Order("o", 9900), f.Clock.Now())
	require.NoError(t, err)
	require.Equal(t, "RECEIVED", f.call(t, "POST", path+"/replay", "{}").is(t, 200).fields(t)["state"])
	require.Equal(t, []payment.Outcome{payment.Credited}, f.driver.Book(t, f.Books))
	for range 2 { // a settled event stays as it is
		require.Equal(t, "CREDITED", f.call(t, "POST", path+"/replay", "").is(t, 200).fields(t)["outcome"])
	}
	require.Empty(t, f.driver.Take())
	require.Equal(t, 9900, f.Balance(t, "merchant"))

	f.call(t, "POST", path+"/replay", `{"force":true}`).problem(t, 400, "field_unknown")
	f.RequireInvariants(t)
}

func TestAParkedAmountIsBookedToSuspenseOnce(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	f.report(t, testhouse.Paid(t, "tx", "elsewhere", 9900))
	path := f.eventOf(t, "tx", "UNKNOWN_ORDER")
	got := f.call(t, "POST", path+"/suspense", `{"reason":"payer asked for it back"}`).is(t, 200).fields(t)
	require.Equal(t, "DONE", got["state"])
	require.Equal(t, "UNKNOWN_ORDER", got["outcome"])
	require.Contains(t, got["reason"], "payer asked for it back")
	require.NotEmpty(t, got["journal_key"])
	f.call(t, "POST", path+"/suspense", `{"reason":"again"}`).problem(t, 409, "event_not_parked")
	f.call(t, "POST", path+"/reject", `{"reason":"again"}`).problem(t, 409, "event_not_parked")
	require.Equal(t, 9900, f.Balance(t, "suspense"))
	require.Equal(t, 1, f.Journals(t))

	f.send(t, f.callback(t, "not JSON")).is(t, 200)
	f.call(t, "POST", f.eventOf(t, "", "UNREADABLE")+"/suspense", `{"reason":"r"}`).problem(t, 409, "nothing_to_book")
	f.RequireInvariants(t)
}

func TestAParkedEventIsRejectedWithItsReason(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	f.report(t, testhouse.Paid(t, "tx", "elsewhere", 9900))
	path := f.eventOf(t, "tx", "UNKNOWN_ORDER")
	got := f.call(t, "POST", path+"/reject", `{"reason":"`+strings.Repeat("书", 500)+`"}`).is(t, 200).fields(t)
	require.Equal(t, "IGNORED", got["state"])
	require.Equal(t, "REJECTED", got["outcome"])
	require.Contains(t, got["reason"], strings.Repeat("书", 500))
	f.call(t, "POST", path+"/reject", `{"reason":"again"}`).problem(t, 409, "event_not_parked")
	require.Zero(t, f.Journals(t))
}

func TestAnExitWantsAReason(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	f.report(t, testhouse.Paid(t, "tx", "elsewhere", 9900))
	path := f.eventOf(t, "tx", "UNKNOWN_ORDER")
	for _, exit := range []string{"/suspense", "/reject"} {
		for body, code := range map[string]string{
			"{}": "reason_invalid", `{"reason":""}`: "reason_invalid", `{"reason":" \n"}`: "reason_invalid", `{"reason":null}`: "reason_invalid",
			`{"reason":5}`: "reason_invalid", `{"reason":"\u0000"}`: "reason_invalid", `{"reason":"` + strings.Repeat("书", 501) + `"}`: "reason_invalid",
			`{"reason":"r","amount":1}`: "field_unknown", "null": "json_malformed", "[]": "json_malformed", "{": "json_malformed",
		} {
			f.call(t, "POST", path+exit, body).problem(t, 400, code)
		}
		f.call(t, "POST", path+exit, "").problem(t, 415, "content_type_unsupported")
	}
	require.Equal(t, "PARKED", f.call(t, "GET", path, "").fields(t)["state"])
	f.requireNoError(t)
}
