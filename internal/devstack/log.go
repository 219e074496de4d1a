package devstack

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// longestLog is the size from which a start begins a new log and keeps only the one before it.
const longestLog = 16 << 20

// openLog opens the log at path for appending and reading.
func openLog(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && info.Size() > longestLog {
		if err := os.Rename(path, path+".old"); err != nil {
			return nil, fmt.Errorf("setting the old log aside: %w", err)
		}
	}
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
}

// openScratchLog opens a log without a name: it is only there to be quoted when a start fails.
func openScratchLog() (*os.File, error) {
	f, err := os.CreateTemp("", "paylatch-log-")
	if err != nil {
		return nil, err
	}
	return f, os.Remove(f.Name())
}

func logEnd(log *os.File) int64 {
	info, err := log.Stat()
	if err != nil {
		return 0
	}
	return info.Size()
}

// lastLines returns the end of what was written to the log after offset: whole lines, at most 2 KiB.
func lastLines(log *os.File, offset int64) string {
	const most = 2048
	end := logEnd(log)
	from := max(offset, end-most)
	buf := make([]byte, max(0, end-from))
	n, err := log.ReadAt(buf, from)
	if err != nil && err != io.EOF {
		return ""
	}
	text := string(buf[:n])
	if from > offset {
		_, text, _ = strings.Cut(text, "\n")
	}
	return strings.TrimSpace(text)
}

// quote sets the end of a log under an error message.
func quote(log string) string {
	if log == "" {
		return ""
	}
	return "; its log ends with:\n  " + strings.ReplaceAll(log, "\n", "\n  ")
}
