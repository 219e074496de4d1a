package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gin-gonic/gin"
	"github.com/jackc/pgx/v5"

	"github.com/paylatch/paylatch/internal/database"
	"github.com/paylatch/paylatch/internal/idempotency"
	"github.com/paylatch/paylatch/internal/ledger"
	"github.com/paylatch/paylatch/internal/money"
)

// Limits of a batch of journals.
const (
	maxJournals   = 500
	maxLines      = 32
	maxJournalKey = 128
	maxLineAmount = 1<<53 - 1
)

type journalRequest struct {
	Key   string        `json:"key"`
	Lines []lineRequest `json:"lines"`
}

type lineRequest struct {
	Account  string `json:"account"`
	Currency string `json:"currency"`
	Amount   int64  `json:"amount"`
}

type journalResult struct {
	Key string `json:"key"`
	// State is POSTED, REPEATED (it was posted before), REFUSED with its code, or UNKNOWN: sent again, its key answers.
	State  string `json:"state"`
	Code   string `json:"code,omitempty"`
	Detail string `json:"detail,omitempty"`
}

const unknownState = "UNKNOWN"

// postJournals books many journals, each for itself: its own key, its own outcome.
func (s *server) postJournals(c *gin.Context) {
	var body struct {
		Journals []journalRequest `json:"journals"`
	}
	if err := readJSON(c, &body, false); err != nil {
		s.fail(c, err)
		return
	}
	if len(body.Journals) == 0 || len(body.Journals) > maxJournals {
		s.fail(c, badRequest("journals_invalid", fmt.Sprintf("journals holds 1 to %d", maxJournals)))
		return
	}
	known, err := s.accountsOf(c.Request.Context(), who(c).TenantID, body.Journals)
	if err != nil {
		s.fail(c, err)
		return
	}
	results := make([]journalResult, len(body.Journals))
	var journals []ledger.Journal
	var at []int
	for i, r := range body.Journals {
		results[i].Key = r.Key
		j, p := r.journal(who(c).TenantID, known)
		if p != nil {
			results[i].State, results[i].Code, results[i].Detail = "REFUSED", p.Code, p.Detail
			continue
		}
		journals, at = append(journals, j), append(at, i)
	}
	for k, posted := range s.post(c.Request.Context(), journals) {
		if posted.Err == nil && !posted.New {
			posted.Err = s.requireSame(c.Request.Context(), posted.JournalID, journals[k])
		}
		results[at[k]].fill(posted)
		if results[at[k]].State == unknownState {
			unfinished(c)
		}
	}
	c.JSON(http.StatusOK, gin.H{"items": results})
}

// post books one journal with those of other callers, and many together.
func (s *server) post(ctx context.Context, journals []ledger.Journal) []ledger.Posted {
	if len(journals) != 1 {
		return ledger.PostMany(ctx, s.Engine, journals)
	}
	id, posted, err := s.Group.Post(ctx, journals[0])
	return []ledger.Posted{{JournalID: id, New: posted, Err: err}}
}

// requireSame refuses a key that names another journal.
func (s *server) requireSame(ctx context.Context, id int64, j ledger.Journal) error {
	return database.InTenantTx(ctx, s.API, j.TenantID, func(tx pgx.Tx) error {
		same, err := ledger.Same(ctx, tx, id, j.Lines)
		if err == nil && !same {
			err = ledger.ErrKeyReused
		}
		return err
	})
}

func (r *journalResult) fill(p ledger.Posted) {
	switch {
	case p.Err != nil:
		refused := problemOf(p.Err)
		r.State, r.Code, r.Detail = "REFUSED", refused.Code, refused.Detail
		if refused.Status >= 500 || errors.Is(p.Err, idempotency.ErrInProgress) {
			r.State = unknownState // the answer to a commit may have been lost, or who took the request over posts it
		}
	case p.New:
		r.State = "POSTED"
	default:
		r.State = "REPEATED"
	}
}

type accountName struct{ code, currency string }

// accountsOf tells which of the named accounts exist, and whether each may go negative: no account is made by naming it.
func (s *server) accountsOf(ctx context.Context, tenantID string, journals []journalRequest) (map[accountName]bool, error) {
	var codes, currencies []string
	for _, j := range journals {
		for _, l := range j.Lines {
			if isText(l.Account) && isText(l.Currency) {
				codes, currencies = append(codes, l.Account), append(currencies, l.Currency)
			}
		}
	}
	known := map[accountName]bool{}
	err := database.InTenantTx(ctx, s.API, tenantID, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `
SELECT DISTINCT a.code, a.currency, a.allow_negative
  FROM unnest($2::text[], $3::text[]) AS n (code, currency)
  JOIN ledger_accounts a ON a.tenant_id = $1 AND a.code = n.code AND a.currency = n.currency`, tenantID, codes, currencies)
		if err != nil {
			return err
		}
		var name accountName
		var allow bool
		_, err = pgx.ForEachRow(rows, []any{&name.code, &name.currency, &allow}, func() error {
			known[name] = allow
			return nil
		})
		return err
	})
	return known, err
}

// journal checks a request. Its key stands apart from those of payments and transfers.
func (r journalRequest) journal(tenantID string, known map[accountName]bool) (ledger.Journal, *problem) {
	if r.Key == "" || utf8.RuneCountInString(r.Key) > maxJournalKey || strings.ContainsFunc(r.Key, unicode.IsControl) {
		return ledger.Journal{}, badRequest("key_invalid", fmt.Sprintf("key is 1 to %d characters, none of them a control character", maxJournalKey))
	}
	if len(r.Lines) > maxLines {
		return ledger.Journal{}, badRequest("lines_invalid", fmt.Sprintf("a journal has at most %d lines", maxLines))
	}
	j := ledger.Journal{TenantID: tenantID, Key: "posting:" + r.Key, Kind: "posting"}
	for _, l := range r.Lines {
		if ledger.Reserved(l.Account) {
			return j, newProblem(http.StatusUnprocessableEntity, "account_reserved", "this account is moved by channels and operators alone")
		}
		allow, there := known[accountName{l.Account, l.Currency}]
		if !there {
			return j, newProblem(http.StatusNotFound, "account_not_found", "no such account in this currency")
		}
		if l.Amount > maxLineAmount || l.Amount < -maxLineAmount {
			return j, badRequest("amount_invalid", "an amount is at most 2^53 - 1, which every JSON reader keeps exactly")
		}
		j.Lines = append(j.Lines, ledger.Line{Code: l.Account, Currency: l.Currency, Amount: l.Amount, AllowNegative: allow})
	}
	if ledger.Mints(j.Lines) {
		return j, newProblem(http.StatusUnprocessableEntity, "account_reserved", "an account that may go negative cannot pay into one of paylatch's own")
	}
	return j, nil
}

// createAccount opens an account of the merchant's own.
func (s *server) createAccount(c *gin.Context) {
	var body struct {
		Code          string `json:"code"`
		Currency      string `json:"currency"`
		AllowNegative bool   `json:"allow_negative"`
	}
	if err := readJSON(c, &body, false); err != nil {
		s.fail(c, err)
		return
	}
	if !ledger.ValidCode(body.Code) {
		s.fail(c, badRequest("code_invalid", "code is 1 to 160 of letters, digits and _-.: and begins with a letter or digit"))
		return
	}
	if _, err := money.Exponent(body.Currency); err != nil {
		s.fail(c, badRequest("currency_unknown", "currency must be an ISO 4217 code in upper case, such as CNY"))
		return
	}
	if ledger.WellKnown(body.Code) {
		s.fail(c, newProblem(http.StatusUnprocessableEntity, "account_reserved", "accounts of this name are made by paylatch itself"))
		return
	}
	var a ledger.Account
	var created bool
	err := database.InTx(c.Request.Context(), s.Engine, func(tx pgx.Tx) (err error) {
		a, created, err = ledger.OpenAccount(c.Request.Context(), tx, who(c).TenantID, body.Code, body.Currency, body.AllowNegative)
		if err != nil {
			return err
		}
		return complete(c.Request.Context(), tx, madeOrFound(created), newAccountBody(a))
	})
	if errors.Is(err, ledger.ErrKeyReused) {
		err = newProblem(http.StatusUnprocessableEntity, "account_exists", "the account exists with another allow_negative")
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	c.JSON(madeOrFound(created), newAccountBody(a))
}
