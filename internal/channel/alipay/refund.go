package alipay

import (
	"context"
	"errors"
	"fmt"

	"github.com/paylatch/paylatch/internal/channel"
)

const methodRefund = "alipay.trade.refund"

type refundContent struct {
	tradeRef
	RefundAmount string         `json:"refund_amount"`
	OutRequestNo string         `json:"out_request_no"`
	RefundReason string         `json:"refund_reason,omitempty"`
	Royalty      []royaltyParam `json:"refund_royalty_parameters,omitempty"`
}

// Refund implements [channel.Acquirer]. The same out_request_no is refunded once, however often it is called.
//
// The answer to the call is no proof: code 10000 says that the call was taken, fund_change=Y that money moved now, N that it
// did not move now, and refund_fee is the sum of all refunds of the trade. So Alipay is asked for this one refund whatever
// it answered, also where it refused: the refusal may be about a call that came after one that was done.
func (a *account) Refund(ctx context.Context, r channel.Refund) (channel.RefundStanding, error) {
	amount, err := yuan(r.Amount, r.Currency)
	if err != nil {
		return channel.RefundStanding{}, err
	}
	refused, err := a.refund(ctx, refundContent{
		tradeRef: tradeRef{r.TransactionID, r.OutTradeNo}, RefundAmount: amount, OutRequestNo: r.OutRefundNo, RefundReason: limited(r.Reason),
	})
	if err != nil {
		return channel.RefundStanding{}, err
	}
	standing, err := a.QueryRefund(ctx, r)
	switch {
	case err == nil && standing.State == channel.RefundSucceeded:
		return standing, nil
	case refused == nil: // taken; what became of it is asked for again
		return channel.RefundStanding{State: channel.RefundPending, RefundID: standing.RefundID}, nil
	case err != nil:
		return channel.RefundStanding{}, fmt.Errorf("%v; and when asked: %v", refused, err)
	case standing.State == channel.RefundUnknown:
		return channel.RefundStanding{}, refused
	}
	return standing, nil
}

// refund makes the call of a refund or of a return. refused is a definite no to this call.
func (a *account) refund(ctx context.Context, content refundContent) (refused, err error) {
	if content.TradeNo == "" && content.OutTradeNo == "" {
		return nil, errors.New("the payment is not named, by which Alipay knows its refunds")
	}
	reply, err := a.call(ctx, methodRefund, content)
	if err != nil {
		return nil, err
	}
	err = reply.refusal(refundRefused)
	if channel.Definite(err) {
		return err, nil
	}
	return nil, err
}

type refundQuery struct {
	tradeRef
	OutRequestNo string   `json:"out_request_no"`
	QueryOptions []string `json:"query_options"`
}

// QueryRefund implements [channel.Acquirer]. Asked within ten seconds of the call, Alipay may not know of a refund yet that it
// carries out all the same; the call under the same number is harmless then.
func (a *account) QueryRefund(ctx context.Context, r channel.Refund) (channel.RefundStanding, error) {
	answer, body, err := a.queryRefund(ctx, tradeRef{r.TransactionID, r.OutTradeNo}, r.OutRefundNo)
	if err != nil {
		return channel.RefundStanding{}, err
	}
	switch {
	case answer.RefundStatus == refundSuccess:
		fee, err := answer.fee()
		if err != nil {
			return channel.RefundStanding{}, err
		}
		return channel.RefundStanding{State: channel.RefundSucceeded, RefundID: identity(answer.TradeNo, answer.OutRequestNo), Fee: fee, Body: body}, nil
	case answer.RefundStatus == "" && isNothing(string(answer.RefundAmount)):
		return channel.RefundStanding{State: channel.RefundUnknown}, nil
	}
	return channel.RefundStanding{State: channel.RefundPending, Reason: "refund_status " + quoted(answer.RefundStatus) + " " + quoted(answer.ErrorCode)}, nil
}

// queryRefund asks for a refund or a return by our number. An answer about no trade is an empty one.
func (a *account) queryRefund(ctx context.Context, ref tradeRef, number string) (refundAnswer, []byte, error) {
	reply, err := a.call(ctx, methodQueryRefund, refundQuery{ref, number, []string{"gmt_refund_pay"}})
	if err != nil {
		return refundAnswer{}, nil, err
	}
	if noTrade[reply.SubCode] {
		return refundAnswer{}, nil, nil
	}
	if err := reply.noAnswer(); err != nil {
		return refundAnswer{}, nil, err
	}
	var answer refundAnswer
	if err := reply.read(&answer); err != nil {
		return refundAnswer{}, nil, err
	}
	if answer.OutRequestNo != number && (answer.OutRequestNo != "" || answer.RefundStatus != "") {
		return refundAnswer{}, nil, fmt.Errorf("%w: it is about another refund", channel.ErrUnproven)
	}
	return answer, reply.body, nil
}

func limited(text string) string {
	if runes := []rune(text); len(runes) > longestName {
		return string(runes[:longestName])
	}
	return text
}
