package chaos

import (
	"fmt"
	"slices"
	"strings"
)

// Fault classes of a finding.
const (
	Lost      = "lost"      // acknowledged, and the effect or its recorded reason is missing
	Doubled   = "doubled"   // an effect that nothing acknowledged explains
	Wrong     = "wrong"     // anything else that channel, merchant and books do not agree on
	Unsettled = "unsettled" // acknowledged, and neither done nor parked though everything is quiet
)

// Finding is one thing that is not as it must be.
type Finding struct {
	Class string `json:"class"`
	What  string `json:"what"`
}

// Money is an amount per currency, in minor units.
type Money map[string]int64

// Tally is what became of the load.
type Tally struct {
	Credited      int            `json:"credited"` // orders
	CreditedMoney Money          `json:"credited_money"`
	Suspense      map[string]int `json:"suspense"` // transactions by outcome
	SuspenseMoney Money          `json:"suspense_money"`
	Parked        map[string]int `json:"parked"`  // events by outcome
	Ignored       map[string]int `json:"ignored"` // events by outcome
	Done          map[string]int `json:"done"`    // events by outcome
	Orders        map[string]int `json:"orders"`  // by state
	Confirmed     int            `json:"transfers_confirmed"`
	Cancelled     map[string]int `json:"transfers_cancelled"` // by code
	Posted        int            `json:"journals_posted"`
	Refunds       map[string]int `json:"refunds"` // by state, or by the code of the refusal
	Shares        map[string]int `json:"shares"`  // by state
}

// Compare holds the books to the record.
func Compare(r *Record, b *Books) (Tally, []Finding) {
	c := newComparison(r, b)
	c.reports()
	c.orders()
	c.sales()
	c.refunds()
	c.shares()
	c.transfers()
	c.postings()
	c.shelves()
	c.journalsAreExplained()
	c.balances()
	for _, what := range r.Strange {
		c.find(Wrong, "a strange answer: %s", what)
	}
	return c.tally, c.findings
}

// fact is what a channel reports once: one kind of news about one transaction.
type fact struct{ account, kind, transaction string }

// body is a distinct body at an account.
type body struct{ account, sum string }

// name is a tenant's own name for something.
type name struct{ tenant, name string }

// accountName is an account of the ledger.
type accountName struct{ tenant, code, currency string }

type comparison struct {
	record   *Record
	books    *Books
	tally    Tally
	findings []Finding

	events    map[fact][]*Event // without contradictions
	byOrder   map[name][]*Event // likewise
	conflicts map[fact]int      // contradictions on record
	receipts  map[body]bool
	orderRows map[name]OrderRow
	salesBy   map[name]*Sale
	journals  map[int64]*Journal
	byKey     map[name][]*Journal
	// explained are the journals that the record accounts for, and expected what every account should hold by it.
	explained map[int64]bool
	expected  map[accountName]int64
}

func newComparison(r *Record, b *Books) *comparison {
	c := &comparison{
		record: r, books: b,
		tally: Tally{
			CreditedMoney: Money{}, Suspense: map[string]int{}, SuspenseMoney: Money{}, Parked: map[string]int{}, Ignored: map[string]int{},
			Done: map[string]int{}, Orders: map[string]int{}, Cancelled: map[string]int{}, Refunds: map[string]int{}, Shares: map[string]int{},
		},
		events: map[fact][]*Event{}, byOrder: map[name][]*Event{}, conflicts: map[fact]int{}, receipts: map[body]bool{}, orderRows: map[name]OrderRow{}, salesBy: map[name]*Sale{},
		journals: map[int64]*Journal{}, byKey: map[name][]*Journal{}, explained: map[int64]bool{}, expected: map[accountName]int64{},
	}
	for i := range b.Events {
		e := &b.Events[i]
		f := fact{e.Account, e.Kind, e.Transaction}
		if e.Outcome == "CONFLICT" {
			c.conflicts[f]++
		} else {
			c.events[f] = append(c.events[f], e)
			c.byOrder[name{e.Tenant, e.Order}] = append(c.byOrder[name{e.Tenant, e.Order}], e)
		}
		c.count(e)
	}
	for _, receipt := range b.Receipts {
		c.receipts[body{receipt.Account, receipt.Sum}] = true
	}
	for _, o := range b.Orders {
		c.orderRows[name{o.Tenant, o.Number}] = o
		c.tally.Orders[o.State]++
	}
	for _, s := range r.Sales {
		c.salesBy[name{s.Tenant, s.Number}] = s
	}
	for i := range b.Journals {
		j := &b.Journals[i]
		c.journals[j.ID] = j
		c.byKey[name{j.Tenant, j.Key}] = append(c.byKey[name{j.Tenant, j.Key}], j)
	}
	return c
}

func (c *comparison) count(e *Event) {
	switch e.State {
	case "PARKED":
		c.tally.Parked[e.Outcome]++
	case "IGNORED":
		c.tally.Ignored[e.Outcome]++
	case "DONE":
		c.tally.Done[e.Outcome]++
	}
}

func (c *comparison) find(class, format string, args ...any) {
	c.findings = append(c.findings, Finding{class, fmt.Sprintf(format, args...)})
}

// reports: what was acknowledged is kept, as it was sent, and is settled; what was forged is not.
func (c *comparison) reports() {
	for _, rep := range c.record.Reports {
		kept := c.receipts[body{rep.Account, rep.Sum}]
		switch {
		case rep.Forged && rep.Acked > 0:
			c.find(Wrong, "a forged report of order %s was acknowledged", rep.Order)
		case rep.Forged && kept:
			c.find(Wrong, "a forged report of order %s is kept", rep.Order)
		case !rep.Forged && rep.Acked > 0:
			c.acknowledged(rep, kept)
		}
	}
}

func (c *comparison) acknowledged(rep *Report, kept bool) {
	what := fmt.Sprintf("%s %s of order %s (%d %s)", rep.Kind, rep.Transaction, rep.Order, rep.Amount, rep.Currency)
	f := fact{rep.Account, rep.Kind, rep.Transaction}
	events := c.events[f]
	switch {
	case len(events) == 0:
		c.find(Lost, "%s was acknowledged and has no event (its body is kept: %t)", what, kept)
	case !kept:
		c.find(Lost, "%s was acknowledged and its body is not kept", what)
	case len(events) > 1:
		c.find(Doubled, "%s has %d events", what, len(events))
	case events[0].State == "RECEIVED":
		c.find(Unsettled, "%s was acknowledged and is still RECEIVED", what)
	case events[0].State != "DONE" && events[0].Reason == "":
		c.find(Lost, "%s was acknowledged and is %s without a reason", what, events[0].State)
	}
	if rep.Contradicts && c.conflicts[f] == 0 {
		c.find(Lost, "%s contradicts an acknowledged report, and no CONFLICT is on record", what)
	}
}

// shelves: what was paid has left, what is pending is reserved.
func (c *comparison) shelves() {
	left, reserved := map[string]int64{}, map[string]int64{}
	for _, o := range c.record.Orders {
		switch state := c.orderRows[name{o.Tenant, o.Number}].State; {
		case isPaid(state):
			left[o.Tenant] += o.Goods
		case state == "PENDING":
			reserved[o.Tenant] += o.Goods
		}
	}
	for _, s := range c.books.Stock {
		if want := c.record.OnHand[s.Tenant] - left[s.Tenant]; s.OnHand != want || s.Reserved != reserved[s.Tenant] {
			c.find(Wrong, "%s of %s: %d on hand and %d reserved, it should be %d and %d", s.SKU, s.Tenant, s.OnHand, s.Reserved, want, reserved[s.Tenant])
		}
	}
}

// journalsAreExplained: money that moved and that nobody sent or asked for has moved once too often.
func (c *comparison) journalsAreExplained() {
	for i := range c.books.Journals {
		if j := &c.books.Journals[i]; !c.explained[j.ID] {
			c.find(Doubled, "journal %d (%s, %s) of %s is explained by nothing that was sent: %v", j.ID, j.Kind, j.Key, j.Tenant, j.Lines)
		}
	}
}

// balances: every account holds what channel and merchants count.
func (c *comparison) balances() {
	seen := map[accountName]int64{}
	for _, a := range c.books.Balances {
		at := accountName{a.Tenant, a.Code, a.Currency}
		seen[at] = a.Balance
		if a.Held != 0 {
			c.find(Wrong, "account %s %s of %s still holds %d though everything has ended", a.Code, a.Currency, a.Tenant, a.Held)
		}
		c.balance(at, a.Balance)
	}
	for at, want := range c.expected {
		if _, there := seen[at]; !there && want != 0 {
			c.balance(at, 0)
		}
	}
}

func (c *comparison) balance(at accountName, has int64) {
	want := c.expected[at]
	class := Doubled
	if outside := at.code == bank || strings.HasPrefix(at.code, "channel:"); (has < want) != outside {
		class = Lost // less has come in from outside than should have
	}
	if has != want {
		c.find(class, "account %s %s of %s has %d, it should have %d: off by %d", at.code, at.currency, at.tenant, has, want, has-want)
	}
}

// move counts what one movement does to two accounts.
func (c *comparison) move(tenant, from, to, currency string, amount int64) {
	c.expected[accountName{tenant, from, currency}] -= amount
	c.expected[accountName{tenant, to, currency}] += amount
}

// moves tells whether a journal moves exactly this.
func (j *Journal) moves(from, to, currency string, amount int64) bool {
	return len(j.Lines) == 2 &&
		slices.Contains(j.Lines, Line{from, currency, -amount}) && slices.Contains(j.Lines, Line{to, currency, amount})
}
