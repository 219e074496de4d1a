package stripe

import (
	"context"
	"net/url"
	"strconv"

	"github.com/paylatch/paylatch/internal/channel"
)

// ReturnShare implements [channel.Acquirer]: a reversal of the receiver's transfer.
func (a *account) ReturnShare(ctx context.Context, r channel.ShareReturn) (channel.ReturnStanding, error) {
	value, err := toStripe(r.Amount, r.Currency)
	if err != nil {
		return channel.ReturnStanding{}, err
	}
	t, err := a.legOf(ctx, r)
	if err != nil {
		return channel.ReturnStanding{}, err
	}
	if t == nil {
		return channel.ReturnStanding{}, &channel.Rejection{Code: "transfer_missing", Detail: "Stripe has no transfer of this sharing to this receiver"}
	}
	if found, err := a.findReversal(ctx, t.ID, r.OutReturnNo); err != nil {
		return channel.ReturnStanding{}, err
	} else if found != nil {
		if found.Amount != value {
			return channel.ReturnStanding{}, &channel.Rejection{Code: "return_differs", Detail: "Stripe knows this number for another return"}
		}
		return channel.ReturnStanding{State: channel.ReturnSucceeded, ReturnID: found.ID}, nil
	}
	form := url.Values{
		"amount":                       {strconv.FormatInt(value, 10)},
		"metadata[" + metaReturn + "]": {r.OutReturnNo},
	}
	if r.Reason != "" {
		form.Set("metadata["+metaReason+"]", first(r.Reason, longestMeta))
	}
	back, _, err := made[reversal](ctx, a.api, "/v1/transfers/"+url.PathEscape(t.ID)+"/reversals", form, key("return", r.OutReturnNo))
	if err != nil {
		return channel.ReturnStanding{}, err
	}
	return channel.ReturnStanding{State: channel.ReturnSucceeded, ReturnID: back.ID}, nil
}

// QueryReturn implements [channel.Acquirer]. A reversal is done at once or not at all.
func (a *account) QueryReturn(ctx context.Context, r channel.ShareReturn) (channel.ReturnStanding, error) {
	t, err := a.legOf(ctx, r)
	if err != nil {
		return channel.ReturnStanding{}, err
	}
	if t == nil {
		return channel.ReturnStanding{State: channel.ReturnUnknown}, nil
	}
	found, err := a.findReversal(ctx, t.ID, r.OutReturnNo)
	if err != nil {
		return channel.ReturnStanding{}, err
	}
	if found == nil {
		return channel.ReturnStanding{State: channel.ReturnUnknown}, nil
	}
	return channel.ReturnStanding{State: channel.ReturnSucceeded, ReturnID: found.ID}, nil
}

// legOf finds the transfer of one leg; nil where there is none.
func (a *account) legOf(ctx context.Context, r channel.ShareReturn) (*transfer, error) {
	query := url.Values{"destination": {r.Account}}
	if r.ShareID != "" {
		query.Set("transfer_group", r.ShareID)
	}
	found, _, err := pick(ctx, a.api, "/v1/transfers", query, func(t transfer) bool {
		return t.Metadata[metaShare] == r.OutOrderNo && t.Destination.ID == r.Account
	})
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

func (a *account) findReversal(ctx context.Context, transferID, outReturnNo string) (*reversal, error) {
	found, _, err := pick(ctx, a.api, "/v1/transfers/"+url.PathEscape(transferID)+"/reversals", nil, func(r reversal) bool {
		return r.Metadata[metaReturn] == outReturnNo
	})
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}
