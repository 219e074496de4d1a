// Package acquiring asks channels about orders: it announces them, asks what became of them, and closes them there before
// they are closed here. Every call names the order by its own number, so it can be made again whatever became of the last one.
//
// What a channel answers about money enters by the same door as a callback ([payment.Entry.Report]): there is no second way
// to credit.
package acquiring

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/zap"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/tenant"
)

//go:embed sql/order.sql
var orderSQL string

// Driver starts the flows that call a channel.
type Driver interface {
	// StartInquiry asks the channel about an order, and closes it where that is due. A flow that runs is left to run.
	StartInquiry(ctx context.Context, o Ref) error
}

// Ref names an order for a flow.
type Ref struct {
	PaymentID  int64  `db:"id"`
	TenantID   string `db:"tenant_id"`
	OutTradeNo string `db:"out_trade_no"`
	Channel    string `db:"channel"`
}

// Service asks. It works on the engine's pool.
type Service struct {
	pool      *pgxpool.Pool
	accounts  *tenant.Accounts
	entry     *payment.Entry
	books     *payment.Books
	driver    Driver
	publicURL string
	log       *zap.Logger
	now       func() time.Time
	askAgain  time.Duration
}

// Config is what a [Service] stands on.
type Config struct {
	Pool     *pgxpool.Pool
	Accounts *tenant.Accounts
	Entry    *payment.Entry
	Books    *payment.Books
	Driver   Driver
	// PublicURL is the base that channels reach this installation's callbacks by, such as https://pay.example.com.
	PublicURL string
	Log       *zap.Logger
	Now       func() time.Time // nil: the real clock
	// AskAgain is when an order that is being closed is looked after again, should its flow have been lost; 0: after 5 minutes.
	AskAgain time.Duration
}

// New makes a service.
func New(c Config) *Service {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.AskAgain == 0 {
		c.AskAgain = askAgain
	}
	return &Service{c.Pool, c.Accounts, c.Entry, c.Books, c.Driver, c.PublicURL, c.Log, c.Now, c.AskAgain}
}

// ErrNoAcquirer says that an order's channel cannot be asked.
var ErrNoAcquirer = errors.New("the order's channel cannot be asked")

// order is what asking needs to know.
type order struct {
	ID             int64           `db:"id"`
	TenantID       string          `db:"tenant_id"`
	OutTradeNo     string          `db:"out_trade_no"`
	Amount         int64           `db:"amount"`
	Currency       string          `db:"currency"`
	Description    string          `db:"description"`
	Method         string          `db:"method"`
	Options        json.RawMessage `db:"channel_options"`
	Shared         bool            `db:"shared"`
	State          payment.State   `db:"state"`
	PrepayState    *string         `db:"prepay_state"`
	PrepayCalls    int             `db:"prepay_calls"`
	Reference      string          `db:"channel_reference"`
	AccountID      *int64          `db:"account_id"`
	CreatedAt      time.Time       `db:"created_at"`
	ExpiresAt      time.Time       `db:"expires_at"`
	CloseRequested bool            `db:"close_requested"`
}

func (s *Service) read(ctx context.Context, paymentID int64) (order, error) {
	rows, err := s.pool.Query(ctx, orderSQL, paymentID)
	if err != nil {
		return order{}, fmt.Errorf("read payment %d: %w", paymentID, err)
	}
	o, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[order])
	if errors.Is(err, pgx.ErrNoRows) {
		return order{}, payment.ErrNotFound
	}
	if err != nil {
		return order{}, fmt.Errorf("read payment %d: %w", paymentID, err)
	}
	return o, nil
}

// acquirer opens the order's account. Error: [ErrNoAcquirer].
func (s *Service) acquirer(ctx context.Context, o order) (tenant.Account, channel.Acquirer, error) {
	if o.AccountID == nil {
		return tenant.Account{}, nil, ErrNoAcquirer
	}
	acct, err := s.accounts.ByID(ctx, *o.AccountID)
	if err != nil {
		return tenant.Account{}, nil, err
	}
	a, ok := acct.Account.(channel.Acquirer)
	if !ok {
		return tenant.Account{}, nil, ErrNoAcquirer
	}
	return acct, a, nil
}

// asChannelOrder is the order as its channel is told of it.
func (s *Service) asChannelOrder(o order, acct tenant.Account) (channel.Order, error) {
	var options payment.ChannelOptions
	if err := json.Unmarshal(o.Options, &options); err != nil {
		return channel.Order{}, fmt.Errorf("read the options of payment %d: %w", o.ID, err)
	}
	notify := ""
	if s.publicURL != "" {
		var err error
		if notify, err = url.JoinPath(s.publicURL, "callbacks", acct.Channel.Name(), acct.Name); err != nil {
			return channel.Order{}, fmt.Errorf("make the callback URL: %w", err)
		}
	}
	return channel.Order{
		OutTradeNo: o.OutTradeNo, Amount: o.Amount, Currency: o.Currency, Description: o.Description, Method: o.Method,
		CreatedAt: o.CreatedAt, ExpiresAt: o.ExpiresAt, Payer: options.Payer, ClientIP: options.ClientIP, ReturnURL: options.ReturnURL,
		NotifyURL: notify, Shared: o.Shared, Reference: o.Reference,
	}, nil
}
