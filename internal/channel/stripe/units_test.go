package stripe

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/channel"
)

func TestAmountsInStripesUnits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		currency    string
		iso, stripe int64
		say         string
	}{
		{"USD", 1099, 1099, "10.99"},
		{"CNY", 1, 1, "0.01"},
		{"JPY", 500, 500, "500"}, // not 50000
		{"KRW", 1, 1, "1"},
		{"XOF", 700, 700, "700"},
		{"ISK", 5, 500, "5.00"}, // ISO 4217: no decimals; Stripe: two, always 00
		{"UGX", 5, 500, "5.00"},
		{"MGA", 300, 3, "3"}, // ISO 4217: two decimals; Stripe: none
		{"HUF", 1045, 1045, "10.45"},
		{"TWD", 80045, 80045, "800.45"},
		{"KWD", 5120, 5120, "5.120"},
		{"BHD", 10, 10, "0.010"},
	} {
		converted, err := toStripe(c.iso, c.currency)
		require.NoError(t, err, c.currency)
		require.Equal(t, c.stripe, converted, c.currency)
		back, exact := fromStripe(c.stripe, c.currency)
		require.True(t, exact, c.currency)
		require.Equal(t, c.iso, back, c.currency)
		u, known := unitOf(c.currency)
		require.True(t, known)
		require.Equal(t, c.say, decimal(c.stripe, u), c.currency)
	}
}

func TestAmountsThatStripeCannotSayAreRefusedNotRounded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		amount   int64
		currency string
	}{
		{5124, "KWD"},           // must end in 0
		{301, "MGA"},            // no decimals
		{0, "USD"}, {-1, "JPY"}, // an amount is above 0
		{1, "XYZ"}, {1, ""}, {1, "usd"},
		{1000, "IQD"}, {1000, "LYD"}, // three decimals by ISO 4217, and not in Stripe's list
		{math.MaxInt64, "ISK"},
	} {
		_, err := toStripe(c.amount, c.currency)
		var rejection *channel.Rejection
		require.ErrorAs(t, err, &rejection, "%d %s", c.amount, c.currency)
		require.True(t, channel.Definite(err))
	}
}

func TestAmountsThatCannotBeKept(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		amount   int64
		currency string
	}{{550, "ISK"}, {1, "UGX"}, {math.MaxInt64, "MGA"}, {math.MinInt64, "MGA"}, {1, "XYZ"}, {1, "LYD"}} {
		_, exact := fromStripe(c.amount, c.currency)
		require.False(t, exact, "%d %s", c.amount, c.currency)
	}
	kept, exact := fromStripe(5124, "KWD")
	require.True(t, exact, "what Stripe reports is kept, though we could not ask for it")
	require.Equal(t, int64(5124), kept)
}

func TestDecimalsOfABill(t *testing.T) {
	t.Parallel()
	usd, _ := unitOf("USD")
	for amount, want := range map[int64]string{0: "0.00", 5: "0.05", -5: "-0.05", -1234: "-12.34", math.MinInt64: "-92233720368547758.08"} {
		require.Equal(t, want, decimal(amount, usd))
	}
}
