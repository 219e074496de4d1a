// Package alert raises what a person must look at: one log line at error level and one counter, both with a stable name.
package alert

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.uber.org/zap"
)

// The names of the alerts. docs/operations.md says what to do about each.
const (
	EventParked  = "event_parked"   // an authentic event cannot be booked
	ParkedTooOld = "parked_overdue" // a parked event has passed its deadline
	MoneyAside   = "money_in_suspense"
	EventStuck   = "event_stuck" // an event was delivered several times and is not booked
	Conflict     = "event_conflict"
	// A decided transfer is not confirmed or cancelled by its deadline, or a participant keeps failing to.
	TransferStuck = "transfer_stuck"
	// A profit sharing has no answer, or no end, for too long.
	ShareStuck = "share_stuck"
	// A channel does not say what became of an order.
	InquiryStuck = "inquiry_stuck"
	// A refund is open for too long, or stuck at the channel until a person acts there.
	RefundStuck = "refund_stuck"
	// A refund failed after it had succeeded.
	RefundReversed = "refund_reversed"
	// Money left a channel beyond what could be taken from the merchant: somebody owes it.
	ReceivableBooked = "receivable_booked"
)

var raised = promauto.NewCounterVec(prometheus.CounterOpts{
	Name: "paylatch_alerts_total",
	Help: "Alerts raised, by name; docs/operations.md says what to do about each.",
}, []string{"alert"})

// Raise logs the alert and counts it. The fields must hold no secret and no body.
func Raise(log *zap.Logger, name, message string, fields ...zap.Field) {
	raised.WithLabelValues(name).Inc()
	log.Error(message, append(fields, zap.String("alert", name))...)
}
