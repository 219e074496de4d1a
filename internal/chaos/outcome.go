package chaos

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/paylatch/paylatch/internal/money"
	"github.com/paylatch/paylatch/internal/verify"
)

// Outcome is what a run did and found.
type Outcome struct {
	Seed   uint64  `json:"seed"`
	Length string  `json:"for"`
	Rate   float64 `json:"rate"`
	Took   string  `json:"took"`
	// Faults are what was survived, by part and way.
	Faults map[Part]map[How]int `json:"faults"`
	// EndedByThemselves are processes that ended though nobody struck them.
	EndedByThemselves []string  `json:"ended_by_themselves"`
	Callbacks         Callbacks `json:"callbacks"`
	Sales             Sales     `json:"acquirers"`
	// Calls are the merchants' calls.
	Calls int `json:"calls"`
	Tally
	Lost       int                `json:"lost"`
	Doubled    int                `json:"doubled"`
	Wrong      int                `json:"wrong"`
	Unsettled  int                `json:"unsettled"`
	Findings   []Finding          `json:"findings"`
	Invariants int                `json:"invariants"`
	Broken     []verify.Violation `json:"broken"`
}

// Callbacks are what channels sent, and how it was answered.
type Callbacks struct {
	Sent       int `json:"sent"`
	Acked      int `json:"acked"`
	Refused    int `json:"refused"` // 4xx
	Failed     int `json:"failed"`  // 5xx
	Unanswered int `json:"unanswered"`
	Distinct   int `json:"distinct"`    // bodies
	NeverAcked int `json:"never_acked"` // authentic bodies that the channel gave up on
	Forged     int `json:"forged"`      // attempts among those refused
	// Times of an acknowledgement by an API that was not struck meanwhile, in milliseconds, and how many took more than 3 s.
	MedianMS  int64 `json:"median_ms"`
	LongestMS int64 `json:"longest_ms"`
	Late      int   `json:"late"`
}

// Sales are what the simulated acquirers saw.
type Sales struct {
	Announced int `json:"announced"`
	Paid      int `json:"paid"`
	Calls     int `json:"calls"`
	Notices   int `json:"notices"`
	Acked     int `json:"notices_acked"`
}

func salesOf(r *Record) (s Sales) {
	for _, m := range r.Merchants {
		if m.sim == nil {
			continue
		}
		for _, o := range m.sim.Orders() {
			s.Announced++
			if o.State == channelPaid {
				s.Paid++
			}
		}
		s.Calls += len(m.sim.Core().Calls(""))
		for _, sent := range m.sim.Core().Sent() {
			s.Notices++
			if sent.Status >= 200 && sent.Status < 300 {
				s.Acked++
			}
		}
	}
	return s
}

// Passed tells whether nothing was lost, doubled or wrong, and every invariant holds.
func (o *Outcome) Passed() bool { return o != nil && len(o.Findings) == 0 && len(o.Broken) == 0 }

func (o *Outcome) compare(ctx context.Context, h *house, l *load, s *striker) error {
	books, err := ReadBooks(ctx, h.engine)
	if err != nil {
		return err
	}
	var findings []Finding
	o.Tally, findings = Compare(l.record, books)
	o.Findings = append(o.Findings, findings...)
	if findings, err = agree(ctx, l, books); err != nil {
		return err
	}
	o.Findings = append(o.Findings, findings...)
	if o.Broken, err = verify.Run(ctx, h.engine, time.Now(), nil); err != nil {
		return err
	}
	o.Callbacks, o.Calls = callbacksOf(l.record, s)
	o.Sales = salesOf(l.record)
	for _, f := range o.Findings {
		switch f.Class {
		case Lost:
			o.Lost++
		case Doubled:
			o.Doubled++
		case Unsettled:
			o.Unsettled++
		default:
			o.Wrong++
		}
	}
	return nil
}

func callbacksOf(r *Record, s *striker) (c Callbacks, calls int) {
	median, longest, late := r.ackTimes(func(api int, when span) bool { return s.struck(target{API, api}, when) })
	c.MedianMS, c.LongestMS, c.Late = median.Milliseconds(), longest.Milliseconds(), late
	for _, rep := range r.Reports {
		c.Sent += rep.Sent
		c.Acked += rep.Acked
		c.Refused += rep.Refused
		c.Failed += rep.Failed
		c.Unanswered += rep.Unanswered
		c.Distinct++
		if rep.Forged {
			c.Forged += rep.Refused
		} else if rep.Sent > 0 && rep.Acked == 0 {
			c.NeverAcked++
		}
	}
	return c, r.calls
}

// maxShown bounds how many findings are printed; the JSON has all.
const maxShown = 30

// Print writes the report for people.
func (o *Outcome) Print(w io.Writer) {
	line := func(label, format string, args ...any) {
		fmt.Fprintf(w, "  %-16s %s\n", label, fmt.Sprintf(format, args...))
	}
	fmt.Fprintf(w, "\nchaos, seed %d, %s of load, %s in all\n\n", o.Seed, o.Length, o.Took)
	survived := 0
	for _, part := range sortedKeys(o.Faults) {
		for _, n := range o.Faults[part] {
			survived += n
		}
	}
	line("struck", "%d times: %s", survived, faultsText(o.Faults))
	for _, end := range o.EndedByThemselves {
		line("ended by itself", "%s", end)
	}
	c := o.Callbacks
	line("callbacks", "%d sent: %d acknowledged, %d refused, %d not stored (5xx), %d without an answer", c.Sent, c.Acked, c.Refused, c.Failed, c.Unanswered)
	line("", "%d bodies; %d authentic ones never acknowledged; forged ones refused %d times", c.Distinct, c.NeverAcked, c.Forged)
	line("", "acknowledged after %d ms (median), %d ms (longest, its API not struck), %d after more than 3 s", c.MedianMS, c.LongestMS, c.Late)
	line("acquirers", "%d orders announced, %d paid there; %d calls; %d notices sent, %d acknowledged",
		o.Sales.Announced, o.Sales.Paid, o.Sales.Calls, o.Sales.Notices, o.Sales.Acked)
	line("orders", "%s", countsText(o.Orders))
	line("credited", "%d orders: %s", o.Credited, moneyText(o.CreditedMoney))
	line("in suspense", "%s: %s", countsText(o.Suspense), moneyText(o.SuspenseMoney))
	line("parked", "%s", countsText(o.Parked))
	line("ignored", "%s", countsText(o.Ignored))
	line("refunds", "%s", countsText(o.Refunds))
	line("sharings", "%s", countsText(o.Shares))
	line("transfers", "%d confirmed; cancelled: %s; %d journals", o.Confirmed, countsText(o.Cancelled), o.Posted)
	line("lost", "%d", o.Lost)
	line("doubled", "%d", o.Doubled)
	line("wrong", "%d", o.Wrong)
	line("unsettled", "%d", o.Unsettled)
	line("invariants", "%d of %d hold", o.Invariants-brokenRules(o.Broken), o.Invariants)
	for i, f := range o.Findings {
		if i == maxShown {
			fmt.Fprintf(w, "  … and %d more\n", len(o.Findings)-maxShown)
			break
		}
		fmt.Fprintf(w, "  %s: %s\n", strings.ToUpper(f.Class), f.What)
	}
	for i, v := range o.Broken {
		if i == maxShown {
			fmt.Fprintf(w, "  … and %d more\n", len(o.Broken)-maxShown)
			break
		}
		fmt.Fprintf(w, "  BROKEN: %s: %s\n", v.Invariant, v.What)
	}
}

func brokenRules(broken []verify.Violation) int {
	rules := map[string]bool{}
	for _, v := range broken {
		rules[v.Invariant] = true
	}
	return len(rules)
}

func faultsText(faults map[Part]map[How]int) string {
	var parts []string
	for _, part := range sortedKeys(faults) {
		var ways []string
		for _, how := range sortedKeys(faults[part]) {
			ways = append(ways, fmt.Sprintf("%s %d", how, faults[part][how]))
		}
		parts = append(parts, fmt.Sprintf("%s %s", part, strings.Join(ways, ", ")))
	}
	return strings.Join(parts, "; ")
}

func countsText(counts map[string]int) string {
	if len(counts) == 0 {
		return "none"
	}
	var words []string
	for _, key := range sortedKeys(counts) {
		words = append(words, fmt.Sprintf("%s %d", key, counts[key]))
	}
	return strings.Join(words, ", ")
}

func moneyText(sums Money) string {
	if len(sums) == 0 {
		return "nothing"
	}
	var words []string
	for _, currency := range sortedKeys(sums) {
		words = append(words, money.Format(sums[currency], currency))
	}
	return strings.Join(words, ", ")
}
