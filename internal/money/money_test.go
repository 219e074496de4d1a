package money_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/money"
)

func TestExponentsFollowISO4217(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]int{"CNY": 2, "USD": 2, "EUR": 2, "JPY": 0, "KRW": 0, "KWD": 3, "BHD": 3} {
		got, err := money.Exponent(code)
		require.NoError(t, err)
		require.Equal(t, want, got, code)
	}
	for _, code := range []string{"", "cny", "XXX", "XTS", "DEM", "CNYX", "CLF"} {
		_, err := money.Exponent(code)
		require.ErrorIs(t, err, money.ErrUnknownCurrency, code)
	}
}

func TestFormatKeepsEveryUnit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		amount   int64
		currency string
		want     string
	}{
		{12345, "CNY", "123.45 CNY"},
		{5, "CNY", "0.05 CNY"},
		{-5, "CNY", "-0.05 CNY"},
		{0, "CNY", "0.00 CNY"},
		{500, "JPY", "500 JPY"},
		{1, "KWD", "0.001 KWD"},
		{math.MinInt64, "USD", "-92233720368547758.08 USD"},
		{7, "???", "7 (minor units) ???"},
	} {
		require.Equal(t, c.want, money.Format(c.amount, c.currency))
	}
}
