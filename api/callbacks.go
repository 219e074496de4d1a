package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.uber.org/zap"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/tenant"
)

// A channel gives up after 3 to 5 s, so an answer within 3 s is a matter of correctness: these and the signal's time-out
// (payment.DefaultPlan) add up to less.
const (
	findTimeout  = time.Second
	storeTimeout = 1800 * time.Millisecond // from the beginning, without the time that the body took to arrive
)

var callbacks = promauto.NewCounterVec(prometheus.CounterOpts{
	Name: "paylatch_callbacks_total",
	Help: "Callbacks by channel and by how they were answered: accepted, or the code of the refusal.",
}, []string{"channel", "result"})

// callback verifies, stores and acknowledges. The acknowledgement says "stored", not "credited"; it follows the commit and
// depends on nothing else.
func (s *server) callback(c *gin.Context) {
	ch, err := s.Accounts.Channel(c.Param("channel"))
	if err != nil {
		s.fail(c, newProblem(http.StatusNotFound, "channel_not_found", "there is no such channel"))
		return
	}
	begin := time.Now()
	acct, err := s.findAccount(c, ch.Name(), s.Accounts.Recent)
	if errors.Is(err, tenant.ErrUnknown) {
		s.refuse(c, ch, http.StatusNotFound, "account_not_found", "there is no such account")
		return
	}
	if err != nil {
		s.refuseForUs(c, ch, err)
		return
	}
	spent := time.Since(begin)

	body, err := io.ReadAll(http.MaxBytesReader(c.Writer, c.Request.Body, maxBody))
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		s.refuse(c, ch, http.StatusRequestEntityTooLarge, "body_too_large", "a callback has at most 1 MiB")
		return
	}
	if err != nil {
		s.refuse(c, ch, http.StatusBadRequest, "body_incomplete", "the body ended before it was whole")
		return
	}
	received := time.Now()
	notification := channel.Notification{Header: c.Request.Header, Body: body, ReceivedAt: received}
	err = acct.Verify(notification)
	if err != nil {
		// The account is as it was a moment ago; its keys may have been rotated since.
		fresh, findErr := s.findAccount(c, ch.Name(), s.Accounts.Find)
		if findErr != nil {
			s.refuseForUs(c, ch, findErr)
			return
		}
		spent += time.Since(received)
		acct, err = fresh, fresh.Verify(notification)
	}
	if err != nil {
		var refusal *channel.Refusal
		if !errors.As(err, &refusal) {
			refusal = channel.ErrBadSignature
		}
		s.refuse(c, ch, refusal.Status, refusal.Code, refusal.Detail)
		return
	}
	// A channel that hangs up early has still told us: the row is stored all the same.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Request.Context()), storeTimeout-spent)
	defer cancel()
	if _, err := s.Entry.Report(ctx, acct, body, received); err != nil {
		s.refuseForUs(c, ch, err)
		return
	}
	callbacks.WithLabelValues(ch.Name(), "accepted").Inc()
	answer(c, ch.Accepted())
}

func (s *server) findAccount(c *gin.Context, channelName string, find func(ctx context.Context, channel, name string) (tenant.Account, error)) (tenant.Account, error) {
	if !isText(c.Param("account")) {
		return tenant.Account{}, tenant.ErrUnknown
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Request.Context()), findTimeout)
	defer cancel()
	return find(ctx, channelName, c.Param("account"))
}

func (s *server) refuse(c *gin.Context, ch channel.Channel, status int, code, detail string) {
	callbacks.WithLabelValues(ch.Name(), code).Inc()
	s.log.Info("callback refused", zap.String("request_id", requestID(c)), zap.String("channel", ch.Name()),
		zap.String("account", c.Param("account")), zap.Int("status", status), zap.String("code", code))
	answer(c, ch.Refused(status, code, detail))
}

// refuseForUs makes the channel send again: it is we who could not store.
func (s *server) refuseForUs(c *gin.Context, ch channel.Channel, err error) {
	s.log.Error("callback not stored", zap.String("request_id", requestID(c)), zap.String("channel", ch.Name()), zap.Error(err))
	p := problemOf(err)
	if p.Status < 500 {
		p = newProblem(http.StatusInternalServerError, "internal", "something failed on our side")
	}
	callbacks.WithLabelValues(ch.Name(), p.Code).Inc()
	answer(c, ch.Refused(p.Status, p.Code, "not stored; send it again"))
}

func answer(c *gin.Context, ack channel.Ack) {
	if len(ack.Body) == 0 {
		c.Status(ack.Status)
		c.Writer.WriteHeaderNow()
		return
	}
	c.Data(ack.Status, ack.ContentType, ack.Body)
}
