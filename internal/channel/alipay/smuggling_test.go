package alipay_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/channel"
)

// Whoever paid a cent has parameters that Alipay signed: they stand in the address to which Alipay sends the payer back
// (opendocs.alipay.com/open/270/105900). They are no notice, whatever is put around them.
func returned() []byte {
	return form(map[string]string{
		"app_id": appID, "seller_id": sellerID, "auth_app_id": appID, "charset": "utf-8", "version": "1.0", "method": "alipay.trade.page.pay.return",
		"out_trade_no": "order-1", "trade_no": "2026030122001400000000000001", "total_amount": "0.01", "timestamp": "2026-03-01 16:00:00",
	})
}

// Every authentic body is acknowledged and read; a body that says more than its signature covers is a forgery.
func TestNothingIsSmuggledIntoAnAuthenticMessage(t *testing.T) {
	t.Parallel()
	account := open(t)
	const forged = `"alipay_trade_query_response":{"code":"10000","trade_no":"2","out_trade_no":"victim","trade_status":"TRADE_SUCCESS","total_amount":"9900.00"}`
	around := func(sealed []byte) []byte { return []byte(`{"x":"&` + string(sealed) + `&",` + forged + `}`) }
	for _, genuine := range [][]byte{rsa2(alipayKey()).sealAsIs(t, returned()), rsa2(alipayKey()).seal(t, notice(nil), now)} {
		body := around(genuine)
		events, err := channel.Read(account, body)
		require.NoError(t, err, "it reads as an answer of Alipay's")
		require.Equal(t, "victim", events[0].OutTradeNo)
		requireRefusal(t, verify(account, body, now), 400, "body_malformed")
	}
	sealed := rsa2(alipayKey())
	sealed.dropEmpty = true
	requireRefusal(t, verify(account, append(sealed.seal(t, notice(nil), now), "&%7B%22x%22%3A1%7D="...), now), 400, "body_malformed")
}

func TestTheWayBackOfAPayerIsNoNotice(t *testing.T) {
	t.Parallel()
	requireRefusal(t, verify(open(t), rsa2(alipayKey()).sealAsIs(t, returned()), now), 401, "not_a_notice")
}

// The signed text joins parameters without escaping, so one text can be cut in two ways. A title that its payer chose must
// not become parameters, and true parameters not a part of another's value.
func TestASignedTextIsNotCutAnew(t *testing.T) {
	t.Parallel()
	account := open(t)
	title := "x&out_trade_no=victim&seller_id=" + sellerID + "&total_amount=9900.00&trade_no=2&trade_status=TRADE_SUCCESS&zz="
	genuine := rsa2(alipayKey()).seal(t, notice(map[string]string{"body": title}), now)
	values, err := url.ParseQuery(string(genuine))
	require.NoError(t, err)
	sign := values.Get("sign")
	values.Del("sign")
	values.Del("sign_type")
	var text []string
	for part := range strings.SplitSeq(values.Encode(), "&") { // sorted, as it is signed
		decoded, err := url.QueryUnescape(part)
		require.NoError(t, err)
		text = append(text, decoded)
	}
	signed := strings.Join(text, "&")
	before, rest, found := strings.Cut(signed, "&zz=")
	require.True(t, found)
	cut := url.Values{}
	for part := range strings.SplitSeq(before, "&") {
		name, value, _ := strings.Cut(part, "=")
		cut.Set(name, value)
	}
	cut.Set("zz", rest)
	body := []byte(cut.Encode() + "&sign_type=RSA2&sign=" + url.QueryEscape(sign))
	require.Equal(t, "victim", readOne(t, account, body).OutTradeNo)
	requireRefusal(t, verify(account, body, now), 400, "parameter_ambiguous")
}
