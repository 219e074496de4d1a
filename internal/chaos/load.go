package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// scene is a kind of load: one small story of a merchant, a payer and a channel that repeats itself.
type scene struct {
	name string
	// weight is how often it is played, beside the others.
	weight int
	play   func(ctx context.Context, p *player)
}

// scenes lists every kind of load.
func scenes() []scene {
	return slices.Concat(paymentScenes(), saleScenes(), refundScenes(), shareScenes(), transferScenes())
}

// load plays scenes for a while. What a scene does is drawn from the seed and its number alone.
type load struct {
	seed   uint64
	rate   float64 // scenes per second
	record *Record
	caller *caller
	scenes []scene
	// sign gives the headers of a body that is sent at a time.
	sign func(secret string, body []byte, at time.Time) (map[string][]string, error)
	// until is when no scene begins any more.
	until time.Time

	mu      sync.Mutex
	over    bool   // no scene begins any more
	number  uint64 // of the next scene
	running int
	playing sync.WaitGroup
}

// Bounds of the load.
const (
	// atOnceMost is how many scenes are played at once: while servers are away each takes as long as they do.
	atOnceMost = 300
	// volleySize is how many scenes begin at the same moment, right before a blow.
	volleySize = 16
)

// run begins scenes until its time is over, and returns when all have ended. ctx ends their insisting.
func (l *load) run(ctx context.Context) {
	every := time.NewTicker(time.Duration(float64(time.Second) / l.rate))
	defer every.Stop()
	for time.Now().Before(l.until) && ctx.Err() == nil {
		<-every.C
		l.begin(ctx, 1)
	}
	l.mu.Lock()
	l.over = true
	l.mu.Unlock()
	l.playing.Wait()
}

// begin begins so many scenes at once, as far as there is room for them.
func (l *load) begin(ctx context.Context, scenes int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for range scenes {
		if l.over || l.running == atOnceMost {
			return
		}
		number := l.number
		l.number++
		l.running++
		l.playing.Go(func() {
			l.play(ctx, number)
			l.mu.Lock()
			defer l.mu.Unlock()
			l.running--
		})
	}
}

func (l *load) underWay() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.running
}

// play plays the scene of a number.
func (l *load) play(ctx context.Context, number uint64) {
	rng := rand.New(rand.NewPCG(l.seed, number))
	s := pick(rng, l.scenes)
	s.play(ctx, l.player(rng, s, number))
}

func (l *load) player(rng *rand.Rand, s scene, number uint64) *player {
	return &player{
		load:     l,
		rng:      rng,
		merchant: l.record.Merchants[rng.IntN(len(l.record.Merchants))],
		scene:    s.name,
		name:     fmt.Sprintf("%s-%06d", s.name, number),
	}
}

func pick(rng *rand.Rand, scenes []scene) scene {
	total := 0
	for _, s := range scenes {
		total += s.weight
	}
	n := rng.IntN(total)
	for _, s := range scenes {
		if n -= s.weight; n < 0 {
			return s
		}
	}
	panic("unreachable: n is below the sum of the weights")
}

// player plays one scene. Its random source is for the scene's own goroutine alone.
type player struct {
	*load
	rng      *rand.Rand
	merchant *Merchant
	scene    string
	name     string
}

// coin is true once in n times.
func (p *player) coin(n int) bool { return p.rng.IntN(n) == 0 }

// wait lets time pass, and no more than is left of the load.
func (p *player) wait(ctx context.Context, d time.Duration) { sleep(ctx, min(d, time.Until(p.until))) }

// together does things at once and waits for all.
func together(things ...func()) {
	var wg sync.WaitGroup
	for _, do := range things {
		wg.Go(do)
	}
	wg.Wait()
}
