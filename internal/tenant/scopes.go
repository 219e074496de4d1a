package tenant

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Scope is what an API key may do.
type Scope string

// The scopes. None implies another, except that admin implies all: a shop that takes payments need not be able to give money
// back.
const (
	// Read reads whatever belongs to the tenant.
	Read Scope = "read"
	// Write takes payments and moves what is the merchant's own.
	Write Scope = "write"
	// Refund gives payers their money back.
	Refund Scope = "refund"
	// Admin manages keys, sees the audit log, and takes parked events out.
	Admin Scope = "admin"
)

// Scopes lists all scopes.
func Scopes() []Scope { return []Scope{Read, Write, Refund, Admin} }

// ErrScopes says that a list of scopes is empty or names one that does not exist.
var ErrScopes = errors.New("scopes are one or more of read, write, refund and admin")

// ParseScopes checks names and gives each scope once, in a fixed order. Error: [ErrScopes].
func ParseScopes(names []string) ([]Scope, error) {
	var scopes []Scope
	for _, name := range names {
		scope := Scope(strings.TrimSpace(name))
		if !slices.Contains(Scopes(), scope) {
			return nil, fmt.Errorf("scope %.20q: %w", name, ErrScopes)
		}
		scopes = append(scopes, scope)
	}
	if len(scopes) == 0 {
		return nil, ErrScopes
	}
	slices.SortFunc(scopes, func(a, b Scope) int { return slices.Index(Scopes(), a) - slices.Index(Scopes(), b) })
	return slices.Compact(scopes), nil
}
