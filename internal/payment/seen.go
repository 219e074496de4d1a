package payment

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/paylatch/paylatch/internal/cache"
	"github.com/paylatch/paylatch/internal/tenant"
)

// seenFor is how long a DONE event is remembered: channels repeat themselves within a day.
const seenFor = 24 * time.Hour

// UseCache lets a repeated report of a DONE event be answered without the database. DONE is an end: no other state is
// remembered, because an operator or a later report may change it.
func (e *Entry) UseCache(done cache.Cache) { e.done = done }

// seenKey holds every fact and every byte of a report: one that differs in anything, an amount or a space, is another question,
// and goes to the database, where it may be a conflict.
func seenKey(acct tenant.Account, r report, sum []byte) cache.Key {
	return cache.KeyOf("done", acct.Life, strconv.FormatInt(acct.ID, 10), r.key, string(r.Kind), r.TransactionID, r.OutTradeNo,
		strconv.FormatInt(r.Amount, 10), r.Currency, r.Mismatch, r.OutNo, r.Receiver, string(r.LegState), string(sum))
}

func (e *Entry) remembered(ctx context.Context, acct tenant.Account, r report, sum []byte) (known Reported, ok bool) {
	if e.done == nil || acct.Life == "" {
		return Reported{}, false
	}
	text, ok := e.done.Get(ctx, seenKey(acct, r, sum))
	if !ok {
		return Reported{}, false
	}
	known = Reported{Key: r.key, State: Done, Duplicate: true}
	_, err := fmt.Sscanf(string(text), "%d %s", &known.EventID, &known.Outcome)
	return known, err == nil
}

// remember is told what was read in the database, so it follows the commit.
func (e *Entry) remember(ctx context.Context, acct tenant.Account, r report, sum []byte, known Event) {
	if e.done == nil || acct.Life == "" || known.State != Done {
		return
	}
	e.done.Put(ctx, seenKey(acct, r, sum), fmt.Appendf(nil, "%d %s", known.ID, deref(known.Outcome)), seenFor)
}
