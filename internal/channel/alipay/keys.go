package alipay

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// leastBits is the shortest modulus by signature algorithm, as Alipay sets it.
var leastBits = map[string]int{rsa2: 2048, rsa1: 1024}

// parseKeys reads both keys and refuses the mix-ups that would sign or verify nothing. No error quotes a key.
func parseKeys(cfg Config, signType string) (*rsa.PrivateKey, *rsa.PublicKey, error) {
	private, err := parsePrivateKey(cfg.AppPrivateKey)
	if err != nil {
		return nil, nil, fmt.Errorf("app_private_key %w", err)
	}
	public, err := parsePublicKey(cfg.AlipayPublicKey)
	if err != nil {
		return nil, nil, fmt.Errorf("alipay_public_key %w", err)
	}
	least := leastBits[signType]
	if bits := private.N.BitLen(); bits < least {
		return nil, nil, fmt.Errorf("app_private_key has %d bits; %s needs at least %d", bits, signType, least)
	}
	if bits := public.N.BitLen(); bits < least {
		return nil, nil, fmt.Errorf("alipay_public_key has %d bits; %s needs at least %d", bits, signType, least)
	}
	if private.PublicKey.Equal(public) {
		return nil, nil, errors.New("alipay_public_key is the app's own public key, the one that was uploaded; " +
			"take the one that the open platform shows as Alipay's (支付宝公钥)")
	}
	return private, public, nil
}

func parsePrivateKey(text string) (*rsa.PrivateKey, error) {
	label, der, err := decodeKey(text)
	if err != nil {
		return nil, err
	}
	if key, ok := privateKeyOf(der); ok {
		return key, nil
	}
	switch {
	case strings.Contains(label, "ENCRYPTED"):
		return nil, errors.New("is encrypted; give it without a password")
	case label == certificate:
		return nil, errors.New("holds a certificate; it must be the app's private key")
	case isPublicKey(der):
		return nil, errors.New("holds a public key; it must be the app's private key")
	}
	return nil, errors.New("holds no RSA private key of PKCS #8 or PKCS #1")
}

func parsePublicKey(text string) (*rsa.PublicKey, error) {
	label, der, err := decodeKey(text)
	if err != nil {
		return nil, err
	}
	if parsed, err := x509.ParsePKIXPublicKey(der); err == nil {
		if key, ok := parsed.(*rsa.PublicKey); ok {
			return key, nil
		}
	}
	if _, private := privateKeyOf(der); private {
		return nil, errors.New("holds a private key; it must be Alipay's public key (支付宝公钥)")
	}
	if label == certificate {
		return nil, errors.New("holds a certificate; set the app to keys (密钥) instead of certificates and take Alipay's public key")
	}
	return nil, errors.New("holds no RSA public key")
}

func privateKeyOf(der []byte) (*rsa.PrivateKey, bool) {
	if parsed, err := x509.ParsePKCS8PrivateKey(der); err == nil {
		key, ok := parsed.(*rsa.PrivateKey)
		return key, ok
	}
	key, err := x509.ParsePKCS1PrivateKey(der)
	return key, err == nil
}

func isPublicKey(der []byte) bool {
	if _, err := x509.ParsePKIXPublicKey(der); err == nil {
		return true
	}
	_, err := x509.ParsePKCS1PublicKey(der)
	return err == nil
}

const certificate = "CERTIFICATE"

// decodeKey takes PEM, with its line breaks or without, and bare base64.
func decodeKey(text string) (label string, der []byte, err error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return "", nil, errors.New("is missing")
	}
	if after, isPEM := strings.CutPrefix(text, "-----BEGIN "); isPEM {
		var whole bool
		if label, text, whole = strings.Cut(after, "-----"); whole {
			text, _, whole = strings.Cut(text, "-----END "+label+"-----")
		}
		if !whole {
			return "", nil, errors.New("is PEM that is not whole")
		}
	}
	der, err = base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text), ""))
	if err != nil || len(der) == 0 {
		return label, nil, errors.New("is neither PEM nor base64")
	}
	return label, der, nil
}
