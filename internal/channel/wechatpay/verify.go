package wechatpay

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/paylatch/paylatch/internal/channel"
)

// The headers that sign a message, on notices and on replies alike.
const (
	headerSerial    = "Wechatpay-Serial"
	headerSignature = "Wechatpay-Signature"
	headerTimestamp = "Wechatpay-Timestamp"
	headerNonce     = "Wechatpay-Nonce"
	headerType      = "Wechatpay-Signature-Type"

	signatureType = "WECHATPAY2-SHA256-RSA2048"
	// probePrefix begins signatures that WeChat Pay makes wrong on purpose, now and then, to see whether they are refused.
	probePrefix = "WECHATPAY/SIGNTEST/"
)

// Refusals of this channel.
var (
	errProbe = &channel.Refusal{Status: http.StatusBadRequest, Code: "signature_probe",
		Detail: "the signature is a probe of WeChat Pay's, which is to be refused"}
	errUnknownSerial = &channel.Refusal{Status: http.StatusUnauthorized, Code: "serial_unknown",
		Detail: "the message is signed with a key that the account does not list"}
	errExpired = &channel.Refusal{Status: http.StatusUnauthorized, Code: "certificate_expired",
		Detail: "the certificate that the message is signed with is not valid at this time"}
	errType = &channel.Refusal{Status: http.StatusBadRequest, Code: "signature_type_unknown",
		Detail: "the signature is not of type " + signatureType}
	errNotANotice = &channel.Refusal{Status: http.StatusUnauthorized, Code: "not_a_notice",
		Detail: "the message is a signed reply of the API, not a notice to this account"}
)

// Verify proves that the message is a notice to this account: the platform signed these bytes, now. A reply of the API bears
// the same signature, but not the account's name: a merchant could send the reply to a query of its own to another's
// callback. So what has the form of a reply is refused; a notice's resource opens under the account's own key alone.
func (a *account) Verify(n channel.Notification) error {
	if refusal := a.authenticate(n.Header, n.Body, n.ReceivedAt); refusal != nil {
		return refusal
	}
	var f form
	if json.Unmarshal(n.Body, &f) == nil && f.isReply() {
		return errNotANotice
	}
	return nil
}

// authenticate proves that the platform signed a body, within the window around a time.
func (a *account) authenticate(h http.Header, body []byte, at time.Time) *channel.Refusal {
	for _, name := range []string{headerSerial, headerSignature, headerTimestamp, headerNonce} {
		switch values := h.Values(name); {
		case len(values) > 1:
			return channel.ErrTwoHeaders
		case len(values) == 0 || values[0] == "":
			return channel.ErrNoSignature
		}
	}
	switch types := h.Values(headerType); {
	case len(types) > 1:
		return channel.ErrTwoHeaders
	case len(types) == 1 && types[0] != signatureType:
		return errType
	}
	seconds, err := strconv.ParseInt(h.Get(headerTimestamp), 10, 64)
	if err != nil {
		return channel.ErrBadTimestamp
	}
	if strings.HasPrefix(h.Get(headerSignature), probePrefix) {
		return errProbe
	}
	key, ok := a.keys.find(h.Get(headerSerial))
	if !ok {
		return errUnknownSerial
	}
	if !key.valid(at) {
		return errExpired
	}
	signature, err := base64.StdEncoding.DecodeString(h.Get(headerSignature))
	if err != nil {
		return channel.ErrBadSignature
	}
	digest := digestOf(h.Get(headerTimestamp), h.Get(headerNonce), string(body))
	if rsa.VerifyPKCS1v15(key.key, crypto.SHA256, digest, signature) != nil {
		return channel.ErrBadSignature
	}
	// After the signature, so that the answer about the time is given to the sender alone.
	var stale *channel.Refusal
	switch err := channel.CheckFresh(time.Unix(seconds, 0), at); {
	case err == nil:
		return nil
	case errors.As(err, &stale):
		return stale
	default:
		return channel.ErrStale
	}
}

// digestOf hashes lines, each with its end: the form of every signed text of the protocol.
func digestOf(lines ...string) []byte {
	h := sha256.New()
	for _, line := range lines {
		_, _ = io.WriteString(h, line) // a hash never fails
		_, _ = h.Write([]byte{'\n'})
	}
	return h.Sum(nil)
}

// sign signs lines with the merchant's key.
func (a *account) sign(lines ...string) (string, error) {
	signature, err := rsa.SignPKCS1v15(nil, a.private, crypto.SHA256, digestOf(lines...))
	return base64.StdEncoding.EncodeToString(signature), err
}
