package strictjson

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// few is how many keys of an object are compared with each other; more go into a set.
const few = 16

// checkKeys walks through well-formed JSON, and refuses a key that stands twice in one object, and nesting beyond [MaxDepth].
// It copies nothing of an ordinary message: every callback comes through here.
func checkKeys(data []byte) error {
	var room [4 * few][]byte
	keys := room[:0]                   // of all objects that are open
	var first [MaxDepth]int            // where the keys of each begin
	var sets [MaxDepth]map[string]bool // of those with many
	depth := 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '{', '[':
			if depth == MaxDepth {
				return fmt.Errorf("%w: nested more than %d deep", ErrMalformed, MaxDepth)
			}
			first[depth] = len(keys)
			depth++
		case '}', ']':
			depth--
			keys, sets[depth] = keys[:first[depth]], nil
		case '"':
			begin := i
			i = endOfString(data, begin)
			if !followedByColon(data[i+1:]) {
				continue
			}
			key, err := unescaped(data[begin : i+1])
			if err != nil {
				return fmt.Errorf("%w: %w", ErrMalformed, err)
			}
			at := depth - 1
			if stands(keys[first[at]:], &sets[at], key) {
				return fmt.Errorf("%w: a key stands twice in one object", ErrMalformed)
			}
			keys = append(keys, key)
		}
	}
	return nil
}

// endOfString gives the closing quote of the string that begins at a quote.
func endOfString(data []byte, begin int) int {
	for i := begin + 1; ; i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
}

// followedByColon tells a key from a value.
func followedByColon(rest []byte) bool {
	rest = bytes.TrimLeft(rest, " \t\r\n")
	return len(rest) > 0 && rest[0] == ':'
}

func unescaped(quoted []byte) ([]byte, error) {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1], nil
	}
	var key string
	err := json.Unmarshal(quoted, &key)
	return []byte(key), err
}

// stands tells whether encoding/json would take the key for one of those before it: it matches names whatever their case, by
// Unicode's simple folding, where "ſ" is an "s".
func stands(before [][]byte, set *map[string]bool, key []byte) bool {
	if len(before) < few {
		for _, other := range before {
			if bytes.EqualFold(other, key) {
				return true
			}
		}
		return false
	}
	if *set == nil {
		*set = map[string]bool{}
		for _, other := range before {
			(*set)[fold(string(other))] = true
		}
	}
	folded := fold(string(key))
	there := (*set)[folded]
	(*set)[folded] = true
	return there
}
