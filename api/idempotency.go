package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/paylatch/paylatch/internal/idempotency"
	"github.com/paylatch/paylatch/internal/strictjson"
)

const (
	// idempotencyWait is how long a request waits for its twin.
	idempotencyWait = 3 * time.Second
	// idempotencyStore bounds the keeping of an answer: the caller waits for it.
	idempotencyStore = 2 * time.Second
)

// replayedHeader marks an answer that was made for an earlier request.
const replayedHeader = "Idempotency-Replayed"

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
	key, whole := unquoted(values[0])
	if !whole || key == "" || len(key) > 255 || strings.ContainsFunc(key, func(r rune) bool { return r < 0x21 || r > 0x7E }) {
		return "", malformed
	}
	return key, nil
}

// unquoted gives the text of an RFC 8941 string, in which a backslash stands before a quote or a backslash and nowhere else; a
// bare text is itself. whole is false where a quoted one does not end, or goes on after its end.
func unquoted(value string) (text string, whole bool) {
	if !strings.HasPrefix(value, `"`) {
		return value, true
	}
	var out strings.Builder
	for i := 1; i < len(value); i++ {
		switch value[i] {
		case '"':
			return out.String(), i == len(value)-1
		case '\\':
			if i++; i == len(value) || value[i] != '"' && value[i] != '\\' {
				return "", false
			}
		}
		out.WriteByte(value[i])
	}
	return "", false
}

// idempotent wraps the handler of every POST: a request that names itself by a key is carried out once, and answered again as
// the first time. See package idempotency for what happens between.
func (s *server) idempotent(handle gin.HandlerFunc) gin.HandlerFunc {
	return func(c *gin.Context) {
		name, err := idempotencyKey(c)
		if err != nil {
			s.fail(c, err)
			return
		}
		if name == "" {
			handle(c)
			return
		}
		print, err := fingerprint(c)
		if err != nil {
			s.fail(c, err)
			return
		}
		wait := idempotencyWait
		if prefersAsync(c.Request.Header) {
			wait = 0
		}
		key := idempotency.Key{Tenant: who(c).TenantID, Route: c.Request.Method + " " + c.FullPath(), Key: name, Life: who(c).Life}
		claim, answer, err := s.keys.Begin(c.Request.Context(), key, print, wait)
		switch {
		case errors.Is(err, idempotency.ErrInProgress) && prefersAsync(c.Request.Header):
			c.Header("Preference-Applied", "respond-async")
			c.Header("Retry-After", "1")
			s.fail(c, newProblem(http.StatusAccepted, "idempotency_key_in_progress", idempotency.ErrInProgress.Error()))
		case err != nil:
			s.fail(c, err)
		case answer != nil:
			s.replay(c, *answer)
		default:
			s.underClaim(c, claim, handle)
		}
	}
}

// fingerprint hashes method, concrete path, query and body: JSON in its canonical form, so that the order of keys and white
// space do not matter, anything else as it is. The body can be read again.
func fingerprint(c *gin.Context) (idempotency.Fingerprint, error) {
	body, err := readBody(c)
	if err != nil {
		return idempotency.Fingerprint{}, err
	}
	c.Request.Body = io.NopCloser(bytes.NewReader(body))
	media, _, err := mime.ParseMediaType(c.GetHeader("Content-Type"))
	if err == nil && media == "application/json" && len(body) > 0 {
		if err := strictjson.Check(body); err != nil {
			return idempotency.Fingerprint{}, jsonProblem(err)
		}
		if body, err = canonicalJSON(body); err != nil {
			return idempotency.Fingerprint{}, err
		}
	}
	hash := sha256.New()
	fmt.Fprintf(hash, "%s\n%q\n%q\n", c.Request.Method, c.Request.URL.Path, c.Request.URL.Query().Encode())
	hash.Write(body)
	return idempotency.Fingerprint(hash.Sum(nil)), nil
}

func (s *server) replay(c *gin.Context, a idempotency.Answer) {
	c.Header(replayedHeader, "true")
	if a.Location != "" {
		c.Header("Location", a.Location)
	}
	c.Data(a.Status, a.ContentType, a.Body)
}

// underClaim runs a handler that holds a claim, decides what becomes of its answer, and sends it only then: an answer that a
// caller has seen is the one that it will see again.
func (s *server) underClaim(c *gin.Context, claim *idempotency.Claim, handle gin.HandlerFunc) {
	client := c.Writer
	recorded := &recorder{ResponseWriter: client}
	c.Writer = recorded
	c.Request = c.Request.WithContext(claim.Context(c.Request.Context()))
	settled := false
	defer func() {
		c.Writer = client
		if !settled { // a panic: what it left behind is not known
			s.settle(c, claim.Release)
		}
	}()
	handle(c)
	if len(c.Errors) > 0 && !recorded.Written() {
		return // an answer that could not be written; see recover
	}
	switch status := recorded.Status(); {
	case status == http.StatusAccepted || status >= statusHungUp || c.GetBool(unfinishedKey):
		// The effect may be there, and the answer is not the last word.
		s.settle(c, claim.Release)
	case status < 300 || status == http.StatusConflict:
		s.settle(c, func(ctx context.Context) error { return claim.Finish(ctx, recorded.answer()) })
	default:
		// Refused before any effect: put right, it may come again under the same key.
		s.settle(c, claim.Drop)
	}
	settled = true
	client.WriteHeader(recorded.Status())
	if _, err := client.Write(recorded.body.Bytes()); err != nil {
		s.log.Debug("the caller is gone; its answer is kept", zap.String("request_id", requestID(c)))
	}
}

const unfinishedKey = "unfinished"

// unfinished says of an answer, whatever its status, that it is not the last word: the same request carries on instead of
// being answered with it again.
func unfinished(c *gin.Context) { c.Set(unfinishedKey, true) }

// settle does the last thing to a claim, also for a caller that has hung up. Where it fails the lease lapses, and the effect's
// own key answers a repeat.
func (s *server) settle(c *gin.Context, do func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Request.Context()), idempotencyStore)
	defer cancel()
	if err := do(ctx); err != nil {
		s.log.Warn("an idempotency key keeps its lease", zap.String("request_id", requestID(c)), zap.String("route", c.FullPath()), zap.Error(err))
	}
}

// complete keeps an answer within the effect's own transaction; see [idempotency.Complete].
func complete(ctx context.Context, tx pgx.Tx, status int, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("write down the answer: %w", err)
	}
	a := idempotency.Answer{Status: status, ContentType: jsonType, Body: text}
	if _, refused := body.(*problem); refused {
		a.ContentType = problemType
	}
	return idempotency.Complete(ctx, tx, a)
}

const (
	jsonType    = "application/json; charset=utf-8"
	problemType = "application/problem+json"
)

// recorder keeps an answer back. Headers go to the client's writer at once: they are not sent before the body is.
type recorder struct {
	gin.ResponseWriter
	status  int
	written bool
	body    bytes.Buffer
}

func (r *recorder) answer() idempotency.Answer {
	return idempotency.Answer{
		Status: r.Status(), ContentType: r.Header().Get("Content-Type"), Location: r.Header().Get("Location"),
		Body: append([]byte{}, r.body.Bytes()...),
	}
}

func (r *recorder) WriteHeader(status int) { r.status = status }

func (r *recorder) WriteHeaderNow() { r.written = true }

func (r *recorder) Write(p []byte) (int, error) {
	r.written = true
	return r.body.Write(p)
}

func (r *recorder) WriteString(text string) (int, error) { return r.Write([]byte(text)) }

func (r *recorder) Status() int {
	if r.status == 0 {
		return http.StatusOK
	}
	return r.status
}

func (r *recorder) Size() int { return r.body.Len() }

func (r *recorder) Written() bool { return r.written }

func (r *recorder) Flush() {}
