package bench

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/channel/alipay"
	"github.com/paylatch/paylatch/internal/channel/registry"
	simulated "github.com/paylatch/paylatch/internal/channel/simulator/wechatpay"
	"github.com/paylatch/paylatch/internal/channel/standard"
	"github.com/paylatch/paylatch/internal/channel/stripe"
	"github.com/paylatch/paylatch/internal/channel/wechatpay"
	"github.com/paylatch/paylatch/internal/sealed"
)

// Reporter makes the callbacks of one channel, under keys of its own.
type Reporter struct {
	channel.Channel
	// Config is the account's configuration.
	Config []byte
	// Compose makes what reports a payment.
	Compose func(channel.Sample) ([]byte, error)
	// Sign makes of it the headers and the body that are sent at a time.
	Sign func(message []byte, at time.Time) (http.Header, []byte, error)
}

// reporters make one with new keys, by the channel's name.
var reporters = map[string]func() (Reporter, error){
	standard.Name: func() (Reporter, error) {
		return shared(standard.Name, standard.Config{Secrets: []string{"whsec_" + sealed.NewKey()}})
	},
	stripe.Name: func() (Reporter, error) {
		live := false
		return shared(stripe.Name, stripe.Config{
			AccountID: "acct_1" + letters(sealed.NewKey())[:15], SecretKey: "sk_test_" + letters(sealed.NewKey()), Livemode: &live,
			WebhookSecrets: []string{"whsec_" + letters(sealed.NewKey())},
		})
	},
	wechatpay.Name: newWeChatPay,
	alipay.Name:    newAlipay,
}

// NewReporter makes the reporter of a channel.
func NewReporter(name string) (Reporter, error) {
	if open, known := reporters[name]; known {
		return open()
	}
	return Reporter{}, fmt.Errorf("no callbacks of channel %q can be made: there are %s", name, strings.Join(Channels(), ", "))
}

// Channels lists whose callbacks can be made.
func Channels() (names []string) {
	for name := range reporters {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// shared is the reporter of a channel whose key is shared between both sides.
func shared(name string, config any) (Reporter, error) {
	sender := registry.All()[name].(channel.Sender)
	text, err := json.Marshal(config)
	if err != nil {
		return Reporter{}, err
	}
	return Reporter{sender, text, sender.Compose, func(body []byte, at time.Time) (http.Header, []byte, error) {
		header, err := sender.Sign(text, body, at)
		return header, body, err
	}}, nil
}

// letters leaves of a random text what a key of Stripe may hold.
func letters(random string) string {
	return strings.NewReplacer("+", "a", "/", "b", "=", "").Replace(random)
}

// newWeChatPay lets the simulator encrypt and sign.
func newWeChatPay() (Reporter, error) {
	acquirer := simulated.New()
	config := acquirer.Config("http://localhost") // nothing is asked
	var merchant struct {
		App string `json:"app_id"`
		Mch string `json:"mch_id"`
	}
	if err := json.Unmarshal(config, &merchant); err != nil {
		return Reporter{}, err
	}
	compose := func(s channel.Sample) ([]byte, error) {
		return acquirer.Notice("TRANSACTION.SUCCESS", "transaction", map[string]any{
			"appid": merchant.App, "mchid": merchant.Mch, "out_trade_no": s.OutTradeNo, "transaction_id": s.TransactionID, "trade_type": "NATIVE",
			"trade_state": "SUCCESS", "trade_state_desc": "支付成功", "bank_type": "OTHERS", "attach": "", "success_time": s.OccurredAt.Format(time.RFC3339),
			"payer":  map[string]string{"openid": "oUpF8uMuAJO_M2pxb1Q9zNjWeS6o"},
			"amount": map[string]any{"total": s.Amount, "payer_total": s.Amount, "currency": s.Currency, "payer_currency": s.Currency},
		}), nil
	}
	return Reporter{registry.All()[wechatpay.Name], config, compose, func(body []byte, at time.Time) (http.Header, []byte, error) {
		return acquirer.Sign("", body, at), body, nil
	}}, nil
}
