package api_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/testhouse"
)

func (f *face) balance(t *testing.T, account string) string {
	t.Helper()
	got := f.call(t, "GET", "/v1/accounts/"+account, "").is(t, 200).fields(t)
	require.Equal(t, got["balance"], got["available"], "nothing is held")
	return got["balance"].(json.Number).String()
}

func TestACreditRaisesTheMerchantsBalance(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	channelAccount := "channel:standard:" + f.Account.Name
	require.Equal(t, "0", f.balance(t, "merchant"))
	f.call(t, "GET", "/v1/accounts/"+channelAccount, "").problem(t, 404, "account_not_found") // no money has come through it yet

	f.order(t, "o")
	f.report(t, testhouse.Paid(t, "tx", "o", 9900))
	require.Equal(t, "0", f.balance(t, "merchant"), "reported is not booked")
	f.driver.Book(t, f.Books)
	require.Equal(t, "9900", f.balance(t, "merchant"))
	require.Equal(t, "-9900", f.balance(t, channelAccount))
	got := f.call(t, "GET", "/v1/accounts/merchant", "").fields(t)
	require.Equal(t, json.Number("1"), got["version"])
	require.Equal(t, false, got["allow_negative"])
}

func TestAnAccountIsOfOneCurrency(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	f.call(t, "GET", "/v1/accounts/merchant?currency=USD", "").problem(t, 404, "account_not_found")
	f.call(t, "GET", "/v1/accounts/merchant/entries?currency=USD", "").problem(t, 404, "account_not_found")

	f.call(t, "POST", "/v1/payments", `{"out_trade_no":"usd","amount":500,"currency":"USD"}`).is(t, 201)
	f.report(t, testhouse.Body(t, "payment.succeeded", "tx", "usd", 500, "USD"))
	require.Equal(t, []payment.Outcome{payment.Credited}, f.driver.Book(t, f.Books))
	require.Equal(t, "500", f.balance(t, "merchant?currency=USD"))
	require.Equal(t, "0", f.balance(t, "merchant?currency=CNY"))
	require.Equal(t, "0", f.balance(t, "merchant"), "without a currency it is the tenant's own")
	require.Equal(t, []any{json.Number("500")}, f.call(t, "GET", "/v1/accounts/merchant/entries?currency=USD", "").items(t, "amount"))
	require.Empty(t, f.call(t, "GET", "/v1/accounts/merchant/entries", "").items(t, "amount"))
}

func TestAStatementIsPagedNewestFirstAndAddsUp(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	var amounts, balances []any
	sum := int64(0)
	for i := range int64(5) {
		number, amount := fmt.Sprint("o", i), 100+i
		f.call(t, "POST", "/v1/payments", fmt.Sprintf(`{"out_trade_no":%q,"amount":%d,"currency":"CNY"}`, number, amount)).is(t, 201)
		f.pay(t, "tx-"+number, number, amount)
		sum += amount
		amounts = append([]any{json.Number(fmt.Sprint(amount))}, amounts...)
		balances = append([]any{json.Number(fmt.Sprint(sum))}, balances...)
	}
	require.Equal(t, amounts, f.call(t, "GET", "/v1/accounts/merchant/entries", "").items(t, "amount"))
	for _, limit := range []int{1, 2, 5} {
		path := fmt.Sprintf("/v1/accounts/merchant/entries?limit=%d", limit)
		require.Equal(t, amounts, f.pages(t, path, "amount", nil))
		require.Equal(t, balances, f.pages(t, path, "balance_after", nil))
	}
	require.Equal(t, fmt.Sprint(sum), f.balance(t, "merchant"))
}
