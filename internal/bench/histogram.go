package bench

import (
	"math"
	"time"
)

// Histogram counts latencies from a microsecond to two minutes in buckets of equal width on a logarithmic scale: a million of
// them take no more memory than one. What it tells is off by 0.6 % at most.
type Histogram struct {
	counts [octaves * perOctave]int64
	n      int64
}

const (
	octaves   = 27
	perOctave = 64
	// lowest is the lower end of the first bucket.
	lowest = time.Microsecond
)

// Add counts one.
func (h *Histogram) Add(d time.Duration) {
	h.counts[bucketOf(d)]++
	h.n++
}

// Merge counts what another has counted.
func (h *Histogram) Merge(other *Histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.n += other.n
}

// Quantile gives the latency that the fraction q of all does not exceed; 0 where there is none.
func (h *Histogram) Quantile(q float64) time.Duration {
	rank := max(1, int64(math.Ceil(q*float64(h.n))))
	for i, n := range h.counts {
		if rank -= n; rank <= 0 && n > 0 {
			return latencyAt(float64(i) + 0.5)
		}
	}
	return 0
}

func bucketOf(d time.Duration) int {
	octave := math.Log2(max(1, float64(d)/float64(lowest)))
	return min(int(octave*perOctave), octaves*perOctave-1)
}

// latencyAt is the inverse of bucketOf, for fractions of a bucket too.
func latencyAt(bucket float64) time.Duration {
	return time.Duration(float64(lowest) * math.Exp2(bucket/perOctave))
}

// Series counts what was done in each moment of a phase.
type Series struct{ counts []int64 }

// moment is the resolution of a series.
const moment = 100 * time.Millisecond

// Add counts n that were done so long after the begin.
func (s *Series) Add(at time.Duration, n int64) {
	i := max(0, int(at/moment))
	s.reach(i + 1)
	s.counts[i] += n
}

// Merge adds another series of the same begin.
func (s *Series) Merge(other *Series) {
	s.reach(len(other.counts))
	for i, n := range other.counts {
		s.counts[i] += n
	}
}

// Append puts another series behind this one.
func (s *Series) Append(other *Series) { s.counts = append(s.counts, other.counts...) }

func (s *Series) reach(length int) {
	for len(s.counts) < length {
		s.counts = append(s.counts, 0)
	}
}
