package alipay

import (
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/simplifiedchinese"
)

// form is the parameters of a message by name, percent-decoded and no further: names and values are bytes, in whatever
// charset the message has.
type form map[string]string

// maxParams bounds the work that a message can cause before its signature is known to hold. Alipay sends about thirty.
const maxParams = 256

var (
	errMalformed = errors.New("it is not a form")
	errTwice     = errors.New("a parameter stands twice")
	errTooMany   = errors.New("it has more parameters than any message of Alipay's")
)

// parseForm reads a body. A parameter that stands twice is refused: two readers could take different ones.
func parseForm(body []byte) (form, error) {
	f := form{}
	for part := range strings.SplitSeq(string(body), "&") {
		if part == "" {
			continue
		}
		name, value, _ := strings.Cut(part, "=")
		name, errName := url.QueryUnescape(name)
		value, errValue := url.QueryUnescape(value)
		if errName != nil || errValue != nil {
			return nil, errMalformed
		}
		if _, twice := f[name]; twice {
			return nil, errTwice
		}
		if len(f) == maxParams {
			return nil, errTooMany
		}
		f[name] = value
	}
	return f, nil
}

// text is what is signed: the parameters, without some, sorted by name, as name=value joined by &.
func (f form) text(keepEmpty bool, without ...string) []byte {
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(f)) {
		if value := f[name]; !slices.Contains(without, name) && (keepEmpty || value != "") {
			pairs = append(pairs, name+"="+value)
		}
	}
	return []byte(strings.Join(pairs, "&"))
}

// charsets that a message may name. GBK holds GB2312; GB18030 holds both.
var charsets = map[string]encoding.Encoding{
	"gbk": simplifiedchinese.GBK, "gb2312": simplifiedchinese.GBK, "cp936": simplifiedchinese.GBK, "gb18030": simplifiedchinese.GB18030,
}

// characters turns bytes into text by the message's own charset, which is signed with it. What is not of that charset
// stays as it is, and is no identifier then.
func (f form) characters(name string) string {
	value := f[name]
	charset, known := charsets[strings.ToLower(f["charset"])]
	if !known {
		return value
	}
	decoded, err := charset.NewDecoder().String(value)
	if err != nil {
		return value
	}
	return decoded
}
