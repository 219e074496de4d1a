package wechatpay

import (
	"crypto/aes"
	"crypto/cipher"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/strictjson"
)

// Config of an account. Public keys and platform certificates are live together: WeChat Pay names in each message the one
// that it signed with, and moves from old to new over days.
type Config struct {
	MchID              string `json:"mch_id"`
	AppID              string `json:"app_id"`
	APIv3Key           string `json:"api_v3_key"`
	MerchantSerial     string `json:"merchant_serial"`
	MerchantPrivateKey string `json:"merchant_private_key"`
	// PublicKeys are WeChat Pay's public keys by their ids (PUB_KEY_ID_…).
	PublicKeys map[string]string `json:"public_keys,omitempty"`
	// PlatformCertificates are WeChat Pay's certificates by their serial numbers.
	PlatformCertificates map[string]string `json:"platform_certificates,omitempty"`
	// BaseURL is the API's address; empty is the real one.
	BaseURL string `json:"base_url,omitempty"`
}

const defaultBaseURL = "https://api.mch.weixin.qq.com"

var (
	mchIDPattern  = regexp.MustCompile(`^[0-9]{6,32}$`)
	appIDPattern  = regexp.MustCompile(`^[0-9A-Za-z_-]{1,32}$`)
	serialPattern = regexp.MustCompile(`^[0-9A-Fa-f]{8,64}$`)
)

// open reads a configuration. Its errors quote nothing but identifiers: what stands in a field may be a secret that was
// pasted into the wrong one.
func open(config []byte) (*account, error) {
	var cfg Config
	if err := strictjson.UnmarshalKnown(config, &cfg); err != nil {
		return nil, errors.New("the configuration of a wechatpay account is a JSON object of mch_id, app_id, api_v3_key, merchant_serial, " +
			"merchant_private_key, public_keys, platform_certificates and base_url")
	}
	switch {
	case !mchIDPattern.MatchString(cfg.MchID):
		return nil, errors.New("mch_id must be the merchant number: 6 to 32 digits")
	case !appIDPattern.MatchString(cfg.AppID):
		return nil, errors.New("app_id must be the application's id, such as wx0123456789abcdef")
	case len(cfg.APIv3Key) != apiV3KeyBytes:
		return nil, fmt.Errorf("api_v3_key must have exactly %d bytes, not %d", apiV3KeyBytes, len(cfg.APIv3Key))
	case !serialPattern.MatchString(cfg.MerchantSerial):
		return nil, errors.New("merchant_serial must be the hexadecimal serial number of the merchant's API certificate")
	}
	block, err := aes.NewCipher([]byte(cfg.APIv3Key))
	if err != nil {
		return nil, errors.New("api_v3_key is no AES key") // its length was checked
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("prepare AES-256-GCM: %w", err)
	}
	private, err := readPrivateKey(cfg.MerchantPrivateKey)
	if err != nil {
		return nil, fmt.Errorf("merchant_private_key %w", err)
	}
	keys, err := openKeys(cfg, &private.PublicKey)
	if err != nil {
		return nil, err
	}
	base, err := channel.BaseURL(cfg.BaseURL, defaultBaseURL)
	if err != nil {
		return nil, err
	}
	return &account{
		mchID: cfg.MchID, appID: cfg.AppID, aead: aead, serial: strings.ToUpper(cfg.MerchantSerial), private: private,
		keys: keys, base: base, caller: channel.NewCaller(),
	}, nil
}

// apiV3KeyBytes is the length of AES-256's key; the protocol knows no other.
const apiV3KeyBytes = 32
