package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/paylatch/paylatch/internal/tenant"
	"github.com/paylatch/paylatch/internal/testhouse"
	"github.com/paylatch/paylatch/internal/transfer"
)

// account opens an account in CNY with an amount, out of an account that may go negative.
func (f *face) account(t *testing.T, code string, amount int64) {
	t.Helper()
	f.call(t, "POST", "/v1/accounts", `{"code":"`+code+`","currency":"CNY"}`).is(t, 201)
	if amount != 0 {
		f.fund(t, "fund "+code, code, amount)
	}
}

func (f *face) fund(t *testing.T, key, code string, amount int64) {
	t.Helper()
	f.call(t, "POST", "/v1/accounts", `{"code":"funding","currency":"CNY","allow_negative":true}`)
	require.Equal(t, []any{"POSTED"}, f.call(t, "POST", "/v1/journals", journals(journal(key, "funding", code, amount))).items(t, "state"))
}

func move(from, to string, amount int64) string {
	return fmt.Sprintf(`{"from":%q,"to":%q,"amount":%d,"currency":"CNY"}`, from, to, amount)
}

// and adds fields to a JSON object.
func and(body, fields string) string { return strings.TrimSuffix(body, "}") + "," + fields + "}" }

// transfer asks for a transfer under a key; empty sends none. More headers follow as names and values.
func (f *face) transfer(t *testing.T, key, body string, headers ...string) reply {
	t.Helper()
	if key != "" {
		headers = append(headers, "Idempotency-Key", key)
	}
	return f.send(t, f.transferRequest(t, body, headers...))
}

func (f *face) transferRequest(t *testing.T, body string, headers ...string) *http.Request {
	t.Helper()
	r := f.request(t, "POST", "/v1/transfers", body)
	r.Header.Set("Authorization", "Bearer "+f.APIKey)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

// replayed requires the answer of an earlier transfer.
func (r reply) replayed(t *testing.T, first reply) {
	t.Helper()
	require.Equal(t, first.StatusCode, r.StatusCode)
	require.Equal(t, first.Text, r.Text)
	require.Empty(t, first.Header.Get("Idempotency-Replayed"))
	require.Equal(t, "true", r.Header.Get("Idempotency-Replayed"))
}

func (f *face) transfers(t *testing.T) int {
	t.Helper()
	return f.Count(t, "SELECT count(*) FROM transfers")
}

func TestATransferMovesOnceHoweverItIsNamed(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	f.account(t, "a", 500)
	f.account(t, "b", 0)
	before := f.Journals(t)
	first := f.transfer(t, "k-1", move("a", "b", 200)).is(t, 201)
	got := first.fields(t)
	require.Equal(t, "CONFIRMED", got["state"])
	require.Equal(t, "direct", got["mode"])
	require.NotEmpty(t, got["decided_at"])
	require.NotEmpty(t, got["ended_at"])
	require.NotContains(t, got, "workflow_id")
	require.NotContains(t, got, "reference")
	require.JSONEq(t, `[{"type":"ledger","account":"a","amount":-200,"currency":"CNY"},{"type":"ledger","account":"b","amount":200,"currency":"CNY"}]`, marshal(t, got["legs"]))

	f.transfer(t, "k-1", move("a", "b", 200)).replayed(t, first)
	f.transfer(t, `"k-1"`, move("a", "b", 200)).replayed(t, first)
	f.transfer(t, "", move("a", "b", 200), "X-Idempotency-Key", "k-1").replayed(t, first)
	f.transfer(t, "", move("a", "b", 200), "X-Idempotency-Key", `"k-1"`).replayed(t, first)
	f.transfer(t, "k-1", ` { "currency" : "CNY", "amount":200, "to":"b", "from":"a" } `).replayed(t, first)
	f.transfer(t, "K-1", move("a", "b", 1)).is(t, 201) // another case is another key

	require.Equal(t, before+2, f.Journals(t))
	require.Equal(t, "299", f.balance(t, "a"))
	require.Equal(t, "201", f.balance(t, "b"))
	require.Equal(t, first.Text, f.call(t, "GET", fmt.Sprint("/v1/transfers/", got["id"]), "").is(t, 200).Text)
	require.Empty(t, f.driver.TakeTransfers(), "no flow")
	f.RequireInvariants(t)
	f.requireNoError(t)
}

func TestAMalformedKeyIsRefused(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	f.account(t, "a", 500)
	f.account(t, "b", 0)
	const plain, x = "Idempotency-Key", "X-Idempotency-Key"
	for name, headers := range map[string][]string{
		"two":                  {plain, "k", plain, "k"},
		"two of the other":     {x, "k", x, "k"},
		"both":                 {plain, "k", x, "k"},
		"empty":                {plain, ""},
		"empty, the other":     {x, ""},
		"empty in quotes":      {plain, `""`},
		"one quote":            {plain, `"`},
		"a quote at the start": {plain, `"k`},
		"256":                  {plain, strings.Repeat("k", 256)},
		"256 in quotes":        {plain, `"` + strings.Repeat("k", 256) + `"`},
		"a tab":                {plain, "k\tk"},
		"a space":              {plain, "k k"},
		"not ASCII":            {plain, "kéy"},
		"bytes":                {plain, "k\xff"},
	} {
		t.Run(name, func(t *testing.T) {
			f.transfer(t, "", move("a", "b", 1), headers...).problem(t, 400, "idempotency_key_malformed")
			f.transfer(t, "", and(move("a", "b", 1), `"reference":"r"`), headers...).problem(t, 400, "idempotency_key_malformed")
		})
	}
	for _, body := range []string{move("a", "b", 1), and(move("a", "b", 1), `"reference":""`), and(move("a", "b", 1), `"reference":null`)} {
		f.transfer(t, "", body).problem(t, 400, "idempotency_key_required")
	}
	for _, reference := range []string{strings.Repeat("r", 129), `a\u0000`, `a\n`, `a\u0085`} {
		f.transfer(t, "k", and(move("a", "b", 1), `"reference":"`+reference+`"`)).problem(t, 400, "reference_invalid")
	}
	for _, control := range []string{"\x00", "\x01", "\x7f", "\v"} {
		require.Equal(t, 400, f.raw(t, "POST /v1/transfers HTTP/1.1\r\nHost: h\r\nConnection: close\r\nAuthorization: Bearer "+f.APIKey+
			"\r\nIdempotency-Key: k"+control+"k\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"))
	}
	require.Zero(t, f.transfers(t))
	for _, key := range []string{strings.Repeat("k", 255), `"` + strings.Repeat("q", 255) + `"`, "!", "~", `k"k`} {
		f.transfer(t, key, move("a", "b", 1)).is(t, 201)
	}
	f.transfer(t, "", and(move("a", "b", 1), `"reference":"`+strings.Repeat("书", 128)+`"`)).is(t, 201)
	f.RequireInvariants(t)
	f.requireNoError(t)
}

// raw sends bytes that no client of ours would send, and gives the status.
func (f *face) raw(t *testing.T, request string) (status int) {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(f.URL, "http://"))
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, request)
	require.NoError(t, err)
	_, err = fmt.Fscanf(conn, "HTTP/1.1 %d", &status)
	require.NoError(t, err)
	return status
}

func TestANameIsOfOneRequest(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	f.account(t, "a", 500)
	f.account(t, "b", 0)
	f.account(t, "c", 0)
	before := f.Journals(t)
	referred := func(body, reference string) string { return and(body, `"reference":"`+reference+`"`) }

	f.transfer(t, "k", move("a", "b", 1)).is(t, 201)
	for name, body := range map[string]string{
		"amount":    move("a", "b", 2),
		"to":        move("a", "c", 1),
		"direction": move("b", "a", 1),
		"mode":      and(move("a", "b", 1), `"mode":"tcc"`),
		"reference": referred(move("a", "b", 1), "r"),
		"more legs": and(move("a", "b", 1), `"participants":[{"type":"stock","sku":"x","quantity":1}]`),
	} {
		t.Run(name, func(t *testing.T) {
			f.transfer(t, "k", body).problem(t, 422, "idempotency_key_reused")
		})
	}
	require.Equal(t, before+1, f.Journals(t))

	first := f.transfer(t, "k-1", referred(move("a", "b", 5), "r-1")).is(t, 201)
	require.Equal(t, "r-1", first.fields(t)["reference"])
	f.transfer(t, "k-2", referred(move("a", "b", 5), "r-1")).replayed(t, first)
	f.transfer(t, "", referred(move("a", "b", 5), "r-1")).replayed(t, first)
	f.transfer(t, "k-1", referred(move("a", "b", 5), "r-1")).replayed(t, first)
	f.transfer(t, "k-1", move("a", "b", 5)).problem(t, 422, "idempotency_key_reused") // the reference is a part of it
	f.transfer(t, "k-3", referred(move("a", "b", 6), "r-1")).problem(t, 422, "reference_reused")
	f.transfer(t, "", referred(move("a", "b", 6), "r-1")).problem(t, 422, "reference_reused")
	require.Equal(t, before+2, f.Journals(t))
	require.Equal(t, 2, f.transfers(t))
	require.Equal(t, "494", f.balance(t, "a"))
	f.RequireInvariants(t)
}

func TestManyAtOnceUnderOneNameAreOneTransfer(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"direct", "tcc"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			f := newFace(t)
			f.account(t, "a", 500)
			f.account(t, "b", 0)
			before := f.Journals(t)
			body := and(move("a", "b", 200), `"mode":"`+mode+`"`)
			replies := f.atOnce(t, 20, func(i int) *http.Request {
				name := []string{"Idempotency-Key", "X-Idempotency-Key"}[i%2]
				return f.transferRequest(t, body, name, []string{"k", `"k"`}[i/2%2])
			})
			made := 0
			for _, r := range replies {
				require.Equal(t, replies[0].is(t, 201).fields(t)["id"], r.is(t, 201).fields(t)["id"])
				if r.Header.Get("Idempotency-Replayed") == "" {
					made++
				}
			}
			require.Equal(t, 1, made, "all others are replays")

			byReference := and(body, `"reference":"r"`)
			replies = f.atOnce(t, 20, func(i int) *http.Request {
				return f.transferRequest(t, byReference, "Idempotency-Key", fmt.Sprint("k-", i))
			})
			for _, r := range replies {
				require.Equal(t, replies[0].fields(t)["id"], r.is(t, 201).fields(t)["id"])
			}
			require.Equal(t, before+2, f.Journals(t))
			require.Equal(t, 2, f.transfers(t))
			require.Equal(t, "100", f.balance(t, "a"))
			f.RequireInvariants(t)
			f.requireNoError(t)
		})
	}
}

// atOnce sends requests at the same time.
func (f *face) atOnce(t *testing.T, n int, request func(i int) *http.Request) []reply {
	t.Helper()
	requests, replies := make([]*http.Request, n), make([]reply, n)
	for i := range requests {
		requests[i] = request(i)
	}
	var group errgroup.Group
	for i, r := range requests {
		group.Go(func() error {
			response, err := http.DefaultClient.Do(r)
			if err != nil {
				return err
			}
			defer response.Body.Close()
			text, err := io.ReadAll(response.Body)
			replies[i] = reply{response, string(text)}
			return err
		})
	}
	require.NoError(t, group.Wait())
	for i, r := range replies {
		requireDescribed(t, requests[i].Method, requests[i].URL.Path, r)
	}
	return replies
}

func TestManyTransfersOfOneAccountNeverOverdrawIt(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	f.account(t, "a", 500)
	f.account(t, "b", 0)
	done := map[int]int{}
	for _, r := range f.atOnce(t, 20, func(i int) *http.Request {
		mode := []string{"direct", "tcc"}[i%2]
		return f.transferRequest(t, and(move("a", "b", 100), `"mode":"`+mode+`"`), "Idempotency-Key", fmt.Sprint("k-", i))
	}) {
		if r.StatusCode != 201 {
			r.problem(t, 409, "insufficient_funds")
		}
		done[r.StatusCode]++
	}
	require.LessOrEqual(t, done[201], 5)
	require.Equal(t, fmt.Sprint(500-100*done[201]), f.balance(t, "a"))
	require.Equal(t, fmt.Sprint(100*done[201]), f.balance(t, "b"))
	f.RequireInvariants(t)
}

func TestARefusedTransferStaysRefused(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"direct", "tcc"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			f := newFace(t)
			f.account(t, "a", 100)
			f.account(t, "b", 0)
			before := f.Journals(t)
			body := and(move("a", "b", 101), `"reference":"r","mode":"`+mode+`"`)
			first := f.transfer(t, "k", body)
			first.problem(t, 409, "insufficient_funds")
			f.transfer(t, "k", body).replayed(t, first)
			require.Equal(t, "100", f.balance(t, "a"))
			require.Equal(t, "0", f.balance(t, "b"))
			require.Equal(t, before, f.Journals(t))

			id := f.Count(t, "SELECT id FROM transfers")
			got := f.call(t, "GET", fmt.Sprint("/v1/transfers/", id), "").is(t, 200).fields(t)
			require.Equal(t, "CANCELLED", got["state"])
			require.Equal(t, "insufficient_funds", got["failure"])
			require.Equal(t, mode, got["mode"])

			f.fund(t, "more", "a", 1)
			f.transfer(t, "k", body).replayed(t, first)
			f.transfer(t, "other", body).replayed(t, first)
			f.transfer(t, "new", and(move("a", "b", 101), `"mode":"`+mode+`"`)).is(t, 201)
			require.Equal(t, "0", f.balance(t, "a"))
			require.Equal(t, "101", f.balance(t, "b"))
			f.RequireInvariants(t)
			f.requireNoError(t)
		})
	}
}

func TestWhatIsRefusedBeforeItIsATransferLeavesItsNameFree(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	f.account(t, "a", 500)
	body := and(move("a", "new", 1), `"reference":"r"`)
	f.transfer(t, "k", body).problem(t, 404, "account_not_found")
	f.transfer(t, "k", move("nobody", "a", 1)).problem(t, 404, "account_not_found")
	f.transfer(t, "k", strings.Replace(body, "CNY", "USD", 1)).problem(t, 404, "account_not_found") // the account is of one currency
	f.transfer(t, "k", and(body, `"participants":[{"type":"http","participant":"nobody"}]`)).problem(t, 404, "account_not_found")
	f.transfer(t, "k", `{"participants":[{"type":"http","participant":"nobody","body":{"a":1}}]}`).problem(t, 404, "participant_not_found")
	f.transfer(t, "k", `{"participants":[{"type":"http","participant":"a\u0000"}]}`).problem(t, 404, "participant_not_found")
	f.transfer(t, "k", move("a", "a", 1)).problem(t, 422, "same_account")
	require.Zero(t, f.transfers(t))
	require.Zero(t, f.Count(t, "SELECT count(*) FROM ledger_accounts WHERE code IN ('new', 'nobody')"))
	f.account(t, "new", 0)
	f.transfer(t, "k", body).is(t, 201)
	f.RequireInvariants(t)
	f.requireNoError(t)
}

func TestATransferThatCannotBeIsRefused(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	f.account(t, "a", 500)
	f.account(t, "b", 0)
	channel := "channel:standard:" + f.Account.Name
	f.order(t, "o")
	f.pay(t, "tx", "o", 9900)
	amount := func(text string) string { return `{"from":"a","to":"b","currency":"CNY","amount":` + text + `}` }
	legs := func(list ...string) string { return `{"participants":[` + strings.Join(list, ",") + `]}` }
	leg := func(account, amount, currency string) string {
		return `{"type":"ledger","account":"` + account + `","amount":` + amount + `,"currency":"` + currency + `"}`
	}
	many := []string{}
	for i := range 33 {
		many = append(many, `{"type":"stock","sku":"s`+fmt.Sprint(i)+`","quantity":1}`)
	}
	for _, c := range []struct {
		name, body string
		status     int
		code       string
	}{
		{"nothing", `{}`, 400, "amount_invalid"},
		{"amount missing", `{"from":"a","to":"b","currency":"CNY"}`, 400, "amount_invalid"},
		{"amount 0", amount("0"), 400, "amount_invalid"},
		{"amount negative", amount("-1"), 400, "amount_invalid"},
		{"amount 1.5", amount("1.5"), 400, "amount_invalid"},
		{"amount 1.0", amount("1.0"), 400, "amount_invalid"},
		{"amount 1e2", amount("1e2"), 400, "amount_invalid"},
		{"amount a string", amount(`"1"`), 400, "amount_invalid"},
		{"amount null", amount("null"), 400, "amount_invalid"},
		{"amount beyond 64 bits", amount("9223372036854775808"), 400, "amount_invalid"},
		{"amount least", amount("-9223372036854775808"), 400, "amount_invalid"},
		{"currency missing", `{"from":"a","to":"b","amount":1}`, 400, "currency_unknown"},
		{"currency in lower case", `{"from":"a","to":"b","amount":1,"currency":"cny"}`, 400, "currency_unknown"},
		{"currency a number", `{"from":"a","to":"b","amount":1,"currency":156}`, 400, "currency_invalid"},
		{"from a number", `{"from":1,"to":"b","amount":1,"currency":"CNY"}`, 400, "from_invalid"},
		{"to missing", `{"from":"a","amount":1,"currency":"CNY"}`, 422, "transfer_invalid"},
		{"from missing", `{"to":"a","amount":1,"currency":"CNY"}`, 422, "transfer_invalid"},
		{"from = to", move("a", "a", 1), 422, "same_account"},
		{"from and to missing", `{"amount":1,"currency":"CNY"}`, 422, "same_account"},
		{"to with NUL", `{"from":"a","to":"b\u0000","amount":1,"currency":"CNY"}`, 422, "transfer_invalid"},
		{"from a channel", move(channel, "a", 1), 422, "transfer_invalid"},
		{"to a channel", move("a", channel, 1), 422, "transfer_invalid"},
		{"from suspense", move("suspense", "a", 1), 422, "transfer_invalid"},
		{"to suspense", move("a", "suspense", 1), 422, "transfer_invalid"},
		{"a mode", and(move("a", "b", 1), `"mode":"saga"`), 422, "transfer_invalid"},
		{"mode a number", and(move("a", "b", 1), `"mode":1`), 400, "mode_invalid"},
		{"reference a number", and(move("a", "b", 1), `"reference":1`), 400, "reference_invalid"},
		{"an unknown field", and(move("a", "b", 1), `"memo":"x"`), 400, "field_unknown"},
		{"a state", and(move("a", "b", 1), `"state":"CONFIRMED"`), 400, "field_unknown"},
		{"null", "null", 400, "json_malformed"},

		{"participants an object", `{"participants":{}}`, 400, "participants_invalid"},
		{"no participants", `{"participants":[]}`, 400, "amount_invalid"},
		{"an empty leg", legs(`{}`), 422, "transfer_invalid"},
		{"a null leg", legs(`null`), 422, "transfer_invalid"},
		{"an unknown type", legs(`{"type":"bank"}`), 422, "transfer_invalid"},
		{"an unknown field of a leg", legs(`{"type":"ledger","url":"http://x.invalid"}`), 400, "field_unknown"},
		{"one leg", legs(leg("a", "-1", "CNY")), 422, "transfer_invalid"},
		{"unbalanced", legs(leg("a", "-2", "CNY"), leg("b", "1", "CNY")), 422, "transfer_invalid"},
		{"unbalanced per currency", legs(leg("a", "-1", "CNY"), leg("b", "1", "USD")), 422, "transfer_invalid"},
		{"more than from gives", and(move("a", "b", 1), `"participants":[`+leg("merchant", "1", "CNY")+`]`), 422, "transfer_invalid"},
		{"leg of 0", legs(leg("a", "0", "CNY"), leg("b", "0", "CNY")), 422, "transfer_invalid"},
		{"leg of 1.5", legs(leg("a", "-1.5", "CNY"), leg("b", "1.5", "CNY")), 400, "participants_invalid"},
		{"leg of a string", legs(leg("a", `"-1"`, "CNY"), leg("b", `"1"`, "CNY")), 400, "participants_invalid"},
		{"leg beyond 64 bits", legs(leg("a", "-9223372036854775809", "CNY")), 400, "participants_invalid"},
		{"leg of the least", legs(leg("a", "-9223372036854775808", "CNY")), 422, "transfer_invalid"},
		{"sums that wrap", legs(leg("a", "9223372036854775807", "CNY"), leg("b", "9223372036854775807", "CNY"), leg("merchant", "2", "CNY")), 422, "transfer_invalid"},
		{"an account twice", legs(leg("a", "-1", "CNY"), leg("a", "-1", "CNY"), leg("b", "2", "CNY")), 422, "transfer_invalid"},
		{"leg of no currency", legs(leg("a", "-1", ""), leg("b", "1", "")), 400, "currency_unknown"},
		{"leg of suspense", legs(leg("suspense", "-1", "CNY"), leg("b", "1", "CNY")), 422, "transfer_invalid"},
		{"leg of a channel", legs(leg(channel, "-1", "CNY"), leg("b", "1", "CNY")), 422, "transfer_invalid"},
		{"direct and external", `{"mode":"direct","participants":[{"type":"http","participant":"hotel"}]}`, 422, "transfer_invalid"},
		{"http without its participant", legs(`{"type":"http"}`), 422, "transfer_invalid"},
		{"stock without a sku", legs(`{"type":"stock","quantity":1}`), 422, "transfer_invalid"},
		{"stock of a bad sku", legs(`{"type":"stock","sku":"a b","quantity":1}`), 422, "transfer_invalid"},
		{"stock of 0", legs(`{"type":"stock","sku":"s","quantity":0}`), 422, "transfer_invalid"},
		{"stock that comes", legs(`{"type":"stock","sku":"s","quantity":-1}`), 422, "transfer_invalid"},
		{"stock beyond 32 bits", legs(`{"type":"stock","sku":"s","quantity":2147483648}`), 422, "transfer_invalid"},
		{"33 legs", legs(many...), 422, "transfer_invalid"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f.transfer(t, "k", c.body).problem(t, c.status, c.code)
		})
	}
	require.Zero(t, f.transfers(t))
	require.Equal(t, "500", f.balance(t, "a"))
	f.RequireInvariants(t)
	f.requireNoError(t)
}

func TestABalanceBeyond64BitsIsRefused(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	f.account(t, "a", 0)
	const most = 9223372036854775807
	f.fund(t, "all", "a", most)
	f.transfer(t, "k", move("funding", "a", 1)).problem(t, 422, "amount_out_of_range")
	f.transfer(t, "k", move("a", "merchant", most)).is(t, 201)
	f.transfer(t, "back", move("merchant", "a", most)).is(t, 201)
	f.call(t, "PUT", "/v1/stock/s", `{"on_hand":9223372036854775807}`).is(t, 200)
	require.Equal(t, fmt.Sprint(most), f.balance(t, "a"))
	f.RequireInvariants(t)
	f.requireNoError(t)
}

func TestATransferInModeTCC(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	f.account(t, "a", 500)
	f.account(t, "b", 0)
	body := and(move("a", "b", 200), `"mode":"tcc","reference":"r"`)
	first := f.transfer(t, "k", body).is(t, 201)
	got := first.fields(t)
	require.Equal(t, "CONFIRMED", got["state"])
	require.Equal(t, "tcc", got["mode"])
	require.Equal(t, "transfer/"+f.Tenant+"/ref:r", got["workflow_id"])
	require.Equal(t, "http://ui.invalid/transfer/"+f.Tenant+"/ref:r", got["temporal_ui"])
	f.transfer(t, "k", body).replayed(t, first)
	require.Equal(t, "300", f.balance(t, "a"))
	require.Equal(t, "200", f.balance(t, "b"))
	require.Len(t, f.driver.TakeTransfers(), 1)
	require.Equal(t, "transfer/"+f.Tenant+"/key:bare", f.transfer(t, "bare", and(move("a", "b", 1), `"mode":"tcc"`)).is(t, 201).fields(t)["workflow_id"])
	f.RequireInvariants(t)
	f.requireNoError(t)
}

func TestATransferUnderWayIsAccepted(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	f.account(t, "a", 500)
	f.account(t, "b", 0)
	body := and(move("a", "b", 200), `"mode":"tcc"`)
	for range 2 {
		got := f.transfer(t, "k", body, "Prefer", "respond-async").is(t, 202).fields(t)
		require.Equal(t, "TRYING", got["state"])
		require.NotContains(t, got, "ended_at")
	}
	f.transfer(t, "k", and(move("a", "b", 201), `"mode":"tcc"`), "Prefer", "respond-async").problem(t, 422, "idempotency_key_reused")
	require.Equal(t, "500", f.balance(t, "a"))
	id := f.Count(t, "SELECT id FROM transfers")
	path := fmt.Sprint("/v1/transfers/", id)
	require.Equal(t, "TRYING", f.call(t, "GET", path, "").is(t, 200).fields(t)["state"])

	// Step by step, as its flow does it.
	tried, err := f.Transfers.Try(t.Context(), int64(id))
	require.NoError(t, err)
	require.Empty(t, tried.Failure)
	account := f.call(t, "GET", "/v1/accounts/a", "").fields(t)
	require.Equal(t, []any{json.Number("500"), json.Number("200"), json.Number("300")}, []any{account["balance"], account["held"], account["available"]})
	f.transfer(t, "greedy", move("a", "b", 301)).problem(t, 409, "insufficient_funds")
	_, err = f.Transfers.Decide(t.Context(), int64(id), "")
	require.NoError(t, err)
	got := f.transfer(t, "k", body).is(t, 201) // decided, and not at its end
	require.Equal(t, "CONFIRMING", got.fields(t)["state"])
	require.Equal(t, "true", got.Header.Get("Idempotency-Replayed"))
	_, err = f.Transfers.End(t.Context(), int64(id), true)
	require.NoError(t, err)
	require.Equal(t, "CONFIRMED", f.transfer(t, "k", body, "Prefer", "respond-async").is(t, 201).fields(t)["state"])
	require.Equal(t, "300", f.balance(t, "a"))

	f.transfer(t, "direct", move("a", "b", 1), "Prefer", "respond-async").is(t, 201)
	f.RequireInvariants(t)
}

// hotel registers a participant; no test here calls it.
func (f *face) hotel(t *testing.T) {
	t.Helper()
	config := `{"try_url":"https://hotel.invalid/try","confirm_url":"https://hotel.invalid/confirm","cancel_url":"https://hotel.invalid/cancel","secret":"` + testhouse.NewSecret() + `"}`
	require.NoError(t, f.Transfers.PutParticipant(t.Context(), f.Tenant, "hotel", []byte(config)))
}

func TestATransferWithAnExternalParticipantTakesTheFlow(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	f.account(t, "a", 500)
	f.hotel(t)
	for _, failure := range []string{transfer.ParticipantRefused, transfer.ParticipantAway, transfer.Canceled} {
		t.Run(failure, func(t *testing.T) {
			body := and(move("a", "merchant", 200), `"participants":[{"type":"http","participant":"hotel","body":{"z":12345678901234567890,"a":[1.50,null,"<",true,{}]}}]`)
			first := f.transfer(t, failure, body).is(t, 202) // its flow waits for the hotel
			got := first.fields(t)
			require.Equal(t, "tcc", got["mode"])
			require.Contains(t, first.Text, "12345678901234567890")
			require.Contains(t, first.Text, "1.50")
			f.transfer(t, failure, strings.Replace(body, `{"z":12345678901234567890,"a"`, `{ "z" : 12345678901234567890 , "a"`, 1)).replayed(t, first)
			f.transfer(t, failure, strings.Replace(body, "67890", "67891", 1)).problem(t, 422, "idempotency_key_reused")

			id, err := got["id"].(json.Number).Int64()
			require.NoError(t, err)
			_, err = f.Transfers.Decide(t.Context(), id, failure)
			require.NoError(t, err)
			f.transfer(t, failure, body).problem(t, 409, failure)
			_, err = f.Transfers.End(t.Context(), id, true)
			require.NoError(t, err)
			f.transfer(t, failure, body).problem(t, 409, failure)
			require.Equal(t, "500", f.balance(t, "a"))
		})
	}
	other, err := tenant.Add(t.Context(), f.Engine, f.Tenant+"-other", "CNY")
	require.NoError(t, err)
	f.callAs(t, other, "POST", "/v1/transfers", `{"reference":"r","participants":[{"type":"http","participant":"hotel"}]}`).problem(t, 404, "participant_not_found")
	f.RequireInvariants(t)
	f.requireNoError(t)
}

// idle is an engine that takes transfers and never carries them out.
type idle struct{ testhouse.Deliveries }

func (*idle) StartTransfer(context.Context, transfer.Transfer, bool) error {
	return context.DeadlineExceeded
}

func TestATransferIsTakenWhileTheEngineIsAway(t *testing.T) {
	t.Parallel()
	f := openFace(t, &idle{})
	f.account(t, "a", 500)
	f.account(t, "b", 0)
	f.transfer(t, "k", and(move("a", "b", 200), `"mode":"tcc"`), "Prefer", "respond-async").is(t, 202)
	f.transfer(t, "direct", move("a", "b", 1)).is(t, 201)
	require.Equal(t, 2, f.transfers(t))
	f.RequireInvariants(t)
	f.requireNoError(t)
}

func TestMoneyAndGoodsMoveTogetherOrNotAtAll(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"direct", "tcc"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			f := newFace(t)
			f.account(t, "a", 500)
			f.account(t, "b", 0)
			f.put(t, "book", 3)
			buy := func(amount, quantity int64, sku string) string {
				return and(move("a", "b", amount), fmt.Sprintf(`"mode":%q,"participants":[{"type":"stock","sku":%q,"quantity":%d}]`, mode, sku, quantity))
			}
			first := f.transfer(t, "k-1", buy(200, 2, "book")).is(t, 201)
			f.transfer(t, "k-1", buy(200, 2, "book")).replayed(t, first)
			same := func() {
				t.Helper()
				require.Equal(t, "300", f.balance(t, "a"))
				require.Equal(t, "200", f.balance(t, "b"))
				f.stock(t, "book", 1, 0)
			}
			same()
			f.transfer(t, "k-2", buy(200, 2, "book")).problem(t, 409, "out_of_stock")
			same()
			f.transfer(t, "k-3", buy(301, 1, "book")).problem(t, 409, "insufficient_funds")
			same()
			f.transfer(t, "k-4", buy(1, 1, "nothing")).problem(t, 409, "sku_not_found")
			same()
			f.transfer(t, "goods alone", `{"mode":"`+mode+`","participants":[{"type":"stock","sku":"book","quantity":1}]}`).is(t, 201)
			f.stock(t, "book", 0, 0)
			f.RequireInvariants(t)
			f.requireNoError(t)
		})
	}
}

func TestATransferOfManyLegs(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	f.account(t, "a", 500)
	f.account(t, "b", 50)
	f.account(t, "c", 0)
	f.call(t, "POST", "/v1/accounts", `{"code":"a","currency":"USD","allow_negative":true}`).is(t, 201)
	f.call(t, "POST", "/v1/accounts", `{"code":"b","currency":"USD"}`).is(t, 201)
	for _, mode := range []string{"direct", "tcc"} {
		f.transfer(t, mode, `{"mode":"`+mode+`","participants":[
			{"type":"ledger","account":"c","amount":120,"currency":"CNY"},
			{"type":"ledger","account":"a","amount":-100,"currency":"CNY"},
			{"type":"ledger","account":"b","amount":-20,"currency":"CNY"},
			{"type":"ledger","account":"b","amount":7,"currency":"USD"},
			{"type":"ledger","account":"a","amount":-7,"currency":"USD"}]}`).is(t, 201)
	}
	require.Equal(t, "300", f.balance(t, "a"))
	require.Equal(t, "10", f.balance(t, "b"))
	require.Equal(t, "240", f.balance(t, "c"))
	require.Equal(t, "-14", f.balance(t, "a?currency=USD"))
	require.Equal(t, "14", f.balance(t, "b?currency=USD"))
	f.RequireInvariants(t)
}

func TestATransferOfAnotherTenantIsNotThere(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	other, err := tenant.Add(t.Context(), f.Engine, f.Tenant+"-other", "CNY")
	require.NoError(t, err)
	f.account(t, "a", 500)
	f.account(t, "b", 0)
	body := and(move("a", "b", 1), `"reference":"r"`)
	first := f.transfer(t, "k", body).is(t, 201)
	f.callAs(t, other, "GET", fmt.Sprint("/v1/transfers/", first.fields(t)["id"]), "").problem(t, 404, "transfer_not_found")
	f.callAs(t, other, "POST", "/v1/transfers", body).problem(t, 404, "account_not_found")
	// Names are each tenant's own.
	for _, code := range []string{"a", "b"} {
		f.callAs(t, other, "POST", "/v1/accounts", `{"code":"`+code+`","currency":"CNY","allow_negative":true}`).is(t, 201)
	}
	require.NotEqual(t, first.fields(t)["id"], f.callAs(t, other, "POST", "/v1/transfers", body).is(t, 201).fields(t)["id"])
	require.Equal(t, "499", f.balance(t, "a"))
	f.RequireInvariants(t)
}

func TestTheDescribedExampleIsATransfer(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	f.account(t, "user:42", 500)
	f.account(t, "user:43", 0)
	for _, o := range operations() {
		if o.node["operationId"] == "createTransfer" {
			f.call(t, o.Method, o.Path, exampleBody(t, o)).is(t, 201)
		}
	}
	require.Equal(t, 1, f.transfers(t))
	require.Equal(t, "500", f.balance(t, "user:43"))
}
