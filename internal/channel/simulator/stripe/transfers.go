package stripe

import (
	"slices"
	"strconv"
	"strings"
)

func (s *Simulator) createTransfer(c call) (any, *trouble) {
	amount, currency, t := money(c, "amount", "currency")
	if t != nil {
		return nil, t
	}
	destination := c.form.Get("destination")
	o := s.offerOf(c.form.Get("source_transaction"))
	switch {
	case !strings.HasPrefix(destination, "acct_"):
		return nil, missing("destination", destination)
	case slices.Contains(s.quirks.Refuse, destination):
		return nil, invalid("insufficient_capabilities_for_transfer", "Your destination account needs to have at least one of the following capabilities enabled: transfers, crypto_transfers, legacy_payments")
	case o == nil || o.charge == nil || o.charge.status != "succeeded":
		return nil, missing("charge", c.form.Get("source_transaction"))
	case currency != o.charge.movement.currency:
		return nil, invalid("", "The currency of source_transaction's balance transaction ("+o.charge.movement.currency+") must be the same as the transfer currency ("+currency+")")
	case o.charge.shared+amount > o.amount:
		return nil, invalid("", "Transfers using this transaction as a source must not exceed the source amount.")
	}
	if o.group == "" {
		o.group = "group_" + o.intentID
	}
	o.charge.shared += amount
	made := &transfer{
		id: "tr_1" + word(23), destination: destination, group: o.group, currency: currency, text: c.form.Get("description"), of: o,
		amount: amount, metadata: c.metadata("metadata"), created: s.now(),
	}
	made.movement = s.move(made.id, "transfer", "transfer", -amount, 0, currency)
	s.transfer = append(s.transfer, made)
	s.tell("transfer.created", made.object())
	return made.object(), nil
}

func (s *Simulator) listTransfers(c call) (any, *trouble) {
	group, destination := c.form.Get("transfer_group"), c.form.Get("destination")
	var all []any
	for _, t := range s.transfer {
		if (group == "" || t.group == group) && (destination == "" || t.destination == destination) {
			all = append(all, t.object())
		}
	}
	return list(c, "/v1/transfers", all)
}

func (s *Simulator) createReversal(c call) (any, *trouble) {
	t := s.transferOf(c.id)
	if t == nil {
		return nil, missing("transfer", c.id)
	}
	amount, err := strconv.ParseInt(c.form.Get("amount"), 10, 64)
	if err != nil || amount <= 0 || amount > t.amount-t.reversed {
		return nil, invalid("", "Reversal amount is greater than unreversed amount of the transfer.")
	}
	r := &reversal{id: "trr_1" + word(23), of: t, amount: amount, metadata: c.metadata("metadata"), created: s.now()}
	r.movement = s.move(r.id, "transfer_refund", "transfer_reversal", amount, 0, t.currency)
	t.reversed += amount
	t.of.charge.shared -= amount
	t.reversals = append(t.reversals, r)
	s.tell("transfer.reversed", t.object())
	return r.object(), nil
}

func (s *Simulator) listReversals(c call) (any, *trouble) {
	t := s.transferOf(c.id)
	if t == nil {
		return nil, missing("transfer", c.id)
	}
	var all []any
	for _, r := range t.reversals {
		all = append(all, r.object())
	}
	return list(c, "/v1/transfers/"+t.id+"/reversals", all)
}

func (s *Simulator) listBalance(c call) (any, *trouble) {
	var all []any
	for _, m := range s.balance {
		if within(c, m.created) {
			all = append(all, m.object())
		}
	}
	return list(c, "/v1/balance_transactions", all)
}

func (s *Simulator) getAccount(call) (any, *trouble) {
	return object{"id": s.accountID, "object": "account", "charges_enabled": true, "payouts_enabled": true, "country": "US", "default_currency": "usd"}, nil
}

func (s *Simulator) getBalance(call) (any, *trouble) {
	return object{"object": "balance", "livemode": false, "available": []any{}, "pending": []any{}}, nil
}

func (s *Simulator) listEndpoints(c call) (any, *trouble) {
	var all []any
	if s.endpoint != "" {
		all = append(all, object{"id": "we_1" + s.accountID[6:], "object": "webhook_endpoint", "status": "enabled", "url": s.endpoint, "enabled_events": []string{"*"}, "livemode": false})
	}
	return list(c, "/v1/webhook_endpoints", all)
}
