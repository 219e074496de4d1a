package payment_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/paylatch/paylatch/internal/cache"
	"github.com/paylatch/paylatch/internal/database"
	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/testhouse"
)

// newRemembering builds a house whose entry remembers DONE events.
func newRemembering(t *testing.T, c cache.Cache) (*testhouse.House, *testhouse.Deliveries) {
	t.Helper()
	driver := &testhouse.Deliveries{}
	h := testhouse.New(t, driver)
	h.Entry.UseCache(c)
	return h, driver
}

// withoutDatabase is the entry of a process whose database is gone, with the same memory.
func withoutDatabase(t *testing.T, h *testhouse.House, c cache.Cache) *payment.Entry {
	t.Helper()
	pool, err := database.Open("postgres://nobody@127.0.0.1:1/none", 1)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	e := payment.NewEntry(pool, h.Accounts, &testhouse.Deliveries{}, zap.NewNop(), payment.DefaultPlan, nil)
	e.UseCache(c)
	return e
}

func TestADuplicateOfADoneEventNeedsNoDatabase(t *testing.T) {
	t.Parallel()
	memory := cache.NewMemory(100)
	h, driver := newRemembering(t, memory)
	h.Create(t, testhouse.Order("o", 9900))
	body := testhouse.Paid(t, "tx", "o", 9900)
	first := h.Report(t, body)
	alone := withoutDatabase(t, h, memory)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	report := func(body []byte) ([]payment.Reported, error) { return alone.Report(ctx, h.Account, body, time.Now()) }

	// RECEIVED is not remembered, and DONE is once it was read.
	h.Report(t, body)
	_, err := report(body)
	require.Error(t, err)
	driver.Book(t, h.Books)
	h.Report(t, body)
	for range 3 {
		again, err := report(body)
		require.NoError(t, err)
		require.Len(t, again, 1)
		require.Equal(t, payment.Reported{EventID: first.EventID, Key: first.Key, State: payment.Done, Outcome: payment.Credited, Duplicate: true}, again[0])
	}
	// Whatever differs is another question.
	for name, other := range map[string][]byte{
		"amount":      testhouse.Paid(t, "tx", "o", 9901),
		"currency":    testhouse.Body(t, "payment.succeeded", "tx", "o", 9900, "USD"),
		"order":       testhouse.Paid(t, "tx", "o2", 9900),
		"transaction": testhouse.Paid(t, "tx-2", "o", 9900),
		"kind":        testhouse.Body(t, "payment.closed", "tx", "o", 9900, "CNY"),
		"a space":     append(bytes.Clone(body), ' '),
	} {
		_, err := report(other)
		require.Error(t, err, name)
	}
	// So is the same report to another account.
	acct := h.AddAccount(t, h.Tenant, "second", testhouse.NewSecret())
	_, err = alone.Report(ctx, acct, body, time.Now())
	require.Error(t, err)
}

func TestAConflictIsNotTakenForADuplicate(t *testing.T) {
	t.Parallel()
	h, driver := newRemembering(t, cache.NewMemory(100))
	h.Create(t, testhouse.Order("o", 9900))
	body := testhouse.Paid(t, "tx", "o", 9900)
	h.Report(t, body)
	driver.Book(t, h.Books)
	require.True(t, h.Report(t, body).Duplicate)
	require.True(t, h.Report(t, body).Duplicate)

	conflict := h.Report(t, testhouse.Paid(t, "tx", "o", 1))
	require.Equal(t, payment.Conflict, conflict.Outcome)
	require.False(t, conflict.Duplicate)
	// The same facts in other bytes are a duplicate, and evidence that is kept.
	require.True(t, h.Report(t, append(bytes.Clone(body), '\n')).Duplicate)
	require.Equal(t, 3, h.Count(t, "SELECT count(*) FROM channel_receipts"))
	require.Equal(t, []string{"DONE CREDITED", "PARKED CONFLICT"}, h.Events(t, "o"))
	require.Equal(t, 1, h.Journals(t))
	h.RequireInvariants(t)
}

func TestWhatIsNotDoneIsAskedForEachTime(t *testing.T) {
	t.Parallel()
	h, driver := newRemembering(t, cache.NewMemory(100))
	early := testhouse.Paid(t, "tx", "o", 9900)
	for range 3 {
		require.Equal(t, payment.UnknownOrder, h.Report(t, early).Outcome)
	}
	h.Create(t, testhouse.Order("o", 9900))
	require.Equal(t, payment.Received, h.Report(t, early).State)
	require.Equal(t, []payment.Outcome{payment.Credited}, driver.Book(t, h.Books))

	// What an operator has rejected may be judged again, and only because an operator asks.
	wrong := testhouse.Paid(t, "tx-2", "nobody", 5)
	parked := h.Report(t, wrong)
	_, err := h.Books.Reject(t.Context(), h.Tenant, parked.EventID, "not ours")
	require.NoError(t, err)
	for range 3 {
		require.Equal(t, payment.Rejected, h.Report(t, wrong).Outcome)
	}
	h.Create(t, testhouse.Order("nobody", 5))
	require.Equal(t, payment.Rejected, h.Report(t, wrong).Outcome)
	results, err := h.Entry.Replay(t.Context(), h.Tenant, parked.EventID)
	require.NoError(t, err)
	require.Equal(t, payment.Received, results[0].State)
	require.Equal(t, []payment.Outcome{payment.Credited}, driver.Book(t, h.Books))
	h.RequireInvariants(t)
}

func TestWhatAnotherLifeOfTheDatabaseKnewIsNotBelieved(t *testing.T) {
	t.Parallel()
	memory := cache.NewMemory(100)
	h, driver := newRemembering(t, memory)
	body := testhouse.Paid(t, "tx", "o", 9900)
	credit := func(h *testhouse.House, driver *testhouse.Deliveries) {
		t.Helper()
		h.Create(t, testhouse.Order("o", 9900))
		require.Equal(t, payment.Received, h.Report(t, body).State)
		require.Equal(t, []payment.Outcome{payment.Credited}, driver.Book(t, h.Books))
		for range 2 {
			require.True(t, h.Report(t, body).Duplicate)
		}
		require.Equal(t, 1, h.Journals(t))
	}
	credit(h, driver)

	// Another database with the same numbers in it, and the same memory.
	other, otherDriver := newRemembering(t, memory)
	require.Equal(t, h.Account.ID, other.Account.ID)
	credit(other, otherDriver)

	// A backup from before the payment takes the database's place.
	_, err := h.Owner.Exec(t.Context(), `
ALTER TABLE journals DISABLE TRIGGER USER; ALTER TABLE entries DISABLE TRIGGER USER;
ALTER TABLE settlements DISABLE TRIGGER USER;
TRUNCATE channel_events, channel_receipts, payments, entries, journals CASCADE;
UPDATE ledger_accounts SET balance = 0, version = 0;
ALTER TABLE settlements ENABLE TRIGGER USER;
ALTER TABLE journals ENABLE TRIGGER USER; ALTER TABLE entries ENABLE TRIGGER USER`)
	require.NoError(t, err)
	restored, err := h.Accounts.ByID(t.Context(), h.Account.ID)
	require.NoError(t, err)
	require.NotEqual(t, h.Account.Life, restored.Life)
	h.Account = restored
	credit(h, driver)
	h.RequireInvariants(t)

	// Without knowing which database it is, nothing is asked and nothing is told.
	unknown := h.Account
	unknown.Life = ""
	_, err = withoutDatabase(t, h, memory).Report(t.Context(), unknown, body, time.Now())
	require.Error(t, err)
}
