package chaos

import (
	"strings"

	"github.com/paylatch/paylatch/internal/channel/simulator"
)

// sales: what the channel says of an order, the books say too.
func (c *comparison) sales() {
	at := c.channelOrders()
	for _, s := range c.record.Sales {
		c.sale(s, at[name{s.Tenant, s.Number}])
	}
}

// States of an order at a simulated channel.
const (
	channelPaid = "PAID"
	channelOpen = "OPEN"
)

func (c *comparison) sale(s *Sale, at simulator.Order) {
	row, there := c.orderRows[name{s.Tenant, s.Number}]
	switch {
	case !there && s.Created:
		c.find(Lost, "order %s was confirmed and is not there", s.Number)
		return
	case !there && at.OutTradeNo != "":
		c.find(Lost, "the channel has order %s, which is not there", s.Number)
		return
	case !there:
		return
	case row.State == "PENDING":
		c.find(Unsettled, "order %s of %s is still PENDING though it has expired; the channel says %s", s.Number, s.Channel, at.State)
		return
	}
	credited := c.received(s, at, row)
	switch {
	case at.State == channelPaid && isPaid(row.State) && credited != 1:
		c.find(Lost, "order %s is %s at %s and %s here, and credited %d times", s.Number, at.State, s.Channel, row.State, credited)
	case at.State == channelPaid && row.State == "CLOSED" && !s.mayBeLate():
		c.find(Lost, "order %s is paid at %s and CLOSED here", s.Number, s.Channel)
	case at.State != channelPaid && isPaid(row.State):
		c.find(Doubled, "order %s is %q at %s and %s here", s.Number, at.State, s.Channel, row.State)
	case at.State == channelOpen && row.State == "CLOSED" && !s.mayBeLate():
		c.find(Wrong, "order %s is CLOSED here and may still be paid at %s", s.Number, s.Channel)
	case s.Close == CloseDone && row.State != "CLOSED", s.Close == ClosePaid && !isPaid(row.State):
		c.find(Wrong, "order %s: the merchant was told %s, and it is %s", s.Number, s.Close, row.State)
	}
	if isPaid(row.State) {
		c.tally.Credited++
		c.tally.CreditedMoney[s.Currency] += s.Amount
	}
}

// mayBeLate: Alipay does not know an order until the payer scans its code, so it cannot be closed there.
func (s *Sale) mayBeLate() bool { return s.Channel == "alipay" }

// received looks at the money of an order's events and tells how many of them credit it.
func (c *comparison) received(s *Sale, at simulator.Order, row OrderRow) (credited int) {
	from := "channel:" + s.Channel + ":" + s.Account
	for _, ev := range c.byOrder[name{s.Tenant, s.Number}] {
		if ev.Kind != PaySuccess || ev.State != "DONE" {
			continue
		}
		to := "suspense"
		switch {
		case ev.Transaction != at.TransactionID || at.State != channelPaid:
			c.find(Doubled, "event %s books transaction %s of order %s, which the channel does not have", ev.Key, ev.Transaction, s.Number)
		case ev.Outcome == "CREDITED":
			to = "merchant"
			credited++
		case ev.Outcome == "LATE_PAYMENT" && row.State == "CLOSED":
			c.tally.Suspense[ev.Outcome]++
			c.tally.SuspenseMoney[s.Currency] += s.Amount
		default:
			c.find(Wrong, "event %s of order %s, which is %s, is %s", ev.Key, s.Number, row.State, ev.Outcome)
		}
		c.move(s.Tenant, from, to, s.Currency, s.Amount)
		j := c.journals[ev.Journal]
		if j == nil || c.explained[j.ID] || !j.moves(from, to, s.Currency, s.Amount) {
			c.find(Wrong, "event %s is %s and has no journal of its own that moves its amount", ev.Key, ev.Outcome)
			continue
		}
		c.explained[j.ID] = true
		c.fee(s, j)
	}
	return credited
}

// fee: where the channel tells its fee, it is booked once.
func (c *comparison) fee(s *Sale, received *Journal) {
	of := strings.Replace(received.Key, "received:", "fee:", 1)
	for _, j := range c.byKey[name{s.Tenant, of}] {
		for _, l := range j.Lines {
			if l.Code == "fees" && l.Amount > 0 && l.Amount < s.Amount && j.moves("merchant", "fees", s.Currency, l.Amount) {
				c.explained[j.ID] = true
				c.move(s.Tenant, "merchant", "fees", s.Currency, l.Amount)
			}
		}
	}
}
