package wechatpay

import (
	"context"
	"fmt"
	"net/url"
	"regexp"

	"github.com/paylatch/paylatch/internal/channel"
)

// numberPattern is WeChat Pay's rule for out_refund_no, out_order_no and out_return_no.
var numberPattern = regexp.MustCompile(`^[0-9A-Za-z_\-|*@]{1,64}$`)

type refundRequest struct {
	TransactionID string `json:"transaction_id,omitempty"`
	OutTradeNo    string `json:"out_trade_no,omitempty"`
	OutRefundNo   string `json:"out_refund_no"`
	Reason        string `json:"reason,omitempty"`
	NotifyURL     string `json:"notify_url,omitempty"`
	Amount        struct {
		Refund   int64  `json:"refund"`
		Total    int64  `json:"total"`
		Currency string `json:"currency"`
	} `json:"amount"`
}

// Refund implements [channel.Acquirer]: POST /v3/refund/domestic/refunds. The same number again gives the same refund.
func (a *account) Refund(ctx context.Context, r channel.Refund) (channel.RefundStanding, error) {
	switch {
	case r.Currency != currency:
		return channel.RefundStanding{}, fmt.Errorf("WeChat Pay refunds %s, not %s: %w", currency, r.Currency, channel.ErrUnsupported)
	case !numberPattern.MatchString(r.OutRefundNo):
		return channel.RefundStanding{}, &channel.Rejection{Code: "out_refund_no_invalid", Detail: "WeChat Pay takes 1 to 64 letters, digits and _-|*@ as out_refund_no"}
	}
	request := refundRequest{
		TransactionID: r.TransactionID, OutRefundNo: r.OutRefundNo, Reason: shortened(r.Reason, maxReason), NotifyURL: r.NotifyURL,
	}
	if r.TransactionID == "" {
		request.OutTradeNo = r.OutTradeNo
	}
	request.Amount.Refund, request.Amount.Total, request.Amount.Currency = r.Amount, r.Total, currency
	var answer refund
	body, err := a.post(ctx, "/v3/refund/domestic/refunds", request, "", &answer)
	if err == nil {
		return a.refundStanding(r, answer, body)
	}
	rejection, ok := refused(err)
	if !ok {
		return channel.RefundStanding{}, err
	}
	// A refusal speaks of this call. Whether an earlier one under this number was carried out is asked.
	answer, body, err = a.askRefund(ctx, r.OutRefundNo)
	switch {
	case absent(err):
		return channel.RefundStanding{}, rejection
	case err != nil:
		return channel.RefundStanding{}, fmt.Errorf("WeChat Pay refused with %s, and does not say what became of the number: %w", rejection.Code, err)
	case !sameRefund(r, answer):
		return channel.RefundStanding{}, rejection // the number is another refund's
	}
	return a.refundStanding(r, answer, body)
}

// QueryRefund implements [channel.Acquirer]: GET /v3/refund/domestic/refunds/{out_refund_no}.
func (a *account) QueryRefund(ctx context.Context, r channel.Refund) (channel.RefundStanding, error) {
	if !numberPattern.MatchString(r.OutRefundNo) {
		return channel.RefundStanding{State: channel.RefundUnknown}, nil
	}
	answer, body, err := a.askRefund(ctx, r.OutRefundNo)
	if absent(err) {
		return channel.RefundStanding{State: channel.RefundUnknown}, nil
	}
	if err != nil {
		return channel.RefundStanding{}, asked(err)
	}
	return a.refundStanding(r, answer, body)
}

func (a *account) askRefund(ctx context.Context, outRefundNo string) (answer refund, body []byte, err error) {
	body, err = a.get(ctx, "/v3/refund/domestic/refunds/"+url.PathEscape(outRefundNo), nil, &answer)
	return answer, body, err
}

// sameRefund tells whether WeChat Pay's refund is the one that is asked for.
func sameRefund(r channel.Refund, answer refund) bool {
	return answer.Amount.Refund == r.Amount &&
		(r.TransactionID == "" || answer.TransactionID == r.TransactionID) &&
		(r.OutTradeNo == "" || answer.OutTradeNo == r.OutTradeNo)
}

func (a *account) refundStanding(r channel.Refund, answer refund, body []byte) (channel.RefundStanding, error) {
	if answer.OutRefundNo != r.OutRefundNo || answer.RefundID == "" {
		return channel.RefundStanding{}, another("refund")
	}
	standing := channel.RefundStanding{RefundID: answer.RefundID}
	switch answer.Status {
	case refundSuccess:
		standing.State, standing.Body = channel.RefundSucceeded, body
	case refundClosed:
		standing.State, standing.Body = channel.RefundRefused, body
		standing.Reason = "WeChat Pay closed the refund"
	case refundProcessing:
		standing.State = channel.RefundPending
	case refundAbnormal:
		standing.State = channel.RefundStuck
		standing.Reason = "the payer's account takes no money: the refund is to be handled in the merchant platform"
	default:
		return channel.RefundStanding{}, fmt.Errorf("WeChat Pay's refund status %s is unknown", quoted(answer.Status))
	}
	return standing, nil
}
