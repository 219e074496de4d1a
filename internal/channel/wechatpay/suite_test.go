package wechatpay_test

import (
	"encoding/base64"
	"errors"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/channel/channeltest"
	"github.com/paylatch/paylatch/internal/channel/wechatpay"
)

// refusedConfigs could not verify a message, or not call.
func refusedConfigs() map[string][]byte {
	p := thePlatform()
	change := func(field string, value any) []byte { return settings(map[string]any{field: value}) }
	small := publicPEM(&smallKey().PublicKey)
	return map[string][]byte{
		"nothing": nil, "not JSON": []byte("mch_id"), "null": []byte("null"), "empty": []byte("{}"),
		"a typing slip":       change("api_v3key", apiV3Key),
		"no merchant":         change("mch_id", ""),
		"merchant not digits": change("mch_id", "wx1900000109"),
		"no app":              change("app_id", nil),
		"no APIv3 key":        change("api_v3_key", ""),
		"short APIv3 key":     change("api_v3_key", apiV3Key[1:]),
		"AES-128 key":         change("api_v3_key", apiV3Key[:16]),
		"AES-192 key":         change("api_v3_key", apiV3Key[:24]),
		"long APIv3 key":      change("api_v3_key", apiV3Key+"0"),
		"no serial":           change("merchant_serial", ""),
		"serial not hex":      change("merchant_serial", "PUB_KEY_ID_01"),
		"no private key":      change("merchant_private_key", ""),
		"blank private key":   change("merchant_private_key", " \n"),
		"not PEM":             change("merchant_private_key", "MIIEvgIBADANBgkqhkiG9w0BAQEFAASC"),
		"its certificate":     change("merchant_private_key", p.freshCert),
		"its public key":      change("merchant_private_key", publicPEM(&p.merchant.PublicKey)),
		"elliptic key":        change("merchant_private_key", privatePEM(ellipticKey())),
		"small key":           change("merchant_private_key", privatePEM(smallKey())),
		"broken key":          change("merchant_private_key", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"),
		"two keys":            change("merchant_private_key", privatePEM(p.merchant)+privatePEM(p.merchant)),
		"no key at all":       settings(map[string]any{"public_keys": nil, "platform_certificates": nil}),
		"empty key lists":     settings(map[string]any{"public_keys": map[string]string{}, "platform_certificates": map[string]string{}}),

		"public key under a serial":     change("public_keys", map[string]string{p.oldSerial: publicPEM(&p.public.PublicKey)}),
		"public key under no id":        change("public_keys", map[string]string{"PUB_KEY_ID_": publicPEM(&p.public.PublicKey)}),
		"empty public key":              change("public_keys", map[string]string{publicID: ""}),
		"certificate as public key":     change("public_keys", map[string]string{publicID: p.freshCert}),
		"private key as public key":     change("public_keys", map[string]string{publicID: privatePEM(p.public)}),
		"merchant's as public key":      change("public_keys", map[string]string{publicID: publicPEM(&p.merchant.PublicKey)}),
		"elliptic public key":           change("public_keys", map[string]string{publicID: publicPEM(&ellipticKey().PublicKey)}),
		"small public key":              change("public_keys", map[string]string{publicID: small}),
		"one of two keys empty":         change("public_keys", map[string]string{publicID: publicPEM(&p.public.PublicKey), publicID + "1": ""}),
		"certificate of other serial":   change("platform_certificates", map[string]string{p.oldSerial: p.freshCert}),
		"public key as certificate":     change("platform_certificates", map[string]string{p.oldSerial: publicPEM(&p.old.PublicKey)}),
		"broken certificate":            change("platform_certificates", map[string]string{p.oldSerial: pemOf("CERTIFICATE", []byte("no"))}),
		"certificate twice":             change("platform_certificates", map[string]string{p.oldSerial: p.oldCert, "0" + p.oldSerial: p.oldCert}),
		"merchant's certificate":        change("platform_certificates", map[string]string{p.oldSerial: certificate(p.merchant, p.oldSerial, at, at.AddDate(5, 0, 0))}),
		"plain http":                    change("base_url", "http://api.mch.weixin.qq.com"),
		"base URL with a query":         change("base_url", "https://api.mch.weixin.qq.com?a=b"),
		"base URL that is not one":      change("base_url", "://"),
		"public keys that are a list":   change("public_keys", []string{}),
		"a key that stands there twice": append([]byte(`{"mch_id":"1",`), settings(nil)[1:]...),
	}
}

func TestSuite(t *testing.T) {
	t.Parallel()
	p := thePlatform()
	facts := func(text string) []byte { return notice("TRANSACTION.SUCCESS", "transaction", text) }
	changed := func(field string, value any) []byte {
		return notice("TRANSACTION.SUCCESS", "transaction", paymentFacts(map[string]any{field: value}))
	}
	resource := func(changes map[string]string) []byte {
		r := sealed(apiV3Key, "transaction", []byte("{}"))
		maps.Copy(r, changes)
		return envelope("TRANSACTION.SUCCESS", r)
	}
	refundOf := func(status string) []byte {
		return notice("REFUND.SUCCESS", "refund", refundFacts(map[string]any{"refund_status": status}))
	}
	channeltest.Run(t, channeltest.Harness{
		Channel:        wechatpay.Channel{},
		Config:         settings(nil),
		RefusedConfigs: refusedConfigs(),
		ValidKeys:      3,
		Sign: func(_ *testing.T, key int, body []byte, at time.Time) http.Header {
			switch key {
			case 0:
				return sign(p.public, publicID, body, at)
			case 1:
				return sign(p.old, p.oldSerial, body, at)
			default:
				return sign(p.fresh, p.freshSerial, body, at)
			}
		},
		SignWrong: func(_ *testing.T, body []byte, at time.Time) http.Header {
			return sign(p.stranger, publicID, body, at)
		},
		SignatureHeaders: []string{"Wechatpay-Serial", "Wechatpay-Signature", "Wechatpay-Timestamp", "Wechatpay-Nonce"},
		Success: func(_ *testing.T, pay channeltest.Payment) []byte {
			return notice("TRANSACTION.SUCCESS", "transaction", paymentFacts(map[string]any{
				"transaction_id": pay.TransactionID, "out_trade_no": pay.OutTradeNo,
				"amount": map[string]any{"total": pay.Amount, "currency": pay.Currency},
			}))
		},
		OneCurrency: true,
		UnknownType: envelope("COMPLAINT.CREATE", map[string]string{}),
		Unusable: map[string][]byte{
			"no type":                []byte(`{"resource":{}}`),
			"no resource":            []byte(`{"event_type":"TRANSACTION.SUCCESS"}`),
			"null resource":          []byte(`{"event_type":"TRANSACTION.SUCCESS","resource":null}`),
			"resource a text":        []byte(`{"event_type":"TRANSACTION.SUCCESS","resource":"x"}`),
			"type twice":             []byte(`{"event_type":"TRANSACTION.SUCCESS","event_type":"REFUND.SUCCESS","resource":{}}`),
			"another algorithm":      resource(map[string]string{"algorithm": "AEAD_SM4_GCM"}),
			"ciphertext not base64":  resource(map[string]string{"ciphertext": "***"}),
			"ciphertext cut":         resource(map[string]string{"ciphertext": "AAAA"}),
			"no ciphertext":          resource(map[string]string{"ciphertext": ""}),
			"no nonce":               resource(map[string]string{"nonce": ""}),
			"long nonce":             resource(map[string]string{"nonce": strings.Repeat("n", 16)}),
			"another associated":     resource(map[string]string{"associated_data": "refund"}),
			"under another key":      envelope("TRANSACTION.SUCCESS", sealed(strings.Repeat("k", 32), "transaction", []byte("{}"))),
			"facts not JSON":         facts("no"),
			"facts a list":           facts("[]"),
			"facts null":             facts("null"),
			"facts empty":            facts("{}"),
			"facts twice":            facts(`{"out_trade_no":"a","out_trade_no":"b","trade_state":"SUCCESS"}`),
			"facts not UTF-8":        facts("{\"out_trade_no\":\"\xff\"}"),
			"not paid":               changed("trade_state", "NOTPAY"),
			"refunded in a notice":   changed("trade_state", "REFUND"),
			"no state":               changed("trade_state", ""),
			"amount a text":          changed("amount", map[string]any{"total": "1", "currency": "CNY"}),
			"amount a fraction":      changed("amount", map[string]any{"total": 1.5, "currency": "CNY"}),
			"amount too large":       facts(`{"trade_state":"SUCCESS","amount":{"total":9223372036854775808}}`),
			"amount a list":          changed("amount", []int{1}),
			"currency too long":      changed("amount", map[string]any{"total": 1, "currency": "CNYX"}),
			"surrogate half":         facts(`{"trade_state":"SUCCESS","transaction_id":"\ud800"}`),
			"time not a time":        changed("success_time", "yesterday"),
			"time out of range":      changed("success_time", "9999-12-31T23:59:59-01:00"),
			"payer paid less than 0": changed("amount", map[string]any{"total": 1, "payer_total": -1, "currency": "CNY"}),

			"refund without a status":     refundOf(""),
			"refund of an unknown status": refundOf("CHANGE"),
			"refund that contradicts":     refundOf("CLOSED"),
			"refund under processing":     refundOf("PROCESSING"),
			"refund of two statuses":      notice("REFUND.SUCCESS", "refund", refundFacts(map[string]any{"status": "CLOSED"})),
			"refund without a number":     notice("REFUND.SUCCESS", "refund", refundFacts(map[string]any{"refund_id": ""})),
			"refund without an amount":    notice("REFUND.SUCCESS", "refund", refundFacts(map[string]any{"amount": map[string]any{}})),
			"share without a number":      notice("PROFITSHARING.SUCCESS", "profitsharing", map[string]any{"receiver": map[string]any{"account": "1", "amount": 1}}),
		},
		AcceptedStatus: http.StatusNoContent,
		AcceptedBody:   "",
	})
}

func FuzzParse(f *testing.F) {
	account := openAccount(f, settings(nil))
	// The fuzzer cannot encrypt: it is given what stands inside, too.
	for _, seed := range []string{
		`{"transaction_id":"7","out_trade_no":"o","mchid":"1900000109","trade_state":"SUCCESS","amount":{"total":1,"currency":"CNY"}}`,
		`{"refund_id":"5","out_refund_no":"r","refund_status":"SUCCESS","amount":{"refund":1}}`,
		`{"order_id":"3","out_order_no":"o","receivers":[{"account":"a","amount":1,"result":"SUCCESS","detail_id":"36"}]}`,
		`{"order_id":"3","receiver":{"account":"a","amount":1},"success_time":"2026-03-01T16:00:00+08:00"}`,
		`{`, ``, `null`, `[]`,
	} {
		for _, kind := range []string{"", "TRANSACTION.SUCCESS", "REFUND.SUCCESS", "REFUND.CLOSED", "PROFITSHARING.SUCCESS", "X"} {
			f.Add(kind, []byte(seed))
		}
	}
	f.Fuzz(func(t *testing.T, eventType string, facts []byte) {
		body := facts
		if eventType != "" {
			body = notice(eventType, "", string(facts))
		}
		events, err := channel.Read(account, body)
		if err != nil {
			var unusable *channel.Unusable
			require.True(t, errors.As(err, &unusable))
			require.Empty(t, events)
			return
		}
		require.NotEmpty(t, events)
		for _, e := range events {
			if e.Kind == channel.PaySuccess {
				require.Positive(t, e.Amount)
				require.NotEmpty(t, e.OutTradeNo)
				require.NotEmpty(t, e.TransactionID)
			}
			if e.Kind != channel.Unsupported {
				require.NotEmpty(t, e.Subject)
			}
		}
	})
}

func FuzzVerify(f *testing.F) {
	account := openAccount(f, settings(nil))
	p := thePlatform()
	body := []byte("{}")
	good := sign(p.public, publicID, body, at)
	f.Add(publicID, good.Get("Wechatpay-Timestamp"), good.Get("Wechatpay-Nonce"), good.Get("Wechatpay-Signature"))
	f.Add(p.oldSerial, "1", "", "WECHATPAY/SIGNTEST/AAAA")
	f.Add("", "-1", "\n", base64.StdEncoding.EncodeToString(make([]byte, 256)))
	f.Fuzz(func(t *testing.T, serial, timestamp, nonce, signature string) {
		err := verify(account, http.Header{
			"Wechatpay-Serial": {serial}, "Wechatpay-Timestamp": {timestamp}, "Wechatpay-Nonce": {nonce}, "Wechatpay-Signature": {signature},
		}, body)
		if serial == publicID && signature == good.Get("Wechatpay-Signature") && timestamp == good.Get("Wechatpay-Timestamp") && nonce == good.Get("Wechatpay-Nonce") {
			require.NoError(t, err)
			return
		}
		var refusal *channel.Refusal
		require.ErrorAs(t, err, &refusal)
		require.True(t, refusal.Status >= 400 && refusal.Status < 500)
	})
}
