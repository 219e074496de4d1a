// Package channeltest is the suite that every channel adapter must pass. An adapter's test fills in a [Harness] and calls
// [Run].
package channeltest

import (
	"bytes"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/channel"
)

// Payment is what a harness's success message reports.
type Payment struct {
	TransactionID string
	OutTradeNo    string
	Amount        int64
	Currency      string
}

// Harness is what the suite needs to know about a channel.
type Harness struct {
	Channel channel.Channel
	// Config is a valid configuration; the keys that Sign signs with are in it.
	Config []byte
	// RefusedConfigs could not verify a message, or could be made to verify any: Open must refuse each. By name.
	RefusedConfigs map[string][]byte
	// Sign gives the headers of a body that the channel sends at a time, under a valid key. A channel may have several
	// valid keys at once: Sign is called for each index below ValidKeys.
	Sign      func(t *testing.T, key int, body []byte, at time.Time) http.Header
	ValidKeys int
	// SignWrong signs with a key that is not the channel's.
	SignWrong func(t *testing.T, body []byte, at time.Time) http.Header
	// SignatureHeaders must each stand exactly once.
	SignatureHeaders []string
	// A channel that puts its signature into the body sets these three and none of the three above. Seal gives the body as
	// the channel sends it at a time, under the valid key of an index; SealWrong under a key that is not the channel's;
	// Reseal puts another text where a sealed body has its signature.
	Seal      func(t *testing.T, key int, body []byte, at time.Time) []byte
	SealWrong func(t *testing.T, body []byte, at time.Time) []byte
	Reseal    func(t *testing.T, sealed []byte, signature string) []byte
	// Success makes the body of a payment's success message.
	Success func(t *testing.T, p Payment) []byte
	// OneCurrency says that the channel's messages name no currency, because there is only one.
	OneCurrency bool
	// SharedAccount says that others may use the same account: a payment that bears no number of ours is theirs, and not broken.
	SharedAccount bool
	// UnknownType is the body of an authentic message of a type that does not exist.
	UnknownType []byte
	// Unusable are authentic bodies that must be parked, by name, beside those of the suite.
	Unusable map[string][]byte
	// AcceptedBody and AcceptedStatus are the exact success ack.
	AcceptedStatus int
	AcceptedBody   string
}

var (
	now     = time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)
	payment = Payment{TransactionID: "4200001", OutTradeNo: "order-1", Amount: 9900, Currency: "CNY"}
)

// send gives a body and its headers as the channel sends them.
func (h Harness) send(t *testing.T, key int, body []byte, at time.Time) (http.Header, []byte) {
	t.Helper()
	if h.Seal != nil {
		return http.Header{}, h.Seal(t, key, body, at)
	}
	return h.Sign(t, key, body, at), body
}

func (h Harness) sendWrong(t *testing.T, body []byte, at time.Time) (http.Header, []byte) {
	t.Helper()
	if h.SealWrong != nil {
		return http.Header{}, h.SealWrong(t, body, at)
	}
	return h.SignWrong(t, body, at), body
}

// notSignatures are texts that stand where a signature should, among them the one of WeChat Pay's probes.
var notSignatures = []string{"", " ", "x", "v1,", "v1,=", "WECHATPAY/SIGNTEST/abc", strings.Repeat("A", 10_000), "99999999999999999999"}

// Run holds a channel to the suite.
func Run(t *testing.T, h Harness) {
	account, err := h.Channel.Open("main", h.Config)
	require.NoError(t, err)
	require.NotEmpty(t, account.Identity())
	verify := func(header http.Header, body []byte, at time.Time) error {
		return account.Verify(channel.Notification{Header: header, Body: body, ReceivedAt: at})
	}
	refused := func(t *testing.T, err error) {
		t.Helper()
		var refusal *channel.Refusal
		require.ErrorAs(t, err, &refusal)
		require.True(t, refusal.Status >= 400 && refusal.Status < 500, "a refusal is a 4xx, not %d", refusal.Status)
	}
	body := h.Success(t, payment)

	t.Run("a good message is authentic under every valid key and says what was paid", func(t *testing.T) {
		require.Positive(t, h.ValidKeys)
		for key := range h.ValidKeys {
			header, body := h.send(t, key, body, now)
			require.NoError(t, verify(header, body, now))
			events, err := channel.Read(account, body)
			require.NoError(t, err)
			require.Len(t, events, 1)
			e := events[0]
			require.Equal(t, channel.PaySuccess, e.Kind)
			require.Equal(t, payment, Payment{e.TransactionID, e.OutTradeNo, e.Amount, e.Currency})
			require.Equal(t, h.Channel.Name()+":"+payment.TransactionID+":PAY_SUCCESS", e.Key(h.Channel.Name(), body))
			require.Empty(t, e.Mismatch)
		}
	})

	t.Run("a body changed by one byte is refused", func(t *testing.T) {
		header, sent := h.send(t, 0, body, now)
		// In a form some bytes are not signed, such as those of the signature's own name: the middle is that of what is.
		for _, at := range []int{0, len(body) / 2, len(sent) - 1} {
			tampered := bytes.Clone(sent)
			tampered[at] ^= 1
			refused(t, verify(header, tampered, now))
		}
		refused(t, verify(header, append(bytes.Clone(sent), ' '), now))
	})

	t.Run("a wrong key is refused", func(t *testing.T) {
		header, body := h.sendWrong(t, body, now)
		refused(t, verify(header, body, now))
	})

	t.Run("a signature that is not one is refused without a panic", func(t *testing.T) {
		if h.Seal != nil {
			for _, value := range notSignatures {
				refused(t, verify(http.Header{}, h.Reseal(t, h.Seal(t, 0, body, now), value), now))
			}
			refused(t, verify(http.Header{}, body, now))
			return
		}
		require.NotEmpty(t, h.SignatureHeaders)
		for _, name := range h.SignatureHeaders {
			for _, value := range notSignatures {
				header := h.Sign(t, 0, body, now)
				header.Set(name, value)
				refused(t, verify(header, body, now))
			}
			header := h.Sign(t, 0, body, now)
			header.Del(name)
			refused(t, verify(header, body, now))
		}
	})

	t.Run("a signature header that stands twice is refused, even with the same value", func(t *testing.T) {
		for _, name := range h.SignatureHeaders {
			header := h.Sign(t, 0, body, now)
			header.Add(name, header.Get(name))
			refused(t, verify(header, body, now))
		}
	})

	t.Run("a time outside 300 s either way is refused, judged at receipt", func(t *testing.T) {
		header, body := h.send(t, 0, body, now)
		require.NoError(t, verify(header, body, now.Add(299*time.Second)))
		require.NoError(t, verify(header, body, now.Add(-299*time.Second)))
		refused(t, verify(header, body, now.Add(301*time.Second)))
		refused(t, verify(header, body, now.Add(-301*time.Second)))
	})

	t.Run("authentic bodies that say nothing usable are unusable, never a panic and never an event", func(t *testing.T) {
		junk := map[string][]byte{
			"empty":    {},
			"not JSON": []byte("<xml/>"),
			"null":     []byte("null"),
			"list":     []byte("[]"),
			"deep":     bytes.Repeat([]byte("["), 100_000),
			"binary":   {0, 1, 2, 255},
			"huge":     append(append([]byte(`{"a":"`), bytes.Repeat([]byte("x"), 1<<20)...), '"', '}'),
		}
		bodies := map[string][]byte{
			"NUL in id":  h.Success(t, Payment{"a\x00b", "order-1", 1, "CNY"}),
			"long id":    h.Success(t, Payment{strings.Repeat("7", 129), "order-1", 1, "CNY"}),
			"long order": h.Success(t, Payment{"7", strings.Repeat("o", 129), 1, "CNY"}),
			"no order":   h.Success(t, Payment{"7", "", 1, "CNY"}),
			"no id":      h.Success(t, Payment{"", "order-1", 1, "CNY"}),
			"no amount":  h.Success(t, Payment{"7", "order-1", 0, "CNY"}),
			"negative":   h.Success(t, Payment{"7", "order-1", -1, "CNY"}),
		}
		if !h.OneCurrency {
			bodies["no currency"] = h.Success(t, Payment{"7", "order-1", 1, ""})
		}
		if h.SharedAccount {
			events, err := channel.Read(account, bodies["no order"])
			require.NoError(t, err)
			require.True(t, events[0].Foreign)
			delete(bodies, "no order")
		}
		maps.Copy(bodies, h.Unusable)
		maps.Copy(bodies, junk)
		for name, body := range bodies {
			header, body := h.send(t, 0, body, now)
			// Where the signature stands in the body, what has not the body's form may be refused for it.
			if err := verify(header, body, now); err != nil && h.Seal != nil && junk[name] != nil {
				refused(t, err)
			} else {
				require.NoError(t, err, name)
			}
			events, err := channel.Read(account, body)
			var unusable *channel.Unusable
			require.ErrorAs(t, err, &unusable, name)
			require.NotEmpty(t, unusable.Reason, name)
			require.Empty(t, events, name)
		}
	})

	t.Run("an authentic message of an unknown type is an event of its own kind", func(t *testing.T) {
		events, err := channel.Read(account, h.UnknownType)
		require.NoError(t, err)
		require.Len(t, events, 1)
		require.Equal(t, channel.Unsupported, events[0].Kind)
		require.Equal(t, channel.RawKey(h.UnknownType), events[0].Key(h.Channel.Name(), h.UnknownType))
	})

	t.Run("a body of no events, or of more than can be stored at once, is unusable", func(t *testing.T) {
		for _, n := range []int{0, 51, 20_000} {
			_, err := channel.Read(many{account, n}, body)
			var unusable *channel.Unusable
			require.ErrorAs(t, err, &unusable)
		}
		events, err := channel.Read(many{account, 50}, body)
		require.NoError(t, err)
		require.Len(t, events, 50)
	})

	t.Run("the longest identifiers that are allowed pass", func(t *testing.T) {
		events, err := channel.Read(account, h.Success(t, Payment{strings.Repeat("7", 128), strings.Repeat("o", 64), 1, "CNY"}))
		require.NoError(t, err)
		require.Len(t, events, 1)
	})

	t.Run("a configuration that cannot verify is refused", func(t *testing.T) {
		for name, config := range h.RefusedConfigs {
			_, err := h.Channel.Open("main", config)
			require.Error(t, err, name)
			var panicked interface{ RuntimeError() }
			require.False(t, errors.As(err, &panicked), name)
		}
	})

	t.Run("the acks are exactly the channel's", func(t *testing.T) {
		ack := h.Channel.Accepted()
		require.Equal(t, h.AcceptedStatus, ack.Status)
		require.Equal(t, h.AcceptedBody, string(ack.Body))
		for _, status := range []int{400, 401, 404, 413, 500, 503} {
			require.Equal(t, status, h.Channel.Refused(status, "code", "detail").Status, "a failure is never a 2xx")
		}
	})
}

// many is an account whose every body holds a number of events.
type many struct {
	channel.Account
	n int
}

func (m many) Parse([]byte) ([]channel.Event, error) {
	return slices.Repeat([]channel.Event{{Kind: channel.Unsupported}}, m.n), nil
}
