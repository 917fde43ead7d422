package fakellm

import (
	"context"
	"slices"
	"sync"

	"prefire/loadgen/wire"
)

// load counts inferences in flight and hands out slots, first come first served.
type load struct {
	clock wire.Clock
	slots int // 0 = no limit

	mu       sync.Mutex
	inFlight int
	max      int
	running  int
	queue    []*ticket
	entered  chan struct{} // closed, and made anew, when an inference enters
}

// ticket is one inference's place. Its fields are the load's until granted is closed.
type ticket struct {
	granted   chan struct{}
	grantedAt int64
	running   bool
	waited    bool // it did not get its slot at once
	gone      bool
}

func (l *load) init(slots int, c wire.Clock) {
	l.slots, l.clock, l.entered = slots, c, make(chan struct{})
}

// enter counts an inference in and asks for a slot. refuse says to turn it away where there is none; it then returns nil. inFlight counts
// the new one, most is the greatest count so far.
func (l *load) enter(refuse bool) (t *ticket, inFlight, most int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	free := l.slots == 0 || l.running < l.slots
	if !free && refuse {
		return nil, l.inFlight, l.max
	}
	l.inFlight++
	l.max = max(l.max, l.inFlight)
	close(l.entered)
	l.entered = make(chan struct{})
	t = &ticket{granted: make(chan struct{})}
	if free {
		l.grant(t)
	} else {
		t.waited = true
		l.queue = append(l.queue, t)
	}
	return t, l.inFlight, l.max
}

func (l *load) grant(t *ticket) {
	l.running++
	t.running, t.grantedAt = true, l.clock.Now()
	close(t.granted)
}

// await blocks until t has its slot, and returns when that was.
func (l *load) await(ctx context.Context, t *ticket) (int64, error) {
	select {
	case <-t.granted:
		return t.grantedAt, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// leave takes t out, and gives its slot to the next in the queue. Only the first call for a ticket counts.
func (l *load) leave(t *ticket) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.gone {
		return
	}
	t.gone = true
	l.inFlight--
	if !t.running {
		l.queue = slices.DeleteFunc(l.queue, func(q *ticket) bool { return q == t })
		return
	}
	l.running--
	if len(l.queue) > 0 {
		next := l.queue[0]
		l.queue = l.queue[1:]
		l.grant(next)
	}
}

func (l *load) current() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.inFlight
}

func (l *load) peak() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.max
}

// reach blocks until n inferences have been in flight at once.
func (l *load) reach(ctx context.Context, n int) error {
	for {
		l.mu.Lock()
		most, entered := l.max, l.entered
		l.mu.Unlock()
		if most >= n {
			return nil
		}
		select {
		case <-entered:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// counts are the numbers of running and of waiting inferences.
func (l *load) counts() (running, waiting int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.running, len(l.queue)
}
