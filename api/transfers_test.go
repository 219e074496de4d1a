package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

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
	// The key's answer is the one that was given; the transfer tells what is true now.
	require.Equal(t, got.Text, f.transfer(t, "k", body, "Prefer", "respond-async").is(t, 201).Text)
	require.Equal(t, "CONFIRMED", f.call(t, "GET", path, "").is(t, 200).fields(t)["state"])
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

func (*idle) StartTransfer(context.Context, transfer.Transfer, bool) (string, error) {
	return "", context.DeadlineExceeded
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
			f.transfer(t, "k-4", buy(1, 1, "nothing")).problem(t, 404, "sku_not_found")
			same()
			f.transfer(t, "goods", `{"mode":"`+mode+`","participants":[{"type":"stock","sku":"book","quantity":1}]}`).is(t, 201)
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
