package payment

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/paylatch/paylatch/internal/cache"
	"github.com/paylatch/paylatch/internal/tenant"
)

// seenFor is how long a DONE event is remembered: channels repeat themselves within a day.
const seenFor = 24 * time.Hour

// UseCache lets a body whose every event is DONE be answered without the database when it comes again. DONE is an end: no other
// state is remembered, because an operator or a later report may change it.
func (e *Entry) UseCache(done cache.Cache) { e.done = done }

// seen is one remembered event.
type seen struct {
	EventID int64   `json:"id"`
	Key     string  `json:"key"`
	Outcome Outcome `json:"outcome"`
}

// seenKey holds every byte of a body, and the configuration under which it was read: a body that differs in anything, an amount
// or a space, is another question, and goes to the database, where it may be a conflict.
func seenKey(acct tenant.Account, sum []byte) cache.Key {
	return cache.KeyOf("done", acct.Life, strconv.FormatInt(acct.ID, 10), strconv.FormatInt(acct.Version, 10), string(sum))
}

func (e *Entry) remembered(ctx context.Context, acct tenant.Account, sum []byte) (results []Reported, ok bool) {
	if e.done == nil || acct.Life == "" {
		return nil, false
	}
	text, ok := e.done.Get(ctx, seenKey(acct, sum))
	if !ok {
		return nil, false
	}
	var list []seen
	if err := json.Unmarshal(text, &list); err != nil || len(list) == 0 {
		return nil, false
	}
	for _, s := range list {
		results = append(results, Reported{EventID: s.EventID, Key: s.Key, State: Done, Outcome: s.Outcome, Duplicate: true})
	}
	return results, true
}

// remember is told what was read in the database, so it follows the commit. The results are all of a body's, and each says that
// its event was there and said the same.
func (e *Entry) remember(ctx context.Context, acct tenant.Account, sum []byte, results []Reported) {
	if e.done == nil || acct.Life == "" {
		return
	}
	var list []seen
	for _, r := range results {
		if r.State != Done {
			return
		}
		list = append(list, seen{r.EventID, r.Key, r.Outcome})
	}
	text, err := json.Marshal(list)
	if err == nil { // texts and numbers always marshal
		e.done.Put(ctx, seenKey(acct, sum), text, seenFor)
	}
}
