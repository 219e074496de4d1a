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

func TestDecimalTextsAreReadToTheUnit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text, currency string
		want           int64
	}{
		{"99.00", "CNY", 9900},
		{"99.0", "CNY", 9900},
		{"99", "CNY", 9900},
		{"0.01", "CNY", 1},
		{"0", "CNY", 0},
		{"007.50", "CNY", 750},
		{"500", "JPY", 500},
		{"1.234", "KWD", 1234},
		{"92233720368547758.07", "CNY", math.MaxInt64},
	} {
		got, err := money.Parse(c.text, c.currency)
		require.NoError(t, err, c.text)
		require.Equal(t, c.want, got, c.text)
	}
}

func TestWhatIsNoAmountIsRefusedAndNotRounded(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", " ", ".", "1.", ".5", "1.001", "1.000", "-1", "+1", "1e2", "1E2", "1,000.00", " 1", "1 ", "1.0 ", "0x10", "1_0",
		"NaN", "Inf", "1.2.3", "\uff11", "92233720368547758.08", "99999999999999999999", "1.0\x00",
	} {
		_, err := money.Parse(text, "CNY")
		require.ErrorIs(t, err, money.ErrNotAmount, "%q", text)
	}
	_, err := money.Parse("1.0", "JPY")
	require.ErrorIs(t, err, money.ErrNotAmount)
	_, err = money.Parse("1", "XXX")
	require.ErrorIs(t, err, money.ErrUnknownCurrency)
}

func TestWhatIsWrittenIsReadAgain(t *testing.T) {
	t.Parallel()
	for _, currency := range []string{"CNY", "JPY", "KWD"} {
		for _, amount := range []int64{0, 1, 9, 10, 99, 100, 101, 999, 1000, 1001, math.MaxInt64} {
			text, err := money.Decimal(amount, currency)
			require.NoError(t, err)
			again, err := money.Parse(text, currency)
			require.NoError(t, err)
			require.Equal(t, amount, again)
		}
	}
	_, err := money.Decimal(1, "XXX")
	require.ErrorIs(t, err, money.ErrUnknownCurrency)
}
