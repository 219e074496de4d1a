// Package money knows amounts and currencies: an amount is an integer in the currency's minor unit, never a fraction.
package money

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ErrUnknownCurrency says that a code is not an active ISO 4217 code of 0, 2 or 3 decimals.
var ErrUnknownCurrency = errors.New("unknown currency")

// Exponent is the number of decimals of a currency: 2 for CNY, 0 for JPY, 3 for KWD. The code is in upper case.
// Error: [ErrUnknownCurrency].
func Exponent(currency string) (int, error) {
	exponent, ok := exponents[currency]
	if !ok {
		return 0, fmt.Errorf("%w %q: use an ISO 4217 code such as CNY", ErrUnknownCurrency, currency)
	}
	return exponent, nil
}

// Format writes an amount for people: 12345, "CNY" gives "123.45 CNY". An unknown currency is written in minor units.
func Format(amount int64, currency string) string {
	exponent, err := Exponent(currency)
	if err != nil {
		return strconv.FormatInt(amount, 10) + " (minor units) " + currency
	}
	digits := strconv.FormatInt(amount, 10)
	sign := ""
	if digits[0] == '-' {
		sign, digits = "-", digits[1:]
	}
	if exponent > 0 {
		if pad := exponent + 1 - len(digits); pad > 0 {
			digits = strings.Repeat("0", pad) + digits
		}
		point := len(digits) - exponent
		digits = digits[:point] + "." + digits[point:]
	}
	return sign + digits + " " + currency
}
