package stripe

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/paylatch/paylatch/internal/channel"
)

// heard are the events that an endpoint should send at least; the others tell the same facts again, or sooner.
var heard = []string{
	"payment_intent.succeeded", "payment_intent.canceled", "checkout.session.completed", "checkout.session.async_payment_succeeded",
	"refund.updated", "refund.failed",
}

// Check implements [channel.Acquirer]: it asks for the account, the balance and the webhook endpoints.
func (a *account) Check(ctx context.Context) []channel.Finding {
	findings := []channel.Finding{a.checkAccount(ctx)}
	if status := findings[0]; !status.OK && status.What == whatWay {
		return findings // nobody answers: there is nothing more to find
	}
	return append(findings, a.checkBalance(ctx), a.checkEndpoints(ctx))
}

// What a check looks at.
const (
	whatWay       = "the way to Stripe"
	whatKey       = "secret_key"
	whatAccount   = "the account"
	whatBalance   = "the balance"
	whatEndpoints = "webhook endpoints"
)

func (a *account) checkAccount(ctx context.Context) channel.Finding {
	type stripeAccount struct {
		ID             string `json:"id"`
		ChargesEnabled bool   `json:"charges_enabled"`
	}
	found, _, err := read[stripeAccount](ctx, a.api, "/v1/account", nil)
	switch {
	case status(err) == http.StatusUnauthorized:
		return channel.Finding{What: whatKey, Detail: "Stripe does not know this secret_key: it was mistyped, rolled or revoked. Take the key from the Dashboard, Developers, API keys"}
	case status(err) == http.StatusForbidden:
		return channel.Finding{OK: true, What: whatKey, Detail: "Stripe knows this restricted key; it may not read the account, so whose it is was not checked"}
	case err != nil:
		return a.unreachable(err, whatAccount)
	case found.ID != a.id:
		return channel.Finding{What: whatAccount, Detail: fmt.Sprintf("the secret_key is of %s, the configuration is of %s", quoted(found.ID), quoted(a.id))}
	case !found.ChargesEnabled:
		return channel.Finding{What: whatAccount, Detail: fmt.Sprintf("%s may not take payments yet: the Dashboard says what Stripe still needs", quoted(found.ID))}
	}
	return channel.Finding{OK: true, What: whatAccount, Detail: quoted(found.ID) + " takes payments"}
}

func (a *account) checkBalance(ctx context.Context) channel.Finding {
	found, _, err := read[struct {
		Livemode *bool `json:"livemode"`
	}](ctx, a.api, "/v1/balance", nil)
	switch {
	case status(err) == http.StatusForbidden:
		return channel.Finding{What: whatBalance, Detail: "the restricted key may not read the balance: give it Balance, read, or there will be no bills"}
	case err != nil:
		return a.unreachable(err, whatBalance)
	case found.Livemode == nil || *found.Livemode != a.live:
		return channel.Finding{What: whatBalance, Detail: "Stripe answers for another mode than livemode says"}
	}
	return channel.Finding{OK: true, What: whatBalance, Detail: "can be read, in " + modeName(a.live) + " mode"}
}

func (a *account) checkEndpoints(ctx context.Context) channel.Finding {
	type endpoint struct {
		Status        string   `json:"status"`
		EnabledEvents []string `json:"enabled_events"`
	}
	sent := map[string]bool{}
	enabled := 0
	err := a.api.each(ctx, "/v1/webhook_endpoints", url.Values{}, func(_ string, raw json.RawMessage) (bool, error) {
		var e endpoint
		if err := json.Unmarshal(raw, &e); err != nil {
			return false, err
		}
		if e.Status == "enabled" {
			enabled++
			for _, kind := range e.EnabledEvents {
				sent[kind] = true
			}
		}
		return false, nil
	})
	missing := slices.DeleteFunc(slices.Clone(heard), func(kind string) bool { return sent[kind] || sent["*"] })
	switch {
	case status(err) == http.StatusForbidden:
		return channel.Finding{OK: true, What: whatEndpoints, Detail: "the restricted key may not read them: see in the Dashboard that the endpoint of this account is enabled"}
	case err != nil:
		return a.unreachable(err, whatEndpoints)
	case enabled == 0:
		return channel.Finding{What: whatEndpoints, Detail: "Stripe has no enabled endpoint in this mode: make one for the callback address of this account"}
	case len(missing) > 0:
		return channel.Finding{What: whatEndpoints, Detail: fmt.Sprintf("no enabled endpoint sends %v", missing)}
	}
	return channel.Finding{OK: true, What: whatEndpoints, Detail: fmt.Sprintf("%d enabled, and they send what is needed", enabled)}
}

// unreachable tells a way that does not lead to Stripe from an answer that is no use.
func (a *account) unreachable(err error, what string) channel.Finding {
	if code := status(err); code != 0 {
		return channel.Finding{What: what, Detail: err.Error()}
	}
	return channel.Finding{What: whatWay, Detail: fmt.Sprintf("%s gives no answer that can be read: %v. Look at base_url, the proxy and the firewall", a.api.base.Host, err)}
}
