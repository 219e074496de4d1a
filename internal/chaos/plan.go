package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Part is a kind of process that can be struck.
type Part string

// The parts.
const (
	API        Part = "api"
	Worker     Part = "worker"
	Temporal   Part = "temporal"
	PostgreSQL Part = "postgres"
)

// Parts lists all parts.
func Parts() []Part { return []Part{API, Worker, Temporal, PostgreSQL} }

// instances is how many processes of a part run at once.
func (p Part) instances() int {
	if p == API || p == Worker {
		return 2
	}
	return 1
}

// How says how a process is struck.
type How string

// The ways. A kill is SIGKILL, a pause SIGSTOP and later SIGCONT, a restart an orderly end and a new start.
const (
	Kill    How = "kill"
	Pause   How = "pause"
	Restart How = "restart"
)

// Hows lists all ways.
func Hows() []How { return []How{Kill, Pause, Restart} }

// Fault is one blow.
type Fault struct {
	Part     Part
	Instance int // from 1
	How      How
	After    time.Duration // since the round's beginning, when a volley of load begins
	Into     time.Duration // the volley: when the blow falls
	Away     time.Duration // until it is started or resumed
}

func (f Fault) String() string {
	name := string(f.Part)
	if f.Part.instances() > 1 {
		name = fmt.Sprintf("%s-%d", f.Part, f.Instance)
	}
	return fmt.Sprintf("%s %s for %.1fs", f.How, name, f.Away.Seconds())
}

// Round is what is struck more or less at once.
type Round struct {
	At     time.Duration // since the beginning of the load
	Faults []Fault
}

func (r Round) String() string {
	var words []string
	for _, f := range r.Faults {
		words = append(words, f.String())
	}
	return fmt.Sprintf("%6.1fs  %s", r.At.Seconds(), strings.Join(words, ", "))
}

// length is how long the round takes when everything comes back at once, in whole tenths of a second.
func (r Round) length() time.Duration {
	var end time.Duration
	for _, f := range r.Faults {
		end = max(end, f.After+f.Into+f.Away)
	}
	return (end + tenth - 1).Truncate(tenth)
}

// Times of a plan.
const (
	warmUp    = 3 * time.Second // before the first round
	shortGap  = 2 * time.Second // of quiet between rounds, at least
	longGap   = 5 * time.Second
	apart     = time.Second // between the blows of one round, at most
	atOnce    = 3           // parts per round, at most
	shortAway = 300 * time.Millisecond
	longAway  = 4 * time.Second
	volley    = 200 * time.Millisecond // after its beginning the blow has fallen
)

// NewPlan draws a plan. It depends on the seed and the length alone, and a longer plan begins with the shorter one. Every
// part is struck in every way before any is struck again in the same way.
func NewPlan(seed uint64, length time.Duration) []Round {
	rng := rand.New(rand.NewPCG(seed, planStream))
	var plan []Round
	var deck []card
	for at := warmUp; ; {
		round := Round{At: at}
		round.Faults, deck = draw(rng, deck)
		if round.At+round.length() > length {
			return plan
		}
		plan = append(plan, round)
		at += round.length() + between(rng, shortGap, longGap)
	}
}

// The streams of one seed: one for the plan, and one for each scene of the load.
const (
	planStream     = 1 << 63
	acquirerStream = planStream + 1
)

// card is one way to strike one part.
type card struct {
	part Part
	how  How
}

// draw takes one to three parts from the deck and makes a new deck when it is used up.
func draw(rng *rand.Rand, deck []card) (faults []Fault, rest []card) {
	if len(deck) == 0 {
		deck = shuffled(rng)
	}
	want := 1 + rng.IntN(atOnce)
	taken := map[Part]bool{}
	for _, c := range deck {
		if taken[c.part] || len(taken) == want {
			rest = append(rest, c)
			continue
		}
		taken[c.part] = true
		faults = append(faults, blows(rng, c)...)
	}
	return faults, rest
}

func shuffled(rng *rand.Rand) (deck []card) {
	for _, part := range Parts() {
		for _, how := range Hows() {
			deck = append(deck, card{part, how})
		}
	}
	rng.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
	return deck
}

// blows strikes one instance, or all of them.
func blows(rng *rand.Rand, c card) (faults []Fault) {
	first, last := 1, c.part.instances()
	if rng.IntN(4) > 0 {
		first = 1 + rng.IntN(last)
		last = first
	}
	for instance := first; instance <= last; instance++ {
		faults = append(faults, Fault{
			Part: c.part, Instance: instance, How: c.how,
			After: between(rng, 0, apart), Into: time.Duration(rng.Int64N(int64(volley))), Away: between(rng, shortAway, longAway),
		})
	}
	return faults
}

const tenth = 100 * time.Millisecond

// between draws a duration in whole tenths of a second, so that what is printed is what is played.
func between(rng *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(rng.Int64N(int64((high-low)/tenth)+1))*tenth
}

// count is how many blows a plan has, by part and way.
func count(plan []Round) map[Part]map[How]int {
	counts := map[Part]map[How]int{}
	for _, round := range plan {
		for _, f := range round.Faults {
			if counts[f.Part] == nil {
				counts[f.Part] = map[How]int{}
			}
			counts[f.Part][f.How]++
		}
	}
	return counts
}

// sortedKeys gives a map's keys in order.
func sortedKeys[K ~string, V any](m map[K]V) (keys []K) {
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
