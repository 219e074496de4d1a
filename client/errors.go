package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// Error is a refusal, or a failure of the server.
type Error struct {
	// Status is the HTTP status.
	Status int `json:"status"`
	// Code is stable and meant for programs, such as insufficient_funds.
	Code string `json:"code"`
	// Detail is meant for people.
	Detail string `json:"detail"`
	// RequestID is the name under which the server's log knows the request.
	RequestID string `json:"-"`
}

func (e *Error) Error() string {
	return fmt.Sprintf("paylatch: %d %s: %s (request %s)", e.Status, e.Code, e.Detail, e.RequestID)
}

// HasCode tells whether err is an [Error] with one of the codes.
func HasCode(err error, codes ...string) bool {
	var e *Error
	if !errors.As(err, &e) {
		return false
	}
	for _, code := range codes {
		if e.Code == code {
			return true
		}
	}
	return false
}

// codeInProgress says that the same request is still being worked on.
const codeInProgress = "idempotency_key_in_progress"

func newError(response *http.Response, text []byte) *Error {
	e := &Error{}
	if json.Unmarshal(text, e) != nil || e.Code == "" {
		// Not from paylatch: a proxy on the way, perhaps.
		e = &Error{Code: "unexpected_answer", Detail: "an answer that is not the API's: " + response.Header.Get("Content-Type")}
	}
	e.Status = response.StatusCode
	e.RequestID = response.Header.Get("X-Request-Id")
	return e
}

// networkError says that there was no answer, or none that was whole: what became of the request is not known.
type networkError struct{ err error }

func (e *networkError) Error() string { return "paylatch: no answer: " + e.err.Error() }
func (e *networkError) Unwrap() error { return e.err }

// again tells whether a request may be sent once more. Where the first may have been carried out that takes a name for it: an
// idempotency key, or a method that means the same twice.
func again(err error, r call) bool {
	var e *Error
	if !errors.As(err, &e) {
		var network *networkError
		return errors.As(err, &network) && !r.once
	}
	switch {
	case e.Status == http.StatusTooManyRequests:
		return true
	case e.Code == codeInProgress:
		return !r.async
	default:
		return e.Status >= 500 && !r.once
	}
}
