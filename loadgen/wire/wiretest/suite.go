package wiretest

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"prefire/loadgen/wire"
)

// Reply is what the server does with one request.
type Reply struct {
	Status      int      // 0 = 200
	ContentType string   // "" = text/event-stream
	Parts       []string // sent one after the other, each flushed
	Cut         bool     // the connection breaks after the parts, in the middle of the body
	NoHead      bool     // the connection breaks before the head
	Hang        bool     // nothing comes after the parts until the client leaves
}

// Rig is a transport with a server at its other end.
type Rig struct {
	Transport wire.Transport
	Target    *wire.Target
	Clock     wire.Clock
}

// Setup makes a rig whose server answers request n (from 0; probes not counted) by reply.
type Setup struct {
	New func(t *testing.T, reply func(n int, body string) Reply) *Rig
	// Wrap runs a case in surroundings of its own, such as a synctest bubble. nil = as it is.
	Wrap func(t *testing.T, f func(t *testing.T))
	// Exact says that the transport's stamps are exact by nature or, where the system has them, the kernel's: an event alone in its read
	// has no slack then.
	Exact bool
}

// Run holds a transport against everything that does not need a socket.
func Run(t *testing.T, s Setup) {
	wrap := s.Wrap
	if wrap == nil {
		wrap = func(t *testing.T, f func(t *testing.T)) { f(t) }
	}
	for name, f := range map[string]func(*testing.T, Setup){
		"a stream": stream, "one answer": whole, "failures": failures, "timeout": timeout, "cancel after": cancelAfter, "no end": noEnd,
		"cancel": cancel, "reuse": reuse, "in flight": inFlight, "close": closing, "events of one read": oneRead, "first": firstOnly,
		"a connection for one call": single, "a connection held": heldConn,
	} {
		t.Run(name, func(t *testing.T) { wrap(t, func(t *testing.T) { f(t, s) }) })
	}
}

func (r *Rig) close(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), Patience)
	defer stop()
	if err := r.Transport.Close(ctx); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// do runs one call to its end.
func do(t *testing.T, r *Rig, w *Watch, c *wire.Call) {
	t.Helper()
	r.Transport.Start(c)
	if got := Wait(t, "Done", w.Ended); got != c {
		t.Fatal("Done is called with another call")
	}
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if got != want {
		t.Errorf("%s = %v, want %v", what, got, want)
	}
}

// ordered fails where the times do not go up.
func ordered(t *testing.T, names string, at ...int64) {
	t.Helper()
	for i, name := range strings.Fields(names) {
		if at[i] == 0 || i > 0 && at[i] < at[i-1] {
			t.Errorf("%s = %d is not in order: %v are %v", name, at[i], names, at)
		}
	}
}

func stream(t *testing.T, s Setup) {
	got := make(chan string, 4)
	r := s.New(t, func(n int, body string) Reply { got <- body; return Reply{Parts: Events(3)} })
	defer r.close(t)
	w := NewWatch(t, 4)
	body := strings.Repeat("x", 200_000) + "end"
	c := NewCall(r.Target, w, body)
	c.Keep = wire.KeepRaw
	do(t, r, w, c)
	f := &c.Facts
	if f.Err != nil {
		t.Fatalf("Err = %v", f.Err)
	}
	if g := Wait(t, "the request", got); g != body {
		t.Errorf("the server got %d bytes that differ from the body's %d", len(g), len(body))
	}
	same(t, "Text", string(c.Text), "0 1 2 ")
	same(t, "Raw", string(c.Raw), strings.Join(Events(3), ""))
	same(t, "len(Chunks)", len(c.Chunks), 3)
	same(t, "Status", f.Status, 200)
	same(t, "Reason", f.Reason, "OK")
	same(t, "ContentType", f.ContentType, "text/event-stream")
	same(t, "Sent", f.Sent, int64(len(body)))
	same(t, "Received", f.Received, int64(len(c.Raw)))
	same(t, "Events", f.Events, int32(5))
	same(t, "SawDone", f.SawDone, true)
	same(t, "Finish", f.Finish, wire.FinishStop)
	same(t, "Attempts", f.Attempts, uint8(1))
	same(t, "Conn.ID != 0", f.Conn.ID != 0, true)
	same(t, "ConnUse", f.ConnUse, uint32(1))
	same(t, "Cause", f.Cause, wire.NotCancelled)
	ordered(t, "Ready Acquired FirstWrite LastWrite", f.Ready, f.Acquired, f.FirstWrite, f.LastWrite)
	ordered(t, "FirstWrite HeadAt FirstByte LastByte", f.FirstWrite, f.HeadAt, f.FirstByte, f.LastByte)
	at := []int64{f.FirstByte}
	for _, ch := range c.Chunks {
		at = append(at, ch.At)
		same(t, "Class", ch.Class, wire.Content)
	}
	ordered(t, "FirstByte first second third EndAt", append(at, f.EndAt)...)
	same(t, "First", Wait(t, "First", w.Seen), c)
}

func whole(t *testing.T, s Setup) {
	long := strings.Repeat("y", 200_000)
	r := s.New(t, func(n int, _ string) Reply {
		return Reply{ContentType: "application/json", Parts: []string{"c:", long, "|f:length"}}
	})
	defer r.close(t)
	w := NewWatch(t, 4)
	c := NewCall(r.Target, w, "{}")
	do(t, r, w, c)
	if c.Facts.Err != nil {
		t.Fatalf("Err = %v", c.Facts.Err)
	}
	same(t, "Text", string(c.Text), long)
	same(t, "Finish", c.Facts.Finish, wire.FinishLength)
	same(t, "Received", c.Facts.Received, int64(len(long)+len("c:|f:length")))
	same(t, "len(Chunks)", len(c.Chunks), 1)
	same(t, "At", c.Chunks[0].At, c.Facts.LastByte)
}

func failures(t *testing.T, s Setup) {
	for _, tc := range []struct {
		name   string
		reply  Reply
		want   wire.Error // Message is a part of the text
		chunks int
	}{
		{"429", Reply{Status: 429, ContentType: "application/json", Parts: []string{`{"error":`, `"slow down"}`}},
			wire.Error{Code: 429, Type: "Too Many Requests", Message: `{"error":"slow down"}`}, 0},
		{"404", Reply{Status: 404, ContentType: "text/plain", Parts: []string{"no such model"}},
			wire.Error{Code: 404, Type: "Not Found", Message: "no such model"}, 0},
		{"302", Reply{Status: 302, ContentType: "text/plain", Parts: []string{"elsewhere"}},
			wire.Error{Code: 302, Type: "Found", Message: "elsewhere"}, 0},
		{"204", Reply{Status: 204}, wire.Error{Type: "InvalidInferenceResultError", Message: "No responses were received"}, 0},
		{"error event", Reply{Parts: []string{Event("c:a"), "event: error\n" + Event("out of memory")}},
			wire.Error{Code: 502, Type: "SSEResponseError", Message: "out of memory"}, 1},
		{"error object", Reply{Parts: []string{Event("c:a"), Event("e:engine dead"), Event("[DONE]")}},
			wire.Error{Code: 502, Type: "SSEResponseError", Message: "engine dead"}, 1},
		{"empty", Reply{}, wire.Error{Type: "InvalidInferenceResultError", Message: "No responses were received"}, 0},
		{"no content", Reply{Parts: []string{Event("f:stop"), Event("[DONE]")}},
			wire.Error{Type: "InvalidInferenceResultError", Message: "actual content"}, 0},
		{"stops", Reply{Parts: []string{Event("c:a"), Event("c:b")}},
			wire.Error{Type: "InvalidInferenceResultError", Message: "stream was cut"}, 2},
		{"cut", Reply{Parts: []string{Event("c:a")}, Cut: true}, wire.Error{Type: "ClientPayloadError"}, 1},
		{"no head", Reply{NoHead: true}, wire.Error{Type: "ServerDisconnectedError"}, 0},
	} {
		r := s.New(t, func(int, string) Reply { return tc.reply })
		w := NewWatch(t, 4)
		c := NewCall(r.Target, w, "{}")
		do(t, r, w, c)
		e := c.Facts.Err
		if e == nil {
			t.Fatalf("%s: no error", tc.name)
		}
		same(t, tc.name+": Code", e.Code, tc.want.Code)
		same(t, tc.name+": Type", e.Type, tc.want.Type)
		if !strings.Contains(e.Message, tc.want.Message) {
			t.Errorf("%s: Message = %q, want %q in it", tc.name, e.Message, tc.want.Message)
		}
		same(t, tc.name+": chunks", len(c.Chunks), tc.chunks)
		same(t, tc.name+": EndAt != 0", c.Facts.EndAt != 0, true)
		r.close(t)
	}
}

func timeout(t *testing.T, s Setup) {
	r := s.New(t, func(n int, _ string) Reply {
		if n == 0 {
			return Reply{Parts: []string{Event("c:a")}, Hang: true}
		}
		return Reply{Parts: Events(1)}
	})
	defer r.close(t)
	w := NewWatch(t, 4)
	c := NewCall(r.Target, w, "{}")
	c.Timeout = 500 * time.Millisecond
	do(t, r, w, c)
	f := &c.Facts
	same(t, "Err", f.Err.Error(), "TimeoutError: TimeoutError()")
	same(t, "Cause", f.Cause, wire.ByTimeout)
	same(t, "CancelledAt in time", f.CancelledAt >= f.Ready+int64(c.Timeout), true)
	same(t, "EndAt in time", f.EndAt >= f.Ready+int64(c.Timeout), true)
	same(t, "chunks", len(c.Chunks), 1)
	c.Timeout = Patience
	do(t, r, w, c)
	if c.Facts.Err != nil {
		t.Errorf("the next use fails: %v", c.Facts.Err)
	}
}

// noEnd has a body go on after [DONE]: the answer is complete, what it went on on is given up, and nothing else is hit, be it that the call's
// time runs out meanwhile.
func noEnd(t *testing.T, s Setup) {
	r := s.New(t, func(n int, _ string) Reply { return Reply{Parts: Events(2), Hang: n != 1} })
	defer r.close(t)
	w := NewWatch(t, 4)
	c := NewCall(r.Target, w, "{}")
	do(t, r, w, c)
	f := &c.Facts
	if f.Err != nil {
		t.Fatal(f.Err)
	}
	same(t, "Unended", f.Unended, true)
	same(t, "chunks", len(c.Chunks), 2)
	same(t, "Over", f.Over, f.EndAt)
	same(t, "waited for its end", r.Clock.Now() >= f.Over+int64(wire.DoneWait), true)
	same(t, "Unended in all", r.Transport.Health().Unended, int64(1))
	first := f.Conn.ID
	do(t, r, w, c)
	same(t, "Err of the next", f.Err == nil, true)
	same(t, "Unended of the next", f.Unended, false)
	same(t, "the connection again", f.Conn.ID == first, f.Conn.Protocol == "HTTP/2")
	c.Timeout = wire.DoneWait / 5
	for range 20 { // where the machine stands still, the time may run out before [DONE]
		if do(t, r, w, c); f.SawDone {
			break
		}
	}
	same(t, "Err where the time ran out after [DONE]", f.Err == nil && f.SawDone, true)
	same(t, "Cause", f.Cause, wire.NotCancelled)
	same(t, "Unended in all", r.Transport.Health().Unended, int64(2))
}

func cancelAfter(t *testing.T, s Setup) {
	r := s.New(t, func(n int, _ string) Reply { return Reply{Parts: []string{Event("c:a")}, Hang: true} })
	defer r.close(t)
	w := NewWatch(t, 4)
	c := NewCall(r.Target, w, "{}")
	c.CancelAfter = 60 * time.Millisecond
	do(t, r, w, c)
	f := &c.Facts
	same(t, "Code", f.Err.Code, 499)
	same(t, "Err", f.Err.Error(), "RequestCancellationError: Request cancelled 0.060s after being sent")
	same(t, "Cause", f.Cause, wire.ByPlan)
	same(t, "CancelledAt in time", f.CancelledAt >= f.LastWrite+int64(c.CancelAfter), true)
}

func cancel(t *testing.T, s Setup) {
	r := s.New(t, func(n int, _ string) Reply {
		if n == 0 {
			return Reply{Parts: []string{Event("c:a")}, Hang: true}
		}
		return Reply{Parts: Events(2)}
	})
	defer r.close(t)
	w := NewWatch(t, 4)
	c := NewCall(r.Target, w, "{}")
	old := r.Transport.Start(c)
	Wait(t, "First", w.Seen)
	r.Transport.Cancel(c, old, wire.ByGrace)
	r.Transport.Cancel(c, old, wire.ByUser)
	Wait(t, "Done", w.Ended)
	same(t, "Cause", c.Facts.Cause, wire.ByGrace)
	same(t, "failed", c.Facts.Err != nil, true)
	same(t, "chunks", len(c.Chunks), 1)
	ordered(t, "FirstWrite CancelledAt", c.Facts.FirstWrite, c.Facts.CancelledAt)
	// The call's next use is another generation: a late Cancel of the old one must not touch it.
	gen := r.Transport.Start(c)
	r.Transport.Cancel(c, old, wire.ByUser)
	if gen == old {
		t.Errorf("both uses have generation %d", gen)
	}
	Wait(t, "Done", w.Ended)
	if c.Facts.Err != nil || c.Facts.Cause != wire.NotCancelled {
		t.Errorf("the next use was hit: %v, cause %d", c.Facts.Err, c.Facts.Cause)
	}
	// And a Cancel after Done does nothing.
	r.Transport.Cancel(c, gen, wire.ByUser)
	select {
	case <-w.Ended:
		t.Error("Done was called twice")
	default:
	}
}

func reuse(t *testing.T, s Setup) {
	r := s.New(t, func(n int, _ string) Reply { return Reply{Parts: Events(1)} })
	defer r.close(t)
	facts, err := r.Transport.Open(context.Background(), r.Target, 2, wire.Probe{Path: "/health"})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "len(facts)", len(facts), 2)
	ids := map[wire.ConnID]bool{}
	for _, f := range facts {
		ids[f.ID] = true
		ordered(t, "DialStart DialEnd ProbeStart ProbeEnd", f.DialStart, f.DialEnd, f.ProbeStart, f.ProbeEnd)
		same(t, "ProbeStatus", f.ProbeStatus, 200)
		same(t, "Local", f.Local != "", true)
	}
	same(t, "ids", len(ids), 2)
	w := NewWatch(t, 4)
	c := NewCall(r.Target, w, "{}")
	for i := range 3 {
		do(t, r, w, c)
		f := &c.Facts
		if f.Err != nil {
			t.Fatal(f.Err)
		}
		same(t, "Cold", f.Cold, wire.Cold(0))
		same(t, "Reused", f.Reused, true)
		same(t, "ConnUse", f.ConnUse, uint32(2+i))
		same(t, "opened", ids[f.Conn.ID], true)
		if i > 0 {
			same(t, "the same connection", f.Conn.ID, c.Conn)
		}
		c.Conn = f.Conn.ID
	}
	// The other connection was used last: a call that names the first gets it all the same.
	h := r.Transport.Health()
	same(t, "Open", h.Open, 2)
	same(t, "Dialled", h.Dialled, int64(2))
	same(t, "Probes", h.Probes, int64(2))
}

func single(t *testing.T, s Setup) {
	r := s.New(t, func(n int, _ string) Reply { return Reply{Parts: Events(1)} })
	defer r.close(t)
	facts, err := r.Transport.Open(context.Background(), r.Target, 1, wire.Probe{Path: "/health"})
	if err != nil {
		t.Fatal(err)
	}
	if facts[0].Protocol != "HTTP/1.1" {
		return
	}
	w := NewWatch(t, 4)
	c := NewCall(r.Target, w, "{}")
	c.Lease = wire.Single
	seen := map[wire.ConnID]bool{facts[0].ID: true}
	for range 3 {
		do(t, r, w, c)
		f := &c.Facts
		if f.Err != nil {
			t.Fatal(f.Err)
		}
		same(t, "a connection used before", seen[f.Conn.ID], false)
		seen[f.Conn.ID] = true
		same(t, "Cold", f.Cold, wire.Cold(0))
		same(t, "Reused", f.Reused, false)
		same(t, "ConnUse", f.ConnUse, uint32(1))
		ordered(t, "Ready DialStart DialEnd FirstWrite", f.Ready, f.Conn.DialStart, f.Conn.DialEnd, f.FirstWrite)
	}
	same(t, "Open", r.Transport.Health().Open, 1)
	same(t, "Dialled", r.Transport.Health().Dialled, int64(4))
}

func heldConn(t *testing.T, s Setup) {
	r := s.New(t, func(n int, _ string) Reply { return Reply{Parts: Events(1)} })
	defer r.close(t)
	facts, err := r.Transport.Open(context.Background(), r.Target, 2, wire.Probe{Path: "/health"})
	if err != nil {
		t.Fatal(err)
	}
	if facts[0].Protocol != "HTTP/1.1" {
		return
	}
	w := NewWatch(t, 4)
	mine, other := NewCall(r.Target, w, "{}"), NewCall(r.Target, w, "{}")
	mine.Lease = wire.Held
	do(t, r, w, mine)
	own := mine.Facts.Conn.ID
	for range 2 {
		do(t, r, w, other)
		same(t, "another call gets the held connection", other.Facts.Conn.ID == own, false)
		same(t, "Cold of the other", other.Facts.Cold, wire.Cold(0))
		mine.Conn = own
		do(t, r, w, mine)
		same(t, "the session's own connection", mine.Facts.Conn.ID, own)
		same(t, "Cold", mine.Facts.Cold, wire.Cold(0))
	}
	mine.Lease = wire.Final
	do(t, r, w, mine)
	same(t, "the last turn's connection", mine.Facts.Conn.ID, own)
	mine.Lease = wire.Held
	do(t, r, w, mine)
	if next := mine.Facts.Conn.ID; next == own {
		t.Error("a connection was used after its session's last call")
	} else {
		r.Transport.Release(r.Target, next)
		r.Transport.Release(r.Target, next) // it is gone
		mine.Conn = next
		do(t, r, w, mine)
		same(t, "a released connection is used again", mine.Facts.Conn.ID == next, false)
	}
}

func inFlight(t *testing.T, s Setup) {
	const c = 8
	reached := make(chan int, 64)
	r := s.New(t, func(n int, _ string) Reply {
		reached <- n
		return Reply{Parts: []string{Event("c:a")}, Hang: true}
	})
	defer r.close(t)
	w := NewWatch(t, c)
	var calls []*wire.Call
	var gens []uint32
	for i := range c {
		calls = append(calls, NewCall(r.Target, w, strconv.Itoa(i)))
		gens = append(gens, r.Transport.Start(calls[i]))
	}
	for range c {
		Wait(t, "a request at the server", reached)
		Wait(t, "First", w.Seen)
	}
	select {
	case <-w.Ended:
		t.Error("one has ended")
	default:
	}
	for i := range c {
		r.Transport.Cancel(calls[i], gens[i], wire.ByUser)
	}
	for range c {
		Wait(t, "Done", w.Ended)
	}
}

func closing(t *testing.T, s Setup) {
	r := s.New(t, func(int, string) Reply { return Reply{Parts: []string{Event("c:a")}, Hang: true} })
	w := NewWatch(t, 4)
	c := NewCall(r.Target, w, "{}")
	r.Transport.Start(c)
	Wait(t, "First", w.Seen)
	r.close(t)
	Wait(t, "Done", w.Ended)
	same(t, "Cause", c.Facts.Cause, wire.ByUser)
	same(t, "Open", r.Transport.Health().Open, 0)
	r.Transport.Start(c)
	Wait(t, "Done", w.Ended)
	same(t, "failed", c.Facts.Err != nil, true)
}

func oneRead(t *testing.T, s Setup) {
	r := s.New(t, func(int, string) Reply {
		return Reply{Parts: []string{Event("c:a"), Event("c:b") + Event("c:c") + Event("c:d"), Event("f:stop") + Event("[DONE]")}}
	})
	defer r.close(t)
	w := NewWatch(t, 4)
	c := NewCall(r.Target, w, "{}")
	do(t, r, w, c)
	if c.Facts.Err != nil || len(c.Chunks) != 4 {
		t.Fatalf("Err = %v, %d chunks", c.Facts.Err, len(c.Chunks))
	}
	for i, want := range []bool{false, false, true, true} {
		// The first event may share its read with the second part, where the reader was late.
		if i == 1 && c.Chunks[1].At == c.Chunks[0].At {
			continue
		}
		same(t, "shared "+strconv.Itoa(i), c.Chunks[i].Flags&wire.SharesRe != 0, want)
	}
	same(t, "At of c and d", c.Chunks[3].At, c.Chunks[2].At)
	if s.Exact && c.Chunks[0].Flags&wire.Kernel != 0 && c.Chunks[1].At != c.Chunks[0].At {
		same(t, "Slack of a", c.Chunks[0].Slack, uint32(0))
	}
}

func firstOnly(t *testing.T, s Setup) {
	r := s.New(t, func(int, string) Reply {
		return Reply{Parts: []string{": hello\n\n" + Event("f:"), Event("r:think|c:say"), Event("t:call"),
			Event("u:{\"n\":1}"), Event("f:tool_calls"), Event("[DONE]")}}
	})
	defer r.close(t)
	w := NewWatch(t, 4)
	c := NewCall(r.Target, w, "{}")
	do(t, r, w, c)
	if c.Facts.Err != nil {
		t.Fatal(c.Facts.Err)
	}
	same(t, "Text", string(c.Text), "thinksaycall")
	same(t, "Usage", string(c.Usage), `{"n":1}`)
	same(t, "Finish", c.Facts.Finish, wire.FinishTool)
	var classes []wire.Class
	for _, ch := range c.Chunks {
		classes = append(classes, ch.Class)
	}
	if len(classes) != 3 || classes[0] != wire.Reasoning || classes[1] != wire.Content || classes[2] != wire.Tool {
		t.Errorf("Classes = %v", classes)
	}
	same(t, "SamePart", c.Chunks[1].Flags&wire.SamePart != 0, true)
	Wait(t, "First", w.Seen)
	select {
	case <-w.Seen:
		t.Error("First was called twice")
	default:
	}
}
