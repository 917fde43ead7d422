package loadgen

import (
	"sync"
	"sync/atomic"
)

// Progress is the run as it stands, for a live view. All fields may be read at any time.
type Progress struct {
	Phase     atomic.Int32 // index of the phase that runs; -1 = prewarm
	Sent      atomic.Int64 // of this phase
	Returned  atomic.Int64
	Failed    atomic.Int64
	InFlight  atomic.Int64
	Draining  atomic.Bool
	PhaseFrom atomic.Int64 // start of the phase; 0 = not started
}

func (p *Progress) begin(phase int, at int64) {
	p.Sent.Store(0)
	p.Returned.Store(0)
	p.Failed.Store(0)
	p.Draining.Store(false)
	p.PhaseFrom.Store(at)
	p.Phase.Store(int32(phase))
}

// InFlight is the measured number of requests in flight over a phase.
type InFlight struct {
	Max  int64
	Mean float64 // time-weighted, from the phase's start to its end of sending
	// Waiting is how many of Mean were no load on the server: they waited on this side for a connection, a stream or their turn to be
	// written, or their answer had arrived whole and waited to be read.
	Waiting float64
}

// gauge measures how many requests are in flight, weighted by time.
type gauge struct {
	mu       sync.Mutex
	now, max int64
	last     int64   // time of the last change
	area     float64 // request-ns
	from     int64
	stopped  int64 // end of sending; the integral ends there
	waited   int64 // request-ns on this side
}

func (g *gauge) begin(at int64) { g.from, g.last = at, at }

func (g *gauge) add(at int64, d int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sum(at)
	g.now += d
	g.max = max(g.max, g.now)
}

// sum adds the area up to at. Workers take their time before they take the lock, so at may lie a little behind.
func (g *gauge) sum(at int64) {
	if g.stopped != 0 || at <= g.last {
		return
	}
	g.area += float64(g.now) * float64(at-g.last)
	g.last = at
}

// wait books that a request waited on this side.
func (g *gauge) wait(from, to int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stopped != 0 {
		to = min(to, g.stopped)
	}
	g.waited += max(to-from, 0)
}

func (g *gauge) stop(at int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sum(at)
	if g.stopped == 0 {
		g.stopped = at
	}
}

func (g *gauge) result() InFlight {
	g.mu.Lock()
	defer g.mu.Unlock()
	f := InFlight{Max: g.max}
	if span := g.last - g.from; span > 0 {
		f.Mean, f.Waiting = g.area/float64(span), float64(g.waited)/float64(span)
	}
	return f
}
