package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/tenant"
)

func journal(key, from, to string, amount int64) string {
	return fmt.Sprintf(`{"key":%q,"lines":[{"account":%q,"currency":"CNY","amount":%d},{"account":%q,"currency":"CNY","amount":%d}]}`, key, from, -amount, to, amount)
}

func journals(list ...string) string { return `{"journals":[` + strings.Join(list, ",") + `]}` }

func TestAnAccountIsOpenedOnce(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	open := func(body string) reply { return f.call(t, "POST", "/v1/accounts", body) }
	first := open(`{"code":"user:42","currency":"CNY"}`).is(t, 201)
	require.Equal(t, first.Text, open(`{"code":"user:42","currency":"CNY","allow_negative":false}`).is(t, 200).Text)
	require.Equal(t, first.Text, f.call(t, "GET", "/v1/accounts/user:42", "").is(t, 200).Text)
	open(`{"code":"user:42","currency":"CNY","allow_negative":true}`).problem(t, 422, "account_exists")
	require.Equal(t, true, open(`{"code":"user:42","currency":"USD","allow_negative":true}`).is(t, 201).fields(t)["allow_negative"])

	for _, c := range []struct {
		body   string
		status int
		code   string
	}{
		{`{"code":"merchant","currency":"CNY"}`, 422, "account_reserved"},
		{`{"code":"merchant","currency":"CNY","allow_negative":true}`, 422, "account_reserved"},
		{`{"code":"suspense","currency":"CNY"}`, 422, "account_reserved"},
		{`{"code":"fees","currency":"USD"}`, 422, "account_reserved"},
		{`{"code":"channel:standard:x","currency":"CNY"}`, 422, "account_reserved"},
		{`{"code":"receiver:1","currency":"CNY"}`, 422, "account_reserved"},
		{`{"currency":"CNY"}`, 400, "code_invalid"},
		{`{"code":"","currency":"CNY"}`, 400, "code_invalid"},
		{`{"code":":a","currency":"CNY"}`, 400, "code_invalid"},
		{`{"code":"a b","currency":"CNY"}`, 400, "code_invalid"},
		{`{"code":"a\u0000","currency":"CNY"}`, 400, "code_invalid"},
		{`{"code":"账户","currency":"CNY"}`, 400, "code_invalid"},
		{`{"code":"` + strings.Repeat("a", 161) + `","currency":"CNY"}`, 400, "code_invalid"},
		{`{"code":1,"currency":"CNY"}`, 400, "code_invalid"},
		{`{"code":"a"}`, 400, "currency_unknown"},
		{`{"code":"a","currency":"cny"}`, 400, "currency_unknown"},
		{`{"code":"a","currency":"ZZZ"}`, 400, "currency_unknown"},
		{`{"code":"a","currency":156}`, 400, "currency_invalid"},
		{`{"code":"a","currency":"CNY","allow_negative":1}`, 400, "allow_negative_invalid"},
		{`{"code":"a","currency":"CNY","balance":100}`, 400, "field_unknown"},
		{`[]`, 400, "json_malformed"},
	} {
		t.Run(fmt.Sprintf("%.60s", c.body), func(t *testing.T) {
			open(c.body).problem(t, c.status, c.code)
		})
	}
	require.Equal(t, 2, f.Count(t, "SELECT count(*) FROM ledger_accounts WHERE code = 'user:42'"))
	require.Zero(t, f.Count(t, "SELECT count(*) FROM ledger_accounts WHERE code IN ('a', 'receiver:1', 'channel:standard:x')"))

	made := 0
	for _, r := range f.atOnce(t, 10, func(int) *http.Request {
		r := f.request(t, "POST", "/v1/accounts", `{"code":"at-once","currency":"CNY"}`)
		r.Header.Set("Authorization", "Bearer "+f.APIKey)
		return r
	}) {
		if r.StatusCode == 201 {
			made++
		} else {
			r.is(t, 200)
		}
	}
	require.Equal(t, 1, made)
	f.RequireInvariants(t)
	f.requireNoError(t)
}

func TestEachJournalOfABatchIsForItself(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	f.account(t, "a", 500)
	f.account(t, "b", 0)
	channel := "channel:standard:" + f.Account.Name
	before := f.Journals(t)
	body := journals(
		journal("good", "funding", "a", 100),
		journal("good", "funding", "a", 100), // repeated in the batch
		journal("good", "funding", "a", 101), // another one under that key
		`{"key":"unbalanced","lines":[{"account":"a","currency":"CNY","amount":-1},{"account":"b","currency":"CNY","amount":2}]}`,
		`{"key":"no lines","lines":[]}`,
		`{"key":"absent lines"}`,
		journal("nothing", "a", "b", 0),
		journal("insufficient", "b", "a", 1000),
		journal("unknown", "a", "nobody", 1),
		journal("suspense", "a", "suspense", 1),
		journal("channel", channel, "a", 1),
		journal("", "funding", "a", 1),
		journal("of NUL", "a", "\x00", 1),
		`{"key":"a\nb","lines":[]}`,
		`{"key":"`+strings.Repeat("k", 129)+`","lines":[]}`,
		`{"key":"33 lines","lines":[`+strings.TrimSuffix(strings.Repeat(`{"account":"a","currency":"CNY","amount":1},`, 33), ",")+`]}`,
		strings.ReplaceAll(journal("currency", "funding", "a", 1), "CNY", "USD"),
		`{"key":"wraps","lines":[{"account":"a","currency":"CNY","amount":9223372036854775807},{"account":"b","currency":"CNY","amount":9223372036854775807},{"account":"funding","currency":"CNY","amount":2}]}`,
		journal("taking", "a", "b", 50),
		journal("last", "funding", "b", 7),
	)
	body = strings.ReplaceAll(body, `\x00`, `\u0000`)
	want := []any{
		"POSTED", "REPEATED", "REFUSED key_reused", "REFUSED journal_unbalanced", "REFUSED journal_unbalanced", "REFUSED journal_unbalanced",
		"REFUSED journal_unbalanced", "REFUSED insufficient_funds", "REFUSED account_not_found", "REFUSED account_reserved",
		"REFUSED account_reserved", "REFUSED key_invalid", "REFUSED account_not_found", "REFUSED key_invalid", "REFUSED key_invalid",
		"REFUSED lines_invalid", "REFUSED account_not_found", "REFUSED amount_invalid", "POSTED", "POSTED",
	}
	require.Equal(t, want, f.postedOf(t, body))
	for i, text := range want {
		if text == "POSTED" {
			want[i] = "REPEATED"
		}
	}
	require.Equal(t, want, f.postedOf(t, body), "again")
	require.Equal(t, []any{"REFUSED key_reused"}, f.postedOf(t, journals(journal("good", "funding", "b", 100))))
	require.Equal(t, []any{"REPEATED"}, f.postedOf(t, journals(journal("good", "funding", "a", 100))))
	require.Equal(t, before+3, f.Journals(t))
	require.Equal(t, "550", f.balance(t, "a"))
	require.Equal(t, "57", f.balance(t, "b"))
	require.Equal(t, "-607", f.balance(t, "funding"))
	require.Zero(t, f.Count(t, "SELECT count(*) FROM ledger_accounts WHERE code = 'nobody'"))
	require.Equal(t, "0", f.balance(t, "suspense"))
	require.ElementsMatch(t, []any{"posting:last", "posting:taking"}, f.call(t, "GET", "/v1/accounts/b/entries", "").items(t, "journal_key"))
	f.RequireInvariants(t)
	f.requireNoError(t)
}

// postedOf posts a batch and gives each journal's state with its code.
func (f *face) postedOf(t *testing.T, body string) []any {
	t.Helper()
	got := f.call(t, "POST", "/v1/journals", body).is(t, 200)
	states := got.items(t, "state")
	for i, code := range got.items(t, "code") {
		if code != nil {
			states[i] = fmt.Sprint(states[i], " ", code)
		}
	}
	return states
}

func TestABatchHasItsBounds(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	f.account(t, "a", 0)
	f.account(t, "b", 1) // opens funding
	list := []string{}
	for i := range 501 {
		list = append(list, journal(fmt.Sprint("k-", i), "funding", "a", 1))
	}
	for _, body := range []string{
		`{}`, `{"journals":null}`, journals(), `{"journals":{}}`, `{"journals":[1]}`, journals(list...), journals(`{"key":1}`), journals(`{"key":"k","lines":{}}`),
		strings.Replace(journals(list[0]), ":1}", ":1.5}", 1), strings.Replace(journals(list[0]), ":1}", `:"1"}`, 1),
		strings.Replace(journals(list[0]), ":1}", ":9223372036854775808}", 1),
	} {
		f.call(t, "POST", "/v1/journals", body).problem(t, 400, "journals_invalid")
	}
	f.call(t, "POST", "/v1/journals", journals(`{"key":"k","kind":"payment_credit","lines":[]}`)).problem(t, 400, "field_unknown")
	require.Equal(t, "0", f.balance(t, "a"))
	for _, want := range []string{"POSTED", "REPEATED"} {
		for _, state := range f.postedOf(t, journals(list[:500]...)) {
			require.Equal(t, want, state)
		}
	}
	require.Equal(t, "500", f.balance(t, "a"))
	f.RequireInvariants(t)
	f.requireNoError(t)
}

func TestABalanceOutOfRangeRefusesItsJournalAlone(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	f.account(t, "a", 0)
	f.account(t, "b", 0)
	f.brim(t, "a")
	f.call(t, "POST", "/v1/accounts", `{"code":"more","currency":"CNY","allow_negative":true}`).is(t, 201)
	require.Equal(t, []any{"POSTED", "REFUSED amount_out_of_range", "POSTED"},
		f.postedOf(t, journals(journal("k-1", "more", "b", 1), journal("k-2", "more", "a", 1), journal("k-3", "more", "b", 1))))
	require.Equal(t, "2", f.balance(t, "b"))
	f.RequireInvariants(t)
}

func TestSingleJournalsAtOnceBookOncePerKey(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	f.account(t, "a", 100)
	f.account(t, "b", 0)
	before := f.Journals(t)
	replies := f.atOnce(t, 30, func(i int) *http.Request {
		body := journal(fmt.Sprint("k-", i%10), "funding", "b", int64(1+i%10))
		if i%10 == 9 {
			body = journal("k-9", "a", "b", 10) // one that is booked alone
		}
		r := f.request(t, "POST", "/v1/journals", journals(body))
		r.Header.Set("Authorization", "Bearer "+f.APIKey)
		return r
	})
	posted := map[int]int{}
	for i, r := range replies {
		state := r.items(t, "state")[0]
		require.Contains(t, []any{"POSTED", "REPEATED"}, state, r.Text)
		if state == "POSTED" {
			posted[i%10]++
		}
	}
	for key := range 10 {
		require.Equal(t, 1, posted[key])
	}
	require.Equal(t, before+10, f.Journals(t))
	require.Equal(t, "55", f.balance(t, "b"))
	require.Equal(t, "90", f.balance(t, "a"))
	f.RequireInvariants(t)
	f.requireNoError(t)
}

func TestJournalsStandApartFromPaymentsTransfersAndOtherTenants(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	other, err := tenant.Add(t.Context(), f.Engine, f.Tenant+"-other", "CNY")
	require.NoError(t, err)
	f.account(t, "a", 100)
	f.order(t, "o")
	f.pay(t, "tx", "o", 9900)
	f.transfer(t, "k", move("a", "merchant", 1)).is(t, 201)
	taken := []string{}
	for _, entry := range f.call(t, "GET", "/v1/accounts/merchant/entries", "").items(t, "journal_key") {
		taken = append(taken, journal(entry.(string), "a", "merchant", 1))
	}
	require.Equal(t, []any{"POSTED", "POSTED"}, f.postedOf(t, journals(taken...)), "their keys are free here")
	require.Equal(t, []any{"account_not_found"}, f.callAs(t, other, "POST", "/v1/journals", journals(journal("k", "funding", "a", 1))).items(t, "code"))
	require.Equal(t, "97", f.balance(t, "a"))
	f.RequireInvariants(t)
}
