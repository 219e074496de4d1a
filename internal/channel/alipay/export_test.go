package alipay

import (
	"time"

	"github.com/paylatch/paylatch/internal/channel"
)

// SetClock moves the clock by which an account judges bills and dates calls.
func SetClock(a channel.Account, now func() time.Time) { a.(*account).now = now }

// SetMaxBill bounds bills.
func SetMaxBill(a channel.Account, bytes int64) { a.(*account).maxBill = bytes }
