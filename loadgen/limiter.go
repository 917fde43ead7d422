package loadgen

import (
	"context"
	"math"
	"slices"
	"sync"
)

// unlimited as a limiter's limit is none.
const unlimited = math.MaxInt

// limiter gives out places, first come first served. Its limit may change: where it falls below what is out, places are missing until enough
// have come back. It never blocks but in acquire.
type limiter struct {
	mu    sync.Mutex
	limit int
	out   int
	queue []chan struct{} // each has room for its one message
}

// try takes a place if one is free and nobody waits for it.
func (l *limiter) try() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.out >= l.limit || len(l.queue) > 0 {
		return false
	}
	l.out++
	return true
}

// acquire takes a place, or waits for one until ctx is done.
func (l *limiter) acquire(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if l.try() {
		return nil
	}
	l.mu.Lock()
	turn := make(chan struct{}, 1)
	l.queue = append(l.queue, turn)
	l.serve()
	l.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.queue, turn); i >= 0 {
		l.queue = slices.Delete(l.queue, i, i+1)
	} else { // the place came at the same moment
		l.out--
		l.serve()
	}
	return ctx.Err()
}

func (l *limiter) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.out--
	l.serve()
}

func (l *limiter) resize(limit int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limit = limit
	l.serve()
}

// serve gives free places to those who wait; mu is held.
func (l *limiter) serve() {
	n := 0
	for ; n < len(l.queue) && l.out < l.limit; n++ {
		l.out++
		l.queue[n] <- struct{}{}
	}
	l.queue = slices.Delete(l.queue, 0, n)
}
