package workflows

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
)

// maxID is the longest workflow id we make: the engine's databases store 255 bytes.
const maxID = 200

// PaymentID is the idempotency key of an order's flow. A tenant's name and an order's number hold no slash, and together
// they are shorter than an id may be.
func PaymentID(tenant, outTradeNo string) string {
	return bounded("pay/" + tenant + "/" + outTradeNo)
}

// PrepayID is the idempotency key of announcing an order to its channel.
func PrepayID(tenant, outTradeNo string) string {
	return bounded("prepay/" + tenant + "/" + outTradeNo)
}

// InquiryID is the idempotency key of asking a channel about an order.
func InquiryID(tenant, outTradeNo string) string {
	return bounded("inquiry/" + tenant + "/" + outTradeNo)
}

// EventID is the idempotency key of an event's own flow. accountID is our number of the channel account.
func EventID(accountID int64, eventKey string) string {
	return bounded("event/" + strconv.FormatInt(accountID, 10) + "/" + eventKey)
}

// RefundID is the idempotency key of a refund's flow.
func RefundID(tenant, outRefundNo string) string {
	return bounded("refund/" + tenant + "/" + outRefundNo)
}

// TransferID is the idempotency key of a transfer's flow. gid is the transfer's name in the database, tenant included.
func TransferID(gid string) string { return bounded(gid) }

// ShareID is the idempotency key of a profit sharing's flow.
func ShareID(tenant, outOrderNo string) string {
	return bounded("share/" + tenant + "/" + outOrderNo)
}

// ShareReturnsID is the idempotency key of asking for what the receivers of a sharing owe.
func ShareReturnsID(tenant, outOrderNo string) string {
	return bounded("share-returns/" + tenant + "/" + outOrderNo)
}

// bounded replaces what follows the kind by its hash where an id would be too long.
func bounded(id string) string {
	if len(id) <= maxID {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	for i := range id {
		if id[i] == '/' {
			return id[:i+1] + "sha256:" + hex.EncodeToString(sum[:])
		}
	}
	return hex.EncodeToString(sum[:])
}
