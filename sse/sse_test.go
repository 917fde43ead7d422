package sse

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// event is an event with its fields as strings, and where in the stream its last line ended.
type event struct {
	name, data, id, comment string
	cut                     bool
	end                     int // offset after the line end of the blank line; after the CR of a CRLF
	full                    int // offset after the whole line end
}

func (e event) String() string {
	return fmt.Sprintf("{name %q data %q id %q comment %q cut %v}", e.name, e.data, e.id, e.comment, e.cut)
}

// spec decodes a whole stream by the letter of the WHATWG grammar, with the two additions that Decoder's doc names and the event that
// lacks only its blank line.
func spec(stream string) (list []event) {
	pos := 0
	if strings.HasPrefix(stream, "\ufeff") {
		pos = len("\ufeff")
	}
	var data []string
	var e event
	reset := func() { data, e = nil, event{} }
	hasData := func() bool { return data != nil }
	emit := func() {
		if hasData() || e.name != "" {
			e.data = strings.Join(data, "\n")
			list = append(list, e)
		}
		reset()
	}
	hasComment := false
	line := func(l string) {
		name, value, colon := strings.Cut(l, ":")
		if colon {
			value = strings.TrimPrefix(value, " ")
		}
		switch {
		case name == "data":
			data = append(data, value)
		case name == "event":
			e.name = value
		case name == "id" && !strings.Contains(value, "\x00"):
			e.id = value
		case name == "id", name == "retry":
		case name == "":
			if !hasComment {
				e.comment, hasComment = value, true
			}
		default:
			if all := strings.Join(data, "\n"); strings.HasPrefix(all, "{") && !strings.HasSuffix(all, "}") {
				data = append(data, l)
			}
		}
	}
	for pos < len(stream) {
		n := strings.IndexAny(stream[pos:], "\r\n")
		if n < 0 {
			line(stream[pos:])
			break
		}
		l := stream[pos : pos+n]
		pos += n + 1
		end := pos
		if stream[pos-1] == '\r' && pos < len(stream) && stream[pos] == '\n' {
			pos++
		}
		if l != "" {
			line(l)
			continue
		}
		e.end, e.full = end, pos
		emit()
		hasComment = false
	}
	e.cut = true
	emit()
	return list
}

// feed decodes a stream in pieces that end at the given offsets.
func feed(t testing.TB, d *Decoder, stream string, cuts ...int) (list []event) {
	t.Helper()
	from := 0
	for _, to := range append(cuts, len(stream)) {
		// A copy that is overwritten afterwards: the decoder may keep nothing of what it was fed.
		piece := []byte(stream[from:to])
		d.Feed(piece)
		for {
			var ev Event
			ok, err := d.Next(&ev)
			if err != nil {
				t.Fatalf("%q cut at %v: %v", stream, cuts, err)
			}
			if !ok {
				break
			}
			e := strs(&ev)
			e.end, e.full = to-d.Rest(), from // checked by the caller through these
			list = append(list, e)
		}
		if d.Rest() != 0 {
			t.Fatalf("%q cut at %v: %d bytes are left when no event is", stream, cuts, d.Rest())
		}
		for i := range piece {
			piece[i] = 'x'
		}
		from = to
	}
	var ev Event
	if d.Finish(&ev) {
		list = append(list, strs(&ev))
	}
	if d.Finish(&ev) {
		t.Fatalf("%q: Finish gives the event twice", stream)
	}
	return list
}

func strs(ev *Event) event {
	return event{name: string(ev.Name), data: string(ev.Data), id: string(ev.ID), comment: string(ev.Comment), cut: ev.Cut}
}

// same compares what a split stream gave with the grammar's events: their fields, and that each came with the read that completed it,
// leaving over exactly the bytes behind it.
func same(t testing.TB, stream string, cuts []int, got, want []event) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%q cut at %v:\ngot  %v\nwant %v", stream, cuts, got, want)
	}
	for i, g := range got {
		w := want[i]
		from, at := g.full, g.end
		g.end, g.full = w.end, w.full
		if g != w {
			t.Fatalf("%q cut at %v, event %d:\ngot  %v\nwant %v", stream, cuts, i, g, w)
		}
		if w.cut {
			continue
		}
		to := len(stream)
		for _, c := range cuts {
			if c >= w.end {
				to = c
				break
			}
		}
		if from >= w.end || at != min(w.full, to) {
			t.Fatalf("%q cut at %v, event %d ends at %d (%d): it came out of the read from %d, with the rest beginning at %d",
				stream, cuts, i, w.end, w.full, from, at)
		}
	}
}

var streams = []struct {
	name, stream string
	want         []event // fields only
}{
	{"LF", "data: a\n\ndata: b\n\n", []event{{data: "a"}, {data: "b"}}},
	{"CRLF", "data: a\r\n\r\ndata: b\r\n\r\n", []event{{data: "a"}, {data: "b"}}},
	{"CR", "data: a\r\rdata: b\r\r", []event{{data: "a"}, {data: "b"}}},
	{"mixed", "data: a\r\n\ndata: b\n\rdata: c\r\r\ndata: d\n\r\n", []event{{data: "a"}, {data: "b"}, {data: "c"}, {data: "d"}}},
	{"no space", "data:a\n\n", []event{{data: "a"}}},
	{"one space goes", "data:  a \n\n", []event{{data: " a "}}},
	{"no colon", "data\n\n", []event{{}}},
	{"empty data", "data:\n\ndata: \n\n", []event{{}, {}}},
	{"lines joined", "data: a\ndata:\ndata: b\n\n", []event{{data: "a\n\nb"}}},
	{"BOM", "\ufeffdata: a\n\n", []event{{data: "a"}}},
	{"BOM once", "\ufeff\ufeffdata: a\n\ndata: b\n\n", []event{{data: "b"}}},
	{"BOM alone", "\ufeff", nil},
	{"BOM then nothing", "\ufeff\n\ndata: a\n\n", []event{{data: "a"}}},
	{"comment alone", ": ping\n\n:\n\ndata: a\n\n", []event{{data: "a"}}},
	{"comments inside", ": one\ndata: a\n: two\n\ndata: b\n\n", []event{{data: "a", comment: "one"}, {data: "b"}}},
	{"id and retry", "id: 7\nretry: 10\ndata: a\n\nid\ndata: b\n\ndata: c\n\n", []event{{data: "a", id: "7"}, {data: "b"}, {data: "c"}}},
	{"id with NUL", "id: 7\nid: 8\x00\ndata: a\n\n", []event{{data: "a", id: "7"}}},
	{"event", "event: error\ndata: a\n\ndata: b\n\n", []event{{name: "error", data: "a"}, {data: "b"}}},
	{"event without data", "event: error\n: why\n\nevent: \n\n", []event{{name: "error", comment: "why"}}},
	{"the last name stands", "event: a\nevent: b\ndata: x\n\nevent: a\nevent\ndata: y\n\n", []event{{name: "b", data: "x"}, {data: "y"}}},
	{"the field names are exact", "DATA: a\n data: b\ndata : c\nfoo: d\n\ndata: e\n\n", []event{{data: "e"}}},
	{"a colon in the value", "data: a: b:\n\n", []event{{data: "a: b:"}}},
	{"U+2028 and U+0085 end no line", "event: e\ndata: a\u2028b\u0085c\n\n", []event{{name: "e", data: "a\u2028b\u0085c"}}},
	{"NUL and bytes that are not UTF-8", "data: a\x00\xff\n\n", []event{{data: "a\x00\xff"}}},
	{"blank lines", "\n\r\n\rdata: a\n\n\n\n", []event{{data: "a"}}},
	{"cut before the blank line", "data: a\n\ndata: b\n", []event{{data: "a"}, {data: "b", cut: true}}},
	{"cut in a line", "data: a\n\nevent: e\ndata: b", []event{{data: "a"}, {name: "e", data: "b", cut: true}}},
	{"cut after the CR", "data: a\r\n\r", []event{{data: "a"}}},
	{"cut in a field's name", "dat", nil},
	{"cut with a BOM", "\ufeffdata: a", []event{{data: "a", cut: true}}},
	{"a line feed inside a JSON string", "data: {\"a\":\"x\ny: z\"}\n\ndata: b\ny\n\n", []event{{data: "{\"a\":\"x\ny: z\"}"}, {data: "b"}}},
	{"nothing follows JSON that ended", "data: {}\nx\n\n", []event{{data: "{}"}}},
	{"vLLM", "data: {\"a\":1}\n\ndata: [DONE]\n\n", []event{{data: `{"a":1}`}, {data: "[DONE]"}}},
	{"nothing", "", nil},
}

// Every stream gives the same events however it is split: whole, byte by byte, in two at each offset.
func TestStreams(t *testing.T) {
	for _, c := range streams {
		want := spec(c.stream)
		var fields []event
		for _, e := range want {
			e.end, e.full = 0, 0
			fields = append(fields, e)
		}
		if !reflect.DeepEqual(fields, c.want) {
			t.Errorf("%s: the grammar gives %v, want %v", c.name, fields, c.want)
			continue
		}
		splits := [][]int{nil, nil}
		for i := range len(c.stream) + 1 {
			splits[1] = append(splits[1], i)
			splits = append(splits, []int{i})
		}
		d := NewDecoder(0)
		for _, cuts := range splits {
			d.Reset()
			same(t, c.stream, cuts, feed(t, d, c.stream, cuts...), want)
		}
	}
}

func TestRest(t *testing.T) {
	for _, c := range []struct {
		fed  string
		rest int
	}{
		{"data: a\n\n", 0}, {"data: a\r\n\r\n", 0}, {"data: a\r\r", 0}, {"data: a\n\r", 0}, {"data: a\r\n\r\nd", 1}, {"data: a\n\n\n", 1},
		{"data: a\n\ndata: b\n\n", 9}, {": c\n\ndata: a\n\n", 0},
	} {
		d := NewDecoder(0)
		d.Feed([]byte(c.fed))
		var ev Event
		if ok, err := d.Next(&ev); !ok || err != nil {
			t.Fatalf("%q: %v, %v", c.fed, ok, err)
		}
		if d.Rest() != c.rest {
			t.Errorf("%q: the rest after the first event is %d, want %d", c.fed, d.Rest(), c.rest)
		}
	}
}

func TestHugeEvent(t *testing.T) {
	text := strings.Repeat("0123456789abcdef", 1<<16) // 1 MiB
	stream := "data: " + text + "\n\ndata: b\n\n"
	var cuts []int
	for i := 16 << 10; i < len(stream); i += 16 << 10 {
		cuts = append(cuts, i)
	}
	same(t, stream, cuts, feed(t, NewDecoder(0), stream, cuts...), spec(stream))
}

// The bound holds for the event's lines together, wherever the reads end; what came before it is given out.
func TestTooLong(t *testing.T) {
	const limit = 20
	for _, c := range []struct {
		stream string
		events int
		long   bool
	}{
		{"data: 12345678901234\n\n", 1, false},
		{"data: 123456789012345\n\n", 0, true},
		{"data: 123456789012345", 0, true},
		{"data: 1\n\ndata: 1234567890\ndata: 1\n\n", 1, true},
		{"data: 1234\ndata: 1234\n\ndata: 1234\ndata: 1234\n\n", 2, false},
		{": 123456789012345678\n\n: 123456789012345678\n\ndata: a\n\n", 1, false},
		{"id: 1\nevent: 2\n: 3\ndata: 4\n\n", 0, true},
	} {
		for size := 1; size <= len(c.stream); size++ {
			d := NewDecoder(limit)
			n := 0
			var failed error
			for from := 0; from < len(c.stream) && failed == nil; from += size {
				d.Feed([]byte(c.stream[from:min(from+size, len(c.stream))]))
				for ok := true; ok && failed == nil; {
					var ev Event
					if ok, failed = d.Next(&ev); ok {
						n++
					}
				}
			}
			var long *TooLongError
			if n != c.events || errors.As(failed, &long) != c.long {
				t.Errorf("%q in reads of %d: %d events, error %v", c.stream, size, n, failed)
			}
			if c.long && (long == nil || long.Max != limit || failed.Error() != "an event of the stream is longer than 20 bytes") {
				t.Errorf("%q: error %v", c.stream, failed)
			}
		}
	}
}

func TestResetForgets(t *testing.T) {
	d := NewDecoder(0)
	feed(t, d, "\ufeffevent: e\nid: 1\n: c\ndata: a\n\ndata: half\r")
	d.Feed([]byte("data: never read\n"))
	d.Reset()
	stream := "\ufeffdata: b\n\n"
	same(t, stream, nil, feed(t, d, stream), spec(stream))
}

func TestAppendEvent(t *testing.T) {
	for _, c := range []struct{ name, data, want string }{
		{"", "a", "data: a\n\n"},
		{"", "", "data: \n\n"},
		{"error", "a\nb", "event: error\ndata: a\ndata: b\n\n"},
		{"", "a\r\nb\rc\n", "data: a\ndata: b\ndata: c\ndata: \n\n"},
		{"", " a", "data:  a\n\n"},
	} {
		if got := string(AppendEvent([]byte("x"), c.name, []byte(c.data))); got != "x"+c.want {
			t.Errorf("%q %q: %q, want %q", c.name, c.data, got, c.want)
		}
	}
}

func FuzzDecoder(f *testing.F) {
	for _, c := range streams {
		f.Add(c.stream, []byte{1, 3, 0, 2})
	}
	// What the mock's faults send.
	for _, stream := range []string{
		"\xef\xbb\xbf: a comment\nid: 7\nretry: 1000\nevent: message\nunknown: field\ndata: {\"a\":1}\n\n",
		"data: {\ndata: \"a\":1}\r\n\rdata: [DONE]\r\n\n",
		"event: error\n: the engine died\n\ndata: [DONE]\n\n",
		"data: {\"a\":1}\n\ndata: {\"a\":\" ha",
	} {
		f.Add(stream, []byte{1, 1, 1, 5})
	}
	f.Fuzz(func(t *testing.T, stream string, sizes []byte) {
		var cuts []int
		for i, at := 0, 0; i < len(sizes) && at < len(stream); i++ {
			at = min(at+int(sizes[i]), len(stream))
			cuts = append(cuts, at)
		}
		want := spec(stream)
		same(t, stream, cuts, feed(t, NewDecoder(0), stream, cuts...), want)
		same(t, stream, nil, feed(t, NewDecoder(0), stream), want)
	})
}

func FuzzAppendEvent(f *testing.F) {
	f.Add("", "a\r\n\rb\n", "c")
	f.Add("error", "", "\ufeff")
	f.Fuzz(func(t *testing.T, name, first, second string) {
		if strings.ContainsAny(name, "\r\n") {
			return
		}
		stream := AppendEvent(AppendEvent(nil, name, []byte(first)), "", []byte(second))
		lf := func(s string) string { return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n") }
		want := []event{{name: name, data: lf(first)}, {data: lf(second)}}
		var got []event
		for _, e := range feed(t, NewDecoder(0), string(stream)) {
			e.end, e.full = 0, 0
			got = append(got, e)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %v, want %v", stream, got, want)
		}
	})
}

var chunk = []byte(`data: {"id":"chatcmpl-948de6b95a66eaad","object":"chat.completion.chunk","created":1796058515,"model":"tiny",` +
	`"choices":[{"index":0,"delta":{"content":" feedforward"},"logprobs":null,"finish_reason":null,"token_ids":null}]}` + "\n\n")

func TestEventAllocatesNothing(t *testing.T) {
	stream := append(bytes.Repeat(chunk, 3), "event: e\nid: 1\n: c\ndata: a\ndata: b\r\n\r\n"...)
	for _, size := range []int{len(stream), 100, 1} {
		d := NewDecoder(0)
		events := 0
		var ev Event
		once := func() {
			d.Reset()
			for p := stream; len(p) > 0; {
				n := min(size, len(p))
				d.Feed(p[:n])
				p = p[n:]
				for {
					ok, err := d.Next(&ev)
					if err != nil {
						t.Fatal(err)
					}
					if !ok {
						break
					}
					events++
				}
			}
		}
		if n := testing.AllocsPerRun(50, once); n != 0 {
			t.Errorf("reads of %d: %v allocations", size, n)
		}
		if events != 4*51 {
			t.Errorf("reads of %d: %d events", size, events)
		}
	}
}

func BenchmarkDecoder(b *testing.B) {
	d := NewDecoder(0)
	var ev Event
	b.ReportAllocs()
	b.SetBytes(int64(len(chunk)))
	for b.Loop() {
		d.Feed(chunk)
		if ok, err := d.Next(&ev); !ok || err != nil {
			b.Fatal(ok, err)
		}
	}
}
