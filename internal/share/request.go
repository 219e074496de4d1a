package share

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
)

// Request asks for a sharing.
type Request struct {
	TenantID   string `json:"-"`
	OutTradeNo string `json:"out_trade_no"`
	OutOrderNo string `json:"-"`
	// Receivers are named with amounts or with ratios, all alike. Nil: as the payment's plan says, or nobody where it has none
	// and Finish is set. Empty: nobody, and Finish must be set.
	Receivers []Receiver `json:"receivers"`
	// MerchantRatio is as in [Plan]; nil where the request says nothing.
	MerchantRatio *int64 `json:"merchant_ratio"`
	// Finish ends the sharing of the payment: what is not shared is the merchant's for good.
	Finish bool `json:"finish"`
}

// Receiver is one receiver of a request.
type Receiver struct {
	Type        string `json:"type"`
	Account     string `json:"account"`
	Name        string `json:"name"`
	Description string `json:"description"`
	// One of the two: minor units, or a part of the sum of all ratios.
	Amount *int64 `json:"amount"`
	Ratio  *int64 `json:"ratio"`
}

// maxAmount is what every JSON reader keeps exactly.
const maxAmount = 1<<53 - 1

// valid checks a request, puts its receivers in order and gives the plan of its ratios; nil where it names none.
func (r *Request) valid() (*Plan, error) {
	r.Receivers = slices.Clone(r.Receivers)
	slices.SortStableFunc(r.Receivers, func(a, b Receiver) int { return cmp.Compare(a.Account, b.Account) })
	var ids []identity
	var ratios []PlanReceiver
	for _, l := range r.Receivers {
		ids = append(ids, identity{l.Type, l.Account, l.Name})
		switch {
		case !isText(l.Description, maxDescription):
			return nil, fmt.Errorf("%w: a description has at most %d characters, none of them a control character", ErrInvalid, maxDescription)
		case (l.Amount == nil) == (l.Ratio == nil):
			return nil, fmt.Errorf("%w: a receiver has an amount or a ratio", ErrInvalid)
		case l.Amount != nil && (*l.Amount < 1 || *l.Amount > maxAmount):
			return nil, fmt.Errorf("%w: an amount is a whole number above 0, in minor units of the payment's currency", ErrInvalid)
		case l.Ratio != nil:
			ratios = append(ratios, PlanReceiver{Type: l.Type, Account: l.Account, Name: l.Name, Ratio: *l.Ratio})
		}
	}
	if err := checkIdentities(ids); err != nil {
		return nil, err
	}
	switch {
	case r.Receivers != nil && len(r.Receivers) == 0 && !r.Finish:
		return nil, fmt.Errorf("%w: it has no receivers, and does not finish", ErrInvalid)
	case len(ratios) > 0 && len(ratios) < len(r.Receivers):
		return nil, fmt.Errorf("%w: receivers are named with amounts or with ratios, all alike", ErrInvalid)
	case len(ratios) == 0 && r.MerchantRatio != nil:
		return nil, fmt.Errorf("%w: merchant_ratio goes with ratios", ErrInvalid)
	case len(ratios) == 0:
		return nil, nil
	}
	p, err := newPlan(ratios, r.MerchantRatio)
	return &p, err
}

// fingerprint tells two requests under one number apart, whatever the order of their receivers. The request is valid.
func (r Request) fingerprint() ([]byte, error) {
	canonical, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("fingerprint the request: %w", err)
	}
	sum := sha256.Sum256(canonical)
	return sum[:], nil
}

// divided is a payment as it is divided: its plan, what can be divided, and what receivers have of it.
type divided struct {
	plan *Plan
	base int64
	had  map[string]int64
}

// legs gives each receiver its part. Errors: [ErrNoPlan], [ErrPlanDiffers], [ErrNothing].
func (r Request) legs(asked *Plan, of divided) (legs []Leg, err error) {
	switch {
	case r.Receivers == nil && of.plan == nil && !r.Finish:
		return nil, ErrNoPlan
	case r.Receivers == nil && of.plan == nil, r.Receivers != nil && len(r.Receivers) == 0:
		return nil, nil
	case r.Receivers == nil:
		legs = of.planned()
	case of.plan == nil && asked != nil:
		legs = r.inRatios(asked.Of(of.base))
	case of.plan == nil:
		legs = r.inAmounts()
	case asked != nil && !of.plan.sameRatios(*asked):
		return nil, ErrPlanDiffers
	case asked != nil:
		legs = r.described(of.planned())
	default:
		legs = r.inAmounts()
		if !of.allows(legs) {
			return nil, ErrPlanDiffers
		}
	}
	if sum(legs) == 0 && !r.Finish {
		return nil, ErrNothing
	}
	return legs, nil
}

// planned gives each receiver what the plan gives it of what can be divided now, less what it has: two sharings by one plan
// never give the same part twice.
func (d divided) planned() (legs []Leg) {
	for i, amount := range d.plan.Of(d.base) {
		l := d.plan.Receivers[i]
		legs = append(legs, Leg{Type: l.Type, Account: l.Account, Name: l.Name, Ratio: &l.Ratio, Amount: max(0, amount-d.had[l.Account])})
	}
	return legs
}

// allows tells whether legs in amounts stay within what the plan gives each receiver.
func (d divided) allows(legs []Leg) bool {
	rest := map[string]int64{}
	for _, l := range d.planned() {
		rest[l.Account] = l.Amount
	}
	for _, l := range legs {
		if l.Amount > rest[l.Account] {
			return false
		}
	}
	return true
}

// sameRatios tells whether two plans give the same receivers the same ratios.
func (p Plan) sameRatios(other Plan) bool {
	return p.MerchantRatio == other.MerchantRatio && slices.EqualFunc(p.Receivers, other.Receivers, func(a, b PlanReceiver) bool {
		return a.Account == b.Account && a.Ratio == b.Ratio && (b.Type == "" || a.Type == b.Type) && (b.Name == "" || a.Name == b.Name)
	})
}

func (r Request) inAmounts() (legs []Leg) {
	for _, l := range r.Receivers {
		legs = append(legs, Leg{Type: l.Type, Account: l.Account, Name: l.Name, Description: l.Description, Amount: *l.Amount})
	}
	return legs
}

func (r Request) inRatios(amounts []int64) (legs []Leg) {
	for i, l := range r.Receivers {
		legs = append(legs, Leg{Type: l.Type, Account: l.Account, Name: l.Name, Description: l.Description, Ratio: l.Ratio, Amount: amounts[i]})
	}
	return legs
}

// described gives the plan's legs the descriptions of a request that names the same receivers.
func (r Request) described(legs []Leg) []Leg {
	for i := range legs {
		legs[i].Description = r.Receivers[i].Description
	}
	return legs
}

// sum is at most 50 times the largest amount of a leg, far within 64 bits.
func sum(legs []Leg) (total int64) {
	for _, l := range legs {
		total += l.Amount
	}
	return total
}
