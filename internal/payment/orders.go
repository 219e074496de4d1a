package payment

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/paylatch/paylatch/internal/database"
	"github.com/paylatch/paylatch/internal/stock"
)

// DefaultExpiry is how long an order may be paid when the merchant says nothing.
const DefaultExpiry = 24 * time.Hour

// Orders is what a merchant may do with its own orders. Every call works under row-level security for one tenant.
type Orders struct {
	pool *pgxpool.Pool
	asks func(ctx context.Context, accountID int64) (bool, error)
}

// NewOrders takes the API's pool. asks tells whether an account's channel can be asked: then its orders are announced before
// they are paid, and closed there before they are closed here; nil: none can.
func NewOrders(pool *pgxpool.Pool, asks func(ctx context.Context, accountID int64) (bool, error)) *Orders {
	return &Orders{pool, asks}
}

// firstAsk is how old an unpaid order gets before its channel is asked, in case its callback is lost; then it is asked when
// it expires.
const firstAsk = 10 * time.Minute

// Request is what a merchant asks for; it is taken as valid.
type Request struct {
	OutTradeNo  string          `json:"out_trade_no"`
	Amount      int64           `json:"amount"`
	Currency    string          `json:"currency"`
	Description string          `json:"description"`
	Channel     string          `json:"channel"`
	Account     string          `json:"account"`
	Method      string          `json:"method"`
	ExpiresIn   *int64          `json:"expires_in_seconds"`
	Metadata    json.RawMessage `json:"metadata"` // canonical JSON object
	// Items are reserved with the order, leave when it is paid, and are given back when it is closed.
	Items []stock.Item `json:"items,omitempty"`
	// RedemptionCode asks for one code, issued when the order is credited.
	RedemptionCode bool `json:"redemption_code,omitempty"`
	// Options are for the channel; SharingPlan, canonical JSON, is how the payment will be divided, frozen here.
	Options     ChannelOptions  `json:"channel_options,omitzero"`
	SharingPlan json.RawMessage `json:"profit_sharing,omitempty"`
}

// fingerprint tells two requests under one number apart.
func (r Request) fingerprint() ([]byte, error) {
	canonical, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("fingerprint the request: %w", err)
	}
	sum := sha256.Sum256(canonical)
	return sum[:], nil
}

// Create makes an order; created is false when the same request made it before, and the order comes back as it is now.
// Two calls at once, or years apart, make one order. then runs last in the transaction. Errors: [ErrNumberReused],
// [ErrUnknownAccount], [ErrAmbiguousAccount], [stock.ErrUnknownSKU], [stock.ErrOutOfStock].
func (o *Orders) Create(ctx context.Context, tenantID string, r Request, now time.Time, then ...func(tx pgx.Tx, p Payment, created bool) error) (p Payment, created bool, err error) {
	fingerprint, err := r.fingerprint()
	if err != nil {
		return Payment{}, false, err
	}
	items, err := json.Marshal(append([]stock.Item{}, r.Items...))
	if err != nil {
		return Payment{}, false, fmt.Errorf("write down the items: %w", err)
	}
	expiry := DefaultExpiry
	if r.ExpiresIn != nil {
		expiry = time.Duration(*r.ExpiresIn) * time.Second
	}
	err = database.InTenantTx(ctx, o.pool, tenantID, func(tx pgx.Tx) error {
		// First the order that is there: a repeat must not depend on what accounts the tenant has by now.
		known, err := sameRequest(ctx, tx, tenantID, r.OutTradeNo, fingerprint)
		if err == nil && !known {
			created, err = o.insert(ctx, tx, tenantID, r, fingerprint, now, now.Add(expiry), items)
		} else if err == nil {
			_, err = tx.Exec(ctx, prepayAgainSQL, tenantID, r.OutTradeNo)
		}
		if err != nil {
			return err
		}
		p, err = readPayment(ctx, tx, tenantID, r.OutTradeNo)
		return database.Last(err, then, func(do func(pgx.Tx, Payment, bool) error) error { return do(tx, p, created) })
	})
	if err != nil {
		return Payment{}, false, fmt.Errorf("create payment %s: %w", r.OutTradeNo, err)
	}
	return p, created, nil
}

// insert makes the order; created is false when somebody made the same one at this moment.
func (o *Orders) insert(ctx context.Context, tx pgx.Tx, tenantID string, r Request, fingerprint []byte, now, expires time.Time, items []byte) (created bool, err error) {
	account, err := chosenAccount(ctx, tx, tenantID, r)
	if err != nil {
		return false, err
	}
	options, err := json.Marshal(r.Options)
	if err != nil {
		return false, fmt.Errorf("write down the channel's options: %w", err)
	}
	var prepay *string
	var ask *time.Time
	if account != nil && o.asks != nil {
		asks, err := o.asks(ctx, *account)
		if err != nil {
			return false, err
		}
		if asks {
			prepay, ask = orNil(PrepayPending), orNil(earlier(now.Add(firstAsk), expires))
		}
	}
	var id int64
	err = tx.QueryRow(ctx, createSQL, tenantID, r.OutTradeNo, r.Amount, r.Currency, r.Description, r.Metadata,
		account, r.Method, fingerprint, expires, items, r.RedemptionCode, options, r.SharingPlan, prepay, ask).Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		_, err = sameRequest(ctx, tx, tenantID, r.OutTradeNo, fingerprint)
		return false, err
	}
	if err != nil {
		return false, err
	}
	return true, stock.Reserve(ctx, tx, tenantID, reservationKey(r.OutTradeNo), r.Items)
}

var (
	// ErrUnknownAccount says that the tenant has no such channel account.
	ErrUnknownAccount = errors.New("no such channel account")
	// ErrAmbiguousAccount says that the tenant has several accounts at the channel and the request names none.
	ErrAmbiguousAccount = errors.New("the channel has several accounts: name one")
)

func chosenAccount(ctx context.Context, tx pgx.Tx, tenantID string, r Request) (*int64, error) {
	if r.Channel == "" {
		return nil, nil
	}
	rows, err := tx.Query(ctx, "SELECT id FROM channel_accounts WHERE tenant_id = $1 AND channel = $2 AND ($3 = '' OR account = $3) LIMIT 2", tenantID, r.Channel, r.Account)
	if err != nil {
		return nil, fmt.Errorf("look up the channel account: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	switch {
	case err != nil:
		return nil, fmt.Errorf("look up the channel account: %w", err)
	case len(ids) == 0:
		return nil, ErrUnknownAccount
	case len(ids) > 1:
		return nil, ErrAmbiguousAccount
	}
	return &ids[0], nil
}

// sameRequest tells whether the order is there, made by the same request. Error: [ErrNumberReused].
func sameRequest(ctx context.Context, tx pgx.Tx, tenantID, outTradeNo string, fingerprint []byte) (there bool, err error) {
	var same bool
	err = tx.QueryRow(ctx, "SELECT fingerprint = $3 FROM payments WHERE tenant_id = $1 AND out_trade_no = $2", tenantID, outTradeNo, fingerprint).Scan(&same)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("look for the order: %w", err)
	case !same:
		return false, ErrNumberReused
	}
	return true, nil
}

// Get reads an order. Error: [ErrNotFound].
func (o *Orders) Get(ctx context.Context, tenantID, outTradeNo string) (p Payment, err error) {
	err = database.InTenantTx(ctx, o.pool, tenantID, func(tx pgx.Tx) error {
		p, err = readPayment(ctx, tx, tenantID, outTradeNo)
		return err
	})
	return p, err
}

func readPayment(ctx context.Context, tx pgx.Tx, tenantID, outTradeNo string) (Payment, error) {
	rows, err := tx.Query(ctx, paymentSQL+" WHERE p.tenant_id = $1 AND p.out_trade_no = $2", tenantID, outTradeNo)
	if err != nil {
		return Payment{}, fmt.Errorf("read payment %s: %w", outTradeNo, err)
	}
	p, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[Payment])
	if errors.Is(err, pgx.ErrNoRows) {
		return Payment{}, ErrNotFound
	}
	if err != nil {
		return Payment{}, fmt.Errorf("read payment %s: %w", outTradeNo, err)
	}
	return p, nil
}

// Filter narrows a list; zero values do not. Before is the cursor: only rows with a smaller id.
type Filter struct {
	State    State
	Channel  string
	From, To time.Time // of created_at: from inclusive, to exclusive
	Before   int64
	Limit    int
}

// List gives orders, newest first.
func (o *Orders) List(ctx context.Context, tenantID string, f Filter) (list []Payment, err error) {
	err = database.InTenantTx(ctx, o.pool, tenantID, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, paymentSQL+`
 WHERE p.tenant_id = $1
   AND ($2::text = '' OR p.state = $2) AND ($3::text = '' OR c.channel = $3)
   AND ($4::timestamptz IS NULL OR p.created_at >= $4) AND ($5::timestamptz IS NULL OR p.created_at < $5)
   AND ($6::bigint = 0 OR p.id < $6)
 ORDER BY p.id DESC LIMIT $7`, tenantID, f.State, f.Channel, orNil(f.From), orNil(f.To), f.Before, f.Limit)
		if err != nil {
			return err
		}
		list, err = pgx.CollectRows(rows, pgx.RowToStructByName[Payment])
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list payments: %w", err)
	}
	return list, nil
}

// Moved runs last in the transaction of a move, with the order as it is after it.
type Moved func(tx pgx.Tx, p Payment) error

// Close closes an order that nobody has paid. Closed already: nothing happens. An order whose channel can be asked stays
// PENDING with CloseRequestedAt set: its channel has to close it first. Errors: [ErrNotFound], [ErrAlreadyPaid].
func (o *Orders) Close(ctx context.Context, tenantID, outTradeNo string, then ...Moved) (Payment, error) {
	return o.move(ctx, tenantID, outTradeNo, Closed, closeSQL, then)
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// Ship marks a paid order as shipped. Shipped already: nothing happens. Errors: [ErrNotFound], [ErrIllegalMove].
func (o *Orders) Ship(ctx context.Context, tenantID, outTradeNo string, then ...Moved) (Payment, error) {
	return o.move(ctx, tenantID, outTradeNo, Shipped, shipSQL, then)
}

// Complete ends a shipped order. Completed already: nothing happens. Errors: [ErrNotFound], [ErrIllegalMove].
func (o *Orders) Complete(ctx context.Context, tenantID, outTradeNo string, then ...Moved) (Payment, error) {
	return o.move(ctx, tenantID, outTradeNo, Completed, completeSQL, then)
}

func (o *Orders) move(ctx context.Context, tenantID, outTradeNo string, to State, update string, then []Moved) (p Payment, err error) {
	err = database.InTenantTx(ctx, o.pool, tenantID, func(tx pgx.Tx) error {
		p, err = moveWithin(ctx, tx, tenantID, outTradeNo, to, update)
		return database.Last(err, then, func(do Moved) error { return do(tx, p) })
	})
	if err != nil {
		return Payment{}, fmt.Errorf("move payment %s to %s: %w", outTradeNo, to, err)
	}
	return p, nil
}

// moveWithin runs a guarded update; its affected rows decide, and with none the row says why.
func moveWithin(ctx context.Context, tx pgx.Tx, tenantID, outTradeNo string, to State, update string) (Payment, error) {
	tag, err := tx.Exec(ctx, update, tenantID, outTradeNo)
	if err != nil {
		return Payment{}, err
	}
	p, err := readPayment(ctx, tx, tenantID, outTradeNo)
	if err != nil {
		return Payment{}, err
	}
	switch {
	case tag.RowsAffected() == 1 && to == Closed:
		return p, stock.Release(ctx, tx, tenantID, reservationKey(outTradeNo))
	case tag.RowsAffected() == 1 || p.State == to:
		return p, nil
	case to == Closed && p.PrepayState != nil && p.State == Pending:
		err := requestClose(ctx, tx, &p)
		return p, err
	case to == Closed:
		// Paid, or still PENDING because a report of the payment is about to be booked.
		return p, ErrAlreadyPaid
	default:
		return p, fmt.Errorf("%w: it is %s", ErrIllegalMove, p.State)
	}
}

// requestClose stores the wish to close an order that its channel must close first.
func requestClose(ctx context.Context, tx pgx.Tx, p *Payment) error {
	tag, err := tx.Exec(ctx, requestCloseSQL, p.TenantID, p.OutTradeNo)
	if err != nil {
		return err
	}
	if tag.RowsAffected() == 0 {
		return ErrAlreadyPaid
	}
	*p, err = readPayment(ctx, tx, p.TenantID, p.OutTradeNo)
	return err
}

// EventFilter narrows a list of events; zero values do not.
type EventFilter struct {
	State      EventState
	OutTradeNo string
	Before     int64
	Limit      int
}

// Events lists what channels reported, newest first.
func (o *Orders) Events(ctx context.Context, tenantID string, f EventFilter) (list []Event, err error) {
	err = database.InTenantTx(ctx, o.pool, tenantID, func(tx pgx.Tx) error {
		list, err = ListEvents(ctx, tx, tenantID, f)
		return err
	})
	return list, err
}

// ListEvents is [Orders.Events] within tx.
func ListEvents(ctx context.Context, tx pgx.Tx, tenantID string, f EventFilter) ([]Event, error) {
	rows, err := tx.Query(ctx, eventSQL+`
 WHERE e.tenant_id = $1 AND ($2::text = '' OR e.state = $2) AND ($3::text = '' OR e.out_trade_no = $3) AND ($4::bigint = 0 OR e.id < $4)
 ORDER BY e.id DESC LIMIT $5`, tenantID, f.State, f.OutTradeNo, f.Before, f.Limit)
	if err != nil {
		return nil, fmt.Errorf("list events: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByName[Event])
	if err != nil {
		return nil, fmt.Errorf("list events: %w", err)
	}
	return list, nil
}

// Event reads one. Error: [ErrEventNotFound].
func (o *Orders) Event(ctx context.Context, tenantID string, id int64) (ev Event, err error) {
	err = database.InTenantTx(ctx, o.pool, tenantID, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, eventSQL+" WHERE e.tenant_id = $1 AND e.id = $2", tenantID, id)
		if err != nil {
			return err
		}
		ev, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[Event])
		if errors.Is(err, pgx.ErrNoRows) {
			return ErrEventNotFound
		}
		return err
	})
	return ev, err
}

// reservationKey names an order's reservations.
func reservationKey(outTradeNo string) string { return "pay/" + outTradeNo }
