package stripe

import (
	"fmt"
	"slices"
	"strconv"
)

func (s *Simulator) createRefund(c call) (any, *trouble) {
	id := c.form.Get("payment_intent") + c.form.Get("charge")
	o := s.offerOf(id)
	switch {
	case o == nil:
		return nil, missing("payment_intent", id)
	case o.status != "succeeded":
		return nil, invalid("", "This PaymentIntent ("+id+") does not have a successful charge to refund.")
	case o.charge.refunded == o.amount:
		return nil, invalid("charge_already_refunded", "Charge "+o.charge.id+" has already been refunded.")
	}
	amount := o.amount - o.charge.refunded
	if told := c.form.Get("amount"); told != "" {
		asked, err := strconv.ParseInt(told, 10, 64)
		if err != nil || asked <= 0 {
			return nil, invalid("parameter_invalid_integer", "Invalid integer: "+told)
		}
		if asked > amount {
			return nil, invalid("", fmt.Sprintf("Refund amount (%d) is greater than unrefunded amount on charge (%d)", asked, amount))
		}
		amount = asked
	}
	if t := unit(amount, o.currency); t != nil {
		return nil, t
	}
	if reason := c.form.Get("reason"); reason != "" && !slices.Contains([]string{"duplicate", "fraudulent", "requested_by_customer"}, reason) {
		return nil, invalid("", "Invalid reason: must be one of duplicate, fraudulent, or requested_by_customer")
	}
	r := &refund{id: "re_3" + word(23), of: o, amount: amount, status: "succeeded", reason: c.form.Get("reason"), metadata: c.metadata("metadata"), created: s.now()}
	if s.core.Faults().Hold {
		r.status = "pending"
	}
	r.movement = s.move(r.id, "refund", "refund", -amount, 0, o.currency)
	o.charge.refunded += amount
	s.refunds = append(s.refunds, r)
	s.tell("refund.created", r.object())
	s.tell("charge.refunded", o.chargeObject())
	return r.object(), nil
}

func (s *Simulator) getRefund(c call) (any, *trouble) {
	if r := s.refundOf(c.id); r != nil {
		return r.object(), nil
	}
	return nil, missing("refund", c.id)
}

func (s *Simulator) listRefunds(c call) (any, *trouble) {
	of := c.form.Get("payment_intent") + c.form.Get("charge")
	var all []any
	for _, r := range s.refunds {
		if of == "" || r.of.intentID == of || r.of.charge.id == of {
			all = append(all, r.object())
		}
	}
	return list(c, "/v1/refunds", all)
}
