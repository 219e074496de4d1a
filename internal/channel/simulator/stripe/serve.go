package stripe

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/paylatch/paylatch/internal/channel/simulator"
)

// trouble is an error object of the API.
type trouble struct {
	status int
	body   map[string]any
}

func problem(status int, kind, code, message string) *trouble {
	e := map[string]any{"type": kind, "message": message}
	if code != "" {
		e["code"] = code
		e["doc_url"] = "https://stripe.com/docs/error-codes/" + strings.ReplaceAll(code, "_", "-")
	}
	return &trouble{status, e}
}

func invalid(code, message string) *trouble {
	return problem(http.StatusBadRequest, "invalid_request_error", code, message)
}

func missing(what, id string) *trouble {
	return problem(http.StatusNotFound, "invalid_request_error", "resource_missing", "No such "+what+": '"+id+"'")
}

func (t *trouble) answer() *simulator.Answer {
	return answer(t.status, map[string]any{"error": t.body})
}

func (t *trouble) write(w http.ResponseWriter) {
	a := t.answer()
	for name, values := range a.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(a.Status)
	_, _ = w.Write(a.Body)
}

func answer(status int, v any) *simulator.Answer {
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		panic(err) // maps of texts and numbers always marshal
	}
	return &simulator.Answer{Status: status, Body: body, Header: http.Header{
		"Content-Type": {"application/json"}, "Request-Id": {"req_" + word(14)},
	}}
}

// kept is what an idempotency key keeps: the first call's parameters, and its answer from the moment that its work began.
type kept struct {
	path   string
	form   string
	answer *simulator.Answer
}

func (s *Simulator) serve(w http.ResponseWriter, req *http.Request, r route) {
	form, err := read(req)
	if err != nil {
		invalid("", "Invalid request body").write(w)
		return
	}
	if t := s.admit(req); t != nil {
		t.write(w)
		return
	}
	if address := s.elsewhere(); address != "" {
		http.Redirect(w, req, address, http.StatusTemporaryRedirect)
		return
	}
	c := call{id: req.PathValue("id"), form: form}
	s.core.Serve(w, r.kind, s.number(r.kind, c), func() *simulator.Answer {
		s.mu.Lock()
		defer s.mu.Unlock()
		if req.Method != http.MethodPost {
			return s.do(r, c)
		}
		return s.once(req, r, c)
	}, garble)
}

// garble cuts an answer off: Stripe signs none, so this is how one can fail to be Stripe's.
func garble(a *simulator.Answer) { a.Body = a.Body[:len(a.Body)/2] }

func read(req *http.Request) (url.Values, error) {
	if req.Method != http.MethodPost {
		return req.URL.Query(), nil
	}
	body, err := io.ReadAll(io.LimitReader(req.Body, 1<<20))
	if err != nil {
		return nil, err
	}
	return url.ParseQuery(string(body))
}

// admit looks at the key and what it may do.
func (s *Simulator) admit(req *http.Request) *trouble {
	key, _ := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer ")
	if user, _, ok := req.BasicAuth(); ok {
		key = user
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case key == "":
		return problem(http.StatusUnauthorized, "invalid_request_error", "", "You did not provide an API key.")
	case key != s.secretKey:
		return problem(http.StatusUnauthorized, "invalid_request_error", "", "Invalid API Key provided: "+key[:min(len(key), 8)]+"*********"+key[max(0, len(key)-4):])
	}
	for _, prefix := range s.quirks.Forbid {
		if strings.HasPrefix(req.URL.Path, prefix) {
			return problem(http.StatusForbidden, "invalid_request_error", "", "The provided key does not have the required permissions for this endpoint.")
		}
	}
	if s.quirks.Throttle > 0 {
		s.quirks.Throttle--
		return problem(http.StatusTooManyRequests, "invalid_request_error", "rate_limit", "Request rate limit exceeded.")
	}
	return nil
}

func (s *Simulator) elsewhere() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.quirks.Redirect == 0 {
		return ""
	}
	s.quirks.Redirect--
	return s.quirks.RedirectTo
}

// number is the merchant's number that a call names.
func (s *Simulator) number(kind string, c call) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := c.metadata("metadata")
	for _, name := range []string{"out_return_no", "out_refund_no", "out_order_no", "out_trade_no"} {
		if m[name] != "" {
			return m[name]
		}
	}
	if o := s.offerOf(c.id); o != nil {
		return o.order()
	}
	if o := s.offerOf(c.form.Get("payment_intent")); o != nil && kind != "query" {
		return o.order()
	}
	if r := s.refundOf(c.id); r != nil {
		return r.metadata["out_refund_no"]
	}
	if t := s.transferOf(c.id); t != nil {
		return t.metadata["out_order_no"]
	}
	_, number := searched(c.form.Get("query"))
	return number
}

// once is how Stripe treats a call that makes something: the first answer under a key is the answer to all, from the moment
// that its work began; a call that is refused before leaves nothing.
func (s *Simulator) once(req *http.Request, r route, c call) *simulator.Answer {
	key := req.Header.Get("Idempotency-Key")
	if len(key) > 255 {
		return invalid("", "Idempotency keys are at most 255 characters long.").answer()
	}
	form := c.form.Encode()
	if first := s.keys[key]; key != "" && first != nil {
		if first.path != req.URL.Path || first.form != form {
			return problem(http.StatusBadRequest, "idempotency_error", "",
				"Keys for idempotent requests can only be used with the same parameters they were first used with. Try using a key other than '"+key+
					"' if you meant to execute a different request.").answer()
		}
		again := *first.answer
		again.Header = again.Header.Clone()
		again.Header.Set("Idempotent-Replayed", "true")
		return &again
	}
	if s.quirks.Busy > 0 {
		s.quirks.Busy--
		return problem(http.StatusConflict, "invalid_request_error", "idempotency_key_in_use", "There is currently another in-progress request using this idempotency key.").answer()
	}
	var a *simulator.Answer
	switch {
	case s.quirks.FailKept > 0:
		s.quirks.FailKept--
		a = broken()
	case s.quirks.FailAfter > 0:
		s.quirks.FailAfter--
		s.do(r, c)
		a = broken()
	default:
		a = s.do(r, c)
	}
	if key != "" {
		copied := *a
		copied.Header = a.Header.Clone()
		s.keys[key] = &kept{path: req.URL.Path, form: form, answer: &copied}
	}
	return a
}

func broken() *simulator.Answer {
	return problem(http.StatusInternalServerError, "api_error", "", "An unknown error occurred").answer()
}

func (s *Simulator) do(r route, c call) *simulator.Answer {
	v, t := r.work(s, c)
	if t != nil {
		return t.answer()
	}
	if o, is := v.(object); is {
		for _, path := range c.form["expand[]"] {
			if t := s.expand(o, strings.Split(path, ".")); t != nil {
				return t.answer()
			}
		}
	}
	return answer(http.StatusOK, v)
}

// expand puts objects in the place of their ids.
func (s *Simulator) expand(o object, path []string) *trouble {
	if list, is := o["data"].([]any); is && path[0] == "data" {
		for _, each := range list {
			if t := s.expand(each.(object), path[1:]); t != nil {
				return t
			}
		}
		return nil
	}
	value, there := o[path[0]]
	if !there {
		return invalid("", "This property cannot be expanded ("+strings.Join(path, ".")+").")
	}
	inner, is := value.(object)
	if id, isID := value.(string); isID {
		if inner, is = s.byID(id); !is {
			return invalid("", "This property cannot be expanded ("+strings.Join(path, ".")+").")
		}
		o[path[0]] = inner
	}
	if !is || len(path) == 1 {
		return nil // null stays null
	}
	return s.expand(inner, path[1:])
}
