package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/money"
)

const (
	demoAmount   = 9900
	demoCurrency = "CNY"
)

// playDemo is the whole promise in one order: the same success callback three times at once, one credit. It gives the order.
func playDemo(ctx context.Context, out io.Writer, ch channel.Channel, info devInfo, data string) (order string, err error) {
	sender, ok := ch.(channel.Sender)
	if !ok {
		return "", fmt.Errorf("channel %s cannot be played", ch.Name())
	}
	acct := info.Accounts[ch.Name()]
	config := toJSON(map[string][]string{"secrets": {acct.Secret}})
	merchant := &merchant{base: info.HTTP, key: info.APIKey}

	before, err := merchant.balance(ctx)
	if err != nil {
		return "", err
	}
	order = "demo-" + time.Now().UTC().Format("20060102-150405.000")
	if err := merchant.create(ctx, order); err != nil {
		return "", err
	}
	begin := time.Now()
	acks, err := deliver(ctx, sender, config, info.HTTP, acct.Account, channel.Sample{
		TransactionID: "tx-" + order, OutTradeNo: order, Amount: demoAmount, Currency: demoCurrency, OccurredAt: begin,
	}, 3, 3)
	if err != nil {
		return "", err
	}
	paid, err := merchant.awaitPaid(ctx, order)
	if err != nil {
		return "", err
	}
	took := time.Since(begin)
	after, err := merchant.balance(ctx)
	if err != nil {
		return "", err
	}

	fmt.Fprintf(out, "  order          %s: %s\n", order, money.Format(demoAmount, demoCurrency))
	fmt.Fprintf(out, "  callbacks      the same one three times at once:\n")
	for _, a := range acks {
		fmt.Fprintf(out, "                   %s\n", a)
	}
	fmt.Fprintf(out, "  state          %s after %s\n", paid.State, took.Round(time.Millisecond))
	fmt.Fprintf(out, "  journals       %d: %s\n", len(paid.JournalKeys), firstOf(paid.JournalKeys...))
	fmt.Fprintf(out, "  balance        merchant %s -> %s\n", money.Format(before, demoCurrency), money.Format(after, demoCurrency))
	fmt.Fprintf(out, "  workflow       %s\n                 %s\n\n", paid.WorkflowID, paid.TemporalUI)
	if len(paid.JournalKeys) != 1 || after-before != demoAmount {
		return "", errors.New("the money was not credited exactly once: please report this with " + data + "/paylatch.log")
	}
	return order, nil
}

// merchant calls the API as a merchant does.
type merchant struct{ base, key string }

type demoPayment struct {
	State       string   `json:"state"`
	JournalKeys []string `json:"journal_keys"`
	WorkflowID  string   `json:"workflow_id"`
	TemporalUI  string   `json:"temporal_ui"`
}

func (m *merchant) balance(ctx context.Context) (int64, error) {
	var account struct {
		Balance int64 `json:"balance"`
	}
	err := m.call(ctx, http.MethodGet, "/v1/accounts/merchant?currency="+demoCurrency, nil, &account)
	return account.Balance, err
}

func (m *merchant) create(ctx context.Context, order string) error {
	return m.call(ctx, http.MethodPost, "/v1/payments", map[string]any{
		"out_trade_no": order, "amount": demoAmount, "currency": demoCurrency, "description": "one book",
	}, &struct{}{})
}

func (m *merchant) awaitPaid(ctx context.Context, order string) (demoPayment, error) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		var p demoPayment
		if err := m.call(ctx, http.MethodGet, "/v1/payments/"+order, nil, &p); err != nil || p.State == "PAID" {
			return p, err
		}
		select {
		case <-ctx.Done():
			return p, fmt.Errorf("order %s is still %s: %w", order, p.State, ctx.Err())
		case <-tick.C:
		}
	}
}

func (m *merchant) call(ctx context.Context, method, path string, body, answer any) error {
	var content io.Reader
	if body != nil {
		content = bytes.NewReader(toJSON(body))
	}
	request, err := http.NewRequestWithContext(ctx, method, m.base+path, content)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+m.key)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return err
	}
	if response.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %d %s", method, path, response.StatusCode, text)
	}
	return json.Unmarshal(text, answer)
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	rand.Read(b)
	return b
}
