package bench

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/channel/alipay"
	"github.com/paylatch/paylatch/internal/channel/registry"
)

// newAlipay signs forms, which hold the time at which they are sent.
func newAlipay() (Reporter, error) {
	const appID, sellerID = "2021000000000001", "2088000000000001"
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return Reporter{}, err
	}
	app, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return Reporter{}, err
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return Reporter{}, err
	}
	config, err := json.Marshal(map[string]string{
		"app_id": appID, "seller_id": sellerID, "sign_type": "RSA2", "base_url": "http://localhost/gateway.do", // nothing is asked
		"app_private_key":   base64.StdEncoding.EncodeToString(x509.MarshalPKCS1PrivateKey(app)),
		"alipay_public_key": base64.StdEncoding.EncodeToString(public),
	})
	if err != nil {
		return Reporter{}, err
	}
	compose := func(s channel.Sample) ([]byte, error) {
		yuan := fmt.Sprintf("%d.%02d", s.Amount/100, s.Amount%100)
		return []byte(url.Values{
			"app_id": {appID}, "auth_app_id": {appID}, "seller_id": {sellerID}, "notify_type": {"trade_status_sync"}, "notify_id": {"n" + s.TransactionID},
			"version": {"1.0"}, "charset": {"utf-8"}, "trade_no": {s.TransactionID}, "out_trade_no": {s.OutTradeNo}, "trade_status": {"TRADE_SUCCESS"},
			"total_amount": {yuan}, "receipt_amount": {yuan}, "buyer_pay_amount": {yuan}, "invoice_amount": {yuan}, "point_amount": {"0.00"},
			"subject": {"bench"}, "buyer_id": {"2088000000000099"}, "gmt_create": {alipayTime(s.OccurredAt)}, "gmt_payment": {alipayTime(s.OccurredAt)},
			"fund_bill_list": {`[{"amount":"` + yuan + `","fundChannel":"ALIPAYACCOUNT"}]`},
		}.Encode()), nil
	}
	return Reporter{registry.All()[alipay.Name], config, compose, func(message []byte, at time.Time) (http.Header, []byte, error) {
		form, err := url.ParseQuery(string(message))
		if err != nil {
			return nil, nil, err
		}
		form.Set("notify_time", alipayTime(at))
		var pairs []string
		for name := range form {
			pairs = append(pairs, name+"="+form.Get(name))
		}
		slices.Sort(pairs)
		sum := sha256.Sum256([]byte(strings.Join(pairs, "&")))
		signature, err := rsa.SignPKCS1v15(nil, key, crypto.SHA256, sum[:])
		if err != nil {
			return nil, nil, err
		}
		form.Set("sign_type", "RSA2")
		form.Set("sign", base64.StdEncoding.EncodeToString(signature))
		return http.Header{"Content-Type": {"application/x-www-form-urlencoded; text/html; charset=utf-8"}}, []byte(form.Encode()), nil
	}}, nil
}

func alipayTime(t time.Time) string {
	return t.In(time.FixedZone("UTC+8", 8*60*60)).Format(time.DateTime)
}
