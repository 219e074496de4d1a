package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/paylatch/paylatch/internal/channel/simulator"
	"github.com/paylatch/paylatch/internal/channel/simulator/alipay"
	"github.com/paylatch/paylatch/internal/channel/simulator/stripe"
	"github.com/paylatch/paylatch/internal/channel/simulator/wechatpay"
)

// acquirerAccount is the name of each merchant's account at its acquirer, before the tenant's own.
const acquirerAccount = "acq-"

// acquirers are the simulated channels, one per merchant. They are part of the controlling process and are never killed, but
// they misbehave.
type acquirers struct {
	list    []simulator.Simulator
	servers []*httptest.Server
	// balancer is where channels call back: it calls the APIs in turn, and answers 502 for one that is not there.
	balancer *httptest.Server
}

func newAcquirers() *acquirers {
	a := &acquirers{list: []simulator.Simulator{wechatpay.New(), alipay.New(), stripe.New()}}
	for _, sim := range a.list {
		a.servers = append(a.servers, httptest.NewServer(sim.Handler()))
	}
	return a
}

// balance opens the balancer before the APIs have their addresses.
func (a *acquirers) balance(bases func() []string) {
	var turn atomic.Uint64
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout = answerWithin
	a.balancer = httptest.NewServer(&httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			all := bases()
			to, err := url.Parse(all[turn.Add(1)%uint64(len(all))])
			if err != nil {
				panic(err) // we made it
			}
			r.SetURL(to)
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	})
}

// misbehave spoils a few calls of each channel every now and then, until ctx ends; then all behave.
func (a *acquirers) misbehave(ctx context.Context, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, acquirerStream))
	for {
		for _, sim := range a.list {
			sim.Core().Misbehave(simulator.Faults{
				Refuse: rng.IntN(3), Drop: rng.IntN(3), Garble: rng.IntN(2), NoticeTimes: 1 + rng.IntN(3), Delay: between(rng, 0, 300*time.Millisecond),
			})
		}
		if !sleep(ctx, between(rng, time.Second, 4*time.Second)) {
			break
		}
	}
	for _, sim := range a.list {
		sim.Core().Misbehave(simulator.Faults{})
	}
}

// close ends what is still being sent.
func (a *acquirers) close() {
	if a == nil {
		return
	}
	for i, sim := range a.list {
		sim.Core().Close()
		a.servers[i].Close()
	}
	if a.balancer != nil {
		a.balancer.Close()
	}
}

// give makes the n-th merchant a customer of its acquirer.
func (a *acquirers) give(m *Merchant, n int) simulator.Simulator {
	sim := a.list[n%len(a.list)]
	m.sim, m.Channel, m.Acquirer = sim, sim.Name(), acquirerAccount+m.Tenant
	if takes, ok := sim.(interface{ Endpoint(address string) }); ok && a.balancer != nil {
		takes.Endpoint(fmt.Sprintf("%s/callbacks/%s/%s", a.balancer.URL, m.Channel, m.Acquirer))
	}
	return sim
}
