package fakellm

import (
	"container/heap"
	"context"
	"sync"

	"prefire/loadgen/wire"
)

// alarm wakes many waiters at their times through one goroutine, so that thousands of streams cost one wait on the clock at a time.
type alarm struct {
	clock wire.Clock
	kick  chan struct{} // capacity 1: a waiter came while the goroutine had nothing to wait for

	mu      sync.Mutex
	due     dueHeap
	until   int64              // what the goroutine waits for; 0 = nothing
	earlier context.CancelFunc // ends that wait
}

type waiter struct {
	at    int64
	index int // in the heap; -1 = taken out
	fired chan struct{}
}

func newAlarm(c wire.Clock) *alarm { return &alarm{clock: c, kick: make(chan struct{}, 1)} }

// wait blocks until at, or until ctx is done and returns its error.
func (a *alarm) wait(ctx context.Context, at int64) error {
	if err := ctx.Err(); err != nil || a.clock.Now() >= at {
		return err
	}
	w := &waiter{at: at, fired: make(chan struct{}, 1)}
	a.mu.Lock()
	heap.Push(&a.due, w)
	switch {
	case a.until == 0:
		select {
		case a.kick <- struct{}{}:
		default:
		}
	case at < a.until:
		a.earlier()
	}
	a.mu.Unlock()
	select {
	case <-w.fired:
		return nil
	case <-ctx.Done():
		a.mu.Lock()
		if w.index >= 0 {
			heap.Remove(&a.due, w.index)
		}
		a.mu.Unlock()
		return ctx.Err()
	}
}

// run wakes waiters until ctx is done.
func (a *alarm) run(ctx context.Context) {
	for ctx.Err() == nil {
		next, stop := a.fire(ctx)
		if next == nil {
			select {
			case <-a.kick:
			case <-ctx.Done():
			}
			continue
		}
		// An error means that an earlier waiter came or that the server is closing; the loop looks at both.
		_ = a.clock.Until(next, a.next())
		stop()
	}
}

// fire wakes all that are due, and returns the context of the wait for the next; nil where there is none.
func (a *alarm) fire(ctx context.Context) (context.Context, context.CancelFunc) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.clock.Now()
	for len(a.due) > 0 && a.due[0].at <= now {
		heap.Pop(&a.due).(*waiter).fired <- struct{}{}
	}
	a.until = 0
	if len(a.due) == 0 {
		return nil, nil
	}
	a.until = a.due[0].at
	ctx, a.earlier = context.WithCancel(ctx)
	return ctx, a.earlier
}

func (a *alarm) next() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.until
}

type dueHeap []*waiter

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].at < h[j].at }
func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}
func (h *dueHeap) Push(x any) {
	w := x.(*waiter)
	w.index = len(*h)
	*h = append(*h, w)
}
func (h *dueHeap) Pop() any {
	old := *h
	w := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	w.index = -1
	return w
}
