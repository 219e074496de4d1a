//go:build !unix

package bench

import "time"

// processorTime is not told on this system.
func processorTime() time.Duration { return 0 }
