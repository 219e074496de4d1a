package share

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/paylatch/paylatch/internal/strictjson"
)

// Bounds of one sharing. WeChat Pay takes 50 receivers.
const (
	MaxReceivers = 50
	MaxRatio     = 1_000_000

	maxAccount     = 128 // characters
	maxName        = 128
	maxDescription = 80
)

// ErrInvalid says that something cannot be a plan or a sharing; its text says why.
var ErrInvalid = errors.New("not a valid profit sharing")

// Plan says how a payment is to be divided: ratios, frozen when the payment was made.
type Plan struct {
	// Receivers are in the order of their accounts, each account once.
	Receivers []PlanReceiver `json:"receivers"`
	// MerchantRatio is the part that the merchant keeps. Ratios are parts of the sum of all, this one included.
	MerchantRatio int64 `json:"merchant_ratio"`
}

// PlanReceiver is one receiver and its part.
type PlanReceiver struct {
	// Type, Account and Name are as in channel.ShareReceiver.
	Type    string `json:"type,omitempty"`
	Account string `json:"account"`
	Name    string `json:"name,omitempty"`
	Ratio   int64  `json:"ratio"` // 1 to MaxRatio
}

// ParsePlan reads {"receivers": [{"account", "ratio", "type"?, "name"?}], "merchant_ratio"?} and gives it in its one
// canonical form, whatever the order of the receivers. Ratios are whole numbers, parts of their sum: with the receivers a 30
// and b 70 all is shared; with the receiver a 30 and merchant_ratio 70 the merchant keeps 70 of 100. A single receiver needs
// merchant_ratio, as one ratio alone says nothing. Error: [ErrInvalid].
func ParsePlan(text json.RawMessage) (Plan, error) {
	var read struct {
		Receivers     []PlanReceiver `json:"receivers"`
		MerchantRatio *int64         `json:"merchant_ratio"`
	}
	if err := strictjson.UnmarshalKnown(text, &read); err != nil {
		// The error of encoding/json may quote what it read.
		return Plan{}, fmt.Errorf(`%w: it is {"receivers": [{"account", "ratio", "type", "name"}], "merchant_ratio"}, with whole numbers as ratios`, ErrInvalid)
	}
	return newPlan(read.Receivers, read.MerchantRatio)
}

func newPlan(receivers []PlanReceiver, merchant *int64) (Plan, error) {
	p := Plan{Receivers: slices.Clone(receivers)}
	switch {
	case merchant != nil:
		p.MerchantRatio = *merchant
	case len(receivers) == 1:
		return Plan{}, fmt.Errorf("%w: one ratio alone says nothing: say merchant_ratio, the part that the merchant keeps", ErrInvalid)
	}
	if p.MerchantRatio < 0 || p.MerchantRatio > MaxRatio*MaxReceivers {
		return Plan{}, fmt.Errorf("%w: merchant_ratio is 0 to %d", ErrInvalid, MaxRatio*MaxReceivers)
	}
	var ids []identity
	for _, r := range p.Receivers {
		if r.Ratio < 1 || r.Ratio > MaxRatio {
			return Plan{}, fmt.Errorf("%w: a ratio is a whole number, 1 to %d", ErrInvalid, MaxRatio)
		}
		ids = append(ids, identity{r.Type, r.Account, r.Name})
	}
	if len(ids) == 0 {
		return Plan{}, fmt.Errorf("%w: it has 1 to %d receivers", ErrInvalid, MaxReceivers)
	}
	if err := checkIdentities(ids); err != nil {
		return Plan{}, err
	}
	slices.SortFunc(p.Receivers, func(a, b PlanReceiver) int { return cmp.Compare(a.Account, b.Account) })
	return p, nil
}

// JSON is the plan as it is stored: the same plan gives the same bytes.
func (p Plan) JSON() json.RawMessage {
	text, err := json.Marshal(p)
	if err != nil {
		panic(err) // strings and numbers always marshal
	}
	return text
}

// Of gives each receiver's part of an amount, in the order of the receivers.
func (p Plan) Of(amount int64) []int64 {
	parts := make([]Part, len(p.Receivers))
	for i, r := range p.Receivers {
		parts[i] = Part{r.Account, r.Ratio}
	}
	amounts, _ := Split(amount, parts, p.MerchantRatio)
	return amounts
}

// identity is who a receiver is.
type identity struct{ kind, account, name string }

var typePattern = regexp.MustCompile(`^[A-Za-z0-9_]{0,32}$`)

// checkIdentities refuses what no channel could take, and an account that stands twice: results name a receiver by it.
func checkIdentities(list []identity) error {
	if len(list) > MaxReceivers {
		return fmt.Errorf("%w: it has at most %d receivers", ErrInvalid, MaxReceivers)
	}
	seen := map[string]bool{}
	for _, r := range list {
		switch {
		case r.account == "" || !isText(r.account, maxAccount):
			return fmt.Errorf("%w: a receiver's account is 1 to %d characters, none of them a control character", ErrInvalid, maxAccount)
		case !isText(r.name, maxName):
			return fmt.Errorf("%w: a receiver's name has at most %d characters, none of them a control character", ErrInvalid, maxName)
		case !typePattern.MatchString(r.kind):
			return fmt.Errorf("%w: a receiver's type is at most 32 letters, digits and _", ErrInvalid)
		case seen[r.account]:
			return fmt.Errorf("%w: a receiver stands in it twice", ErrInvalid)
		}
		seen[r.account] = true
	}
	return nil
}

func isText(s string, most int) bool {
	return utf8.ValidString(s) && utf8.RuneCountInString(s) <= most && !strings.ContainsFunc(s, unicode.IsControl)
}
