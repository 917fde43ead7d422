package wiretest

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"prefire/loadgen/wire"
)

// RunChaos holds a transport against a server that answers, refuses, breaks off and hangs by turns and closes its connections, while calls
// are cancelled and time out at any moment: each call ends exactly once, with its own answer or with an error, and its stamps are in order.
func RunChaos(t *testing.T, s HTTPSetup) {
	for _, kind := range s.Kinds {
		t.Run(string(kind), func(t *testing.T) { chaos(t, s, kind) })
	}
}

// chaosReply is what the server does with a body, whichever connection brings it and however often.
func chaosReply(body string) Reply {
	h := fnv.New32a()
	h.Write([]byte(body))
	own := []string{Event("c:" + body), Event("c:+" + body), Event("f:stop"), Event("[DONE]")}
	switch h.Sum32() % 10 {
	case 0:
		return Reply{Status: 500, ContentType: "text/plain", Parts: []string{"broken " + body}}
	case 1:
		return Reply{NoHead: true}
	case 2:
		return Reply{Parts: own[:1], Cut: true}
	case 3:
		return Reply{Parts: own[:1], Hang: true}
	case 4:
		return Reply{Parts: []string{own[0] + own[1] + own[2] + own[3]}}
	}
	return Reply{Parts: own}
}

func chaos(t *testing.T, s HTTPSetup, kind Kind) {
	const workers, calls = 12, 40
	srv := NewServer(t, kind, func(_ int, body string) Reply { return chaosReply(body) })
	srv.CloseAfter(9)
	r := s.rig(t, srv.Target, Seams{})
	srv.Target.Streams = 4
	if _, err := r.Transport.Open(t.Context(), srv.Target, 6, wire.Probe{Path: "/health"}); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for n := range workers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(n), 7))
			w := NewWatch(t, 1)
			c := NewCall(r.Target, w, "")
			for i := range calls {
				body := fmt.Sprintf("w%d-%d.%s", n, i, strings.Repeat("x", rng.IntN(200)))
				if rng.IntN(20) == 0 {
					body += strings.Repeat("y", 300<<10)
				}
				c.Body = []byte(body)
				c.Timeout = 100 * time.Millisecond
				c.CancelAfter = 0
				if rng.IntN(5) == 0 {
					c.CancelAfter = time.Duration(rng.IntN(3000)) * time.Microsecond
				}
				c.Conn = wire.ConnID(rng.IntN(8))
				gen := r.Transport.Start(c)
				if rng.IntN(5) == 0 {
					after := time.Duration(rng.IntN(3000)) * time.Microsecond
					wg.Go(func() { time.Sleep(after); r.Transport.Cancel(c, gen, wire.ByGrace) })
				}
				select {
				case <-w.Ended:
				case <-time.After(Patience):
					t.Errorf("%.40q did not end", body)
					return
				}
				checkChaos(t, c, body)
				for len(w.Seen) > 0 {
					<-w.Seen
				}
				if n == 0 && i%10 == 9 {
					srv.CloseIdle() // in the middle of whatever they carry
				}
			}
		})
	}
	wg.Wait()
	ctx, stop := context.WithTimeout(context.Background(), Patience)
	defer stop()
	if err := r.Transport.Close(ctx); err != nil {
		t.Error(err)
	}
	if h := r.Transport.Health(); h.Open != 0 {
		t.Errorf("%d connections are open after Close", h.Open)
	}
}

func checkChaos(t *testing.T, c *wire.Call, body string) {
	f := &c.Facts
	want := body + "+" + body
	if got := string(c.Text); !strings.HasPrefix(want, got) || f.Err == nil && got != want {
		t.Errorf("%.40q got the answer %.80q, error %v", body, got, f.Err)
	}
	if f.Err == nil && (f.Status != 200 || f.Sent != int64(len(body)) || len(c.Chunks) != 2 || f.Cause != wire.NotCancelled) {
		t.Errorf("%.40q: status %d, %d of %d bytes sent, %d chunks, cause %d", body, f.Status, f.Sent, len(body), len(c.Chunks), f.Cause)
	}
	if (f.Cause != wire.NotCancelled) != (f.Err != nil && (f.Err.Code == 499 || f.Err.Type == "TimeoutError")) {
		t.Errorf("%.40q: cause %d with error %v", body, f.Cause, f.Err)
	}
	at := f.Ready
	for _, s := range [...]struct {
		what string
		at   int64
	}{{"Acquired", f.Acquired}, {"FirstWrite", f.FirstWrite}, {"HeadAt", f.HeadAt}, {"FirstByte", f.FirstByte}, {"LastByte", f.LastByte}} {
		if s.at == 0 {
			continue
		}
		if s.at < at {
			t.Errorf("%.40q: %s is %d ns before what must come before it; %+v", body, s.what, at-s.at, *f)
		}
		at = s.at
	}
	for i, ch := range c.Chunks {
		if ch.At < f.FirstByte || ch.At > f.LastByte || ch.At-int64(ch.Slack)*1000 < f.FirstWrite-1000 {
			t.Errorf("%.40q: chunk %d came at %d with slack %d µs; first write %d, body from %d to %d", body, i, ch.At, ch.Slack, f.FirstWrite, f.FirstByte, f.LastByte)
		}
	}
	if f.EndAt < f.Ready || f.Attempts < 1 || f.Attempts > 2 || (f.Cold&wire.Resent != 0) != (f.Attempts == 2) {
		t.Errorf("%.40q: end %d, ready %d, %d attempts, cold %b", body, f.EndAt, f.Ready, f.Attempts, f.Cold)
	}
}
