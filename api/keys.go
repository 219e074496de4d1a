package api

import (
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/jackc/pgx/v5"

	"github.com/paylatch/paylatch/internal/audit"
	"github.com/paylatch/paylatch/internal/database"
	"github.com/paylatch/paylatch/internal/tenant"
)

type keyBody struct {
	ID         int64          `json:"id"`
	Prefix     string         `json:"prefix"`
	Name       string         `json:"name"`
	Scopes     []tenant.Scope `json:"scopes"`
	CreatedAt  time.Time      `json:"created_at"`
	LastUsedAt *time.Time     `json:"last_used_at,omitempty"`
	RevokedAt  *time.Time     `json:"revoked_at,omitempty"`
	// APIKey is the key itself, in the answer that made it and in no other.
	APIKey string `json:"api_key,omitempty"`
}

func newKeyBody(k tenant.Key) keyBody {
	return keyBody{ID: k.ID, Prefix: k.Prefix, Name: k.Name, Scopes: k.Scopes, CreatedAt: k.CreatedAt, LastUsedAt: k.LastUsedAt, RevokedAt: k.RevokedAt}
}

func (s *server) listKeys(c *gin.Context) {
	p, err := readPage(c)
	if err != nil {
		s.fail(c, err)
		return
	}
	var keys []tenant.Key
	err = database.InTenantTx(c.Request.Context(), s.API, who(c).TenantID, func(tx pgx.Tx) (err error) {
		keys, err = tenant.Keys(c.Request.Context(), tx, who(c).TenantID, p.before, p.limit+1)
		return err
	})
	if err != nil {
		s.fail(c, err)
		return
	}
	c.JSON(http.StatusOK, newList(keys, p, func(k tenant.Key) int64 { return k.ID }, newKeyBody))
}

// createKey makes a key and shows it this once.
func (s *server) createKey(c *gin.Context) {
	var body struct {
		Name   string   `json:"name"`
		Scopes []string `json:"scopes"`
	}
	if err := readJSON(c, &body, false); err != nil {
		s.fail(c, err)
		return
	}
	scopes, err := tenant.ParseScopes(body.Scopes)
	if err != nil {
		s.fail(c, err)
		return
	}
	var made keyBody
	err = database.InTx(c.Request.Context(), s.Engine, func(tx pgx.Tx) error {
		apiKey, k, err := tenant.AddKey(c.Request.Context(), tx, who(c).TenantID, body.Name, scopes)
		if err != nil {
			return err
		}
		made = newKeyBody(k)
		// The answer is kept without the key itself, which is shown this once.
		if err := complete(c.Request.Context(), tx, http.StatusCreated, made); err != nil {
			return err
		}
		made.APIKey = apiKey
		return nil
	})
	if err != nil {
		s.fail(c, err)
		return
	}
	c.JSON(http.StatusCreated, made)
}

func (s *server) revokeKey(c *gin.Context) {
	id, err := strconv.ParseInt(c.Param("id"), 10, 64)
	if err != nil {
		s.fail(c, tenant.ErrNoKey)
		return
	}
	if err := readJSON(c, &struct{}{}, true); err != nil {
		s.fail(c, err)
		return
	}
	var k tenant.Key
	err = database.InTx(c.Request.Context(), s.Engine, func(tx pgx.Tx) (err error) {
		if k, err = tenant.RevokeKey(c.Request.Context(), tx, who(c).TenantID, id, true); err != nil {
			return err
		}
		return complete(c.Request.Context(), tx, http.StatusOK, newKeyBody(k))
	})
	if err != nil {
		s.fail(c, err)
		return
	}
	c.JSON(http.StatusOK, newKeyBody(k))
}

type auditBody struct {
	ID        int64        `json:"id"`
	At        time.Time    `json:"at"`
	Actor     string       `json:"actor"`
	Action    audit.Action `json:"action"`
	Target    string       `json:"target"`
	Detail    string       `json:"detail,omitempty"`
	RequestID string       `json:"request_id,omitempty"`
}

// listAudit shows what operators did.
func (s *server) listAudit(c *gin.Context) {
	p, err := readPage(c)
	if err != nil {
		s.fail(c, err)
		return
	}
	entries, err := audit.List(c.Request.Context(), s.API, who(c).TenantID, p.before, p.limit+1)
	if err != nil {
		s.fail(c, err)
		return
	}
	c.JSON(http.StatusOK, newList(entries, p, func(e audit.Entry) int64 { return e.ID }, func(e audit.Entry) auditBody {
		return auditBody{e.ID, e.At, e.Actor, e.Action, e.Target, e.Detail, e.RequestID}
	}))
}
