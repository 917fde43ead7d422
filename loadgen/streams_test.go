package loadgen_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"prefire/loadgen"
	"prefire/loadgen/wire"
	"prefire/loadgen/wire/fake"
)

// Requests that wait on this side for a stream are not in flight: there must be a connection for them.
func TestEnoughConnectionsAreOpenedForTheStreamsThatTheServerAllows(t *testing.T) {
	for _, c := range []struct {
		name              string
		protocol          string
		plan, server      int // requests that may share a connection
		concurrency, want int
	}{
		{"the plan's own number", "HTTP/2", 16, 16, 40, 3},
		{"the server allows less", "HTTP/2", 16, 3, 10, 4},
		{"the server allows one", "HTTP/2", 16, 1, 10, 10},
		{"the server's limit is not known", "HTTP/2", 16, 0, 40, 3},
		{"HTTP/1.1", "HTTP/1.1", 16, 0, 10, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ph := profiling(c.concurrency)
				ph.Requests = 100
				r := newRig(t, nil, ph)
				opened := 0
				r.wire = fake.New(fake.Options{Clock: r.clock, Script: steady(time.Millisecond, 0),
					Open: func(_ context.Context, _ *wire.Target, n int, _ wire.Probe) ([]wire.ConnFacts, error) {
						opened += n
						facts := make([]wire.ConnFacts, n)
						for i := range facts {
							facts[i].Protocol, facts[i].Streams = c.protocol, c.server
						}
						return facts, nil
					}})
				r.deps.Transport = r.wire
				r.plan.Streams = c.plan
				r.plan.Prewarm = loadgen.Prewarm{On: true, MaxTokens: 8}
				r.run(t.Context())
				if opened != c.want {
					t.Errorf("%d connections for %d sessions, want %d", opened, c.concurrency, c.want)
				}
			})
		})
	}
}
