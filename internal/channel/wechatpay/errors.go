package wechatpay

import (
	"errors"
	"net/http"

	"github.com/paylatch/paylatch/internal/channel"
)

// The codes below are those of the error tables of the API pages (docs/merchant/apis/…, 2024 to 2026) and, written without
// "_", of the tables before 2022, which some merchants still meet.

// definite are the codes that say that the call was refused and would be again. All others leave it open: SYSTEM_ERROR and
// BANK_ERROR ask for the same call again, FREQUENCY_LIMITED, RATELIMIT_EXCEEDED and RULE_LIMIT for a slower one, USERPAYING
// and PROCESSING for patience. SIGN_ERROR and REQUEST_BLOCKED are answered before the call's number is looked at, so they
// say nothing about an earlier call under it. RESOURCE_NOT_EXISTS is told of refunds whose payment is there a moment later.
var definite = map[string]bool{
	"PARAM_ERROR": true, "INVALID_REQUEST": true,
	"APPID_MCHID_NOT_MATCH": true, "MCH_NOT_EXISTS": true, "NO_AUTH": true, "NOAUTH": true,
	"OUT_TRADE_NO_USED": true, "ORDER_CLOSED": true, "ORDERCLOSED": true, "TRADE_ERROR": true,
	"NOT_ENOUGH": true, "NOTENOUGH": true, "USER_ACCOUNT_ABNORMAL": true, "ACCOUNT_ERROR": true, "ACCOUNTERROR": true,
	"OPENID_MISMATCH": true, "INVALID_TRANSACTIONID": true,
}

// definiteAt5xx are codes that the tables list under status 500 although they are about the request.
var definiteAt5xx = map[string]bool{"OPENID_MISMATCH": true, "INVALID_TRANSACTIONID": true}

// refused gives WeChat Pay's definite refusal of a call. It is a claim about this call: an earlier one under the same number
// may have been carried out all the same, so callers ask before they pass it on.
func refused(err error) (*channel.Rejection, bool) {
	var told *apiError
	if !errors.As(err, &told) || !definite[told.code] {
		return nil, false
	}
	if told.status < 400 || told.status >= 500 && !definiteAt5xx[told.code] {
		return nil, false
	}
	return &channel.Rejection{Code: told.code, Detail: told.message}, true
}

// is tells whether an error is one of these codes.
func is(err error, codes ...string) bool {
	var told *apiError
	if !errors.As(err, &told) {
		return false
	}
	for _, code := range codes {
		if told.code == code {
			return true
		}
	}
	return false
}

// absent tells that WeChat Pay knows nothing under the number that was asked for.
func absent(err error) bool {
	var told *apiError
	return errors.As(err, &told) && told.status == http.StatusNotFound &&
		is(err, "ORDER_NOT_EXIST", "ORDERNOTEXIST", "RESOURCE_NOT_EXISTS", "REFUND_NOT_EXISTS")
}

// paid tells that the order is paid.
func paid(err error) bool { return is(err, "ORDERPAID", "ORDER_PAID") }

// closed tells that the order is closed.
func closed(err error) bool { return is(err, "ORDER_CLOSED", "ORDERCLOSED") }
