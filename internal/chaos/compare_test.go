package chaos

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/testhouse"
)

func TestEverySceneEndsAsExpectedWhenNothingIsStruck(t *testing.T) {
	t.Parallel()
	h, l := play(t, 6)
	books, err := ReadBooks(t.Context(), h.Engine)
	require.NoError(t, err)
	tally, findings := Compare(l.record, books)
	require.Empty(t, findings)
	told, err := agree(t.Context(), l, books)
	require.NoError(t, err)
	require.Empty(t, told)
	h.RequireInvariants(t)

	require.Positive(t, tally.Credited)
	require.NotEmpty(t, tally.CreditedMoney)
	require.ElementsMatch(t, []string{"SECOND_PAYMENT", "LATE_PAYMENT"}, slices.Collect(maps.Keys(tally.Suspense)))
	require.Subset(t, slices.Collect(maps.Keys(tally.Parked)), []string{"AMOUNT_MISMATCH", "CURRENCY_MISMATCH", "UNKNOWN_ORDER", "CONFLICT"})
	require.ElementsMatch(t, []string{"PENDING", "PAID", "COMPLETED", "CLOSED"}, slices.Collect(maps.Keys(tally.Orders)))
	require.ElementsMatch(t, []string{"insufficient_funds", "participant_refused"}, slices.Collect(maps.Keys(tally.Cancelled)))
	require.Positive(t, tally.Refunds["SUCCEEDED"])
	require.Equal(t, []string{"SUCCEEDED"}, slices.Collect(maps.Keys(tally.Shares)))
	require.Positive(t, tally.Confirmed)
	require.Positive(t, tally.Posted)

	seen := salesOf(l.record)
	require.Positive(t, seen.Paid)
	require.Less(t, seen.Paid, seen.Announced)
	require.Equal(t, seen.Notices, seen.Acked, "nobody was away")
	c, calls := callbacksOf(l.record, &striker{})
	require.Positive(t, calls)
	require.Equal(t, c.Sent, c.Acked+c.Refused, "nobody was away")
	require.Equal(t, c.Refused, c.Forged)
	require.Positive(t, c.Forged)
	require.Zero(t, c.NeverAcked)
}

// broken damages the books in a transaction that is rolled back, past every guard, and gives what is found.
func broken(t *testing.T, h *testhouse.House, r *Record, damage string, args ...any) []Finding {
	t.Helper()
	tx, err := h.Owner.Begin(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(t.Context())) }()
	_, err = tx.Exec(t.Context(), "SET LOCAL session_replication_role = replica")
	require.NoError(t, err)
	tag, err := tx.Exec(t.Context(), damage, args...)
	require.NoError(t, err)
	require.Positive(t, tag.RowsAffected(), damage)
	books, err := readBooks(t.Context(), tx)
	require.NoError(t, err)
	_, findings := Compare(r, books)
	return findings
}

// credit books the money of one credited order once more, as an honest journal would be.
const credit = `
WITH order_ AS (
    SELECT p.*, e.account_id AS channel_account FROM payments p JOIN channel_events e ON e.journal_id = p.credit_journal_id LIMIT 1
), moved AS (
    UPDATE ledger_accounts a
       SET balance = a.balance + CASE a.code WHEN 'merchant' THEN o.amount ELSE -o.amount END, version = a.version + 1
      FROM order_ o JOIN channel_accounts c ON c.id = o.channel_account
     WHERE a.tenant_id = o.tenant_id AND a.currency = o.currency AND a.code IN ('merchant', 'channel:standard:' || c.account)
    RETURNING a.id, a.code, a.tenant_id, a.balance, a.version, o.amount
), journal AS (
    INSERT INTO journals (tenant_id, key, kind) SELECT tenant_id, $1, 'payment_credit' FROM order_ RETURNING id
)
INSERT INTO entries (journal_id, line, tenant_id, account_id, amount, balance_after, account_version)
SELECT j.id, row_number() OVER (), m.tenant_id, m.id, CASE m.code WHEN 'merchant' THEN m.amount ELSE -m.amount END, m.balance, m.version
  FROM journal j, moved m`

func TestInjectedDamageIsFound(t *testing.T) {
	t.Parallel()
	h, l := play(t, 4, "once", "second", "late", "wrong-amount", "unknown-order", "conflict", "disorder", "goods", "forged", "direct", "tcc", "external", "too-much", "posting", "sale", "refund", "share")
	sound, err := ReadBooks(t.Context(), h.Engine)
	require.NoError(t, err)
	_, findings := Compare(l.record, sound)
	require.Empty(t, findings)

	const (
		one       = " WHERE id = (SELECT min(id) FROM channel_events WHERE outcome = 'CREDITED')"
		confirmed = " WHERE id = (SELECT min(id) FROM transfers WHERE state = 'CONFIRMED')"
	)
	for name, c := range map[string]struct {
		damage string
		args   []any
		class  string
		says   string
	}{
		"an acknowledged event is gone":       {"DELETE FROM channel_events" + one, nil, Lost, "has no event"},
		"a parked event is gone":              {"DELETE FROM channel_events WHERE id = (SELECT min(id) FROM channel_events WHERE outcome = 'UNKNOWN_ORDER')", nil, Lost, "has no event"},
		"a contradiction is gone":             {"DELETE FROM channel_events WHERE outcome = 'CONFLICT'", nil, Lost, "no CONFLICT is on record"},
		"an acknowledged body is gone":        {"DELETE FROM channel_receipts WHERE id = (SELECT min(id) FROM channel_receipts)", nil, Lost, "body is not kept"},
		"an acknowledged body was changed":    {"UPDATE channel_receipts SET body = body || '\\x20' WHERE id = (SELECT min(id) FROM channel_receipts)", nil, Lost, "body is not kept"},
		"an event was never booked":           {"UPDATE channel_events SET state = 'RECEIVED', outcome = NULL, journal_id = NULL" + one, nil, Unsettled, "still RECEIVED"},
		"a parked event gives no reason":      {"UPDATE channel_events SET reason = '' WHERE state = 'PARKED'", nil, Lost, "without a reason"},
		"an event was set aside":              {"UPDATE channel_events SET state = 'IGNORED', outcome = 'STALE', reason = 'x'" + one, nil, Lost, "no transaction of it is credited"},
		"an event stands twice":               {"INSERT INTO channel_events OVERRIDING SYSTEM VALUE SELECT (x).* FROM (SELECT jsonb_populate_record(e, jsonb_build_object('id', -1, 'event_key', 'other')) AS x FROM channel_events e" + one + ") y", nil, Doubled, "has 2 events"},
		"a paid order is pending":             {"UPDATE payments SET state = 'PENDING', credit_journal_id = NULL WHERE id = (SELECT min(id) FROM payments WHERE state = 'PAID')", nil, Lost, "is PENDING"},
		"a paid order is closed":              {"UPDATE payments SET state = 'CLOSED', credit_journal_id = NULL WHERE id = (SELECT min(id) FROM payments WHERE state = 'PAID')", nil, Wrong, "is CLOSED"},
		"an order is gone":                    {"DELETE FROM payments WHERE id = (SELECT min(id) FROM payments WHERE state = 'PAID')", nil, Lost, "was confirmed and is not there"},
		"an order has another amount":         {"UPDATE payments SET amount = amount + 1 WHERE id = (SELECT min(id) FROM payments)", nil, Wrong, "it should be of"},
		"a credit is booked twice":            {credit, []any{"received:again"}, Doubled, "explained by nothing that was sent"},
		"a balance is too high":               {"UPDATE ledger_accounts SET balance = balance + 1 WHERE code = 'merchant' AND balance > 0", nil, Doubled, "off by 1"},
		"a balance is too low":                {"UPDATE ledger_accounts SET balance = balance - 1 WHERE code = 'merchant' AND balance > 0", nil, Lost, "off by -1"},
		"an account is gone":                  {"DELETE FROM ledger_accounts WHERE code = 'suspense' AND balance > 0", nil, Lost, "has 0"},
		"a credit goes to another account":    {"UPDATE entries SET account_id = (SELECT min(id) FROM ledger_accounts WHERE code = 'fees') WHERE journal_id = (SELECT min(credit_journal_id) FROM payments) AND amount > 0", nil, Wrong, "moves"},
		"a hold is left":                      {"UPDATE ledger_accounts SET held = 1 WHERE code = 'wallet-0'", nil, Wrong, "still holds 1"},
		"a confirmed transfer is gone":        {"DELETE FROM transfers" + confirmed, nil, Lost, "is not there"},
		"a confirmed transfer is cancelled":   {"UPDATE transfers SET state = 'CANCELLED', failure = 'canceled'" + confirmed, nil, Lost, "nothing spoke against it"},
		"a transfer does not end":             {"UPDATE transfers SET state = 'CONFIRMING', ended_at = NULL" + confirmed, nil, Unsettled, "still CONFIRMING"},
		"a refused transfer is confirmed":     {"UPDATE transfers SET state = 'CONFIRMED', failure = NULL WHERE failure = 'insufficient_funds'", nil, Lost, "has no journal"},
		"the journal of a transfer is gone":   {"DELETE FROM journals WHERE id = (SELECT min(id) FROM journals WHERE kind = 'transfer')", nil, Lost, "has no journal"},
		"a posting is gone":                   {"DELETE FROM journals WHERE id = (SELECT max(id) FROM journals WHERE kind = 'posting')", nil, Lost, "was confirmed and is not there"},
		"a posting moves something else":      {"UPDATE entries SET amount = amount * 2 WHERE journal_id = (SELECT max(id) FROM journals WHERE kind = 'posting')", nil, Doubled, "is there 1 times"},
		"goods left twice":                    {"UPDATE stock SET on_hand = on_hand - 1", nil, Wrong, "on hand"},
		"goods stay reserved":                 {"UPDATE stock SET reserved = reserved + 1", nil, Wrong, "reserved"},
		"a redemption code is gone":           {"DELETE FROM redemption_codes", nil, Wrong, "redemption codes"},
		"a wrong amount was booked":           {"UPDATE channel_events SET state = 'DONE', outcome = 'CREDITED' WHERE outcome = 'AMOUNT_MISMATCH'", nil, Wrong, "of a wrong amount"},
		"an order that nobody made was paid":  {"UPDATE channel_events SET state = 'DONE', outcome = 'CREDITED' WHERE outcome = 'UNKNOWN_ORDER'", nil, Wrong, "which is not there"},
		"a failed attempt is taken for money": {"UPDATE channel_events SET journal_id = 1 WHERE kind = 'PAY_FAILED'", nil, Wrong, "PAY_FAILED"},
		"money in suspense has another label": {"UPDATE channel_events SET outcome = 'SECOND_PAYMENT' WHERE outcome = 'LATE_PAYMENT'", nil, Lost, "which is CLOSED"},
		"a sale is closed here":               {"UPDATE payments SET state = 'CLOSED', credit_journal_id = NULL WHERE id = (SELECT min(p.id) FROM payments p JOIN channel_accounts c ON c.id = p.account_id WHERE c.channel <> 'alipay' AND p.state = 'PAID')", nil, Lost, "and CLOSED here"},
		"a sale is pending":                   {"UPDATE payments SET state = 'PENDING', credit_journal_id = NULL WHERE id = (SELECT min(id) FROM payments WHERE account_id IS NOT NULL AND state = 'PAID')", nil, Unsettled, "still PENDING"},
		"a sale is gone":                      {"DELETE FROM payments WHERE id = (SELECT min(id) FROM payments WHERE account_id IS NOT NULL)", nil, Lost, "was confirmed and is not there"},
		"the event of a sale is gone":         {"DELETE FROM channel_events e USING payments p WHERE p.account_id IS NOT NULL AND p.credit_journal_id = e.journal_id", nil, Lost, "credited 0 times"},
		"a sale was paid by somebody else":    {"UPDATE channel_events e SET transaction_id = 'other' FROM payments p WHERE p.account_id IS NOT NULL AND p.credit_journal_id = e.journal_id", nil, Doubled, "which the channel does not have"},
		"a refund is gone":                    {"DELETE FROM refunds WHERE id = (SELECT min(id) FROM refunds)", nil, Lost, "was accepted and is not there"},
		"a refund is in no books":             {"UPDATE refunds SET state = 'FAILED', journal_id = NULL WHERE id = (SELECT min(id) FROM refunds)", nil, Lost, "the books say"},
		"a refund does not end":               {"UPDATE refunds SET state = 'UNKNOWN', ended_at = NULL, journal_id = NULL WHERE id = (SELECT min(id) FROM refunds)", nil, Unsettled, "still UNKNOWN"},
		"a refund has another amount":         {"UPDATE refunds SET amount = amount + 1 WHERE id = (SELECT min(id) FROM refunds)", nil, Wrong, "it should be of"},
		"the journal of a refund is gone":     {"DELETE FROM journals WHERE id = (SELECT min(journal_id) FROM refunds)", nil, Lost, "none of its amount"},
		"a refund that nobody asked for":      {"UPDATE refunds SET out_refund_no = 'other' WHERE id = (SELECT min(id) FROM refunds)", nil, Doubled, "nobody asked for it"},
		"a sharing is gone":                   {"DELETE FROM shares WHERE id = (SELECT min(id) FROM shares)", nil, Lost, "was accepted and is not there"},
		"a sharing that nobody asked for":     {"UPDATE shares SET out_order_no = 'other' WHERE id = (SELECT min(id) FROM shares)", nil, Doubled, "nobody asked for it"},
		"a sharing does not end":              {"UPDATE shares SET state = 'PROCESSING', ended_at = NULL WHERE id = (SELECT min(id) FROM shares)", nil, Unsettled, "still PROCESSING"},
		"a receiver gets another part":        {"UPDATE share_legs SET amount = amount + 1 WHERE id = (SELECT min(id) FROM share_legs)", nil, Wrong, "it should give"},
		"a receiver is forgotten":             {"DELETE FROM share_legs WHERE id = (SELECT min(id) FROM share_legs)", nil, Lost, "does not give"},
		"a receiver is paid in no books":      {"DELETE FROM journals WHERE id = (SELECT min(journal_id) FROM share_legs)", nil, Lost, "none of its amount"},
		"two events share a journal":          {"UPDATE channel_events SET journal_id = (SELECT min(journal_id) FROM channel_events WHERE outcome = 'CREDITED') WHERE outcome = 'LATE_PAYMENT'", nil, Wrong, "books two events"},
	} {
		requireFound(t, broken(t, h, l.record, c.damage, c.args...), c.class, c.says, name)
	}
	again, err := ReadBooks(t.Context(), h.Engine)
	require.NoError(t, err)
	require.Equal(t, sound, again, "and all damage was undone")
}

func requireFound(t *testing.T, findings []Finding, class, says, name string) {
	t.Helper()
	require.True(t, slices.ContainsFunc(findings, func(f Finding) bool { return f.Class == class && strings.Contains(f.What, says) }),
		"%s: no finding of class %s says %q: %v", name, class, says, findings)
}

func TestWhatMerchantsAndParticipantsWereToldIsHeldAgainstTheBooks(t *testing.T) {
	t.Parallel()
	h, l := play(t, 8, "forged", "external", "direct", "posting")
	books, err := ReadBooks(t.Context(), h.Engine)
	require.NoError(t, err)
	of := func(state string, external bool) *Transfer {
		for _, row := range books.Transfers {
			for _, tr := range l.record.Transfers {
				if tr.Key == row.Key && row.State == state && tr.External == external {
					return tr
				}
			}
		}
		require.Failf(t, "no such transfer", "%s, external: %t", state, external)
		return nil
	}
	confirmed, cancelled, direct := of("CONFIRMED", true), of("CANCELLED", true), of("CONFIRMED", false)
	var forgery *Report
	for _, rep := range l.record.Reports {
		forgery = rep
	}
	require.True(t, forgery.Forged)
	for says, change := range map[string]func() (undo func()){
		"was answered insufficient_funds and is CONFIRMED": func() func() { direct.Answer = "insufficient_funds"; return func() { direct.Answer = Confirmed } },
		"a forged report":       func() func() { forgery.Acked = 1; return func() { forgery.Acked = 0 } },
		"a strange answer: 418": func() func() { l.record.strange("%d", 418); return func() { l.record.Strange = nil } },
		"its participant was told": func() func() {
			l.record.Told[confirmed.Key].Cancelled = 1
			return func() { l.record.Told[confirmed.Key].Cancelled = 0 }
		},
		"its participant does not know it": func() func() {
			l.record.Told[confirmed.Key].Confirmed = 0
			return func() { l.record.Told[confirmed.Key].Confirmed = 1 }
		},
		"which tried, does not know it": func() func() {
			told := *l.record.Told[cancelled.Key]
			*l.record.Told[cancelled.Key] = Phases{Tried: 1}
			return func() { *l.record.Told[cancelled.Key] = told }
		},
		"though it must not be": func() func() { direct.TooMuch = true; return func() { direct.TooMuch = false } },
		"explained by nothing that was sent": func() func() {
			all := l.record.Postings
			l.record.Postings = all[:len(all)-1]
			return func() { l.record.Postings = all }
		},
		"though nobody asked for it": func() func() { o := l.record.Orders[0]; o.Asked = false; return func() { o.Asked = true } },
	} {
		undo := change()
		_, findings := Compare(l.record, books)
		require.True(t, slices.ContainsFunc(findings, func(f Finding) bool { return strings.Contains(f.What, says) }), "%q is not in %v", says, findings)
		undo()
		_, findings = Compare(l.record, books)
		require.Empty(t, findings, says)
	}
}

func TestWhatTheAPITellsIsHeldAgainstTheBooks(t *testing.T) {
	t.Parallel()
	h, l := play(t, 2, "once")
	books, err := ReadBooks(t.Context(), h.Engine)
	require.NoError(t, err)
	for says, change := range map[string]func(*Books){
		`is PAID, the books say "CLOSED"`: func(b *Books) { b.Orders[0].State = "CLOSED" },
		"is not told of order": func(b *Books) {
			b.Orders = append(b.Orders, OrderRow{Tenant: "shop-1", Number: "other", State: "PAID"})
		},
		"the books say 12345": func(b *Books) { b.Balances[len(b.Balances)-1].Balance = 12345 },
	} {
		changed := *books
		changed.Orders, changed.Balances = slices.Clone(books.Orders), slices.Clone(books.Balances)
		change(&changed)
		findings, err := agree(t.Context(), l, &changed)
		require.NoError(t, err)
		require.Len(t, findings, 1)
		require.Contains(t, findings[0].What, says)
	}
}
