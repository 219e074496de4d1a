package alipay

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/paylatch/paylatch/internal/channel"
)

const (
	methodShare = "alipay.trade.order.settle"
	methodBind  = "alipay.trade.royalty.relation.bind"
)

type shareContent struct {
	OutRequestNo string         `json:"out_request_no"`
	TradeNo      string         `json:"trade_no"`
	Royalty      []royaltyParam `json:"royalty_parameters,omitempty"`
	ExtendParams *extendedShare `json:"extend_params,omitempty"`
	RoyaltyMode  string         `json:"royalty_mode"`
}

type extendedShare struct {
	RoyaltyFinish string `json:"royalty_finish"` // "true" gives the merchant what is left, and ends the sharing
}

type royaltyParam struct {
	RoyaltyType  string `json:"royalty_type"`
	TransOut     string `json:"trans_out,omitempty"`
	TransOutType string `json:"trans_out_type,omitempty"`
	TransIn      string `json:"trans_in"`
	TransInType  string `json:"trans_in_type"`
	TransInName  string `json:"trans_in_name,omitempty"`
	Amount       string `json:"amount"`
	Desc         string `json:"desc,omitempty"`
}

// Share implements [channel.Acquirer]. Every call is of the asynchronous mode: Alipay does not take both modes on one payment,
// and the other one allows five receivers. The answer says that the sharing was taken; each leg is asked for.
//
// A receiver must be bound to the merchant before its first share, which can be done through the gateway alone; it is done
// here when Alipay says that one is not.
func (a *account) Share(ctx context.Context, s channel.Share) (channel.ShareStanding, error) {
	content, err := shareOf(s)
	if err != nil {
		return channel.ShareStanding{}, err
	}
	if len(content.Royalty) == 0 {
		return channel.ShareStanding{}, errors.New("a sharing without receivers")
	}
	standing, err := a.settle(ctx, s, content)
	var refused *channel.Rejection
	if errors.As(err, &refused) && refused.Code == "ACQ.ROYALTY_RECEIVER_INVALID" {
		if err := a.bind(ctx, s); err != nil {
			return channel.ShareStanding{}, err
		}
		return a.settle(ctx, s, content)
	}
	return standing, err
}

// FinishShare implements [channel.Acquirer].
func (a *account) FinishShare(ctx context.Context, s channel.Share) (channel.ShareStanding, error) {
	s.Finish, s.Receivers = true, nil
	content, err := shareOf(s)
	if err != nil {
		return channel.ShareStanding{}, err
	}
	standing, err := a.settle(ctx, s, content)
	var refused *channel.Rejection
	if errors.As(err, &refused) && refused.Code == "ACQ.ALREADY_FINISH_ALLOC" {
		return channel.ShareStanding{Known: true, ShareID: s.ShareID}, nil
	}
	return standing, err
}

func shareOf(s channel.Share) (shareContent, error) {
	if s.TransactionID == "" {
		return shareContent{}, errors.New("the payment is not named by its trade_no, by which Alipay knows sharings")
	}
	content := shareContent{OutRequestNo: s.OutOrderNo, TradeNo: s.TransactionID, RoyaltyMode: "async"}
	if s.Finish {
		content.ExtendParams = &extendedShare{RoyaltyFinish: "true"}
	}
	for _, r := range s.Receivers {
		amount, err := yuan(r.Amount, s.Currency)
		if err != nil {
			return shareContent{}, err
		}
		if err := checkReceiver(r.Type); err != nil {
			return shareContent{}, err
		}
		content.Royalty = append(content.Royalty, royaltyParam{
			RoyaltyType: "transfer", TransIn: r.Account, TransInType: byUserID, TransInName: r.Name, Amount: amount, Desc: limited(r.Description),
		})
	}
	return content, nil
}

const byUserID = "userId"

// checkReceiver refuses receivers by login: Alipay takes them, but its answers name receivers by user id, so that what became
// of such a leg could not be told.
func checkReceiver(kind string) error {
	if kind == "" || kind == byUserID {
		return nil
	}
	return &channel.Rejection{Code: "invalid_receiver_type", Detail: "name receivers by userId, 2088…: Alipay's answers name them so"}
}

// settle makes the call. After a refusal Alipay is asked: it may be about a call that came after one that was done.
func (a *account) settle(ctx context.Context, s channel.Share, content shareContent) (channel.ShareStanding, error) {
	reply, err := a.call(ctx, methodShare, content)
	if err != nil {
		return channel.ShareStanding{}, err
	}
	if err := reply.refusal(shareRefused); channel.Definite(err) {
		standing, asked := a.QueryShare(ctx, s)
		switch {
		case asked != nil:
			return channel.ShareStanding{}, fmt.Errorf("%v; and when asked: %v", err, asked)
		case standing.Known:
			return standing, nil
		}
		return channel.ShareStanding{}, err
	} else if err != nil {
		return channel.ShareStanding{}, err
	}
	var answer struct {
		SettleNo string `json:"settle_no"`
	}
	if err := reply.read(&answer); err != nil {
		return channel.ShareStanding{}, err
	}
	standing := channel.ShareStanding{Known: true, ShareID: answer.SettleNo}
	for _, r := range s.Receivers {
		standing.Legs = append(standing.Legs, channel.ShareLeg{Account: r.Account, Amount: r.Amount, State: channel.LegPending})
	}
	return standing, nil
}

// bind allows shares to the receivers. Bound again, they stay bound.
func (a *account) bind(ctx context.Context, s channel.Share) error {
	type entity struct {
		Type    string `json:"type"`
		Account string `json:"account"`
		Name    string `json:"name,omitempty"`
	}
	var content struct {
		OutRequestNo string   `json:"out_request_no"`
		ReceiverList []entity `json:"receiver_list"`
	}
	content.OutRequestNo = s.OutOrderNo
	for _, r := range s.Receivers {
		content.ReceiverList = append(content.ReceiverList, entity{byUserID, r.Account, r.Name})
	}
	reply, err := a.call(ctx, methodBind, content)
	if err != nil {
		return err
	}
	return reply.refusal(bindRefused)
}

// noShare is how Alipay says that it knows no such sharing. Its table has no word of its own for that but the one for wrong
// parameters, which ours are not. Should it not be so, a share under the same number does nothing twice.
var noShare = codes{"ACQ.INVALID_PARAMETER": true, "INVALID_PARAMETER": true}

// QueryShare implements [channel.Acquirer].
func (a *account) QueryShare(ctx context.Context, s channel.Share) (channel.ShareStanding, error) {
	content := struct {
		SettleNo     string `json:"settle_no,omitempty"`
		TradeNo      string `json:"trade_no,omitempty"`
		OutRequestNo string `json:"out_request_no,omitempty"`
	}{s.ShareID, s.TransactionID, s.OutOrderNo}
	reply, err := a.call(ctx, methodQueryShare, content)
	if err != nil {
		return channel.ShareStanding{}, err
	}
	if noShare[reply.SubCode] || strings.HasSuffix(reply.SubCode, "NOT_EXIST") {
		return channel.ShareStanding{}, nil
	}
	if err := reply.noAnswer(); err != nil {
		return channel.ShareStanding{}, err
	}
	var answer shareAnswer
	if err := reply.read(&answer); err != nil {
		return channel.ShareStanding{}, err
	}
	switch {
	case answer.OutRequestNo == "" && len(answer.Details) == 0:
		return channel.ShareStanding{}, nil
	case answer.OutRequestNo != s.OutOrderNo:
		return channel.ShareStanding{}, fmt.Errorf("%w: it is about another sharing", channel.ErrUnproven)
	}
	return standingOf(s, answer, reply.body)
}

// standingOf holds the answer against what was asked for: a leg that Alipay does not tell of yet is pending.
func standingOf(s channel.Share, answer shareAnswer, body []byte) (channel.ShareStanding, error) {
	standing := channel.ShareStanding{Known: true, ShareID: s.ShareID}
	told := map[string]bool{}
	for _, d := range answer.Details {
		if !d.leg() {
			continue
		}
		amount, err := d.Amount.yuan()
		if err != nil {
			return channel.ShareStanding{}, fmt.Errorf("the amount of a leg is %w", err)
		}
		told[d.receiver()] = true
		standing.Legs = append(standing.Legs, channel.ShareLeg{Account: d.receiver(), Amount: amount, State: d.state(), Reason: d.reason()})
		if d.state() != channel.LegPending {
			standing.Body = body
		}
	}
	for _, r := range s.Receivers {
		if !told[r.Account] {
			standing.Legs = append(standing.Legs, channel.ShareLeg{Account: r.Account, Amount: r.Amount, State: channel.LegPending})
		}
	}
	return standing, nil
}

// ReturnShare implements [channel.Acquirer]: a refund of nothing to the payer that takes back what a receiver got
// (opendocs.alipay.com/support/01rg1b). The receiver must be a business and have allowed it. Of a payment by scanned code
// Alipay takes the receivers' parts back by itself, in proportion, when the payer is refunded.
func (a *account) ReturnShare(ctx context.Context, r channel.ShareReturn) (channel.ReturnStanding, error) {
	amount, err := yuan(r.Amount, r.Currency)
	if err != nil {
		return channel.ReturnStanding{}, err
	}
	if err := checkReceiver(r.Type); err != nil {
		return channel.ReturnStanding{}, err
	}
	seller := byUserID
	if strings.Contains(a.sellerID, "@") {
		seller = "loginName"
	}
	refused, err := a.refund(ctx, refundContent{
		tradeRef: tradeRef{r.TransactionID, r.OutTradeNo}, RefundAmount: "0.00", OutRequestNo: r.OutReturnNo, RefundReason: limited(r.Reason),
		Royalty: []royaltyParam{{
			RoyaltyType: "transfer", TransOut: r.Account, TransOutType: byUserID, TransIn: a.sellerID, TransInType: seller,
			Amount: amount, Desc: limited(r.Reason),
		}},
	})
	if err != nil {
		return channel.ReturnStanding{}, err
	}
	standing, err := a.QueryReturn(ctx, r)
	switch {
	case err == nil && (standing.State == channel.ReturnSucceeded || standing.State == channel.ReturnFailed):
		return standing, nil
	case refused == nil:
		return channel.ReturnStanding{State: channel.ReturnPending}, nil
	case err != nil:
		return channel.ReturnStanding{}, fmt.Errorf("%v; and when asked: %v", refused, err)
	case standing.State == channel.ReturnUnknown:
		return channel.ReturnStanding{}, refused
	}
	return standing, nil
}

// QueryReturn implements [channel.Acquirer].
func (a *account) QueryReturn(ctx context.Context, r channel.ShareReturn) (channel.ReturnStanding, error) {
	answer, _, err := a.queryRefund(ctx, tradeRef{r.TransactionID, r.OutTradeNo}, r.OutReturnNo)
	if err != nil {
		return channel.ReturnStanding{}, err
	}
	standing := channel.ReturnStanding{State: channel.ReturnPending, ReturnID: identity(answer.TradeNo, answer.OutRequestNo)}
	for _, royalty := range answer.RefundRoyalty {
		if r.Account != royalty.TransOut && r.Account != royalty.TransOutEmail && r.Account != royalty.OriTransOut {
			continue
		}
		switch royalty.ResultCode {
		case "SUCCESS":
			standing.State = channel.ReturnSucceeded
		case "FAIL", "FAILED":
			standing.State, standing.Reason = channel.ReturnFailed, "Alipay says "+royalty.ResultCode
		default:
			standing.Reason = "result_code " + quoted(royalty.ResultCode)
		}
		return standing, nil
	}
	if answer.RefundStatus == "" && len(answer.RefundRoyalty) == 0 {
		return channel.ReturnStanding{State: channel.ReturnUnknown}, nil
	}
	standing.Reason = "the answer does not tell of the receiver"
	return standing, nil
}
