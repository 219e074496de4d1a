package wechatpay_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/channel"
)

// A notice with its signature and certificate, from the tests of WeChat Pay's own Go library
// (github.com/wechatpay-apiv3/wechatpay-go, core/notify/notify_test.go).
const (
	vectorSerial      = "D7CE59D1F522D701"
	vectorTime        = 1624523846
	vectorCertificate = `-----BEGIN CERTIFICATE-----
MIIDVzCCAj+gAwIBAgIJANfOWdH1ItcBMA0GCSqGSIb3DQEBCwUAMEIxCzAJBgNV
BAYTAlhYMRUwEwYDVQQHDAxEZWZhdWx0IENpdHkxHDAaBgNVBAoME0RlZmF1bHQg
Q29tcGFueSBMdGQwHhcNMjEwNDI3MDg1NTIzWhcNMzEwNDI1MDg1NTIzWjBCMQsw
CQYDVQQGEwJYWDEVMBMGA1UEBwwMRGVmYXVsdCBDaXR5MRwwGgYDVQQKDBNEZWZh
dWx0IENvbXBhbnkgTHRkMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA
2VCTd91fnUn73Xy9DLvt/V62TVxRTEEstVdeRaZ3B3leO0pldE806mXO4RwdHXag
HQ4vGeZN0yqm++rDsGK+U3AH7kejyD2pXshNP9Cq5YwbptiLGtjcquw4HNxJQUOm
DeJf2vg6byms9RUipiq4SzbJKqJFlUpbuIPDpSpWz10PYmyCNeDGUUK65E5h2B83
4uxl1zNLYQCrkdBzb8oUxwYeP5a2DNxmjL5lsJML7DGr5znsevnoqGRwTm9fxCGf
y8wus7hwKz6clt3Whmmda7UAdb1c08hEQFVRbF14AR73xbnd8N0obCWJPCbzMCtk
aSef4FdEEgEXJiw0VAJT8wIDAQABo1AwTjAdBgNVHQ4EFgQUT1c7nd/SUO76HSoZ
umNUJv1R5PwwHwYDVR0jBBgwFoAUT1c7nd/SUO76HSoZumNUJv1R5PwwDAYDVR0T
BAUwAwEB/zANBgkqhkiG9w0BAQsFAAOCAQEAfTjxKRQMzNB/U6ZoCUS+BSNfa2Oh
0plMN6ZuzwiVVZwg1jywvv5yv04koS7Pd4i9E4gt9ZBUQXlpq+A3oOCEEHNRR6b2
kyazGRM7s0OP5X21WrbpSmKmU6K7hkfx30yYs08LVs/Q8DIhvaj1FCFeJzUCzYn/
fHMq4tsbKO0dKAeydPM/nrUZBmaYQVKMVOORGLFjFKVO7JV6Kq/R86ouhjEPgJOe
2xulNBUcjicqtZlBdEh/PWCYP2SpGVDclKm8jeo175T3EVAkdKzzmfpxtMmnMlmq
cTJOU9TxuGvNASMtjj7pYIerTx+xgZDXEVBWFW9PjJ0TV06tCRsgSHItgg==
-----END CERTIFICATE-----`
	vectorSignature = "tJHIiIS9eB2hAYstmAmbbD3ZE5LiIm/Ug5tuL4fC0YOFRWIHV39UFIZXC0e9Wl6lBu6sKvkqDkzpqzBsVHyXF" +
		"lbYZTOQrVdG4b6LfTnK4mikv9++ixJMd3vTf2yCqvBkh98zs3Ds5zsYQakzbcwhmw4fMJs4nPLws28H0UW9FjDR//rxELLwXvV1VEA1I" +
		"BLX70xptjL8hrfUjEE8kkry6yNJTHZRU8CAc7qHli2Ng1V1qb9ARbK8A3ThmFmPQvRGrapI/jS2laKKgYUmfdEdkNO6B2Cke5e8VTxY4" +
		"06ArAmQ90GAihDwIcb16TQMnzCMBoutnwZKNiKRACrFmtxw2Q=="
	vectorBody = `{"id":"3119dfba-e649-5eec-ab1e-3412bc4d2e17","create_time":"2021-06-24T16:37:26+08:00",` +
		`"resource_type":"encrypt-resource","event_type":"PAYSCORE.USER_OPEN_SERVICE","summary":"签约成功","resource":{` +
		`"original_type":"payscore","algorithm":"AEAD_AES_256_GCM","ciphertext":"YDS3lKPaC4Y52Gf3uhft5qUBlIa8b428AWTtTauHQfQrRw+X1WpiuHIDy0vo1Vd6VEq67aVyqPdDYMkRVSDaZL3iZt` +
		`tevRMOoPKMifozg6XPWjIZumks/GpT48lI4NizyeaqLBokNebthah3o1H76qSlO9NkDjp9bzmKLEYYH9TEklFUpsvPqOTOcgSLgh21YJXYR` +
		`7dEBXFgRLiNIKRgO5JdXh1hccRUAlyVWxE54PXpnQ==","associated_data":"payscore","nonce":"Kj7QIyUiYx1q"}}`
)

func TestThePublishedNoticeIsAuthentic(t *testing.T) {
	t.Parallel()
	account := openAccount(t, settings(map[string]any{"platform_certificates": map[string]string{vectorSerial: vectorCertificate}}))
	h := http.Header{}
	h.Set("Wechatpay-Nonce", "EcZ9Cmy4Xyx1i6RlJQzLcCyEqDa26NBz")
	h.Set("Wechatpay-Timestamp", "1624523846")
	h.Set("Wechatpay-Serial", vectorSerial)
	h.Set("Wechatpay-Signature", vectorSignature)
	received := time.Unix(vectorTime+10, 0)
	require.NoError(t, account.Verify(channel.Notification{Header: h, Body: []byte(vectorBody), ReceivedAt: received}))
	require.ErrorIs(t, account.Verify(channel.Notification{Header: h, Body: []byte(vectorBody + "\n"), ReceivedAt: received}), channel.ErrBadSignature)
	e := readOne(t, account, []byte(vectorBody))
	require.Equal(t, channel.Unsupported, e.Kind)
	require.Contains(t, e.Note, "PAYSCORE.USER_OPEN_SERVICE")
}

// Key, nonce, associated data and ciphertext are from the tests of WeChat Pay's own Java library
// (github.com/wechatpay-apiv3/wechatpay-java, AeadAesCipherTest and TestConfig); the plain text is "message".
func TestThePublishedCiphertextOpensUnderThePublishedKey(t *testing.T) {
	t.Parallel()
	body, err := json.Marshal(map[string]any{"event_type": "TRANSACTION.SUCCESS", "resource": map[string]string{
		"algorithm": "AEAD_AES_256_GCM", "associated_data": "associatedData", "nonce": "uluk4a9R25RW", "ciphertext": "ulwSiIajGClcvcOYvOQ7+l+0PAbzzwI=",
	}})
	require.NoError(t, err)
	reason := func(key string) string {
		_, err := channel.Read(openAccount(t, settings(map[string]any{"api_v3_key": key})), body)
		var unusable *channel.Unusable
		require.ErrorAs(t, err, &unusable)
		return unusable.Reason
	}
	require.Equal(t, "malformed JSON: at byte 1", reason("a7cde1ZJB1kG2e7VfTs3jQzaWizur8Gb"), "it opens: what is inside is a word")
	require.Contains(t, reason("a7cde1ZJB1kG2e7VfTs3jQzaWizur8Gc"), "does not open")
}
