// Package workflows says what happens in which order, and nothing else: it reads no clock, no database and no network, so
// that it can be replayed. The side effects are activities, named here and carried out by package activities.
//
// Every flow works from its row in the database. A flow that is terminated, or whose history is gone, can be started again
// under its id and goes on from what the row says.
package workflows

import (
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
)

// Registered names. They are part of running histories: never change one, add another.
const (
	PaymentWorkflow  = "Payment"
	EventWorkflow    = "Event"
	TransferWorkflow = "Transfer"
	PrepayWorkflow   = "Prepay"
	InquiryWorkflow  = "Inquiry"
	// ProfitShareWorkflow divides a payment among receivers.
	ProfitShareWorkflow = "ProfitShare"
	RefundWorkflow      = "Refund"
	// ShareReturnsWorkflow asks receivers for what they owe.
	ShareReturnsWorkflow = "ShareReturns"

	// WakeSignal tells a payment's flow of an event that is stored and waits to be booked.
	WakeSignal = "wake"

	// ApplyEventActivity books one event. AskAboutActivity asks the channel what one is about that cannot be booked on its word.
	ApplyEventActivity = "apply_event"
	AskAboutActivity   = "ask_about_event"
	// The steps of a transfer in the database: try, decide, and confirm or cancel; settle is the last two at once.
	TransferTryActivity    = "transfer_try"
	TransferDecideActivity = "transfer_decide"
	TransferSettleActivity = "transfer_settle"
	TransferEndActivity    = "transfer_end"
	// ParticipantActivity calls an external participant of a transfer.
	ParticipantActivity = "participant_call"
	// PrepayActivity announces an order to its channel; InquireActivity asks what became of one, and closes it where due.
	PrepayActivity  = "prepay"
	InquireActivity = "inquire"
	// ShareLookActivity says where a sharing stands; ShareCallActivity tells the channel of it, or asks.
	ShareLookActivity = "share_look"
	ShareCallActivity = "share_call"
	// The steps of a refund: look reads its row, advance calls its channel or asks it, unknown records that nobody knows.
	RefundLookActivity    = "refund_look"
	RefundAdvanceActivity = "refund_advance"
	RefundUnknownActivity = "refund_unknown"
	// ShareCollectActivity asks for what receivers owe.
	ShareCollectActivity = "share_collect"
)

// Task queues, scaled apart.
const (
	// PaymentsQueue runs the flows, with their short database steps beside them as local activities.
	PaymentsQueue = "payments"
	// LedgerQueue takes the database steps that did not succeed at once.
	LedgerQueue = "ledger"
	// ParticipantsQueue calls external participants of transfers.
	ParticipantsQueue = "participants"
)

// ChannelQueue makes the outgoing calls to one channel: a channel that is slow, or limits the rate, holds up no other.
func ChannelQueue(channel string) string { return channelQueue + channel }

const channelQueue = "channel-"

// IsChannelQueue tells whether a queue makes outgoing calls to a channel.
func IsChannelQueue(queue string) bool { return strings.HasPrefix(queue, channelQueue) }

// Search attributes, all of type Keyword. Operators' queries rest on the names.
var (
	TenantAttribute  = temporal.NewSearchAttributeKeyKeyword("PaylatchTenant")
	ChannelAttribute = temporal.NewSearchAttributeKeyKeyword("PaylatchChannel")
	StateAttribute   = temporal.NewSearchAttributeKeyKeyword("PaylatchState")
	OrderAttribute   = temporal.NewSearchAttributeKeyKeyword("PaylatchOrderNo")
)

// SearchAttributes gives every attribute's name and type, for registration.
func SearchAttributes() map[string]string {
	names := map[string]string{}
	for _, key := range []temporal.SearchAttributeKeyKeyword{TenantAttribute, ChannelAttribute, StateAttribute, OrderAttribute} {
		names[key.GetName()] = key.GetValueType().String()
	}
	return names
}

// Wake names the event that a payment's flow shall book.
type Wake struct {
	EventID int64 `json:"event_id"`
}

// PaymentInput names the order and its first event; later ones are signals. Flows of earlier versions got their first event
// by signal too, and have none here.
type PaymentInput struct {
	Tenant     string `json:"tenant"`
	OutTradeNo string `json:"out_trade_no"`
	EventID    int64  `json:"event_id,omitempty"`
}

// PaymentResult is where the flow left the order.
type PaymentResult struct {
	State string `json:"state"`
	// Events is how many events the flow booked, repeats included.
	Events int `json:"events"`
}

// EventInput names an event whose order's flow has ended.
type EventInput struct {
	EventID int64 `json:"event_id"`
}

// Applied is what the apply step answers: how the event ended, and where it left the order.
type Applied struct {
	EventState   string `json:"event_state"`
	Outcome      string `json:"outcome"`
	PaymentState string `json:"payment_state"`
	// Matter is the state in which the event left a refund or a sharing.
	Matter string `json:"matter,omitempty"`
	// Ask names the channel that must be asked before the event can be booked.
	Ask string `json:"ask,omitempty"`
}

// paymentPending is the state of an order before its first event is booked.
const paymentPending = "PENDING"

// A database step first runs beside the workflow task, where it costs no task of its own; that must stay short, or history
// fills with heartbeats. When the database is slow or away it goes on as a normal activity, for as long as it takes.
const (
	localTimeout  = 3 * time.Second
	localAttempts = 2
	stepTimeout   = 15 * time.Second
)
