package verify_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/testhouse"
	"github.com/paylatch/paylatch/internal/verify"
)

// broken runs the check and gives the names of the invariants that are broken.
func broken(t *testing.T, h *testhouse.House, now time.Time) map[string]bool {
	t.Helper()
	violations, err := verify.Run(t.Context(), h.Engine, now, nil)
	require.NoError(t, err)
	names := map[string]bool{}
	for _, v := range violations {
		require.NotEmpty(t, v.What)
		names[v.Invariant] = true
	}
	return names
}

// played is a house in which everything has happened once.
func played(t *testing.T) *testhouse.House {
	t.Helper()
	driver := &testhouse.Deliveries{}
	h := testhouse.New(t, driver)
	for _, order := range []string{"paid", "closed", "waits"} {
		h.Create(t, testhouse.Order(order, 100))
	}
	h.Report(t, testhouse.Paid(t, "tx1", "paid", 100))
	h.Report(t, testhouse.Paid(t, "tx2", "paid", 100)) // to suspense
	h.Report(t, testhouse.Body(t, "payment.closed", "tx3", "closed", 100, "CNY"))
	h.Report(t, testhouse.Paid(t, "tx4", "waits", 99)) // parked
	driver.Book(t, h.Books)
	h.RequireInvariants(t)
	return h
}

func TestSoundBooksBreakNothing(t *testing.T) {
	t.Parallel()
	h := played(t)
	require.Empty(t, broken(t, h, time.Now()))
	for _, inv := range verify.Invariants() {
		require.NotEmpty(t, inv.Rule)
		require.NotEmpty(t, inv.Name)
	}
}

// Damage that only somebody with the owner's rights can do, with the guards switched off. Each kind must be noticed.
func TestDamageIsNoticed(t *testing.T) {
	t.Parallel()
	const (
		credit   = "(SELECT credit_journal_id FROM payments WHERE out_trade_no = 'paid')"
		suspense = "(SELECT id FROM journals WHERE kind = 'payment_suspense')"
	)
	for name, c := range map[string]struct {
		sql  []string
		want string
	}{
		"a balance changed":              {[]string{"UPDATE ledger_accounts SET balance = balance + 1 WHERE code = 'merchant'"}, "balance_is_sum_of_entries"},
		"one entry changed":              {[]string{"UPDATE entries SET amount = amount + 1 WHERE line = 1 AND journal_id = " + credit}, "journals_balance"},
		"a journal halved with balances": {[]string{"UPDATE entries SET amount = amount / 2, balance_after = balance_after / 2 WHERE journal_id = " + suspense, "UPDATE ledger_accounts a SET balance = (SELECT sum(amount) FROM entries WHERE account_id = a.id) WHERE EXISTS (SELECT FROM entries WHERE account_id = a.id)"}, "received_as_reported"},
		"a statement rewritten":          {[]string{"UPDATE entries SET balance_after = 7 WHERE journal_id = " + credit}, "statements_run"},
		"a journal deleted":              {[]string{"DELETE FROM entries WHERE journal_id = " + suspense, "DELETE FROM journals WHERE kind = 'payment_suspense'"}, "balance_is_sum_of_entries"},
		"an order put back":              {[]string{"UPDATE payments SET state = 'PENDING', credit_journal_id = NULL WHERE out_trade_no = 'paid'"}, "paid_means_credited"},
		"an order made paid":             {[]string{"UPDATE payments SET state = 'PAID', credit_journal_id = " + suspense + " WHERE out_trade_no = 'waits'"}, "paid_means_credited"},
		"entries of another tenant": {[]string{"INSERT INTO tenants (tenant_id, default_currency) VALUES ('evil', 'CNY')",
			"UPDATE entries SET tenant_id = 'evil' WHERE journal_id = " + credit}, "journals_stay_in_one_tenant"},
		"a credit moved to another tenant": {[]string{"INSERT INTO tenants (tenant_id, default_currency) VALUES ('evil', 'CNY')",
			"UPDATE ledger_accounts SET tenant_id = 'evil' WHERE code = 'merchant'"}, "journals_stay_in_one_tenant"},
		"a journal of its own kind":      {[]string{"UPDATE journals SET kind = 'manual' WHERE id = " + suspense}, "journals_stay_in_one_tenant"},
		"an event's amount changed":      {[]string{"UPDATE channel_events SET amount = 99 WHERE outcome = 'CREDITED'"}, "paid_means_credited"},
		"an event's transaction changed": {[]string{"UPDATE channel_events SET transaction_id = 'tx9' WHERE outcome = 'CREDITED'"}, "received_as_reported"},
		"an acknowledged event deleted":  {[]string{"DELETE FROM channel_events WHERE out_trade_no = 'waits'"}, "receipts_are_kept"},
		"receipts deleted":               {[]string{"DELETE FROM channel_receipts"}, "receipts_are_kept"},
		"a body replaced":                {[]string{"UPDATE channel_receipts SET body = 'x'"}, "receipts_are_kept"},
		"an effect taken from its event": {[]string{"UPDATE channel_events SET journal_id = NULL WHERE outcome = 'SECOND_PAYMENT'"}, "done_has_its_effect"},
		"a closed order reopened":        {[]string{"UPDATE payments SET state = 'PENDING' WHERE out_trade_no = 'closed'"}, "done_has_its_effect"},
		"a parked event hidden":          {[]string{"UPDATE channel_events SET next_drive_at = '9999-01-01' WHERE state = 'PARKED'"}, "nothing_rests_unseen"},
		"an event that rests":            {[]string{"UPDATE channel_events SET state = 'RECEIVED', outcome = NULL, state_since = now() - interval '3 minutes' WHERE state = 'PARKED'"}, "nothing_rests_unseen"},
		"money held by nobody":           {[]string{"UPDATE ledger_accounts SET held = 1 WHERE code = 'merchant'"}, "held_is_sum_of_holds"},
		"a negative balance":             {[]string{"ALTER TABLE ledger_accounts DROP CONSTRAINT available_not_negative", "UPDATE ledger_accounts SET balance = -1 WHERE code = 'suspense'"}, "available_not_negative"},
		"a unique index dropped":         {[]string{"ALTER TABLE channel_events DROP CONSTRAINT event_once"}, "guards_are_in_place"},
		"a trigger disabled":             {[]string{"ALTER TABLE entries DISABLE TRIGGER check_entries"}, "guards_are_in_place"},
		"two journals of one transaction": {[]string{
			"INSERT INTO channel_receipts (tenant_id, account_id, event_key, body_sha256, body) SELECT tenant_id, account_id, 'again', body_sha256, body FROM channel_receipts LIMIT 1",
			`INSERT INTO channel_events (tenant_id, account_id, event_key, receipt_id, kind, transaction_id, out_trade_no, amount, currency, state, outcome, journal_id, state_since, next_drive_at)
			 SELECT e.tenant_id, e.account_id, 'again', r.id, e.kind, e.transaction_id, 'paid', e.amount, e.currency, 'DONE', 'SECOND_PAYMENT', ` + suspense + `, now(), now()
			   FROM channel_events e, channel_receipts r WHERE e.outcome = 'CREDITED' AND r.event_key = 'again'`}, "one_credit_per_transaction"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := played(t)
			require.NoError(t, pgx.BeginFunc(t.Context(), h.Owner, func(tx pgx.Tx) error {
				for _, sql := range append([]string{"SET LOCAL session_replication_role = replica"}, c.sql...) {
					if _, err := tx.Exec(t.Context(), sql); err != nil {
						return err
					}
				}
				return nil
			}))
			require.Contains(t, broken(t, h, time.Now()), c.want)
		})
	}
}
