package chaos

import "github.com/paylatch/paylatch/internal/channel/simulator"

// refunds: what the merchant was told of each is so, and of each order the channel has paid back what the books say.
func (c *comparison) refunds() {
	rows := map[name]RefundRow{}
	for _, row := range c.books.Refunds {
		rows[name{row.Tenant, row.Number}] = row
	}
	back := map[name]int64{} // by order
	for _, r := range c.record.Refunds {
		row, there := rows[name{r.Tenant, r.Number}]
		if c.refund(r, row, there) {
			back[name{r.Tenant, r.Order}] += r.Amount
		}
		delete(rows, name{r.Tenant, r.Number})
	}
	for _, row := range rows {
		c.find(Doubled, "refund %s of order %s is %s, and nobody asked for it", row.Number, row.Order, row.State)
	}
	at := c.channelOrders()
	for _, s := range c.record.Sales {
		o, booked := at[name{s.Tenant, s.Number}], back[name{s.Tenant, s.Number}]
		switch {
		case o.Refunded > booked:
			c.find(Lost, "%s paid back %d of order %s, the books say %d", s.Channel, o.Refunded, s.Number, booked)
		case o.Refunded < booked:
			c.find(Doubled, "%s paid back %d of order %s, the books say %d", s.Channel, o.Refunded, s.Number, booked)
		case booked > s.Amount:
			c.find(Doubled, "%d of order %s went back, it was %d", booked, s.Number, s.Amount)
		}
	}
}

// refund looks at one and tells whether its money went back by the books.
func (c *comparison) refund(r *Refund, row RefundRow, there bool) (back bool) {
	switch {
	case !there && r.Answer == Accepted:
		c.find(Lost, "refund %s was accepted and is not there", r.Number)
		return false
	case !there:
		c.tally.Refunds[r.Answer]++
		return false
	case r.Answer != Accepted && r.Answer != "":
		c.find(Wrong, "refund %s was refused (%s) and is %s", r.Number, r.Answer, row.State)
	case row.Amount != r.Amount || row.Order != r.Order:
		c.find(Wrong, "refund %s is of %d of order %s, it should be of %d of %s", r.Number, row.Amount, row.Order, r.Amount, r.Order)
	}
	c.tally.Refunds[row.State]++
	switch row.State {
	case "SUCCEEDED":
	case "FAILED":
		c.find(Wrong, "refund %s is FAILED though its channel refuses none", r.Number)
		return false
	default:
		c.find(Unsettled, "refund %s is still %s", r.Number, row.State)
		return false
	}
	s := c.salesBy[name{r.Tenant, r.Order}]
	channel := "channel:" + s.Channel + ":" + s.Account
	posted := c.byKey[name{r.Tenant, "refund:" + r.Number}]
	if len(posted) != 1 || !posted[0].moves("merchant", channel, s.Currency, r.Amount) {
		c.find(Lost, "refund %s is SUCCEEDED and has %d journals, none of its amount", r.Number, len(posted))
		return true
	}
	c.explained[posted[0].ID] = true
	c.move(r.Tenant, "merchant", channel, s.Currency, r.Amount)
	for _, j := range c.byKey[name{r.Tenant, "refund:" + r.Number + ":fee"}] {
		for _, l := range j.Lines {
			if l.Code == "merchant" && l.Amount > 0 && j.moves("fees", "merchant", s.Currency, l.Amount) {
				c.explained[j.ID] = true
				c.move(r.Tenant, "fees", "merchant", s.Currency, l.Amount)
			}
		}
	}
	return true
}

// channelOrders is what the channels remember.
func (c *comparison) channelOrders() map[name]simulator.Order {
	at := map[name]simulator.Order{}
	for _, m := range c.record.Merchants {
		if m.sim == nil {
			continue
		}
		for _, o := range m.sim.Orders() {
			at[name{m.Tenant, o.OutTradeNo}] = o
		}
	}
	return at
}
