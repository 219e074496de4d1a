package stripe

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/strictjson"
)

// Compose implements [channel.Sender]: a payment_intent.succeeded of test mode. A live account parks it: a made-up message
// credits no real order. The event's id is made of the payment, so that the same sample gives the same bytes.
func (Channel) Compose(s channel.Sample) ([]byte, error) {
	value, err := toStripe(s.Amount, s.Currency)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(s.TransactionID + "\n" + s.OutTradeNo))
	object := map[string]any{
		"id": s.TransactionID, "object": objectIntent, "amount": value, "amount_received": value, "currency": strings.ToLower(s.Currency),
		"status": intentSucceeded, "created": s.OccurredAt.Unix(), "livemode": false, "metadata": map[string]string{metaOrder: s.OutTradeNo},
	}
	return json.Marshal(map[string]any{
		"id": "evt_" + hex.EncodeToString(sum[:12]), "object": objectEvent, "api_version": APIVersion, "created": s.OccurredAt.Unix(),
		"livemode": false, "type": "payment_intent.succeeded", "data": map[string]any{"object": object},
	})
}

// Sign implements [channel.Sender], with the first secret.
func (Channel) Sign(config, body []byte, at time.Time) (http.Header, error) {
	var cfg Config
	if err := strictjson.UnmarshalKnown(config, &cfg); err != nil || len(cfg.WebhookSecrets) == 0 {
		return nil, errors.New("the account has no secret to sign with")
	}
	return Sign(cfg.WebhookSecrets[0], at, body), nil
}
