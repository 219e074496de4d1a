package bench

import (
	"fmt"
	"html"
	"io"
	"math"
	"strings"
	"time"
)

// Plot draws reports as one SVG that needs nothing else: for each result the histogram of its latencies on a logarithmic
// scale and what was done over time, below them the ratios with their goals. It is light or dark as the reader's system is.
func Plot(out io.Writer, subtitle string, reports ...*Report) error {
	p := &plot{}
	p.text(margin, 40, "title", "paylatch bench")
	p.text(margin, 62, "muted", subtitle)
	p.y = 84
	for _, r := range reports {
		p.report(r)
	}
	_, err := fmt.Fprintf(out, plotHead, plotWidth, p.y+8, plotWidth, p.y+8, plotStyle)
	if err == nil {
		_, err = io.WriteString(out, p.b.String()+"</svg>\n")
	}
	return err
}

const (
	plotWidth = 1000.0
	margin    = 28.0
	rowHeight = 66.0

	// The columns behind name and rate.
	latencyLeft, latencyRight = 330.0, 650.0
	overLeft, overRight       = 710.0, 972.0

	plotHead = `<svg xmlns="http://www.w3.org/2000/svg" width="%g" height="%g" viewBox="0 0 %g %g" role="img" aria-label="paylatch bench: latencies, throughput and ratios">
<style>%s</style>
<rect class="page" width="100%%" height="100%%"/>
`
	plotStyle = `
:root{--page:#fff;--ink:#1c2430;--muted:#667085;--line:#e4e7ec;--ours:#2563c9;--floor:#8a94a6;--good:#16825d;--bad:#b4690e}
@media (prefers-color-scheme:dark){:root{--page:#11161d;--ink:#e6eaf0;--muted:#96a1b2;--line:#2a323d;--ours:#6ea8fe;--floor:#7d8899;--good:#4cc38a;--bad:#e0a458}}
text{font:12px system-ui,-apple-system,"Segoe UI",sans-serif;fill:var(--ink)}
.page{fill:var(--page)}.title{font-size:22px;font-weight:650}.head{font-size:16px;font-weight:650}.name{font-weight:600}
.muted{fill:var(--muted);font-weight:400}.tick{font-size:10.5px;fill:var(--muted)}.num{font-variant-numeric:tabular-nums}.end{text-anchor:end}.mid{text-anchor:middle}
.line{stroke:var(--line);stroke-width:1}.axis{stroke:var(--muted);stroke-width:1}
.ours{fill:var(--ours);fill-opacity:.28;stroke:var(--ours);stroke-width:1.4;stroke-linejoin:round}
.floor{fill:var(--floor);fill-opacity:.2;stroke:var(--floor);stroke-width:1.4;stroke-linejoin:round}
.at{stroke:var(--ink);stroke-width:1;stroke-dasharray:2 2}.good{fill:var(--good)}.bad{fill:var(--bad)}.told{fill:var(--floor)}.goal{stroke:var(--ink);stroke-width:2}
`
)

// plot grows downwards from y.
type plot struct {
	b strings.Builder
	y float64
}

func (p *plot) write(format string, args ...any) { fmt.Fprintf(&p.b, format+"\n", args...) }

func (p *plot) text(x, y float64, class, text string) {
	p.write(`<text x="%.1f" y="%.1f" class="%s">%s</text>`, x, y, class, html.EscapeString(text))
}

func (p *plot) lineTo(class string, x1, y1, x2, y2 float64) {
	p.write(`<line class="%s" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`, class, x1, y1, x2, y2)
}

func (p *plot) report(r *Report) {
	p.y += 30
	head := r.Benchmark
	if r.Channel != "" {
		head += ", channel " + r.Channel
	}
	p.text(margin, p.y, "head", head)
	p.lineTo("line", margin, p.y+12, plotWidth-margin, p.y+12)
	p.y += 34
	p.text(margin, p.y, "muted", "per second: the median of the turns")
	p.text(latencyLeft, p.y, "muted", "latency in ms, log scale; dotted: p50, p95, p99")
	p.text(overLeft, p.y, "muted", "per second, over the seconds of all turns")
	p.y += 6
	scale, seconds := latencyScale(r.Results), longest(r.Results)
	bottom := p.y + float64(len(r.Results))*rowHeight
	p.latencyAxis(scale, p.y, bottom)
	p.timeAxis(seconds, bottom)
	for i := range r.Results {
		p.row(&r.Results[i], scale, seconds)
	}
	p.y += 28
	p.ratios(r.Ratios)
}

func classOf(r *Result) string {
	if r.Floor {
		return "floor"
	}
	return "ours"
}

// row draws one result.
func (p *plot) row(r *Result, scale scale, seconds float64) {
	p.y += rowHeight
	name, mode, _ := strings.Cut(r.Name, ", ")
	p.text(margin, p.y-46, "name", name)
	p.text(margin, p.y-31, "muted", mode)
	rate := thousands(r.PerSecond) + "/s"
	quantiles := ""
	if r.latencies != nil && r.latencies.n > 0 {
		quantiles = fmt.Sprintf("p50 %s · p99 %s ms", short(r.P50), short(r.P99))
		p.histogram(r, scale)
	}
	p.write(`<text x="%.1f" y="%.1f" class="num"><tspan class="name">%s</tspan><tspan class="muted" dx="10">%s</tspan></text>`, margin, p.y-14, rate, quantiles)
	p.lineTo("axis", latencyLeft, p.y, latencyRight, p.y)
	if r.over != nil && len(r.over.counts) > 0 {
		p.over(r, seconds)
	}
	p.lineTo("axis", overLeft, p.y, overRight, p.y)
}

// shown is how many buckets of a histogram are one step of its drawing.
const shown = 8

func (p *plot) histogram(r *Result, s scale) {
	var heights [octaves * perOctave / shown]float64
	most := 0.0
	for i, n := range r.latencies.counts {
		heights[i/shown] += float64(n)
		most = max(most, heights[i/shown])
	}
	var path strings.Builder
	fmt.Fprintf(&path, "M%.1f %.1f", s.x(latencyAt(float64(s.first*perOctave))), p.y)
	for i := s.first * perOctave / shown; i < s.last*perOctave/shown; i++ {
		y := p.y - heights[i]/most*(rowHeight-18)
		fmt.Fprintf(&path, "L%.1f %.1fL%.1f %.1f", s.x(latencyAt(float64(i*shown))), y, s.x(latencyAt(float64((i+1)*shown))), y)
	}
	fmt.Fprintf(&path, "L%.1f %.1fZ", s.x(latencyAt(float64(s.last*perOctave))), p.y)
	p.write(`<path class="%s" d="%s"><title>%s: p50 %s ms, p95 %s ms, p99 %s ms</title></path>`, classOf(r), path.String(),
		html.EscapeString(r.Name), short(r.P50), short(r.P95), short(r.P99))
	for _, at := range []float64{r.P50, r.P95, r.P99} {
		x := s.x(time.Duration(at * float64(time.Millisecond)))
		p.lineTo("at", x, p.y-rowHeight+14, x, p.y)
	}
}

// over draws what was done per second, in at most a hundred steps.
func (p *plot) over(r *Result, seconds float64) {
	step := max(1, (len(r.over.counts)+99)/100)
	var rates []float64
	most := 0.0
	for begin := 0; begin < len(r.over.counts); begin += step {
		end := min(begin+step, len(r.over.counts))
		sum := 0.0
		for _, n := range r.over.counts[begin:end] {
			sum += float64(n)
		}
		rates = append(rates, sum/(float64(end-begin)*moment.Seconds()))
		most = max(most, rates[len(rates)-1])
	}
	ceiling := niceAbove(most)
	x := func(i int) float64 {
		at := float64(min(i*step, len(r.over.counts))) * moment.Seconds()
		return overLeft + at/seconds*(overRight-overLeft)
	}
	var path strings.Builder
	fmt.Fprintf(&path, "M%.1f %.1f", x(0), p.y)
	for i, rate := range rates {
		y := p.y - rate/ceiling*(rowHeight-18)
		fmt.Fprintf(&path, "L%.1f %.1fL%.1f %.1f", x(i), y, x(i+1), y)
	}
	fmt.Fprintf(&path, "L%.1f %.1fZ", x(len(rates)), p.y)
	p.lineTo("line", overLeft, p.y-rowHeight+18, overRight, p.y-rowHeight+18)
	p.text(overLeft-6, p.y-rowHeight+22, "tick num end", thousands(ceiling))
	p.text(overLeft-6, p.y+3, "tick num end", "0")
	p.write(`<path class="%s" d="%s"><title>%s: %s/s</title></path>`, classOf(r), path.String(), html.EscapeString(r.Name), thousands(r.PerSecond))
}

// scale is the octaves that a report's latencies lie in.
type scale struct{ first, last int }

func latencyScale(results []Result) scale {
	s := scale{octaves, 0}
	for _, r := range results {
		if r.latencies == nil || r.latencies.n == 0 {
			continue
		}
		s.first = min(s.first, bucketOf(r.latencies.Quantile(0.001))/perOctave)
		s.last = max(s.last, bucketOf(r.latencies.Quantile(0.999))/perOctave+1)
	}
	if s.first >= s.last {
		return scale{0, octaves}
	}
	return s
}

func (s scale) x(d time.Duration) float64 {
	octave := math.Log2(max(1, float64(d)/float64(lowest)))
	fraction := (octave - float64(s.first)) / float64(s.last-s.first)
	return latencyLeft + min(max(fraction, 0), 1)*(latencyRight-latencyLeft)
}

// latencyAxis marks 1, 2 and 5 of each power of ten, as far as there is room.
func (p *plot) latencyAxis(s scale, top, bottom float64) {
	last := math.Inf(-1)
	for power := time.Microsecond; power < 1000*time.Second; power *= 10 {
		for _, mark := range []time.Duration{1, 2, 5} {
			d := mark * power
			x := s.x(d)
			if x <= latencyLeft || x >= latencyRight || x-last < 30 {
				continue
			}
			last = x
			p.lineTo("line", x, top+8, x, bottom+4)
			p.text(x, bottom+17, "tick num mid", short(milliseconds(d)))
		}
	}
}

func (p *plot) timeAxis(seconds, bottom float64) {
	step := niceAbove(seconds / 6)
	for at := 0.0; at <= seconds+1e-9; at += step {
		x := overLeft + at/seconds*(overRight-overLeft)
		p.lineTo("axis", x, bottom, x, bottom+4)
		p.text(x, bottom+17, "tick num mid", short(at))
	}
}

// longest is the length of the longest series, in seconds.
func longest(results []Result) float64 {
	length := 1
	for _, r := range results {
		if r.over != nil {
			length = max(length, len(r.over.counts))
		}
	}
	return float64(length) * moment.Seconds()
}

// ratios draws a bar for each, with its goal.
func (p *plot) ratios(ratios []Ratio) {
	most := 1.0
	for _, r := range ratios {
		most = max(most, r.Value*1.05, r.Goal*1.1)
	}
	const left, right = 480.0, 880.0
	x := func(v float64) float64 { return left + v/most*(right-left) }
	for _, r := range ratios {
		p.y += 26
		class := "told"
		verdict := ""
		if r.Goal > 0 {
			class, verdict = "good", fmt.Sprintf(", goal %.2f", r.Goal)
			if r.Value < r.Goal {
				class = "bad"
			}
		}
		p.text(margin, p.y, "", r.Name)
		p.write(`<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="12" rx="2"/>`, class, left, p.y-10, x(r.Value)-left)
		if r.Goal > 0 {
			p.lineTo("goal", x(r.Goal), p.y-13, x(r.Goal), p.y+5)
		}
		p.text(right+8, p.y, "num", fmt.Sprintf("%.2f%s", r.Value, verdict))
	}
	p.y += 16
}

// niceAbove is the next of 1, 2, 5, 10, … at or above v.
func niceAbove(v float64) float64 {
	if v <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, mark := range []float64{1, 2, 5} {
		if mark*power >= v {
			return mark * power
		}
	}
	return 10 * power
}

// short writes a number with no digits behind the point that say nothing.
func short(v float64) string {
	switch {
	case v >= 100 || v == math.Trunc(v):
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return strings.TrimRight(fmt.Sprintf("%.3f", v), "0")
	}
}

// thousands groups the digits of a rate.
func thousands(v float64) string {
	digits := fmt.Sprintf("%.0f", v)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
