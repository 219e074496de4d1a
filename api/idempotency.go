package api

import (
	"strings"

	"github.com/gin-gonic/gin"
)

// idempotencyKey reads the key of a request, from Idempotency-Key or X-Idempotency-Key; empty without one. Bare and quoted
// (an RFC 8941 string) are the same key.
func idempotencyKey(c *gin.Context) (string, error) {
	values := append(c.Request.Header.Values("Idempotency-Key"), c.Request.Header.Values("X-Idempotency-Key")...)
	if len(values) == 0 {
		return "", nil
	}
	malformed := badRequest("idempotency_key_malformed", "send one Idempotency-Key of 1 to 255 visible ASCII characters, bare or in quotes")
	if len(values) > 1 {
		return "", malformed
	}
	key := values[0]
	if strings.HasPrefix(key, `"`) {
		if len(key) < 2 || !strings.HasSuffix(key, `"`) {
			return "", malformed
		}
		key = key[1 : len(key)-1]
	}
	if key == "" || len(key) > 255 || strings.ContainsFunc(key, func(r rune) bool { return r < 0x21 || r > 0x7E }) {
		return "", malformed
	}
	return key, nil
}
