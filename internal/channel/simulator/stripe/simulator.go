// Package stripe is a simulator of Stripe: the part of its API that a shop uses, with form-encoded requests, JSON replies in
// Stripe's shapes, real error objects, idempotency keys that are kept and replayed as Stripe does, a search that can lag, and
// signed webhooks. It shares no code with the adapter.
//
// Stripe knows no notify_url: webhooks go to the endpoint that is set with [Simulator.Endpoint].
//
// Sources: docs.stripe.com/api, /api/idempotent_requests, /error-low-level, /webhooks, /currencies, and
// /connect/separate-charges-and-transfers.
package stripe

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/paylatch/paylatch/internal/channel/simulator"
)

// Simulator is one Stripe account in test mode.
type Simulator struct {
	core *simulator.Core

	accountID, secretKey                      string
	webhookSecret, oldSecret, neverToldSecret string

	mu       sync.Mutex
	now      func() time.Time
	endpoint string
	quirks   Quirks
	keys     map[string]*kept
	offers   []*offer // oldest first, as are the others
	refunds  []*refund
	transfer []*transfer
	balance  []*movement
}

var _ simulator.Simulator = (*Simulator)(nil)

// Quirks are Stripe's own ways to trouble a shop, beside the [simulator.Faults] that every channel has. Counts go down with
// each use.
type Quirks struct {
	// FailKept answers so many calls that make something with a 500 that the idempotency key keeps; nothing is done.
	FailKept int
	// FailAfter does the work of so many such calls, and answers with a 500 that the key keeps.
	FailAfter int
	// Busy answers so many such calls with 409: another call with the key is under way.
	Busy int
	// Throttle answers so many calls with 429.
	Throttle int
	// Redirect answers so many calls with 307 to an address of its own.
	Redirect int
	// RedirectTo is that address.
	RedirectTo string
	// SearchLags lets Search find nothing yet.
	SearchLags bool
	// NoSearch refuses Search, as for merchants in India.
	NoSearch bool
	// Async lets payments take days: Pay leaves them processing, and Settle ends them.
	Async bool
	// SettleIn is the currency of the balance where it is not that of the payment; one to one.
	SettleIn string
	// Unheard lists types of events that the endpoint is not subscribed to.
	Unheard []string
	// Forbid refuses calls whose path begins so, as a restricted key is refused.
	Forbid []string
	// Refuse lists connected accounts that cannot get transfers.
	Refuse []string
}

// tail is what account id and secret key have in common: the account is always the same, its keys are not.
const tail = "Simulated000001"

// New makes a simulator with keys of its own.
func New() *Simulator {
	return &Simulator{
		core:            simulator.NewCore(),
		accountID:       "acct_1" + tail,
		secretKey:       "sk_test_51" + tail + word(82),
		webhookSecret:   "whsec_" + word(32),
		oldSecret:       "whsec_" + word(32),
		neverToldSecret: "whsec_" + word(32),
		now:             time.Now,
		keys:            map[string]*kept{},
	}
}

// word makes n random letters and digits.
func word(n int) string {
	var b strings.Builder
	for b.Len() < n {
		b.WriteString(rand.Text())
	}
	return b.String()[:n]
}

// Name implements [simulator.Simulator].
func (s *Simulator) Name() string { return "stripe" }

// Core implements [simulator.Simulator].
func (s *Simulator) Core() *simulator.Core { return s.core }

// Config implements [simulator.Simulator]: an account whose webhook secret is being rolled, so that two are live.
func (s *Simulator) Config(baseURL string) json.RawMessage {
	config, err := json.Marshal(map[string]any{
		"secret_key": s.secretKey, "webhook_secrets": []string{s.webhookSecret, s.oldSecret}, "livemode": false, "base_url": baseURL,
	})
	if err != nil {
		panic(err) // texts always marshal
	}
	return config
}

// AccountID is the Stripe account that is simulated.
func (s *Simulator) AccountID() string { return s.accountID }

// Endpoint sets where webhooks go; empty sends none.
func (s *Simulator) Endpoint(address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endpoint = address
}

// Quirk replaces the quirks.
func (s *Simulator) Quirk(q Quirks) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.quirks = q
}

// Clock replaces the clock of what is made from now on.
func (s *Simulator) Clock(now func() time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = now
}

// ForgetKeys forgets all idempotency keys, as Stripe does after a day.
func (s *Simulator) ForgetKeys() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.keys)
}

// Handler implements [simulator.Simulator].
func (s *Simulator) Handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, r := range map[string]route{
		"POST /v1/payment_intents":               {"prepay", (*Simulator).createIntent},
		"GET /v1/payment_intents":                {"query", (*Simulator).listIntents},
		"GET /v1/payment_intents/search":         {"query", (*Simulator).searchIntents},
		"GET /v1/payment_intents/{id}":           {"query", (*Simulator).getIntent},
		"POST /v1/payment_intents/{id}/cancel":   {"close", (*Simulator).cancelIntent},
		"POST /v1/checkout/sessions":             {"prepay", (*Simulator).createSession},
		"GET /v1/checkout/sessions":              {"query", (*Simulator).listSessions},
		"GET /v1/checkout/sessions/{id}":         {"query", (*Simulator).getSession},
		"POST /v1/checkout/sessions/{id}/expire": {"close", (*Simulator).expireSession},
		"POST /v1/refunds":                       {"refund", (*Simulator).createRefund},
		"GET /v1/refunds":                        {"query_refund", (*Simulator).listRefunds},
		"GET /v1/refunds/{id}":                   {"query_refund", (*Simulator).getRefund},
		"POST /v1/transfers":                     {"share", (*Simulator).createTransfer},
		"GET /v1/transfers":                      {"query_share", (*Simulator).listTransfers},
		"POST /v1/transfers/{id}/reversals":      {"return_share", (*Simulator).createReversal},
		"GET /v1/transfers/{id}/reversals":       {"query_return", (*Simulator).listReversals},
		"GET /v1/balance_transactions":           {"bill", (*Simulator).listBalance},
		"GET /v1/account":                        {"check", (*Simulator).getAccount},
		"GET /v1/balance":                        {"check", (*Simulator).getBalance},
		"GET /v1/webhook_endpoints":              {"check", (*Simulator).listEndpoints},
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, req *http.Request) { s.serve(w, req, r) })
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, req *http.Request) {
		problem(http.StatusNotFound, "invalid_request_error", "", "Unrecognized request URL ("+req.Method+": "+req.URL.Path+").").write(w)
	})
	return mux
}

// route is a call of the API; work runs under the lock.
type route struct {
	kind string
	work func(*Simulator, call) (any, *trouble)
}

// call is a request as its work sees it.
type call struct {
	id   string // of the path
	form url.Values
}

func (c call) metadata(prefix string) map[string]string {
	found := map[string]string{}
	for name, values := range c.form {
		if key, ok := strings.CutPrefix(name, prefix+"["); ok && strings.HasSuffix(key, "]") {
			found[strings.TrimSuffix(key, "]")] = values[0]
		}
	}
	return found
}
