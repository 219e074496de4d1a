package refund_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/refund"
)

// Keys of an API expire and are revoked. What an authentic notice says by itself is booked all the same.
func TestANoticeThatDecidesNeedsNoAnswerOfTheChannel(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	at := func(kind channel.Kind, when time.Time) channel.Event {
		e := refundEvent(kind, "r", "tx-o", 60)
		e.OccurredAt = when
		return e
	}
	begun := func(t *testing.T) *story {
		t.Helper()
		s := newStory(t)
		s.paid(t, "o", 100)
		s.bank.set(func(b *bank) { b.hold = true })
		s.begin(t, "o", "r", 60)
		s.advance(t, "r")
		return s
	}
	// notice reports an event while the bank answers nobody, and has it booked without a question.
	notice := func(t *testing.T, s *story, e channel.Event) payment.Applied {
		t.Helper()
		s.bank.set(func(b *bank) { b.away = true })
		results, err := s.Entry.Report(t.Context(), s.at, bankBody(e), s.Clock.Now())
		require.NoError(t, err)
		s.driver.Take()
		applied, err := s.Books.Apply(t.Context(), results[0].EventID)
		require.NoError(t, err)
		return applied
	}
	t.Run("of an open refund", func(t *testing.T) {
		t.Parallel()
		s := begun(t)
		require.Equal(t, payment.Refunded, notice(t, s, at(channel.RefundSuccess, noon)).Outcome)
		s.RequireInvariants(t)
	})
	t.Run("a failure after the success", func(t *testing.T) {
		t.Parallel()
		s := begun(t)
		notice(t, s, at(channel.RefundSuccess, noon))
		require.Equal(t, payment.RefundReversed, notice(t, s, at(channel.RefundFailed, noon.Add(time.Hour))).Outcome)
		require.Equal(t, refund.Failed, s.get(t, "r").State)
		s.RequireInvariants(t)
	})
	t.Run("a failure that the success overtook", func(t *testing.T) {
		t.Parallel()
		s := begun(t)
		notice(t, s, at(channel.RefundSuccess, noon))
		require.Equal(t, payment.Stale, notice(t, s, at(channel.RefundFailed, noon.Add(-time.Hour))).Outcome)
		require.Equal(t, refund.Succeeded, s.get(t, "r").State)
	})
	t.Run("a failure some days after the answer that it succeeded", func(t *testing.T) {
		t.Parallel()
		s := begun(t)
		s.bank.settle("r", channel.RefundSucceeded)
		s.advance(t, "r")
		require.Equal(t, payment.RefundReversed, notice(t, s, at(channel.RefundFailed, s.Clock.Now().Add(48*time.Hour))).Outcome)
		s.RequireInvariants(t)
	})
	t.Run("a success after a failure", func(t *testing.T) {
		t.Parallel()
		s := begun(t)
		notice(t, s, at(channel.RefundFailed, noon))
		require.Equal(t, payment.RefundAdopted, notice(t, s, at(channel.RefundSuccess, noon.Add(time.Hour))).Outcome)
		require.Equal(t, refund.Succeeded, s.get(t, "r").State)
		s.RequireInvariants(t)
	})
	t.Run("a success after the channel had refused to be called", func(t *testing.T) {
		t.Parallel()
		s := newStory(t)
		s.paid(t, "o", 100)
		s.bank.set(func(b *bank) { b.reject = "NOT_NOW" })
		s.begin(t, "o", "r", 60)
		require.Equal(t, refund.Failed, s.advance(t, "r"))
		require.Equal(t, payment.RefundAdopted, notice(t, s, at(channel.RefundSuccess, time.Time{})).Outcome, "it never said that it failed")
		require.True(t, strings.HasPrefix(s.stands(t, "o"), "merchant 40 held 0, receivable 0"))
		s.RequireInvariants(t)
	})
	t.Run("but one that may be older than the end has the channel asked", func(t *testing.T) {
		t.Parallel()
		for name, e := range map[string]channel.Event{
			"without a time":                      at(channel.RefundFailed, time.Time{}),
			"of a time that it learned by asking": at(channel.RefundFailed, noon.Add(time.Hour)),
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := begun(t)
				s.bank.settle("r", channel.RefundSucceeded)
				s.advance(t, "r")
				require.Equal(t, bankName, notice(t, s, e).Ask)
				require.Equal(t, refund.Succeeded, s.get(t, "r").State)
			})
		}
	})
}
