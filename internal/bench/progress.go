package bench

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Display shows a person how far a run is: results as lines, and below them a bar of the phase that runs. Where nobody looks
// at a terminal the bar is a line every few seconds. It may be used by many goroutines.
type Display struct {
	mu       sync.Mutex
	out      io.Writer
	terminal bool
	bar      *Bar
	drawn    bool // the bar stands on the last line
}

// NewDisplay writes to a file, which may be a terminal.
func NewDisplay(out *os.File) *Display {
	info, err := out.Stat()
	return &Display{out: out, terminal: err == nil && info.Mode()&os.ModeCharDevice != 0}
}

// LineDisplay writes lines alone.
func LineDisplay(out io.Writer) *Display { return &Display{out: out} }

const (
	redrawEvery = 100 * time.Millisecond
	lineEvery   = 10 * time.Second
	barWidth    = 24
	clearLine   = "\r\x1b[2K"
)

// Write puts lines above the bar.
func (d *Display) Write(text []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clear()
	n, err := d.out.Write(text)
	d.draw()
	return n, err
}

func (d *Display) clear() {
	if d.drawn {
		fmt.Fprint(d.out, clearLine)
		d.drawn = false
	}
}

func (d *Display) draw() {
	if d.terminal && d.bar != nil {
		fmt.Fprint(d.out, clearLine+d.bar.text(time.Now()))
		d.drawn = true
	}
}

// Bar is how far one phase is.
type Bar struct {
	name  string
	total int64         // how many there are to do; 0 for a phase that has a length instead
	last  time.Duration // the length of such a phase
	begin time.Time
	done  atomic.Int64
	end   func()
}

// Count begins the bar of a phase that does so many.
func (d *Display) Count(name string, total int) *Bar {
	return d.start(&Bar{name: name, total: int64(total)})
}

// Time begins the bar of a phase that lasts so long.
func (d *Display) Time(name string, length time.Duration) *Bar {
	return d.start(&Bar{name: name, last: length})
}

func (d *Display) start(b *Bar) *Bar {
	b.begin = time.Now()
	every := lineEvery
	if d.terminal {
		every = redrawEvery
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	d.mu.Lock()
	d.bar = b
	d.draw()
	d.mu.Unlock()
	go func() {
		defer close(stopped)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case now := <-tick.C:
				d.mu.Lock()
				if d.terminal {
					d.draw()
				} else {
					fmt.Fprintln(d.out, b.text(now))
				}
				d.mu.Unlock()
			}
		}
	}()
	b.end = sync.OnceFunc(func() {
		close(stop)
		<-stopped
		d.mu.Lock()
		defer d.mu.Unlock()
		d.clear()
		d.bar = nil
	})
	return b
}

// Add says that n more are done.
func (b *Bar) Add(n int64) { b.done.Add(n) }

// End takes the bar away.
func (b *Bar) End() { b.end() }

func (b *Bar) text(now time.Time) string {
	passed, done := now.Sub(b.begin), b.done.Load()
	fraction := 0.0
	switch {
	case b.total > 0:
		fraction = float64(done) / float64(b.total)
	case b.last > 0:
		fraction = passed.Seconds() / b.last.Seconds()
	}
	fraction = min(max(fraction, 0), 1)
	full := int(fraction * barWidth)
	text := fmt.Sprintf("  %s [%s%s] %3.0f%%", b.name, strings.Repeat("#", full), strings.Repeat(".", barWidth-full), 100*fraction)
	if b.total > 0 {
		text += fmt.Sprintf("  %d of %d", done, b.total)
	}
	if rate := float64(done) / passed.Seconds(); done > 0 && passed > 0 {
		text += fmt.Sprintf("  %.0f/s", rate)
	}
	if fraction > 0 && fraction < 1 {
		left := time.Duration((1 - fraction) / fraction * float64(passed))
		text += "  " + left.Round(time.Second).String() + " left"
	}
	return text
}
