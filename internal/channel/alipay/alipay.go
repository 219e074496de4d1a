// Package alipay is the channel of Alipay's open platform (mainland China, the gateway's version 1.0 with JSON): notices in
// forms that carry their signature, and signed calls with signed replies.
//
// What the protocol says is at opendocs.alipay.com: notices (open/270/105902), signatures (common/02kf5q), public codes
// (common/02km9f), and a page for each method. Amounts are yuan with two decimals; times are of Shanghai's clock.
package alipay

import (
	"crypto"
	"crypto/rsa"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/strictjson"
)

// Name of the channel.
const Name = "alipay"

// Signature algorithms in Alipay's words: RSA2 is SHA-256 with RSA, RSA is SHA-1 with RSA.
const (
	rsa2 = "RSA2"
	rsa1 = "RSA"
)

const (
	gateway  = "https://openapi.alipay.com/gateway.do"
	currency = "CNY"
)

// shanghai is the zone of every time that Alipay writes or reads. China has had no other offset since 1991.
var shanghai = time.FixedZone("Asia/Shanghai", 8*60*60)

const timeLayout = "2006-01-02 15:04:05"

// Channel implements [channel.Channel].
type Channel struct{}

// Config of an account. Keys are PEM, or the bare base64 that Alipay's tools give.
type Config struct {
	AppID           string `json:"app_id"`
	SellerID        string `json:"seller_id"`         // the user id 2088… of the account that is paid
	AppPrivateKey   string `json:"app_private_key"`   // PKCS #8 or PKCS #1
	AlipayPublicKey string `json:"alipay_public_key"` // Alipay's own, not the app's
	SignType        string `json:"sign_type,omitempty"`
	BaseURL         string `json:"base_url,omitempty"`
	// QRProductCode names the product that was signed for codes that payers scan: FACE_TO_FACE_PAYMENT, which is Alipay's
	// default, or QR_CODE_OFFLINE.
	QRProductCode string `json:"qr_product_code,omitempty"`
}

// Name implements [channel.Channel].
func (Channel) Name() string { return Name }

// Open implements [channel.Channel].
func (Channel) Open(_ string, config []byte) (channel.Account, error) {
	var cfg Config
	if err := strictjson.UnmarshalKnown(config, &cfg); err != nil {
		// The error of encoding/json may quote what it read.
		return nil, errors.New(`the configuration of an alipay account is {"app_id", "seller_id", "app_private_key", "alipay_public_key"}, ` +
			`and where they are not the usual ones {"sign_type", "base_url", "qr_product_code"}; all are texts`)
	}
	return open(cfg)
}

func open(cfg Config) (*account, error) {
	if !isVisible(cfg.AppID) {
		return nil, errors.New("app_id must be 1 to 64 visible characters without blanks")
	}
	// A seller has one user id and may have several logins: by a login the same seller could be configured twice, Alipay takes none
	// when an order is made, and notices need not have it.
	if !userID.MatchString(cfg.SellerID) {
		return nil, errors.New("seller_id must be the seller's user id at Alipay, 16 digits that begin with 2088, and not a login")
	}
	if cfg.QRProductCode != "" && !isVisible(cfg.QRProductCode) {
		return nil, errors.New("qr_product_code must be 1 to 64 visible characters without blanks")
	}
	a := &account{
		appID: cfg.AppID, sellerID: cfg.SellerID, qrProduct: cfg.QRProductCode,
		signType: cfg.SignType, caller: channel.NewCaller(), now: time.Now, maxBill: maxBill,
	}
	if a.signType == "" {
		a.signType = rsa2
	}
	if _, known := hashes[a.signType]; !known {
		return nil, errors.New("sign_type must be RSA2, or RSA where the app was set up with it")
	}
	var err error
	if a.baseURL, err = channel.BaseURL(cfg.BaseURL, gateway); err != nil {
		return nil, err
	}
	if a.key, a.alipayKey, err = parseKeys(cfg, a.signType); err != nil {
		return nil, err
	}
	return a, nil
}

// userID is how Alipay names an account: 16 digits that begin with 2088.
var userID = regexp.MustCompile(`^2088[0-9]{12}$`)

// hashes by signature algorithm.
var hashes = map[string]crypto.Hash{rsa2: crypto.SHA256, rsa1: crypto.SHA1}

func isVisible(s string) bool {
	return s != "" && len(s) <= 64 && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

// success is the whole of the acknowledgement: one byte more, and Alipay sends again.
const success = "success"

// Accepted implements [channel.Channel].
func (Channel) Accepted() channel.Ack {
	return channel.Ack{Status: http.StatusOK, ContentType: "text/plain", Body: []byte(success)}
}

// Refused implements [channel.Channel]. Alipay reads no reason.
func (Channel) Refused(status int, _, _ string) channel.Ack {
	return channel.Ack{Status: status, ContentType: "text/plain", Body: []byte("failure")}
}

type account struct {
	appID, sellerID string
	signType        string
	qrProduct       string
	baseURL         *url.URL
	key             *rsa.PrivateKey // the app's
	alipayKey       *rsa.PublicKey
	caller          *channel.Caller
	now             func() time.Time
	maxBill         int64
}

var _ channel.Acquirer = (*account)(nil)

// Identity names the app and the seller: one app may be paid for several.
func (a *account) Identity() string { return a.appID + ":" + a.sellerID }
