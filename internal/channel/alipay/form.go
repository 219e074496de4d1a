package alipay

import (
	"errors"
	"maps"
	"net/url"
	"regexp"
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

// namePattern is what Alipay calls a parameter. An empty parameter may not be signed, so that anybody can add one: its name must
// not be able to say anything, such as the answer of a query in JSON.
var namePattern = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

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
		if errName != nil || errValue != nil || !namePattern.MatchString(name) {
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

// facts are the parameters that something is booked by.
var facts = []string{"app_id", "notify_time", "out_trade_no", "seller_id", "seller_email", "total_amount", "trade_no", "trade_status", "trans_currency"}

// cutAnew tells whether a value holds what would be one of the facts, had the signed text been cut elsewhere. The text joins
// parameters without escaping, so that what a payer wrote into a title could pass for parameters and the true ones for a part
// of some value; no genuine value looks like that.
func (f form) cutAnew() bool {
	for _, value := range f {
		for _, name := range facts {
			if strings.Contains(value, "&"+name+"=") {
				return true
			}
		}
	}
	return false
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
