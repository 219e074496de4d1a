package payment_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/channel/standard"
	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/testhouse"
)

// parcels is a matter whose rows are in a map: what the hook asks of one, and nothing more.
type parcels struct {
	mu     sync.Mutex
	rows   map[string]int64
	booked []string
	asked  bool
}

func (*parcels) Kinds() []channel.Kind { return []channel.Kind{channel.ShareResult} }

func (p *parcels) Judge(_ context.Context, _ payment.Querier, ev payment.Event) (payment.Verdict, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	row, there := p.rows[ev.OutNo]
	if !there {
		return payment.Park(payment.UnknownShare, "no parcel %s", ev.OutNo), nil
	}
	return payment.Verdict{State: payment.Received, Flow: payment.Flow{Row: row, Number: ev.OutNo}, Matter: "OPEN"}, nil
}

func (p *parcels) Book(ctx context.Context, tx pgx.Tx, ev payment.Event) (payment.Verdict, error) {
	v, err := p.Judge(ctx, tx, ev)
	if err != nil || v.State != payment.Received {
		return v, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.asked {
		v.Ask = true
		return v, nil
	}
	p.booked = append(p.booked, ev.Receiver)
	return payment.Verdict{State: payment.Done, Outcome: payment.AttemptFailed, Reason: "booked", Matter: "ENDED"}, nil
}

func (p *parcels) Matched(ctx context.Context, db payment.Querier, limit int) ([]int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var numbers []string
	for number := range p.rows {
		numbers = append(numbers, number)
	}
	rows, err := db.Query(ctx, "SELECT id FROM channel_events WHERE state = 'PARKED' AND outcome = 'UNKNOWN_SHARE' AND out_no = ANY($1) LIMIT $2", numbers, limit)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[int64])
}

func (p *parcels) make(number string, row int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rows[number] = row
}

func shareResult(t *testing.T, id, number string) []byte {
	t.Helper()
	body, err := json.Marshal(standard.Message{Type: "share.result", Data: standard.Data{
		TransactionID: "tx", ShareID: id, OutOrderNo: number, Currency: "CNY", Receivers: []standard.Receiver{{Account: "r", Amount: 5, State: "SUCCESS"}},
	}})
	require.NoError(t, err)
	return body
}

func TestEventsOfAnotherMatterAreJudgedAndBookedByIt(t *testing.T) {
	t.Parallel()
	driver := &testhouse.Deliveries{}
	h := testhouse.New(t, driver)
	p := &parcels{rows: map[string]int64{"known": 7}}
	h.Entry = payment.NewEntry(h.Engine, h.Accounts, driver, h.Log, payment.DefaultPlan, h.Clock.Now, p)
	h.Books = payment.NewBooks(h.Engine, h.Log, p)

	// Known: delivered to the flow of its row. A duplicate is a duplicate.
	first := h.Report(t, shareResult(t, "s1", "known"))
	require.Equal(t, payment.Received, first.State)
	require.Equal(t, payment.Flow{Row: 7, Number: "known"}, driver.Take()[0].Flow)
	require.True(t, h.Report(t, shareResult(t, "s1", "known")).Duplicate)
	require.Empty(t, driver.Take())

	// It cannot be booked before the channel is asked: it stays RECEIVED, and is driven again to the same flow.
	applied, err := h.Books.Apply(t.Context(), first.EventID)
	require.NoError(t, err)
	require.Equal(t, payment.Applied{EventState: payment.Received, Matter: "OPEN", Ask: "standard"}, applied)
	h.Clock.Pass(payment.DefaultPlan.Received)
	_, err = h.Entry.Redrive(t.Context())
	require.NoError(t, err)
	again := driver.Take()
	require.Len(t, again, 1)
	require.True(t, again[0].Resume)
	require.Equal(t, payment.Flow{Row: 7, Number: "known"}, again[0].Flow)
	_, err = h.Entry.Replay(t.Context(), h.Tenant, first.EventID)
	require.NoError(t, err)
	require.Len(t, driver.Take(), 1, "an operator's replay delivers it at once")

	p.asked = true
	for range 2 {
		applied, err = h.Books.Apply(t.Context(), first.EventID)
		require.NoError(t, err)
		require.Equal(t, payment.Done, applied.EventState)
	}
	require.Equal(t, []string{"r"}, p.booked, "once")
}

func TestAnEventBeforeItsRowIsMatchedWhenTheRowIsThere(t *testing.T) {
	t.Parallel()
	for name, find := range map[string]func(h *testhouse.House) error{
		"by who made the row": func(h *testhouse.House) error {
			return h.Entry.RowCreated(context.Background(), h.Tenant, payment.UnknownShare, "late")
		},
		"by the re-drive, when that one died": func(h *testhouse.House) error {
			_, err := h.Entry.Redrive(context.Background())
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			driver := &testhouse.Deliveries{}
			h := testhouse.New(t, driver)
			p := &parcels{rows: map[string]int64{}, asked: true}
			h.Entry = payment.NewEntry(h.Engine, h.Accounts, driver, h.Log, payment.DefaultPlan, h.Clock.Now, p)
			h.Books = payment.NewBooks(h.Engine, h.Log, p)
			parked := h.Report(t, shareResult(t, "s1", "late"))
			require.Equal(t, payment.UnknownShare, parked.Outcome)
			require.NoError(t, find(h))
			require.Empty(t, driver.Take(), "nothing has come for it yet")
			p.make("late", 9)
			require.NoError(t, find(h))
			due := driver.Take()
			require.Len(t, due, 1)
			require.Equal(t, payment.Flow{Row: 9, Number: "late"}, due[0].Flow)
			_, err := h.Books.Apply(t.Context(), due[0].EventID)
			require.NoError(t, err)
			require.Equal(t, []string{"r"}, p.booked)
		})
	}
}
