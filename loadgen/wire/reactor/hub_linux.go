//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package reactor

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"prefire/loadgen/wire"
)

// hub is what the loops of a transport share: which there are, and how many ready connections each has. It is asked once a request, by
// whoever starts it, and takes no part in what a chunk costs.
type hub struct {
	o      Options
	most   int // loops there may be
	lastID atomic.Uint64
	list   atomic.Pointer[[]*loop]
	free   sync.Map // *wire.Target → seats

	mu     sync.Mutex
	closed bool
	homes  map[wire.ConnID]*loop // of the open connections, where there may be several loops
}

// seats are, by loop, the ready connections to a target that no request has been promised. They fall below 0 for the moment in which a
// promise cannot be kept.
type seats []atomic.Int64

func newHub(o Options) *hub {
	// A loop takes a core where it is busy, and those who make requests and records of answers need one too.
	h := &hub{o: o, most: max(o.Loops, runtime.GOMAXPROCS(0)-1, 1), homes: map[wire.ConnID]*loop{}}
	h.list.Store(new([]*loop))
	return h
}

// loops are all there are, the first first.
func (h *hub) loops() []*loop { return *h.list.Load() }

// grow adds a loop, where there may be one more.
func (h *hub) grow() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	before := h.loops()
	if h.closed || len(before) >= h.most {
		return nil
	}
	l, err := newLoop(h, len(before))
	if err != nil {
		return err
	}
	now := append(slices.Clip(before), l)
	h.list.Store(&now)
	go l.run()
	return nil
}

// seats of a target.
func (h *hub) seats(target *wire.Target) seats {
	if s, ok := h.free.Load(target); ok {
		return s.(seats)
	}
	s, _ := h.free.LoadOrStore(target, make(seats, h.most))
	return s.(seats)
}

// take promises one of the loop's ready connections.
func (s seats) take(l *loop) bool {
	for n := s[l.index].Load(); n > 0; n = s[l.index].Load() {
		if s[l.index].CompareAndSwap(n, n-1) {
			return true
		}
	}
	return false
}

// choose finds the loop for a call: that of the connection it asks for, else the one with the least to do of those that have a ready
// connection, else the one with the least to do. seat says that the loop has promised one.
func (h *hub) choose(c *wire.Call) (l *loop, seat bool) {
	loops := h.loops()
	if len(loops) == 1 {
		return loops[0], false
	}
	if c.Lease == wire.Single {
		return lightest(loops), false
	}
	if c.Conn != 0 {
		h.mu.Lock()
		home := h.homes[c.Conn]
		h.mu.Unlock()
		if home != nil && c.Lease != wire.Pooled {
			return home, false // a connection that is held is promised to nobody
		}
		if home != nil && h.seats(c.Target).take(home) {
			return home, true
		}
	}
	if l := h.promised(c.Target, nil); l != nil {
		return l, true
	}
	return lightest(loops), false
}

// promised is the loop with the least to do of those that have a ready connection, which it promises; but is not asked. nil = none has.
func (h *hub) promised(target *wire.Target, but *loop) *loop {
	free := h.seats(target)
	for {
		var best *loop
		for _, l := range h.loops() {
			if l != but && free[l.index].Load() > 0 && (best == nil || l.flight.Load() < best.flight.Load()) {
				best = l
			}
		}
		if best == nil || free.take(best) {
			return best
		}
	}
}

func lightest(loops []*loop) *loop {
	return slices.MinFunc(loops, func(a, b *loop) int { return int(a.flight.Load() - b.flight.Load()) })
}

// lighter is a loop that has so much less to do than l that a connection should move to it; nil = none.
func (h *hub) lighter(l *loop) *loop {
	loops := h.loops()
	if len(loops) == 1 {
		return nil
	}
	to, own := lightest(loops), l.flight.Load()
	if to.flight.Load()+max(own/8, minImbalance) > own {
		return nil
	}
	return to
}

// settle says where a connection is.
func (h *hub) settle(id wire.ConnID, l *loop) {
	if h.most == 1 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.homes[id] = l
}

// leave says that a connection is no more.
func (h *hub) leave(id wire.ConnID) {
	if h.most == 1 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.homes, id)
}

// start gives a call to a loop. seat is its promise; hops is how often the call was passed on.
func (h *hub) start(l *loop, c *wire.Call, gen uint32, seat bool, hops int) {
	l.flight.Add(1)
	if l.post(op{kind: opStart, call: c, gen: gen, seat: seat, hops: hops}) {
		return
	}
	l.flight.Add(-1)
	go l.refuse(c)
}

// cancel has the loops look for a call, one after the other. A call can be passed on twice before it is under way, so that it may be in a
// loop's list only after that loop was asked: all are asked three times.
func (h *hub) cancel(o op) {
	loops := h.loops()
	if o.hops < 3*len(loops) {
		next := loops[o.hops%len(loops)]
		o.hops++
		next.post(o) // a loop that has ended has no calls, nor have the others
	}
}
