// Package wechatpay is the channel of WeChat Pay APIv3, for merchants of their own (no service providers), in both
// directions: notices in, signed calls out. It is written on the standard library's crypto.
//
// What proves a message is not quite the same on both ways. A reply belongs to the request that it answers. A notice is
// proven by the platform's signature, and by its resource, which opens under the account's own APIv3 key alone; that is
// why a callback that has the form of a reply is refused although it is signed (see [account.Verify]).
//
// The answers of our own queries are kept as receipts like notices are, so Parse reads both, and the same fact gives the
// same event on either way.
//
// Protocol: https://pay.weixin.qq.com/doc/v3/merchant/4012365342 (rules), …/4012082053 (notices), and the API pages that
// the files name.
package wechatpay

import (
	"crypto/cipher"
	"crypto/rsa"
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/paylatch/paylatch/internal/channel"
)

// Name of the channel.
const Name = "wechatpay"

// Channel implements [channel.Channel].
type Channel struct{}

// Name implements [channel.Channel].
func (Channel) Name() string { return Name }

// Open implements [channel.Channel]. The account is a [channel.Acquirer] too.
func (Channel) Open(_ string, config []byte) (channel.Account, error) {
	return open(config)
}

// Accepted implements [channel.Channel]: WeChat Pay wants 200 or 204 and no body.
func (Channel) Accepted() channel.Ack { return channel.Ack{Status: http.StatusNoContent} }

// Refused implements [channel.Channel]. The status is what counts: 200 with FAIL would never be sent again.
func (Channel) Refused(status int, _, detail string) channel.Ack {
	body, err := json.Marshal(struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}{"FAIL", detail})
	if err != nil {
		panic(err) // two strings always marshal
	}
	return channel.Ack{Status: status, ContentType: "application/json", Body: body}
}

// account implements [channel.Account] and [channel.Acquirer].
type account struct {
	mchID   string
	appID   string
	aead    cipher.AEAD // under the APIv3 key
	serial  string      // of the merchant's certificate
	private *rsa.PrivateKey
	keys    keyring
	base    *url.URL
	caller  *channel.Caller
}

var (
	_ channel.Account  = (*account)(nil)
	_ channel.Acquirer = (*account)(nil)
)

// Identity is the merchant number: one merchant cannot be configured twice.
func (a *account) Identity() string { return a.mchID }
