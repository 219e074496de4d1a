package tenant

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"
)

// recentAccounts keeps accounts that were found a moment ago, while somebody listens to the database for changes of them.
type recentAccounts struct {
	mu        sync.Mutex
	listening bool
	// generation counts what was heard: what was read before a change must not be kept after it.
	generation int64
	found      map[string]recentAccount
}

type recentAccount struct {
	Account
	at time.Time
}

const (
	// recentFor bounds the age of a kept account, should a change not be heard.
	recentFor = time.Second
	// accountsChanged is the channel that the trigger on channel_accounts tells of changes on.
	accountsChanged = "paylatch_channel_accounts"
	listenAgain     = time.Second
)

// Recent is Find for callbacks, which come in thousands: while [Accounts.Watch] runs it answers from memory. What the keys of
// such an account do not verify must be tried again with Find: a key may have been added at this moment. Error: [ErrUnknown].
func (a *Accounts) Recent(ctx context.Context, channelName, name string) (Account, error) {
	key := channelName + "/" + name
	r := &a.recent
	r.mu.Lock()
	known, ok := r.found[key]
	generation, listening := r.generation, r.listening
	r.mu.Unlock()
	if ok && listening && time.Since(known.at) < recentFor {
		return known.Account, nil
	}
	at := time.Now() // before the question: what it answers may be as old
	acct, err := a.Find(ctx, channelName, name)
	if err != nil || !listening {
		return acct, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.listening && r.generation == generation {
		r.found[key] = recentAccount{acct, at} // as many as there are accounts: names that do not exist are not kept
	}
	return acct, nil
}

// Watch listens for changes of accounts until ctx is done, so that [Accounts.Recent] may answer from memory. While its
// connection is away nothing is kept.
func (a *Accounts) Watch(ctx context.Context, log *zap.Logger) {
	for {
		err := a.listen(ctx)
		a.recent.forget(false)
		if ctx.Err() != nil {
			return
		}
		log.Warn("changes of channel accounts are not heard: each callback asks the database until they are", zap.Error(err))
		select {
		case <-ctx.Done():
			return
		case <-time.After(listenAgain):
		}
	}
}

// listen keeps one connection of the pool for itself.
func (a *Accounts) listen(ctx context.Context) error {
	pooled, err := a.engine.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	conn := pooled.Hijack()
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, "LISTEN "+accountsChanged); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	a.recent.forget(true)
	for {
		if _, err := conn.WaitForNotification(ctx); err != nil {
			return err
		}
		a.recent.forget(true)
	}
}

// forget drops what is kept: an account has changed, or nobody listens any more.
func (r *recentAccounts) forget(listening bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.listening = listening
	r.generation++
	r.found = map[string]recentAccount{}
}
