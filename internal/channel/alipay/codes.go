package alipay

import (
	"fmt"
	"strings"

	"github.com/paylatch/paylatch/internal/channel"
)

// codes is a list of sub codes.
type codes map[string]bool

func list(text string) codes {
	c := codes{}
	for code := range strings.FieldsSeq(text) {
		c["ACQ."+code] = true
	}
	return c
}

// Sub codes after which nothing was done, by Alipay's tables of each method. What a table tells to send again or to ask for
// (SYSTEM_ERROR, TRADE_SETTLE_ERROR, REFUND_CHARGE_ERROR, FREQUENCY_LIMITED), what says that the number was used before
// (DISCORDANT_REPEAT_REQUEST, DUP_OUT_REQUEST_NO) and what no table lists is unknown.
var (
	refundRefused = list(`ALLOC_AMOUNT_VALIDATE_ERROR BUYER_ENABLE_STATUS_FORBID BUYER_ERROR BUYER_NOT_EXIST CURRENCY_NOT_SUPPORT
		CUSTOMER_VALIDATE_ERROR ENTERPRISE_PAY_BIZ_ERROR INVALID_PARAMETER NOT_ALLOW_PARTIAL_REFUND ONLINE_TRADE_VOUCHER_NOT_ALLOW_REFUND
		OVERDRAFT_AGREEMENT_NOT_MATCH OVERDRAFT_ASSIGN_ACCOUNT_INVALID REASON_TRADE_BEEN_FREEZEN REASON_TRADE_REFUND_FEE_ERR
		REASON_TRADE_STATUS_INVALID REFUNDALLOC_UNAUTH_LIMIT REFUND_ACCOUNT_NOT_EXIST REFUND_AMT_NOT_EQUAL_TOTAL REFUND_FEE_ERROR
		REFUND_ROYALTY_PAYEE_ACCOUNT_NOT_EXIST SELLER_BALANCE_NOT_ENOUGH TRADE_HAS_CLOSE TRADE_HAS_FINISHED TRADE_NOT_ALLOW_REFUND
		TRADE_NOT_EXIST TRADE_STATUS_ERROR USER_NOT_MATCH_ERR`)

	shareRefused = list(`ACCESS_FORBIDDEN ALLOC_AMOUNT_VALIDATE_ERROR ALLOC_REFUSE_AFTER_REFUND ALLOC_REFUSE_BEFORE_SETTLE ALREADY_FINISH_ALLOC
		ASYNC_ALLOC_NOT_SUPPORT_IN_PERIOD CHARGE_PUNISH_SERVICE_REFUSE CUSTOMER_VALIDATE_ERROR ILLEGAL_REQUEST ILLEGAL_SETTLE_STATE
		INVALID_PARAMETER INVALID_REPLENISH_AMOUNT MERCHANT_RISK_LIMIT MUST_ALLOC_FROM_ROOT_ACCOUNT NOT_SUPPORT_ROYALTY PARTNER_ERROR
		PRODUCT_UNSIGN REASON_TRADE_STATUS_INVALID REPLENISH_ACCOUNT_INVALID ROYALTY_ACCOUNTS_EQUAL ROYALTY_ACCOUNT_INVALID
		ROYALTY_ACCOUNT_NAME_NOT_MATCH ROYALTY_ACCOUNT_NOT_EXIST ROYALTY_PAYER_ACCOUNT_NOT_CERTIFY ROYALTY_PAYER_ACCOUNT_NOT_EXIST
		ROYALTY_PAYER_ACCOUNT_NO_BALANCE ROYALTY_RECEIVER_ACCOUNT_NOT_CERTIFY ROYALTY_RECEIVER_ACCOUNT_NOT_EXIST
		ROYALTY_RECEIVER_ACCOUNT_NO_BALANCE ROYALTY_RECEIVER_INVALID SECONDARY_MERCHANT_ID_INVALID SETTLE_ENTITY_ID_INVALID
		SETTLE_SCENE_NOT_SUPPORT SETTLE_TO_CARD_NOT_SUPPORT TRADE_NOT_EXIST TRADE_STATUS_ERROR TXN_RESULT_ACCOUNT_BALANCE_NOT_ENOUGH
		UN_SUPPORT_BIZ_TYPE USER_ACCOUNT_HAD_FREEZEN USER_LOGONID_DUP`)

	bindRefused = list(`INVALID_PARAMETER INVALID_RECEIVER_TYPE PRODUCT_UNSIGN RECEIVER_LIST_EMPTY RELATION_QUANTITY_LIMIT
		ROYALTY_ACCOUNT_NAME_NOT_MATCH USER_LOGONID_DUP USER_NOT_EXIST`)

	// A trade that is paid or closed cannot be closed.
	notWaiting = list(`REASON_ILLEGAL_STATUS REASON_TRADE_STATUS_INVALID TRADE_STATUS_ERROR`)

	noTrade = codes{"ACQ.TRADE_NOT_EXIST": true, "TRADE_NOT_EXIST": true}
)

// refusal is nil for an answer of success; a [*channel.Rejection] where nothing was done; any other error where it is unknown.
func (r result) refusal(definite codes) error {
	switch {
	case r.Code == codeSuccess:
		return nil
	case r.Code == "40004" && definite[r.SubCode], r.atTheDoor():
		return &channel.Rejection{Code: r.code(), Detail: r.String()}
	}
	return fmt.Errorf("it is unknown whether it was done: Alipay says %s", r)
}

// noAnswer is nil for an answer of success. A question that is refused says nothing of its matter, so its error is never a
// [*channel.Rejection].
func (r result) noAnswer() error {
	if r.Code == codeSuccess {
		return nil
	}
	return fmt.Errorf("the question is not answered: Alipay says %s", r)
}

// atTheDoor tells whether the gateway refused the call before any business saw it: no permission, or parameters that are
// missing or wrong. 40005 is too many calls at once, which another call may get past.
func (r result) atTheDoor() bool {
	switch r.Code {
	case "20001", "40001", "40002", "40003", "40006":
		return true
	}
	return false
}

func (r result) code() string {
	if r.SubCode != "" {
		return r.SubCode
	}
	return string(r.Code)
}
