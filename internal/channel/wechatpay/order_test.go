package wechatpay_test

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/channel"
)

func requireRejected(t *testing.T, err error, code string) {
	t.Helper()
	var rejection *channel.Rejection
	require.ErrorAs(t, err, &rejection)
	require.Equal(t, code, rejection.Code)
	require.NotEmpty(t, rejection.Detail)
	require.True(t, channel.Definite(err))
}

func data(t *testing.T, p channel.Prepaid) map[string]string {
	t.Helper()
	var fields map[string]string
	require.NoError(t, json.Unmarshal(p.Data, &fields))
	return fields
}

// requireSigned holds a text to the merchant's key, as the payer's device would.
func requireSigned(t *testing.T, h *house, signature string, lines ...string) {
	t.Helper()
	var config struct {
		Key string `json:"merchant_private_key"`
	}
	require.NoError(t, json.Unmarshal(h.sim.Config("http://localhost"), &config))
	block, _ := pem.Decode([]byte(config.Key))
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	require.NoError(t, err)
	raw, err := base64.StdEncoding.DecodeString(signature)
	require.NoError(t, err)
	sum := sha256.Sum256([]byte(strings.Join(lines, "\n") + "\n"))
	require.NoError(t, rsa.VerifyPKCS1v15(&key.(*rsa.PrivateKey).PublicKey, crypto.SHA256, sum[:], raw))
}

func TestEachMethodGivesWhatThePayersDeviceNeeds(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)

	native, err := h.Prepay(t.Context(), h.order("native-1", 100))
	require.NoError(t, err)
	require.Contains(t, data(t, native)["code_url"], "weixin://")

	o := h.order("jsapi-1", 100)
	o.Method, o.Payer = "jsapi", "oUpF8uMuAJO_M2pxb1Q9zNjWeS6o"
	jsapi, err := h.Prepay(t.Context(), o)
	require.NoError(t, err)
	p := data(t, jsapi)
	require.Equal(t, "RSA", p["signType"])
	require.Contains(t, p["package"], "prepay_id=wx")
	requireSigned(t, h, p["paySign"], p["appId"], p["timeStamp"], p["nonceStr"], p["package"])

	o = h.order("app-00001", 100)
	o.Method = "app"
	app, err := h.Prepay(t.Context(), o)
	require.NoError(t, err)
	p = data(t, app)
	require.Equal(t, []string{"Sign=WXPay", h.account.Identity()}, []string{p["package"], p["partnerid"]})
	requireSigned(t, h, p["sign"], p["appid"], p["timestamp"], p["noncestr"], p["prepayid"])

	o = h.order("h5-000001", 100)
	o.Method, o.ClientIP, o.ReturnURL = "h5", "14.23.150.211", "https://shop.example/done?a=b&c=d"
	page, err := h.Prepay(t.Context(), o)
	require.NoError(t, err)
	u, err := url.Parse(data(t, page)["h5_url"])
	require.NoError(t, err)
	require.Equal(t, o.ReturnURL, u.Query().Get("redirect_url"))
}

func TestAnOrderIsAnnouncedAsItIs(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	o := h.order("a_b-c|d*e", 1234)
	o.Method, o.Payer, o.ClientIP, o.Shared = "jsapi", "oPayer", "14.23.150.211", true
	o.Description = strings.Repeat("茶", 60)
	o.ExpiresAt = time.Date(2099, 3, 1, 8, 0, 0, 123, time.UTC)
	_, err := h.Prepay(t.Context(), o)
	require.NoError(t, err)
	said, known := h.sim.Announcement(o.OutTradeNo)
	require.True(t, known)
	require.JSONEq(t, `{"appid":"wx0000000000000001","mchid":"1900000001","description":"`+strings.Repeat("茶", 42)+`","out_trade_no":"a_b-c|d*e","attach":"",
		"time_expire":"2099-03-01T16:00:00+08:00","notify_url":"`+h.callback+`","amount":{"total":1234,"currency":"CNY"},"payer":{"openid":"oPayer"},
		"scene_info":{"payer_client_ip":"14.23.150.211","h5_info":null},"settle_info":{"profit_sharing":true}}`, string(said))
	standing, err := h.Query(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, channel.OrderOpen, standing.State, "an odd number is found under its own name")
}

func TestWhatWeChatPayWouldNotTakeIsRefusedBeforeItIsAsked(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	change := func(with func(*channel.Order)) channel.Order {
		o := h.order("order-1", 100)
		with(&o)
		return o
	}
	for code, o := range map[string]channel.Order{
		"out_trade_no_invalid": change(func(o *channel.Order) { o.OutTradeNo = "short" }),
		"amount_invalid":       change(func(o *channel.Order) { o.Amount = 0 }),
		"payer_missing":        change(func(o *channel.Order) { o.Method = "jsapi" }),
		"client_ip_missing":    change(func(o *channel.Order) { o.Method = "h5" }),
	} {
		_, err := h.Prepay(t.Context(), o)
		requireRejected(t, err, code)
	}
	for _, number := range []string{"a.b.c.d.e", strings.Repeat("7", 33), "order 1", "órder-1", ""} {
		_, err := h.Prepay(t.Context(), change(func(o *channel.Order) { o.OutTradeNo = number }))
		requireRejected(t, err, "out_trade_no_invalid")
		standing, err := h.Query(t.Context(), channel.Order{OutTradeNo: number})
		require.NoError(t, err)
		require.Equal(t, channel.OrderUnknown, standing.State)
		require.NoError(t, h.Close(t.Context(), channel.Order{OutTradeNo: number}))
	}
	for _, o := range []channel.Order{
		change(func(o *channel.Order) { o.Currency = "USD" }),
		change(func(o *channel.Order) { o.Method = "micropay" }),
	} {
		_, err := h.Prepay(t.Context(), o)
		require.ErrorIs(t, err, channel.ErrUnsupported)
		require.True(t, channel.Definite(err))
	}
	require.Empty(t, h.sim.Core().Calls(""))
}

func TestAnOrderCanBeAnnouncedAgainAndNotAnother(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	o := h.order("order-1", 100)
	for range 2 {
		_, err := h.Prepay(t.Context(), o)
		require.NoError(t, err)
	}
	other := o
	other.Amount = 200
	_, err := h.Prepay(t.Context(), other)
	requireRejected(t, err, "OUT_TRADE_NO_USED")
	require.Len(t, h.sim.Orders(), 1)

	require.NoError(t, h.sim.Pay(o.OutTradeNo))
	_, err = h.Prepay(t.Context(), o)
	require.ErrorIs(t, err, channel.ErrPaid)
	require.False(t, channel.Definite(err), "a paid order is none that was refused")

	closed := h.order("order-2", 100)
	_, err = h.Prepay(t.Context(), closed)
	require.NoError(t, err)
	require.NoError(t, h.Close(t.Context(), closed))
	_, err = h.Prepay(t.Context(), closed)
	requireRejected(t, err, "ORDER_CLOSED")
}

func TestAQueryTellsWhatBecameOfAnOrder(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	o := h.order("order-1", 100)
	state := func() channel.OrderState {
		standing, err := h.Query(t.Context(), o)
		require.NoError(t, err)
		require.Equal(t, standing.State == channel.OrderPaid, standing.Body != nil)
		return standing.State
	}
	require.Equal(t, channel.OrderUnknown, state())
	transaction := h.paid(t, o)
	require.Equal(t, channel.OrderPaid, state())
	_, err := h.Refund(t.Context(), h.refundOf(transaction, "refund-1", 40, 100))
	require.NoError(t, err)
	require.Equal(t, channel.OrderPaid, state(), "what was refunded was paid")

	o = h.order("order-2", 100)
	o.ExpiresAt = time.Now().Add(-time.Minute)
	_, err = h.Prepay(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, channel.OrderClosed, state())
}

func TestClosing(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	o := h.order("order-1", 100)
	require.NoError(t, h.Close(t.Context(), o), "what was never announced is closed")
	_, err := h.Prepay(t.Context(), o)
	require.NoError(t, err)
	for range 2 {
		require.NoError(t, h.Close(t.Context(), o))
	}
	require.Error(t, h.sim.Pay(o.OutTradeNo))

	paid := h.order("order-2", 100)
	h.paid(t, paid)
	require.ErrorIs(t, h.Close(t.Context(), paid), channel.ErrPaid)
}

func TestTheSameFactByCallbackAndByQueryIsTheSameEvent(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	o := h.order("order-1", 1234)
	_, err := h.Prepay(t.Context(), o)
	require.NoError(t, err)
	require.NoError(t, h.sim.PayWithCoupon(o.OutTradeNo, 34))
	standing, err := h.Query(t.Context(), o)
	require.NoError(t, err)
	byQuery := readOne(t, h.account, standing.Body)
	require.Equal(t, []channel.Event{byQuery}, h.received())
	require.Equal(t, channel.PaySuccess, byQuery.Kind)
	require.Equal(t, int64(1200), byQuery.PayerAmount)
	require.Empty(t, byQuery.Mismatch)

	for number, amount := range map[string]int64{"refund-1": 100, "refund-2": 1} {
		refund := h.refundOf(byQuery.TransactionID, number, amount, 1234)
		_, err = h.Refund(t.Context(), refund)
		require.NoError(t, err)
		standing, err := h.QueryRefund(t.Context(), refund)
		require.NoError(t, err)
		require.Contains(t, h.received(), readOne(t, h.account, standing.Body))
	}
	again, err := h.Query(t.Context(), o)
	require.NoError(t, err)
	require.NotEqual(t, standing.Body, again.Body)
	require.Equal(t, byQuery, readOne(t, h.account, again.Body), "refunds do not make another payment of it")
}
