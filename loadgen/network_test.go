package loadgen_test

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"time"

	"prefire/internal/fakellm"
	"prefire/loadgen"
	"prefire/loadgen/wire"
	"prefire/loadgen/wire/fake"
	"prefire/loadgen/wire/portable"
)

// words1 counts one token a word, so that this test needs no vocabulary.
type words1 struct{}

func (words1) Count(text []byte) int {
	n := 0
	for i, c := range text {
		if c != ' ' && (i == 0 || text[i-1] == ' ') {
			n++
		}
	}
	return n
}

// slowNames finds every name at 127.0.0.1, after a while.
type slowNames struct {
	clock wire.Clock
	delay time.Duration
}

func (s slowNames) LookupNetIP(ctx context.Context, _, _ string) ([]netip.Addr, error) {
	err := s.clock.Until(ctx, s.clock.Now()+int64(s.delay))
	return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}, err
}

func TestSlowNamesAndConnectsAreInTheRecordsOfTheConnectionsTheyHit(t *testing.T) {
	const names, connects = 40 * time.Millisecond, 30 * time.Millisecond
	clock := fake.NewClock()
	s, err := fakellm.New(fakellm.Options{Clock: clock, Counter: words1{}, CloseAfter: 3, KeepLog: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context(), "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	_, port, err := net.SplitHostPort(s.URL()[len("http://"):])
	if err != nil {
		t.Fatal(err)
	}
	ph := profiling(1)
	ph.Requests = 9
	r := newRig(t, nil, ph)
	r.plan.Targets[0].Wire = &wire.Target{Scheme: "http", Host: "model.test:" + port, Addr: "model.test:" + port, Path: "/v1/chat/completions",
		Header: []wire.Field{{Name: "Content-Type", Value: "application/json"}}}
	transport := portable.New(portable.Options{
		Clock: clock, Resolver: slowNames{clock, names},
		Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if err := clock.Until(ctx, clock.Now()+int64(connects)); err != nil {
				return nil, err
			}
			return new(net.Dialer).DialContext(ctx, network, addr)
		},
	})
	r.deps.Clock, r.deps.Transport, r.deps.Endpoint = clock, transport, chatOf{words{}}
	if _, err := loadgen.Run(t.Context(), &r.plan, r.deps); err != nil {
		t.Fatal(err)
	}
	if err := transport.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	entries, err := s.Wait(t.Context(), 9)
	if err != nil {
		t.Fatal(err)
	}
	newConnection := map[string]bool{} // by X-Request-ID: a connection was opened for it
	known := map[int64]bool{}
	for _, e := range entries {
		if e.Method == "POST" {
			newConnection[e.XRequestID] = !known[e.Connection]
			known[e.Connection] = true
		}
	}
	dialled := 0
	for _, rec := range r.sink.records {
		if rec.Err != nil {
			t.Fatalf("request %d failed: %v", rec.Seq, *rec.Err)
		}
		h := rec.HTTP
		if want := newConnection[rec.RequestID]; h.Reused == want {
			t.Errorf("request %d: reused %v; the server saw a new connection: %v", rec.Seq, h.Reused, want)
		}
		if h.Reused {
			if h.DNSStart|h.DNSEnd|h.DialStart|h.DialEnd != 0 {
				t.Errorf("request %d reused its connection and has its dial's stamps: %+v", rec.Seq, h)
			}
			continue
		}
		dialled++
		if dns, dial := h.DNSEnd-h.DNSStart, h.DialEnd-h.DialStart; dns < int64(names) || dial < int64(connects) {
			t.Errorf("request %d: %d ns for the name and %d for the connection; want %v and %v at least", rec.Seq, dns, dial, names, connects)
		}
		if ttft := rec.First - rec.Start; rec.Start != rec.Ready || ttft < int64(names+connects) {
			t.Errorf("request %d: started at %d, ready at %d, TTFT %d; want the wait for the connection in it", rec.Seq, rec.Start, rec.Ready, ttft)
		}
	}
	if dialled != 3 {
		t.Errorf("%d of 9 requests dialled, want 3", dialled)
	}
}

// chatOf sends bodies that the fake server understands.
type chatOf struct{ words }

func (chatOf) Answers(*loadgen.Turn) int { return 1 }

func (chatOf) AppendBody(dst []byte, t *loadgen.Turn, _ []loadgen.Message) ([]byte, error) {
	return append(append(append(dst, `{"model":"m","stream":true,"max_tokens":2,"messages":[{"role":"user","content":"`...), t.Messages[0].Content...), `"}]}`...), nil
}
