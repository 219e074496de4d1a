package alipay

import (
	"context"
	"errors"
	"fmt"

	"github.com/paylatch/paylatch/internal/channel"
)

// nobodysOrder is asked for by a check: it changes nothing, and the right answer is that there is no such trade.
const nobodysOrder = "paylatch_check_0"

// Check implements [channel.Acquirer].
func (a *account) Check(ctx context.Context) []channel.Finding {
	findings := []channel.Finding{
		{OK: true, What: "keys", Detail: fmt.Sprintf("app_private_key has %d bits, alipay_public_key %d, and they are not one pair", a.key.N.BitLen(), a.alipayKey.N.BitLen())},
		a.checkPair(),
	}
	reply, err := a.call(ctx, methodQuery, tradeRef{OutTradeNo: nobodysOrder})
	return append(findings, a.checkReply(reply, err)...)
}

// checkPair signs and verifies with the app's own pair.
func (a *account) checkPair() channel.Finding {
	const what = "app_private_key signs"
	text := []byte("app_id=" + a.appID)
	signature, err := a.sign(text)
	decoded, ok := decodeSignature(signature)
	own := account{alipayKey: &a.key.PublicKey}
	if err != nil || !ok || !own.signed(hashes[a.signType], text, decoded) {
		return channel.Finding{What: what, Detail: "what the key signs does not hold under its own public half: the key is damaged"}
	}
	return channel.Finding{OK: true, What: what, Detail: a.signType + ", and the signature holds under the key's public half"}
}

func (a *account) checkReply(r reply, err error) []channel.Finding {
	const reached, accepted, proven = "the gateway is reached", "Alipay accepts the app's signature", "Alipay's signature holds"
	host := a.baseURL.Host
	var doubtful *unproven
	switch {
	case err == nil:
	case errors.As(err, &doubtful) && doubtful.says.Code != "" && advice(doubtful.says) != "":
		// Alipay does not sign what it says to an app that it does not know.
		return []channel.Finding{{OK: true, What: reached, Detail: host}, {What: accepted, Detail: advice(doubtful.says)}}
	case errors.Is(err, channel.ErrUnproven):
		return []channel.Finding{{OK: true, What: reached, Detail: host}, {What: proven, Detail: "the reply does not hold under alipay_public_key: " +
			"take the key that the open platform shows as Alipay's (支付宝公钥) for this app and this environment, sandbox or not. " + err.Error()}}
	default:
		return []channel.Finding{{What: reached, Detail: "no answer came from " + host + ": look at base_url, at the way out and at the clock. " + err.Error()}}
	}
	findings := []channel.Finding{{OK: true, What: reached, Detail: host}, {OK: true, What: proven, Detail: "the reply holds under alipay_public_key"}}
	if r.Code == codeSuccess || noTrade[r.SubCode] {
		return append(findings, channel.Finding{OK: true, What: accepted, Detail: "a question about an order that does not exist was answered"})
	}
	if text := advice(r.result); text != "" {
		return append(findings, channel.Finding{What: accepted, Detail: text})
	}
	return append(findings, channel.Finding{What: accepted, Detail: "Alipay says " + r.String()})
}

// advice says what to do about the faults of a configuration; empty for what is none.
func advice(r result) string {
	if words, known := faults[r.SubCode]; known {
		return words + " (" + r.SubCode + ")"
	}
	return ""
}

const (
	noKeyYet     = "the app has no public key yet: upload the public half of app_private_key on the open platform"
	certificates = "the app is set up with certificates: set it to keys (密钥)"
	notAllowed   = "the app may not ask for payments: add the product to it, and see that it is signed and the app online"
)

var faults = map[string]string{
	"isv.invalid-signature": "the signature does not hold at Alipay: upload the public half of app_private_key to this app, " +
		"and see that sign_type and the environment, sandbox or not, are the app's",
	"isv.invalid-app-id":                "there is no such app in this environment: look at app_id, and at base_url for the sandbox or not",
	"isv.missing-signature-config":      noKeyYet,
	"isv.missing-signature-key":         noKeyYet,
	"isv.invalid-signature-type":        "Alipay does not take this sign_type from the app: use RSA2",
	"isv.invalid-timestamp":             "Alipay does not take the time of the call: look at this machine's clock",
	"isv.missing-app-cert-sn":           certificates,
	"isv.app-cert-expired":              certificates,
	"isv.insufficient-isv-permissions":  notAllowed,
	"isv.insufficient-user-permissions": notAllowed,
	"ACQ.ACCESS_FORBIDDEN":              notAllowed,
	"ACQ.PARTNER_ERROR":                 "Alipay does not take the app as a merchant's: look at app_id and at the app's state",
	"not-online-app":                    "the app is not online: put it online on the open platform",
}
