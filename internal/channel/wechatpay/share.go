package wechatpay

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1" //nolint:gosec // the protocol's OAEP is over SHA-1
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/paylatch/paylatch/internal/channel"
)

// Types of receivers.
const (
	merchantReceiver = "MERCHANT_ID"
	personReceiver   = "PERSONAL_OPENID"
)

// maxReceivers of one sharing.
const maxReceivers = 50

type shareRequest struct {
	AppID           string         `json:"appid"`
	TransactionID   string         `json:"transaction_id"`
	OutOrderNo      string         `json:"out_order_no"`
	Receivers       []shareReceipt `json:"receivers"`
	UnfreezeUnsplit bool           `json:"unfreeze_unsplit"`
}

type shareReceipt struct {
	Type        string `json:"type"`
	Account     string `json:"account"`
	Name        string `json:"name,omitempty"` // encrypted
	Amount      int64  `json:"amount"`
	Description string `json:"description"`
}

// Share implements [channel.Acquirer]: POST /v3/profitsharing/orders. The receivers must have been added in the merchant
// platform or over its API. The same number again is the same sharing.
func (a *account) Share(ctx context.Context, s channel.Share) (channel.ShareStanding, error) {
	request, sealedFor, err := a.shareRequest(s)
	if err != nil {
		return channel.ShareStanding{}, err
	}
	var answer sharing
	body, err := a.post(ctx, "/v3/profitsharing/orders", request, sealedFor, &answer)
	if err == nil {
		return a.shareStanding(s, answer, body)
	}
	return a.judgeShare(ctx, s, err, func(answer sharing) bool { return a.sameShare(s, answer) })
}

// FinishShare implements [channel.Acquirer]: POST /v3/profitsharing/orders/unfreeze.
func (a *account) FinishShare(ctx context.Context, s channel.Share) (channel.ShareStanding, error) {
	if err := checkShare(s); err != nil {
		return channel.ShareStanding{}, err
	}
	request := struct {
		TransactionID string `json:"transaction_id"`
		OutOrderNo    string `json:"out_order_no"`
		Description   string `json:"description"`
	}{s.TransactionID, s.OutOrderNo, "release what is not shared"}
	var answer sharing
	body, err := a.post(ctx, "/v3/profitsharing/orders/unfreeze", request, "", &answer)
	if err == nil {
		return a.shareStanding(s, answer, body)
	}
	return a.judgeShare(ctx, s, err, func(sharing) bool { return true })
}

// QueryShare implements [channel.Acquirer]: GET /v3/profitsharing/orders/{out_order_no}.
func (a *account) QueryShare(ctx context.Context, s channel.Share) (channel.ShareStanding, error) {
	if !numberPattern.MatchString(s.OutOrderNo) {
		return channel.ShareStanding{}, nil // no sharing can have it
	}
	if s.TransactionID == "" {
		return channel.ShareStanding{}, errors.New("ask WeChat Pay about a sharing: it wants the payment's transaction_id")
	}
	answer, body, err := a.askShare(ctx, s)
	if absent(err) {
		return channel.ShareStanding{}, nil
	}
	if err != nil {
		return channel.ShareStanding{}, asked(err)
	}
	return a.shareStanding(s, answer, body)
}

func (a *account) askShare(ctx context.Context, s channel.Share) (answer sharing, body []byte, err error) {
	body, err = a.get(ctx, "/v3/profitsharing/orders/"+url.PathEscape(s.OutOrderNo), url.Values{"transaction_id": {s.TransactionID}}, &answer)
	return answer, body, err
}

// judgeShare asks whether an earlier call under this number was carried out, before a refusal is passed on.
func (a *account) judgeShare(ctx context.Context, s channel.Share, err error, same func(sharing) bool) (channel.ShareStanding, error) {
	rejection, ok := refused(err)
	if !ok {
		return channel.ShareStanding{}, err
	}
	answer, body, err := a.askShare(ctx, s)
	switch {
	case absent(err):
		return channel.ShareStanding{}, rejection
	case err != nil:
		return channel.ShareStanding{}, fmt.Errorf("WeChat Pay refused with %s, and does not say what became of the number: %w", rejection.Code, err)
	case !same(answer):
		return channel.ShareStanding{}, rejection // the number is another sharing's
	}
	return a.shareStanding(s, answer, body)
}

func checkShare(s channel.Share) error {
	switch {
	case !numberPattern.MatchString(s.OutOrderNo):
		return &channel.Rejection{Code: "out_order_no_invalid", Detail: "WeChat Pay takes 1 to 64 letters, digits and _-|*@ as out_order_no"}
	case s.TransactionID == "":
		return &channel.Rejection{Code: "transaction_missing", Detail: "WeChat Pay shares payments by their transaction_id"}
	}
	return nil
}

func (a *account) shareRequest(s channel.Share) (r shareRequest, sealedFor string, err error) {
	switch {
	case s.Currency != currency:
		return r, "", fmt.Errorf("WeChat Pay shares %s, not %s: %w", currency, s.Currency, channel.ErrUnsupported)
	case len(s.Receivers) == 0 || len(s.Receivers) > maxReceivers:
		return r, "", &channel.Rejection{Code: "receivers_invalid", Detail: fmt.Sprintf("WeChat Pay takes 1 to %d receivers", maxReceivers)}
	}
	if err := checkShare(s); err != nil {
		return r, "", err
	}
	r = shareRequest{AppID: a.appID, TransactionID: s.TransactionID, OutOrderNo: s.OutOrderNo, UnfreezeUnsplit: s.Finish}
	for _, to := range s.Receivers {
		receipt := shareReceipt{Type: receiverType(to.Type, to.Account), Account: to.Account, Amount: to.Amount, Description: shortened(to.Description, maxReason)}
		if receipt.Type == merchantReceiver && to.Account == a.mchID {
			return r, "", &channel.Rejection{Code: "receiver_is_merchant", Detail: "what is not shared is the merchant's by itself"}
		}
		if receipt.Description == "" {
			receipt.Description = "share of " + s.OutOrderNo // there must be one
		}
		if to.Name != "" {
			key, ok := a.keys.encryption(time.Now())
			if !ok {
				return r, "", errors.New("no key of WeChat Pay's is valid to encrypt a receiver's name with")
			}
			if receipt.Name, err = seal(key.key, to.Name); err != nil {
				return r, "", fmt.Errorf("encrypt a receiver's name: %w", err)
			}
			sealedFor = key.id
		}
		r.Receivers = append(r.Receivers, receipt)
	}
	return r, sealedFor, nil
}

// receiverType tells merchant numbers from openids where the type is not given: only the former are digits alone.
func receiverType(given, account string) string {
	switch {
	case given != "":
		return given
	case strings.Trim(account, "0123456789") == "":
		return merchantReceiver
	default:
		return personReceiver
	}
}

// seal encrypts a secret for WeChat Pay: RSAES-OAEP. https://pay.weixin.qq.com/doc/v3/merchant/4013053264
func seal(key *rsa.PublicKey, secret string) (string, error) {
	sealed, err := rsa.EncryptOAEP(sha1.New(), rand.Reader, key, []byte(secret), nil)
	return base64.StdEncoding.EncodeToString(sealed), err
}

// sameShare tells whether WeChat Pay's sharing has the receivers that are asked for.
func (a *account) sameShare(s channel.Share, answer sharing) bool {
	var want, got []string
	for _, r := range s.Receivers {
		want = append(want, fmt.Sprintf("%q %d", r.Account, r.Amount))
	}
	for _, r := range answer.Receivers {
		if !r.own(a) {
			got = append(got, fmt.Sprintf("%q %d", r.Account, r.Amount))
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	return slices.Equal(want, got)
}

// shareStanding tells the receivers' legs. The merchant's own, by which WeChat Pay releases what is not shared, is told where
// it is the only one: the standing of a release.
func (a *account) shareStanding(s channel.Share, answer sharing, body []byte) (channel.ShareStanding, error) {
	if answer.OutOrderNo != s.OutOrderNo || answer.TransactionID != s.TransactionID || answer.OrderID == "" {
		return channel.ShareStanding{}, another("sharing")
	}
	standing := channel.ShareStanding{Known: true, ShareID: answer.OrderID}
	release := !slices.ContainsFunc(answer.Receivers, func(r receiver) bool { return !r.own(a) })
	for _, r := range answer.Receivers {
		if r.own(a) && !release {
			continue
		}
		leg := channel.ShareLeg{Account: r.Account, Amount: r.Amount, Reason: r.FailReason}
		switch r.Result {
		case legPending:
			leg.State = channel.LegPending
		case legSuccess:
			leg.State = channel.LegSucceeded
		case legClosed:
			leg.State = channel.LegClosed
		default:
			return channel.ShareStanding{}, fmt.Errorf("WeChat Pay's result %s of a receiver is unknown", quoted(r.Result))
		}
		if leg.State != channel.LegPending && !release {
			standing.Body = body
		}
		standing.Legs = append(standing.Legs, leg)
	}
	return standing, nil
}
