package api

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestStrangersAreForgottenInTime(t *testing.T) {
	t.Parallel()
	s := newStrangers()
	now := time.Unix(1_770_000_000, 0)
	s.now = func() time.Time { return now }
	unknown := func(key, remote string) (refused bool, wait time.Duration) {
		q, refused, wait := s.ask(key, remote)
		if !refused && wait == 0 {
			s.strange(q)
		}
		return refused, wait
	}
	for i := range unknownBurst {
		_, wait := unknown(fmt.Sprint("k-", i), "[2001:db8::1]:1000")
		require.Zero(t, wait)
	}
	// The customer's other addresses are the same caller; its neighbour is not.
	_, wait := unknown("other", "[2001:db8::ffff]:2000")
	require.Positive(t, wait)
	_, wait = unknown("other", "[2001:db8:0:1::1]:2000")
	require.Zero(t, wait)
	_, wait = unknown("mapped", "[::ffff:192.0.2.1]:1")
	require.Zero(t, wait)

	refused, _ := unknown("k-0", "192.0.2.7:1")
	require.True(t, refused, "from wherever")
	now = now.Add(unknownFor)
	refused, wait = unknown("k-0", "[2001:db8::1]:1000")
	require.False(t, refused)
	require.Zero(t, wait, "its bucket has filled again")
}

func TestAQuestionThatFindsItsKeyCostsNothing(t *testing.T) {
	t.Parallel()
	s := newStrangers()
	now := time.Unix(1_770_000_000, 0)
	s.now = func() time.Time { return now }
	for i := range 2 * unknownBurst {
		q, _, wait := s.ask(fmt.Sprint("k-", i), "192.0.2.1:1")
		require.Zero(t, wait)
		if i%2 == 0 {
			s.known(q)
		} else {
			s.unsure(q) // the database did not answer
		}
	}
}

func TestWhatIsRememberedOfStrangersIsBounded(t *testing.T) {
	t.Parallel()
	s := newStrangers()
	for i := range 3 * maxAddresses {
		remote := fmt.Sprintf("10.%d.%d.%d:1", i>>16, i>>8&255, i&255)
		q, _, wait := s.ask(fmt.Sprint("unknown-", i), remote)
		require.Zero(t, wait)
		s.strange(q)
		q, _, _ = s.ask(fmt.Sprint("known-", i), remote)
		s.known(q)
		require.LessOrEqual(t, len(s.addresses), maxAddresses)
		require.LessOrEqual(t, len(s.unknown), maxUnknown)
		require.LessOrEqual(t, len(s.proven), maxProven)
	}
	require.NotEmpty(t, s.addresses)
}
