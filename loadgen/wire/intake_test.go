package wire_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"prefire/loadgen/wire"
	"prefire/loadgen/wire/wiretest"
)

type firsts struct{ n int }

func (f *firsts) First(*wire.Call) { f.n++ }
func (f *firsts) Done(*wire.Call)  {}

// at is the stamp of read n: it came at n µs, was read 5 µs later, and the connection was last seen empty 3 µs before it came.
func at(n int) wire.Stamp {
	us := int64(n) * 1000
	return wire.Stamp{At: us, User: us + 5000, Empty: us - 3000, Read: uint64(n), Kernel: true}
}

func newCall(obs wire.Observer) *wire.Call {
	c := &wire.Call{Parser: wiretest.Parser{}, Obs: obs, Keep: wire.KeepRaw}
	c.Begin(10)
	c.Facts.FirstWrite = 100
	return c
}

const answer = ": hello\n\ndata: f:\n\nid: 1\ndata: r:hm|c:one \r\n\r\ndata: c:two\rdata:  \r\revent: x\ndata: t:call\n\n" +
	"data: nonsense\n\ndata: u:{\"n\":3}\n\ndata: f:length\n\ndata: [DONE]\n\n"

// outcome is what must not depend on how a body was split.
func outcome(c *wire.Call) string {
	f := c.Facts
	var chunks []string
	for _, ch := range c.Chunks {
		chunks = append(chunks, fmt.Sprint(ch.Class, ch.Off, ch.Flags&wire.SamePart))
	}
	return fmt.Sprintf("text %q usage %q raw %q events %d finish %d done %v malformed %d received %d err %v chunks %v",
		c.Text, c.Usage, c.Raw, f.Events, f.Finish, f.SawDone, f.Malformed, f.Received, f.Err, chunks)
}

func play(body, contentType string, status int, cuts []int) (*wire.Call, *firsts) {
	obs := &firsts{}
	c := newCall(obs)
	c.Head(status, "", contentType, at(1))
	from := 0
	for i, to := range append(cuts, len(body)) {
		if err := c.Data([]byte(body[from:to]), at(i+2), true); err != nil {
			c.End(at(i+2), err.(*wire.Error))
			return c, obs
		}
		from = to
	}
	c.End(at(len(cuts)+2), nil)
	return c, obs
}

func TestAnySplitGivesTheSame(t *testing.T) {
	for name, tc := range map[string]struct {
		body, contentType string
		status            int
	}{
		"stream":             {answer, "text/event-stream; charset=utf-8", 200},
		"stream unannounced": {"\r\n" + answer, "text/plain", 200},
		"BOM":                {"\xef\xbb\xbf" + answer, "", 200},
		"no last blank line": {strings.TrimSuffix(answer, "\n"), "text/event-stream", 200},
		"no last line end":   {strings.TrimSuffix(answer, "\n\n"), "text/event-stream", 200},
		"whole":              {"c:all of it|f:stop", "application/json", 200},
		"whole like a mark":  {"date", "application/json", 200},
		"a mark's beginning": {"dat", "application/json", 200},
		"error":              {`{"error":"no"}`, "application/json", 500},
		"cut":                {answer[:60], "text/event-stream", 200},
	} {
		want, _ := play(tc.body, tc.contentType, tc.status, nil)
		for i := range len(tc.body) + 1 {
			if got, obs := play(tc.body, tc.contentType, tc.status, []int{i}); outcome(got) != outcome(want) || obs.n != min(1, len(got.Chunks)) {
				t.Fatalf("%s: cut at %d:\n%s\nwant\n%s\nFirst %d times", name, i, outcome(got), outcome(want), obs.n)
			}
		}
		var all []int
		for i := 1; i < len(tc.body); i++ {
			all = append(all, i)
		}
		if got, _ := play(tc.body, tc.contentType, tc.status, all); outcome(got) != outcome(want) {
			t.Errorf("%s: bytes alone:\n%s\nwant\n%s", name, outcome(got), outcome(want))
		}
	}
	want, _ := play(answer, "text/event-stream", 200, nil)
	if string(want.Text) != "hmone two\n call" || want.Facts.Malformed != 1 || want.Facts.Finish != wire.FinishLength {
		t.Errorf("the answer is read as %s", outcome(want))
	}
}

func TestStampsOfEvents(t *testing.T) {
	ev := wiretest.Event
	type event struct {
		at          int64
		slack, late uint32
		shared      bool
	}
	for name, tc := range map[string]struct {
		data func(c *wire.Call)
		want []event
	}{
		"each in its read": {func(c *wire.Call) {
			c.Data([]byte(ev("c:a")), at(2), true)
			c.Data([]byte(ev("c:b")), at(9), true)
		}, []event{{2000, 0, 5, false}, {9000, 0, 5, false}}},
		"two in one": {func(c *wire.Call) { c.Data([]byte(ev("c:a")+ev("c:b")), at(9), true) },
			[]event{{9000, 3, 5, false}, {9000, 0, 5, true}}},
		"two of one read in two calls": {func(c *wire.Call) {
			c.Data([]byte(ev("c:a")), at(9), false)
			c.Data([]byte(ev("c:b")), at(9), true)
		}, []event{{9000, 3, 5, false}, {9000, 0, 5, true}}},
		"unnumbered reads": {func(c *wire.Call) {
			s := at(9)
			s.Read = 0
			c.Data([]byte(ev("c:a")), s, true)
			c.Data([]byte(ev("c:b")), s, true)
		}, []event{{9000, 0, 5, false}, {9000, 0, 5, false}}},
		"the next one has begun": {func(c *wire.Call) { c.Data([]byte(ev("c:a")+"data"), at(9), true) }, []event{{9000, 3, 5, false}}},
		"a comment follows":      {func(c *wire.Call) { c.Data([]byte(ev("c:a")+":\n\n"), at(9), true) }, []event{{9000, 3, 5, false}}},
		"no content before":      {func(c *wire.Call) { c.Data([]byte(ev("f:")+ev("c:a")), at(9), true) }, []event{{9000, 0, 5, false}}},
		"never empty": {func(c *wire.Call) {
			s := at(9)
			s.Empty = 0
			c.Data([]byte(ev("c:a")), s, false)
		}, []event{{9000, 9, 5, false}}}, // since the first write, at 0.1 µs, rounded up
		"user stamp": {func(c *wire.Call) {
			c.Data([]byte(ev("c:a")), wire.Stamp{At: 9000, User: 9000, Empty: 5001, Read: 1}, true)
		}, []event{{9000, 4, 0, false}}},
		"stamp after the read": {func(c *wire.Call) {
			c.Data([]byte(ev("c:a")), wire.Stamp{At: 9001, User: 9000, Empty: 5000, Read: 1, Kernel: true}, true)
		}, []event{{9000, 4, 0, false}}},
		"stamp before the request": {func(c *wire.Call) {
			c.Data([]byte(ev("c:a")), wire.Stamp{At: 99, User: 9000, Empty: 5000, Read: 1, Kernel: true}, true)
		}, []event{{9000, 4, 0, false}}},
		"without its blank line": {func(c *wire.Call) {
			c.Data([]byte("data: c:a"), at(9), true)
			c.End(at(50), nil)
		}, []event{{9000, 0, 5, false}}},
		"half at a broken end": {func(c *wire.Call) {
			c.Data([]byte("data: c:a"), at(9), true)
			c.End(at(50), &wire.Error{Type: "X"})
		}, nil},
	} {
		c := newCall(nil)
		c.Head(200, "", "text/event-stream", at(1))
		tc.data(c)
		var got []event
		for _, ch := range c.Chunks {
			got = append(got, event{ch.At, ch.Slack, ch.Late, ch.Flags&wire.SharesRe != 0})
		}
		if !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
		fell := strings.HasPrefix(name, "stamp ")
		if fell != (c.Facts.StampsFell == 1) || len(c.Chunks) > 0 && fell != (c.Chunks[0].Flags&wire.StampFell != 0) {
			t.Errorf("%s: StampsFell = %d, chunks %v", name, c.Facts.StampsFell, c.Chunks)
		}
	}
}

// A read has one stamp, however many parts of the answer are in it.
func TestAReplacedStampCountsOnce(t *testing.T) {
	c := newCall(nil)
	for read := range uint64(2) {
		s := wire.Stamp{At: 99, User: 9000, Read: 7 + read, Kernel: true}
		if read == 0 {
			c.Head(200, "", "text/event-stream", s)
		}
		for _, last := range []bool{false, true} {
			if err := c.Data([]byte(wiretest.Event("c:a")), s, last); err != nil {
				t.Fatal(err)
			}
		}
	}
	if f := &c.Facts; f.StampsFell != 2 || len(c.Chunks) != 4 || c.Chunks[3].Flags&wire.StampFell == 0 {
		t.Errorf("StampsFell = %d of 2 reads, chunks %v", f.StampsFell, c.Chunks)
	}
}

// A head whose read had no kernel stamp, and was late, came no later than the body, whose read had one.
func TestAHeadIsNoLaterThanItsBody(t *testing.T) {
	c := newCall(nil)
	c.Head(200, "", "text/event-stream", wire.Stamp{At: 9000, User: 9000, Read: 1})
	if err := c.Data([]byte("data: c:a\n\n"), at(4), true); err != nil {
		t.Fatal(err)
	}
	if f := &c.Facts; f.HeadAt != 4000 || f.FirstByte != 4000 || f.HeadKernel {
		t.Errorf("head at %d (kernel %v), first byte at %d; want both at 4000, the head's by the user's clock", f.HeadAt, f.HeadKernel, f.FirstByte)
	}
}

func TestWholeAnswerHasTheTimeOfItsLastByte(t *testing.T) {
	c := newCall(nil)
	c.Head(200, "", "application/json", at(1))
	c.Data([]byte("c:all "), at(5), true)
	c.Data([]byte("of it"), at(9), true)
	c.End(at(60), nil)
	f := &c.Facts
	if f.Err != nil || c.Chunks[0].At != 9000 || c.Chunks[0].Slack != 0 ||
		f.FirstByte != 5000 || f.LastByte != 9000 || f.EndAt != 9000 || f.Reads != 2 {
		t.Errorf("chunks %+v, facts %+v", c.Chunks, f)
	}
}

func TestGenerations(t *testing.T) {
	c := newCall(nil)
	c.Text, c.Usage = append(c.Text, "old"...), append(c.Usage, "old"...)
	one := c.Generation()
	two := c.Begin(77)
	if two == one || c.Generation() != two || c.Facts.Ready != 77 || len(c.Text)+len(c.Usage)+len(c.Chunks) != 0 {
		t.Errorf("generations %d and %d, %+v", one, two, c.Facts)
	}
}

func TestErrorTextsAreBounded(t *testing.T) {
	c, _ := play(strings.Repeat("é", 100_000), "text/plain", 500, []int{70_000})
	if n := len(c.Facts.Err.Message); n > wire.MaxErrorText || n < wire.MaxErrorText-8 || !strings.HasSuffix(c.Facts.Err.Message, "é...") {
		t.Errorf("%d bytes, ending %q", n, c.Facts.Err.Message[n-6:])
	}
}

// The farewell of a shared connection may lie unread while a request is given to it.
// Errors that are alike have the same words on any connection.
func TestWordsHaveNoAddresses(t *testing.T) {
	op := &net.OpError{Op: "read", Net: "tcp", Source: &net.TCPAddr{Port: 40001}, Addr: &net.TCPAddr{Port: 80}, Err: syscall.ETIMEDOUT}
	for want, err := range map[string]error{
		"read tcp: connection timed out":                        op,
		"writing to the server: read tcp: connection timed out": fmt.Errorf("writing to the server: %w", op),
		"x509: unknown": errors.New("x509: unknown"),
	} {
		if got := wire.Words(err); got != want {
			t.Errorf("%v is %q, want %q", err, got, want)
		}
	}
}

func TestNoRequestEndsBeforeItIsReady(t *testing.T) {
	for _, kernel := range []bool{false, true} {
		c := &wire.Call{Parser: wiretest.Parser{}}
		c.Begin(5000)
		c.End(wire.Stamp{At: 3000, User: 3500, Kernel: kernel}, &wire.Error{Type: "ServerDisconnectedError"})
		if c.Facts.EndAt != 5000 {
			t.Errorf("kernel %v: the end is at %d, want 5000", kernel, c.Facts.EndAt)
		}
	}
}

// A server chooses its reason phrase, and it becomes the type of the error.
func TestReasonPhrasesAreBounded(t *testing.T) {
	c := newCall(&firsts{})
	c.Head(500, strings.Repeat("é", 100_000), "text/plain", at(1))
	c.End(at(2), nil)
	if got := c.Facts.Err.Type; len(got) > 128 || !strings.HasSuffix(got, "é...") || got != c.Facts.Reason {
		t.Errorf("the type has %d bytes: %q", len(got), got)
	}
}

// Blank lines may stand before an answer whose Content-Type does not say what it is, but not without end.
func TestBlankLinesBeforeAnAnswerAreBounded(t *testing.T) {
	for _, tc := range []struct {
		blank   int
		content string
	}{{64<<10 - 8, "one"}, {64 << 10, ""}} {
		body := strings.Repeat("\n", tc.blank) + wiretest.Event("c:one") + "data: [DONE]\n\n"
		for _, cuts := range [][]int{nil, {1, 70, 64<<10 - 3}} {
			c, _ := play(body, "text/plain", 200, cuts)
			if string(c.Text) != tc.content || (c.Facts.Err == nil) != (tc.content != "") {
				t.Errorf("%d blank lines, cuts %v: text %q, error %v; want %q", tc.blank, cuts, c.Text, c.Facts.Err, tc.content)
			}
		}
	}
	c := newCall(&firsts{})
	c.Head(200, "", "text/plain", at(1))
	blank := []byte(strings.Repeat("\n", 1<<20))
	for range wire.MaxEvent / len(blank) {
		if err := c.Data(blank, at(2), true); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Data(blank, at(3), true); err == nil {
		t.Errorf("more than %d bytes of blank lines are taken", wire.MaxEvent)
	}
}

// Chunks and text are all that grows, and they are kept from use to use.
func TestNoAllocationAChunk(t *testing.T) {
	c := newCall(&firsts{})
	c.Keep = wire.KeepText
	event := []byte(wiretest.Event("c:word") + wiretest.Event("r:more|c:text"))
	answer := func() {
		c.Begin(1)
		c.Head(200, "", "text/event-stream", at(1))
		for i := range 500 {
			c.Data(event, at(i+2), true)
		}
		c.Data([]byte("data: [DONE]\n\n"), at(600), true)
		c.End(at(600), nil)
	}
	answer()
	if n := testing.AllocsPerRun(20, answer); n > 1 { // the status's reason and the like, but nothing for 1,000 events
		t.Errorf("%v allocations for 1,000 events", n)
	}
	if len(c.Chunks) != 1500 || c.Facts.Err != nil {
		t.Errorf("%d chunks, %v", len(c.Chunks), c.Facts.Err)
	}
}

func FuzzSplit(f *testing.F) {
	f.Add([]byte(answer), uint64(1), true)
	f.Add([]byte("data"), uint64(2), false)
	f.Fuzz(func(t *testing.T, body []byte, seed uint64, stream bool) {
		contentType := "application/json"
		if stream {
			contentType = "text/event-stream"
		}
		want, _ := play(string(body), contentType, 200, nil)
		rng := rand.New(rand.NewPCG(seed, 0))
		var cuts []int
		for i := range body {
			if rng.IntN(4) == 0 {
				cuts = append(cuts, i)
			}
		}
		if got, _ := play(string(body), contentType, 200, cuts); outcome(got) != outcome(want) {
			t.Errorf("cuts %v:\n%s\nwant\n%s", cuts, outcome(got), outcome(want))
		}
	})
}

// A call has room for a short answer from the beginning, and for one as long as any before; a long limit alone takes no memory.
func TestRoomForChunks(t *testing.T) {
	var c wire.Call
	for _, step := range []struct{ limit, had, want int }{{0, 0, 0}, {64, 0, 64}, {32, 0, 64}, {100_000, 0, 256}, {64, 3000, 3000}} {
		if step.had > 0 {
			c.Chunks = make([]wire.Chunk, step.had)
		}
		c.MaxChunks = step.limit
		c.Begin(1)
		if len(c.Chunks) != 0 || cap(c.Chunks) != step.want {
			t.Errorf("limit %d: %d chunks, room for %d, want 0 and %d", step.limit, len(c.Chunks), cap(c.Chunks), step.want)
		}
	}
}
