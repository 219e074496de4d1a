package wechatpay

import (
	"context"
	"fmt"
	"net/url"

	"github.com/paylatch/paylatch/internal/channel"
)

// Query implements [channel.Acquirer]: GET /v3/pay/transactions/out-trade-no/{out_trade_no}. A number that WeChat Pay takes
// of no order is unknown to it.
func (a *account) Query(ctx context.Context, o channel.Order) (channel.Standing, error) {
	if !tradeNoPattern.MatchString(o.OutTradeNo) {
		return channel.Standing{State: channel.OrderUnknown}, nil
	}
	var t transaction
	body, err := a.get(ctx, "/v3/pay/transactions/out-trade-no/"+url.PathEscape(o.OutTradeNo), url.Values{"mchid": {a.mchID}}, &t)
	if absent(err) {
		return channel.Standing{State: channel.OrderUnknown}, nil
	}
	if err != nil {
		return channel.Standing{}, asked(err)
	}
	if t.OutTradeNo != o.OutTradeNo || t.MchID != a.mchID {
		return channel.Standing{}, another("order")
	}
	switch t.TradeState {
	case tradeSuccess, tradeRefund:
		return channel.Standing{State: channel.OrderPaid, Body: body}, nil
	case "NOTPAY", "USERPAYING", "ACCEPT", "PAYERROR":
		// PAYERROR is an attempt that failed; whoever wants no other closes the order.
		return channel.Standing{State: channel.OrderOpen}, nil
	case "CLOSED", "REVOKED":
		return channel.Standing{State: channel.OrderClosed}, nil
	default:
		return channel.Standing{}, fmt.Errorf("WeChat Pay's trade_state %s is unknown", quoted(t.TradeState))
	}
}

// asked keeps a query's error from passing for a statement about the matter: whatever a query was refused for, it is unknown
// what became of what it asked for.
func asked(err error) error { return fmt.Errorf("ask WeChat Pay: %w", err) }

// Close implements [channel.Acquirer]: POST …/{out_trade_no}/close.
func (a *account) Close(ctx context.Context, o channel.Order) error {
	if !tradeNoPattern.MatchString(o.OutTradeNo) {
		return nil // no order can have it
	}
	in := struct {
		MchID string `json:"mchid"`
	}{a.mchID}
	_, err := a.post(ctx, "/v3/pay/transactions/out-trade-no/"+url.PathEscape(o.OutTradeNo)+"/close", in, "", nil)
	switch {
	case err == nil, closed(err), absent(err):
		return nil
	case paid(err):
		return channel.ErrPaid
	}
	if _, ok := refused(err); !ok {
		return err
	}
	// INVALID_REQUEST and TRADE_ERROR may mean that it is paid, or closed already.
	standing, askErr := a.Query(ctx, o)
	switch {
	case askErr != nil:
		return askErr
	case standing.State == channel.OrderPaid:
		return channel.ErrPaid
	case standing.State == channel.OrderOpen:
		return err
	}
	return nil
}
