package client

import (
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"
)

// The test vector of the Standard Webhooks libraries.
const (
	vectorSecret    = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	vectorID        = "msg_p5jXN8AQM9LWM0D4loKWxJek"
	vectorTime      = 1614265330
	vectorBody      = `{"test": 2432232314}`
	vectorSignature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
)

func vector() http.Header {
	return http.Header{"Webhook-Id": {vectorID}, "Webhook-Timestamp": {strconv.Itoa(vectorTime)}, "Webhook-Signature": {vectorSignature}}
}

func TestTheVectorOfStandardWebhooksVerifies(t *testing.T) {
	t.Parallel()
	at := time.Unix(vectorTime, 0)
	for _, now := range []time.Time{at, at.Add(5 * time.Minute), at.Add(-5 * time.Minute)} {
		w, err := verifyWebhook(vector(), []byte(vectorBody), now, []string{vectorSecret})
		require.NoError(t, err)
		require.Equal(t, vectorID, w.ID)
		require.True(t, at.Equal(w.SentAt))
	}
	// Bare, and beside another secret, in any order.
	other := "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 24))
	for _, secrets := range [][]string{{strings.TrimPrefix(vectorSecret, "whsec_")}, {other, vectorSecret}, {vectorSecret, other}} {
		_, err := verifyWebhook(vector(), []byte(vectorBody), at, secrets)
		require.NoError(t, err)
	}
	several := vector()
	several.Set("webhook-signature", "v1,AAAA v2,"+vectorSignature[3:]+" "+vectorSignature)
	_, err := verifyWebhook(several, []byte(vectorBody), at, []string{vectorSecret})
	require.NoError(t, err)
}

func TestAMessageThatIsNotGenuineIsRefused(t *testing.T) {
	t.Parallel()
	at := time.Unix(vectorTime, 0)
	for name, change := range map[string]func(h http.Header, body *string, now *time.Time, secrets *[]string){
		"another byte":    func(_ http.Header, body *string, _ *time.Time, _ *[]string) { *body += " " },
		"another id":      func(h http.Header, _ *string, _ *time.Time, _ *[]string) { h.Set("webhook-id", "msg_2") },
		"a dot in the id": func(h http.Header, _ *string, _ *time.Time, _ *[]string) { h.Set("webhook-id", "msg.1") },
		"no id":           func(h http.Header, _ *string, _ *time.Time, _ *[]string) { h.Del("webhook-id") },
		"an empty id":     func(h http.Header, _ *string, _ *time.Time, _ *[]string) { h.Set("webhook-id", "") },
		"two ids":         func(h http.Header, _ *string, _ *time.Time, _ *[]string) { h.Add("webhook-id", vectorID) },
		"another time": func(h http.Header, _ *string, _ *time.Time, _ *[]string) {
			h.Set("webhook-timestamp", strconv.Itoa(vectorTime+1))
		},
		"a time with a plus": func(h http.Header, _ *string, _ *time.Time, _ *[]string) {
			h.Set("webhook-timestamp", "+"+strconv.Itoa(vectorTime))
		},
		"no time": func(h http.Header, _ *string, _ *time.Time, _ *[]string) { h.Del("webhook-timestamp") },
		"too old": func(_ http.Header, _ *string, now *time.Time, _ *[]string) {
			*now = at.Add(5*time.Minute + time.Second)
		},
		"too new": func(_ http.Header, _ *string, now *time.Time, _ *[]string) {
			*now = at.Add(-5*time.Minute - time.Second)
		},
		"no signature":       func(h http.Header, _ *string, _ *time.Time, _ *[]string) { h.Del("webhook-signature") },
		"an empty signature": func(h http.Header, _ *string, _ *time.Time, _ *[]string) { h.Set("webhook-signature", "") },
		"another version": func(h http.Header, _ *string, _ *time.Time, _ *[]string) {
			h.Set("webhook-signature", "v1a"+vectorSignature[2:])
		},
		"another signature": func(h http.Header, _ *string, _ *time.Time, _ *[]string) {
			h.Set("webhook-signature", "v1,"+base64.StdEncoding.EncodeToString(make([]byte, 32)))
		},
		"another secret": func(_ http.Header, _ *string, _ *time.Time, s *[]string) {
			*s = []string{"whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 24))}
		},
		"no secret":            func(_ http.Header, _ *string, _ *time.Time, s *[]string) { *s = nil },
		"an empty secret":      func(_ http.Header, _ *string, _ *time.Time, s *[]string) { *s = []string{""} },
		"an empty one as well": func(_ http.Header, _ *string, _ *time.Time, s *[]string) { *s = []string{vectorSecret, "whsec_"} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			header, body, now, secrets := vector(), vectorBody, at, []string{vectorSecret}
			change(header, &body, &now, &secrets)
			_, err := verifyWebhook(header, []byte(body), now, secrets)
			require.ErrorIs(t, err, ErrWebhook)
			require.NotContains(t, err.Error(), "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
		})
	}
}

func TestAMessageThatWasSignedNowIsRead(t *testing.T) {
	t.Parallel()
	signer, err := standardwebhooks.NewWebhook(vectorSecret)
	require.NoError(t, err)
	body := []byte(`{"type":"payment.paid","timestamp":"2026-03-01T08:00:00Z","data":{"out_trade_no":"o","n":9007199254740993}}`)
	now := time.Now()
	signature, err := signer.Sign("msg_1", now, body)
	require.NoError(t, err)
	header := http.Header{}
	header.Set("webhook-id", "msg_1")
	header.Set("webhook-timestamp", strconv.FormatInt(now.Unix(), 10))
	header.Set("webhook-signature", signature)
	w, err := VerifyWebhook(header, body, vectorSecret)
	require.NoError(t, err)
	require.Equal(t, "payment.paid", w.Type)
	require.JSONEq(t, `{"out_trade_no":"o","n":9007199254740993}`, string(w.Data))
	require.Equal(t, time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC), w.Timestamp)
	_, err = VerifyWebhook(header, body[1:], vectorSecret)
	require.ErrorIs(t, err, ErrWebhook)
}
