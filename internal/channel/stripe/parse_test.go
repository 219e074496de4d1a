package stripe_test

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/channel/stripe"
)

func one(t *testing.T, account channel.Account, body []byte) channel.Event {
	t.Helper()
	events, err := channel.Read(account, body)
	require.NoError(t, err)
	require.Len(t, events, 1)
	return events[0]
}

func chargeOf(fields map[string]any) map[string]any {
	object := map[string]any{
		"id": "ch_1", "object": "charge", "amount": 1000, "amount_captured": 1000, "amount_refunded": 0, "currency": "usd", "status": "succeeded",
		"captured": true, "paid": true, "created": 1_700_000_050, "livemode": false, "metadata": map[string]any{"out_trade_no": "order-1"},
		"payment_intent": "pi_1", "balance_transaction": nil,
	}
	maps.Copy(object, fields)
	return object
}

func sessionOf(fields map[string]any) map[string]any {
	object := map[string]any{
		"id": "cs_1", "object": "checkout.session", "amount_total": 1000, "currency": "usd", "mode": "payment", "status": "complete",
		"payment_status": "paid", "client_reference_id": "order-1", "created": 1_700_000_000, "livemode": false, "metadata": map[string]any{},
		"payment_intent": "pi_1",
	}
	maps.Copy(object, fields)
	return object
}

func refundOf(fields map[string]any) map[string]any {
	object := map[string]any{
		"id": "re_1", "object": "refund", "amount": 400, "currency": "usd", "status": "succeeded", "created": 1_700_000_200, "charge": "ch_1",
		"payment_intent": "pi_1", "metadata": map[string]any{"out_refund_no": "refund-1", "out_trade_no": "order-1"}, "balance_transaction": "txn_1",
	}
	maps.Copy(object, fields)
	return object
}

func TestOnePaymentToldByManyEventsHasOneKeyAndOneMeaning(t *testing.T) {
	t.Parallel()
	account := open(t, nil)
	bodies := map[string][]byte{
		"payment_intent.succeeded":                 succeeded(nil),
		"the same, another event id":               webhook("payment_intent.succeeded", intent(nil), map[string]any{"id": "evt_2", "created": 1_700_009_999}),
		"charge.succeeded":                         webhook("charge.succeeded", chargeOf(nil)),
		"charge.captured":                          webhook("charge.captured", chargeOf(nil)),
		"charge.succeeded, intent expanded":        webhook("charge.succeeded", chargeOf(map[string]any{"payment_intent": intent(nil)})),
		"checkout.session.completed":               webhook("checkout.session.completed", sessionOf(nil)),
		"checkout.session.completed, by metadata":  webhook("checkout.session.completed", sessionOf(map[string]any{"client_reference_id": nil, "metadata": map[string]any{"out_trade_no": "order-1"}})),
		"checkout.session.async_payment_succeeded": webhook("checkout.session.async_payment_succeeded", sessionOf(nil)),
		"our query of the intent":                  encode(intent(map[string]any{"latest_charge": chargeOf(map[string]any{"payment_intent": "pi_1"})})),
		"our query of the session":                 encode(sessionOf(map[string]any{"payment_intent": intent(map[string]any{"latest_charge": chargeOf(nil)})})),
	}
	for name, body := range bodies {
		e := one(t, account, body)
		require.Equal(t, "stripe:pi_1:PAY_SUCCESS", e.Key("stripe", body), name)
		e.OccurredAt = time.Time{}
		require.Equal(t, channel.Event{
			Kind: channel.PaySuccess, Subject: "pi_1", TransactionID: "pi_1", OutTradeNo: "order-1", Amount: 1000, Currency: "USD",
		}, e, name)
	}
}

func TestOtherEndsOfAPayment(t *testing.T) {
	t.Parallel()
	account := open(t, nil)
	declined := map[string]any{"status": "requires_payment_method", "amount_received": 0}
	canceled := map[string]any{"status": "canceled", "amount_received": 0}
	for _, c := range []struct {
		name string
		body []byte
		key  string
	}{
		{"declined", webhook("payment_intent.payment_failed", intent(declined)), "stripe:pi_1:PAY_FAILED"},
		{"failed after days", webhook("checkout.session.async_payment_failed", sessionOf(map[string]any{"payment_status": "unpaid"})), "stripe:pi_1:PAY_FAILED"},
		{"canceled", webhook("payment_intent.canceled", intent(canceled)), "stripe:pi_1:PAY_CLOSED"},
		{"canceled, by query", encode(intent(canceled)), "stripe:pi_1:PAY_CLOSED"},
		{"expired", webhook("checkout.session.expired", sessionOf(map[string]any{"status": "expired", "payment_status": "unpaid"})), "stripe:cs_1:PAY_CLOSED"},
		{"expired, never tried", webhook("checkout.session.expired", sessionOf(map[string]any{"status": "expired", "payment_status": "unpaid", "payment_intent": nil})), "stripe:cs_1:PAY_CLOSED"},
	} {
		e := one(t, account, c.body)
		require.Equal(t, c.key, e.Key("stripe", c.body), c.name)
		require.Equal(t, "order-1", e.OutTradeNo, c.name)
		require.Equal(t, int64(1000), e.Amount, c.name)
	}
}

func TestWhatIsNoPaymentIsNeverCalledOne(t *testing.T) {
	t.Parallel()
	account := open(t, nil)
	for name, body := range map[string][]byte{
		"completed, unpaid: its method takes days": webhook("checkout.session.completed", sessionOf(map[string]any{"payment_status": "unpaid"})),
		"nothing to pay":                    webhook("checkout.session.completed", sessionOf(map[string]any{"payment_status": "no_payment_required", "payment_intent": nil})),
		"a subscription":                    webhook("checkout.session.completed", sessionOf(map[string]any{"mode": "subscription", "payment_intent": nil})),
		"authorized, not captured":          webhook("charge.succeeded", chargeOf(map[string]any{"captured": false, "amount_captured": 0})),
		"processing, by query":              encode(intent(map[string]any{"status": "processing", "amount_received": 0})),
		"open session, by query":            encode(sessionOf(map[string]any{"status": "open", "payment_status": "unpaid", "payment_intent": nil})),
		"charge failed, by query":           encode(chargeOf(map[string]any{"status": "failed", "captured": false})),
		"processing":                        webhook("payment_intent.processing", intent(map[string]any{"status": "processing"})),
		"a thin event":                      encode(map[string]any{"object": "v2.core.event", "id": "evt_1", "type": "v1.payment_intent.succeeded"}),
		"another object":                    encode(map[string]any{"object": "payout", "id": "po_1", "status": "paid"}),
		"a refund that is not ended":        webhook("refund.created", refundOf(map[string]any{"status": "pending"})),
		"a refund that waits for the payer": webhook("refund.updated", refundOf(map[string]any{"status": "requires_action"})),
	} {
		require.Equal(t, channel.Unsupported, one(t, account, body).Kind, name)
	}
	for name, body := range map[string][]byte{
		"succeeded after days, and unpaid": webhook("checkout.session.async_payment_succeeded", sessionOf(map[string]any{"payment_status": "unpaid"})),
		"charge.succeeded that failed":     webhook("charge.succeeded", chargeOf(map[string]any{"status": "failed"})),
		"canceled that succeeded":          webhook("payment_intent.canceled", intent(nil)),
		"a refund of unknown status":       webhook("refund.updated", refundOf(map[string]any{"status": "done"})),
	} {
		_, err := channel.Read(account, body)
		var unusable *channel.Unusable
		require.ErrorAs(t, err, &unusable, name)
	}
}

func TestTheMerchantIsCreditedWhatWasReceived(t *testing.T) {
	t.Parallel()
	e := one(t, open(t, nil), succeeded(map[string]any{"amount": 1000, "amount_received": 600}))
	require.Equal(t, int64(600), e.Amount, "a part was captured")
}

func TestRefundsByEventAndByQuery(t *testing.T) {
	t.Parallel()
	account := open(t, nil)
	want := channel.Event{
		Kind: channel.RefundSuccess, Subject: "re_1", TransactionID: "pi_1", OutTradeNo: "order-1", OutNo: "refund-1", Amount: 400, Currency: "USD",
	}
	for name, body := range map[string][]byte{
		"refund.created":         webhook("refund.created", refundOf(nil)),
		"refund.updated":         webhook("refund.updated", refundOf(nil)),
		"charge.refund.updated":  webhook("charge.refund.updated", refundOf(nil)),
		"our query":              encode(refundOf(nil)),
		"a list of our query":    encode(map[string]any{"object": "list", "data": []any{refundOf(nil)}}),
		"charge.refunded, older": webhook("charge.refunded", chargeOf(map[string]any{"amount_refunded": 400, "refunds": map[string]any{"data": []any{refundOf(nil)}}})),
	} {
		e := one(t, account, body)
		require.Equal(t, "stripe:re_1:REFUND_SUCCESS", e.Key("stripe", body), name)
		e.OccurredAt = time.Time{}
		require.Equal(t, want, e, name)
	}
	for _, status := range []string{"failed", "canceled"} {
		body := webhook("refund.failed", refundOf(map[string]any{"status": status, "failure_reason": "lost_or_stolen_card"}))
		e := one(t, account, body)
		require.Equal(t, "stripe:re_1:REFUND_FAILED", e.Key("stripe", body), "a failure never blocks, and is never blocked by, a success")
		require.Equal(t, "refund-1", e.OutNo)
		require.Contains(t, e.Note, "lost_or_stolen_card")
	}
	e := one(t, account, encode(refundOf(map[string]any{"payment_intent": nil, "metadata": map[string]any{}})))
	require.Equal(t, "ch_1", e.TransactionID, "a charge without a PaymentIntent stands for itself")
	require.Empty(t, e.OutNo, "made without us")
}

func TestATotalOfRefundsIsAHintOfItsOwn(t *testing.T) {
	t.Parallel()
	account := open(t, nil)
	first := webhook("charge.refunded", chargeOf(map[string]any{"amount_refunded": 400}))
	second := webhook("charge.refunded", chargeOf(map[string]any{"amount_refunded": 700, "refunds": nil}))
	pending := webhook("charge.refunded", chargeOf(map[string]any{"amount_refunded": 900, "refunds": map[string]any{"data": []any{refundOf(map[string]any{"status": "pending"})}}}))
	keys := map[string]bool{}
	for _, body := range [][]byte{first, second, pending} {
		e := one(t, account, body)
		require.Equal(t, channel.RefundHint, e.Kind)
		require.Equal(t, "pi_1", e.TransactionID)
		require.Equal(t, "order-1", e.OutTradeNo)
		require.Zero(t, e.Amount, "nothing may be booked from a total")
		keys[e.Key("stripe", body)] = true
	}
	require.Len(t, keys, 3, "the second refund of a charge is not taken for the first")
}

func TestALegOfASharing(t *testing.T) {
	t.Parallel()
	account := open(t, nil)
	transfer := func(reversed int64) map[string]any {
		return map[string]any{
			"id": "tr_1", "object": "transfer", "amount": 300, "amount_reversed": reversed, "currency": "usd", "created": 1_700_000_300, "livemode": false,
			"destination": "acct_1RRRRRRRRRRRRRRR", "metadata": map[string]any{"out_order_no": "share-1", "out_trade_no": "order-1", "payment_intent": "pi_1"},
		}
	}
	for name, body := range map[string][]byte{
		"transfer.created":  webhook("transfer.created", transfer(0)),
		"transfer.reversed": webhook("transfer.reversed", transfer(300)),
		"our query":         encode(map[string]any{"object": "list", "data": []any{transfer(100)}}),
	} {
		e := one(t, account, body)
		require.Equal(t, "stripe:tr_1:PROFIT_SHARE_RESULT", e.Key("stripe", body), name)
		e.OccurredAt, e.Note = time.Time{}, ""
		require.Equal(t, channel.Event{
			Kind: channel.ShareResult, Subject: "tr_1", TransactionID: "pi_1", OutTradeNo: "order-1", OutNo: "share-1", Amount: 300, Currency: "USD",
			Receiver: "acct_1RRRRRRRRRRRRRRR", LegState: channel.LegSucceeded,
		}, e, name+": the leg was paid, whatever came back of it")
	}
}

func TestAnotherModeOrAnotherAccountIsAMismatch(t *testing.T) {
	t.Parallel()
	live := map[string]any{"secret_key": strings.Replace(secretKey, "test", "live", 1), "livemode": true}
	for name, c := range map[string]struct {
		account channel.Account
		body    []byte
		foreign bool
	}{
		"test at test":                 {open(t, nil), succeeded(nil), false},
		"live at test":                 {open(t, nil), webhook("payment_intent.succeeded", intent(nil), map[string]any{"livemode": true}), true},
		"test at live":                 {open(t, live), succeeded(nil), true},
		"live at live":                 {open(t, live), webhook("payment_intent.succeeded", intent(nil), map[string]any{"livemode": true}), false},
		"our own account, named":       {open(t, nil), webhook("payment_intent.succeeded", intent(nil), map[string]any{"account": accountID}), false},
		"a connected account":          {open(t, nil), webhook("payment_intent.succeeded", intent(nil), map[string]any{"account": "acct_1BBBBBBBBBBBBBBB"}), true},
		"a connected account's refund": {open(t, nil), webhook("refund.updated", refundOf(nil), map[string]any{"account": "acct_1BBBBBBBBBBBBBBB"}), true},
		"a query's answer of live":     {open(t, nil), encode(intent(map[string]any{"livemode": true})), true},
	} {
		e := one(t, c.account, c.body)
		require.Equal(t, c.foreign, e.Mismatch != "", "%s: %q", name, e.Mismatch)
	}
}

// Most messages about a payment come without its fee, so none of them has it: the fee is an event of its own.
func TestTheFeeIsAnEventOfItsOwn(t *testing.T) {
	t.Parallel()
	account := open(t, nil)
	with := func(fee int, currency, charged string) []byte {
		settled := map[string]any{"id": "txn_1", "object": "balance_transaction", "fee": fee, "currency": currency}
		return encode(intent(map[string]any{"currency": charged, "latest_charge": chargeOf(map[string]any{"currency": charged, "balance_transaction": settled})}))
	}
	events, err := channel.Read(account, with(59, "usd", "usd"))
	require.NoError(t, err)
	require.Len(t, events, 2)
	paid, fee := events[0], events[1]
	require.Equal(t, channel.PaySuccess, paid.Kind)
	require.Nil(t, paid.Fee)
	require.Equal(t, channel.PayFee, fee.Kind)
	require.Equal(t, "stripe:txn_1:PAY_FEE", fee.Key("stripe", nil))
	require.Equal(t, []any{int64(59), "USD", paid.TransactionID, paid.OutTradeNo}, []any{fee.Amount, fee.Currency, fee.TransactionID, fee.OutTradeNo})
	require.Equal(t, channel.PaySuccess, one(t, account, with(59, "eur", "usd")).Kind, "settled in another currency: no fee in this one")
	require.Equal(t, channel.PaySuccess, one(t, account, with(59, "isk", "isk")).Kind, "finer than the currency counts")
	require.Equal(t, channel.PaySuccess, one(t, account, with(0, "usd", "usd")).Kind, "nothing was taken")
	require.Equal(t, channel.PaySuccess, one(t, account, succeeded(nil)).Kind)
}

// A balance transaction that a webhook names is a hint to ask for it, whichever webhook names it.
func TestABalanceTransactionIsAskedFor(t *testing.T) {
	t.Parallel()
	account := open(t, nil)
	named := chargeOf(map[string]any{"balance_transaction": "txn_1"})
	updated := one(t, account, webhook("charge.updated", named, nil))
	require.Equal(t, channel.PayFeeHint, updated.Kind)
	require.Equal(t, "stripe:txn_1:PAY_FEE_HINT", updated.Key("stripe", nil))
	require.Zero(t, updated.Amount)
	events, err := channel.Read(account, webhook("charge.succeeded", named, nil))
	require.NoError(t, err)
	require.Len(t, events, 2)
	require.Equal(t, channel.PaySuccess, events[0].Kind)
	require.Equal(t, updated.Key("stripe", nil), events[1].Key("stripe", nil))
	for name, charge := range map[string]map[string]any{
		"without one":         {"balance_transaction": nil},
		"of a failed charge":  {"balance_transaction": "txn_1", "status": "failed"},
		"of an authorization": {"balance_transaction": "txn_1", "captured": false},
	} {
		require.Equal(t, channel.Unsupported, one(t, account, webhook("charge.updated", chargeOf(charge), nil)).Kind, name)
	}
}

func TestTheIdentityOutlivesTheKey(t *testing.T) {
	t.Parallel()
	rolled := strings.Replace(secretKey, "bbb", "ccc", 1)
	restricted := strings.Replace(rolled, "sk_", "rk_", 1)
	for _, key := range []string{secretKey, rolled, restricted} {
		require.Equal(t, accountID+":test", open(t, map[string]any{"secret_key": key}).Identity())
	}
	require.Equal(t, accountID+":test", open(t, map[string]any{"account_id": accountID}).Identity(), "told or read from the key: one account")
	require.Equal(t, accountID+":live", open(t, map[string]any{"secret_key": strings.Replace(secretKey, "test", "live", 1), "livemode": true}).Identity())

	// An older key does not tell its account. Taken for an account of its own, it would be a second one beside the first, and
	// could never be rolled.
	older := "sk_test_" + strings.Repeat("x", 24)
	_, err := stripe.Channel{}.Open("main", settings(map[string]any{"secret_key": older}))
	require.ErrorContains(t, err, "account_id")
	require.NotContains(t, err.Error(), "xxxx")
	require.Equal(t, "acct_103f2E2eZvKYlo:test", open(t, map[string]any{"secret_key": older, "account_id": "acct_103f2E2eZvKYlo"}).Identity())
}

func TestNoRefusalOfAConfigurationQuotesASecret(t *testing.T) {
	t.Parallel()
	for _, config := range [][]byte{
		settings(map[string]any{"livemode": true}),
		settings(map[string]any{"webhook_secrets": []string{secretA, "SECRET-SECRET"}}),
		settings(map[string]any{"secret_key": "SECRET-SECRET"}),
		settings(map[string]any{"secret_key": []string{"SECRET-SECRET"}}),
		settings(map[string]any{"SECRET-SECRET": 1}),
		settings(map[string]any{"base_url": "https://user:SECRET-SECRET@api.stripe.com"}),
		settings(map[string]any{"base_url": "https://%SECRET-SECRET"}),
	} {
		_, err := stripe.Channel{}.Open("main", config)
		require.Error(t, err)
		for _, secret := range []string{"SECRET-SECRET", secretA, secretKey} {
			require.NotContains(t, err.Error(), secret)
		}
	}
}

func TestSignaturesWhileASecretIsRolled(t *testing.T) {
	t.Parallel()
	account := open(t, map[string]any{"webhook_secrets": []string{secretA}})
	at := time.Unix(1_700_000_000, 0)
	body := succeeded(nil)
	verify := func(value string) error {
		return account.Verify(channel.Notification{Header: http.Header{"Stripe-Signature": {value}}, Body: body, ReceivedAt: at})
	}
	good, other := v1(secretA, body, at), v1(secretB, body, at)
	for name, value := range map[string]string{
		"the right one last":             "t=1700000000," + other + "," + good,
		"the right one first":            "t=1700000000," + good + "," + other,
		"the time at the end":            good + ",t=1700000000",
		"an unknown scheme beside it":    "t=1700000000,v0=" + strings.Repeat("0", 64) + "," + good + ",v9=zz,x",
		"spaces":                         " t=1700000000 , " + good + " ",
		"a signature that is not one":    "t=1700000000,v1=xyz,v1=," + good,
		"a signature in capital letters": "t=1700000000,v1=" + strings.ToUpper(strings.TrimPrefix(good, "v1=")),
	} {
		require.NoError(t, verify(value), name)
	}
	for name, value := range map[string]string{
		"only another secret's":        "t=1700000000," + other,
		"only an unknown scheme":       "t=1700000000,v0=" + strings.TrimPrefix(good, "v1="),
		"no signature":                 "t=1700000000",
		"no time":                      good,
		"two times":                    "t=1700000000,t=1700000001," + good,
		"another time than was signed": "t=1700000001," + good,
		"a time with a sign":           "t=+1700000000," + good,
		"cut off":                      "t=1700000000," + good[:len(good)-2],
	} {
		var refusal *channel.Refusal
		require.ErrorAs(t, verify(value), &refusal, name)
	}
}

func TestASecretIsAWholeString(t *testing.T) {
	t.Parallel()
	// Base64 behind whsec_, as Standard Webhooks decodes it: Stripe's key is the text itself.
	secret := "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	account := open(t, map[string]any{"webhook_secrets": []string{secret}})
	at := time.Unix(1_700_000_000, 0)
	body := succeeded(nil)
	require.NoError(t, account.Verify(channel.Notification{Header: signed(secret, body, at), Body: body, ReceivedAt: at}))
	withoutPrefix := signed(strings.TrimPrefix(secret, "whsec_"), body, at)
	require.ErrorIs(t, account.Verify(channel.Notification{Header: withoutPrefix, Body: body, ReceivedAt: at}), channel.ErrBadSignature)
}

func TestASenderIsBelieved(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_700_000_000, 0)
	sample := channel.Sample{TransactionID: "pi_9", OutTradeNo: "order-9", Amount: 5, Currency: "ISK", OccurredAt: at}
	body, err := stripe.Channel{}.Compose(sample)
	require.NoError(t, err)
	again, err := stripe.Channel{}.Compose(sample)
	require.NoError(t, err)
	require.Equal(t, body, again)
	header, err := stripe.Channel{}.Sign(settings(nil), body, at)
	require.NoError(t, err)
	account := open(t, nil)
	require.NoError(t, account.Verify(channel.Notification{Header: header, Body: body, ReceivedAt: at}))
	e := one(t, account, body)
	require.Equal(t, channel.Event{
		Kind: channel.PaySuccess, Subject: "pi_9", TransactionID: "pi_9", OutTradeNo: "order-9", Amount: 5, Currency: "ISK", OccurredAt: at.UTC(),
	}, e)
	live := open(t, map[string]any{"secret_key": strings.Replace(secretKey, "test", "live", 1), "livemode": true})
	require.NotEmpty(t, one(t, live, body).Mismatch, "a made-up message credits no order of a live account")
}

func FuzzParse(f *testing.F) {
	account, err := stripe.Channel{}.Open("main", settings(nil))
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range [][]byte{
		succeeded(nil), webhook("charge.succeeded", chargeOf(nil)), webhook("checkout.session.completed", sessionOf(nil)),
		webhook("charge.updated", chargeOf(map[string]any{"balance_transaction": "txn_1"})),
		encode(intent(map[string]any{"latest_charge": chargeOf(map[string]any{"balance_transaction": map[string]any{"object": "balance_transaction", "id": "txn_1", "fee": 59, "currency": "usd"}})})),
		webhook("refund.updated", refundOf(nil)), webhook("charge.refunded", chargeOf(map[string]any{"refunds": map[string]any{"data": []any{refundOf(nil)}}})),
		encode(intent(map[string]any{"latest_charge": chargeOf(nil)})), []byte(`{"object":"list","data":[{"object":"transfer","id":"tr_1","amount":1,"currency":"usd"}]}`),
		[]byte(`{"object":"list","data":[{"object":"paylatch.refused_transfer","out_order_no":"s","destination":"acct_1","amount":1,"currency":"usd"}]}`),
		[]byte(`{"object":"event","type":"x","livemode":false}`), []byte(`{`), nil,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		events, err := channel.Read(account, body)
		if err != nil {
			var unusable *channel.Unusable
			require.True(t, errors.As(err, &unusable))
			require.Empty(t, events)
			return
		}
		require.NotEmpty(t, events)
		for _, e := range events {
			if e.Kind == channel.PaySuccess {
				require.Positive(t, e.Amount)
				require.Equal(t, e.OutTradeNo == "", e.Foreign, "it bears our number, or is said to be of others")
				require.NotEmpty(t, e.TransactionID)
			}
		}
	})
}

func FuzzVerify(f *testing.F) {
	account, err := stripe.Channel{}.Open("main", settings(nil))
	if err != nil {
		f.Fatal(err)
	}
	at := time.Unix(1_700_000_000, 0)
	good := fmt.Sprintf("t=%d,%s", at.Unix(), v1(secretA, []byte("{}"), at))
	for _, seed := range []string{good, "t=1,v1=00", ",", "t=,v1=", "v1", "t=1700000000,v1=" + strings.Repeat("0", 64)} {
		f.Add(seed)
	}
	mac := strings.TrimPrefix(v1(secretA, []byte("{}"), at), "v1=")
	f.Fuzz(func(t *testing.T, value string) {
		err := account.Verify(channel.Notification{Header: http.Header{"Stripe-Signature": {value}}, Body: []byte("{}"), ReceivedAt: at})
		if err == nil {
			require.Contains(t, strings.ToLower(value), mac, "only the real signature is one")
			return
		}
		var refusal *channel.Refusal
		require.True(t, errors.As(err, &refusal))
		require.True(t, refusal.Status >= 400 && refusal.Status < 500)
	})
}
