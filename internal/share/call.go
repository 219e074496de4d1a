package share

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/database"
	"github.com/paylatch/paylatch/internal/ledger"
	"github.com/paylatch/paylatch/internal/tenant"
)

// Progress is where a sharing stands, for its flow.
type Progress struct {
	State State
	Ended bool
	// Channel names the channel that can be asked; empty where none can, and results come by callback alone.
	Channel string
}

// Look says where a sharing stands. Error: [ErrNotFound].
func (s *Service) Look(ctx context.Context, id int64) (Progress, error) {
	sh, err := one(ctx, s.pool, " WHERE s.id = $1", id)
	if err != nil {
		return Progress{}, err
	}
	asks, err := s.accounts.Asks(ctx, sh.AccountID)
	return progressOf(sh, asks), err
}

func progressOf(sh Share, asks bool) Progress {
	p := Progress{State: sh.State, Ended: sh.Ended()}
	if asks {
		p.Channel = sh.Channel
	}
	return p
}

// Call tells the channel of a sharing, or asks what became of it, and takes in what it answers. It names the sharing by one
// number for ever: what may have been sent is asked for first, and sent again only when the channel does not have it. Without
// a usable answer the sharing is UNKNOWN, and the error says why: call again. Error: [ErrNotFound], or such a reason.
func (s *Service) Call(ctx context.Context, id int64) (Progress, error) {
	sh, err := one(ctx, s.pool, " WHERE s.id = $1", id)
	if err != nil {
		return Progress{}, err
	}
	acct, err := s.accounts.ByID(ctx, sh.AccountID)
	if err != nil {
		return Progress{}, err
	}
	acquirer, asks := acct.Account.(channel.Acquirer)
	if sh.Ended() || !asks {
		return progressOf(sh, asks), nil
	}
	var sends int
	err = s.pool.QueryRow(ctx, sendSQL, id).Scan(&sends)
	if errors.Is(err, pgx.ErrNoRows) {
		return s.Look(ctx, id) // it has ended meanwhile
	}
	if err != nil {
		return Progress{}, fmt.Errorf("note that sharing %s is sent: %w", sh.OutOrderNo, err)
	}
	standing, err := s.ask(ctx, acquirer, sh, sends == 1)
	switch {
	case err == nil:
		err = s.heard(ctx, acct, sh, standing)
	case channel.Definite(err):
		err = s.refuse(ctx, sh, sends, err)
	default:
		err = s.unheard(ctx, sh, err)
	}
	if err != nil {
		return Progress{}, err
	}
	return s.Look(ctx, id)
}

// ask sends a sharing for the first time, or asks for it and sends it again when the channel does not have it. A definite
// refusal comes back only of a sharing that the channel does not have.
func (s *Service) ask(ctx context.Context, a channel.Acquirer, sh Share, first bool) (channel.ShareStanding, error) {
	request := asChannelShare(sh)
	if !first {
		standing, err := a.QueryShare(ctx, request)
		switch {
		case errors.Is(err, channel.ErrUnsupported):
			// Such a channel is told again: the number keeps it from doing it twice.
		case err != nil:
			// A refusal to be asked says nothing about what was sent.
			return standing, fmt.Errorf("ask about sharing %s: %s", sh.OutOrderNo, err)
		case standing.Known:
			return standing, nil
		}
	}
	return told(ctx, s, tellSQL, sh.ID, func() (channel.ShareStanding, error) {
		if len(request.Receivers) == 0 {
			return a.FinishShare(ctx, request)
		}
		return a.Share(ctx, request)
	})
}

// knownAfter is when a channel knows of a call that it carries out: until then it may neither tell of it when asked nor need to
// take it again.
const knownAfter = 20 * time.Second

// told makes a call that is noted first. A refusal says nothing while an earlier call may still arrive.
func told[Standing any](ctx context.Context, s *Service, note string, id int64, call func() (Standing, error)) (standing Standing, err error) {
	now := s.now()
	var before *time.Time
	if err := s.pool.QueryRow(ctx, note, id, now).Scan(&before); err != nil {
		return standing, fmt.Errorf("note that the channel is told: %w", err)
	}
	standing, err = call()
	if channel.Definite(err) && before != nil && now.Sub(*before) < knownAfter {
		return standing, fmt.Errorf("%s; an earlier call may have arrived all the same", err)
	}
	return standing, err
}

// asChannelShare is a sharing as its channel is told of it: nobody is sent nothing.
func asChannelShare(sh Share) channel.Share {
	request := channel.Share{
		OutOrderNo: sh.OutOrderNo, TransactionID: sh.TransactionID, OutTradeNo: sh.OutTradeNo, Reference: sh.Reference,
		Currency: sh.Currency, Finish: sh.Finish, ShareID: sh.ShareID,
	}
	for _, l := range sh.Legs {
		if l.Amount > 0 {
			request.Receivers = append(request.Receivers, channel.ShareReceiver{
				Type: l.Type, Account: l.Account, Name: l.Name, Amount: l.Amount, Description: l.Description,
			})
		}
	}
	return request
}

// heard takes in what the channel says. What it says of legs that have ended goes through the one entry, as its callbacks do.
func (s *Service) heard(ctx context.Context, acct tenant.Account, sh Share, standing channel.ShareStanding) error {
	if !standing.Known {
		return s.unheard(ctx, sh, errors.New("the channel does not say that it has it"))
	}
	if _, err := s.pool.Exec(ctx, knownSQL, sh.ID, standing.ShareID, s.now()); err != nil {
		return fmt.Errorf("note that the channel has sharing %s: %w", sh.OutOrderNo, err)
	}
	if err := s.keepReasons(ctx, sh, standing); err != nil {
		return err
	}
	if sh.Amount == 0 && standing.Ended() {
		return s.endEmpty(ctx, sh)
	}
	if len(standing.Body) == 0 {
		return nil
	}
	if _, err := s.entry.Report(ctx, acct, standing.Body, s.now()); err != nil {
		return fmt.Errorf("store what the channel says of sharing %s: %w", sh.OutOrderNo, err)
	}
	return nil
}

func (s *Service) keepReasons(ctx context.Context, sh Share, standing channel.ShareStanding) error {
	var accounts, reasons []string
	for _, l := range standing.Legs {
		if l.State == channel.LegClosed && l.Reason != "" {
			accounts, reasons = append(accounts, l.Account), append(reasons, plain(l.Reason))
		}
	}
	if len(accounts) == 0 {
		return nil
	}
	if _, err := s.pool.Exec(ctx, reasonsSQL, sh.ID, accounts, reasons); err != nil {
		return fmt.Errorf("keep why legs of sharing %s are closed: %w", sh.OutOrderNo, err)
	}
	return nil
}

// endEmpty ends a sharing that pays nobody: there is no leg whose event would.
func (s *Service) endEmpty(ctx context.Context, sh Share) error {
	return database.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		now, err := lockByID(ctx, tx, sh.ID)
		if err != nil || now.Ended() {
			return err
		}
		return exactly(ctx, tx, "end the sharing", endSQL, now.ID, Succeeded, "", s.now(), now.State)
	})
}

// unheard notes that nothing is known; why comes back.
func (s *Service) unheard(ctx context.Context, sh Share, why error) error {
	if _, err := s.pool.Exec(ctx, unknownSQL, sh.ID, plain(why.Error()), s.now()); err != nil {
		return fmt.Errorf("note that sharing %s is unknown: %w", sh.OutOrderNo, err)
	}
	return fmt.Errorf("sharing %s is unknown: %w", sh.OutOrderNo, why)
}

// refuse ends a sharing of which the channel did nothing: what was set aside for it is free again. One that has a result, or
// has ended, is left as it is, and so is one that was told or asked for since.
func (s *Service) refuse(ctx context.Context, sh Share, sends int, why error) error {
	s.log.Info("the channel refused a sharing", zap.String("tenant", sh.TenantID), zap.String("share", sh.OutOrderNo), zap.Error(why))
	err := database.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		now, err := lockByID(ctx, tx, sh.ID)
		if err != nil || now.Ended() || now.State == Processing || now.Sends != sends {
			return err
		}
		at, reason := s.now(), plain(why.Error())
		if err := exactly(ctx, tx, "end the sharing", endSQL, now.ID, Refused, reason, at, now.State); err != nil {
			return err
		}
		if now.Amount == 0 {
			return nil
		}
		if _, err := tx.Exec(ctx, closeLegsSQL, now.ID, reason, at); err != nil {
			return fmt.Errorf("close the legs: %w", err)
		}
		if err := exactly(ctx, tx, "give back what was set aside", releaseSQL, now.PaymentID, now.Amount); err != nil {
			return err
		}
		if _, err := ledger.Release(ctx, tx, now.TenantID, now.holdKey()); err != nil {
			return err
		}
		return net(ctx, tx, now.TenantID, now.PaymentID, now.Currency, now.Amount, "sharing "+now.OutOrderNo+" was refused", at)
	})
	if err != nil {
		return fmt.Errorf("refuse sharing %s: %w", sh.OutOrderNo, err)
	}
	return nil
}

// maxReason bounds what is kept of a channel's words.
const maxReason = 500

// plain gives the database text that it can hold.
func plain(text string) string {
	var kept []rune
	for _, r := range text {
		if r == 0 || len(kept) == maxReason {
			continue
		}
		kept = append(kept, r) // an invalid byte comes as U+FFFD
	}
	return string(kept)
}
