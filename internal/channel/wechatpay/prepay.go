package wechatpay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"time"

	"github.com/paylatch/paylatch/internal/channel"
)

// tradeNoPattern is WeChat Pay's rule for out_trade_no, narrower than paylatch's own.
var tradeNoPattern = regexp.MustCompile(`^[0-9A-Za-z_\-|*]{6,32}$`)

// Limits of texts, in bytes.
const (
	maxDescription = 127
	maxReason      = 80
)

// The methods of payment; the empty one is native.
const (
	methodNative = "native"
	methodJSAPI  = "jsapi"
	methodH5     = "h5"
	methodApp    = "app"
)

type prepayRequest struct {
	AppID       string `json:"appid"`
	MchID       string `json:"mchid"`
	Description string `json:"description"`
	OutTradeNo  string `json:"out_trade_no"`
	TimeExpire  string `json:"time_expire,omitempty"`
	NotifyURL   string `json:"notify_url"`
	Amount      struct {
		Total    int64  `json:"total"`
		Currency string `json:"currency"`
	} `json:"amount"`
	Payer      *payer      `json:"payer,omitempty"`
	SceneInfo  *sceneInfo  `json:"scene_info,omitempty"`
	SettleInfo *settleInfo `json:"settle_info,omitempty"`
}

type payer struct {
	OpenID string `json:"openid"`
}

type sceneInfo struct {
	PayerClientIP string  `json:"payer_client_ip"`
	H5Info        *h5Info `json:"h5_info,omitempty"`
}

type h5Info struct {
	Type string `json:"type"`
}

type settleInfo struct {
	ProfitSharing bool `json:"profit_sharing"`
}

type prepaid struct {
	CodeURL  string `json:"code_url"`
	H5URL    string `json:"h5_url"`
	PrepayID string `json:"prepay_id"`
}

// Prepay implements [channel.Acquirer]: POST /v3/pay/transactions/{native,jsapi,h5,app}. The same order again gives fresh
// data for the same payment.
func (a *account) Prepay(ctx context.Context, o channel.Order) (channel.Prepaid, error) {
	method := o.Method
	if method == "" {
		method = methodNative
	}
	request, err := a.prepayRequest(method, o)
	if err != nil {
		return channel.Prepaid{}, err
	}
	var answer prepaid
	_, err = a.post(ctx, "/v3/pay/transactions/"+method, request, "", &answer)
	if err != nil {
		return channel.Prepaid{}, a.judgePrepay(ctx, o, err)
	}
	data, err := a.payData(method, answer, o.ReturnURL)
	return channel.Prepaid{Data: data}, err
}

// judgePrepay asks what stands behind a refusal: OUT_TRADE_NO_USED and INVALID_REQUEST are also told of an order that is
// paid, and such an order must not pass for one that was never announced.
func (a *account) judgePrepay(ctx context.Context, o channel.Order, err error) error {
	if paid(err) {
		return fmt.Errorf("%w: %w", channel.ErrPaid, err)
	}
	rejection, ok := refused(err)
	if !ok {
		return err
	}
	standing, askErr := a.Query(ctx, o)
	switch {
	case askErr != nil:
		return fmt.Errorf("WeChat Pay refused with %s, and does not say whether the order is paid: %w", rejection.Code, askErr)
	case standing.State == channel.OrderPaid:
		return fmt.Errorf("%w: %w", channel.ErrPaid, err)
	}
	return rejection
}

func (a *account) prepayRequest(method string, o channel.Order) (prepayRequest, error) {
	switch {
	case o.Currency != currency:
		return prepayRequest{}, fmt.Errorf("WeChat Pay takes %s, not %s: %w", currency, o.Currency, channel.ErrUnsupported)
	case !tradeNoPattern.MatchString(o.OutTradeNo):
		return prepayRequest{}, &channel.Rejection{Code: "out_trade_no_invalid", Detail: "WeChat Pay takes 6 to 32 letters, digits and _-|* as out_trade_no"}
	case o.Amount < 1:
		return prepayRequest{}, &channel.Rejection{Code: "amount_invalid", Detail: "the least amount is 1 fen"}
	}
	r := prepayRequest{
		AppID: a.appID, MchID: a.mchID, Description: shortened(o.Description, maxDescription), OutTradeNo: o.OutTradeNo, NotifyURL: o.NotifyURL,
	}
	if r.Description == "" {
		r.Description = o.OutTradeNo // there must be one
	}
	r.Amount.Total, r.Amount.Currency = o.Amount, currency
	if !o.ExpiresAt.IsZero() {
		r.TimeExpire = o.ExpiresAt.In(chinaTime).Format(time.RFC3339)
	}
	if o.Shared {
		r.SettleInfo = &settleInfo{true}
	}
	if o.ClientIP != "" {
		r.SceneInfo = &sceneInfo{PayerClientIP: o.ClientIP}
	}
	switch method {
	case methodNative, methodApp:
	case methodJSAPI:
		if o.Payer == "" {
			return r, &channel.Rejection{Code: "payer_missing", Detail: "jsapi needs the payer's openid"}
		}
		r.Payer = &payer{o.Payer}
	case methodH5:
		if o.ClientIP == "" {
			return r, &channel.Rejection{Code: "client_ip_missing", Detail: "h5 needs the payer's IP address"}
		}
		r.SceneInfo.H5Info = &h5Info{"Wap"}
	default:
		return r, fmt.Errorf("the methods of WeChat Pay are native, jsapi, h5 and app, not %s: %w", quoted(method), channel.ErrUnsupported)
	}
	return r, nil
}

// payData is what the payer's device needs: a link, or the parameters that open the payment, signed by the merchant.
// https://pay.weixin.qq.com/doc/v3/merchant/4012365341
func (a *account) payData(method string, p prepaid, returnURL string) (json.RawMessage, error) {
	timestamp, nonce := strconv.FormatInt(time.Now().Unix(), 10), newNonce()
	var data map[string]string
	switch {
	case method == methodNative && p.CodeURL != "":
		data = map[string]string{"code_url": p.CodeURL}
	case method == methodH5 && p.H5URL != "":
		if returnURL != "" {
			p.H5URL += "&redirect_url=" + url.QueryEscape(returnURL)
		}
		data = map[string]string{"h5_url": p.H5URL}
	case method == methodJSAPI && p.PrepayID != "":
		pack := "prepay_id=" + p.PrepayID
		signature, err := a.sign(a.appID, timestamp, nonce, pack)
		if err != nil {
			return nil, fmt.Errorf("sign the payer's parameters: %w", err)
		}
		data = map[string]string{
			"appId": a.appID, "timeStamp": timestamp, "nonceStr": nonce, "package": pack, "signType": "RSA", "paySign": signature,
		}
	case method == methodApp && p.PrepayID != "":
		signature, err := a.sign(a.appID, timestamp, nonce, p.PrepayID)
		if err != nil {
			return nil, fmt.Errorf("sign the payer's parameters: %w", err)
		}
		data = map[string]string{
			"appid": a.appID, "partnerid": a.mchID, "prepayid": p.PrepayID, "package": "Sign=WXPay",
			"noncestr": nonce, "timestamp": timestamp, "sign": signature,
		}
	default:
		return nil, errors.New("WeChat Pay's answer holds nothing to pay with")
	}
	return json.Marshal(data)
}
