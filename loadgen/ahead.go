package loadgen

import (
	"context"
	"sync"
	"sync/atomic"
)

const (
	// spareConnections is how many ready connections there are at least beyond those in use, where arrivals do not wait for answers.
	spareConnections = 8
	// spareRetry is the pause after a connection could not be made ready ahead of need, in ns.
	spareRetry = 1_000_000_000
)

// ahead keeps connections ready ahead of need: as many as are in use and spareConnections more, or twice the largest rise in their number
// that it has seen while it was making some ready.
type ahead struct {
	r       *run
	targets []aheadTarget
	ctx     context.Context
	cancel  context.CancelFunc
	work    sync.WaitGroup
}

type aheadTarget struct {
	use  atomic.Int64 // requests in flight
	have atomic.Int64 // requests that the connections made ready so far can carry
	wake chan struct{}
	need atomic.Int64 // beyond use
	per  int64        // requests a connection
}

// newAhead makes one that does nothing until start.
func newAhead(r *run) *ahead {
	a := &ahead{r: r, targets: make([]aheadTarget, len(r.plan.Targets))}
	a.ctx, a.cancel = context.WithCancel(context.Background())
	return a
}

// start begins to look after a target's connections: have are ready, and each carries per requests at once.
func (a *ahead) start(target, have, per int) {
	t := &a.targets[target]
	t.have.Store(int64(have * per))
	t.need.Store(spareConnections)
	t.per, t.wake = int64(per), make(chan struct{}, 1)
	a.work.Go(func() { a.keep(t, &a.r.plan.Targets[target]) })
}

func (a *ahead) stop() {
	a.cancel()
	a.work.Wait()
}

// up is told of a request that is about to be sent.
func (a *ahead) up(target int) {
	t := &a.targets[target]
	if t.use.Add(1)+t.need.Load() > t.have.Load() && t.wake != nil {
		select {
		case t.wake <- struct{}{}:
		default:
		}
	}
}

func (a *ahead) down(target int) { a.targets[target].use.Add(-1) }

func (a *ahead) keep(t *aheadTarget, target *Target) {
	for {
		select {
		case <-a.ctx.Done():
			return
		case <-t.wake:
		}
		before := t.use.Load()
		missing := before + t.need.Load() - t.have.Load()
		if missing <= 0 {
			continue
		}
		n := (missing + t.per - 1) / t.per
		if _, err := a.r.Transport.Open(a.ctx, target.Wire, int(n), a.r.probe(target, true)); err != nil {
			if a.r.Clock.Until(a.ctx, a.r.Clock.Now()+spareRetry) != nil {
				return
			}
			continue
		}
		t.have.Add(n * t.per)
		t.need.Store(max(t.need.Load(), 2*(t.use.Load()-before)))
	}
}
