package cache

import (
	"container/list"
	"context"
	"sync"
	"time"
)

// Memory is a cache in this process, of so many values; the one that was not asked for the longest makes room.
type Memory struct {
	size int

	mu     sync.Mutex
	values map[Key]*list.Element
	recent *list.List // of *kept, the last one asked for in front
}

type kept struct {
	key   Key
	value []byte
	until time.Time
}

// NewMemory gives a cache of at most size values.
func NewMemory(size int) *Memory {
	return &Memory{size: size, values: map[Key]*list.Element{}, recent: list.New()}
}

// Get implements [Cache].
func (m *Memory) Get(_ context.Context, key Key) ([]byte, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	element, ok := m.values[key]
	if ok && time.Now().After(element.Value.(*kept).until) {
		m.drop(element)
		ok = false
	}
	if !ok {
		asked.WithLabelValues("memory", "miss").Inc()
		return nil, false
	}
	m.recent.MoveToFront(element)
	asked.WithLabelValues("memory", "hit").Inc()
	return element.Value.(*kept).value, true
}

// Put implements [Cache]. The value must not be changed afterwards.
func (m *Memory) Put(_ context.Context, key Key, value []byte, ttl time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if element, ok := m.values[key]; ok {
		m.drop(element)
	}
	m.values[key] = m.recent.PushFront(&kept{key, value, time.Now().Add(ttl)})
	if m.recent.Len() > m.size {
		m.drop(m.recent.Back())
	}
}

func (m *Memory) drop(element *list.Element) {
	delete(m.values, m.recent.Remove(element).(*kept).key)
}
