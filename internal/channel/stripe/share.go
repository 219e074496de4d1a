package stripe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/paylatch/paylatch/internal/channel"
)

// Share implements [channel.Acquirer]: one transfer per receiver, out of the payment's charge. What was transferred under
// this number before is found and left; what is missing is made. A leg that Stripe refuses is closed, the others go on; only
// where nothing at all was paid is the refusal the answer.
func (a *account) Share(ctx context.Context, s channel.Share) (channel.ShareStanding, error) {
	values, err := sharedValues(s)
	if err != nil {
		return channel.ShareStanding{}, err
	}
	source, err := a.sourceOf(ctx, s)
	if err != nil {
		return channel.ShareStanding{}, err
	}
	there, err := a.transfersOf(ctx, source.group, s.OutOrderNo)
	if err != nil {
		return channel.ShareStanding{}, err
	}
	for i, r := range s.Receivers {
		if t, known := there[r.Account]; known && (t.Amount != values[i] || upper(t.Currency) != s.Currency) {
			return channel.ShareStanding{}, &channel.Rejection{Code: "share_differs", Detail: "Stripe knows this number for another sharing"}
		}
	}
	var (
		standing = channel.ShareStanding{Known: true, ShareID: source.group}
		body     sharedBody
		paid     int
		refused  error
	)
	for i, r := range s.Receivers {
		t, known := there[r.Account]
		if !known {
			t, err = a.transfer(ctx, s, r, values[i], source)
			if channel.Definite(err) {
				refused = err
				standing.Legs = append(standing.Legs, body.refuse(s, r, values[i], source, err))
				continue
			}
			if err != nil {
				return channel.ShareStanding{}, err
			}
		}
		paid++
		standing.Legs = append(standing.Legs, body.add(r.Account, r.Amount, t))
	}
	if paid == 0 {
		return channel.ShareStanding{}, refused
	}
	standing.Body, err = body.marshal()
	return standing, err
}

// mostReceivers keeps what is reported of a sharing within one body, see [channel.Read].
const mostReceivers = 50

// sharedValues refuses before anything is done what Stripe, or the names of our legs, could not tell apart.
func sharedValues(s channel.Share) ([]int64, error) {
	if len(s.Receivers) == 0 {
		return nil, &channel.Rejection{Code: "receivers_missing", Detail: "a sharing has at least one receiver"}
	}
	if len(s.Receivers) > mostReceivers {
		return nil, &channel.Rejection{Code: "receivers_too_many", Detail: fmt.Sprintf("a sharing has at most %d receivers", mostReceivers)}
	}
	seen := map[string]bool{}
	var values []int64
	for _, r := range s.Receivers {
		if seen[r.Account] {
			return nil, &channel.Rejection{Code: "receiver_twice", Detail: "a receiver stands twice in one sharing: " + quoted(r.Account)}
		}
		seen[r.Account] = true
		if !accountID.MatchString(r.Account) {
			return nil, &channel.Rejection{Code: "receiver_invalid", Detail: "a receiver at Stripe is a connected account, acct_…: " + quoted(r.Account)}
		}
		value, err := toStripe(r.Amount, s.Currency)
		if err != nil {
			return nil, err
		}
		values = append(values, value)
	}
	return values, nil
}

type foundTransfer struct {
	transfer
	raw json.RawMessage
}

// source is the charge that a sharing is paid from, and the group that Stripe puts its transfers in.
type source struct {
	intent string
	charge string
	group  string
}

// sourceOf finds the charge of a payment. A charge without a group gets one with its first transfer: group_{PaymentIntent}.
func (a *account) sourceOf(ctx context.Context, s channel.Share) (source, error) {
	payment, err := a.paymentOf(ctx, s.TransactionID, s.Reference, s.OutTradeNo)
	if err != nil {
		return source{}, err
	}
	if subjectOf(payment) == objectCharge {
		return source{}, &channel.Rejection{Code: "payment_without_intent", Detail: "a payment without a PaymentIntent cannot be shared"}
	}
	p, _, err := a.readIntent(ctx, payment)
	if err != nil {
		return source{}, err
	}
	var c charge
	if p.Status != intentSucceeded || !p.LatestCharge.expand(&c) {
		return source{}, &channel.Rejection{Code: "payment_not_paid", Detail: "only what was paid can be shared"}
	}
	group := c.TransferGroup
	if group == "" {
		group = "group_" + p.ID
	}
	return source{intent: p.ID, charge: c.ID, group: group}, nil
}

// transfersOf finds the transfers of a sharing, by receiver. A group may hold other sharings of the same payment.
func (a *account) transfersOf(ctx context.Context, group, outOrderNo string) (map[string]foundTransfer, error) {
	found, raws, err := pick(ctx, a.api, "/v1/transfers", url.Values{"transfer_group": {group}}, func(t transfer) bool {
		return t.Metadata[metaShare] == outOrderNo
	})
	if err != nil {
		return nil, err
	}
	byReceiver := map[string]foundTransfer{}
	for i, t := range found {
		byReceiver[t.Destination.ID] = foundTransfer{t, raws[i]}
	}
	return byReceiver, nil
}

// transfer pays one leg, once: the key is the sharing's number and the receiver.
func (a *account) transfer(ctx context.Context, s channel.Share, r channel.ShareReceiver, value int64, from source) (foundTransfer, error) {
	form := url.Values{
		"amount":                       {strconv.FormatInt(value, 10)},
		"currency":                     {strings.ToLower(s.Currency)},
		"destination":                  {r.Account},
		"source_transaction":           {from.charge},
		"metadata[" + metaShare + "]":  {s.OutOrderNo},
		"metadata[" + metaOrder + "]":  {s.OutTradeNo},
		"metadata[" + metaIntent + "]": {from.intent},
	}
	if r.Description != "" {
		form.Set("description", r.Description)
	}
	t, raw, err := made[transfer](ctx, a.api, "/v1/transfers", form, key("share", s.OutOrderNo, r.Account))
	return foundTransfer{t, raw}, err
}

// QueryShare implements [channel.Acquirer]. A sharing of which a leg has no transfer is not known as a whole: a leg that was
// never tried and one that was refused look the same here. Shared again under its number, it finds what is there and tries
// the rest, and Stripe repeats its refusals.
func (a *account) QueryShare(ctx context.Context, s channel.Share) (channel.ShareStanding, error) {
	group := s.ShareID
	if group == "" {
		from, err := a.sourceOf(ctx, s)
		if err != nil {
			return channel.ShareStanding{}, err
		}
		group = from.group
	}
	there, err := a.transfersOf(ctx, group, s.OutOrderNo)
	if err != nil {
		return channel.ShareStanding{}, err
	}
	standing := channel.ShareStanding{Known: true, ShareID: group}
	var body sharedBody
	for _, r := range s.Receivers {
		t, known := there[r.Account]
		if !known {
			return channel.ShareStanding{}, nil
		}
		standing.Legs = append(standing.Legs, body.add(r.Account, r.Amount, t))
	}
	if len(standing.Legs) == 0 {
		return channel.ShareStanding{}, nil
	}
	standing.Body, err = body.marshal()
	return standing, err
}

// FinishShare implements [channel.Acquirer]. Stripe freezes nothing: what is not shared is the merchant's already.
func (a *account) FinishShare(ctx context.Context, s channel.Share) (channel.ShareStanding, error) {
	if len(s.Receivers) == 0 {
		return channel.ShareStanding{Known: true, ShareID: s.ShareID}, nil
	}
	return a.QueryShare(ctx, s)
}

// sharedBody gathers one object per leg that ended: Stripe's transfer as it came, or our note of a refusal.
type sharedBody struct {
	Object string            `json:"object"`
	Data   []json.RawMessage `json:"data"`
}

func (b *sharedBody) add(account string, amount int64, t foundTransfer) channel.ShareLeg {
	b.Data = append(b.Data, t.raw)
	return channel.ShareLeg{Account: account, Amount: amount, State: channel.LegSucceeded}
}

func (b *sharedBody) refuse(s channel.Share, r channel.ShareReceiver, value int64, from source, err error) channel.ShareLeg {
	refused := refusedTransfer{
		Object: objectRefused, OutOrderNo: s.OutOrderNo, OutTradeNo: s.OutTradeNo, PaymentIntent: from.intent, Destination: r.Account,
		Amount: value, Currency: strings.ToLower(s.Currency), Code: "refused", Message: err.Error(),
	}
	var rejection *channel.Rejection
	if errors.As(err, &rejection) {
		refused.Code, refused.Message = rejection.Code, rejection.Detail
	}
	raw, err := json.Marshal(refused)
	if err != nil {
		panic(err) // texts and a number always marshal
	}
	b.Data = append(b.Data, raw)
	return channel.ShareLeg{Account: r.Account, Amount: r.Amount, State: channel.LegClosed, Reason: refused.Code + ": " + refused.Message}
}

func (b *sharedBody) marshal() ([]byte, error) {
	b.Object = objectList
	return json.Marshal(b)
}
