package alipay

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	_ "crypto/sha1" // RSA, for the accounts that were set up with it
	_ "crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/paylatch/paylatch/internal/channel"
)

// Refusals of Alipay's own, beside those of package channel.
var (
	errNotAForm    = &channel.Refusal{Status: http.StatusBadRequest, Code: "body_malformed", Detail: "the body is not a form as Alipay sends it"}
	errTwoParams   = &channel.Refusal{Status: http.StatusBadRequest, Code: "parameter_ambiguous", Detail: "a parameter stands more than once"}
	errNoSign      = &channel.Refusal{Status: http.StatusBadRequest, Code: "signature_missing", Detail: "the parameter sign is missing"}
	errNotASign    = &channel.Refusal{Status: http.StatusBadRequest, Code: "signature_malformed", Detail: "the parameter sign is not base64"}
	errWeak        = &channel.Refusal{Status: http.StatusUnauthorized, Code: "signature_weak", Detail: "sign_type is weaker than the account's"}
	errUnknownType = &channel.Refusal{Status: http.StatusBadRequest, Code: "signature_type_unknown", Detail: "sign_type is neither RSA2 nor RSA"}
	errCutAnew     = &channel.Refusal{Status: http.StatusBadRequest, Code: "parameter_ambiguous", Detail: "a parameter holds another one"}
	errNotANotice  = &channel.Refusal{Status: http.StatusUnauthorized, Code: "not_a_notice", Detail: "the parameters are signed, but are no notice: they have no notify_time"}
	errNotifyTime  = &channel.Refusal{Status: http.StatusBadRequest, Code: "timestamp_malformed", Detail: "notify_time is not a time as Alipay writes it"}
)

// Verify checks the signature first and the time after it, so that the answer about the time is given to Alipay alone.
//
// What is signed are the parameters without sign and sign_type, decoded from percent-encoding and from nothing else, sorted
// and joined. Alipay's own libraries disagree whether empty ones belong to it, so both readings are tried. A signature that
// holds under either was made by Alipay over these very parameters, but for empty ones, which say nothing to [account.Parse].
//
// Alipay signs other parameters in the same way: those by which it sends the payer's browser back to the shop, which every
// payer can read. They have no notify_time and are no notice.
func (a *account) Verify(n channel.Notification) error {
	f, err := parseForm(n.Body)
	switch {
	case errors.Is(err, errTwice):
		return errTwoParams
	case err != nil:
		return errNotAForm
	case f["sign"] == "":
		return errNoSign
	case f.cutAnew():
		return errCutAnew
	}
	hash, err := a.noticeHash(f["sign_type"])
	if err != nil {
		return err
	}
	signature, ok := decodeSignature(f["sign"])
	if !ok {
		return errNotASign
	}
	if !a.signed(hash, f.text(true, "sign", "sign_type"), signature) && !a.signed(hash, f.text(false, "sign", "sign_type"), signature) {
		return channel.ErrBadSignature
	}
	if f["notify_time"] == "" && f["msg_method"] != "" {
		return nil // a message of the platform's, which nothing is read from
	}
	if f["notify_time"] == "" {
		return errNotANotice
	}
	sent, err := time.ParseInLocation(timeLayout, f["notify_time"], shanghai)
	if err != nil {
		return errNotifyTime
	}
	return channel.CheckFresh(sent, n.ReceivedAt)
}

// noticeHash is the account's algorithm, whatever the message says: sign_type is not signed. An account of RSA takes RSA2 as
// well, which is what an app that is being moved to it sends; never the other way round.
func (a *account) noticeHash(signType string) (crypto.Hash, error) {
	switch {
	case signType == "" || signType == a.signType:
		return hashes[a.signType], nil
	case signType == rsa2:
		return hashes[rsa2], nil
	case signType == rsa1:
		return 0, errWeak
	}
	return 0, errUnknownType
}

// decodeSignature takes the one base64 text of a signature: no line breaks, no stray bits.
func decodeSignature(text string) ([]byte, bool) {
	if strings.ContainsAny(text, "\r\n") {
		return nil, false
	}
	signature, err := base64.StdEncoding.Strict().DecodeString(text)
	return signature, err == nil && len(signature) > 0
}

// signed tells whether Alipay signed a text.
func (a *account) signed(hash crypto.Hash, text, signature []byte) bool {
	return rsa.VerifyPKCS1v15(a.alipayKey, hash, digest(hash, text), signature) == nil
}

// sign signs a text as the app.
func (a *account) sign(text []byte) (string, error) {
	hash := hashes[a.signType]
	signature, err := rsa.SignPKCS1v15(rand.Reader, a.key, hash, digest(hash, text))
	return base64.StdEncoding.EncodeToString(signature), err
}

func digest(hash crypto.Hash, text []byte) []byte {
	h := hash.New()
	h.Write(text)
	return h.Sum(nil)
}
