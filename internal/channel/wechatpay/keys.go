package wechatpay

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// minBits is the least size of an RSA key; WeChat Pay's own have 2048.
const minBits = 2048

// publicKeyPrefix begins the ids of WeChat Pay's public keys; every other id is a certificate's serial number.
const publicKeyPrefix = "PUB_KEY_ID_"

// platformKey is a key that WeChat Pay signs with, and that secrets for it are encrypted with.
type platformKey struct {
	id   string
	key  *rsa.PublicKey
	cert *x509.Certificate // nil for a public key, which does not expire
}

// valid tells whether the key may be used at a time.
func (k platformKey) valid(at time.Time) bool {
	return k.cert == nil || (!at.Before(k.cert.NotBefore) && !at.After(k.cert.NotAfter))
}

// keyring is the platform's keys by their canonical ids.
type keyring map[string]platformKey

// find gives the key that a message names, and no other: which key is tried is never up to the message's signature.
func (k keyring) find(id string) (platformKey, bool) {
	key, ok := k[canonicalID(id)]
	return key, ok
}

// public is the public key that replies are asked to be signed with: the one with the greatest id.
func (k keyring) public() (platformKey, bool) {
	for _, id := range slices.Backward(slices.Sorted(maps.Keys(k))) {
		if k[id].cert == nil {
			return k[id], true
		}
	}
	return platformKey{}, false
}

// encryption is the key for secrets: a public key where there is one, else the newest certificate that is valid.
func (k keyring) encryption(at time.Time) (platformKey, bool) {
	if key, ok := k.public(); ok {
		return key, true
	}
	var newest platformKey
	for _, id := range slices.Sorted(maps.Keys(k)) {
		if key := k[id]; key.valid(at) && (newest.cert == nil || key.cert.NotBefore.After(newest.cert.NotBefore)) {
			newest = key
		}
	}
	return newest, newest.cert != nil
}

// canonicalID gives one text to all ways of writing a serial number.
func canonicalID(id string) string {
	if strings.HasPrefix(id, publicKeyPrefix) {
		return id
	}
	return strings.TrimLeft(strings.ToUpper(id), "0")
}

func openKeys(cfg Config, merchant *rsa.PublicKey) (keyring, error) {
	if len(cfg.PublicKeys)+len(cfg.PlatformCertificates) == 0 {
		return nil, errors.New("there is no key to verify with: give public_keys or platform_certificates")
	}
	keys := keyring{}
	add := func(k platformKey) error {
		if k.key.Equal(merchant) {
			return errors.New("is the merchant's own key, not WeChat Pay's")
		}
		if _, twice := keys[canonicalID(k.id)]; twice {
			return errors.New("is listed twice")
		}
		keys[canonicalID(k.id)] = k
		return nil
	}
	for _, id := range slices.Sorted(maps.Keys(cfg.PublicKeys)) {
		key, err := readPublicKey(id, cfg.PublicKeys[id])
		if err == nil {
			err = add(key)
		}
		if err != nil {
			return nil, fmt.Errorf("the public key %s %w", shownID(id), err)
		}
	}
	for _, serial := range slices.Sorted(maps.Keys(cfg.PlatformCertificates)) {
		key, err := readCertificate(serial, cfg.PlatformCertificates[serial])
		if err == nil {
			err = add(key)
		}
		if err != nil {
			return nil, fmt.Errorf("the platform certificate %s %w", shownID(serial), err)
		}
	}
	return keys, nil
}

// shownID quotes an id that can be one, and nothing else.
func shownID(id string) string {
	if serialPattern.MatchString(strings.TrimPrefix(id, publicKeyPrefix)) {
		return id
	}
	return "(whose id has not the form of one)"
}

func readPublicKey(id, text string) (platformKey, error) {
	if len(id) == len(publicKeyPrefix) || !strings.HasPrefix(id, publicKeyPrefix) {
		return platformKey{}, errors.New("must be listed under its id, which begins with " + publicKeyPrefix)
	}
	block, err := readPEM(text)
	if err != nil {
		return platformKey{}, err
	}
	var parsed any
	switch block.Type {
	case "PUBLIC KEY":
		parsed, err = x509.ParsePKIXPublicKey(block.Bytes)
	case "RSA PUBLIC KEY":
		parsed, err = x509.ParsePKCS1PublicKey(block.Bytes)
	default:
		return platformKey{}, fmt.Errorf("must be a public key, but is %s", describe(block))
	}
	if err != nil {
		return platformKey{}, errors.New("cannot be read")
	}
	key, err := rsaKey(parsed)
	return platformKey{id: id, key: key}, err
}

func readCertificate(serial, text string) (platformKey, error) {
	block, err := readPEM(text)
	if err != nil {
		return platformKey{}, err
	}
	if block.Type != "CERTIFICATE" {
		return platformKey{}, fmt.Errorf("must be a certificate, but is %s", describe(block))
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return platformKey{}, errors.New("cannot be read")
	}
	own := fmt.Sprintf("%X", cert.SerialNumber.Bytes())
	if canonicalID(serial) != canonicalID(own) {
		return platformKey{}, fmt.Errorf("has another serial number: %s", own)
	}
	key, err := rsaKey(cert.PublicKey)
	return platformKey{id: own, key: key, cert: cert}, err
}

func rsaKey(parsed any) (*rsa.PublicKey, error) {
	key, ok := parsed.(*rsa.PublicKey)
	if !ok {
		return nil, errors.New("must be an RSA key")
	}
	if bits := key.N.BitLen(); bits < minBits {
		return nil, fmt.Errorf("has %d bits; %d are the least", bits, minBits)
	}
	return key, nil
}

func readPrivateKey(text string) (*rsa.PrivateKey, error) {
	block, err := readPEM(text)
	if err != nil {
		return nil, err
	}
	var parsed any
	switch block.Type {
	case "PRIVATE KEY":
		parsed, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	case "RSA PRIVATE KEY":
		parsed, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	default:
		return nil, fmt.Errorf("must be the private key (apiclient_key.pem), but is %s", describe(block))
	}
	if err != nil {
		// The parser's error may quote what it read.
		return nil, errors.New("cannot be read")
	}
	key, ok := parsed.(*rsa.PrivateKey)
	if !ok {
		return nil, errors.New("must be an RSA key")
	}
	if bits := key.N.BitLen(); bits < minBits {
		return nil, fmt.Errorf("has %d bits; %d are the least", bits, minBits)
	}
	return key, nil
}

// readPEM takes one PEM block, also where its line ends went through Windows or through a .env file.
func readPEM(text string) (*pem.Block, error) {
	text = strings.NewReplacer(`\r\n`, "\n", `\n`, "\n", "\r\n", "\n", "\r", "\n").Replace(text)
	block, rest := pem.Decode([]byte(strings.TrimSpace(text)))
	switch {
	case strings.TrimSpace(text) == "":
		return nil, errors.New("is empty")
	case block == nil:
		return nil, errors.New("must be PEM: the whole file from -----BEGIN to the last line")
	case strings.TrimSpace(string(rest)) != "":
		return nil, errors.New("must be one PEM block, not several")
	}
	return block, nil
}

func describe(block *pem.Block) string {
	switch block.Type {
	case "CERTIFICATE":
		return "a certificate"
	case "PUBLIC KEY", "RSA PUBLIC KEY":
		return "a public key"
	case "PRIVATE KEY", "RSA PRIVATE KEY":
		return "a private key"
	case "EC PRIVATE KEY":
		return "a key of elliptic curves"
	case "ENCRYPTED PRIVATE KEY":
		return "a private key with a password"
	default:
		return "something else"
	}
}
