package chaos

// shares: each sharing that was accepted paid each receiver its part, once.
func (c *comparison) shares() {
	legs := map[name][]LegRow{}
	for _, row := range c.books.Legs {
		legs[name{row.Tenant, row.Number}] = append(legs[name{row.Tenant, row.Number}], row)
	}
	for _, sh := range c.record.Shares {
		rows := legs[name{sh.Tenant, sh.Number}]
		delete(legs, name{sh.Tenant, sh.Number})
		if len(rows) == 0 {
			if sh.Answer == Accepted {
				c.find(Lost, "sharing %s was accepted and is not there", sh.Number)
			}
			continue
		}
		c.tally.Shares[rows[0].State]++
		if s := c.salesBy[name{sh.Tenant, sh.Order}]; s == nil || rows[0].Order != sh.Order {
			c.find(Wrong, "sharing %s is of order %s, it should be of %s", sh.Number, rows[0].Order, sh.Order)
		} else {
			c.share(sh, s, rows)
		}
	}
	for at, rows := range legs {
		c.find(Doubled, "sharing %s of order %s is %s, and nobody asked for it", at.name, rows[0].Order, rows[0].State)
	}
}

func (c *comparison) share(sh *Share, s *Sale, rows []LegRow) {
	switch rows[0].State {
	case "SUCCEEDED":
	case "PARTIAL", "FAILED", "REFUSED":
		c.find(Wrong, "sharing %s is %s though its channel refuses none", sh.Number, rows[0].State)
	default:
		c.find(Unsettled, "sharing %s is still %s", sh.Number, rows[0].State)
	}
	due := s.parts()
	for _, leg := range rows {
		if leg.Amount != due[leg.Account] {
			c.find(Wrong, "sharing %s gives %s %d, it should give %d", sh.Number, leg.Account, leg.Amount, due[leg.Account])
		}
		delete(due, leg.Account)
		posted := c.byKey[name{sh.Tenant, "share:" + sh.Number + ":" + leg.Account}]
		if leg.Leg != "SUCCEEDED" {
			continue // said already; a journal that it has is explained by nothing
		}
		to := "receiver:" + leg.Account
		if len(posted) != 1 || !posted[0].moves("merchant", to, s.Currency, leg.Amount) {
			c.find(Lost, "leg %s of sharing %s is paid and has %d journals, none of its amount", leg.Account, sh.Number, len(posted))
			continue
		}
		c.explained[posted[0].ID] = true
		c.move(sh.Tenant, "merchant", to, s.Currency, leg.Amount)
	}
	for account, amount := range due {
		c.find(Lost, "sharing %s does not give %s its %d", sh.Number, account, amount)
	}
}
