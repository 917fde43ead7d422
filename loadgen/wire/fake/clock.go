package fake

import (
	"context"
	"time"
)

// Clock is a wire.Clock over package time: real time in an ordinary test, virtual time in a synctest bubble.
type Clock struct{ epoch time.Time }

// NewClock begins a run's time now, at 1 ns.
func NewClock() *Clock { return &Clock{time.Now().Add(-1)} }

// Now is the time since the epoch, in ns.
func (c *Clock) Now() int64 { return int64(time.Since(c.epoch)) }

// Until blocks until at, or until ctx is done.
func (c *Clock) Until(ctx context.Context, at int64) error {
	d := time.Duration(at - c.Now())
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Wall converts to the wall clock.
func (c *Clock) Wall(at int64) time.Time { return c.epoch.Add(time.Duration(at)) }
