package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
)

// Accounts that every merchant has: bank stands for the world outside and may go negative.
const bank = "bank"

func wallet(n int) string { return "wallet-" + strconv.Itoa(n) }

// wallets is how many accounts a merchant's transfers go between: few, so that they meet.
const wallets = 3

const (
	funds    = 1_000_000_000     // of each wallet at the beginning: more than a long run can move
	tooMuch  = 1_000_000_000_000 // more than all wallets together
	currency = "CNY"             // of bank and wallets
)

// transfer draws a transfer; change may give it more parts.
func (p *player) transfer(mode string, change ...func(*Transfer)) *Transfer {
	from := p.rng.IntN(wallets)
	to := (from + 1 + p.rng.IntN(wallets-1)) % wallets
	t := &Transfer{
		Tenant: p.merchant.Tenant, Key: p.name, Mode: mode, From: wallet(from), To: wallet(to), Amount: 1 + p.rng.Int64N(1000), Currency: currency,
	}
	for _, do := range change {
		do(t)
	}
	p.record.keep(func() { p.record.Transfers = append(p.record.Transfers, t) })
	return t
}

func (t *Transfer) body() map[string]any {
	body := map[string]any{"from": t.From, "to": t.To, "amount": t.Amount, "currency": t.Currency, "mode": t.Mode}
	if t.External {
		body["participants"] = []map[string]any{{
			"type": "http", "participant": participantName, "body": map[string]any{"key": t.Key, "refuse": t.Refuses},
		}}
	}
	return body
}

func named(key string) http.Header { return http.Header{"Idempotency-Key": {key}} }

// ask insists on a definite answer: that it is decided, or its refusal.
func (p *player) ask(ctx context.Context, t *Transfer) {
	var id int64
	insist(ctx, func() bool {
		if id != 0 {
			return p.lookAt(ctx, t, id)
		}
		a := p.call(ctx, http.MethodPost, "/v1/transfers", named(t.Key), t.body())
		p.record.keep(func() { t.Sent++ })
		if a.status == http.StatusAccepted {
			id = p.settleTransfer(t, a)
			return false
		}
		return p.settled(t, a)
	})
}

// settled notes a definite answer.
func (p *player) settled(t *Transfer, a answer) bool {
	switch {
	case a.passing():
		return false
	case a.status == http.StatusCreated:
		p.settleTransfer(t, a)
		p.answer(t, Confirmed)
	case a.status == http.StatusConflict:
		p.answer(t, a.code())
	default:
		p.record.strange("transfer %s: %d %s", t.Key, a.status, a.body)
	}
	return true
}

// settleTransfer reads the transfer's number.
func (p *player) settleTransfer(t *Transfer, a answer) int64 {
	var body struct {
		ID int64 `json:"id"`
	}
	if err := json.Unmarshal(a.body, &body); err != nil || body.ID == 0 {
		p.record.strange("transfer %s: %d without its id: %s", t.Key, a.status, a.body)
	}
	return body.ID
}

// lookAt asks what became of a transfer that was under way.
func (p *player) lookAt(ctx context.Context, t *Transfer, id int64) bool {
	a := p.call(ctx, http.MethodGet, fmt.Sprintf("/v1/transfers/%d", id), nil, nil)
	if a.passing() {
		return false
	}
	var body struct {
		State   string `json:"state"`
		Failure string `json:"failure"`
	}
	if err := json.Unmarshal(a.body, &body); err != nil || a.status != http.StatusOK {
		p.record.strange("look at transfer %s: %d %s", t.Key, a.status, a.body)
		return true
	}
	switch body.State {
	case "CONFIRMED", "CONFIRMING":
		p.answer(t, Confirmed)
	case "CANCELLED", "CANCELLING":
		p.answer(t, body.Failure)
	default:
		return false
	}
	return true
}

// answer keeps what the merchant was told. Told twice, it must be the same.
func (p *player) answer(t *Transfer, told string) {
	if told == "" {
		told = "refused without a code"
	}
	before := ""
	p.record.keep(func() {
		if before = t.Answer; before == "" {
			t.Answer = told
		}
	})
	if before != "" && before != told {
		p.record.strange("transfer %s was answered %s and later %s", t.Key, before, told)
	}
}

// post insists that a journal is posted.
func (p *player) post(ctx context.Context, j *Posting) {
	body := map[string]any{"journals": []map[string]any{{"key": j.Key, "lines": []map[string]any{
		{"account": j.From, "currency": j.Currency, "amount": -j.Amount},
		{"account": j.To, "currency": j.Currency, "amount": j.Amount},
	}}}}
	insist(ctx, func() bool {
		a := p.call(ctx, http.MethodPost, "/v1/journals", nil, body)
		p.record.keep(func() { j.Sent++ })
		if a.passing() {
			return false
		}
		var result struct {
			Items []struct {
				State string `json:"state"`
			} `json:"items"`
		}
		if err := json.Unmarshal(a.body, &result); err != nil || a.status != http.StatusOK || len(result.Items) != 1 {
			p.record.strange("journal %s: %d %s", j.Key, a.status, a.body)
			return true
		}
		switch result.Items[0].State {
		case "POSTED", "REPEATED":
			p.record.keep(func() { j.Done = true })
		case "UNKNOWN":
			return false
		default:
			p.record.strange("journal %s: %s", j.Key, a.body)
		}
		return true
	})
}
