package fakellm

import (
	"container/heap"
	"context"
	"math"
	"sync"
	"time"

	"prefire/loadgen/wire"
)

// alarm wakes many waiters at their times through one goroutine, so that thousands of streams cost one wait on the clock at a time.
type alarm struct {
	clock wire.Clock
	grain int64 // ns that a wait lasts at least, so that it serves all who are due by then
	nap   *nap  // waits in place of the clock; nil = none. It is the goroutine's, and others' under mu

	mu      sync.Mutex
	due     dueHeap
	until   int64              // what the goroutine waits for; 0 = it is awake, never = it waits for a waiter
	sooner  context.Context    // of its wait
	earlier context.CancelFunc // ends that wait
}

const never = math.MaxInt64

// waiter is what an alarm wakes.
type waiter struct {
	at    int64
	index int // in the heap; -1 = not in it
	// step is run by the alarm's goroutine each time the waiter is due. It does not block, and returns when it is due again; 0 = no more.
	step  func() int64 // nil: it is due once
	ended bool         // it is not to be due again
	over  chan struct{}
}

func newWaiter(step func() int64) *waiter {
	return &waiter{index: -1, step: step, over: make(chan struct{}, 1)}
}

func newAlarm(c wire.Clock, grain int64) *alarm { return &alarm{clock: c, grain: grain} }

// wait blocks until at, or until ctx is done and returns its error.
func (a *alarm) wait(ctx context.Context, at int64) error {
	if err := ctx.Err(); err != nil || a.clock.Now() >= at {
		return err
	}
	return a.serve(ctx, newWaiter(nil), at)
}

// serve makes w due at a time, and blocks until it is due no more, or until ctx is done and returns its error. Then w's step does not run
// any more.
func (a *alarm) serve(ctx context.Context, w *waiter, at int64) error {
	a.mu.Lock()
	w.at = at
	heap.Push(&a.due, w)
	if at < a.until-a.grain {
		a.hurry()
	}
	a.mu.Unlock()
	select {
	case <-w.over:
		return nil
	case <-ctx.Done():
	}
	a.mu.Lock()
	w.ended = true
	stepping := w.index < 0
	if !stepping {
		heap.Remove(&a.due, w.index)
	}
	a.mu.Unlock()
	if stepping {
		<-w.over
	}
	return ctx.Err()
}

// hurry ends the goroutine's wait. a.mu is held.
func (a *alarm) hurry() {
	if a.nap != nil && a.until != never {
		a.nap.end()
		return
	}
	a.earlier()
}

// run wakes waiters until ctx is done.
func (a *alarm) run(ctx context.Context) {
	if a.nap != nil {
		context.AfterFunc(ctx, a.stir)
		defer a.stop()
	}
	for ctx.Err() == nil {
		w, wait, until := a.next(ctx)
		switch {
		case w != nil:
			a.wake(w)
		case until == never:
			<-wait.Done()
		case a.nap != nil:
			a.nap.take(time.Duration(until - a.clock.Now()))
		default:
			// An error means that an earlier waiter came or that the server is closing; the loop looks at both.
			_ = a.clock.Until(wait, until)
		}
	}
}

// stir ends the nap when the alarm is to end.
func (a *alarm) stir() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.nap != nil {
		a.nap.end()
	}
}

// stop closes the nap, and lets nobody end it any more.
func (a *alarm) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.nap.close()
	a.nap, a.until = nil, 0
}

// next takes out the next waiter that is due. Where there is none, it returns what is to be waited for.
func (a *alarm) next(ctx context.Context) (w *waiter, wait context.Context, until int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.clock.Now()
	a.until = never
	if len(a.due) > 0 {
		if a.due[0].at <= now {
			a.until = 0
			return heap.Pop(&a.due).(*waiter), nil, 0
		}
		a.until = max(a.due[0].at, now+a.grain)
	}
	if a.sooner == nil || a.sooner.Err() != nil {
		a.sooner, a.earlier = context.WithCancel(ctx)
	}
	return nil, a.sooner, a.until
}

func (a *alarm) wake(w *waiter) {
	at := int64(0)
	if w.step != nil {
		at = w.step()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if at == 0 || w.ended {
		w.ended = true
		w.over <- struct{}{}
		return
	}
	w.at = at
	heap.Push(&a.due, w)
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
