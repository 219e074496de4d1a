package wechatpay

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/strictjson"
)

// form is what tells a notice from a reply: the fields that stand at the top of each.
type form struct {
	EventType  string          `json:"event_type"`
	Resource   json.RawMessage `json:"resource"`
	TradeState string          `json:"trade_state"`
	RefundID   string          `json:"refund_id"`
	OrderID    string          `json:"order_id"`
}

// isReply tells whether a body would be read as a reply of the API.
func (f form) isReply() bool {
	return f.EventType == "" && f.Resource == nil && (f.TradeState != "" || f.RefundID != "" || f.OrderID != "")
}

// resource is the encrypted part of a notice.
type resource struct {
	Algorithm      string `json:"algorithm"`
	Ciphertext     string `json:"ciphertext"`
	AssociatedData string `json:"associated_data"` // may be empty
	Nonce          string `json:"nonce"`
	OriginalType   string `json:"original_type"`
}

// Types of notices that say something to paylatch.
const (
	typeTransaction = "TRANSACTION.SUCCESS"
	typeShare       = "PROFITSHARING.SUCCESS"
)

// refundStatus gives the status that each type of refund notice tells of.
var refundStatus = map[string]string{
	"REFUND.SUCCESS":  "SUCCESS",
	"REFUND.ABNORMAL": "ABNORMAL",
	"REFUND.CLOSED":   "CLOSED",
}

// originalShare marks the facts of a sharing, also where the notice's type is that of a payment.
const originalShare = "profitsharing"

// Parse reads a notice, or the stored answer to a query of our own.
func (a *account) Parse(body []byte) ([]channel.Event, error) {
	var f form
	if err := strictjson.Unmarshal(body, &f); err != nil {
		return nil, unusable(err)
	}
	if f.isReply() {
		return a.parseReply(f, body)
	}
	return a.parseNotice(f)
}

func (a *account) parseReply(f form, body []byte) ([]channel.Event, error) {
	switch {
	case f.TradeState != "":
		return read(body, func(t transaction) ([]channel.Event, error) { return t.events(a, true) })
	case f.RefundID != "":
		return read(body, func(r refund) ([]channel.Event, error) { return r.events(a) })
	default:
		return read(body, func(s sharing) ([]channel.Event, error) { return s.events(a), nil })
	}
}

func (a *account) parseNotice(f form) ([]channel.Event, error) {
	status, isRefund := refundStatus[f.EventType]
	switch {
	case f.EventType == "":
		return nil, &channel.Unusable{Reason: "it is neither a notice nor an answer: it has no event_type"}
	case f.EventType != typeTransaction && f.EventType != typeShare && !isRefund:
		return unsupported("type " + quoted(f.EventType)), nil
	}
	plain, original, err := a.decrypt(f.Resource)
	if err != nil {
		return nil, err
	}
	switch {
	case f.EventType == typeShare || original == originalShare:
		return read(plain, func(s shareNotice) ([]channel.Event, error) { return s.events(a), nil })
	case isRefund:
		return read(plain, func(r refund) ([]channel.Event, error) {
			if r.status() != status {
				return nil, &channel.Unusable{Reason: fmt.Sprintf("its refund_status %s is not that of %s", quoted(r.status()), f.EventType)}
			}
			return r.events(a)
		})
	default:
		return read(plain, func(t transaction) ([]channel.Event, error) { return t.events(a, false) })
	}
}

// decrypt opens a notice's resource.
func (a *account) decrypt(raw json.RawMessage) (plain []byte, original string, err error) {
	var r resource
	if err := json.Unmarshal(orNull(raw), &r); err != nil {
		return nil, "", unusable(err)
	}
	if r.Algorithm != "AEAD_AES_256_GCM" {
		return nil, "", &channel.Unusable{Reason: "its resource is not encrypted with AEAD_AES_256_GCM"}
	}
	sealed, err := base64.StdEncoding.DecodeString(r.Ciphertext)
	if err != nil || len(r.Nonce) != a.aead.NonceSize() {
		return nil, "", &channel.Unusable{Reason: "its resource has no ciphertext in base64, or no nonce of 12 bytes"}
	}
	plain, err = a.aead.Open(nil, []byte(r.Nonce), sealed, []byte(r.AssociatedData))
	if err != nil {
		return nil, "", &channel.Unusable{Reason: "its resource does not open under the account's api_v3_key"}
	}
	return plain, r.OriginalType, nil
}

// read reads one JSON object and hands it on.
func read[T any](body []byte, events func(T) ([]channel.Event, error)) ([]channel.Event, error) {
	var facts T
	if err := strictjson.Unmarshal(body, &facts); err != nil {
		return nil, unusable(err)
	}
	return events(facts)
}

func unsupported(note string) []channel.Event {
	return []channel.Event{{Kind: channel.Unsupported, Note: note}}
}

func orNull(raw json.RawMessage) []byte {
	if raw == nil {
		return []byte("null")
	}
	return raw
}

func unusable(err error) error {
	var typed *json.UnmarshalTypeError
	switch {
	case errors.Is(err, strictjson.ErrMalformed):
		return &channel.Unusable{Reason: err.Error()}
	case errors.As(err, &typed):
		return &channel.Unusable{Reason: fmt.Sprintf("its field %q is not of the right type", typed.Field)}
	default:
		return &channel.Unusable{Reason: "its fields cannot be read"}
	}
}

// quoted is a channel's text for people: short, and in ASCII.
func quoted(s string) string { return strconv.QuoteToASCII(shortened(s, 64)) }

// shortened cuts a text to a number of bytes, between characters.
func shortened(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}
