package api

import (
	"errors"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/paylatch/paylatch/internal/audit"
	"github.com/paylatch/paylatch/internal/tenant"
)

const tenantKey = "tenant"

func who(c *gin.Context) tenant.Identified { return c.MustGet(tenantKey).(tenant.Identified) }

// authenticate finds the tenant of the request's API key.
func (s *server) authenticate(c *gin.Context) {
	scheme, key, _ := strings.Cut(c.GetHeader("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || key == "" || len(c.Request.Header.Values("Authorization")) > 1 {
		s.unauthorized(c, "send one header Authorization: Bearer <api key>")
		return
	}
	identified, err := tenant.Identify(c.Request.Context(), s.Engine, key)
	if errors.Is(err, tenant.ErrUnknown) {
		s.unauthorized(c, "the API key is not known, or was revoked")
		return
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	if wait := s.limits.take(identified.KeyID); wait > 0 {
		s.tooMany(c, identified, wait)
		return
	}
	c.Set(tenantKey, identified)
	c.Request = c.Request.WithContext(audit.As(c.Request.Context(), audit.Actor{Name: identified.KeyPrefix, RequestID: requestID(c)}))
	c.Next()
}

// require lets a request pass whose key has the scope.
func (s *server) require(scope tenant.Scope) gin.HandlerFunc {
	return func(c *gin.Context) {
		if !who(c).May(scope) {
			s.fail(c, newProblem(http.StatusForbidden, "scope_missing", "this needs an API key with the scope "+string(scope)))
		}
	}
}

func (s *server) unauthorized(c *gin.Context, detail string) {
	c.Header("WWW-Authenticate", `Bearer realm="paylatch"`)
	s.fail(c, newProblem(http.StatusUnauthorized, "unauthorized", detail))
}
