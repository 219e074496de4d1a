package wechatpay

import (
	"context"
	"fmt"
	"net/url"

	"github.com/paylatch/paylatch/internal/channel"
)

type returnRequest struct {
	OutOrderNo  string `json:"out_order_no"`
	OutReturnNo string `json:"out_return_no"`
	ReturnMchID string `json:"return_mchid"`
	Amount      int64  `json:"amount"`
	Description string `json:"description"`
}

type returned struct {
	OutReturnNo string `json:"out_return_no"`
	ReturnID    string `json:"return_id"`
	ReturnMchID string `json:"return_mchid"`
	Amount      int64  `json:"amount"`
	Result      string `json:"result"`
	FailReason  string `json:"fail_reason"`
}

// ReturnShare implements [channel.Acquirer]: POST /v3/profitsharing/return-orders. Only merchants give back. The same number
// again is the same return.
func (a *account) ReturnShare(ctx context.Context, r channel.ShareReturn) (channel.ReturnStanding, error) {
	switch {
	case r.Currency != currency:
		return channel.ReturnStanding{}, fmt.Errorf("WeChat Pay returns %s, not %s: %w", currency, r.Currency, channel.ErrUnsupported)
	case receiverType(r.Type, r.Account) != merchantReceiver:
		return channel.ReturnStanding{}, fmt.Errorf("WeChat Pay takes nothing back from persons: %w", channel.ErrUnsupported)
	case !numberPattern.MatchString(r.OutReturnNo) || !numberPattern.MatchString(r.OutOrderNo):
		return channel.ReturnStanding{}, &channel.Rejection{Code: "out_return_no_invalid", Detail: "WeChat Pay takes 1 to 64 letters, digits and _-|*@ as out_return_no and out_order_no"}
	}
	request := returnRequest{r.OutOrderNo, r.OutReturnNo, r.Account, r.Amount, shortened(r.Reason, maxReason)}
	if request.Description == "" {
		request.Description = "return " + r.OutReturnNo // there must be one
	}
	var answer returned
	_, err := a.post(ctx, "/v3/profitsharing/return-orders", request, "", &answer)
	if err == nil {
		return returnStanding(r, answer)
	}
	rejection, ok := refused(err)
	if !ok {
		return channel.ReturnStanding{}, err
	}
	// As with refunds: whether an earlier call under this number was carried out is asked.
	answer, err = a.askReturn(ctx, r)
	switch {
	case absent(err):
		return channel.ReturnStanding{}, rejection
	case err != nil:
		return channel.ReturnStanding{}, fmt.Errorf("WeChat Pay refused with %s, and does not say what became of the number: %w", rejection.Code, err)
	case answer.Amount != r.Amount || answer.ReturnMchID != r.Account:
		return channel.ReturnStanding{}, rejection // the number is another return's
	}
	return returnStanding(r, answer)
}

// QueryReturn implements [channel.Acquirer]: GET /v3/profitsharing/return-orders/{out_return_no}.
func (a *account) QueryReturn(ctx context.Context, r channel.ShareReturn) (channel.ReturnStanding, error) {
	if !numberPattern.MatchString(r.OutReturnNo) || !numberPattern.MatchString(r.OutOrderNo) {
		return channel.ReturnStanding{State: channel.ReturnUnknown}, nil
	}
	answer, err := a.askReturn(ctx, r)
	if absent(err) {
		return channel.ReturnStanding{State: channel.ReturnUnknown}, nil
	}
	if err != nil {
		return channel.ReturnStanding{}, asked(err)
	}
	return returnStanding(r, answer)
}

func (a *account) askReturn(ctx context.Context, r channel.ShareReturn) (answer returned, err error) {
	_, err = a.get(ctx, "/v3/profitsharing/return-orders/"+url.PathEscape(r.OutReturnNo), url.Values{"out_order_no": {r.OutOrderNo}}, &answer)
	return answer, err
}

func returnStanding(r channel.ShareReturn, answer returned) (channel.ReturnStanding, error) {
	if answer.OutReturnNo != r.OutReturnNo {
		return channel.ReturnStanding{}, another("return")
	}
	standing := channel.ReturnStanding{ReturnID: answer.ReturnID, Reason: answer.FailReason}
	switch answer.Result {
	case "PROCESSING":
		standing.State = channel.ReturnPending
	case "SUCCESS":
		standing.State = channel.ReturnSucceeded
	case "FAILED":
		standing.State = channel.ReturnFailed
	default:
		return channel.ReturnStanding{}, fmt.Errorf("WeChat Pay's result %s of a return is unknown", quoted(answer.Result))
	}
	return standing, nil
}
