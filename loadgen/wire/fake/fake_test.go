package fake_test

import (
	"testing"
	"testing/synctest"
	"time"

	"prefire/loadgen/wire"
	"prefire/loadgen/wire/fake"
	"prefire/loadgen/wire/wiretest"
)

func TestConformance(t *testing.T) {
	wiretest.Run(t, wiretest.Setup{
		Exact: true,
		Wrap:  func(t *testing.T, f func(*testing.T)) { synctest.Test(t, f) },
		New: func(t *testing.T, reply func(int, string) wiretest.Reply) *wiretest.Rig {
			clock := fake.NewClock()
			tr := fake.New(fake.Options{Clock: clock, Script: func(n int64, c *wire.Call) fake.Answer {
				return answer(reply(int(n), string(c.Body)))
			}})
			return &wiretest.Rig{Transport: tr, Clock: clock, Target: &wire.Target{Path: "/v1/chat/completions"}}
		},
	})
}

func answer(r wiretest.Reply) fake.Answer {
	a := fake.Answer{Status: r.Status, ContentType: r.ContentType, Hang: r.Hang}
	for i, p := range r.Parts {
		a.Parts = append(a.Parts, fake.Part{After: time.Duration(min(i, 1)+1) * time.Millisecond, Data: []byte(p)})
	}
	switch {
	case r.NoHead:
		a.Status, a.Err = fake.NoHead, &wire.Error{Type: "ServerDisconnectedError", Message: "Server disconnected"}
	case r.Cut:
		a.Err = &wire.Error{Type: "ClientPayloadError", Message: "cut"}
	}
	return a
}

// run plays one answer in a bubble and returns the call's facts with times since its Ready.
func run(t *testing.T, prepare func(*wire.Call), a fake.Answer) (f wire.Facts, chunks []int64) {
	synctest.Test(t, func(t *testing.T) {
		clock := fake.NewClock()
		tr := fake.New(fake.Options{Clock: clock, Script: func(int64, *wire.Call) fake.Answer { return a }})
		w := wiretest.NewWatch(t, 1)
		c := wiretest.NewCall(&wire.Target{}, w, "{}")
		if prepare != nil {
			prepare(c)
		}
		tr.Start(c)
		<-w.Ended
		f = c.Facts
		for _, ch := range c.Chunks {
			chunks = append(chunks, ch.At-f.Ready)
		}
	})
	return f, chunks
}

func TestTimesAreExact(t *testing.T) {
	ms := int64(time.Millisecond)
	f, chunks := run(t, nil, fake.Answer{
		Dial: 20 * time.Millisecond, Queue: 5 * time.Millisecond, Send: 2 * time.Millisecond, Head: 50 * time.Millisecond,
		Parts: []fake.Part{fake.Text(100*time.Millisecond, "c:a"), fake.Text(7*time.Millisecond, "c:b"),
			fake.Text(9*time.Millisecond, "f:stop", "[DONE]")},
		End: 3 * time.Millisecond,
	})
	at := func(x int64) int64 { return (x - f.Ready) / ms }
	got := []int64{at(f.Conn.DialStart), at(f.Conn.DialEnd), at(f.FirstWrite), at(f.LastWrite), at(f.HeadAt),
		at(f.FirstByte), at(f.LastByte), at(f.EndAt)}
	want := []int64{0, 20, 25, 27, 75, 125, 141, 141}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("times = %v ms, want %v", got, want)
			break
		}
	}
	if len(chunks) != 2 || chunks[0] != 125*ms || chunks[1] != 132*ms {
		t.Errorf("chunks at %v ns", chunks)
	}
	if f.Cold != wire.Dialled || f.Reused || f.Queued != 5*ms || f.Err != nil {
		t.Errorf("Cold = %d, Reused = %v, Queued = %d, Err = %v", f.Cold, f.Reused, f.Queued, f.Err)
	}
}

func TestLimitsAreExact(t *testing.T) {
	ms := int64(time.Millisecond)
	hang := fake.Answer{Send: 4 * time.Millisecond, Hang: true}
	f, _ := run(t, func(c *wire.Call) { c.Timeout = 30 * time.Millisecond }, hang)
	if f.CancelledAt-f.Ready != 30*ms || f.EndAt-f.Ready != 30*ms || f.Cause != wire.ByTimeout {
		t.Errorf("timeout: cancelled after %d, ended after %d, cause %d", f.CancelledAt-f.Ready, f.EndAt-f.Ready, f.Cause)
	}
	f, _ = run(t, func(c *wire.Call) { c.CancelAfter = 30 * time.Millisecond }, hang)
	if f.CancelledAt-f.LastWrite != 30*ms || f.Cause != wire.ByPlan {
		t.Errorf("CancelAfter: cancelled %d after the last write, cause %d", f.CancelledAt-f.LastWrite, f.Cause)
	}
	f, _ = run(t, func(c *wire.Call) { c.Timeout = 30 * time.Millisecond }, fake.Answer{Dial: time.Second})
	if f.CancelledAt-f.Ready != 30*ms || f.FirstWrite != 0 || f.Err.Type != "TimeoutError" {
		t.Errorf("timeout in the dial: after %d, FirstWrite %d, %v", f.CancelledAt-f.Ready, f.FirstWrite, f.Err)
	}
	f, _ = run(t, nil, fake.Answer{Head: time.Millisecond, Err: &wire.Error{Type: "X"}, End: 9 * time.Millisecond})
	if f.EndAt-f.Ready != 10*ms || f.HeadAt-f.Ready != ms || f.Err.Type != "X" {
		t.Errorf("error: EndAt %d, HeadAt %d, %v", f.EndAt-f.Ready, f.HeadAt-f.Ready, f.Err)
	}
}

func TestCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := fake.New(fake.Options{Clock: fake.NewClock(), Script: func(n int64, _ *wire.Call) fake.Answer {
			return fake.Answer{Parts: []fake.Part{fake.Text(time.Duration(n+1)*time.Second, "c:a", "[DONE]")}}
		}})
		w := wiretest.NewWatch(t, 5)
		for range 5 {
			tr.Start(wiretest.NewCall(&wire.Target{}, w, "{}"))
		}
		time.Sleep(2*time.Second + time.Millisecond)
		synctest.Wait()
		if tr.InFlight() != 3 || tr.MaxInFlight() != 5 || tr.Started() != 5 || len(w.Ended) != 2 {
			t.Errorf("in flight %d, most %d, started %d, ended %d", tr.InFlight(), tr.MaxInFlight(), tr.Started(), len(w.Ended))
		}
		if err := tr.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if tr.InFlight() != 0 || len(w.Ended) != 5 {
			t.Errorf("after Close: in flight %d, ended %d", tr.InFlight(), len(w.Ended))
		}
	})
}
