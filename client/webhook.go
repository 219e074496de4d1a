package client

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Webhook is a message of paylatch to the merchant. The same event may come more than once: ID is the same each time.
type Webhook struct {
	ID        string          `json:"-"`
	SentAt    time.Time       `json:"-"`
	Type      string          `json:"type"`
	Timestamp time.Time       `json:"timestamp"`
	Data      json.RawMessage `json:"data"`
}

// ErrWebhook wraps every refusal of [VerifyWebhook]: answer it with 400 and do nothing.
var ErrWebhook = errors.New("paylatch: the webhook is not genuine")

// webhookWindow is how far a message's time may be from ours, both ways.
const webhookWindow = 5 * time.Minute

// VerifyWebhook checks a message after Standard Webhooks 1.0.0 and reads it. The body must be the bytes as they arrived. While
// a secret is being rotated, give both. Error: [ErrWebhook].
func VerifyWebhook(header http.Header, body []byte, secrets ...string) (*Webhook, error) {
	return verifyWebhook(header, body, time.Now(), secrets)
}

func verifyWebhook(header http.Header, body []byte, now time.Time, secrets []string) (*Webhook, error) {
	id, sent, err := webhookHead(header, now)
	if err != nil {
		return nil, err
	}
	if len(secrets) == 0 {
		return nil, fmt.Errorf("%w: no secret was given", ErrWebhook)
	}
	signed := []byte(id + "." + strconv.FormatInt(sent.Unix(), 10) + "." + string(body))
	matches := false
	for _, secret := range secrets {
		key, err := webhookKey(secret)
		if err != nil {
			return nil, err
		}
		mac := hmac.New(sha256.New, key)
		mac.Write(signed)
		want := mac.Sum(nil)
		for _, signature := range strings.Fields(header.Get("webhook-signature")) {
			version, text, _ := strings.Cut(signature, ",")
			given, err := base64.StdEncoding.DecodeString(text)
			if version == "v1" && err == nil && hmac.Equal(given, want) {
				matches = true
			}
		}
	}
	if !matches {
		return nil, fmt.Errorf("%w: no signature matches", ErrWebhook)
	}
	w := &Webhook{ID: id, SentAt: sent}
	if err := json.Unmarshal(body, w); err != nil {
		return nil, fmt.Errorf("%w: its body is not JSON", ErrWebhook)
	}
	return w, nil
}

// webhookHead reads id and time; each header stands once, so that nobody can make two readers see two messages.
func webhookHead(header http.Header, now time.Time) (id string, sent time.Time, err error) {
	for _, name := range []string{"webhook-id", "webhook-timestamp", "webhook-signature"} {
		if len(header.Values(name)) != 1 {
			return "", sent, fmt.Errorf("%w: it needs one header %s", ErrWebhook, name)
		}
	}
	id = header.Get("webhook-id")
	if id == "" || strings.Contains(id, ".") { // a dot would move the border between id and time
		return "", sent, fmt.Errorf("%w: its id is empty or has a dot", ErrWebhook)
	}
	text := header.Get("webhook-timestamp")
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || strconv.FormatInt(seconds, 10) != text {
		return "", sent, fmt.Errorf("%w: its time is not a number of seconds", ErrWebhook)
	}
	sent = time.Unix(seconds, 0).UTC()
	if sent.Before(now.Add(-webhookWindow)) || sent.After(now.Add(webhookWindow)) {
		return "", sent, fmt.Errorf("%w: its time is too far from now", ErrWebhook)
	}
	return id, sent, nil
}

func webhookKey(secret string) ([]byte, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil || len(key) < 16 {
		return nil, fmt.Errorf("%w: a secret is whsec_ and at least 16 bytes in base64", ErrWebhook)
	}
	return key, nil
}
