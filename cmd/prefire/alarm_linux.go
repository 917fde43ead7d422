package main

import (
	"context"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// alarms waits by timerfd in Go's poller: the runtime's own timers wake up to a millisecond late on an idle machine, a timerfd within
// some tens of microseconds.
type alarms struct {
	mu   sync.Mutex
	idle []*os.File
}

// wait blocks for d or until ctx is done.
func (a *alarms) wait(ctx context.Context, d time.Duration) error {
	f, err := a.take()
	if err != nil {
		return sleep(ctx, d) // no descriptor left: late is better than not at all
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return sleep(ctx, d)
	}
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}
	var set error
	if err := raw.Control(func(fd uintptr) { set = unix.TimerfdSettime(int(fd), 0, &spec, nil) }); err != nil || set != nil {
		_ = f.Close()
		return sleep(ctx, d)
	}
	cancelled := make(chan struct{})
	unhook := context.AfterFunc(ctx, func() {
		_ = f.SetReadDeadline(time.Unix(1, 0))
		close(cancelled)
	})
	var expirations [8]byte
	_, err = f.Read(expirations[:])
	if !unhook() {
		<-cancelled // the deadline is set, not about to be
	}
	if err != nil {
		_ = f.Close()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return err
	}
	_ = f.SetReadDeadline(time.Time{})
	a.mu.Lock()
	a.idle = append(a.idle, f)
	a.mu.Unlock()
	return nil
}

func (a *alarms) take() (*os.File, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n := len(a.idle); n > 0 {
		f := a.idle[n-1]
		a.idle = a.idle[:n-1]
		return f, nil
	}
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "timerfd"), nil
}
