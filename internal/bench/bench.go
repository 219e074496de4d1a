// Package bench measures what paylatch does beside the floor it stands on: the same statements on the same schema and the
// same server, in the same run. Results are rates of one machine; what is claimed are their ratios.
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"
)

// Result is one measured phase.
type Result struct {
	Name string `json:"name"`
	// Floor says that it is not paylatch but what paylatch stands on.
	Floor bool `json:"floor,omitempty"`
	// PerSecond is how many were done in a second; the median, where it was measured in turns.
	PerSecond float64 `json:"per_second"`
	// Turns are the rates of the turns, from the slowest on.
	Turns []float64 `json:"turns,omitempty"`
	// P50, P95 and P99 are latencies in milliseconds; 0 where none were measured.
	P50 float64 `json:"p50_ms"`
	P95 float64 `json:"p95_ms"`
	P99 float64 `json:"p99_ms"`

	rates     []float64 // of the turns, as they came
	latencies *Histogram
	over      *Series
}

// Ratio compares two results of one run.
type Ratio struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	// Goal is what docs/performance.md asks for; 0 for a ratio that is only told.
	Goal float64 `json:"goal,omitempty"`
}

// Figure is a number that is no rate.
type Figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	// Floor is the same of what paylatch stands on, where that has one.
	Floor *float64 `json:"floor,omitempty"`
	Unit  string   `json:"unit,omitempty"`
}

// WarmUp is what was done before anything counted.
type WarmUp struct {
	Name    string  `json:"name"`
	Calls   int     `json:"calls"`
	Seconds float64 `json:"seconds"`
}

// Report is what one benchmark saw.
type Report struct {
	Benchmark string   `json:"benchmark"`
	Channel   string   `json:"channel,omitempty"`
	WarmUps   []WarmUp `json:"warm_up,omitempty"`
	Results   []Result `json:"results"`
	Ratios    []Ratio  `json:"ratios"`
	Figures   []Figure `json:"figures,omitempty"`
}

// heading stands above the lines that add writes.
const heading = "                                                         per s    p50 ms    p95 ms    p99 ms"

func (r *Report) add(result Result, progress io.Writer) Result {
	if len(r.Results) == 0 {
		fmt.Fprintln(progress, heading)
	}
	r.Results = append(r.Results, result)
	spread := ""
	if n := len(result.Turns); n > 1 {
		spread = fmt.Sprintf("   %d turns of %.0f to %.0f/s", n, result.Turns[0], result.Turns[n-1])
	}
	fmt.Fprintf(progress, "  %-50s %9.0f %9.2f %9.2f %9.2f%s\n", result.Name, result.PerSecond, result.P50, result.P95, result.P99, spread)
	return result
}

// ratio compares two results. Of those that took turns it is the median of the turns' own: the two of one turn had the machine
// in the same mood.
func (r *Report) ratio(name string, of, to Result, goal float64) {
	if to.PerSecond == 0 {
		return
	}
	value := of.PerSecond / to.PerSecond
	if n := len(of.rates); n > 1 && n == len(to.rates) {
		each := make([]float64, n)
		for i := range each {
			each[i] = of.rates[i] / to.rates[i]
		}
		value = median(each)
	}
	r.Ratios = append(r.Ratios, Ratio{name, value, goal})
}

// median of an odd number of values; it sorts them.
func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

func (r *Report) figure(f Figure) { r.Figures = append(r.Figures, f) }

// Print writes the ratios and the figures.
func (r *Report) Print(out io.Writer) {
	if len(r.Ratios) > 0 {
		fmt.Fprintf(out, "\n  %-66s %9s %9s\n", "", "ratio", "goal")
	}
	for _, ratio := range r.Ratios {
		goal := ""
		if ratio.Goal > 0 {
			goal = fmt.Sprintf("%.2f", ratio.Goal)
		}
		fmt.Fprintf(out, "  %-66s %9.2f %9s\n", ratio.Name, ratio.Value, goal)
	}
	if len(r.Figures) > 0 {
		fmt.Fprintf(out, "\n  %-66s %9s %9s\n", "", "paylatch", "floor")
	}
	for _, f := range r.Figures {
		floor := ""
		if f.Floor != nil {
			floor = number(*f.Floor)
		}
		fmt.Fprintf(out, "  %-66s %9s %9s %s\n", f.Name, number(f.Value), floor, f.Unit)
	}
}

// number shows two digits behind the point where there is something.
func number(v float64) string {
	if v == float64(int64(v)) {
		return strconv.FormatInt(int64(v), 10)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// analyze lets the planner know the tables, as autovacuum does a minute later: a phase must not be measured with the plans of
// empty tables.
func analyze(ctx context.Context, ownerURL string) error {
	conn, err := pgx.Connect(ctx, ownerURL)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "ANALYZE")
	return errors.Join(err, conn.Close(ctx))
}
