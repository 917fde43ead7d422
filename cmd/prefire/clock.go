package main

import (
	"context"
	"time"

	"prefire/loadgen/wire"
)

// realClock is the monotonic clock since the process's start of the run, with one anchor to the wall clock.
type realClock struct {
	epoch time.Time // has both readings
	alarm alarms
}

var _ wire.Clock = (*realClock)(nil)

// Nothing else of the program reads the machine's clock.
func newClock() *realClock { return &realClock{epoch: time.Now()} }

// fine is how long before its end a wait goes over to a clock that does not wake late. The runtime's timers are a millisecond late at most.
const fine = 5 * time.Millisecond

// Now is above 0 from the first call on: 0 means absent everywhere.
func (c *realClock) Now() int64 { return int64(time.Since(c.epoch)) + 1 }

func (c *realClock) Wall(at int64) time.Time { return c.epoch.Add(time.Duration(at - 1)) }

func (c *realClock) Until(ctx context.Context, at int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	left := time.Duration(at - c.Now())
	if left > 2*fine {
		// Thousands of sessions that think do so on the runtime's timers, which need no descriptor.
		if err := sleep(ctx, left-fine); err != nil {
			return err
		}
		left = time.Duration(at - c.Now())
	}
	if left <= 0 {
		return nil
	}
	return c.alarm.wait(ctx, left)
}
