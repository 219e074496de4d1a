package stripe

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// tell sends an event of what an object is now, to the endpoint. It is called under the lock; the sending is not.
func (s *Simulator) tell(kind string, about object) {
	if slices.Contains(s.quirks.Unheard, kind) {
		return
	}
	body, err := json.MarshalIndent(object{
		"id": "evt_3" + word(23), "object": "event", "api_version": "2026-03-25.dahlia", "created": s.now().Unix(),
		"data": object{"object": about}, "livemode": false, "pending_webhooks": 1,
		"request": object{"id": "req_" + word(14), "idempotency_key": nil}, "type": kind,
	}, "", "  ")
	if err != nil {
		panic(err) // maps of texts and numbers always marshal
	}
	s.core.Notify(s.endpoint, func(signWith string, at time.Time) (http.Header, []byte) {
		return http.Header{
			"Content-Type": {"application/json; charset=utf-8"}, "User-Agent": {"Stripe/1.0 (+https://stripe.com/docs/webhooks)"},
			"Stripe-Signature": {s.signature(signWith, at, body)},
		}, body
	})
}

// signature signs a webhook. While a secret is rolled ("rolling") Stripe signs with both; "old" is only the elder, "wrong" is
// nobody's, and "probe" carries only the scheme v0, which is not for production.
func (s *Simulator) signature(signWith string, at time.Time, body []byte) string {
	v1 := func(secret string) string {
		mac := hmac.New(sha256.New, []byte(secret))
		fmt.Fprintf(mac, "%d.%s", at.Unix(), body)
		return hex.EncodeToString(mac.Sum(nil))
	}
	t := fmt.Sprintf("t=%d", at.Unix())
	switch signWith {
	case "old":
		return t + ",v1=" + v1(s.oldSecret)
	case "rolling":
		return t + ",v1=" + v1(s.oldSecret) + ",v1=" + v1(s.webhookSecret)
	case "wrong":
		return t + ",v1=" + v1(s.neverToldSecret)
	case "probe":
		return t + ",v0=" + v1(s.webhookSecret)
	}
	return t + ",v1=" + v1(s.webhookSecret) + ",v0=" + v1(s.neverToldSecret)
}
