package stripe

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/strictjson"
)

// Name of the channel.
const Name = "stripe"

// Channel implements [channel.Channel] and [channel.Sender].
type Channel struct{}

// Config of an account.
type Config struct {
	// SecretKey is a secret or restricted key of the API: sk_live_, sk_test_, rk_live_, rk_test_.
	SecretKey string `json:"secret_key"`
	// WebhookSecrets are the signing secrets of the endpoint, whsec_…; two are live while one is rolled.
	WebhookSecrets []string `json:"webhook_secrets"`
	// Livemode must agree with the key.
	Livemode *bool `json:"livemode"`
	// BaseURL is where the API is; empty is Stripe's.
	BaseURL string `json:"base_url,omitempty"`
	// AccountID is the Stripe account, acct_…. Keys since 2019 hold it; for an older one it must be told here: two keys of one
	// account are one account, also after one was rolled.
	AccountID string `json:"account_id,omitempty"`
}

// usage is the answer to a configuration that cannot be read: the error of encoding/json may quote what it read.
const usage = `the configuration of a stripe account is {"secret_key": "sk_…", "webhook_secrets": ["whsec_…"], "livemode": true, "base_url"?: "https://…", "account_id"?: "acct_…"}`

// shortestSecret is the fewest characters of a webhook secret behind its prefix: Stripe makes 32, and a short one can be
// guessed. How long the API's key is, is Stripe's business.
const shortestSecret = 16

// Name implements [channel.Channel].
func (Channel) Name() string { return Name }

// Open implements [channel.Channel]. The account implements [channel.Acquirer] too.
func (Channel) Open(_ string, config []byte) (channel.Account, error) {
	var cfg Config
	if err := strictjson.UnmarshalKnown(config, &cfg); err != nil {
		return nil, errors.New(usage)
	}
	base, err := channel.BaseURL(cfg.BaseURL, "https://api.stripe.com")
	if err != nil {
		return nil, err
	}
	live, err := modeOf(cfg.SecretKey)
	if err != nil {
		return nil, err
	}
	switch {
	case cfg.Livemode == nil:
		return nil, errors.New("livemode must be told: true or false")
	case *cfg.Livemode != live:
		return nil, fmt.Errorf("livemode is %t, but the secret_key is of %s mode", *cfg.Livemode, modeName(live))
	case len(cfg.WebhookSecrets) == 0:
		return nil, errors.New("a stripe account needs at least one of webhook_secrets")
	}
	for i, secret := range cfg.WebhookSecrets {
		if err := checkSecret(secret); err != nil {
			return nil, fmt.Errorf("webhook secret %d of the account: %w", i+1, err)
		}
	}
	id, err := accountOf(cfg)
	if err != nil {
		return nil, err
	}
	return &account{
		id: id, live: live, webhookSecrets: cfg.WebhookSecrets,
		api: &client{base: base, key: cfg.SecretKey, caller: channel.NewCaller()},
		now: time.Now,
	}, nil
}

// modeOf tells live from test by the key's prefix.
func modeOf(key string) (live bool, err error) {
	for prefix, live := range map[string]bool{"sk_live_": true, "rk_live_": true, "sk_test_": false, "rk_test_": false} {
		if rest, ok := strings.CutPrefix(key, prefix); ok {
			if rest == "" || strings.ContainsFunc(rest, notWord) {
				return false, errors.New("the secret_key is not a whole key")
			}
			return live, nil
		}
	}
	return false, errors.New("the secret_key must begin with sk_live_, sk_test_, rk_live_ or rk_test_")
}

func modeName(live bool) string {
	if live {
		return "live"
	}
	return "test"
}

// checkSecret refuses what anybody could sign with.
func checkSecret(secret string) error {
	rest, ok := strings.CutPrefix(secret, "whsec_")
	if !ok {
		return errors.New("it must begin with whsec_")
	}
	if len(rest) < shortestSecret || strings.ContainsFunc(rest, notPrintable) {
		return fmt.Errorf("it must hold at least %d characters behind whsec_, without white space", shortestSecret)
	}
	return nil
}

func notWord(r rune) bool {
	return !(r == '_' || (r >= '0' && r <= '9') || (r >= 'A' && r <= 'Z') || (r >= 'a' && r <= 'z'))
}

func notPrintable(r rune) bool { return r <= ' ' || r > '~' }

var (
	accountID = regexp.MustCompile(`^acct_[0-9A-Za-z]{8,32}$`)
	// Keys since 2019 are sk_test_5 and then the account without its acct_: 16 characters that begin with 1. Stripe does not
	// document it; an older key has 24 characters and does not match.
	accountInKey = regexp.MustCompile(`^[sr]k_(?:live|test)_5(1[0-9A-Za-z]{15})[0-9A-Za-z]{40,}$`)
)

// accountOf finds the Stripe account: told, or read from the key.
func accountOf(cfg Config) (string, error) {
	var inKey string
	if found := accountInKey.FindStringSubmatch(cfg.SecretKey); found != nil {
		inKey = "acct_" + found[1]
	}
	switch {
	case cfg.AccountID == "" && inKey == "":
		return "", errors.New("account_id must be told, acct_…: this secret_key does not hold it (Dashboard, Settings, Account details)")
	case cfg.AccountID == "":
		return inKey, nil
	case !accountID.MatchString(cfg.AccountID):
		return "", errors.New("account_id must be acct_ and letters and digits")
	case inKey != "" && inKey != cfg.AccountID:
		return "", errors.New("the secret_key is of another account than account_id")
	}
	return cfg.AccountID, nil
}

// Accepted implements [channel.Channel].
func (Channel) Accepted() channel.Ack {
	return channel.Ack{Status: http.StatusOK, ContentType: "application/json", Body: []byte("{}")}
}

// Refused implements [channel.Channel].
func (Channel) Refused(status int, code, detail string) channel.Ack {
	return channel.ProblemAck(status, code, detail)
}

type account struct {
	id             string // acct_…
	live           bool
	webhookSecrets []string
	api            *client
	now            func() time.Time
}

var (
	_ channel.Sender   = Channel{}
	_ channel.Acquirer = (*account)(nil)
)

// Identity is the Stripe account and its mode, which survive a rolled key.
func (a *account) Identity() string { return a.id + ":" + modeName(a.live) }
