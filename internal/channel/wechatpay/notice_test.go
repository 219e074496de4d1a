package wechatpay_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/channel"
)

func refundFacts(changes map[string]any) map[string]any {
	facts := map[string]any{
		"mchid": mchID, "transaction_id": "4200000001", "out_trade_no": "order-1", "refund_id": "50300000001", "out_refund_no": "refund-1",
		"refund_status": "SUCCESS", "success_time": "2026-03-01T16:00:00+08:00", "user_received_account": "招商银行信用卡0403",
		"amount": map[string]any{"total": 9900, "refund": 900, "payer_total": 9900, "payer_refund": 900},
	}
	maps.Copy(facts, changes)
	return facts
}

func readOne(t *testing.T, account channel.Account, body []byte) channel.Event {
	t.Helper()
	events, err := channel.Read(account, body)
	require.NoError(t, err)
	require.Len(t, events, 1)
	return events[0]
}

func TestAPaymentSaysWhatThePayerPaidAndWhatTheMerchantGets(t *testing.T) {
	t.Parallel()
	account := openAccount(t, settings(nil))
	e := readOne(t, account, notice("TRANSACTION.SUCCESS", "transaction", paymentFacts(map[string]any{"attach": "table 7 \n"})))
	require.Equal(t, channel.Event{
		Kind: channel.PaySuccess, Subject: "4200000001", TransactionID: "4200000001", OutTradeNo: "order-1", Amount: 9900, Currency: "CNY",
		PayerAmount: 9000, OccurredAt: at, Note: `attach "table 7 \n"`,
	}, e)
}

// The tables call the currency of an amount optional. Money must not wait for a person because it was left out.
func TestAPaymentThatNamesNoCurrencyIsInTheOnlyOne(t *testing.T) {
	t.Parallel()
	account := openAccount(t, settings(nil))
	e := readOne(t, account, notice("TRANSACTION.SUCCESS", "transaction", paymentFacts(map[string]any{"amount": map[string]any{"total": 9900}})))
	require.Equal(t, []any{int64(9900), "CNY"}, []any{e.Amount, e.Currency})
}

func TestTheAssociatedDataMayBeEmpty(t *testing.T) {
	t.Parallel()
	account := openAccount(t, settings(nil))
	facts, err := json.Marshal(paymentFacts(nil))
	require.NoError(t, err)
	resource := sealed(apiV3Key, "", facts)
	delete(resource, "associated_data")
	delete(resource, "original_type")
	require.Equal(t, channel.PaySuccess, readOne(t, account, envelope("TRANSACTION.SUCCESS", resource)).Kind)
}

func TestAPaymentOfAnotherContextSaysSo(t *testing.T) {
	t.Parallel()
	account := openAccount(t, settings(nil))
	for name, changes := range map[string]map[string]any{
		"another merchant":   {"mchid": "1900000999"},
		"no merchant":        {"mchid": ""},
		"another app":        {"appid": "wx9999999999999999"},
		"no app":             {"appid": ""},
		"a service provider": {"sp_mchid": "1900000100", "sub_mchid": mchID, "mchid": mchID},
	} {
		e := readOne(t, account, notice("TRANSACTION.SUCCESS", "transaction", paymentFacts(changes)))
		require.Equal(t, channel.PaySuccess, e.Kind, name)
		require.NotEmpty(t, e.Mismatch, name)
	}
	require.NotEmpty(t, readOne(t, account, notice("REFUND.SUCCESS", "refund", refundFacts(map[string]any{"mchid": "1900000999"}))).Mismatch)
	require.Empty(t, readOne(t, account, notice("REFUND.SUCCESS", "refund", refundFacts(nil))).Mismatch, "refunds name no app")
}

func TestRefundNoticesTellTheirThreeEnds(t *testing.T) {
	t.Parallel()
	account := openAccount(t, settings(nil))
	for status, kind := range map[string]channel.Kind{"SUCCESS": channel.RefundSuccess, "CLOSED": channel.RefundFailed, "ABNORMAL": channel.RefundAbnormal} {
		changes := map[string]any{"refund_status": status}
		want := channel.Event{
			Kind: kind, Subject: "50300000001", TransactionID: "4200000001", OutTradeNo: "order-1", OutNo: "refund-1", Amount: 900, Currency: "CNY", OccurredAt: at,
		}
		if status != "SUCCESS" {
			changes["success_time"] = ""
			want.OccurredAt = time.Time{}
		}
		require.Equal(t, want, readOne(t, account, notice("REFUND."+status, "refund", refundFacts(changes))))
	}
}

func TestAShareNoticeIsOneLegWhateverItsType(t *testing.T) {
	t.Parallel()
	account := openAccount(t, settings(nil))
	facts := map[string]any{
		"mchid": mchID, "transaction_id": "4200000001", "order_id": "3008450740201411110007820472", "out_order_no": "share-1",
		"receiver": map[string]any{"type": "MERCHANT_ID", "account": "1900000110", "amount": 888, "description": "x"}, "success_time": "2026-03-01T16:00:00+08:00",
	}
	want := channel.Event{
		Kind: channel.ShareResult, Subject: "3008450740201411110007820472:1900000110", TransactionID: "4200000001", OutNo: "share-1",
		Receiver: "1900000110", LegState: channel.LegSucceeded, Amount: 888, Currency: "CNY", OccurredAt: at,
	}
	require.Equal(t, want, readOne(t, account, notice("PROFITSHARING.SUCCESS", "profitsharing", facts)))
	require.Equal(t, want, readOne(t, account, notice("TRANSACTION.SUCCESS", "profitsharing", facts)))
	facts["mchid"] = "1900000999"
	require.NotEmpty(t, readOne(t, account, notice("PROFITSHARING.SUCCESS", "profitsharing", facts)).Mismatch)
}

func TestAStoredShareAnswerIsOneEventPerReceiverThatHasEnded(t *testing.T) {
	t.Parallel()
	account := openAccount(t, settings(nil))
	body := []byte(`{"transaction_id":"4200000001","out_order_no":"share-1","order_id":"3008","state":"PROCESSING","receivers":[
		{"type":"MERCHANT_ID","account":"1900000110","amount":100,"result":"SUCCESS","detail_id":"36011","finish_time":"2026-03-01T16:00:00+08:00"},
		{"type":"MERCHANT_ID","account":"1900000110","amount":50,"result":"SUCCESS","detail_id":"36012","finish_time":"2026-03-01T16:00:00+08:00"},
		{"type":"PERSONAL_OPENID","account":"oPerson","amount":7,"result":"CLOSED","fail_reason":"ACCOUNT_ABNORMAL","detail_id":"36013","finish_time":"1970-01-01T08:00:00+08:00"},
		{"type":"PERSONAL_OPENID","account":"oWaiting","amount":8,"result":"PENDING","detail_id":"36014","finish_time":"1970-01-01T08:00:00+08:00"},
		{"type":"MERCHANT_ID","account":"` + mchID + `","amount":500,"description":"解冻给分账方","result":"SUCCESS","detail_id":"36015","finish_time":"2026-03-01T16:00:00+08:00"}]}`)
	events, err := channel.Read(account, body)
	require.NoError(t, err)
	base := channel.Event{Kind: channel.ShareResult, TransactionID: "4200000001", OutNo: "share-1", Currency: "CNY", OccurredAt: at}
	first, second, third := base, base, base
	first.Subject, first.Receiver, first.LegState, first.Amount = "3008:36011", "1900000110", channel.LegSucceeded, 100
	second.Subject, second.Receiver, second.LegState, second.Amount = "3008:36012", "1900000110", channel.LegSucceeded, 50
	third.Subject, third.Receiver, third.LegState, third.Amount, third.Note = "3008:36013", "oPerson", channel.LegClosed, 7, `fail_reason "ACCOUNT_ABNORMAL"`
	third.OccurredAt = time.Time{} // the beginning of time stands for none
	require.Equal(t, []channel.Event{first, second, third}, events)
}

func TestAnAnswerThatIsNoEndSaysNothing(t *testing.T) {
	t.Parallel()
	account := openAccount(t, settings(nil))
	for _, body := range []string{
		`{"trade_state":"NOTPAY","out_trade_no":"order-1","amount":{"total":1}}`,
		`{"trade_state":"CLOSED","out_trade_no":"order-1"}`,
		`{"refund_id":"5","out_refund_no":"r","status":"PROCESSING","amount":{"refund":1}}`,
		`{"order_id":"3","out_order_no":"s","receivers":[{"account":"a","amount":1,"result":"PENDING"}]}`,
		`{"order_id":"3","out_order_no":"s"}`,
	} {
		require.Equal(t, channel.Unsupported, readOne(t, account, []byte(body)).Kind, body)
	}
}

func TestASignedReplyIsNotTakenForANotice(t *testing.T) {
	t.Parallel()
	p := thePlatform()
	account := openAccount(t, settings(nil))
	// Any merchant can make WeChat Pay sign the answer to a query of its own, with numbers that it chose. Refunds and sharings
	// name no merchant in their answers.
	for _, body := range []string{
		`{"refund_id":"5","out_refund_no":"refund-1","transaction_id":"4200000001","status":"SUCCESS","amount":{"refund":900,"currency":"CNY"}}`,
		`{"order_id":"3","out_order_no":"share-1","receivers":[{"account":"a","amount":1,"result":"SUCCESS"}]}`,
		`{"trade_state":"SUCCESS","transaction_id":"4200000001","out_trade_no":"order-1","amount":{"total":1,"currency":"CNY"}}`,
		`{"Refund_ID":"5","status":"SUCCESS"}`,
	} {
		var refusal *channel.Refusal
		require.ErrorAs(t, verify(account, sign(p.public, publicID, []byte(body), at), []byte(body)), &refusal)
		require.Equal(t, "not_a_notice", refusal.Code)
	}
	// What is read as a notice passes, whatever else stands in it.
	body := []byte(`{"event_type":"X","refund_id":"5"}`)
	require.NoError(t, verify(account, sign(p.public, publicID, body, at), body))
	require.Equal(t, channel.Unsupported, readOne(t, account, body).Kind)
}

func TestAProbeIsRefusedUnderACodeOfItsOwnAndTheGenuineCopyPasses(t *testing.T) {
	t.Parallel()
	p := thePlatform()
	account := openAccount(t, settings(nil))
	body := notice("TRANSACTION.SUCCESS", "transaction", paymentFacts(nil))
	probe := sign(p.public, publicID, body, at)
	probe.Set("Wechatpay-Signature", "WECHATPAY/SIGNTEST/"+probe.Get("Wechatpay-Signature"))
	var refusal *channel.Refusal
	require.ErrorAs(t, verify(account, probe, body), &refusal)
	require.Equal(t, "signature_probe", refusal.Code)
	require.Equal(t, http.StatusBadRequest, refusal.Status)
	require.NoError(t, verify(account, sign(p.public, publicID, body, at), body))
}

func TestTheKeyIsTheOneThatTheMessageNamesAndNoOther(t *testing.T) {
	t.Parallel()
	p := thePlatform()
	account := openAccount(t, settings(nil))
	body := []byte("{}")
	code := func(h http.Header) string {
		var refusal *channel.Refusal
		require.ErrorAs(t, verify(account, h, body), &refusal)
		return refusal.Code
	}
	require.Equal(t, "signature_invalid", code(sign(p.old, p.freshSerial, body, at)), "signed by a key of the account under another's name")
	require.Equal(t, "serial_unknown", code(sign(p.public, "PUB_KEY_ID_0000000000", body, at)))
	require.Equal(t, "serial_unknown", code(sign(p.old, "5157F09EFDC096DE15EBE81A47057A73", body, at)))

	expired := openAccount(t, settings(map[string]any{"public_keys": nil, "platform_certificates": map[string]string{p.oldSerial: p.expiredCert}}))
	var refusal *channel.Refusal
	require.ErrorAs(t, verify(expired, sign(p.old, p.oldSerial, body, at), body), &refusal)
	require.Equal(t, "certificate_expired", refusal.Code)
}

func TestSerialNumbersAreNumbers(t *testing.T) {
	t.Parallel()
	p := thePlatform()
	account := openAccount(t, settings(map[string]any{"platform_certificates": map[string]string{"005157f09efdc096de15ebe81a47057a72": p.oldCert}}))
	for _, written := range []string{p.oldSerial, "5157f09efdc096de15ebe81a47057a72", "00" + p.oldSerial} {
		require.NoError(t, verify(account, sign(p.old, written, []byte("{}"), at), []byte("{}")), written)
	}
}

func TestTheSignatureTypeIsTheOneThatIsKnown(t *testing.T) {
	t.Parallel()
	p := thePlatform()
	account := openAccount(t, settings(nil))
	body := []byte("{}")
	h := sign(p.public, publicID, body, at)
	h.Set("Wechatpay-Signature-Type", "WECHATPAY2-SHA256-RSA2048")
	require.NoError(t, verify(account, h, body))
	h.Set("Wechatpay-Signature-Type", "WECHATPAY2-SM2-WITH-SM3")
	require.Error(t, verify(account, h, body))
	h.Set("Wechatpay-Signature-Type", "WECHATPAY2-SHA256-RSA2048")
	h.Add("Wechatpay-Signature-Type", "WECHATPAY2-SHA256-RSA2048")
	require.ErrorIs(t, verify(account, h, body), channel.ErrTwoHeaders)
}

func TestTheBodyIsVerifiedAsItCameNotAsItWouldBeWrittenAgain(t *testing.T) {
	t.Parallel()
	p := thePlatform()
	account := openAccount(t, settings(nil))
	body := notice("TRANSACTION.SUCCESS", "transaction", paymentFacts(nil))
	h := sign(p.public, publicID, body, at)
	var fields map[string]any
	require.NoError(t, json.Unmarshal(body, &fields))
	again, err := json.MarshalIndent(fields, "", " ")
	require.NoError(t, err)
	require.NoError(t, verify(account, h, body))
	require.ErrorIs(t, verify(account, h, again), channel.ErrBadSignature)
}

func TestFailureIsTheChannelsOwnForm(t *testing.T) {
	t.Parallel()
	ack := refusedAck(t)
	require.Equal(t, http.StatusUnauthorized, ack.Status)
	require.Equal(t, "application/json", ack.ContentType)
	require.JSONEq(t, `{"code":"FAIL","message":"no \"signature\""}`, string(ack.Body))
}
