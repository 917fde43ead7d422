package main

import (
	"context"
	"errors"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"
)

func TestUntilReturnsNotBeforeItsTime(t *testing.T) {
	c := newClock()
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			for j := range 3 {
				at := c.Now() + int64(i+j)*int64(time.Millisecond)
				if err := c.Until(context.Background(), at); err != nil {
					t.Error(err)
				}
				if now := c.Now(); now < at {
					t.Errorf("woke %d ns early", at-now)
				}
			}
		})
	}
	wg.Wait()
}

// Sessions that think hold no descriptors.
func TestLongWaitsHoldNoDescriptors(t *testing.T) {
	open := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skipf("SKIP: this system does not say which descriptors are open: %v", err)
		}
		return len(entries)
	}
	c := newClock()
	before := open()
	ctx, cancel := context.WithCancel(context.Background())
	var wg, begun sync.WaitGroup
	begun.Add(200)
	for range 200 {
		wg.Go(func() {
			begun.Done()
			if err := c.Until(ctx, c.Now()+int64(time.Hour)); !errors.Is(err, context.Canceled) {
				t.Errorf("Until = %v, want context.Canceled", err)
			}
		})
	}
	begun.Wait()
	for range 2000 { // until they have come to their waits
		runtime.Gosched()
	}
	if n := open() - before; n > 20 {
		t.Errorf("200 waits hold %d descriptors", n)
	}
	cancel()
	wg.Wait()
}

func TestUntilEndsWithItsContext(t *testing.T) {
	c := newClock()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- c.Until(ctx, c.Now()+int64(time.Hour)) }()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Until = %v, want context.Canceled", err)
	}
	if err := c.Until(context.Background(), c.Now()-1); err != nil {
		t.Errorf("a time that has passed: %v", err)
	}
	if c.Until(ctx, c.Now()-1) == nil {
		t.Error("a context that is done gives no error")
	}
}

func TestNowAndWallAgree(t *testing.T) {
	c := newClock()
	if c.Now() <= 0 {
		t.Error("Now is not above 0")
	}
	if got := c.Wall(1); !got.Equal(c.epoch) {
		t.Errorf("Wall(1) = %v, want the epoch %v", got, c.epoch)
	}
}
