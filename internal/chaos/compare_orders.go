package chaos

import (
	"fmt"
	"slices"
)

// orders: every order is where its reports allow it to be, and its money with it.
func (c *comparison) orders() {
	reports := map[name][]*Report{}
	for _, rep := range c.record.Reports {
		if !rep.Forged {
			at := name{rep.Tenant, rep.Order}
			reports[at] = append(reports[at], rep)
		}
	}
	for _, o := range c.record.Orders {
		c.order(o, reports[name{o.Tenant, o.Number}])
	}
}

func (c *comparison) order(o *Order, reports []*Report) {
	row, there := c.orderRows[name{o.Tenant, o.Number}]
	switch {
	case !there && o.Created:
		c.find(Lost, "order %s was confirmed and is not there", o.Number)
		return
	case there && !o.Asked:
		c.find(Wrong, "order %s is there though nobody asked for it", o.Number)
		return
	case !there:
		c.unknown(o, reports)
		return
	case row.Amount != o.Amount || row.Currency != o.Currency:
		c.find(Wrong, "order %s is of %d %s, it should be of %d %s", o.Number, row.Amount, row.Currency, o.Amount, o.Currency)
	}
	e := expect(o, reports)
	if !e.allows(row.State) {
		class := Wrong
		switch {
		case row.State == "PENDING" && slices.ContainsFunc(c.byOrder[name{o.Tenant, o.Number}], func(ev *Event) bool { return ev.State == "RECEIVED" }):
			class = Unsettled
		case row.State == "PENDING":
			class = Lost
		}
		c.find(class, "order %s (%s) is %s: %s", o.Number, o.Scene, row.State, e.describe())
	}
	if want := o.Code && isPaid(row.State); (row.Codes == 1) != want || row.Codes > 1 {
		c.find(Wrong, "order %s is %s and has %d redemption codes", o.Number, row.State, row.Codes)
	}
	c.money(o, row, reports, e)
	for _, rep := range reports {
		c.news(row, rep)
	}
}

func (e expectation) describe() string {
	return fmt.Sprintf("acknowledged %v, never acknowledged %v, wrong %v; paid %t, closed %t, pending %t would be right",
		e.due, e.maybe, e.wrong, e.paid, e.closed, e.pending)
}

// unknown: reports of an order that is not there wait for it.
func (c *comparison) unknown(o *Order, reports []*Report) {
	for _, rep := range reports {
		for _, ev := range c.events[fact{rep.Account, rep.Kind, rep.Transaction}] {
			if ev.State != "PARKED" || ev.Outcome != "UNKNOWN_ORDER" || ev.Journal != 0 {
				c.find(Wrong, "event %s of order %s, which is not there, is %s %s", ev.Key, o.Number, ev.State, ev.Outcome)
			}
		}
	}
}

// money: of the right transactions of a paid order one is credited and the others are in suspense; of a closed one all are.
// The wrong ones move nothing.
func (c *comparison) money(o *Order, row OrderRow, reports []*Report, e expectation) {
	account := accountOf(reports)
	credited := 0
	for _, transaction := range append(e.due, e.maybe...) {
		for _, ev := range c.events[fact{account, PaySuccess, transaction}] {
			if ev.State == "DONE" && c.booked(o, row, ev) {
				credited++
			}
		}
	}
	switch {
	case isPaid(row.State) && credited == 0 && e.paid:
		c.find(Lost, "order %s is %s and no transaction of it is credited", o.Number, row.State)
	case credited > 1 || credited == 1 && !isPaid(row.State):
		c.find(Doubled, "order %s is %s and %d transactions of it are credited", o.Number, row.State, credited)
	}
	for _, transaction := range e.wrong {
		for _, ev := range c.events[fact{account, PaySuccess, transaction}] {
			if ev.Journal != 0 || ev.State != "PARKED" || ev.Outcome != "AMOUNT_MISMATCH" && ev.Outcome != "CURRENCY_MISMATCH" {
				c.find(Wrong, "event %s, of a wrong amount or currency, is %s %s with journal %d", ev.Key, ev.State, ev.Outcome, ev.Journal)
			}
		}
	}
	if isPaid(row.State) && credited > 0 {
		c.tally.Credited++
		c.tally.CreditedMoney[o.Currency] += o.Amount
	}
}

func accountOf(reports []*Report) string {
	if len(reports) == 0 {
		return ""
	}
	return reports[0].Account
}

// booked looks at the journal of a right transaction and tells whether it credits the order.
func (c *comparison) booked(o *Order, row OrderRow, ev *Event) (credited bool) {
	to := "suspense"
	switch {
	case ev.Outcome == "CREDITED":
		to = "merchant"
	case ev.Outcome == "SECOND_PAYMENT" && isPaid(row.State), ev.Outcome == "LATE_PAYMENT" && row.State == "CLOSED":
		c.tally.Suspense[ev.Outcome]++
		c.tally.SuspenseMoney[o.Currency] += o.Amount
	default:
		c.find(Lost, "event %s of order %s, which is %s, is %s %s", ev.Key, o.Number, row.State, ev.State, ev.Outcome)
		return false
	}
	from := "channel:standard:" + ev.Account
	c.move(o.Tenant, from, to, o.Currency, o.Amount)
	j := c.journals[ev.Journal]
	switch {
	case j == nil:
		c.find(Lost, "event %s is %s and has no journal", ev.Key, ev.Outcome)
	case c.explained[j.ID]:
		c.find(Wrong, "journal %d (%s) books two events", j.ID, j.Key)
	case !j.moves(from, to, o.Currency, o.Amount):
		c.find(Wrong, "journal %d (%s) of event %s moves %v", j.ID, j.Key, ev.Key, j.Lines)
	}
	if j != nil {
		c.explained[j.ID] = true
	}
	return to == "merchant"
}

// news: a failed attempt is on record; a closing closed the order, or came too late.
func (c *comparison) news(row OrderRow, rep *Report) {
	if rep.Kind == PaySuccess {
		return
	}
	for _, ev := range c.events[fact{rep.Account, rep.Kind, rep.Transaction}] {
		right := ev.State == "IGNORED" && ev.Outcome == "STALE" && row.State != "PENDING"
		switch rep.Kind {
		case PayFailed:
			right = right || ev.State == "DONE" && ev.Outcome == "ATTEMPT_FAILED"
		case PayClosed:
			right = right || ev.State == "DONE" && ev.Outcome == "CLOSED" && row.State == "CLOSED"
		}
		if !right && ev.State != "RECEIVED" || ev.Journal != 0 {
			c.find(Wrong, "event %s of order %s, which is %s, is %s %s", ev.Key, rep.Order, row.State, ev.State, ev.Outcome)
		}
	}
}
