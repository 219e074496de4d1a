package acquiring_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/channel/simulator"
	"github.com/paylatch/paylatch/internal/channel/simulator/stripe"
	"github.com/paylatch/paylatch/internal/ledger"
	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/tenant"
	"github.com/paylatch/paylatch/internal/testhouse"
)

// counter is a house with an account at Stripe, whose webhooks lie on a pile until they are handed in.
type counter struct {
	*testhouse.House
	t      *testing.T
	driver *testhouse.Deliveries
	sim    *stripe.Simulator
	acct   tenant.Account

	mu   sync.Mutex
	pile [][]byte
}

func openCounter(t *testing.T) *counter {
	t.Helper()
	c := &counter{t: t, driver: &testhouse.Deliveries{}, sim: stripe.New()}
	c.House = testhouse.New(t, c.driver)
	api := httptest.NewServer(c.sim.Handler())
	t.Cleanup(api.Close)
	mailbox := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.pile = append(c.pile, body)
	}))
	t.Cleanup(mailbox.Close)
	t.Cleanup(c.sim.Core().Close)
	c.sim.Endpoint(mailbox.URL)
	require.NoError(t, c.Accounts.Add(t.Context(), c.Tenant, "stripe", "shop-"+c.Tenant, c.sim.Config(api.URL)))
	var err error
	c.acct, err = c.Accounts.Find(t.Context(), "stripe", "shop-"+c.Tenant)
	require.NoError(t, err)
	return c
}

// sell makes an order, and the payer pays it. Nobody here knows yet.
func (c *counter) sell(number string) payment.Payment {
	c.t.Helper()
	r := testhouse.Order(number, 9900)
	r.Channel, r.Account = "stripe", c.acct.Name
	p := c.Create(c.t, r)
	_, err := c.Acquiring.Prepay(c.t.Context(), p.ID)
	require.NoError(c.t, err)
	require.NoError(c.t, c.sim.Pay(number))
	c.sim.Core().Wait()
	return p
}

// handIn reports the webhooks of some types, in that order, and lets their flows run.
func (c *counter) handIn(types ...string) {
	c.t.Helper()
	c.mu.Lock()
	pile := slices.Clone(c.pile)
	c.mu.Unlock()
	for _, kind := range types {
		found := false
		for _, body := range pile {
			if bytes.Contains(body, []byte(`"type": "`+kind+`"`)) {
				found = true
				_, err := c.Entry.Report(c.t.Context(), c.acct, body, c.Clock.Now())
				require.NoError(c.t, err)
			}
		}
		require.True(c.t, found, kind)
		c.run()
	}
}

// run does what the flows of the delivered events do.
func (c *counter) run() {
	c.t.Helper()
	for list := c.driver.Take(); len(list) > 0; list = c.driver.Take() {
		for _, d := range list {
			applied, err := c.Books.Apply(c.t.Context(), d.EventID)
			require.NoError(c.t, err)
			if applied.Ask == "" {
				continue
			}
			answers, err := c.Acquiring.AskFee(c.t.Context(), d.EventID)
			require.NoError(c.t, err)
			for _, id := range append(answers, d.EventID) {
				applied, err = c.Books.Apply(c.t.Context(), id)
				require.NoError(c.t, err)
			}
			require.Empty(c.t, applied.Ask, "asked once, and no more")
		}
	}
}

// rows are what an order left: its events but for the hints, and every line of the journals, without what is a number or a
// time of its own.
func (c *counter) rows() (list []string) {
	c.t.Helper()
	rows, err := c.Engine.Query(c.t.Context(), `
SELECT concat_ws(' ', e.kind, e.state, e.outcome, e.amount, e.currency, coalesce(e.payer_amount::text, '-'), coalesce(e.fee::text, '-'), j.kind)
  FROM channel_events e LEFT JOIN journals j ON j.id = e.journal_id WHERE e.kind <> 'PAY_FEE_HINT'
 UNION ALL
SELECT concat_ws(' ', j.kind, split_part(a.code, ':', 1), a.currency, n.amount)
  FROM entries n JOIN journals j ON j.id = n.journal_id JOIN ledger_accounts a ON a.id = n.account_id
 UNION ALL
SELECT concat_ws(' ', 'order', p.state, p.amount) FROM payments p
 ORDER BY 1`)
	require.NoError(c.t, err)
	list, err = pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(c.t, err)
	return list
}

var paidWithFee = []string{
	"PAY_FEE DONE FEE_BOOKED 317 CNY - - payment_fee",
	"PAY_SUCCESS DONE CREDITED 9900 CNY - - payment_credit",
	"order PAID 9900",
	"payment_credit channel CNY -9900",
	"payment_credit merchant CNY 9900",
	"payment_fee fees CNY 317",
	"payment_fee merchant CNY -317",
}

// Stripe tells the fee to whoever asks, and in no webhook about the payment: by whatever way a payment is learned, in whatever
// order and how often, it ends in the same rows.
func TestAPaymentAndItsFeeAreTheSameRowsByEveryWay(t *testing.T) {
	t.Parallel()
	inquire := func(c *counter, p payment.Payment) {
		_, err := c.Acquiring.Inquire(c.t.Context(), p.ID)
		require.NoError(c.t, err)
		c.run()
	}
	for name, learn := range map[string]func(*counter, payment.Payment){
		"by callback, and the fee after it": func(c *counter, _ payment.Payment) {
			c.handIn("payment_intent.succeeded", "charge.updated")
		},
		"the fee's hint first": func(c *counter, _ payment.Payment) {
			c.handIn("charge.updated", "payment_intent.succeeded", "charge.succeeded")
		},
		"the hint alone": func(c *counter, _ payment.Payment) { c.handIn("charge.updated") },
		"by asking":      inquire,
		"by asking, and every callback after it": func(c *counter, p payment.Payment) {
			inquire(c, p)
			c.handIn("charge.succeeded", "payment_intent.succeeded", "charge.updated")
		},
		"every callback three times, backwards, and asked for": func(c *counter, p payment.Payment) {
			for range 3 {
				c.handIn("charge.updated", "payment_intent.succeeded", "charge.succeeded")
			}
			inquire(c, p)
		},
		"by callback, and replayed": func(c *counter, _ payment.Payment) {
			c.handIn("payment_intent.succeeded", "charge.updated")
			ids, err := c.Engine.Query(c.t.Context(), "SELECT id FROM channel_events ORDER BY id")
			require.NoError(c.t, err)
			all, err := pgx.CollectRows(ids, pgx.RowTo[int64])
			require.NoError(c.t, err)
			for _, id := range all {
				_, err := c.Entry.Replay(c.t.Context(), c.Tenant, id)
				require.NoError(c.t, err)
				c.run()
			}
		},
		"the asker dies before it books": func(c *counter, _ payment.Payment) {
			c.report("charge.updated")
			hint := c.driver.Take()[0].EventID
			_, err := c.Acquiring.AskFee(c.t.Context(), hint)
			require.NoError(c.t, err)
			c.Clock.Pass(payment.DefaultPlan.Received + time.Second)
			_, err = c.Entry.Redrive(c.t.Context())
			require.NoError(c.t, err)
			c.runAsDriven()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := openCounter(t)
			learn(c, c.sell("o"))
			require.Equal(t, paidWithFee, c.rows())
			require.Zero(t, c.Count(t, "SELECT count(*) FROM channel_events WHERE state IN ('RECEIVED', 'PARKED')"))
			c.RequireInvariants(t)
		})
	}
}

// report hands in without running the flows.
func (c *counter) report(kind string) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, body := range c.pile {
		if strings.Contains(string(body), `"type": "`+kind+`"`) {
			_, err := c.Entry.Report(c.t.Context(), c.acct, body, c.Clock.Now())
			require.NoError(c.t, err)
		}
	}
}

// runAsDriven runs the flows of what the re-drive delivered: a fee that overtakes its payment is tried again.
func (c *counter) runAsDriven() {
	c.t.Helper()
	list := c.driver.Take()
	for range 2 {
		for _, d := range list {
			_, _ = c.Books.Apply(c.t.Context(), d.EventID)
		}
	}
}

// A fee that overtakes its payment's booking is tried again; until then nothing of it is booked.
func TestAFeeWaitsForItsPayment(t *testing.T) {
	t.Parallel()
	c := openCounter(t)
	p := c.sell("o")
	_, err := c.Acquiring.Inquire(t.Context(), p.ID)
	require.NoError(t, err)
	due := c.driver.Take()
	require.Len(t, due, 2)
	paid, fee := due[0], due[1]
	_, err = c.Books.Apply(t.Context(), fee.EventID)
	require.ErrorContains(t, err, "about to be booked")
	require.Zero(t, c.Journals(t))
	for _, id := range []int64{paid.EventID, fee.EventID, fee.EventID} {
		_, err = c.Books.Apply(t.Context(), id)
		require.NoError(t, err)
	}
	require.Equal(t, paidWithFee, c.rows())
	c.RequireInvariants(t)
}

// The fee of an order that is not here yet is parked with its payment, and both are booked when it comes.
func TestAFeeWaitsForItsOrder(t *testing.T) {
	t.Parallel()
	c := openCounter(t)
	p := c.sell("o")
	_, err := c.Owner.Exec(t.Context(), "UPDATE payments SET out_trade_no = 'away' WHERE id = $1", p.ID)
	require.NoError(t, err)
	body, err := c.acct.Account.(channel.FeeTeller).AskFee(t.Context(), c.sim.Orders()[0].TransactionID)
	require.NoError(t, err)
	_, err = c.Entry.Report(t.Context(), c.acct, body, c.Clock.Now())
	require.NoError(t, err)
	require.Empty(t, c.driver.Take())
	require.Equal(t, []string{"PARKED UNKNOWN_ORDER", "PARKED UNKNOWN_PAYMENT"}, c.Events(t, "o"))
	_, err = c.Owner.Exec(t.Context(), "UPDATE payments SET out_trade_no = 'o' WHERE id = $1", p.ID)
	require.NoError(t, err)
	for range 2 { // the payment, and then what waits for it
		_, err = c.Entry.Redrive(t.Context())
		require.NoError(t, err)
		c.run()
	}
	require.Equal(t, paidWithFee, c.rows())
	c.RequireInvariants(t)
}

// The channel has kept its fee, whatever the merchant has left: what is gone is a receivable, and no balance falls below zero.
func TestAFeeThatComesWhenTheMoneyIsGoneIsAReceivable(t *testing.T) {
	t.Parallel()
	c := openCounter(t)
	c.sell("o")
	c.handIn("payment_intent.succeeded")
	require.NoError(t, pgx.BeginFunc(t.Context(), c.Engine, func(tx pgx.Tx) error {
		_, _, err := ledger.Post(t.Context(), tx, ledger.Journal{TenantID: c.Tenant, Key: "spent", Kind: "posting", Lines: []ledger.Line{
			{Code: ledger.Merchant, Currency: "CNY", Amount: -9800}, {Code: "till", Currency: "CNY", Amount: 9800},
		}})
		return err
	}))
	c.handIn("charge.updated")
	require.Equal(t, 317, c.Balance(t, ledger.Fees))
	require.Zero(t, c.Balance(t, ledger.Merchant))
	require.Equal(t, -217, c.Balance(t, ledger.Receivable))
	c.RequireInvariants(t)
}

// Money in suspense bears no fee here, by whatever way it is learned.
func TestMoneyInSuspenseBearsNoFee(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"charge.updated", "payment_intent.succeeded"} {
		t.Run(first, func(t *testing.T) {
			t.Parallel()
			c := openCounter(t)
			p := c.sell("o")
			_, err := c.Owner.Exec(t.Context(), "UPDATE payments SET state = 'CLOSED', close_reason = 'merchant', closed_at = now() WHERE id = $1", p.ID)
			require.NoError(t, err)
			c.handIn(first, "payment_intent.succeeded", "charge.updated")
			require.Equal(t, 9900, c.Balance(t, ledger.Suspense))
			require.Zero(t, c.Balance(t, ledger.Fees))
			require.Equal(t, 1, c.Journals(t))
			require.Zero(t, c.Count(t, "SELECT count(*) FROM channel_events WHERE state IN ('RECEIVED', 'PARKED')"))
			c.RequireInvariants(t)
		})
	}
}

// A channel that does not answer is asked again; nothing is settled before.
func TestAFeeIsAskedForUntilTheChannelAnswers(t *testing.T) {
	t.Parallel()
	c := openCounter(t)
	c.sell("o")
	c.report("charge.updated")
	hint := c.driver.Take()[0].EventID
	c.sim.Core().Misbehave(simulator.Faults{Refuse: 1, Only: "query"})
	applied, err := c.Books.Apply(t.Context(), hint)
	require.NoError(t, err)
	require.Equal(t, "stripe", applied.Ask)
	_, err = c.Acquiring.AskFee(t.Context(), hint)
	require.Error(t, err)
	applied, err = c.Books.Apply(t.Context(), hint)
	require.NoError(t, err)
	require.Equal(t, "stripe", applied.Ask, "it was not asked yet")
}

// An account at Stripe that others use too: what bears no number of ours is kept and told apart, and nobody is woken for it.
// What bears one that nobody knows is money that somebody must look at.
func TestWhatOthersDoInTheSameAccountIsKeptAndWakesNobody(t *testing.T) {
	t.Parallel()
	c := openCounter(t)
	c.sell("ours")
	c.mu.Lock()
	pile := slices.Clone(c.pile)
	c.mu.Unlock()
	theirs := func(body []byte, number string) []byte {
		for _, o := range c.sim.Orders() {
			body = bytes.ReplaceAll(body, []byte(o.TransactionID), []byte("pi_theirs"+number))
		}
		return bytes.ReplaceAll(body, []byte(`"out_trade_no": "ours"`), []byte(`"shop": "`+number+`"`))
	}
	refunded := []byte(`{"object":"event","id":"evt_1","type":"refund.updated","created":1772352000,"livemode":false,"data":{"object":` +
		`{"object":"refund","id":"re_1","amount":100,"currency":"cny","status":"succeeded","created":1772352000,"payment_intent":"pi_theirs1"}}}`)
	transferred := []byte(`{"object":"event","id":"evt_2","type":"transfer.created","created":1772352000,"livemode":false,"data":{"object":` +
		`{"object":"transfer","id":"tr_1","amount":100,"currency":"cny","created":1772352000,"destination":"acct_1AAAAAAAAAAAAAAA"}}}`)
	early := bytes.ReplaceAll(refunded, []byte("re_1"), []byte("re_0"))
	told := [][]byte{early}
	for _, body := range pile {
		told = append(told, theirs(body, "1"))
	}
	told = append(told, refunded, transferred)
	for _, body := range told {
		_, err := c.Entry.Report(t.Context(), c.acct, body, c.Clock.Now())
		require.NoError(t, err)
	}
	require.Equal(t, 1, c.Count(t, "SELECT count(*) FROM channel_events WHERE state = 'PARKED'"), "the refund that came before its payment")
	_, err := c.Entry.Redrive(t.Context())
	require.NoError(t, err)
	require.Zero(t, c.Count(t, "SELECT count(*) FROM channel_events WHERE state <> 'IGNORED'"))
	require.Equal(t, 5, c.Count(t, "SELECT count(*) FROM channel_events WHERE outcome = 'FOREIGN'"), "a payment, its fee, two refunds, a transfer")
	require.Empty(t, c.driver.Take())
	require.Zero(t, c.Journals(t))

	for _, body := range pile {
		_, err := c.Entry.Report(t.Context(), c.acct, bytes.ReplaceAll(body, []byte(`"out_trade_no": "ours"`), []byte(`"out_trade_no": "nobody's"`)), c.Clock.Now())
		require.NoError(t, err)
	}
	require.Equal(t, 1, c.Count(t, "SELECT count(*) FROM channel_events WHERE state = 'PARKED' AND outcome = 'UNKNOWN_ORDER'"))
}
