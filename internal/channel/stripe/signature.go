package stripe

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/paylatch/paylatch/internal/channel"
)

// SignatureHeader carries t=<unix seconds> and one v1=<hex> per secret that is live (docs.stripe.com/webhooks, "Verify
// manually"). Schemes other than v1 are not for production and are ignored.
const SignatureHeader = "Stripe-Signature"

// Verify checks the signature first and the time after it, so that the answer about the time is given to the sender alone.
func (a *account) Verify(n channel.Notification) error {
	values := n.Header.Values(SignatureHeader)
	switch {
	case len(values) > 1:
		return channel.ErrTwoHeaders
	case len(values) == 0 || strings.TrimSpace(values[0]) == "":
		return channel.ErrNoSignature
	}
	timestamp, signatures, err := splitHeader(values[0])
	if err != nil {
		return err
	}
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil {
		return channel.ErrBadTimestamp
	}
	if !a.signed(timestamp, n.Body, signatures) {
		return channel.ErrBadSignature
	}
	return channel.CheckFresh(time.Unix(seconds, 0), n.ReceivedAt)
}

// splitHeader gives the timestamp as it was signed and every v1 signature that is one.
func splitHeader(value string) (timestamp string, signatures [][]byte, err error) {
	for _, item := range strings.Split(value, ",") {
		scheme, content, _ := strings.Cut(strings.TrimSpace(item), "=")
		switch scheme {
		case "t":
			if timestamp != "" {
				return "", nil, channel.ErrBadTimestamp // which of them is signed?
			}
			timestamp = content
		case "v1":
			if mac, err := hex.DecodeString(content); err == nil && len(mac) == sha256.Size {
				signatures = append(signatures, mac)
			}
		}
	}
	if timestamp == "" {
		return "", nil, channel.ErrNoSignature
	}
	return timestamp, signatures, nil
}

// signed compares every signature with every secret, in constant time.
func (a *account) signed(timestamp string, body []byte, signatures [][]byte) bool {
	for _, secret := range a.webhookSecrets {
		want := mac(secret, timestamp, body)
		for _, signature := range signatures {
			if hmac.Equal(signature, want) {
				return true
			}
		}
	}
	return false
}

// mac is keyed with the whole secret, whsec_ included, as it is written: unlike Standard Webhooks, it is not base64.
func mac(secret, timestamp string, body []byte) []byte {
	h := hmac.New(sha256.New, []byte(secret))
	h.Write([]byte(timestamp))
	h.Write([]byte("."))
	h.Write(body)
	return h.Sum(nil)
}

// Sign gives the headers of a body that is sent at a time, under one secret.
func Sign(secret string, at time.Time, body []byte) http.Header {
	timestamp := strconv.FormatInt(at.Unix(), 10)
	h := http.Header{"Content-Type": {"application/json; charset=utf-8"}}
	h.Set(SignatureHeader, "t="+timestamp+",v1="+hex.EncodeToString(mac(secret, timestamp, body)))
	return h
}
