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

// ErrNotAmount says that a text is not a decimal amount of a currency.
var ErrNotAmount = errors.New("not an amount")

// Parse reads a decimal text as minor units: "99.00", "99.0" and "99" of "CNY" are 9900. It takes ASCII digits with at most
// one point between them and nothing else: no sign, exponent, blank or separator, no more decimals than the currency has,
// and nothing beyond 64 bits. Errors: [ErrNotAmount], [ErrUnknownCurrency].
func Parse(text, currency string) (int64, error) {
	exponent, err := Exponent(currency)
	if err != nil {
		return 0, err
	}
	whole, decimals, pointed := strings.Cut(text, ".")
	switch {
	case !isDigits(whole) || pointed && !isDigits(decimals):
		return 0, fmt.Errorf("%w: it must be digits with at most one point between them", ErrNotAmount)
	case len(decimals) > exponent:
		return 0, fmt.Errorf("%w: it has more than the %d decimals of %s", ErrNotAmount, exponent, currency)
	}
	amount, err := strconv.ParseInt(whole+decimals+strings.Repeat("0", exponent-len(decimals)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: it is too large", ErrNotAmount)
	}
	return amount, nil
}

func isDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// Decimal writes minor units as a decimal text with all decimals of the currency: 9900, "CNY" gives "99.00".
// Error: [ErrUnknownCurrency].
func Decimal(amount int64, currency string) (string, error) {
	exponent, err := Exponent(currency)
	if err != nil {
		return "", err
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
	return sign + digits, nil
}

// Format writes an amount for people: 12345, "CNY" gives "123.45 CNY". An unknown currency is written in minor units.
func Format(amount int64, currency string) string {
	text, err := Decimal(amount, currency)
	if err != nil {
		return strconv.FormatInt(amount, 10) + " (minor units) " + currency
	}
	return text + " " + currency
}
