package api

import (
	"errors"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"
	"go.uber.org/zap"

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
	identified, err := s.identify(c, key)
	if errors.Is(err, tenant.ErrUnknown) {
		s.unauthorized(c, "the API key is not known, or was revoked")
		return
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	if wait := s.limits.take(identified.TenantID, identified.KeyID); wait > 0 {
		s.log.Info("an API key asks too much", zap.String("request_id", requestID(c)), zap.String("tenant", identified.TenantID), zap.String("key", identified.KeyPrefix))
		s.tooMany(c, wait, "this API key asks more than it may; wait as Retry-After says")
		return
	}
	c.Set(tenantKey, identified)
	c.Request = c.Request.WithContext(audit.As(c.Request.Context(), audit.Actor{Name: identified.KeyPrefix, RequestID: requestID(c)}))
	c.Next()
}

// identify asks who has a key. What cannot be one, or is known to be none, costs no query.
func (s *server) identify(c *gin.Context, key string) (tenant.Identified, error) {
	if !tenant.IsKey(key) {
		return tenant.Identified{}, tenant.ErrUnknown
	}
	q, refused, wait := s.strangers.ask(key, c.Request.RemoteAddr)
	if refused {
		return tenant.Identified{}, tenant.ErrUnknown
	}
	if wait > 0 {
		s.log.Info("an address asks with too many unknown API keys", zap.String("request_id", requestID(c)), zap.String("remote", c.Request.RemoteAddr))
		retryAfter(c, wait)
		return tenant.Identified{}, newProblem(http.StatusTooManyRequests, "rate_limited", "too many unknown API keys came from this address; wait as Retry-After says")
	}
	identified, err := tenant.Identify(c.Request.Context(), s.Engine, key)
	switch {
	case err == nil:
		s.strangers.known(q)
	case errors.Is(err, tenant.ErrUnknown):
		s.strangers.strange(q)
	default:
		s.strangers.unsure(q)
	}
	return identified, err
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
