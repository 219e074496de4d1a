package stripe

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/paylatch/paylatch/internal/channel"
)

// BillColumns are the columns of a bill: CSV with a header row, one row per balance transaction, newest first. They are
// named as in Stripe's own report "Itemized balance change from activity" (docs.stripe.com/reports/balance), so that a report
// downloaded there with these columns is read like a bill of ours.
//
// Times are UTC, "2006-01-02 15:04:05". gross, fee and net are whole units of currency with decimals, of the currency that
// Stripe settled in; gross is negative where money left, and net is gross less fee. customer_facing_amount is what the payer
// was charged or paid back, in customer_facing_currency. Currencies are in lower case, as everywhere at Stripe.
var BillColumns = []string{
	"balance_transaction_id", "created_utc", "available_on_utc", "currency", "gross", "fee", "net", "reporting_category", "source_id",
	"description", "customer_facing_amount", "customer_facing_currency", "charge_id", "payment_intent_id", "refund_id", "transfer_id",
	"payment_metadata[" + metaOrder + "]", "refund_metadata[" + metaRefund + "]", "transfer_metadata[" + metaShare + "]",
}

// Bill limits. A page is read whole, with its sources.
const (
	billPage    = 100
	maxBillPage = 32 << 20
)

// Bill implements [channel.Acquirer]: the balance transactions of a day, by UTC. The file is written while it is read, page by
// page; an error in the middle is an error of the reader, so that a part is never taken for the whole. A day is ready when it
// is over.
func (a *account) Bill(ctx context.Context, date channel.Date) (io.ReadCloser, error) {
	from := time.Date(date.Year, date.Month, date.Day, 0, 0, 0, 0, time.UTC)
	to := from.AddDate(0, 0, 1)
	if a.now().Before(to) {
		return nil, channel.ErrBillNotReady
	}
	b := &billReader{ctx: ctx, api: a.api, query: url.Values{
		"created[gte]": {fmt.Sprint(from.Unix())},
		"created[lt]":  {fmt.Sprint(to.Unix())},
		"limit":        {fmt.Sprint(billPage)},
		"expand[]":     {"data.source"},
	}}
	b.csv = csv.NewWriter(&b.ready)
	if err := b.csv.Write(BillColumns); err != nil {
		return nil, err
	}
	rows, err := b.next()
	if err != nil {
		return nil, err
	}
	if rows == 0 {
		return nil, channel.ErrNoBill
	}
	return b, nil
}

// billReader fetches a page when the one before is read.
type billReader struct {
	ctx   context.Context
	api   *client
	query url.Values
	csv   *csv.Writer
	ready bytes.Buffer
	last  bool
	err   error
}

func (b *billReader) Read(p []byte) (int, error) {
	for b.ready.Len() == 0 {
		switch {
		case b.err != nil:
			return 0, b.err
		case b.last:
			return 0, io.EOF
		}
		_, b.err = b.next()
	}
	return b.ready.Read(p)
}

func (b *billReader) Close() error {
	b.ready.Reset()
	b.err = errors.New("the bill is closed")
	return nil
}

// next writes the rows of the next page.
func (b *billReader) next() (rows int, err error) {
	p, err := b.page()
	if err != nil {
		return 0, err
	}
	var id string
	for _, raw := range p.Data {
		var t balanceTransaction
		if err := json.Unmarshal(raw, &t); err != nil || t.ID == "" {
			return 0, errors.New("a balance transaction of Stripe's cannot be read")
		}
		row, err := billRow(t)
		if err != nil {
			return 0, err
		}
		if err := b.csv.Write(row); err != nil {
			return 0, err
		}
		id = t.ID
	}
	b.csv.Flush()
	b.last = !p.HasMore || id == ""
	b.query.Set("starting_after", id)
	return len(p.Data), b.csv.Error()
}

func (b *billReader) page() (page, error) {
	req, err := b.api.request(b.ctx, http.MethodGet, "/v1/balance_transactions", b.query)
	if err != nil {
		return page{}, err
	}
	response, err := b.api.caller.Stream(req)
	if err != nil {
		return page{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBillPage+1))
	if err != nil {
		return page{}, fmt.Errorf("read a page of the bill: %w", err)
	}
	if len(body) > maxBillPage {
		return page{}, errors.New("a page of the bill is too large")
	}
	if response.StatusCode != http.StatusOK {
		return page{}, failureOf(channel.Reply{Status: response.StatusCode, Header: response.Header, Body: body})
	}
	var p page
	if err := json.Unmarshal(body, &p); err != nil || p.Object != objectList {
		return page{}, errors.New("a page of the bill cannot be read")
	}
	return p, nil
}

// billSource is what a row needs of a charge, a refund, a transfer or whatever else moved the balance.
type billSource struct {
	header
	Amount        int64             `json:"amount"`
	Currency      string            `json:"currency"`
	PaymentIntent ref               `json:"payment_intent"`
	Charge        ref               `json:"charge"`
	Metadata      map[string]string `json:"metadata"`
}

func billRow(t balanceTransaction) ([]string, error) {
	u, known := unitOf(upper(t.Currency))
	if !known {
		return nil, fmt.Errorf("the bill holds the currency %s, whose amounts nobody can read", quoted(t.Currency))
	}
	var s billSource
	t.Source.expand(&s)
	row := map[string]string{
		"balance_transaction_id":               t.ID,
		"created_utc":                          utc(t.Created),
		"available_on_utc":                     utc(t.AvailableOn),
		"currency":                             t.Currency,
		"gross":                                decimal(t.Amount, u),
		"fee":                                  decimal(t.Fee, u),
		"net":                                  decimal(t.Net, u),
		"reporting_category":                   t.ReportingCategory,
		"source_id":                            t.Source.ID,
		"description":                          t.Description,
		"payment_intent_id":                    s.PaymentIntent.ID,
		"charge_id":                            s.Charge.ID,
		"payment_metadata[" + metaOrder + "]":  s.Metadata[metaOrder],
		"refund_metadata[" + metaRefund + "]":  s.Metadata[metaRefund],
		"transfer_metadata[" + metaShare + "]": s.Metadata[metaShare],
	}
	switch s.Object {
	case objectCharge:
		row["charge_id"] = s.ID
	case objectRefund:
		row["refund_id"] = s.ID
	case objectTransfer:
		row["transfer_id"], row["payment_intent_id"] = s.ID, s.Metadata[metaIntent]
	}
	if facing, known := unitOf(upper(s.Currency)); known && (s.Object == objectCharge || s.Object == objectRefund) {
		row["customer_facing_amount"], row["customer_facing_currency"] = decimal(s.Amount, facing), s.Currency
		if s.Object == objectRefund {
			row["customer_facing_amount"] = decimal(-s.Amount, facing)
		}
	}
	var cells []string
	for _, column := range BillColumns {
		cells = append(cells, row[column])
	}
	return cells, nil
}

func utc(at int64) string {
	if at == 0 {
		return ""
	}
	return time.Unix(at, 0).UTC().Format(time.DateTime)
}
