package api_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/database"
	"github.com/paylatch/paylatch/internal/ledger"
)

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

// brim fills an account to what it may hold, by no way that a merchant has.
func (f *face) brim(t *testing.T, code string) {
	t.Helper()
	require.NoError(t, database.InTx(t.Context(), f.Engine, func(tx pgx.Tx) error {
		_, _, err := ledger.Post(t.Context(), tx, ledger.Journal{TenantID: f.Tenant, Key: "brim", Kind: "posting", Lines: []ledger.Line{
			{Code: "brim", Currency: "CNY", Amount: -1 << 62, AllowNegative: true}, {Code: code, Currency: "CNY", Amount: 1 << 62},
		}})
		return err
	}))
}

func TestAnAmountOrABalanceOutOfRangeIsRefused(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	f.account(t, "a", 0)
	f.account(t, "b", 0)
	const most = 1<<53 - 1
	f.fund(t, "all", "b", most)
	f.transfer(t, "most", move("b", "merchant", most)).is(t, 201)
	f.transfer(t, "more", move("b", "merchant", most+1)).problem(t, 422, "transfer_invalid")
	f.brim(t, "a")
	f.transfer(t, "k", move("merchant", "a", 1)).problem(t, 409, "amount_out_of_range")
	f.transfer(t, "tcc", and(move("merchant", "a", 1), `"mode":"tcc"`)).problem(t, 409, "amount_out_of_range")
	f.call(t, "PUT", "/v1/stock/s", `{"on_hand":9223372036854775807}`).is(t, 200)
	require.Equal(t, fmt.Sprint(1<<62), f.balance(t, "a"))
	require.Equal(t, fmt.Sprint(most), f.balance(t, "merchant"))
	f.RequireInvariants(t)
	f.requireNoError(t)
}

func TestAMerchantMintsNoMoney(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	f.account(t, "a", 100)
	for _, into := range []string{"merchant", "fees", "suspense", "receiver:x", "channel:standard:x"} {
		f.transfer(t, "k", move("funding", into, 1)).problem(t, 422, "transfer_invalid")
		require.Contains(t, []any{"REFUSED account_reserved"}, f.postedOf(t, journals(journal("k", "funding", into, 1)))[0], into)
	}
	f.transfer(t, "pays", move("a", "merchant", 60)).is(t, 201)
	f.transfer(t, "paid", move("merchant", "a", 10)).is(t, 201)
	require.Equal(t, "50", f.balance(t, "merchant"))
	f.RequireInvariants(t)
}
