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
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err := checkValue(dec, 0); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: more than one value", ErrMalformed)
	}
	return nil
}

func checkValue(dec *json.Decoder, depth int) error {
	token, err := next(dec)
	if err != nil {
		return err
	}
	open, isDelim := token.(json.Delim)
	if !isDelim {
		return nil
	}
	if depth == MaxDepth {
		return fmt.Errorf("%w: nested more than %d deep", ErrMalformed, MaxDepth)
	}
	seen := map[string]bool{}
	for dec.More() {
		if open == '{' {
			key, err := next(dec)
			if err != nil {
				return err
			}
			folded := fold(key.(string))
			if seen[folded] {
				return fmt.Errorf("%w: a key stands twice in one object", ErrMalformed)
			}
			seen[folded] = true
		}
		if err := checkValue(dec, depth+1); err != nil {
			return err
		}
	}
	_, err = next(dec) // the closing delimiter
	return err
}

// fold gives one text to all keys that encoding/json takes for the same field: it matches names whatever their case, by
// Unicode's simple folding, where "ſ" is an "s".
func fold(key string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			least = min(least, f)
		}
		return least
	}, key)
}

func next(dec *json.Decoder) (json.Token, error) {
	token, err := dec.Token()
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: it ends too early", ErrMalformed)
	}
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return nil, fmt.Errorf("%w: at byte %d", ErrMalformed, syntax.Offset)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return token, nil
}

// checkSurrogates refuses \uD800 to \uDFFF outside a pair: encoding/json would make one replacement character of all
// of them, and two different identifiers the same.
func checkSurrogates(data []byte) error {
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
