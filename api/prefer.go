package api

import (
	"net/http"
	"strings"
)

// prefersAsync tells whether the caller would rather not wait: the preference respond-async of RFC 7240, in any of its Prefer
// headers, in any case, among others and with parameters.
func prefersAsync(h http.Header) bool {
	for _, value := range h.Values("Prefer") {
		for _, preference := range unquotedSplit(value, ',') {
			name, given, _ := strings.Cut(unquotedSplit(preference, ';')[0], "=")
			// It takes no value; an empty one is none.
			if given = strings.TrimSpace(given); strings.EqualFold(strings.TrimSpace(name), "respond-async") && (given == "" || given == `""`) {
				return true
			}
		}
	}
	return false
}

// unquotedSplit splits a header's value where sep stands outside of a quoted string.
func unquotedSplit(value string, sep byte) (parts []string) {
	quoted, begin := false, 0
	for i := 0; i < len(value); i++ {
		switch c := value[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case c == sep && !quoted:
			parts = append(parts, value[begin:i])
			begin = i + 1
		}
	}
	return append(parts, value[begin:])
}
