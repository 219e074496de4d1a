package wechatpay_test

import (
	"crypto"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/channel/wechatpay"
)

// What the tests' account is made of.
const (
	mchID    = "1900000109"
	appID    = "wxd678efh567hg6787"
	apiV3Key = "0123456789abcdef0123456789abcdef"
	publicID = "PUB_KEY_ID_0119000001092024120300291900000000"
)

// at is when the tests' messages are sent; the certificates are valid then.
var at = time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)

// platform is WeChat Pay's side and the merchant's, made once: RSA keys are slow to make.
type platform struct {
	merchant, public, old, fresh, stranger *rsa.PrivateKey
	oldSerial, freshSerial                 string
	oldCert, freshCert, expiredCert        string
}

var thePlatform = sync.OnceValue(func() platform {
	key := func() *rsa.PrivateKey {
		k, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			panic(err)
		}
		return k
	}
	p := platform{merchant: key(), public: key(), old: key(), fresh: key(), stranger: key(), oldSerial: "5157F09EFDC096DE15EBE81A47057A72", freshSerial: "7B980DF969FB3E71B0E556F912192F1E"}
	p.oldCert = certificate(p.old, p.oldSerial, at.AddDate(-5, 1, 0), at.AddDate(0, 1, 0))
	p.freshCert = certificate(p.fresh, p.freshSerial, at.AddDate(0, -1, 0), at.AddDate(50, 0, 0))
	p.expiredCert = certificate(p.old, p.oldSerial, at.AddDate(-6, 0, 0), at.AddDate(-1, 0, 0))
	return p
})

func certificate(key *rsa.PrivateKey, serial string, from, until time.Time) string {
	number, ok := new(big.Int).SetString(serial, 16)
	if !ok {
		panic(serial)
	}
	template := &x509.Certificate{SerialNumber: number, Subject: pkix.Name{CommonName: "Tenpay.com sign"}, NotBefore: from, NotAfter: until}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		panic(err)
	}
	return pemOf("CERTIFICATE", der)
}

func pemOf(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func privatePEM(key any) string {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		panic(err)
	}
	return pemOf("PRIVATE KEY", der)
}

func publicPEM(key any) string {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		panic(err)
	}
	return pemOf("PUBLIC KEY", der)
}

func ellipticKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	return key
}

// settings is a valid configuration with changes; nil takes a field away.
func settings(changes map[string]any) []byte {
	p := thePlatform()
	fields := map[string]any{
		"mch_id": mchID, "app_id": appID, "api_v3_key": apiV3Key, "merchant_serial": "3775B6A45ACD588826D15E583A95F5DD12345678",
		"merchant_private_key":  privatePEM(p.merchant),
		"public_keys":           map[string]string{publicID: publicPEM(&p.public.PublicKey)},
		"platform_certificates": map[string]string{p.oldSerial: p.oldCert, p.freshSerial: p.freshCert},
	}
	maps.Copy(fields, changes)
	maps.DeleteFunc(fields, func(_ string, v any) bool { return v == nil })
	config, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	return config
}

func openAccount(t testing.TB, config []byte) channel.Account {
	t.Helper()
	account, err := wechatpay.Channel{}.Open("main", config)
	require.NoError(t, err)
	return account
}

// sign gives the headers of a body under a key that is named by an id.
func sign(key *rsa.PrivateKey, id string, body []byte, at time.Time) http.Header {
	timestamp := strconv.FormatInt(at.Unix(), 10)
	const nonce = "EcZ9Cmy4Xyx1i6RlJQzLcCyEqDa26NBz"
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%s\n", timestamp, nonce, body))
	signature, err := rsa.SignPKCS1v15(nil, key, crypto.SHA256, sum[:])
	if err != nil {
		panic(err)
	}
	h := http.Header{}
	h.Set("Wechatpay-Serial", id)
	h.Set("Wechatpay-Timestamp", timestamp)
	h.Set("Wechatpay-Nonce", nonce)
	h.Set("Wechatpay-Signature", base64.StdEncoding.EncodeToString(signature))
	return h
}

func verify(account channel.Account, h http.Header, body []byte) error {
	return account.Verify(channel.Notification{Header: h, Body: body, ReceivedAt: at})
}

// sealed is the resource of facts, encrypted under a key.
func sealed(key, associated string, facts []byte) map[string]string {
	block, err := aes.NewCipher([]byte(key))
	if err != nil {
		panic(err)
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		panic(err)
	}
	const nonce = "Kj7QIyUiYx1q"
	return map[string]string{
		"algorithm": "AEAD_AES_256_GCM", "nonce": nonce, "associated_data": associated, "original_type": associated,
		"ciphertext": base64.StdEncoding.EncodeToString(gcm.Seal(nil, []byte(nonce), facts, []byte(associated))),
	}
}

// notice is a notice of a type with these facts.
func notice(eventType, originalType string, facts any) []byte {
	plain, isText := facts.(string)
	if !isText {
		text, err := json.Marshal(facts)
		if err != nil {
			panic(err)
		}
		plain = string(text)
	}
	return envelope(eventType, sealed(apiV3Key, originalType, []byte(plain)))
}

func envelope(eventType string, resource any) []byte {
	body, err := json.Marshal(map[string]any{
		"id": "EV-2018022511223320873", "create_time": "2015-05-20T13:29:35+08:00", "resource_type": "encrypt-resource",
		"event_type": eventType, "summary": "支付成功", "resource": resource,
	})
	if err != nil {
		panic(err)
	}
	return body
}

// paymentFacts are those of a payment, with changes.
func paymentFacts(changes map[string]any) map[string]any {
	facts := map[string]any{
		"transaction_id": "4200000001", "out_trade_no": "order-1", "mchid": mchID, "appid": appID, "trade_state": "SUCCESS", "trade_type": "NATIVE",
		"bank_type": "CMC", "attach": "", "success_time": "2026-03-01T16:00:00+08:00", "payer": map[string]any{"openid": "oUpF8uMuAJO_M2pxb1Q9zNjWeS6o"},
		"amount": map[string]any{"total": 9900, "payer_total": 9000, "currency": "CNY", "payer_currency": "CNY"},
	}
	maps.Copy(facts, changes)
	return facts
}
