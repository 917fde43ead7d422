package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"prefire/internal/fakellm"
)

// held is what the process holds of sockets and files, where the system tells. Timers' descriptors go with their clock.
func held() (files []string) {
	open, _ := os.ReadDir("/proc/self/fd")
	for _, e := range open {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && !strings.Contains(to, "timerfd") {
			files = append(files, to)
		}
	}
	return files
}

// A run leaves no goroutine, connection or file behind, however it ended: people script many in one process.
func TestARunLeavesNothingBehind(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIP: -short leaves out what the full step runs")
	}
	for _, c := range []struct {
		name  string
		o     fakellm.Options
		flags []string
		stop  bool
	}{
		{"HTTP/1.1", fakellm.Options{TTFT: 5 * time.Millisecond, CloseAfter: 4}, []string{"--concurrency", "8", "--request-count", "40"}, false},
		{"TLS", fakellm.Options{TTFT: 5 * time.Millisecond, TLS: true}, []string{"--concurrency", "4", "--request-count", "12"}, false},
		{"h2c", fakellm.Options{TTFT: 5 * time.Millisecond, H2C: true, CloseAfter: 9}, []string{"--concurrency", "8", "--request-count", "40", "--http", "h2c", "--streams-per-connection", "3"}, false},
		{"cut by the grace", fakellm.Options{TTFT: time.Minute}, []string{"--concurrency", "5", "--benchmark-duration", "0.2", "--benchmark-grace-period", "0", "--no-prewarm"}, false},
		{"stopped in the prewarm", fakellm.Options{TTFT: time.Minute}, []string{"--concurrency", "5", "--request-count", "5"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			once := func() {
				s := serve(t, c.o)
				signals := make(chan os.Signal, 1)
				if c.stop {
					go func() {
						if err := s.WaitInFlight(t.Context(), 1); err != nil {
							t.Error(err)
						}
						signals <- os.Interrupt
					}()
				}
				p := <-start(signals, nil, profileArgs(s.URL(), t.TempDir(), c.flags...)...)
				if strings.Contains(p.stderr, "still open") {
					t.Error(p.stderr)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
			once() // what the process makes once stays
			before, files := goleak.IgnoreCurrent(), held()
			once()
			once()
			// A goroutine that has done its work and told so may not have returned yet: goleak looks again before it calls one left.
			if err := goleak.Find(before); err != nil {
				t.Error(err)
			}
			if f := held(); len(f) > len(files) {
				t.Errorf("after two more runs the files %q are held, %q before", f, files)
			}
		})
	}
}
