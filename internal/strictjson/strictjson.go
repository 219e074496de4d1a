// Package strictjson reads JSON that others send us, refusing what encoding/json lets pass and two readers could read
// differently: duplicate keys (also in another case), invalid UTF-8, lone surrogates, trailing data, and depth without end.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxDepth bounds the nesting of objects and arrays.
const MaxDepth = 32

// ErrMalformed wraps every refusal of [Check]; its text says what is wrong, without quoting values.
var ErrMalformed = errors.New("malformed JSON")

// Unmarshal reads exactly one JSON value into v; unknown fields are skipped.
// Errors: [ErrMalformed], or json's own where the value does not fit v.
func Unmarshal(data []byte, v any) error {
	if err := Check(data); err != nil {
		return err
	}
	return json.Unmarshal(data, v)
}

// UnmarshalKnown is [Unmarshal], but a field that v does not have is an error: for our own API, where a
// misspelt field must not be taken for an absent one.
func UnmarshalKnown(data []byte, v any) error {
	if err := Check(data); err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	return dec.Decode(v)
}

// Check reports [ErrMalformed] unless data is one well-formed JSON value with one meaning.
func Check(data []byte) error {
	if !utf8.Valid(data) {
		return fmt.Errorf("%w: not valid UTF-8", ErrMalformed)
	}
	if err := checkSurrogates(data); err != nil {
		return err
	}
	if !json.Valid(data) {
		return malformed(data)
	}
	return checkKeys(data)
}

// malformed says what keeps data from being one value.
func malformed(data []byte) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	var value json.RawMessage
	err := dec.Decode(&value)
	var syntax *json.SyntaxError
	switch {
	case err == nil:
		return fmt.Errorf("%w: more than one value", ErrMalformed)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: it ends too early", ErrMalformed)
	case errors.As(err, &syntax):
		return fmt.Errorf("%w: at byte %d", ErrMalformed, syntax.Offset)
	}
	return fmt.Errorf("%w: %w", ErrMalformed, err)
}

// fold gives one text to all keys that are one by Unicode's simple folding.
func fold(key string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			least = min(least, f)
		}
		return least
	}, key)
}

// checkSurrogates refuses \uD800 to \uDFFF outside a pair: encoding/json would make one replacement character of all
// of them, and two different identifiers the same.
func checkSurrogates(data []byte) error {
	if bytes.IndexByte(data, '\\') < 0 {
		return nil
	}
	for i := 0; i < len(data); i++ {
		if data[i] != '\\' {
			continue
		}
		unit, ok := escapedUnit(data[i:])
		if !ok {
			i++ // the escaped character, which may be a backslash
			continue
		}
		i += 5
		switch {
		case unit >= 0xD800 && unit < 0xDC00:
			if low, ok := escapedUnit(data[i+1:]); !ok || low < 0xDC00 || low > 0xDFFF {
				return fmt.Errorf("%w: half of a surrogate pair", ErrMalformed)
			}
			i += 6
		case unit >= 0xDC00 && unit <= 0xDFFF:
			return fmt.Errorf("%w: half of a surrogate pair", ErrMalformed)
		}
	}
	return nil
}

// escapedUnit reads \uXXXX at the start of data.
func escapedUnit(data []byte) (uint64, bool) {
	if len(data) < 6 || data[0] != '\\' || data[1] != 'u' {
		return 0, false
	}
	unit, err := strconv.ParseUint(string(data[2:6]), 16, 16)
	return unit, err == nil
}
