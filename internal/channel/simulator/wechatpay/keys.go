package wechatpay

import (
	"crypto"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1" //nolint:gosec // the protocol's OAEP is over SHA-1
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// signer is a key of WeChat Pay's with the id that it is named by.
type signer struct {
	id      string
	private *rsa.PrivateKey
	der     []byte // of its certificate; nil for a public key
}

// keys are those of both sides.
type keys struct {
	apiV3          string
	merchant       *rsa.PrivateKey
	merchantSerial string
	public         signer
	old, fresh     signer // certificates
	wrong          signer // names the public key, and is not it
}

// processKeys are made once: five RSA keys take a second.
var processKeys = sync.OnceValue(newKeys)

func newKeys() keys {
	var made [5]*rsa.PrivateKey
	var wg sync.WaitGroup
	for i := range made {
		wg.Go(func() {
			key, err := rsa.GenerateKey(rand.Reader, 2048)
			if err != nil {
				panic(err) // it fails without randomness alone
			}
			made[i] = key
		})
	}
	wg.Wait()
	now := time.Now()
	publicID := "PUB_KEY_ID_0" + mchID + now.In(chinaTime).Format("20060102") + "00" + strings.ToUpper(nonce(4))
	k := keys{
		apiV3: nonce(16), merchant: made[0], merchantSerial: fmt.Sprintf("%X", serialNumber().Bytes()),
		public: signer{id: publicID, private: made[1]},
		old:    certified(made[2], now.AddDate(-4, -6, 0)),
		fresh:  certified(made[3], now.AddDate(0, -1, 0)),
		wrong:  signer{id: publicID, private: made[4]},
	}
	return k
}

// certified gives a key a certificate of five years.
func certified(key *rsa.PrivateKey, from time.Time) signer {
	serial := serialNumber()
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "Tenpay.com sign", Organization: []string{"Tenpay.com"}},
		NotBefore: from, NotAfter: from.AddDate(5, 0, 0), KeyUsage: x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		panic(err) // the template is ours
	}
	return signer{id: fmt.Sprintf("%X", serial.Bytes()), private: key, der: der}
}

// serialNumber is 20 bytes, like WeChat Pay's.
func serialNumber() *big.Int {
	b := make([]byte, 20)
	_, _ = rand.Read(b)     // it never fails
	b[0] = b[0]&0x3f | 0x40 // positive, and of full length
	return new(big.Int).SetBytes(b)
}

// nonce gives so many random bytes in hex.
func nonce(bytes int) string {
	b := make([]byte, bytes)
	_, _ = rand.Read(b) // it never fails
	return hex.EncodeToString(b)
}

func (k keys) merchantPEM() string {
	der, err := x509.MarshalPKCS8PrivateKey(k.merchant)
	if err != nil {
		panic(err) // the key was made here
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

func (k keys) publicPEM() string {
	der, err := x509.MarshalPKIXPublicKey(&k.public.private.PublicKey)
	if err != nil {
		panic(err) // the key was made here
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

func certificatePEM(der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// byID gives the key of an id, else the new certificate's.
func (k keys) byID(id string) signer {
	for _, s := range []signer{k.public, k.old, k.fresh} {
		if strings.EqualFold(s.id, id) {
			return s
		}
	}
	return k.fresh
}

// named gives the key that faults name; probe signs nothing.
func (k keys) named(name string) signer {
	switch name {
	case "old":
		return k.old
	case "new":
		return k.fresh
	case "wrong":
		return k.wrong
	default:
		return k.public
	}
}

// sign signs lines, each with its end.
func (s signer) sign(lines ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(lines, "\n") + "\n"))
	signature, err := rsa.SignPKCS1v15(rand.Reader, s.private, crypto.SHA256, sum[:])
	if err != nil {
		panic(err) // the key was made here
	}
	return base64.StdEncoding.EncodeToString(signature)
}

// headers signs a body that is sent at a time.
func (s signer) headers(body []byte, at time.Time) http.Header {
	h := http.Header{}
	timestamp, once := strconv.FormatInt(at.Unix(), 10), nonce(16)
	h.Set("Wechatpay-Timestamp", timestamp)
	h.Set("Wechatpay-Nonce", once)
	h.Set("Wechatpay-Serial", s.id)
	h.Set("Wechatpay-Signature", s.sign(timestamp, once, string(body)))
	h.Set("Wechatpay-Signature-Type", "WECHATPAY2-SHA256-RSA2048")
	return h
}

// seal encrypts a resource under the merchant's APIv3 key.
func (k keys) seal(plain []byte, associated string) map[string]string {
	block, err := aes.NewCipher([]byte(k.apiV3))
	if err != nil {
		panic(err) // the key has 32 bytes
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		panic(err) // as above
	}
	once := nonce(6)
	return map[string]string{
		"algorithm": "AEAD_AES_256_GCM", "associated_data": associated, "nonce": once,
		"ciphertext": base64.StdEncoding.EncodeToString(gcm.Seal(nil, []byte(once), plain, []byte(associated))),
	}
}

// open decrypts a secret that was encrypted for the key of an id.
func (k keys) open(id, sealed string) (string, error) {
	raw, err := base64.StdEncoding.DecodeString(sealed)
	if err != nil {
		return "", errors.New("not base64")
	}
	plain, err := rsa.DecryptOAEP(sha1.New(), nil, k.byID(id).private, raw, nil)
	return string(plain), err
}

var authorization = regexp.MustCompile(`^WECHATPAY2-SHA256-RSA2048 (.+)$`)

// authorized says what is wrong with a request's signature, or nothing.
func (k keys) authorized(r *http.Request, body []byte) string {
	match := authorization.FindStringSubmatch(r.Header.Get("Authorization"))
	if match == nil {
		return "Http头Authorization值格式错误，请参考《微信支付商户REST API签名规则》"
	}
	fields := map[string]string{}
	for _, pair := range strings.Split(match[1], ",") {
		name, value, _ := strings.Cut(pair, "=")
		fields[name] = strings.Trim(value, `"`)
	}
	seconds, err := strconv.ParseInt(fields["timestamp"], 10, 64)
	if err != nil || time.Since(time.Unix(seconds, 0)).Abs() > 5*time.Minute {
		return "Http头Authorization中的timestamp与发起请求的时间不得超过5分钟"
	}
	if fields["mchid"] != mchID || fields["serial_no"] != k.merchantSerial {
		return "商户证书序列号有误"
	}
	signature, err := base64.StdEncoding.DecodeString(fields["signature"])
	if err != nil {
		return "错误的签名，验签失败"
	}
	// What was signed is the address as it was sent, not as a router may have cut it.
	message := r.Method + "\n" + r.RequestURI + "\n" + fields["timestamp"] + "\n" + fields["nonce_str"] + "\n" + string(body) + "\n"
	sum := sha256.Sum256([]byte(message))
	if rsa.VerifyPKCS1v15(&k.merchant.PublicKey, crypto.SHA256, sum[:], signature) != nil {
		return "错误的签名，验签失败"
	}
	return ""
}

func readBody(r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return nil, fmt.Errorf("read the request: %w", err)
	}
	return body, nil
}
