package wechatpay

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/strictjson"
)

// chinaTime is the zone of the protocol's times and of its bills.
var chinaTime = time.FixedZone("UTC+8", 8*60*60)

// get asks, and reads the answer into out; nil takes any.
func (a *account) get(ctx context.Context, path string, query url.Values, out any) ([]byte, error) {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return a.call(ctx, http.MethodGet, path, nil, "", out)
}

// post sends in, and reads the answer into out. sealedFor names the platform's key that secrets in it are encrypted with.
func (a *account) post(ctx context.Context, path string, in any, sealedFor string, out any) ([]byte, error) {
	body, err := json.Marshal(in)
	if err != nil {
		return nil, fmt.Errorf("write the request: %w", err)
	}
	return a.call(ctx, http.MethodPost, path, body, sealedFor, out)
}

// call makes a signed request and gives the body of a verified answer. Errors: [*apiError], which is verified too, or any
// other, after which it is unknown what became of the call.
func (a *account) call(ctx context.Context, method, path string, body []byte, sealedFor string, out any) ([]byte, error) {
	req, err := a.request(ctx, method, a.base.String()+path, body)
	if err != nil {
		return nil, err
	}
	// WeChat Pay answers under the key that the request names.
	if sealedFor != "" {
		req.Header.Set(headerSerial, sealedFor)
	} else if key, ok := a.keys.public(); ok {
		req.Header.Set(headerSerial, key.id)
	}
	reply, err := a.caller.Do(req)
	if err != nil {
		return nil, err
	}
	if refusal := a.authenticate(reply.Header, reply.Body, time.Now()); refusal != nil {
		return nil, unproven(reply, refusal)
	}
	switch reply.Status {
	case http.StatusOK:
		if out == nil {
			return reply.Body, nil
		}
		if err := strictjson.Unmarshal(reply.Body, out); err != nil {
			return nil, fmt.Errorf("read WeChat Pay's answer: %w", unusable(err))
		}
		return reply.Body, nil
	case http.StatusNoContent:
		if out != nil {
			return nil, errors.New("read WeChat Pay's answer: it is empty")
		}
		return nil, nil
	default:
		// 202 is none of success either: the payer is about to pay.
		return nil, readAPIError(reply)
	}
}

// request makes a signed request. What is signed is the address as it goes over the wire.
// https://pay.weixin.qq.com/doc/v3/merchant/4012365336
func (a *account) request(ctx context.Context, method, address string, body []byte) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("make a request to WeChat Pay: the address cannot be read")
	}
	timestamp, nonce := strconv.FormatInt(time.Now().Unix(), 10), newNonce()
	signature, err := a.sign(method, req.URL.RequestURI(), timestamp, nonce, string(body))
	if err != nil {
		return nil, fmt.Errorf("sign the request: %w", err)
	}
	req.Header.Set("Authorization", fmt.Sprintf(`%s mchid="%s",nonce_str="%s",signature="%s",timestamp="%s",serial_no="%s"`,
		signatureType, a.mchID, nonce, signature, timestamp, a.serial))
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "paylatch")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, nil
}

// newNonce gives 32 random characters.
func newNonce() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}

// apiError is an error that WeChat Pay told, signed.
type apiError struct {
	status  int
	code    string
	message string
}

func (e *apiError) Error() string {
	return fmt.Sprintf("WeChat Pay answered %d %s: %s", e.status, e.code, e.message)
}

func readAPIError(reply channel.Reply) *apiError {
	var said struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	if strictjson.Unmarshal(reply.Body, &said) != nil {
		said.Code = "" // no code is no definite one
	}
	return &apiError{reply.Status, shortened(said.Code, 64), shortened(said.Message, 400)}
}

// unprovenError is a reply that is not signed as it must be. A gateway's error page is one, and so is a redirect. It is an
// [channel.ErrUnproven]: what it says is told for people alone.
type unprovenError struct {
	status  int
	code    string
	refusal *channel.Refusal
}

func unproven(reply channel.Reply, refusal *channel.Refusal) error {
	return &unprovenError{reply.Status, readAPIError(reply).code, refusal}
}

func (e *unprovenError) Error() string {
	said := ""
	if e.code != "" {
		said = ", unproven code " + quoted(e.code)
	}
	return fmt.Sprintf("%s: status %d%s: %s", channel.ErrUnproven, e.status, said, e.refusal.Detail)
}

func (e *unprovenError) Unwrap() error { return channel.ErrUnproven }

// another says that an answer is about something else than was asked; its signature covers the answer alone.
func another(what string) error {
	return fmt.Errorf("the answer is about another %s: %w", what, channel.ErrUnproven)
}
