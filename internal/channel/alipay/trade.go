package alipay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/money"
)

// Methods of payment, in [channel.Order].
const (
	byQR   = "qr"   // a code that the payer scans; the default
	byPage = "page" // a page for computers
	byWap  = "wap"  // a page for telephones
)

// orderContent is the content of the calls that announce an order.
type orderContent struct {
	OutTradeNo   string         `json:"out_trade_no"`
	TotalAmount  string         `json:"total_amount"`
	Subject      string         `json:"subject"`
	ProductCode  string         `json:"product_code,omitempty"`
	SellerID     string         `json:"seller_id,omitempty"`
	TimeExpire   string         `json:"time_expire,omitempty"`
	QuitURL      string         `json:"quit_url,omitempty"`
	ExtendParams *extendedOrder `json:"extend_params,omitempty"`
}

type extendedOrder struct {
	RoyaltyFreeze string `json:"royalty_freeze"` // "true" keeps the money from the merchant until the sharing ends
}

// Prepay implements [channel.Acquirer]. A code is asked for; the address of a page is signed here and needs no call, so that
// Alipay learns of the order when the payer opens it.
func (a *account) Prepay(ctx context.Context, o channel.Order) (channel.Prepaid, error) {
	content, err := a.orderContent(o)
	if err != nil {
		return channel.Prepaid{}, err
	}
	switch o.Method {
	case "", byQR:
		return a.precreate(ctx, o, content)
	case byPage:
		content.ProductCode = "FAST_INSTANT_TRADE_PAY"
		return a.page("alipay.trade.page.pay", o, content)
	case byWap:
		content.ProductCode, content.QuitURL = "QUICK_WAP_WAY", o.ReturnURL
		return a.page("alipay.trade.wap.pay", o, content)
	}
	return channel.Prepaid{}, fmt.Errorf("%w: no method %q; there are qr, page and wap", channel.ErrUnsupported, o.Method)
}

func (a *account) precreate(ctx context.Context, o channel.Order, content orderContent) (channel.Prepaid, error) {
	content.ProductCode = a.qrProduct
	if !strings.Contains(a.sellerID, "@") {
		content.SellerID = a.sellerID
	}
	reply, err := a.call(ctx, "alipay.trade.precreate", content, "notify_url", o.NotifyURL)
	if err != nil {
		return channel.Prepaid{}, err
	}
	if err := reply.prepayRefusal(); err != nil {
		return channel.Prepaid{}, err
	}
	var answer struct {
		OutTradeNo string `json:"out_trade_no"`
		QRCode     string `json:"qr_code"`
	}
	if err := reply.read(&answer); err != nil || answer.QRCode == "" || answer.OutTradeNo != o.OutTradeNo {
		return channel.Prepaid{}, errors.New("the answer holds no code for the order")
	}
	return prepaid("qr_code", answer.QRCode)
}

// prepayRefusal: announcing moves no money, so every answer but a failure of Alipay's own is definite. An order that is paid is
// asked about.
func (r reply) prepayRefusal() error {
	if r.SubCode == "ACQ.TRADE_HAS_SUCCESS" {
		return fmt.Errorf("%w: %s", channel.ErrPaid, r)
	}
	if r.Code == "40004" && !strings.Contains(r.SubCode, "SYSTEM_ERROR") {
		return &channel.Rejection{Code: r.code(), Detail: r.String()}
	}
	return r.refusal(nil)
}

func (a *account) page(method string, o channel.Order, content orderContent) (channel.Prepaid, error) {
	params, err := a.request(method, content, "notify_url", o.NotifyURL, "return_url", o.ReturnURL)
	if err != nil {
		return channel.Prepaid{}, err
	}
	address := *a.baseURL
	address.RawQuery = params.Encode()
	return prepaid("pay_url", address.String())
}

func prepaid(name, value string) (channel.Prepaid, error) {
	data, err := json.Marshal(map[string]string{name: value})
	return channel.Prepaid{Data: data}, err
}

const (
	mostAmount  = 100_000_000_00 // Alipay's bound of one order, in minor units
	longestName = 256
)

func (a *account) orderContent(o channel.Order) (orderContent, error) {
	if !isNumber(o.OutTradeNo) {
		return orderContent{}, &channel.Rejection{Code: "invalid_out_trade_no",
			Detail: "Alipay takes numbers of 1 to 64 letters, digits, underscores and hyphens"}
	}
	total, err := yuan(o.Amount, o.Currency)
	if err != nil {
		return orderContent{}, err
	}
	if o.Amount < 1 || o.Amount > mostAmount {
		return orderContent{}, &channel.Rejection{Code: "invalid_amount", Detail: "Alipay takes orders of 0.01 to 100000000.00 CNY"}
	}
	content := orderContent{OutTradeNo: o.OutTradeNo, TotalAmount: total, Subject: subject(o)}
	if !o.ExpiresAt.IsZero() {
		content.TimeExpire = o.ExpiresAt.In(shanghai).Format(timeLayout)
	}
	if o.Shared {
		content.ExtendParams = &extendedOrder{RoyaltyFreeze: "true"}
	}
	return content, nil
}

// isNumber is narrower than our own rule. The tables name letters, digits and underscores; Alipay's own samples have hyphens.
func isNumber(s string) bool {
	const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
	return s != "" && len(s) <= 64 && strings.Trim(s, allowed) == ""
}

// subject is the title that the payer sees. It must not be empty, nor hold the three characters that the tables exclude.
func subject(o channel.Order) string {
	title := strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' || strings.ContainsRune("/=&", r) {
			return ' '
		}
		return r
	}, o.Description))
	if title == "" {
		title = o.OutTradeNo
	}
	if runes := []rune(title); len(runes) > longestName {
		title = string(runes[:longestName])
	}
	return title
}

// yuan writes an amount. Error: [channel.ErrUnsupported] for another currency than Alipay's.
func yuan(amount int64, unit string) (string, error) {
	if unit != currency {
		return "", fmt.Errorf("%w: it takes CNY, not %s", channel.ErrUnsupported, unit)
	}
	return money.Decimal(amount, currency)
}

// tradeRef names a trade by Alipay's number where it is known, and by ours.
type tradeRef struct {
	TradeNo    string `json:"trade_no,omitempty"`
	OutTradeNo string `json:"out_trade_no,omitempty"`
}

// Query implements [channel.Acquirer]. A code that nobody has scanned is no trade yet: UNKNOWN, though it can be paid.
func (a *account) Query(ctx context.Context, o channel.Order) (channel.Standing, error) {
	if !isNumber(o.OutTradeNo) {
		return channel.Standing{State: channel.OrderUnknown}, nil // it was never announced
	}
	reply, err := a.call(ctx, methodQuery, tradeRef{OutTradeNo: o.OutTradeNo})
	if err != nil {
		return channel.Standing{}, err
	}
	if noTrade[reply.SubCode] {
		return channel.Standing{State: channel.OrderUnknown}, nil
	}
	if err := reply.noAnswer(); err != nil {
		return channel.Standing{}, err
	}
	var answer tradeAnswer
	if err := reply.read(&answer); err != nil {
		return channel.Standing{}, err
	}
	if answer.OutTradeNo != o.OutTradeNo {
		return channel.Standing{}, fmt.Errorf("%w: it is about another order", channel.ErrUnproven)
	}
	switch answer.TradeStatus {
	case statusWaiting:
		return channel.Standing{State: channel.OrderOpen}, nil
	case statusSuccess, statusFinished:
		return channel.Standing{State: channel.OrderPaid, Body: reply.body}, nil
	case statusClosed:
		return channel.Standing{State: channel.OrderClosed, Body: reply.body}, nil
	}
	return channel.Standing{}, errors.New("the trade has a status that is not known: " + quoted(answer.TradeStatus))
}

// Close implements [channel.Acquirer]. What Alipay does not know as a trade cannot be closed there: a code that nobody has
// scanned stays payable until it expires, by time_expire or after two hours, and such a payment comes in as a late one.
func (a *account) Close(ctx context.Context, o channel.Order) error {
	if !isNumber(o.OutTradeNo) {
		return nil // it was never announced
	}
	reply, err := a.call(ctx, "alipay.trade.close", tradeRef{OutTradeNo: o.OutTradeNo})
	if err != nil {
		return err
	}
	switch {
	case noTrade[reply.SubCode]:
		return nil
	case !notWaiting[reply.SubCode]:
		return reply.refusal(codes{"ACQ.INVALID_PARAMETER": true})
	}
	standing, err := a.Query(ctx, o)
	switch {
	case err != nil:
		return err
	case standing.State == channel.OrderPaid:
		return channel.ErrPaid
	case standing.State == channel.OrderClosed:
		return nil
	}
	return errors.New("the order can be neither closed nor said to be paid: " + reply.String())
}
