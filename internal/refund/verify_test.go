package refund_test

import (
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/database"
	"github.com/paylatch/paylatch/internal/testhouse"
	"github.com/paylatch/paylatch/internal/verify"
)

// played is a house with a refund in every state.
func played(t *testing.T) *story {
	t.Helper()
	s := newStory(t)
	fee := int64(3)
	s.bank.fee = &fee
	s.Create(t, testhouse.Order("o", 1000))
	s.tell(t, channel.Event{Kind: channel.PaySuccess, Subject: "tx-o", TransactionID: "tx-o", OutTradeNo: "o", Amount: 1000, Currency: "CNY", Fee: &fee})
	s.begin(t, "o", "done", 100)
	s.advance(t, "done")
	s.bank.hold = true
	for _, number := range []string{"failed", "reversed", "open"} {
		s.begin(t, "o", number, 100)
		s.advance(t, number)
	}
	s.bank.settle("failed", channel.RefundRefused)
	s.advance(t, "failed")
	s.bank.settle("reversed", channel.RefundSucceeded)
	s.advance(t, "reversed")
	s.bank.settle("reversed", channel.RefundRefused)
	s.tell(t, refundEvent(channel.RefundFailed, "reversed", "tx-o", 100))
	s.tell(t, channel.Event{Kind: channel.RefundSuccess, Subject: "c", TransactionID: "tx-o", OutNo: "console", Amount: 50, Currency: "CNY"})
	event := s.second(t, "o2", 70)
	s.bank.hold = false
	r, _, err := s.Refunds.Return(t.Context(), s.Tenant, event, "paid twice", false)
	require.NoError(t, err)
	s.advance(t, r.OutRefundNo)
	s.RequireInvariants(t)
	return s
}

// Damage that only somebody with the owner's rights can do, with the guards switched off. Each kind must be noticed.
func TestDamageToRefundsIsNoticed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ sql, want string }{
		"a payment that forgets what went back":     {"UPDATE payments SET refunded_amount = 0, refund_state = 'NONE' WHERE out_trade_no = 'o'", "refunds_within_captured"},
		"a payment that forgets what is open":       {"UPDATE payments SET refund_pending = 0", "refunds_within_captured"},
		"a refund state that was written":           {"UPDATE payments SET refund_state = 'FULL' WHERE out_trade_no = 'o'", "refunds_within_captured"},
		"more than was captured":                    {"UPDATE refunds SET amount = 5000 WHERE out_refund_no = 'open'", "refunds_within_captured"},
		"a refund deleted":                          {"DELETE FROM refunds WHERE out_refund_no = 'done'", "refunds_are_booked"},
		"a refund called done":                      {"UPDATE refunds SET state = 'SUCCEEDED', ended_at = now() WHERE out_refund_no = 'open'", "refunds_are_booked"},
		"a refund called failed":                    {"UPDATE refunds SET state = 'FAILED', journal_id = NULL WHERE out_refund_no = 'done'", "refunds_are_booked"},
		"a reversal forgotten":                      {"UPDATE refunds SET state = 'SUCCEEDED', reversal_journal_id = NULL WHERE out_refund_no = 'reversed'", "refunds_are_booked"},
		"another amount":                            {"UPDATE refunds SET amount = 99, held = 99 WHERE out_refund_no = 'done'", "refunds_are_booked"},
		"a receivable that was written":             {"UPDATE refunds SET held = 40, receivable = 10 WHERE out_refund_no = 'console'", "refunds_are_booked"},
		"a fee of nobody's":                         {"UPDATE refunds SET fee = NULL WHERE out_refund_no = 'done'", "refunds_are_booked"},
		"a reversal of half":                        {"UPDATE entries SET amount = amount / 2 WHERE journal_id = (SELECT reversal_journal_id FROM refunds WHERE out_refund_no = 'reversed')", "reversals_take_back_all"},
		"a hold released by hand":                   {"UPDATE holds SET released = amount WHERE key = 'refund:open'", "open_refunds_are_held"},
		"a hold that outlives its refund":           {"UPDATE holds SET captured = 0 WHERE key = 'refund:done'", "open_refunds_are_held"},
		"a hold of no refund":                       {"UPDATE refunds SET out_refund_no = 'other' WHERE out_refund_no = 'open'", "open_refunds_are_held"},
		"money in suspense that went back twice":    {"UPDATE refunds SET amount = 71 WHERE origin = 'suspense'", "suspense_goes_back_once"},
		"an event without its journal":              {"UPDATE channel_events SET journal_id = NULL WHERE outcome = 'REFUNDED'", "refund_events_have_their_effect"},
		"an event with another refund's journal":    {"UPDATE channel_events SET journal_id = (SELECT journal_id FROM refunds WHERE out_refund_no = 'done') WHERE outcome = 'REFUND_REVERSED'", "refund_events_have_their_effect"},
		"a refund hidden":                           {"UPDATE refunds SET next_drive_at = '9999-01-01' WHERE out_refund_no = 'open'", "refunds_do_not_rest"},
		"a refund that nobody drives":               {"UPDATE refunds SET next_drive_at = NULL WHERE out_refund_no = 'open'", "refunds_do_not_rest"},
		"a refund that nobody is told of":           {"UPDATE refunds SET alert_at = '9999-01-01' WHERE out_refund_no = 'open'", "refunds_do_not_rest"},
		"a fee that was changed":                    {"UPDATE channel_events SET fee = 4 WHERE outcome = 'CREDITED' AND fee IS NOT NULL", "fees_as_reported"},
		"a debt that was forgotten":                 {"UPDATE refunds SET reversal_receivable = 7 WHERE out_refund_no = 'reversed'", "receivables_are_owed"},
		"the ceiling dropped":                       {"ALTER TABLE payments DROP CONSTRAINT refunds_within_captured", "guards_are_in_place"},
		"the number's uniqueness dropped":           {"ALTER TABLE refunds DROP CONSTRAINT refund_once", "guards_are_in_place"},
		"the channel's number's uniqueness dropped": {"DROP INDEX refund_of_channel_once", "guards_are_in_place"},
		"a trigger disabled":                        {"ALTER TABLE refunds DISABLE TRIGGER check_refund_move", "guards_are_in_place"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := played(t)
			damage := []string{"SET LOCAL session_replication_role = replica", c.sql} // no triggers
			if c.want != "guards_are_in_place" {
				// Constraints hold still, so those in the way go first.
				damage = slices.Insert(damage, 1, "ALTER TABLE refunds DROP CONSTRAINT refund_booked, DROP CONSTRAINT refund_divided",
					"ALTER TABLE payments DROP CONSTRAINT refund_state_follows")
			}
			require.NoError(t, pgx.BeginFunc(t.Context(), s.Owner, func(tx pgx.Tx) error {
				for _, sql := range damage {
					if _, err := tx.Exec(t.Context(), sql); err != nil {
						return err
					}
				}
				return nil
			}))
			violations, err := verify.Run(t.Context(), s.Engine, time.Now(), nil)
			require.NoError(t, err)
			var broken []string
			for _, v := range violations {
				broken = append(broken, v.Invariant)
			}
			require.Contains(t, broken, c.want, violations)
		})
	}
}

// Whoever writes, with whatever rights: the database refuses what must not be.
func TestTheDatabaseRefusesIllegalMovesOfRefunds(t *testing.T) {
	t.Parallel()
	s := played(t)
	for sql, constraint := range map[string]string{
		"UPDATE refunds SET state = 'PENDING', ended_at = NULL, journal_id = NULL WHERE out_refund_no = 'done'":                                                             "refund_move",
		"UPDATE refunds SET state = 'UNKNOWN', ended_at = NULL WHERE out_refund_no = 'failed'":                                                                              "refund_move",
		"UPDATE refunds SET state = 'SUCCEEDED', ended_at = now() WHERE out_refund_no = 'open'":                                                                             "refund_booked",
		"UPDATE refunds SET state = 'FAILED' WHERE out_refund_no = 'done'":                                                                                                  "refund_booked",
		"UPDATE refunds SET state = 'SUCCEEDED' WHERE out_refund_no = 'reversed'":                                                                                           "refund_booked",
		"UPDATE refunds SET state = 'FAILED' WHERE out_refund_no = 'open'":                                                                                                  "refund_ended",
		"UPDATE payments SET refund_pending = 5000 WHERE out_trade_no = 'o'":                                                                                                "refunds_within_captured",
		"UPDATE payments SET refunded_amount = -1 WHERE out_trade_no = 'o'":                                                                                                 "refunded_not_negative",
		"UPDATE payments SET refund_state = 'FULL' WHERE out_trade_no = 'o'":                                                                                                "refund_state_follows",
		"UPDATE refunds SET event_id = (SELECT min(id) FROM channel_events) WHERE out_refund_no = 'open'":                                                                   "refund_of_one",
		"UPDATE refunds SET journal_id = (SELECT journal_id FROM refunds WHERE out_refund_no = 'done') WHERE id = (SELECT id FROM refunds WHERE out_refund_no = 'console')": "refunds_journal_id_key",
		"UPDATE refunds SET refund_id = 'b-done' WHERE out_refund_no = 'open'":                                                                                              "refund_of_channel_once",
	} {
		_, err := s.Owner.Exec(t.Context(), sql)
		require.True(t, database.Violated(err, constraint), "%s: %v", sql, err)
	}
	_, err := s.Owner.Exec(t.Context(), `
INSERT INTO refunds (tenant_id, out_refund_no, origin, payment_id, account_id, transaction_id, amount, currency, state, asks, state_since, ended_at, alert_at)
SELECT tenant_id, 'born-done', origin, payment_id, account_id, transaction_id, 1, currency, 'SUCCEEDED', asks, now(), now(), now() FROM refunds WHERE out_refund_no = 'done'`)
	require.True(t, database.Violated(err, "refund_move"), "%v", err)
	s.RequireInvariants(t)
}
