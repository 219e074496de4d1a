package alipay_test

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/channel/alipay"
)

// Keys of these tests, made once.
var (
	appKey    = sync.OnceValue(func() *rsa.PrivateKey { return newKey(2048) })
	alipayKey = sync.OnceValue(func() *rsa.PrivateKey { return newKey(2048) })
	otherKey  = sync.OnceValue(func() *rsa.PrivateKey { return newKey(2048) })
)

func newKey(bits int) *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		panic(err)
	}
	return key
}

const (
	appID    = "2021000000000001"
	sellerID = "2088000000000001"
)

var shanghai = time.FixedZone("Asia/Shanghai", 8*60*60)

const timeLayout = "2006-01-02 15:04:05"

func publicText(t *testing.T, key *rsa.PublicKey) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	require.NoError(t, err)
	return base64.StdEncoding.EncodeToString(der)
}

func privateText(key *rsa.PrivateKey) string {
	return base64.StdEncoding.EncodeToString(x509.MarshalPKCS1PrivateKey(key))
}

func goodConfig(t *testing.T) alipay.Config {
	t.Helper()
	return alipay.Config{AppID: appID, SellerID: sellerID, AppPrivateKey: privateText(appKey()), AlipayPublicKey: publicText(t, &alipayKey().PublicKey)}
}

func toJSON(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return text
}

func open(t *testing.T, change ...func(*alipay.Config)) channel.Account {
	t.Helper()
	cfg := goodConfig(t)
	for _, c := range change {
		c(&cfg)
	}
	account, err := alipay.Channel{}.Open("main", toJSON(t, cfg))
	require.NoError(t, err)
	return account
}

// signer signs notices as Alipay does, in code of its own.
type signer struct {
	key       *rsa.PrivateKey
	hash      crypto.Hash
	signType  string
	dropEmpty bool
}

func rsa2(key *rsa.PrivateKey) signer { return signer{key: key, hash: crypto.SHA256, signType: "RSA2"} }

// seal adds notify_time, sign_type and sign to a body, which is signed over the bytes that its parameters are.
func (s signer) seal(t *testing.T, body []byte, at time.Time) []byte {
	t.Helper()
	if len(body) > 0 {
		body = append(slices.Clone(body), '&')
	}
	body = append(body, "notify_time="+url.QueryEscape(at.In(shanghai).Format(timeLayout))...)
	return s.sealAsIs(t, body)
}

func (s signer) sealAsIs(t *testing.T, body []byte) []byte {
	t.Helper()
	type pair struct{ name, value string }
	var pairs []pair
	for part := range strings.SplitSeq(string(body), "&") {
		name, value, _ := strings.Cut(part, "=")
		var err error
		name, err = url.QueryUnescape(name)
		require.NoError(t, err)
		value, err = url.QueryUnescape(value)
		require.NoError(t, err)
		if value != "" || !s.dropEmpty {
			pairs = append(pairs, pair{name, value})
		}
	}
	slices.SortFunc(pairs, func(a, b pair) int { return strings.Compare(a.name, b.name) })
	var text []string
	for _, p := range pairs {
		text = append(text, p.name+"="+p.value)
	}
	digest := s.hash.New()
	digest.Write([]byte(strings.Join(text, "&")))
	signature, err := rsa.SignPKCS1v15(rand.Reader, s.key, s.hash, digest.Sum(nil))
	require.NoError(t, err)
	sealed := string(body)
	if s.signType != "" {
		sealed += "&sign_type=" + s.signType
	}
	return []byte(sealed + "&sign=" + url.QueryEscape(base64.StdEncoding.EncodeToString(signature)))
}

func reseal(sealed []byte, signature string) []byte {
	before, _, _ := strings.Cut(string(sealed), "&sign=")
	return []byte(before + "&sign=" + url.QueryEscape(signature))
}

func verify(account channel.Account, body []byte, at time.Time) error {
	return account.Verify(channel.Notification{Header: http.Header{}, Body: body, ReceivedAt: at})
}

// form writes parameters; "-" leaves one out.
func form(params map[string]string) []byte {
	values := url.Values{}
	for name, value := range params {
		if value != "-" {
			values.Set(name, value)
		}
	}
	return []byte(values.Encode())
}

// notice is a payment's notice, with changes.
func notice(change map[string]string) []byte {
	params := map[string]string{
		"notify_type": "trade_status_sync", "notify_id": "ac05099524730693a8b330c5ecf72da9786", "app_id": appID, "charset": "utf-8", "version": "1.0",
		"trade_no": "2026030122001400000000000001", "out_trade_no": "order-1", "seller_id": sellerID, "trade_status": "TRADE_SUCCESS",
		"total_amount": "99.00", "receipt_amount": "99.00", "buyer_pay_amount": "89.00", "gmt_create": "2026-03-01 15:59:00", "gmt_payment": "2026-03-01 16:00:00",
	}
	for name, value := range change {
		params[name] = value
	}
	return form(params)
}

func readOne(t *testing.T, account channel.Account, body []byte) channel.Event {
	t.Helper()
	events, err := channel.Read(account, body)
	require.NoError(t, err)
	require.Len(t, events, 1)
	return events[0]
}

func requireRefusal(t *testing.T, err error, status int, code string) {
	t.Helper()
	var refusal *channel.Refusal
	require.ErrorAs(t, err, &refusal)
	require.Equal(t, code, refusal.Code)
	require.Equal(t, status, refusal.Status)
}

func requireUnusable(t *testing.T, account channel.Account, body []byte) {
	t.Helper()
	events, err := channel.Read(account, body)
	var unusable *channel.Unusable
	require.ErrorAs(t, err, &unusable)
	require.NotEmpty(t, unusable.Reason)
	require.Empty(t, events)
}
