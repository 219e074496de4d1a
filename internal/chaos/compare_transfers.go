package chaos

// transfers: each ended as its merchant was told, with one journal or none, and the participant outside agrees.
func (c *comparison) transfers() {
	rows := map[name]TransferRow{}
	for _, row := range c.books.Transfers {
		rows[name{row.Tenant, row.Key}] = row
	}
	for _, t := range c.record.Transfers {
		row, there := rows[name{t.Tenant, t.Key}]
		if !there {
			if t.Answer != "" {
				c.find(Lost, "transfer %s was answered %s and is not there", t.Key, t.Answer)
			}
			continue
		}
		c.transfer(t, row)
	}
}

func (c *comparison) transfer(t *Transfer, row TransferRow) {
	posted := c.byKey[name{t.Tenant, row.GID}]
	for _, j := range posted {
		c.explained[j.ID] = true
	}
	switch row.State {
	case "CONFIRMED":
		c.tally.Confirmed++
		c.move(t.Tenant, t.From, t.To, t.Currency, t.Amount)
		if len(posted) == 0 {
			c.find(Lost, "transfer %s is CONFIRMED and has no journal", t.Key)
		}
		if t.TooMuch || t.Refuses {
			c.find(Wrong, "transfer %s is CONFIRMED though it must not be", t.Key)
		}
	case "CANCELLED":
		c.tally.Cancelled[row.Failure]++
		if len(posted) > 0 {
			c.find(Doubled, "transfer %s is CANCELLED and has %d journals", t.Key, len(posted))
		}
		if !t.mayFail(row.Failure) {
			c.find(Lost, "transfer %s is CANCELLED (%s) though nothing spoke against it", t.Key, row.Failure)
		}
	default:
		c.find(Unsettled, "transfer %s is still %s", t.Key, row.State)
		return
	}
	if len(posted) > 1 || len(posted) == 1 && !posted[0].moves(t.From, t.To, t.Currency, t.Amount) {
		c.find(Doubled, "transfer %s has %d journals; the first moves %v", t.Key, len(posted), posted[0].Lines)
	}
	ended := row.Failure
	if row.State == "CONFIRMED" {
		ended = Confirmed
	}
	if t.Answer != "" && t.Answer != ended {
		c.find(Wrong, "transfer %s was answered %s and is %s %s", t.Key, t.Answer, row.State, row.Failure)
	}
	c.outside(t, row)
}

// mayFail says which refusals a transfer may meet.
func (t *Transfer) mayFail(code string) bool {
	switch {
	case t.TooMuch:
		return code == "insufficient_funds"
	case t.Refuses:
		return code == "participant_refused" || code == "participant_away"
	case t.External:
		return code == "participant_away" // it was asked in vain for too long
	default:
		return false
	}
}

// outside: the external participant did what was decided, and nothing else.
func (c *comparison) outside(t *Transfer, row TransferRow) {
	told := c.record.Told[t.Key]
	if told == nil {
		told = &Phases{}
	}
	switch {
	case !t.External:
	case row.State == "CONFIRMED" && (told.Confirmed == 0 || told.Tried == 0):
		c.find(Lost, "transfer %s is CONFIRMED and its participant does not know it: %+v", t.Key, *told)
	case row.State == "CONFIRMED" && told.Cancelled > 0, row.State == "CANCELLED" && told.Confirmed > 0:
		c.find(Wrong, "transfer %s is %s and its participant was told: %+v", t.Key, row.State, *told)
	case row.State == "CANCELLED" && told.Tried > 0 && told.Cancelled == 0:
		c.find(Lost, "transfer %s is CANCELLED and its participant, which tried, does not know it: %+v", t.Key, *told)
	}
}

// postings: a merchant's own journal is there once.
func (c *comparison) postings() {
	for _, p := range c.record.Postings {
		posted := c.byKey[name{p.Tenant, "posting:" + p.Key}]
		for _, j := range posted {
			c.explained[j.ID] = true
			c.tally.Posted++
			c.move(p.Tenant, p.From, p.To, p.Currency, p.Amount)
		}
		switch {
		case p.Done && len(posted) == 0:
			c.find(Lost, "journal %s was confirmed and is not there", p.Key)
		case len(posted) > 1, len(posted) == 1 && !posted[0].moves(p.From, p.To, p.Currency, p.Amount):
			c.find(Doubled, "journal %s is there %d times; the first moves %v", p.Key, len(posted), posted[0].Lines)
		}
	}
}
