package wechatpay_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/channel/wechatpay"
)

// smallKey is an RSA key that is too small.
var smallKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		panic(err)
	}
	return key
})

func refusedAck(t *testing.T) channel.Ack {
	t.Helper()
	return wechatpay.Channel{}.Refused(http.StatusUnauthorized, "signature_missing", `no "signature"`)
}

func TestRefusalsOfAConfigurationQuoteNoSecret(t *testing.T) {
	t.Parallel()
	p := thePlatform()
	configs := refusedConfigs()
	secret := privatePEM(p.merchant)
	configs["key in the wrong field"] = settings(map[string]any{"mch_id": secret, "app_id": secret})
	configs["key as app"] = settings(map[string]any{"app_id": secret})
	configs["key as serial"] = settings(map[string]any{"merchant_serial": apiV3Key + " "})
	configs["key as id"] = settings(map[string]any{"public_keys": map[string]string{secret: "x"}})
	configs["key as address"] = settings(map[string]any{"base_url": secret})
	for name, config := range configs {
		_, err := wechatpay.Channel{}.Open("main", config)
		require.Error(t, err, name)
		require.NotContains(t, err.Error(), apiV3Key, name)
		require.NotContains(t, err.Error(), "BEGIN PRIVATE", name)
		for line := range strings.Lines(secret) {
			require.NotContains(t, err.Error(), strings.TrimSpace(line), name)
		}
	}
}

func TestKeysArePEMHoweverTheirLinesAreWritten(t *testing.T) {
	t.Parallel()
	p := thePlatform()
	body := []byte("{}")
	for name, rewrite := range map[string]func(string) string{
		"as it is":         func(s string) string { return s },
		"Windows":          func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") },
		"escaped":          func(s string) string { return strings.ReplaceAll(s, "\n", `\n`) },
		"escaped, Windows": func(s string) string { return strings.ReplaceAll(s, "\n", `\r\n`) },
		"blanks around":    func(s string) string { return "\n \t" + s + "\n\n" },
	} {
		account := openAccount(t, settings(map[string]any{
			"merchant_private_key":  rewrite(privatePEM(p.merchant)),
			"public_keys":           map[string]string{publicID: rewrite(publicPEM(&p.public.PublicKey))},
			"platform_certificates": map[string]string{p.oldSerial: rewrite(p.oldCert)},
		}))
		require.NoError(t, verify(account, sign(p.public, publicID, body, at), body), name)
		require.NoError(t, verify(account, sign(p.old, p.oldSerial, body, at), body), name)
	}
}

func TestTheOlderFormsOfRSAKeysAreTaken(t *testing.T) {
	t.Parallel()
	p := thePlatform()
	account := openAccount(t, settings(map[string]any{
		"merchant_private_key": pemOf("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(p.merchant)),
		"public_keys":          map[string]string{publicID: pemOf("RSA PUBLIC KEY", x509.MarshalPKCS1PublicKey(&p.public.PublicKey))},
	}))
	require.NoError(t, verify(account, sign(p.public, publicID, []byte("{}"), at), []byte("{}")))
	require.Equal(t, mchID, account.Identity())
}

func TestAnExpiredCertificateBesideAValidKeyIsNoReasonToRefuse(t *testing.T) {
	t.Parallel()
	p := thePlatform()
	account := openAccount(t, settings(map[string]any{"platform_certificates": map[string]string{p.oldSerial: p.expiredCert}}))
	require.NoError(t, verify(account, sign(p.public, publicID, []byte("{}"), at), []byte("{}")))
}
