package stripe

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/money"
)

// Stripe counts in minor units of its own. Source: docs.stripe.com/currencies (zero-decimal and special cases), and for the
// three-decimal ones its edition of 2022-12-31 (web.archive.org/web/20221231002856/https://stripe.com/docs/currencies).
//
//   - ISK and UGX have no decimals any more (ISO 4217: 0), and Stripe keeps two, "where the decimal amount is always 00".
//     UGX stands in Stripe's zero-decimal list too; the special case governs a charge.
//   - MGA has two decimals by ISO 4217 and none at Stripe.
//   - Three-decimal amounts must end in 0: "5.124 KWD must be rounded to 5120 or 5130". We refuse instead of rounding.
//   - HUF and TWD have two decimals in charges; only payouts are in whole units.
const (
	noDecimals    = "BIF CLP DJF GNF JPY KMF KRW MGA PYG RWF VND VUV XAF XOF XPF"
	threeDecimals = "BHD JOD KWD OMR TND"
	wholeUnits    = "ISK UGX" // two decimals, always 00
)

// unit is how Stripe counts a currency.
type unit struct {
	exponent int   // decimals at Stripe
	iso      int   // decimals by ISO 4217
	step     int64 // outgoing amounts are multiples of it, in Stripe's units
}

var units = func() map[string]unit {
	table := map[string]unit{}
	put := func(codes string, exponent int, step int64) {
		for _, code := range strings.Fields(codes) {
			iso, err := money.Exponent(code)
			if err != nil {
				panic(err) // the tables of this file and of package money disagree
			}
			table[code] = unit{exponent, iso, step}
		}
	}
	put(noDecimals, 0, 1)
	put(threeDecimals, 3, 10)
	put(wholeUnits, 2, 100)
	return table
}()

// unitOf knows the currencies of both tables. Three-decimal currencies that Stripe does not list (IQD, LYD) are unknown:
// nobody says how Stripe would count them.
func unitOf(currency string) (unit, bool) {
	if u, listed := units[currency]; listed {
		return u, true
	}
	iso, err := money.Exponent(currency)
	if err != nil || iso != 2 {
		return unit{}, false
	}
	return unit{exponent: 2, iso: 2, step: 1}, true
}

// toStripe turns minor units by ISO 4217 into Stripe's. Error: [*channel.Rejection] where the amount cannot be said.
func toStripe(amount int64, currency string) (int64, error) {
	u, known := unitOf(currency)
	if !known {
		return 0, &channel.Rejection{Code: "currency_unknown", Detail: fmt.Sprintf("Stripe has no currency %q", currency)}
	}
	converted, exact := scale(amount, u.exponent-u.iso)
	if !exact || converted%u.step != 0 {
		return 0, &channel.Rejection{
			Code:   "amount_not_expressible",
			Detail: fmt.Sprintf("Stripe cannot take %s: it counts %s in steps of %s", money.Format(amount, currency), currency, decimal(u.step, u)),
		}
	}
	if converted <= 0 {
		return 0, &channel.Rejection{Code: "amount_invalid", Detail: "an amount is above 0"}
	}
	return converted, nil
}

// fromStripe turns Stripe's units into minor units by ISO 4217; false where they cannot say it.
func fromStripe(amount int64, currency string) (int64, bool) {
	u, known := unitOf(currency)
	if !known {
		return 0, false
	}
	return scale(amount, u.iso-u.exponent)
}

// scale multiplies by a power of ten; false where the result is no integer of 64 bits.
func scale(amount int64, power int) (int64, bool) {
	for ; power > 0; power-- {
		if amount > math.MaxInt64/10 || amount < math.MinInt64/10 {
			return 0, false
		}
		amount *= 10
	}
	for ; power < 0; power++ {
		if amount%10 != 0 {
			return 0, false
		}
		amount /= 10
	}
	return amount, true
}

// decimal writes an amount in Stripe's units as a decimal number of whole units: exact, whatever ISO 4217 says.
func decimal(amount int64, u unit) string {
	digits := strconv.FormatInt(amount, 10)
	sign := ""
	if digits[0] == '-' {
		sign, digits = "-", digits[1:]
	}
	if u.exponent == 0 {
		return sign + digits
	}
	if pad := u.exponent + 1 - len(digits); pad > 0 {
		digits = strings.Repeat("0", pad) + digits
	}
	point := len(digits) - u.exponent
	return sign + digits[:point] + "." + digits[point:]
}
