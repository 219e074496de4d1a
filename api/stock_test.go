package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/tenant"
	"github.com/paylatch/paylatch/internal/testhouse"
)

func (f *face) put(t *testing.T, sku string, onHand int64) {
	t.Helper()
	f.call(t, "PUT", "/v1/stock/"+sku, fmt.Sprintf(`{"on_hand":%d}`, onHand)).is(t, 200)
}

// stock requires what is on hand and reserved.
func (f *face) stock(t *testing.T, sku string, onHand, reserved int64) {
	t.Helper()
	got := f.call(t, "GET", "/v1/stock/"+sku, "").is(t, 200).fields(t)
	require.Equal(t, []any{json.Number(fmt.Sprint(onHand)), json.Number(fmt.Sprint(reserved))}, []any{got["on_hand"], got["reserved"]})
}

// basket is an order of 9900 with items, written as JSON.
func basket(outTradeNo, items string) string { return and(orderBody(outTradeNo), `"items":`+items) }

func TestStockIsPutAndRead(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	const path = "/v1/stock/book_1.A|*-"
	f.call(t, "GET", path, "").problem(t, 404, "sku_not_found")
	f.call(t, "PUT", path, `{"on_hand":5,"version":1}`).problem(t, 404, "sku_not_found")
	first := f.call(t, "PUT", path, `{"on_hand":5}`).is(t, 200)
	require.Equal(t, first.Text, f.call(t, "GET", path, "").is(t, 200).Text)
	got := first.fields(t)
	require.Equal(t, "book_1.A|*-", got["sku"])
	require.Equal(t, []any{json.Number("5"), json.Number("0"), json.Number("1")}, []any{got["on_hand"], got["reserved"], got["version"]})

	got = f.call(t, "PUT", path, `{"on_hand":7,"version":1}`).is(t, 200).fields(t)
	require.Equal(t, json.Number("2"), got["version"])
	f.call(t, "PUT", path, `{"on_hand":9,"version":1}`).problem(t, 409, "version_conflict")
	f.call(t, "PUT", path, `{"on_hand":9,"version":3}`).problem(t, 409, "version_conflict")
	f.stock(t, "book_1.A|*-", 7, 0)
	got = f.call(t, "PUT", path, `{"on_hand":0,"version":0}`).is(t, 200).fields(t)
	require.Equal(t, json.Number("3"), got["version"])

	for _, c := range []struct{ path, body, code string }{
		{path, `{}`, "on_hand_invalid"},
		{path, `{"on_hand":null}`, "on_hand_invalid"},
		{path, `{"on_hand":-1}`, "on_hand_invalid"},
		{path, `{"on_hand":1.5}`, "on_hand_invalid"},
		{path, `{"on_hand":"1"}`, "on_hand_invalid"},
		{path, `{"on_hand":9223372036854775808}`, "on_hand_invalid"},
		{path, `{"on_hand":1,"version":-1}`, "version_invalid"},
		{path, `{"on_hand":1,"version":"1"}`, "version_invalid"},
		{path, `{"on_hand":1,"reserved":0}`, "field_unknown"},
		{path, `null`, "json_malformed"},
		{"/v1/stock/a%20b", `{"on_hand":1}`, "sku_invalid"},
		{"/v1/stock/%00", `{"on_hand":1}`, "sku_invalid"},
		{"/v1/stock/%FF", `{"on_hand":1}`, "sku_invalid"},
		{"/v1/stock/" + strings.Repeat("s", 65), `{"on_hand":1}`, "sku_invalid"},
	} {
		t.Run(c.path+" "+c.body, func(t *testing.T) {
			f.call(t, "PUT", c.path, c.body).problem(t, 400, c.code)
		})
	}
	f.stock(t, "book_1.A|*-", 0, 0)
	require.Equal(t, 1, f.Count(t, "SELECT count(*) FROM stock"))
	f.requireNoError(t)
}

func TestOneOfTwoWhoKnowTheSameVersionWins(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	f.put(t, "book", 1)
	won := 0
	for _, r := range f.atOnce(t, 10, func(i int) *http.Request {
		r := f.request(t, "PUT", "/v1/stock/book", fmt.Sprintf(`{"on_hand":%d,"version":1}`, 10+i))
		r.Header.Set("Authorization", "Bearer "+f.APIKey)
		return r
	}) {
		if r.StatusCode == 200 {
			won++
		} else {
			r.problem(t, 409, "version_conflict")
		}
	}
	require.Equal(t, 1, won)
}

func TestStockIsOfOneTenant(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	other, err := tenant.Add(t.Context(), f.Engine, f.Tenant+"-other", "CNY")
	require.NoError(t, err)
	f.put(t, "book", 5)
	f.callAs(t, other, "GET", "/v1/stock/book", "").problem(t, 404, "sku_not_found")
	f.callAs(t, other, "PUT", "/v1/stock/book", `{"on_hand":1,"version":1}`).problem(t, 404, "sku_not_found")
	f.callAs(t, other, "POST", "/v1/payments", basket("o", `[{"sku":"book","quantity":1}]`)).problem(t, 404, "sku_not_found")
	f.callAs(t, other, "PUT", "/v1/stock/book", `{"on_hand":1}`).is(t, 200)
	f.stock(t, "book", 5, 0)
	f.callAs(t, other, "POST", "/v1/payments", basket("o", `[{"sku":"book","quantity":1}]`)).is(t, 201)
	f.stock(t, "book", 5, 0)
	f.call(t, "POST", "/v1/payments", basket("o", `[{"sku":"book","quantity":2}]`)).is(t, 201)
	f.stock(t, "book", 5, 2)
	f.RequireInvariants(t)
}

func TestAnOrderReservesItsItems(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	f.put(t, "book", 5)
	f.put(t, "pen", 1)
	body := basket("o", `[{"sku":"pen","quantity":1},{"sku":"book","quantity":1},{"sku":"book","quantity":2}]`)
	got := f.call(t, "POST", "/v1/payments", body).is(t, 201).fields(t)
	require.JSONEq(t, `[{"sku":"book","quantity":3},{"sku":"pen","quantity":1}]`, marshal(t, got["items"]))
	f.stock(t, "book", 5, 3)
	f.stock(t, "pen", 1, 1)

	for range 3 { // the same again, in another order too
		f.call(t, "POST", "/v1/payments", body).is(t, 200)
		f.call(t, "POST", "/v1/payments", basket("o", `[{"sku":"book","quantity":3},{"sku":"pen","quantity":1}]`)).is(t, 200)
	}
	f.call(t, "POST", "/v1/payments", basket("o", `[{"sku":"book","quantity":3}]`)).problem(t, 422, "out_trade_no_reused")
	f.call(t, "POST", "/v1/payments", orderBody("o")).problem(t, 422, "out_trade_no_reused")
	f.stock(t, "book", 5, 3)
	f.call(t, "PUT", "/v1/stock/book", `{"on_hand":2}`).problem(t, 409, "below_reserved")
	f.call(t, "PUT", "/v1/stock/book", `{"on_hand":3}`).is(t, 200)

	// One item that is not there leaves nothing of the others, and no order.
	f.put(t, "ink", 9)
	f.call(t, "POST", "/v1/payments", basket("bad", `[{"sku":"ink","quantity":1},{"sku":"pen","quantity":1}]`)).problem(t, 409, "out_of_stock")
	f.call(t, "POST", "/v1/payments", basket("bad", `[{"sku":"ink","quantity":1},{"sku":"nothing","quantity":1}]`)).problem(t, 404, "sku_not_found")
	f.call(t, "GET", "/v1/payments/bad", "").problem(t, 404, "payment_not_found")
	f.stock(t, "ink", 9, 0)
	f.call(t, "POST", "/v1/payments", basket("bad", `[{"sku":"ink","quantity":1}]`)).is(t, 201) // the number was not taken
	f.RequireInvariants(t)
	f.requireNoError(t)
}

func TestBadItemsAreRefused(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	f.put(t, "book", 5)
	many := strings.TrimSuffix(strings.Repeat(`{"sku":"book","quantity":1},`, 51), ",")
	for _, c := range []struct{ items, code string }{
		{`{}`, "items_invalid"},
		{`"book"`, "items_invalid"},
		{`[null]`, "items_invalid"},
		{`[{}]`, "items_invalid"},
		{`[{"sku":"book"}]`, "items_invalid"},
		{`[{"quantity":1}]`, "items_invalid"},
		{`[{"sku":"book","quantity":0}]`, "items_invalid"},
		{`[{"sku":"book","quantity":-1}]`, "items_invalid"},
		{`[{"sku":"book","quantity":1.5}]`, "items_invalid"},
		{`[{"sku":"book","quantity":"1"}]`, "items_invalid"},
		{`[{"sku":"book","quantity":2147483648}]`, "items_invalid"},
		{`[{"sku":1,"quantity":1}]`, "items_invalid"},
		{`[{"sku":"a b","quantity":1}]`, "items_invalid"},
		{`[{"sku":"\u0000","quantity":1}]`, "items_invalid"},
		{`[{"sku":"book","quantity":1,"price":1}]`, "field_unknown"},
		{"[" + many + "]", "items_invalid"},
	} {
		t.Run(fmt.Sprintf("%.60s", c.items), func(t *testing.T) {
			f.call(t, "POST", "/v1/payments", basket("o", c.items)).problem(t, 400, c.code)
		})
	}
	f.call(t, "POST", "/v1/payments", and(orderBody("o"), `"redemption_code":"yes"`)).problem(t, 400, "redemption_code_invalid")
	require.Zero(t, f.Count(t, "SELECT count(*) FROM payments"))
	f.stock(t, "book", 5, 0)
	got := f.call(t, "POST", "/v1/payments", basket("o", "[]")).is(t, 201).fields(t)
	require.Equal(t, []any{}, got["items"])
	f.call(t, "POST", "/v1/payments", orderBody("o")).is(t, 200) // none and absent are the same
	f.call(t, "POST", "/v1/payments", basket("o", "null")).is(t, 200)
	f.requireNoError(t)
}

func TestItemsLeaveWhenTheOrderIsPaid(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	f.put(t, "book", 5)
	body := basket("o", `[{"sku":"book","quantity":2}]`)
	f.call(t, "POST", "/v1/payments", body).is(t, 201)
	f.report(t, testhouse.Paid(t, "tx", "o", 9900))
	f.stock(t, "book", 5, 2) // reported is not booked
	require.Equal(t, []payment.Outcome{payment.Credited}, f.driver.Book(t, f.Books))
	f.stock(t, "book", 3, 0)

	f.report(t, testhouse.Paid(t, "tx", "o", 9900))   // again
	f.report(t, testhouse.Paid(t, "tx-2", "o", 9900)) // and by another transaction
	require.Equal(t, []payment.Outcome{payment.SecondPayment}, f.driver.Book(t, f.Books))
	f.call(t, "POST", "/v1/payments/o/close", "").problem(t, 409, "already_paid")
	f.call(t, "POST", "/v1/payments", body).is(t, 200)
	f.call(t, "POST", "/v1/payments/o/ship", "").is(t, 200)
	f.call(t, "POST", "/v1/payments/o/complete", "").is(t, 200)
	f.stock(t, "book", 3, 0)
	f.RequireInvariants(t)
}

func TestItemsAreGivenBackWhenTheOrderIsClosed(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	f.put(t, "book", 5)
	f.call(t, "POST", "/v1/payments", basket("closed", `[{"sku":"book","quantity":2}]`)).is(t, 201)
	f.call(t, "POST", "/v1/payments", and(basket("expired", `[{"sku":"book","quantity":1}]`), `"expires_in_seconds":60`)).is(t, 201)
	f.call(t, "POST", "/v1/payments", basket("by channel", `[]`)).problem(t, 400, "out_trade_no_invalid")
	f.call(t, "POST", "/v1/payments", basket("by-channel", `[{"sku":"book","quantity":1}]`)).is(t, 201)
	f.stock(t, "book", 5, 4)
	for range 2 {
		f.call(t, "POST", "/v1/payments/closed/close", "").is(t, 200)
		f.stock(t, "book", 5, 2)
	}
	f.report(t, testhouse.Body(t, "payment.closed", "tx-closed", "by-channel", 9900, "CNY"))
	require.Equal(t, []payment.Outcome{payment.ClosedOrder}, f.driver.Book(t, f.Books))
	f.stock(t, "book", 5, 1)

	f.Clock.Pass(61 * time.Second)
	moved, err := f.Entry.Redrive(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, moved)
	got := f.call(t, "GET", "/v1/payments/expired", "").fields(t)
	require.Equal(t, []any{"CLOSED", "expired"}, []any{got["state"], got["close_reason"]})
	f.stock(t, "book", 5, 0)

	// Money that comes too late takes no goods, and the same request makes no second order.
	f.report(t, testhouse.Paid(t, "tx", "closed", 9900))
	require.Equal(t, []payment.Outcome{payment.LatePayment}, f.driver.Book(t, f.Books))
	f.call(t, "POST", "/v1/payments", basket("closed", `[{"sku":"book","quantity":2}]`)).is(t, 200)
	f.stock(t, "book", 5, 0)
	f.RequireInvariants(t)
}

func TestTenBuyersOfFivePieces(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	f.put(t, "book", 5)
	replies := f.atOnce(t, 20, func(i int) *http.Request { // each buyer twice
		r := f.request(t, "POST", "/v1/payments", basket(fmt.Sprint("o", i/2), `[{"sku":"book","quantity":1}]`))
		r.Header.Set("Authorization", "Bearer "+f.APIKey)
		return r
	})
	made := 0
	for _, r := range replies {
		switch r.StatusCode {
		case 201:
			made++
		case 200:
		default:
			r.problem(t, 409, "out_of_stock")
		}
	}
	require.Equal(t, 5, made)
	f.stock(t, "book", 5, 5)
	for i, number := range f.call(t, "GET", "/v1/payments", "").items(t, "out_trade_no") {
		f.pay(t, fmt.Sprint("tx-", i), number.(string), 9900)
	}
	f.stock(t, "book", 0, 0)
	f.call(t, "POST", "/v1/payments", basket("late", `[{"sku":"book","quantity":1}]`)).problem(t, 409, "out_of_stock")
	f.RequireInvariants(t)
	f.requireNoError(t)
}

func TestACodeIsIssuedOnceWithTheCredit(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	code := func(number string) any {
		t.Helper()
		return f.call(t, "GET", "/v1/payments/"+number, "").is(t, 200).fields(t)["redemption_code"]
	}
	asked := and(orderBody("asked"), `"redemption_code":true`)
	require.NotContains(t, f.call(t, "POST", "/v1/payments", asked).is(t, 201).fields(t), "redemption_code")
	f.call(t, "POST", "/v1/payments", orderBody("asked")).problem(t, 422, "out_trade_no_reused")
	f.call(t, "POST", "/v1/payments", and(orderBody("plain"), `"redemption_code":false`)).is(t, 201)
	f.call(t, "POST", "/v1/payments", and(orderBody("closed"), `"redemption_code":true`)).is(t, 201)
	f.report(t, testhouse.Paid(t, "tx", "asked", 9900))
	require.Nil(t, code("asked"), "reported is not booked")
	f.driver.Book(t, f.Books)
	issued := code("asked")
	require.NotNil(t, issued)

	f.report(t, testhouse.Paid(t, "tx", "asked", 9900))
	f.report(t, testhouse.Paid(t, "tx-2", "asked", 9900))
	require.Equal(t, []payment.Outcome{payment.SecondPayment}, f.driver.Book(t, f.Books))
	require.Equal(t, issued, f.call(t, "POST", "/v1/payments", asked).is(t, 200).fields(t)["redemption_code"])
	f.call(t, "POST", "/v1/payments/asked/ship", "").is(t, 200)
	require.Equal(t, issued, code("asked"))

	f.pay(t, "tx-plain", "plain", 9900)
	require.Nil(t, code("plain"))
	f.call(t, "POST", "/v1/payments/closed/close", "").is(t, 200)
	f.report(t, testhouse.Paid(t, "tx-late", "closed", 9900))
	require.Equal(t, []payment.Outcome{payment.LatePayment}, f.driver.Book(t, f.Books))
	require.Nil(t, code("closed"))
	require.Equal(t, 1, f.Count(t, "SELECT count(*) FROM redemption_codes"))

	// Another order, another code.
	f.call(t, "POST", "/v1/payments", and(orderBody("next"), `"redemption_code":true`)).is(t, 201)
	f.pay(t, "tx-next", "next", 9900)
	require.NotEqual(t, issued, code("next"))
	require.Equal(t, []any{code("next"), nil, nil, issued}, f.call(t, "GET", "/v1/payments", "").items(t, "redemption_code"))
	f.RequireInvariants(t)
}
