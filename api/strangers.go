package api

import (
	"crypto/sha256"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// An API key that is asked about costs a query. What one address may ask about keys that turn out to be unknown is bounded, and
// an unknown key is not asked about again at once. That is safe: a key is random and shown only once it is committed, so nobody
// can have asked for it before it was there, and a revoked one never comes back.
const (
	unknownPerSecond = 5
	unknownBurst     = 50
	unknownFor       = 10 * time.Second
	// What is remembered of callers in one process; what makes room is any other.
	maxAddresses = 4096
	maxUnknown   = 4096
	maxProven    = 4096
)

type keyHash = [sha256.Size]byte

// strangers remembers what callers sent as their keys. A key that was proven is never held up by what others send from its
// address, which may be a proxy's. It is asked about each time all the same.
type strangers struct {
	mu        sync.Mutex
	proven    map[keyHash]struct{}
	unknown   map[keyHash]time.Time // until when
	addresses map[netip.Prefix]*rate.Limiter
	now       func() time.Time
}

func newStrangers() *strangers {
	return &strangers{proven: map[keyHash]struct{}{}, unknown: map[keyHash]time.Time{}, addresses: map[netip.Prefix]*rate.Limiter{}, now: time.Now}
}

// question is one key that somebody sent.
type question struct {
	key  keyHash
	paid *rate.Reservation // nil for a proven key
}

// ask begins to ask about a key from a remote address. refused says that it is known to be unknown; wait, where it is not 0,
// that the address has asked about too many unknown ones.
func (s *strangers) ask(apiKey, remote string) (q question, refused bool, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q.key = sha256.Sum256([]byte(apiKey))
	if _, ok := s.proven[q.key]; ok {
		return q, false, 0
	}
	now := s.now()
	if until, ok := s.unknown[q.key]; ok && now.Before(until) {
		return q, true, 0
	}
	from := network(remote)
	bucket, ok := s.addresses[from]
	if !ok {
		bucket = rate.NewLimiter(unknownPerSecond, unknownBurst)
		put(s.addresses, maxAddresses, from, bucket)
	}
	q.paid = bucket.ReserveN(now, 1)
	if wait = q.paid.DelayFrom(now); wait > 0 {
		q.paid.CancelAt(now)
	}
	return q, false, wait
}

// known notes that the key is one: it costs its address nothing.
func (s *strangers) known(q question) {
	if q.paid == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	q.paid.CancelAt(s.now())
	put(s.proven, maxProven, q.key, struct{}{})
}

// strange notes that the key is none, or none any more.
func (s *strangers) strange(q question) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.proven, q.key)
	put(s.unknown, maxUnknown, q.key, s.now().Add(unknownFor))
}

// unsure gives back what a question cost that got no answer.
func (s *strangers) unsure(q question) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.paid != nil {
		q.paid.CancelAt(s.now())
	}
}

// network is who is taken for one caller: an IPv4 address, or the 64 bits that one customer has of IPv6. The address is the
// connection's own; a header could name any.
func network(remote string) netip.Prefix {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		host = remote
	}
	address, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Prefix{}
	}
	address = address.Unmap().WithZone("")
	bits := 32
	if address.Is6() {
		bits = 64
	}
	prefix, err := address.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return prefix
}

// put adds to a map of at most so many entries. A full one forgets half of them, whichever.
func put[K comparable, V any](m map[K]V, size int, key K, value V) {
	if len(m) >= size {
		for other := range m {
			if delete(m, other); len(m) <= size/2 {
				break
			}
		}
	}
	m[key] = value
}
