package api

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gin-gonic/gin"
	"github.com/jackc/pgx/v5"

	"github.com/paylatch/paylatch/internal/database"
	"github.com/paylatch/paylatch/internal/strictjson"
)

// readJSON reads a request's body into v: one JSON object, known fields only. An absent body is taken as {} where optional.
func readJSON(c *gin.Context, v any, optional bool) error {
	body, err := readBody(c)
	if err != nil {
		return err
	}
	if len(body) == 0 && optional {
		return nil
	}
	if media, _, err := mime.ParseMediaType(c.GetHeader("Content-Type")); err != nil || media != "application/json" {
		return newProblem(http.StatusUnsupportedMediaType, "content_type_unsupported", "send Content-Type: application/json")
	}
	err = strictjson.UnmarshalKnown(body, v)
	if err == nil && !bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{")) {
		return errNoObject // encoding/json takes null for any value
	}
	return jsonProblem(err)
}

// readBody reads a request's body to its end.
func readBody(c *gin.Context) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(c.Writer, c.Request.Body, maxBody))
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return nil, newProblem(http.StatusRequestEntityTooLarge, "body_too_large", "a request has at most 1 MiB")
	}
	if err != nil {
		return nil, badRequest("body_incomplete", "the body ended before it was whole")
	}
	return body, nil
}

var errNoObject = badRequest("json_malformed", "the body must be a JSON object")

func jsonProblem(err error) error {
	var typed *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, strictjson.ErrMalformed):
		return badRequest("json_malformed", err.Error())
	case errors.As(err, &typed) && typed.Field == "":
		return errNoObject
	case errors.As(err, &typed):
		return badRequest(fieldCode(typed.Field), fmt.Sprintf("%s must be %s", typed.Field, describeType(typed.Type.Kind().String())))
	case strings.Contains(err.Error(), "unknown field"):
		return badRequest("field_unknown", fmt.Sprintf("%.80s", strings.TrimPrefix(err.Error(), "json: ")))
	default:
		return badRequest("json_malformed", "the body cannot be read")
	}
}

// canonicalJSON gives one text to all JSON of the same meaning: keys sorted, no white space, numbers as written. raw is a part
// of a body that was read, and so well-formed; absent stays absent.
func canonicalJSON(raw json.RawMessage) (json.RawMessage, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var value any
	if err := dec.Decode(&value); err != nil {
		return nil, err
	}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false) // it would make six bytes of one
	if err := enc.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}

// fieldCode is the stable code of a field that is not as it must be; what stands inside of a list goes by the list's name.
func fieldCode(field string) string {
	field, _, _ = strings.Cut(field, ".")
	return field + "_invalid"
}

func describeType(kind string) string {
	switch kind {
	case "int64":
		return "a whole number within 64 bits"
	case "string":
		return "a string"
	default:
		return "of the documented type"
	}
}

// isText tells whether the database can hold s as text; what it cannot hold names nothing in it.
func isText(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }

// read runs what a merchant reads, with the API's role: row-level security shows the caller's tenant alone, whatever a statement
// asks for.
func (s *server) read(c *gin.Context, do func(ctx context.Context, tx pgx.Tx) error) error {
	ctx := c.Request.Context()
	return database.InTenantTx(ctx, s.API, who(c).TenantID, func(tx pgx.Tx) error { return do(ctx, tx) })
}

// page is a list's cursor and size.
type page struct {
	before int64
	limit  int
}

const (
	defaultLimit = 50
	maxLimit     = 200
)

func readPage(c *gin.Context) (page, error) {
	p := page{limit: defaultLimit}
	if text := c.Query("limit"); text != "" {
		limit, err := strconv.Atoi(text)
		if err != nil || limit < 1 || limit > maxLimit {
			return p, badRequest("limit_invalid", fmt.Sprintf("limit is 1 to %d", maxLimit))
		}
		p.limit = limit
	}
	if text := c.Query("cursor"); text != "" {
		raw, err := base64.RawURLEncoding.DecodeString(text)
		if err == nil {
			p.before, err = strconv.ParseInt(string(raw), 10, 64)
		}
		if err != nil || p.before < 1 {
			return p, badRequest("cursor_invalid", "use the next_cursor of the page before, unchanged")
		}
	}
	return p, nil
}

// list is one page. It was read with one row more than its limit, which tells whether there is another page.
type list[T any] struct {
	Items      []T    `json:"items"`
	NextCursor string `json:"next_cursor,omitempty"`
}

func newList[Row, T any](rows []Row, p page, cursor func(Row) int64, item func(Row) T) list[T] {
	l := list[T]{Items: []T{}}
	if len(rows) > p.limit {
		rows = rows[:p.limit]
		l.NextCursor = base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(cursor(rows[p.limit-1]), 10)))
	}
	for _, row := range rows {
		l.Items = append(l.Items, item(row))
	}
	return l
}

// queryTime reads an RFC 3339 time; absent is the zero time.
func queryTime(c *gin.Context, name string) (time.Time, error) {
	text := c.Query(name)
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}, badRequest(fieldCode(name), name+" must be an RFC 3339 time such as 2026-03-01T08:00:00Z")
	}
	return t.UTC(), nil
}

// queryOneOf reads a word out of a fixed list; absent is empty.
func queryOneOf[T ~string](c *gin.Context, name string, allowed []T) (T, error) {
	text := T(c.Query(name))
	if text == "" {
		return "", nil
	}
	for _, a := range allowed {
		if a == text {
			return text, nil
		}
	}
	return "", badRequest(fieldCode(name), fmt.Sprintf("%s must be one of %v", name, allowed))
}
