package standard_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/channel/channeltest"
	"github.com/paylatch/paylatch/internal/channel/standard"
)

func secret(fill byte) string {
	return "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(string(fill), 32)))
}

func sign(t *testing.T, secret string, body []byte, at time.Time) http.Header {
	t.Helper()
	header, err := standard.Sign(secret, "msg_1", at, body)
	require.NoError(t, err)
	return header
}

func config(t *testing.T, secrets ...string) []byte {
	t.Helper()
	body, err := json.Marshal(standard.Config{Secrets: secrets})
	require.NoError(t, err)
	return body
}

func TestSuite(t *testing.T) {
	t.Parallel()
	secrets := []string{secret('a'), secret('b')}
	data := func(fields string) []byte {
		return []byte(`{"type":"payment.succeeded","data":{` + fields + `}}`)
	}
	channeltest.Run(t, channeltest.Harness{
		Channel:   standard.Channel{},
		Config:    config(t, secrets...),
		ValidKeys: 2,
		RefusedConfigs: map[string][]byte{
			"nothing":       nil,
			"not JSON":      []byte("secrets"),
			"no secrets":    []byte(`{"secrets":[]}`),
			"empty secret":  []byte(`{"secrets":[""]}`),
			"only a prefix": []byte(`{"secrets":["whsec_"]}`),
			"short":         config(t, "whsec_"+base64.StdEncoding.EncodeToString([]byte("short"))),
			"not base64":    config(t, "whsec_???"),
			"another kind":  config(t, "whsk_"+base64.StdEncoding.EncodeToString(make([]byte, 32))),
			"one empty":     config(t, secret('a'), ""),
			"a typing slip": []byte(`{"secret":["` + secret('a') + `"]}`),
		},
		Sign: func(t *testing.T, key int, body []byte, at time.Time) http.Header {
			return sign(t, secrets[key], body, at)
		},
		SignWrong: func(t *testing.T, body []byte, at time.Time) http.Header {
			return sign(t, secret('c'), body, at)
		},
		SignatureHeaders: []string{"webhook-id", "webhook-timestamp", "webhook-signature"},
		Success: func(t *testing.T, p channeltest.Payment) []byte {
			body, err := json.Marshal(standard.Message{Type: "payment.succeeded", Data: standard.Data{
				TransactionID: p.TransactionID, OutTradeNo: p.OutTradeNo, Amount: p.Amount, Currency: p.Currency,
			}})
			require.NoError(t, err)
			return body
		},
		UnknownType: []byte(`{"type":"customer.created","data":{}}`),
		Unusable: map[string][]byte{
			"no type":           []byte(`{"data":{}}`),
			"no data":           []byte(`{"type":"payment.succeeded"}`),
			"data is a list":    []byte(`{"type":"payment.succeeded","data":[]}`),
			"amount twice":      data(`"transaction_id":"7","out_trade_no":"o","amount":1,"amount":2,"currency":"CNY"`),
			"amount a string":   data(`"transaction_id":"7","out_trade_no":"o","amount":"1","currency":"CNY"`),
			"amount a fraction": data(`"transaction_id":"7","out_trade_no":"o","amount":1.5,"currency":"CNY"`),
			"amount 1.0":        data(`"transaction_id":"7","out_trade_no":"o","amount":1.0,"currency":"CNY"`),
			"amount too large":  data(`"transaction_id":"7","out_trade_no":"o","amount":9223372036854775808,"currency":"CNY"`),
			"currency too long": data(`"transaction_id":"7","out_trade_no":"o","amount":1,"currency":"CNYX"`),
			"surrogate half":    data(`"transaction_id":"\ud800","out_trade_no":"o","amount":1,"currency":"CNY"`),
			"time out of range": data(`"transaction_id":"7","out_trade_no":"o","amount":1,"currency":"CNY","occurred_at":"9999-12-31T23:59:59-01:00"`),
			"time before time":  data(`"transaction_id":"7","out_trade_no":"o","amount":1,"currency":"CNY","occurred_at":"0000-01-01T00:00:00+01:00"`),
			"time not a time":   data(`"transaction_id":"7","out_trade_no":"o","amount":1,"currency":"CNY","occurred_at":"yesterday"`),
			"refund, no id":     []byte(`{"type":"refund.succeeded","data":{"out_refund_no":"r"}}`),
			"share, no legs":    []byte(`{"type":"share.result","data":{"share_id":"s"}}`),
		},
		AcceptedStatus: http.StatusOK,
		AcceptedBody:   "{}",
	})
}

func TestADotInTheIDIsRefusedThoughItIsSigned(t *testing.T) {
	t.Parallel()
	account, err := standard.Channel{}.Open("main", config(t, secret('a')))
	require.NoError(t, err)
	at := time.Unix(1_700_000_000, 0)
	// "msg" + "." + time + "." + body reads the same as "msg.<time>" + "." + …: one signature, two messages.
	header, err := standard.Sign(secret('a'), "msg.1700000000", at, []byte("{}"))
	require.NoError(t, err)
	require.ErrorIs(t, account.Verify(channel.Notification{Header: header, Body: []byte("{}"), ReceivedAt: at}), channel.ErrBadSignature)
}

func TestSeveralSignaturesInOneHeader(t *testing.T) {
	t.Parallel()
	account, err := standard.Channel{}.Open("main", config(t, secret('a')))
	require.NoError(t, err)
	at := time.Unix(1_700_000_000, 0)
	body := []byte(`{}`)
	header := sign(t, secret('z'), body, at)
	header.Set("webhook-signature", header.Get("webhook-signature")+" v9,zzz "+sign(t, secret('a'), body, at).Get("webhook-signature"))
	require.NoError(t, account.Verify(channel.Notification{Header: header, Body: body, ReceivedAt: at}))
}

func TestAShareResultIsOneEventPerReceiver(t *testing.T) {
	t.Parallel()
	account, err := standard.Channel{}.Open("main", config(t, secret('a')))
	require.NoError(t, err)
	body := []byte(`{"type":"share.result","data":{"share_id":"s","out_order_no":"o","currency":"CNY",
		"receivers":[{"account":"a:b","amount":1,"state":"SUCCESS"},{"account":"a","amount":2,"state":"CLOSED"}]}}`)
	events, err := channel.Read(account, body)
	require.NoError(t, err)
	require.Len(t, events, 2)
	require.NotEqual(t, events[0].Key("standard", body), events[1].Key("standard", body))
}

func FuzzParse(f *testing.F) {
	account, err := standard.Channel{}.Open("main", []byte(`{"secrets":["`+secret('a')+`"]}`))
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{
		`{"type":"payment.succeeded","data":{"transaction_id":"7","out_trade_no":"o","amount":1,"currency":"CNY"}}`,
		`{"type":"share.result","data":{"share_id":"s","receivers":[{"account":"a","amount":1}]}}`,
		`{"type":"x"}`, `{`, ``, `{"type":"payment.closed","data":{"amount":-1}}`,
	} {
		f.Add([]byte(seed))
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
				require.NotEmpty(t, e.OutTradeNo)
				require.NotEmpty(t, e.TransactionID)
			}
		}
	})
}
