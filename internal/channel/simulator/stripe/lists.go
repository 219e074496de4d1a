package stripe

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// list gives a page, newest first.
func list(c call, address string, all []any) (any, *trouble) {
	limit := 10
	if told := c.form.Get("limit"); told != "" {
		n, err := strconv.Atoi(told)
		if err != nil || n < 1 || n > 100 {
			return nil, invalid("parameter_invalid_integer", "limit is 1 to 100")
		}
		limit = n
	}
	slices.Reverse(all)
	if after := c.form.Get("starting_after"); after != "" {
		at := slices.IndexFunc(all, func(v any) bool { return v.(object)["id"] == after })
		if at < 0 {
			return nil, missing("object", after)
		}
		all = all[at+1:]
	}
	more := len(all) > limit
	return page(address, all[:min(limit, len(all))], more), nil
}

func within(c call, created time.Time) bool {
	if since, err := strconv.ParseInt(c.form.Get("created[gte]"), 10, 64); err == nil && created.Unix() < since {
		return false
	}
	if before, err := strconv.ParseInt(c.form.Get("created[lt]"), 10, 64); err == nil && created.Unix() >= before {
		return false
	}
	return true
}

// money reads an amount as Stripe takes it.
func money(c call, amountName, currencyName string) (int64, string, *trouble) {
	currency := c.form.Get(currencyName)
	if len(currency) != 3 || currency != strings.ToLower(currency) {
		return 0, "", invalid("", "Invalid currency: "+currency)
	}
	amount, err := strconv.ParseInt(c.form.Get(amountName), 10, 64)
	if err != nil || amount < 1 {
		return 0, "", invalid("parameter_invalid_integer", "Invalid positive integer")
	}
	return amount, currency, unit(amount, currency)
}

// unit refuses amounts that Stripe cannot charge in a currency.
func unit(amount int64, currency string) *trouble {
	switch currency {
	case "isk", "ugx":
		if amount%100 != 0 {
			return invalid("invalid_charge_amount_no_decimal_compatible", "Invalid amount. Currency "+strings.ToUpper(currency)+
				" has become effectively zero-decimal and charged amounts must be evenly divisible by 100.")
		}
	case "bhd", "jod", "kwd", "omr", "tnd":
		if amount%10 != 0 {
			return invalid("", "Invalid amount: three-decimal amounts must end in 0.")
		}
	}
	return nil
}
