package alipay_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/channel/alipay"
)

func asPEM(label string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: label, Bytes: der}))
}

func TestKeysAreTakenInEveryFormThatAlipaysToolsGive(t *testing.T) {
	t.Parallel()
	pkcs1 := x509.MarshalPKCS1PrivateKey(appKey())
	pkcs8, err := x509.MarshalPKCS8PrivateKey(appKey())
	require.NoError(t, err)
	public, err := x509.MarshalPKIXPublicKey(&alipayKey().PublicKey)
	require.NoError(t, err)
	bare := base64.StdEncoding.EncodeToString
	for _, private := range []string{
		bare(pkcs1), bare(pkcs8), asPEM("RSA PRIVATE KEY", pkcs1), asPEM("PRIVATE KEY", pkcs8),
		strings.ReplaceAll(asPEM("PRIVATE KEY", pkcs8), "\n", ""), "\n " + asPEM("PRIVATE KEY", pkcs8) + "\n", bare(pkcs8)[:64] + "\r\n" + bare(pkcs8)[64:],
	} {
		for _, other := range []string{bare(public), asPEM("PUBLIC KEY", public)} {
			open(t, func(c *alipay.Config) { c.AppPrivateKey, c.AlipayPublicKey = private, other })
		}
	}
}

func TestAKeyThatCannotDoIsRefusedInWordsThatHelpAndQuoteNothing(t *testing.T) {
	t.Parallel()
	public := publicText(t, &alipayKey().PublicKey)
	der, err := base64.StdEncoding.DecodeString(public)
	require.NoError(t, err)
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	curveDER, err := x509.MarshalPKCS8PrivateKey(curve)
	require.NoError(t, err)
	curvePublic, err := x509.MarshalPKIXPublicKey(&curve.PublicKey)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, &alipayKey().PublicKey, alipayKey())
	require.NoError(t, err)
	for name, c := range map[string]struct {
		change func(*alipay.Config)
		says   string
	}{
		"missing":                     {func(c *alipay.Config) { c.AppPrivateKey = "" }, "app_private_key is missing"},
		"public where private":        {func(c *alipay.Config) { c.AppPrivateKey = public }, "app_private_key holds a public key"},
		"private where public":        {func(c *alipay.Config) { c.AlipayPublicKey = privateText(otherKey()) }, "alipay_public_key holds a private key"},
		"the app's own":               {func(c *alipay.Config) { c.AlipayPublicKey = publicText(t, &appKey().PublicKey) }, "the app's own public key"},
		"the app's own private":       {func(c *alipay.Config) { c.AlipayPublicKey = privateText(appKey()) }, "alipay_public_key holds a private key"},
		"a certificate":               {func(c *alipay.Config) { c.AlipayPublicKey = asPEM("CERTIFICATE", certificate) }, "holds a certificate"},
		"a certificate as private":    {func(c *alipay.Config) { c.AppPrivateKey = asPEM("CERTIFICATE", certificate) }, "holds a certificate"},
		"half of it":                  {func(c *alipay.Config) { c.AlipayPublicKey = asPEM("PUBLIC KEY", der)[:200] }, "PEM that is not whole"},
		"another kind":                {func(c *alipay.Config) { c.AppPrivateKey = asPEM("PRIVATE KEY", curveDER) }, "no RSA private key"},
		"another kind of public":      {func(c *alipay.Config) { c.AlipayPublicKey = asPEM("PUBLIC KEY", curvePublic) }, "no RSA public key"},
		"encrypted":                   {func(c *alipay.Config) { c.AppPrivateKey = asPEM("ENCRYPTED PRIVATE KEY", []byte("secret")) }, "is encrypted"},
		"1024 bits for RSA2":          {func(c *alipay.Config) { c.AppPrivateKey = privateText(newKey(1024)) }, "1024 bits; RSA2 needs at least 2048"},
		"1024 bits of Alipay's":       {func(c *alipay.Config) { c.AlipayPublicKey = publicText(t, &newKey(1024).PublicKey) }, "1024 bits; RSA2 needs at least 2048"},
		"no sign_type that there is":  {func(c *alipay.Config) { c.SignType = "MD5" }, "sign_type must be RSA2"},
		"an address without a scheme": {func(c *alipay.Config) { c.BaseURL = "openapi.alipay.com" }, "base_url"},
	} {
		cfg := goodConfig(t)
		c.change(&cfg)
		_, err := alipay.Channel{}.Open("main", toJSON(t, cfg))
		require.ErrorContains(t, err, c.says, name)
		for _, secret := range []string{privateText(appKey()), privateText(otherKey()), public} {
			for i := 0; i+24 <= len(secret); i += 24 {
				require.NotContains(t, err.Error(), secret[i:i+24], name)
			}
		}
	}
}

func TestOldAppsMayHaveShorterKeys(t *testing.T) {
	t.Parallel()
	open(t, func(c *alipay.Config) {
		c.SignType, c.AppPrivateKey, c.AlipayPublicKey = "RSA", privateText(newKey(1024)), publicText(t, &newKey(1024).PublicKey)
	})
}

func TestTheIdentityIsTheAppAndTheSeller(t *testing.T) {
	t.Parallel()
	require.Equal(t, appID+":"+sellerID, open(t).Identity())
	require.NotEqual(t, open(t).Identity(), open(t, func(c *alipay.Config) { c.SellerID = "2088000000000002" }).Identity())
}
