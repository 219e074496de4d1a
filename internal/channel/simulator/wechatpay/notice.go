package wechatpay

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"sync/atomic"
	"time"
)

// notify sends a notice. Its body is made once, so every attempt is the same bytes; each attempt is signed anew. A probe is
// the first attempt alone: what is refused comes again, signed for real.
func (s *Simulator) notify(url, eventType, originalType, summary string, facts any) {
	body := s.notice(eventType, originalType, summary, facts)
	var attempts atomic.Int64
	s.core.Notify(url, func(signWith string, at time.Time) (http.Header, []byte) {
		if attempts.Add(1) > 1 && signWith == "probe" {
			signWith = ""
		}
		return s.signNotice(signWith, body, at), body
	})
}

func (s *Simulator) notice(eventType, originalType, summary string, facts any) []byte {
	plain, err := json.Marshal(facts)
	if err != nil {
		panic(err) // the facts are made here
	}
	sealed := s.keys.seal(plain, originalType)
	sealed["original_type"] = originalType
	body, err := json.Marshal(map[string]any{
		"id": nonce(4) + "-" + nonce(2) + "-5" + nonce(2)[:3] + "-a" + nonce(2)[:3] + "-" + nonce(6), "create_time": rfc3339(s.now()), "resource_type": "encrypt-resource",
		"event_type": eventType, "summary": summary, "resource": sealed,
	})
	if err != nil {
		panic(err) // as above
	}
	return body
}

// signNotice signs with the key of a name. A probe is what WeChat Pay sends to see whether a wrong signature is refused.
func (s *Simulator) signNotice(with string, body []byte, at time.Time) http.Header {
	h := s.keys.named(with).headers(body, at)
	if with == "probe" {
		h.Set("Wechatpay-Signature", "WECHATPAY/SIGNTEST/"+base64.StdEncoding.EncodeToString([]byte(nonce(128))))
	}
	h.Set("Content-Type", "application/json")
	return h
}

// Sign gives the headers of any body as a notice, for tests.
func (s *Simulator) Sign(with string, body []byte, at time.Time) http.Header {
	return s.signNotice(with, body, at)
}

// Notice makes the body of a notice of any facts, for tests.
func (s *Simulator) Notice(eventType, originalType string, facts any) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.notice(eventType, originalType, "", facts)
}

// NotifyShare sends what WeChat Pay tells a receiver, and never the merchant that shares.
func (s *Simulator) NotifyShare(outOrderNo, account, url string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	sh, known := s.shares[outOrderNo]
	if !known {
		return errors.New("there is no such sharing")
	}
	for _, l := range sh.legs {
		if l.Account == account && l.result == "SUCCESS" {
			s.notify(url, "PROFITSHARING.SUCCESS", "profitsharing", "分账", map[string]any{
				"mchid": mchID, "transaction_id": sh.order.transactionID, "order_id": sh.id, "out_order_no": outOrderNo,
				"receiver":     map[string]any{"type": l.Type, "account": l.Account, "amount": l.Amount, "description": l.Description},
				"success_time": rfc3339(l.finished),
			})
			return nil
		}
	}
	return errors.New("the receiver got nothing of it")
}

// certificates gives the platform's certificates, encrypted under the APIv3 key.
func (s *Simulator) certificates(*http.Request, []byte) answer {
	var list []any
	for _, k := range []signer{s.keys.old, s.keys.fresh} {
		sealed := s.keys.seal([]byte(certificatePEM(k.der)), "certificate")
		list = append(list, map[string]any{"serial_no": k.id, "encrypt_certificate": sealed})
	}
	return ok(map[string]any{"data": list})
}
