package alipay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/strictjson"
)

// reply is a signed answer of the gateway.
type reply struct {
	result
	body   []byte          // the whole of it, as it came
	answer json.RawMessage // the part that is signed
}

// call makes a signed call and gives the reply once its signature holds. Whatever its error, it is unknown whether Alipay did
// it: what the gateway says is believed only when it signed it.
func (a *account) call(ctx context.Context, method string, content any, more ...string) (reply, error) {
	params, err := a.request(method, content, more...)
	if err != nil {
		return reply{}, err
	}
	// The gateway decodes the form by the charset in the address, so all but the content stands there, as in Alipay's samples.
	form := url.Values{"biz_content": {params.Get("biz_content")}}
	params.Del("biz_content")
	address := *a.baseURL
	address.RawQuery = params.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address.String(), strings.NewReader(form.Encode()))
	if err != nil {
		return reply{}, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded;charset=utf-8")
	got, err := a.caller.Do(req)
	if err != nil {
		return reply{}, err
	}
	if got.Status != http.StatusOK {
		return reply{}, fmt.Errorf("the gateway answered %s with status %d", method, got.Status)
	}
	return a.open(method, got.Body)
}

// request gives the parameters of a call with its signature; more are further parameters, name and value by turns.
func (a *account) request(method string, content any, more ...string) (url.Values, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(content); err != nil {
		return nil, fmt.Errorf("write the content of %s: %w", method, err)
	}
	f := form{
		"app_id": a.appID, "method": method, "format": "JSON", "charset": "utf-8", "sign_type": a.signType, "version": "1.0",
		"timestamp": a.now().In(shanghai).Format(timeLayout), "biz_content": strings.TrimSpace(text.String()),
	}
	for i := 0; i+1 < len(more); i += 2 {
		if more[i+1] != "" {
			f[more[i]] = more[i+1]
		}
	}
	signature, err := a.sign(f.text(false))
	if err != nil {
		return nil, fmt.Errorf("sign %s: %w", method, err)
	}
	params := url.Values{"sign": {signature}}
	for name, value := range f {
		params.Set(name, value)
	}
	return params, nil
}

// open takes the answer out of a reply, byte for byte, and holds the signature to it. Error: [channel.ErrUnproven].
func (a *account) open(method string, body []byte) (reply, error) {
	var envelope map[string]json.RawMessage
	if err := strictjson.Unmarshal(body, &envelope); err != nil {
		return reply{}, fmt.Errorf("%w: the reply to %s is not one JSON object", channel.ErrUnproven, method)
	}
	answer, ok := envelope[member(method)]
	if !ok {
		answer = envelope["error_response"]
	}
	r := reply{body: body, answer: answer}
	if err := json.Unmarshal(answer, &r.result); err != nil {
		return reply{}, fmt.Errorf("%w: the reply to %s holds no answer", channel.ErrUnproven, method)
	}
	var text string
	_ = json.Unmarshal(envelope["sign"], &text) // no signature, or none that can be read, does not hold
	signature, ok := decodeSignature(text)
	if !ok || !a.signed(hashes[a.signType], answer, signature) {
		return reply{}, &unproven{method, r.result}
	}
	return r, nil
}

// unproven is a reply that Alipay may not have made. What it says is for people and decides nothing.
type unproven struct {
	method string
	says   result
}

func (u *unproven) Error() string {
	return fmt.Sprintf("%v: the reply to %s says %s", channel.ErrUnproven, u.method, u.says)
}

func (u *unproven) Unwrap() error { return channel.ErrUnproven }

// read puts the answer into v; called for answers of success.
func (r reply) read(v any) error {
	if err := json.Unmarshal(r.answer, v); err != nil {
		return errors.New("the answer's fields cannot be read")
	}
	return nil
}

// String is for people.
func (r result) String() string {
	return strings.Join(strings.Fields(strings.Join([]string{shortened(string(r.Code)), shortened(r.SubCode), shortened(r.Msg), shortened(r.SubMsg)}, " ")), " ")
}

func shortened(s string) string {
	if runes := []rune(s); len(runes) > 200 {
		return string(runes[:200]) + "…"
	}
	return s
}
