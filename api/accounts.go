package api

import (
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/jackc/pgx/v5"

	"github.com/paylatch/paylatch/internal/database"
	"github.com/paylatch/paylatch/internal/ledger"
	"github.com/paylatch/paylatch/internal/money"
)

type accountBody struct {
	Code          string    `json:"code"`
	Currency      string    `json:"currency"`
	Balance       int64     `json:"balance"`
	Held          int64     `json:"held"`
	Available     int64     `json:"available"`
	Version       int64     `json:"version"`
	AllowNegative bool      `json:"allow_negative"`
	CreatedAt     time.Time `json:"created_at"`
}

type entryBody struct {
	JournalKey   string    `json:"journal_key"`
	Kind         string    `json:"kind"`
	Amount       int64     `json:"amount"`
	BalanceAfter int64     `json:"balance_after"`
	Version      int64     `json:"version"`
	PostedAt     time.Time `json:"posted_at"`
}

// accountOf reads the path's code and the query's currency (default: the tenant's).
func accountOf(c *gin.Context) (code, currency string, err error) {
	code, currency = c.Param("code"), c.Query("currency")
	if currency == "" {
		currency = who(c).DefaultCurrency
	}
	if _, err := money.Exponent(currency); err != nil {
		return "", "", badRequest("currency_unknown", "currency must be an ISO 4217 code in upper case, such as CNY")
	}
	if !ledger.ValidCode(code) {
		return "", "", ledger.ErrNoAccount
	}
	return code, currency, nil
}

func (s *server) getAccount(c *gin.Context) {
	code, currency, err := accountOf(c)
	if err != nil {
		s.fail(c, err)
		return
	}
	var a ledger.Account
	err = database.InTenantTx(c.Request.Context(), s.API, who(c).TenantID, func(tx pgx.Tx) (err error) {
		a, err = ledger.Find(c.Request.Context(), tx, who(c).TenantID, code, currency)
		return err
	})
	if err != nil {
		s.fail(c, err)
		return
	}
	c.JSON(http.StatusOK, newAccountBody(a))
}

func newAccountBody(a ledger.Account) accountBody {
	return accountBody{
		Code: a.Code, Currency: a.Currency, Balance: a.Balance, Held: a.Held, Available: a.Available(),
		Version: a.Version, AllowNegative: a.AllowNegative, CreatedAt: a.CreatedAt,
	}
}

func (s *server) listEntries(c *gin.Context) {
	p, err := readPage(c)
	if err != nil {
		s.fail(c, err)
		return
	}
	code, currency, err := accountOf(c)
	if err != nil {
		s.fail(c, err)
		return
	}
	var entries []ledger.Entry
	err = database.InTenantTx(c.Request.Context(), s.API, who(c).TenantID, func(tx pgx.Tx) error {
		a, err := ledger.Find(c.Request.Context(), tx, who(c).TenantID, code, currency)
		if err != nil {
			return err
		}
		entries, err = ledger.Statement(c.Request.Context(), tx, a.ID, p.before, p.limit+1)
		return err
	})
	if err != nil {
		s.fail(c, err)
		return
	}
	c.JSON(http.StatusOK, newList(entries, p, func(e ledger.Entry) int64 { return e.Version }, func(e ledger.Entry) entryBody {
		return entryBody{e.JournalKey, e.Kind, e.Amount, e.BalanceAfter, e.Version, e.PostedAt}
	}))
}
