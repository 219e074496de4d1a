// Package standard is the channel of every sender that speaks Standard Webhooks 1.0.0
// (https://github.com/standard-webhooks/standard-webhooks, spec/standard-webhooks.md).
package standard

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	webhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/strictjson"
)

// Name of the channel.
const Name = "standard"

// Channel implements [channel.Channel].
type Channel struct{}

// Config of an account. Several secrets are live together while one is rotated.
type Config struct {
	Secrets []string `json:"secrets"`
}

// Name implements [channel.Channel].
func (Channel) Name() string { return Name }

// Open implements [channel.Channel].
func (Channel) Open(name string, config []byte) (channel.Account, error) {
	var cfg Config
	if err := strictjson.UnmarshalKnown(config, &cfg); err != nil {
		// The error of encoding/json may quote what it read.
		return nil, errors.New(`the configuration of a standard account is {"secrets": ["whsec_…"]}`)
	}
	if len(cfg.Secrets) == 0 {
		return nil, errors.New("a standard account needs at least one secret")
	}
	a := &account{name: name}
	for i, secret := range cfg.Secrets {
		hook, err := openSecret(secret)
		if err != nil {
			return nil, fmt.Errorf("secret %d of the account: %w", i+1, err)
		}
		a.hooks = append(a.hooks, hook)
	}
	return a, nil
}

// openSecret refuses what the specification does: a secret is 24 to 64 bytes, in base64 behind whsec_. An empty one would
// verify a signature that anybody can make.
func openSecret(secret string) (*webhooks.Webhook, error) {
	encoded, ok := strings.CutPrefix(secret, "whsec_")
	if !ok {
		return nil, errors.New("it must begin with whsec_")
	}
	key, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, errors.New("what follows whsec_ must be base64")
	}
	if len(key) < 24 || len(key) > 64 {
		return nil, fmt.Errorf("it must hold 24 to 64 bytes, not %d", len(key))
	}
	return webhooks.NewWebhookRaw(key)
}

// Accepted implements [channel.Channel].
func (Channel) Accepted() channel.Ack {
	return channel.Ack{Status: http.StatusOK, ContentType: "application/json", Body: []byte("{}")}
}

// Refused implements [channel.Channel].
func (Channel) Refused(status int, code, detail string) channel.Ack {
	return channel.ProblemAck(status, code, detail)
}

type account struct {
	name  string
	hooks []*webhooks.Webhook
}

// Identity is the account's own name: the specification knows no other.
func (a *account) Identity() string { return a.name }

// Verify checks the signature first and the time after it, so that the answer about the time is given to the sender alone.
func (a *account) Verify(n channel.Notification) error {
	for _, name := range []string{webhooks.HeaderWebhookID, webhooks.HeaderWebhookTimestamp, webhooks.HeaderWebhookSignature} {
		switch values := n.Header.Values(name); {
		case len(values) > 1:
			return channel.ErrTwoHeaders
		case len(values) == 0 || values[0] == "":
			return channel.ErrNoSignature
		}
	}
	seconds, err := strconv.ParseInt(n.Header.Get(webhooks.HeaderWebhookTimestamp), 10, 64)
	if err != nil {
		return channel.ErrBadTimestamp
	}
	if strings.Contains(n.Header.Get(webhooks.HeaderWebhookID), ".") {
		// id, time and body are joined by dots: a dot in the id would let one signature stand for two messages.
		return channel.ErrBadSignature
	}
	if !a.signed(n) {
		return channel.ErrBadSignature
	}
	return channel.CheckFresh(time.Unix(seconds, 0), n.ReceivedAt)
}

// signed leaves the time to Verify: the module measures it by its own clock, not at receipt.
func (a *account) signed(n channel.Notification) bool {
	for _, hook := range a.hooks {
		if hook.VerifyIgnoringTimestamp(n.Body, n.Header) == nil {
			return true
		}
	}
	return false
}

// Message is the payload.
type Message struct {
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"`
	Data      Data      `json:"data"`
}

// Data is what a message says; which fields are there depends on its type.
type Data struct {
	TransactionID string     `json:"transaction_id,omitempty"`
	OutTradeNo    string     `json:"out_trade_no,omitempty"`
	Amount        int64      `json:"amount,omitempty"`
	Currency      string     `json:"currency,omitempty"`
	OccurredAt    *time.Time `json:"occurred_at,omitempty"`
	RefundID      string     `json:"refund_id,omitempty"`
	OutRefundNo   string     `json:"out_refund_no,omitempty"`
	ShareID       string     `json:"share_id,omitempty"`
	OutOrderNo    string     `json:"out_order_no,omitempty"`
	Receivers     []Receiver `json:"receivers,omitempty"`
}

// Receiver is one leg of a share.
type Receiver struct {
	Account string `json:"account"`
	Amount  int64  `json:"amount"`
	State   string `json:"state"`
}

var kinds = map[string]channel.Kind{
	"payment.succeeded": channel.PaySuccess,
	"payment.closed":    channel.PayClosed,
	"payment.failed":    channel.PayFailed,
	"refund.succeeded":  channel.RefundSuccess,
	"refund.failed":     channel.RefundFailed,
	"share.result":      channel.ShareResult,
}

// Parse implements [channel.Account].
func (*account) Parse(body []byte) ([]channel.Event, error) {
	var envelope struct {
		Type string          `json:"type"`
		Data json.RawMessage `json:"data"`
	}
	if err := strictjson.Unmarshal(body, &envelope); err != nil {
		return nil, unusable(err)
	}
	kind, known := kinds[envelope.Type]
	if !known {
		if envelope.Type == "" {
			return nil, &channel.Unusable{Reason: "it has no type"}
		}
		return []channel.Event{{Kind: channel.Unsupported, Note: "type " + strconv.QuoteToASCII(shortened(envelope.Type))}}, nil
	}
	var d Data
	if err := json.Unmarshal(envelope.Data, &d); err != nil {
		return nil, unusable(err)
	}
	e := channel.Event{
		Kind:          kind,
		TransactionID: d.TransactionID,
		OutTradeNo:    d.OutTradeNo,
		Amount:        d.Amount,
		Currency:      strings.ToUpper(d.Currency),
	}
	if d.OccurredAt != nil {
		e.OccurredAt = d.OccurredAt.UTC()
	}
	switch kind {
	case channel.RefundSuccess, channel.RefundFailed:
		e.Subject, e.OutNo = d.RefundID, d.OutRefundNo
	case channel.ShareResult:
		return shareEvents(e, d)
	default:
		e.Subject = d.TransactionID
	}
	return []channel.Event{e}, nil
}

// shareEvents gives one event per receiver.
func shareEvents(e channel.Event, d Data) ([]channel.Event, error) {
	if d.ShareID == "" || len(d.Receivers) == 0 {
		return nil, &channel.Unusable{Reason: "a share result without share_id or receivers"}
	}
	var events []channel.Event
	for _, r := range d.Receivers {
		// The length keeps "a:b" + "c" and "a" + "b:c" apart.
		e.Subject = fmt.Sprintf("%s:%d:%s", d.ShareID, len(r.Account), r.Account)
		e.Amount, e.OutNo, e.Receiver = r.Amount, d.OutOrderNo, r.Account
		switch r.State {
		case "SUCCESS", "SUCCEEDED":
			e.LegState = channel.LegSucceeded
		case "CLOSED", "FAILED":
			e.LegState = channel.LegClosed
		default:
			e.LegState = channel.LegPending // no end: it says nothing that can be booked
		}
		e.Note = "receiver state " + strconv.QuoteToASCII(shortened(r.State))
		events = append(events, e)
	}
	return events, nil
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

func shortened(s string) string {
	if len(s) > 64 {
		return s[:64]
	}
	return s
}

// Compose implements [channel.Sender].
func (Channel) Compose(s channel.Sample) ([]byte, error) {
	at := s.OccurredAt.UTC()
	return json.Marshal(Message{Type: "payment.succeeded", Timestamp: at, Data: Data{
		TransactionID: s.TransactionID, OutTradeNo: s.OutTradeNo, Amount: s.Amount, Currency: s.Currency, OccurredAt: &at,
	}})
}

// Sign implements [channel.Sender], with the first secret. The message's id is the body's hash: it stays the same when the
// same body is sent again.
func (Channel) Sign(config, body []byte, at time.Time) (http.Header, error) {
	secret, err := FirstSecret(config)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(body)
	return Sign(secret, "msg_"+hex.EncodeToString(sum[:12]), at, body)
}

// FirstSecret is the secret that a sender signs with.
func FirstSecret(config []byte) (string, error) {
	var cfg Config
	if err := strictjson.UnmarshalKnown(config, &cfg); err != nil || len(cfg.Secrets) == 0 {
		return "", errors.New("the account has no secret to sign with")
	}
	return cfg.Secrets[0], nil
}

// Sign gives the headers of a message that is sent at a time.
func Sign(secret, id string, at time.Time, body []byte) (http.Header, error) {
	hook, err := openSecret(secret)
	if err != nil {
		return nil, err
	}
	signature, err := hook.Sign(id, at, body)
	if err != nil {
		return nil, err
	}
	h := http.Header{"Content-Type": {"application/json"}}
	h.Set(webhooks.HeaderWebhookID, id)
	h.Set(webhooks.HeaderWebhookTimestamp, strconv.FormatInt(at.Unix(), 10))
	h.Set(webhooks.HeaderWebhookSignature, signature)
	return h, nil
}
