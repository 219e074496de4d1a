package api

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gin-gonic/gin"
	"github.com/jackc/pgx/v5"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/payment"
)

type eventBody struct {
	ID            int64              `json:"id"`
	EventKey      string             `json:"event_key"`
	Channel       string             `json:"channel"`
	Account       string             `json:"account"`
	Kind          channel.Kind       `json:"kind"`
	OutTradeNo    string             `json:"out_trade_no"`
	TransactionID string             `json:"transaction_id"`
	Amount        *int64             `json:"amount"`
	Currency      *string            `json:"currency"`
	PayerAmount   *int64             `json:"payer_amount,omitempty"`
	Fee           *int64             `json:"fee,omitempty"`
	OutNo         string             `json:"out_no,omitempty"`
	Receiver      string             `json:"receiver,omitempty"`
	LegState      string             `json:"leg_state,omitempty"`
	OccurredAt    *time.Time         `json:"occurred_at,omitempty"`
	State         payment.EventState `json:"state"`
	Outcome       *payment.Outcome   `json:"outcome"`
	Reason        string             `json:"reason,omitempty"`
	ConflictsWith *int64             `json:"conflicts_with,omitempty"`
	JournalKey    *string            `json:"journal_key,omitempty"`
	ReceivedAt    time.Time          `json:"received_at"`
	StateSince    time.Time          `json:"state_since"`
}

func newEventBody(e payment.Event) eventBody {
	return eventBody{
		ID: e.ID, EventKey: e.Key, Channel: e.Channel, Account: e.Account, Kind: e.Kind, OutTradeNo: e.OutTradeNo,
		TransactionID: e.TransactionID, Amount: e.Amount, Currency: e.Currency, OccurredAt: e.OccurredAt,
		PayerAmount: e.PayerAmount, Fee: e.Fee, OutNo: e.OutNo, Receiver: e.Receiver, LegState: e.LegState,
		State: e.State, Outcome: e.Outcome, Reason: e.Reason, ConflictsWith: e.ConflictsWith,
		JournalKey: e.JournalKey, ReceivedAt: e.ReceivedAt, StateSince: e.StateSince,
	}
}

func (s *server) listEvents(c *gin.Context) {
	p, err := readPage(c)
	filter := payment.EventFilter{OutTradeNo: c.Query("out_trade_no"), Before: p.before, Limit: p.limit + 1}
	if err == nil {
		filter.State, err = queryOneOf(c, "state", payment.EventStates())
	}
	if err == nil && !isText(filter.OutTradeNo) {
		err = badRequest("out_trade_no_invalid", "out_trade_no is not text")
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	events, err := s.Orders.Events(c.Request.Context(), who(c).TenantID, filter)
	if err != nil {
		s.fail(c, err)
		return
	}
	c.JSON(http.StatusOK, newList(events, p, func(e payment.Event) int64 { return e.ID }, newEventBody))
}

// eventID reads the path's id; what is not a number names no event.
func eventID(c *gin.Context) (int64, error) {
	id, err := strconv.ParseInt(c.Param("id"), 10, 64)
	if err != nil {
		return 0, payment.ErrEventNotFound
	}
	return id, nil
}

func (s *server) getEvent(c *gin.Context) {
	id, err := eventID(c)
	if err != nil {
		s.fail(c, err)
		return
	}
	s.showEvent(c, id)
}

func (s *server) showEvent(c *gin.Context, id int64) {
	e, err := s.Orders.Event(c.Request.Context(), who(c).TenantID, id)
	if err != nil {
		s.fail(c, err)
		return
	}
	c.JSON(http.StatusOK, newEventBody(e))
}

// replayEvent takes the event's stored body through the entry again and shows what stands under its key now.
func (s *server) replayEvent(c *gin.Context) {
	id, err := eventID(c)
	if err == nil {
		err = readJSON(c, &struct{}{}, true)
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	results, err := s.Entry.Replay(c.Request.Context(), who(c).TenantID, id)
	if err != nil {
		s.fail(c, err)
		return
	}
	// A body may hold several events; one that stood under its body's hash may have become another.
	shown := results[0].EventID
	if slices.ContainsFunc(results, func(r payment.Reported) bool { return r.EventID == id }) {
		shown = id
	}
	s.showEvent(c, shown)
}

const maxReason = 500 // characters

// exitEvent takes a parked event out by one of the operator's exits; both want a reason.
func (s *server) exitEvent(exit func(ctx context.Context, tenantID string, id int64, reason string, then ...payment.Then) (payment.Event, error)) gin.HandlerFunc {
	return func(c *gin.Context) {
		id, err := eventID(c)
		if err != nil {
			s.fail(c, err)
			return
		}
		reason, err := readReason(c)
		if err != nil {
			s.fail(c, err)
			return
		}
		e, err := exit(c.Request.Context(), who(c).TenantID, id, reason, func(tx pgx.Tx, after payment.Event) error {
			// An event leaves once: a repeat would find it gone, and not that it was this request that took it out.
			return complete(c.Request.Context(), tx, http.StatusOK, newEventBody(after))
		})
		if err != nil {
			s.fail(c, err)
			return
		}
		c.JSON(http.StatusOK, newEventBody(e))
	}
}

// readReason reads the reason that every exit wants.
func readReason(c *gin.Context) (string, error) {
	var body struct {
		Reason string `json:"reason"`
	}
	if err := readJSON(c, &body, false); err != nil {
		return "", err
	}
	reason := strings.TrimSpace(body.Reason)
	if reason == "" || utf8.RuneCountInString(reason) > maxReason || strings.ContainsRune(reason, 0) {
		return "", badRequest("reason_invalid", "reason must say why, in 1 to 500 characters")
	}
	return reason, nil
}
