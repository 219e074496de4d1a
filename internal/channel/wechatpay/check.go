package wechatpay

import (
	"context"
	"crypto"
	"crypto/rsa"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/paylatch/paylatch/internal/channel"
)

// expiryNotice is how long before its end a certificate is reported.
const expiryNotice = 30 * 24 * time.Hour

// probeOrder is the order that the check asks for; there is none.
const probeOrder = "paylatch-check"

// Check implements [channel.Acquirer].
func (a *account) Check(ctx context.Context) []channel.Finding {
	findings := []channel.Finding{a.checkPrivateKey()}
	now := time.Now()
	for _, id := range slices.Sorted(maps.Keys(a.keys)) {
		findings = append(findings, checkPlatformKey(a.keys[id], now))
	}
	if !slices.ContainsFunc(slices.Collect(maps.Values(a.keys)), func(k platformKey) bool { return k.valid(now) }) {
		findings = append(findings, finding(false, "keys of WeChat Pay", "none is valid now: no notice and no answer can be verified"))
	}
	call := a.checkCall(ctx)
	findings = append(findings, call)
	if call.OK {
		findings = append(findings, a.checkCertificates(ctx)...)
	}
	return findings
}

func finding(ok bool, what, detail string, args ...any) channel.Finding {
	return channel.Finding{OK: ok, What: what, Detail: fmt.Sprintf(detail, args...)}
}

func (a *account) checkPrivateKey() channel.Finding {
	const what = "merchant_private_key"
	if err := a.private.Validate(); err != nil {
		return finding(false, what, "its numbers contradict each other; take the file apiclient_key.pem as it came")
	}
	signature, err := a.sign("test")
	if err != nil {
		return finding(false, what, "it cannot sign")
	}
	raw, err := base64.StdEncoding.DecodeString(signature)
	if err != nil || rsa.VerifyPKCS1v15(&a.private.PublicKey, crypto.SHA256, digestOf("test"), raw) != nil {
		return finding(false, what, "its signature does not verify")
	}
	return finding(true, what, "RSA with %d bits, it signs; sent under the serial number %s", a.private.N.BitLen(), a.serial)
}

func checkPlatformKey(k platformKey, now time.Time) channel.Finding {
	if k.cert == nil {
		return finding(true, "public key "+k.id, "RSA with %d bits, does not expire", k.key.N.BitLen())
	}
	what, end := "platform certificate "+k.id, k.cert.NotAfter.In(chinaTime).Format(time.DateOnly)
	switch {
	case now.Before(k.cert.NotBefore):
		return finding(false, what, "is not valid before %s", k.cert.NotBefore.In(chinaTime).Format(time.DateOnly))
	case now.After(k.cert.NotAfter):
		return finding(false, what, "expired on %s: it verifies nothing any more; configure WeChat Pay's public key or the new certificate", end)
	case now.Add(expiryNotice).After(k.cert.NotAfter):
		return finding(false, what, "expires on %s: configure WeChat Pay's public key or the new certificate beside it", end)
	}
	return finding(true, what, "RSA with %d bits, valid until %s", k.key.N.BitLen(), end)
}

// checkCall asks for an order that does not exist: a signed answer that says so proves the way and both sides' keys.
func (a *account) checkCall(ctx context.Context) channel.Finding {
	what := "a signed call to " + a.base.Host
	standing, err := a.Query(ctx, channel.Order{OutTradeNo: probeOrder})
	var told *apiError
	var unproven *unprovenError
	switch {
	case err == nil:
		return finding(true, what, "our signature is accepted, and the answer is signed by a key of the account (%s)", strings.ToLower(string(standing.State)))
	case errors.As(err, &told):
		return finding(false, what, "%s", explain(a, told.code, told.message))
	case errors.As(err, &unproven):
		return finding(false, what, "%s", a.explainUnproven(unproven))
	case errors.Is(err, channel.ErrUnproven):
		return finding(false, what, "%s", err)
	default:
		return finding(false, what, "it cannot be reached: %s", err)
	}
}

func explain(a *account, code, message string) string {
	switch code {
	case "SIGN_ERROR":
		return fmt.Sprintf("our signature is refused (SIGN_ERROR): is %s the serial number of the certificate that belongs to merchant_private_key, "+
			"is it merchant %s's, and is this machine's clock right?", a.serial, a.mchID)
	case "MCH_NOT_EXISTS":
		return fmt.Sprintf("there is no merchant %s (MCH_NOT_EXISTS): check mch_id", a.mchID)
	case "NO_AUTH", "NOAUTH":
		return fmt.Sprintf("merchant %s may not make this call (NO_AUTH): open the product in the merchant platform", a.mchID)
	}
	return fmt.Sprintf("WeChat Pay answers %s: %s", code, message)
}

// explainUnproven says what most likely makes an answer not verify.
func (a *account) explainUnproven(e *unprovenError) string {
	switch {
	case e.code == "SIGN_ERROR":
		return explain(a, e.code, "")
	case e.refusal == errUnknownSerial:
		return "the answer is signed with a key that public_keys and platform_certificates do not list: add the one that the merchant platform shows"
	case e.refusal == errExpired:
		return "the answer is signed with a certificate that is not valid now: configure WeChat Pay's public key or the new certificate"
	case e.refusal == channel.ErrStale, e.refusal == channel.ErrFuture:
		return "the answer's time is more than 300 s from ours: set this machine's clock"
	case e.refusal == channel.ErrBadSignature:
		return "the answer's signature does not hold: the key that is listed under its id is another one"
	case e.refusal == channel.ErrNoSignature:
		return "the answer is not signed: something between here and WeChat Pay answers in its place (" + e.Error() + ")"
	}
	return e.Error()
}

// checkCertificates fetches the platform's certificates: they are encrypted under the APIv3 key, which is tried in this way,
// and tell what will sign soon. Merchants with public keys alone have none.
func (a *account) checkCertificates(ctx context.Context) []channel.Finding {
	const what = "api_v3_key"
	var answer struct {
		Data []struct {
			SerialNo string   `json:"serial_no"`
			Sealed   resource `json:"encrypt_certificate"`
		} `json:"data"`
	}
	if _, err := a.get(ctx, "/v3/certificates", nil, &answer); err != nil || len(answer.Data) == 0 {
		return []channel.Finding{finding(true, what, "has its %d bytes; WeChat Pay gave nothing to try it on", apiV3KeyBytes)}
	}
	var findings []channel.Finding
	for _, c := range answer.Data {
		sealed, err := base64.StdEncoding.DecodeString(c.Sealed.Ciphertext)
		if err != nil || len(c.Sealed.Nonce) != a.aead.NonceSize() {
			return []channel.Finding{finding(false, what, "WeChat Pay's certificates cannot be read")}
		}
		if _, err := a.aead.Open(nil, []byte(c.Sealed.Nonce), sealed, []byte(c.Sealed.AssociatedData)); err != nil {
			return []channel.Finding{finding(false, what, "it is not the key that is set in the merchant platform: no notice can be decrypted")}
		}
		if f, news := a.compareCertificate(c.SerialNo); news {
			findings = append(findings, f)
		}
	}
	return append([]channel.Finding{finding(true, what, "it decrypts what WeChat Pay encrypts")}, findings...)
}

// compareCertificate reports a certificate that WeChat Pay may sign with and the account does not list. With a public key
// listed it is no fault: certificates are on their way out.
func (a *account) compareCertificate(serial string) (channel.Finding, bool) {
	if _, listed := a.keys.find(serial); listed {
		return channel.Finding{}, false
	}
	what := "platform certificate " + shownID(serial)
	if _, public := a.keys.public(); public {
		return finding(true, what, "WeChat Pay has it, the account does not list it: needed only where the move to the public key is not done"), true
	}
	return finding(false, what, "WeChat Pay may sign with it, and the account does not list it: notices under it are refused until it does"), true
}
