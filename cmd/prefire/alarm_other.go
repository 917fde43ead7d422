//go:build !linux

package main

import (
	"context"
	"time"
)

// alarms waits by the runtime's timers where there is no timerfd.
type alarms struct{}

func (*alarms) wait(ctx context.Context, d time.Duration) error { return sleep(ctx, d) }
