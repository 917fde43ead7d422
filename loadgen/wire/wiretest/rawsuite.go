package wiretest

import (
	"strconv"
	"strings"
	"testing"

	"prefire/loadgen/wire"
)

// RunRaw holds a transport against HTTP/1.1 as odd as servers may speak it, and against what can happen to a connection.
func RunRaw(t *testing.T, s HTTPSetup) {
	t.Run("framing", func(t *testing.T) { framing(t, s) })
	t.Run("broken", func(t *testing.T) { broken(t, s) })
	t.Run("event in an unfinished chunk", func(t *testing.T) { unfinished(t, s) })
	t.Run("exactness", func(t *testing.T) { exactness(t, s) })
	t.Run("resent", func(t *testing.T) { resent(t, s) })
	t.Run("early answer", func(t *testing.T) { early(t, s) })
	t.Run("header", func(t *testing.T) { headerLines(t, s) })
}

const good = "data: c:a\n\ndata: c:b\n\ndata: f:stop\n\ndata: [DONE]\n\n"

func framing(t *testing.T, s HTTPSetup) {
	length := strconv.Itoa(len(good))
	chunks := Chunk(good[:3]) + Chunk(good[3:20]) + Chunk(good[20:]) + "0\r\n\r\n"
	for name, tc := range map[string]struct {
		say   string
		keeps bool // the connection can be used again
		whole bool // only sent in one piece: a client cannot know of bytes that are still to come
	}{
		"chunked": {StreamHead + chunks, true, false},
		"extension and trailers": {StreamHead +
			strings.ReplaceAll(Chunk(good), "\r\ndata: c:a", " ; x=y\r\ndata: c:a") + "000\r\nX-A: b\r\nX-C: d\r\n\r\n", true, false},
		"upper case size":   {StreamHead + strings.ToUpper(Chunk(good)[:2]) + Chunk(good)[2:] + "0\r\n\r\n", true, false},
		"length":            {"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: " + length + "\r\n\r\n" + good, true, false},
		"to the end":        {"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + good, false, false},
		"HTTP/1.0":          {"HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: " + length + "\r\n\r\n" + good, false, false},
		"Connection: close": {strings.Replace(StreamHead, "\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1) + chunks, false, false},
		"1xx":               {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + StreamHead + chunks, true, false},
		"no reason":         {strings.Replace(StreamHead, "200 OK", "200", 1) + chunks, true, false},
		"too much":          {StreamHead + chunks + "HTTP/1.1 200 OK\r\n", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, dribble := range []bool{false, true} {
				if dribble && tc.whole {
					continue
				}
				target := NewPeer(t, func(p *Peer) {
					for p.Request() != nil {
						if dribble {
							for i := range len(tc.say) {
								p.Say(tc.say[i : i+1])
							}
						} else {
							p.Say(tc.say)
						}
						if !tc.keeps {
							return
						}
					}
				})
				r := s.rig(t, target, Seams{})
				w := NewWatch(t, 1)
				c := NewCall(r.Target, w, "{}")
				c.Keep = wire.KeepRaw
				for use := range 2 {
					do(t, r, w, c)
					f := &c.Facts
					if f.Err != nil {
						t.Fatalf("dribble %v: %v", dribble, f.Err)
					}
					same(t, "Raw", string(c.Raw), good)
					same(t, "Text", string(c.Text), "ab")
					same(t, "Reason", f.Reason, "OK")
					same(t, "Received", f.Received, int64(len(good)))
					same(t, "Reused", f.Reused, use == 1 && tc.keeps)
					for i := 1; i < len(c.Chunks); i++ {
						same(t, "in order", c.Chunks[i].At >= c.Chunks[i-1].At, true)
					}
				}
			}
		})
	}
}

func broken(t *testing.T, s HTTPSetup) {
	for name, tc := range map[string]struct {
		say    string
		reset  bool
		kind   string
		text   string
		cause  string
		chunks int
	}{
		"closed at once":       {"", false, "ServerDisconnectedError", "Server disconnected", "", 0},
		"reset at once":        {"", true, "ClientOSError", "[Errno 104] connection reset by peer", "syscall.Errno", 0},
		"closed in the head":   {"HTTP/1.1 200 OK\r\nContent-", false, "ServerDisconnectedError", "within the head", "", 0},
		"not HTTP":             {"SSH-2.0-OpenSSH\r\n\r\n", false, "ClientResponseError", `malformed HTTP`, "", 0},
		"closed in the chunks": {StreamHead + Chunk(Event("c:a")), false, "ClientPayloadError", "before the last chunk", "TransferEncodingError", 1},
		"closed in a chunk": {StreamHead + Chunk(Event("c:a")) + "20\r\ndata: c:b", false,
			"ClientPayloadError", "before the last chunk", "TransferEncodingError", 1},
		"closed in the length": {"HTTP/1.1 200 OK\r\nContent-Length: 99\r\nContent-Type: text/event-stream\r\n\r\n" + Event("c:a"), false,
			"ClientPayloadError", "Content-Length", "ContentLengthError", 1},
		"a size that is none": {StreamHead + Chunk(Event("c:a")) + "zz\r\n", false, "ClientPayloadError", "malformed", "TransferEncodingError", 1},
		"a chunk without end": {StreamHead + "3\r\nabcd\r\n", false, "ClientPayloadError", "longer than its size", "TransferEncodingError", 0},
		"a size line with LF": {StreamHead + "3\nabc\r\n", false, "ClientPayloadError", "malformed", "TransferEncodingError", 0},
		"an endless size":     {StreamHead + "3;" + strings.Repeat("x", 20<<10), false, "ClientPayloadError", "too long", "TransferEncodingError", 0},
		"a size of 16 digits": {StreamHead + "1000000000000000\r\n", false, "ClientPayloadError", "15 digits", "TransferEncodingError", 0},
		"an endless head": {"HTTP/1.1 200 OK\r\n" + strings.Repeat("X-A: "+strings.Repeat("b", 1000)+"\r\n", 1100), false,
			"ClientResponseError", "longer than 1 MiB", "", 0},
		"101":                   {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", false, "ClientResponseError", "not asked for", "", 0},
		"only 1xx, then closed": {"HTTP/1.1 100 Continue\r\n\r\n", false, "ServerDisconnectedError", "within the head", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			gone := make(chan struct{})
			target := NewPeer(t, func(p *Peer) {
				if p.Request() == nil {
					return
				}
				p.Say(tc.say)
				if tc.reset {
					p.Reset()
				}
				close(gone)
			})
			r := s.rig(t, target, Seams{})
			w := NewWatch(t, 1)
			c := NewCall(r.Target, w, "{}")
			do(t, r, w, c)
			Wait(t, "the server's end", gone)
			e := c.Facts.Err
			if e == nil {
				t.Fatal("no error")
			}
			same(t, "Type", e.Type, tc.kind)
			same(t, "Cause", e.Cause, tc.cause)
			if !strings.Contains(e.Message, tc.text) {
				t.Errorf("Message = %q, want %q in it", e.Message, tc.text)
			}
			same(t, "chunks", len(c.Chunks), tc.chunks)
			same(t, "Attempts", c.Facts.Attempts, uint8(1))
			same(t, "Open", r.Transport.Health().Open, 0)
		})
	}
	t.Run("reset within the body", func(t *testing.T) {
		told := make(chan struct{})
		target := NewPeer(t, func(p *Peer) {
			p.Request()
			p.Say(StreamHead + Chunk(Event("c:a")))
			<-told
			p.Reset()
		})
		r := s.rig(t, target, Seams{})
		w := NewWatch(t, 1)
		c := NewCall(r.Target, w, "{}")
		r.Transport.Start(c)
		Wait(t, "First", w.Seen)
		close(told)
		Wait(t, "Done", w.Ended)
		same(t, "Type", c.Facts.Err.Type, "ClientPayloadError")
		same(t, "Message", c.Facts.Err.Message, "Response payload is not completed: connection reset by peer")
		same(t, "chunks", len(c.Chunks), 1)
	})
}

// unfinished sends an event inside a chunk whose rest comes only after the client has seen the event.
func unfinished(t *testing.T, s HTTPSetup) {
	seen := make(chan struct{})
	target := NewPeer(t, func(p *Peer) {
		p.Request()
		all := Event("c:a") + Event("c:b") + Event("[DONE]")
		chunk := Chunk(all)
		cut := strings.Index(chunk, "data: c:b")
		p.Say(StreamHead + chunk[:cut])
		<-seen
		p.Say(chunk[cut:] + "0\r\n\r\n")
	})
	r := s.rig(t, target, Seams{})
	w := NewWatch(t, 1)
	c := NewCall(r.Target, w, "{}")
	r.Transport.Start(c)
	Wait(t, "First", w.Seen)
	between := r.Clock.Now()
	close(seen)
	Wait(t, "Done", w.Ended)
	if c.Facts.Err != nil {
		t.Fatal(c.Facts.Err)
	}
	ordered(t, "first between second", c.Chunks[0].At, between, c.Chunks[1].At)
}

// exactness sends each part only when the one before has been read, so that each comes in a read of its own.
func exactness(t *testing.T, s HTTPSetup) {
	KernelStamps(t)
	next := make(chan struct{})
	parts := []string{
		Chunk(Event("c:a")),                              // alone in its read
		Chunk(Event("c:b")) + Chunk(Event("c:c")),        // the first of two is not exact
		Chunk(Event("c:d") + Event("c:e")),               // nor in one chunk
		Chunk(Event("c:f") + "data: "),                   // more of the read follows
		Chunk("c:g\n\n"),                                 // its end is the end of its read
		Chunk(Event("c:h")) + Chunk(Event("f:stop")[:5]), // the next one's beginning follows
		Chunk(Event("f:stop")[5:]) + Chunk(Event("[DONE]")) + "0\r\n\r\n",
	}
	target := NewPeer(t, func(p *Peer) {
		p.Request()
		p.Say(StreamHead)
		for _, part := range parts {
			<-next
			p.Say(part)
		}
	})
	r := s.rig(t, target, Seams{})
	w := NewWatch(t, 1)
	c := NewCall(r.Target, w, "{}")
	c.Parser = &signal{seen: make(chan struct{}, 64)}
	r.Transport.Start(c)
	events := []int{1, 2, 2, 1, 1, 1, 2} // that each part completes; [DONE] is not the parser's
	for i := range parts {
		next <- struct{}{}
		n := events[i]
		if i == len(parts)-1 {
			n--
		}
		for range n {
			Wait(t, "an event", c.Parser.(*signal).seen)
		}
	}
	Wait(t, "Done", w.Ended)
	if c.Facts.Err != nil {
		t.Fatal(c.Facts.Err)
	}
	same(t, "Text", string(c.Text), "abcdefgh")
	kernel := c.Facts.Conn.KernelStamps
	for i, want := range []struct{ exact, shared bool }{
		{true, false}, {false, false}, {true, true}, {false, false}, {true, true}, {false, false}, {true, false}, {false, false},
	} {
		ch := c.Chunks[i]
		name := string(c.Text[i])
		same(t, "kernel "+name, ch.Flags&wire.Kernel != 0, kernel)
		same(t, "exact "+name, ch.Slack == 0, want.exact && kernel)
		same(t, "shared "+name, ch.Flags&wire.SharesRe != 0, want.shared)
		same(t, "slack reaches back no further than the request "+name, ch.At-int64(ch.Slack)*1000 > c.Facts.FirstWrite-1000, true)
		if want.shared {
			same(t, "At "+name, ch.At, c.Chunks[i-1].At)
		} else if i > 0 {
			same(t, "At "+name+" after the one before", ch.At > c.Chunks[i-1].At, true)
		}
	}
	same(t, "SharedReads", c.Facts.SharedReads, int32(2))
	same(t, "StampsFell", c.Facts.StampsFell, int32(0))
}

// signal is the toy parser, which tells of each event.
type signal struct {
	Parser
	seen chan struct{}
}

func (s *signal) Event(name, data []byte, d *wire.Delta) wire.Class {
	s.seen <- struct{}{}
	return s.Parser.Event(name, data, d)
}

// resent has the server take a second request on a connection and close without a byte, as when an idle close and a request cross.
func resent(t *testing.T, s HTTPSetup) {
	bodies := make(chan string, 8)
	serve := func(closeAll bool) *wire.Target {
		return NewPeer(t, func(p *Peer) {
			for use := 0; ; use++ {
				req := p.Request()
				if req == nil {
					return
				}
				b := make([]byte, 1)
				n, _ := req.Body.Read(b)
				bodies <- string(b[:n])
				if use == 1 || closeAll && p.N > 0 {
					return
				}
				p.Say(StreamHead + Chunk(good) + "0\r\n\r\n")
			}
		})
	}
	r := s.rig(t, serve(false), Seams{})
	w := NewWatch(t, 1)
	c := NewCall(r.Target, w, "1")
	do(t, r, w, c)
	first := c.Facts.Conn.ID
	c.Body = []byte("2")
	do(t, r, w, c)
	f := &c.Facts
	if f.Err != nil {
		t.Fatal(f.Err)
	}
	same(t, "Attempts", f.Attempts, uint8(2))
	same(t, "Cold", f.Cold, wire.Resent|wire.Dialled)
	same(t, "another connection", f.Conn.ID != first, true)
	same(t, "Sent", f.Sent, int64(1))
	ordered(t, "Ready Acquired FirstWrite LastWrite HeadAt", f.Ready, f.Acquired, f.FirstWrite, f.LastWrite, f.HeadAt)
	for _, want := range []string{"1", "2", "2"} {
		same(t, "body", Wait(t, "a request", bodies), want)
	}
	// A second loss, on a fresh connection, is a failure.
	r = s.rig(t, serve(true), Seams{})
	c = NewCall(r.Target, w, "1")
	do(t, r, w, c)
	do(t, r, w, c)
	same(t, "Err", c.Facts.Err.Error(), "ServerDisconnectedError: Server disconnected")
	same(t, "Attempts", c.Facts.Attempts, uint8(2))
}

// early has the server refuse a large request before it has read it.
func early(t *testing.T, s HTTPSetup) {
	left := make(chan struct{})
	target := NewPeer(t, func(p *Peer) {
		p.Head()
		p.Say("HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nbig")
		<-left // it neither reads on nor closes
	})
	t.Cleanup(func() { close(left) })
	r := s.rig(t, target, Seams{})
	w := NewWatch(t, 1)
	c := NewCall(r.Target, w, strings.Repeat("x", 64<<20))
	do(t, r, w, c)
	same(t, "Err", c.Facts.Err.Error(), "Content Too Large: big")
	same(t, "Code", c.Facts.Err.Code, 413)
	same(t, "not all was sent", c.Facts.Sent < int64(len(c.Body)), true)
	same(t, "LastWrite", c.Facts.LastWrite, int64(0))
	same(t, "Open", r.Transport.Health().Open, 0)
}

// headerLines checks the very bytes of a request's head.
func headerLines(t *testing.T, s HTTPSetup) {
	got := make(chan string, 1)
	target := NewPeer(t, func(p *Peer) {
		var b strings.Builder
		for !strings.HasSuffix(b.String(), "\r\n\r\n") {
			c, err := p.br.ReadByte()
			if err != nil {
				return
			}
			b.WriteByte(c)
		}
		got <- b.String()
		p.Say(StreamHead + Chunk(good) + "0\r\n\r\n")
	})
	target.Host = "llm.example:8000"
	target.Header = []wire.Field{{Name: "User-Agent", Value: "prefire/1"}, {Name: "x-lower", Value: "a, b"}, {Name: "Content-Length", Value: "7"}}
	r := s.rig(t, target, Seams{})
	w := NewWatch(t, 1)
	c := NewCall(r.Target, w, "{}")
	c.Header = []wire.Field{{Name: "X-Request-ID", Value: "id"}, {Name: "Connection", Value: "close"}}
	c.Path = "/v2?x=1"
	do(t, r, w, c)
	same(t, "head", Wait(t, "the head", got), "POST /v2?x=1 HTTP/1.1\r\nHost: llm.example:8000\r\nUser-Agent: prefire/1\r\n"+
		"x-lower: a, b\r\nX-Request-ID: id\r\nContent-Length: 2\r\n\r\n")
	for _, bad := range []wire.Field{{Name: "X-A", Value: "a\r\nX-B: c"}, {Name: "X A", Value: "a"}, {Name: "", Value: "a"}} {
		c.Header = []wire.Field{bad}
		do(t, r, w, c)
		same(t, "refused "+bad.Name, c.Facts.Err != nil && c.Facts.Err.Type == "ValueError", true)
		same(t, "FirstWrite of "+bad.Name, c.Facts.FirstWrite, int64(0))
	}
}
