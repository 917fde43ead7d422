package pooling

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"prefire/loadgen/wire"
)

func TestMissing(t *testing.T) {
	for _, c := range []struct{ have, keep, own, want int }{
		{0, 0, 0, 0}, {0, 5, 0, 5}, {3, 5, 1, 2}, {5, 5, 0, 0}, {7, 5, 0, 0}, {0, 500, 0, 64}, {60, 500, 60, 4}, {60, 500, 70, 0},
	} {
		if got := Missing(c.have, c.keep, c.own); got != c.want {
			t.Errorf("%d of %d, %d under way: %d to dial, want %d", c.have, c.keep, c.own, got, c.want)
		}
	}
}

func TestKeep(t *testing.T) {
	const now = int64(time.Minute)
	long, short := now-int64(IdleProbe), now-int64(IdleProbe)+1
	for _, c := range []struct {
		idle        []int64 // when each was used last
		spare, room int
		again       []int64
	}{
		{nil, 0, 9, nil},
		{[]int64{long, short}, 0, 9, []int64{long}},
		{[]int64{long - 1, long, short}, 1, 9, []int64{long}},
		{[]int64{long - 2, long - 1, long}, 0, 2, []int64{long - 2, long - 1}},
		{[]int64{long, long}, 0, 0, nil},
	} {
		stay, again := Keep(slices.Clone(c.idle), func(at int64) int64 { return at }, now, c.spare, c.room, &Upkeep{Kept: len(c.idle)})
		both := slices.Sorted(slices.Values(slices.Concat(stay, again)))
		if !slices.Equal(again, c.again) || !slices.Equal(both, c.idle) {
			t.Errorf("%v, %d spare, room for %d: %v stay and %v are probed, want %v probed", c.idle, c.spare, c.room, stay, again, c.again)
		}
	}
}

// Spares are looked after for one in twenty requests; what the sessions or the busiest moment need is looked after always.
func TestUpkeep(t *testing.T) {
	const now = int64(time.Minute)
	idle := make([]int64, 10) // all idle for long
	var u Upkeep
	for range 3 {
		u.Take(1)
	}
	u.Give(3)
	probed := func() int {
		_, again := Keep(slices.Clone(idle), func(at int64) int64 { return at }, now, 0, OpenAtOnce, &u)
		return len(again)
	}
	if n := probed(); n != 3 {
		t.Errorf("after three requests at once, %d of 10 idle connections are probed, want 3", n)
	}
	for range 37 {
		u.Take(1)
		u.Give(1)
	}
	if n := probed(); n != 5 {
		t.Errorf("after 40 requests, %d are probed, want 3 and 2 spares", n)
	}
	if n := probed(); n != 3 {
		t.Errorf("the next time %d are probed, want 3: the credit is spent", n)
	}
	u.Kept = 6
	if n := probed(); n != 6 {
		t.Errorf("where the plan needs 6, %d are probed", n)
	}
	if n := u.Dials(8, 2); n != 4 {
		t.Errorf("%d of 8 missing are dialled beside 2, want 4", n)
	}
	for range 100_000 {
		u.Take(0)
	}
	if n := u.Spare(1000); n != OpenAtOnce {
		t.Errorf("credit for %d spares, want at most %d", n, OpenAtOnce)
	}
}

func TestAttempts(t *testing.T) {
	call := &wire.Call{Target: &wire.Target{}}
	call.Begin(10)
	f := &call.Facts
	var a Attempts
	a.Assign(call, 15, wire.ConnFacts{ID: 3}, 2, Unused(1))
	if f.Acquired != 15 || f.Conn.ID != 3 || f.ConnUse != 2 || f.Cold != 0 || !f.Reused || f.Queued != 0 {
		t.Errorf("on a used connection: %+v", *f)
	}
	if !Caught(f, int64(time.Hour)) {
		t.Error("a request whose connection ended before its first write is not sent again")
	}
	f.FirstWrite, f.LastWrite, f.Sent = 20, 30, 7
	for _, c := range []struct {
		use  uint32
		now  int64
		want bool
	}{{1, 21, false}, {2, 21, true}, {2, 20 + int64(time.Second) - 1, true}, {2, 20 + int64(time.Second), false}} {
		if f.ConnUse = c.use; Caught(f, c.now) != c.want {
			t.Errorf("use %d lost at %d: caught %v", c.use, c.now, !c.want)
		}
	}
	if !a.Again(call) || f.Attempts != 2 || f.Cold != wire.Resent || f.FirstWrite != 0 || f.LastWrite != 0 || f.Sent != 0 {
		t.Errorf("sent again: %+v", *f)
	}
	a.Queued = true
	a.Assign(call, 40, wire.ConnFacts{ID: 4}, 1, wire.Dialled)
	if f.Cold != wire.Resent|wire.Dialled || f.Reused || f.Queued != 30 {
		t.Errorf("on a dialled connection: %+v", *f)
	}
	if a.Again(call) {
		t.Error("a request is sent a third time")
	}
	single := &wire.Call{Target: &wire.Target{}, Lease: wire.Single}
	single.Begin(10)
	var own Attempts
	own.Assign(single, 40, wire.ConnFacts{ID: 5}, 1, wire.Dialled)
	if f := &single.Facts; f.Cold != 0 || f.Reused {
		t.Errorf("on a connection that it asked to be dialled: %+v", *f)
	}
	if Unused(0) != wire.FirstUse {
		t.Error("the first use of a ready connection is not cold")
	}
}

func TestWritten(t *testing.T) {
	for _, c := range []struct {
		last, head int64
		writes     int
		want       int64
	}{{20, 15, 1, 15}, {20, 15, 2, 20}, {20, 0, 1, 20}, {0, 15, 1, 0}, {10, 15, 1, 10}} {
		f := wire.Facts{LastWrite: c.last, HeadAt: c.head}
		if Written(&f, c.writes); f.LastWrite != c.want {
			t.Errorf("%+v: %d", c, f.LastWrite)
		}
	}
}

func TestLine(t *testing.T) {
	target := &wire.Target{Path: "/v1"}
	for _, c := range []struct {
		call         *wire.Call
		method, path string
	}{{&wire.Call{}, "POST", "/v1"}, {&wire.Call{Method: "GET", Path: "/x"}, "GET", "/x"}} {
		c.call.Target = target
		if method, path := Line(c.call); method != c.method || path != c.path {
			t.Errorf("%s %s, want %s %s", method, path, c.method, c.path)
		}
	}
}

// The addresses are tried in order up to the first that answers; all but the last have a time of their own; nothing is tried after the end.
func TestDialAny(t *testing.T) {
	addrs := []netip.Addr{netip.MustParseAddr("::ffff:10.0.0.1"), netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("::3")}
	refused := errors.New("refused")
	for _, c := range []struct {
		good  int // which answers
		stop  int // during which the context ends
		tried []string
	}{
		{0, -1, []string{"10.0.0.1:80 limited"}},
		{2, -1, []string{"10.0.0.1:80 limited", "10.0.0.2:80 limited", "[::3]:80"}},
		{9, -1, []string{"10.0.0.1:80 limited", "10.0.0.2:80 limited", "[::3]:80"}},
		{9, 1, []string{"10.0.0.1:80 limited", "10.0.0.2:80 limited"}},
	} {
		ctx, cancel := context.WithCancel(context.Background())
		var tried []string
		end, other := net.Pipe()
		nc, last, err := DialAny(ctx, func(limit context.Context, _, addr string) (net.Conn, error) {
			i := len(tried)
			if _, limited := limit.Deadline(); limited {
				addr += " limited"
			}
			tried = append(tried, addr)
			if i == c.stop {
				cancel()
			}
			if i == c.good {
				return end, nil
			}
			return nil, refused
		}, addrs, "80")
		good := c.good < len(addrs)
		if !slices.Equal(tried, c.tried) || (nc == end) != good || (err == refused) == good || last != addrs[len(tried)-1] {
			t.Errorf("tried %q, want %q; %v, %v, %v", tried, c.tried, nc, last, err)
		}
		cancel()
		end.Close()
		other.Close()
	}
}

type names func() ([]netip.Addr, error)

func (f names) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) { return f() }

func TestLookup(t *testing.T) {
	one := []netip.Addr{netip.MustParseAddr("10.0.0.1")}
	if got, e := Lookup(t.Context(), names(func() ([]netip.Addr, error) { return one, nil }), "a.test", "80"); e != nil || !slices.Equal(got, one) {
		t.Errorf("%v, %v", got, e)
	}
	want := "ClientConnectorDNSError: Cannot connect to host a.test:80 ssl:default [the name a.test does not resolve: no addresses]"
	if _, e := Lookup(t.Context(), names(func() ([]netip.Addr, error) { return nil, nil }), "a.test", "80"); e == nil || e.Error() != want {
		t.Errorf("%v, want %s", e, want)
	}
}

// silent is a resolver that never answers.
type silent struct{}

func (silent) LookupNetIP(ctx context.Context, _, _ string) ([]netip.Addr, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestALookupEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		_, e := Lookup(t.Context(), silent{}, "h.invalid", "80")
		if want := "Cannot connect to host h.invalid:80 ssl:default [the name h.invalid does not resolve: no answer from the resolver within 30s]"; time.Since(began) != LookupWait ||
			e == nil || e.Type != "ClientConnectorDNSError" || e.Message != want {
			t.Errorf("after %v: %+v, want %q", time.Since(began), e, want)
		}
	})
}
