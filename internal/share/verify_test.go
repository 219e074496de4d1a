package share_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/share"
	"github.com/paylatch/paylatch/internal/verify"
)

// played is a payment whose sharings are in every state.
func played(t *testing.T) *sharer {
	t.Helper()
	s := newSharer(t, 1000, "")
	s.bank.closed["b"] = "no"
	s.share(t, share.Request{OutOrderNo: "partial", Receivers: amounts("a", 100, "b", 50)})
	s.call(t, "partial")
	s.bank.refuse["share"] = &channel.Rejection{Code: "NO"}
	s.share(t, share.Request{OutOrderNo: "refused", Receivers: amounts("a", 10)})
	s.call(t, "refused")
	delete(s.bank.refuse, "share")
	s.bank.pending = true
	s.share(t, share.Request{OutOrderNo: "open", Receivers: amounts("a", 200, "c", 1)})
	s.call(t, "open")
	s.share(t, share.Request{OutOrderNo: "new", Receivers: amounts("c", 2)})
	s.RequireInvariants(t)
	return s
}

// undone is a payment of whose refunds one receiver gave back and one owes.
func undone(t *testing.T) *sharer {
	t.Helper()
	s := sharedSale(t)
	s.pay(t, "other", 1000, "")
	s.bank.broke["a"] = "empty"
	s.refund(t, "r", 300)
	s.advance(t, "r")
	require.Equal(t, []string{"r a 90 OWED", "r b 210 RETURNED"}, s.returns(t))
	return s
}

func TestDamageToReturnsIsNoticed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sql  string
		want string
	}{
		"a return of another amount":     {"UPDATE share_returns SET amount = amount + 1 WHERE state = 'OWED'", "returns_are_taken_back"},
		"a leg that forgets":             {"UPDATE share_legs SET taken_back = 0", "returns_are_taken_back"},
		"a debt forgiven by hand":        {"UPDATE share_returns SET state = 'VOID' WHERE state = 'OWED'", "returns_are_booked_once"},
		"a return without its journal":   {"UPDATE share_returns SET state = 'PENDING', journal_id = NULL WHERE state = 'RETURNED'", "returns_are_booked_once"},
		"a debt cleared by hand":         {"UPDATE share_returns SET state = 'CLEARED', journal_id = (SELECT journal_id FROM share_legs LIMIT 1) WHERE state = 'OWED'", "returns_are_booked_once"},
		"a receivable written by hand":   {"UPDATE ledger_accounts SET balance = 0 WHERE code = 'receivable:a'", "receivers_have_what_they_got"},
		"a receiver's account emptied":   {"UPDATE ledger_accounts SET balance = 0 WHERE code = 'receiver:b'", "receivers_have_what_they_got"},
		"the index of returns dropped":   {"DROP INDEX share_return_of_refund_once", "guards_are_in_place"},
		"the trigger of returns is off":  {"ALTER TABLE share_returns DISABLE TRIGGER check_return_move", "guards_are_in_place"},
		"a refund that awaits too much":  {"UPDATE refunds SET awaited = 1, held = held - 1", "refunds_are_booked"},
		"a refund that forgot to settle": {"UPDATE share_returns SET state = 'PENDING', journal_id = NULL WHERE state = 'RETURNED'", "returns_are_taken_back"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := undone(t)
			damage(t, s, c.sql, c.want)
		})
	}
}

// damage does what only somebody with the owner's rights can, with the guards switched off, and requires that it is noticed.
func damage(t *testing.T, s *sharer, sql, want string) {
	t.Helper()
	require.NoError(t, pgx.BeginFunc(t.Context(), s.Owner, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), "SET LOCAL session_replication_role = replica"); err != nil {
			return err
		}
		_, err := tx.Exec(t.Context(), sql)
		return err
	}))
	violations, err := verify.Run(t.Context(), s.Engine, time.Now(), nil)
	require.NoError(t, err)
	var broken []string
	for _, v := range violations {
		broken = append(broken, v.Invariant)
	}
	require.Contains(t, broken, want)
}

func TestDamageToSharingsIsNoticed(t *testing.T) {
	t.Parallel()
	const leg = "(SELECT l.id FROM share_legs l JOIN shares s ON s.id = l.share_id WHERE s.out_order_no = 'partial' AND l.account = 'a')"
	for name, c := range map[string]struct {
		sql  string
		want string
	}{
		"a payment that forgets what is shared": {"UPDATE payments SET shared_amount = 0", "shares_within_payments"},
		"a payment that forgets what is open":   {"UPDATE payments SET shared_pending = shared_pending - 1", "shares_within_payments"},
		"more shared than is left":              {"UPDATE payments SET refunded_amount = 800, refund_state = 'PARTIAL'", "shares_within_payments"},
		"a leg of another amount":               {"UPDATE share_legs SET amount = 99 WHERE id = " + leg, "shared_legs_are_booked_once"},
		"a leg without its journal":             {"UPDATE share_legs SET state = 'CLOSED', journal_id = NULL WHERE id = " + leg, "shared_legs_are_booked_once"},
		"a paid leg of another receiver":        {"UPDATE share_legs SET account = 'z' WHERE id = " + leg, "shared_legs_are_booked_once"},
		"a hold released by hand":               {"UPDATE holds SET released = amount WHERE key = 'share/open'", "held_for_open_legs"},
		"a leg closed by hand":                  {"UPDATE share_legs SET state = 'CLOSED' WHERE account = 'c' AND state = 'PENDING'", "held_for_open_legs"},
		"a sharing of another amount":           {"UPDATE shares SET amount = amount + 1 WHERE out_order_no = 'partial'", "shares_follow_their_legs"},
		"a sharing ended by hand":               {"UPDATE shares SET state = 'SUCCEEDED', ended_at = now() WHERE out_order_no = 'open'", "shares_follow_their_legs"},
		"a partial one called a success":        {"UPDATE shares SET state = 'SUCCEEDED' WHERE out_order_no = 'partial'", "shares_follow_their_legs"},
		"a sharing hidden":                      {"UPDATE shares SET next_drive_at = '9999-01-01' WHERE ended_at IS NULL", "shares_do_not_rest"},
		"the finish index dropped":              {"DROP INDEX share_finish_once", "guards_are_in_place"},
		"the number's uniqueness dropped":       {"ALTER TABLE shares DROP CONSTRAINT share_once", "guards_are_in_place"},
		"a trigger disabled":                    {"ALTER TABLE share_legs DISABLE TRIGGER check_leg_move", "guards_are_in_place"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			damage(t, played(t), c.sql, c.want)
		})
	}
}

// Whoever writes, with whatever rights: the database refuses what must not be.
func TestTheDatabaseRefusesIllegalMoves(t *testing.T) {
	t.Parallel()
	s := played(t)
	for name, c := range map[string]struct{ sql, rule string }{
		"paid becomes unpaid":              {"UPDATE share_legs SET state = 'PENDING', journal_id = NULL WHERE state = 'SUCCEEDED'", "leg_move"},
		"a success turned back":            {"UPDATE shares SET state = 'PROCESSING', ended_at = NULL WHERE out_order_no = 'partial'", "share_move"},
		"an end without its time":          {"UPDATE shares SET state = 'SUCCEEDED' WHERE out_order_no = 'open'", "share_ended"},
		"a paid leg without a journal":     {"UPDATE share_legs SET state = 'SUCCEEDED' WHERE account = 'c' AND state = 'PENDING'", "leg_booked"},
		"more taken back than was got":     {"UPDATE share_legs SET taken_back = amount + 1 WHERE state = 'SUCCEEDED'", "leg_taken_back"},
		"something taken back from nobody": {"UPDATE share_legs SET taken_back = 1 WHERE state = 'PENDING'", "leg_taken_back"},
		"more shared than there is":        {"UPDATE payments SET shared_pending = amount", "shares_within_payment"},
		"a sharing begun at its end":       {"INSERT INTO shares (tenant_id, out_order_no, payment_id, account_id, transaction_id, amount, currency, base, finish, fingerprint, state, created_at, state_since, ended_at, next_drive_at) SELECT tenant_id, 'x', payment_id, account_id, '', 1, 'CNY', 1, false, fingerprint, 'SUCCEEDED', now(), now(), now(), now() FROM shares LIMIT 1", "share_move"},
	} {
		_, err := s.Owner.Exec(t.Context(), c.sql)
		require.Error(t, err, name)
		require.True(t, violated(err, c.rule), "%s: %v", name, err)
	}
	s.RequireInvariants(t)
}
