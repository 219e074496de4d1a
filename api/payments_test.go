package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/paylatch/paylatch/internal/testhouse"
)

func marshal(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return string(text)
}

func TestTheDescribedExampleCreatesAPayment(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	for _, o := range operations() {
		if o.node["operationId"] != "createPayment" {
			continue
		}
		got := f.call(t, o.Method, o.Path, exampleBody(t, o)).is(t, 201).fields(t)
		require.Equal(t, "PENDING", got["state"])
		require.Equal(t, "pay/"+f.Tenant+"/order-1", got["workflow_id"])
		require.Equal(t, "http://ui.invalid/pay/"+f.Tenant+"/order-1", got["temporal_ui"])
	}
	require.Equal(t, 1, f.Count(t, "SELECT count(*) FROM payments"))
}

func TestAPaymentComesBackAsItWasAskedFor(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	number := strings.Repeat("a", 55) + "Z09_.-|*x"
	asked := `{"out_trade_no":"` + number + `","amount":9223372036854775807,"currency":"JPY","description":"` + strings.Repeat("书", 256) + `",
		"channel":"standard","account":"` + f.Account.Name + `","method":"native","expires_in_seconds":31622400,
		"metadata":{"b":[1.10,1e400,-0,123456789012345678901234567890],"a":"NUL \u0000 <&> 书 \ud83d\ude00","deep":` + nested(29) + `}}`
	created := f.call(t, "POST", "/v1/payments", asked).is(t, 201).fields(t)
	want := readJSON(t, asked).(object)
	delete(want, "expires_in_seconds")
	for name, value := range want {
		require.Equal(t, value, created[name], name)
	}
	got := f.call(t, "GET", "/v1/payments/"+url.PathEscape(number), "").is(t, 200).fields(t)
	require.Equal(t, created, got)
}

func TestMetadataMayFillItsLimitWhateverItsCharacters(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	metadata := `{"a":"` + strings.Repeat("<", 16<<10-len(`{"a":""}`)) + `"}`
	got := f.call(t, "POST", "/v1/payments", with("metadata", metadata)).is(t, 201).fields(t)
	require.Equal(t, readJSON(t, metadata), got["metadata"])
}

func TestTheSameRequestAgainGivesTheOriginal(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	original := f.call(t, "POST", "/v1/payments", `{"out_trade_no":"o","amount":9900,"currency":"CNY","metadata":{"a":1,"b":2}}`).is(t, 201)
	for _, same := range []string{
		`{"out_trade_no":"o","amount":9900,"currency":"CNY","metadata":{"a":1,"b":2}}`,
		" {\n\t\"metadata\" : { \"b\" : 2 , \"a\" : 1 } , \"currency\":\"CNY\",\"amount\":9900,\"out_trade_no\":\"\\u006f\" } ",
		`{"out_trade_no":"o","amount":9900,"currency":"CNY","metadata":{"a":1,"b":2},"description":""}`,
	} {
		require.Equal(t, original.Text, f.call(t, "POST", "/v1/payments", same).is(t, 200).Text)
	}
	for _, other := range []string{
		`{"out_trade_no":"o","amount":9901,"currency":"CNY","metadata":{"a":1,"b":2}}`,
		`{"out_trade_no":"o","amount":9900,"currency":"USD","metadata":{"a":1,"b":2}}`,
		`{"out_trade_no":"o","amount":9900,"currency":"CNY","metadata":{"a":1,"b":3}}`,
		`{"out_trade_no":"o","amount":9900,"currency":"CNY"}`,
		`{"out_trade_no":"o","amount":9900,"currency":"CNY","metadata":{"a":1,"b":2},"description":"x"}`,
		`{"out_trade_no":"o","amount":9900,"currency":"CNY","metadata":{"a":1,"b":2},"expires_in_seconds":60}`,
		`{"out_trade_no":"o","amount":9900,"currency":"CNY","metadata":{"a":1,"b":2},"channel":"standard"}`,
	} {
		f.call(t, "POST", "/v1/payments", other).problem(t, 422, "out_trade_no_reused")
	}
	require.Equal(t, original.Text, f.call(t, "GET", "/v1/payments/o", "").is(t, 200).Text)

	// After it was paid, the same request shows it as it is now.
	f.pay(t, "tx", "o", 9900)
	again := f.call(t, "POST", "/v1/payments", `{"out_trade_no":"o","amount":9900,"currency":"CNY","metadata":{"a":1,"b":2}}`)
	require.Equal(t, "PAID", again.is(t, 200).fields(t)["state"])
}

func TestTwentyAtOnceMakeOnePayment(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	var created, shown atomic.Int64
	var group errgroup.Group
	for range 20 {
		r := f.request(t, "POST", "/v1/payments", orderBody("o"))
		r.Header.Set("Authorization", "Bearer "+f.APIKey)
		group.Go(func() error {
			response, err := http.DefaultClient.Do(r)
			if err != nil {
				return err
			}
			defer response.Body.Close()
			switch response.StatusCode {
			case 201:
				created.Add(1)
			case 200:
				shown.Add(1)
			default:
				return fmt.Errorf("status %d", response.StatusCode)
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
	require.Equal(t, int64(1), created.Load())
	require.Equal(t, int64(19), shown.Load())
	require.Equal(t, 1, f.Count(t, "SELECT count(*) FROM payments"))
}

func TestPagesNeitherLoseNorRepeatAPayment(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	want := []any{}
	for i := range 7 {
		f.order(t, fmt.Sprint("o", i))
		want = append([]any{fmt.Sprint("o", i)}, want...)
	}
	require.Equal(t, want, f.call(t, "GET", "/v1/payments", "").items(t, "out_trade_no"), "newest first")
	for _, limit := range []int{1, 3, 7} {
		require.Equal(t, want, f.pages(t, fmt.Sprintf("/v1/payments?limit=%d", limit), "out_trade_no", nil))
	}
	// What is created while somebody pages is newer than every page to come.
	made := 0
	require.Equal(t, want, f.pages(t, "/v1/payments?limit=2", "out_trade_no", func() {
		f.order(t, fmt.Sprint("late", made))
		made++
	}))
	require.Equal(t, 4, made)
}

// pages reads a list to its end and gives one field of all its items; between runs after each page.
func (f *face) pages(t *testing.T, path, field string, between func()) []any {
	t.Helper()
	all, cursor := []any{}, ""
	for range 100 {
		got := f.call(t, "GET", path+cursor, "")
		all = append(all, got.items(t, field)...)
		if between != nil {
			between()
		}
		next, more := got.fields(t)["next_cursor"].(string)
		if !more {
			return all
		}
		cursor = "&cursor=" + next
	}
	require.Fail(t, "the list does not end")
	return nil
}

func TestAListIsNarrowedByItsFilters(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	for _, number := range []string{"a", "b", "c"} {
		f.order(t, number)
	}
	f.call(t, "POST", "/v1/payments", `{"out_trade_no":"d","amount":1,"currency":"CNY","channel":"standard"}`).is(t, 201)
	f.pay(t, "tx", "b", 9900)
	created := f.call(t, "GET", "/v1/payments", "").items(t, "created_at") // of d, c, b, a
	at := func(i int) string { return url.QueryEscape(created[i].(string)) }
	for query, want := range map[string][]any{
		"":                                  {"d", "c", "b", "a"},
		"state=PAID":                        {"b"},
		"state=PENDING":                     {"d", "c", "a"},
		"state=CLOSED":                      {},
		"channel=standard":                  {"d"},
		"channel=stripe":                    {},
		"channel=standard&state=PAID":       {},
		"from=" + at(1):                     {"d", "c"},
		"to=" + at(1):                       {"b", "a"},
		"from=" + at(2) + "&to=" + at(1):    {"b"},
		"from=" + at(1) + "&to=" + at(1):    {},
		"state=PENDING&limit=2&to=" + at(0): {"c", "a"},
	} {
		require.Equal(t, want, f.call(t, "GET", "/v1/payments?"+query, "").items(t, "out_trade_no"), query)
	}
}

func TestMovesAreGuarded(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	move := func(number, to string) reply { return f.call(t, "POST", "/v1/payments/"+number+"/"+to, "") }
	moved := func(number, to, state string) {
		t.Helper()
		for range 2 { // the state it is already in is no error
			require.Equal(t, state, move(number, to).is(t, 200).fields(t)["state"])
		}
	}
	f.order(t, "closed")
	move("closed", "ship").problem(t, 409, "illegal_move")
	move("closed", "complete").problem(t, 409, "illegal_move")
	moved("closed", "close", "CLOSED")
	require.Equal(t, "merchant", f.call(t, "GET", "/v1/payments/closed", "").fields(t)["close_reason"])
	move("closed", "ship").problem(t, 409, "illegal_move")

	f.order(t, "o")
	f.report(t, testhouse.Paid(t, "tx", "o", 9900))
	move("o", "close").problem(t, 409, "already_paid") // reported, and not booked yet
	move("o", "ship").problem(t, 409, "illegal_move")
	f.driver.Book(t, f.Books)
	move("o", "close").problem(t, 409, "already_paid")
	move("o", "complete").problem(t, 409, "illegal_move")
	moved("o", "ship", "SHIPPED")
	move("o", "close").problem(t, 409, "already_paid")
	moved("o", "complete", "COMPLETED")
	move("o", "ship").problem(t, 409, "illegal_move")
	move("o", "close").problem(t, 409, "already_paid")

	got := f.call(t, "GET", "/v1/payments/o", "").is(t, 200).fields(t)
	for _, at := range []string{"paid_at", "shipped_at", "completed_at"} {
		require.NotEmpty(t, got[at])
	}
	require.Len(t, got["events"], 1)
	require.Len(t, got["journal_keys"], 1)
	require.Equal(t, got["journal_keys"].([]any)[0], got["events"].([]any)[0].(object)["journal_key"])
	f.RequireInvariants(t)
	f.requireNoError(t)
}

func TestCloseAndCallbackAtOnceNeverBothWin(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	for i := range 20 {
		number := fmt.Sprint("o", i)
		f.order(t, number)
		closing := f.request(t, "POST", "/v1/payments/"+number+"/close", "")
		closing.Header.Set("Authorization", "Bearer "+f.APIKey)
		reporting := f.callback(t, string(testhouse.Paid(t, "tx-"+number, number, 9900)))
		statuses := make([]int, 2)
		var group errgroup.Group
		for j, r := range []*http.Request{closing, reporting} {
			group.Go(func() error {
				response, err := http.DefaultClient.Do(r)
				if err != nil {
					return err
				}
				statuses[j] = response.StatusCode
				return response.Body.Close()
			})
		}
		require.NoError(t, group.Wait())
		require.Equal(t, 200, statuses[1])
		require.True(t, slices.Contains([]int{200, 409}, statuses[0]), "close answered %d", statuses[0])
		f.driver.Book(t, f.Books)
		want := map[int]string{200: "CLOSED", 409: "PAID"}[statuses[0]]
		require.Equal(t, want, string(f.State(t, number)))
	}
	f.RequireInvariants(t)
}
