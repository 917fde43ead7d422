package collect

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"

	"prefire/loadgen"
	"prefire/metrics"
)

// memory is a journal in memory.
type memory struct {
	mu     sync.Mutex
	b      []byte
	broken error
	reads  int
	back   int           // bytes read
	wrote  chan struct{} // where it is not nil, told of each write
}

func (m *memory) Write(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.broken != nil {
		return 0, m.broken
	}
	m.b = append(m.b, p...)
	if m.wrote != nil {
		m.wrote <- struct{}{}
	}
	return len(p), nil
}

func (m *memory) ReadAt(p []byte, off int64) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reads++
	if off >= int64(len(m.b)) {
		return 0, io.EOF
	}
	n := copy(p, m.b[off:])
	m.back += n
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func words(text []byte) int { return len(bytes.Fields(text)) }

// finish feeds n records: number i has i%7 output words, every third one reasoning as well, every fifth failed.
func finish(c *Collector, n int) {
	for i := range n {
		f := &loadgen.Finished{Record: metrics.Record{Seq: int64(i), Gaps: []metrics.Gap{metrics.Gap(i), metrics.Shared}}}
		f.Output = bytes.Repeat([]byte("w "), i%7)
		if i%3 == 0 {
			f.Reason = []byte("one two\n\"three\"")
		}
		if i%5 == 0 {
			f.Record.Err = &metrics.Error{Code: 500, Type: "Internal Server Error", Message: "<&>"}
		}
		c.Finished(f)
	}
}

func check(t *testing.T, got []metrics.Record, n int) {
	t.Helper()
	if len(got) != n {
		t.Fatalf("%d records emitted, want %d", len(got), n)
	}
	for i, r := range got {
		want := metrics.Record{Seq: int64(i), Gaps: []metrics.Gap{metrics.Gap(i), metrics.Shared}}
		if i%5 == 0 {
			want.Err = &metrics.Error{Code: 500, Type: "Internal Server Error", Message: "<&>"}
		} else {
			want.Out = metrics.Known(int64(i % 7))
			if i%3 == 0 {
				want.Reasoning = metrics.Known(3)
			}
		}
		if g, w := fmt.Sprintf("%+v %+v", r, r.Err), fmt.Sprintf("%+v %+v", want, want.Err); len(g) != len(w) || r.Seq != want.Seq ||
			r.Out != want.Out || r.Reasoning != want.Reasoning || fmt.Sprint(r.Gaps) != fmt.Sprint(want.Gaps) {
			t.Fatalf("record %d is %s, want %s", i, g, w)
		}
	}
}

func TestRecordsComeOutCountedInTheOrderTheyFinished(t *testing.T) {
	for _, counters := range []int{1, 4} {
		var got []metrics.Record
		c := New(Options{Journal: new(memory), Count: words, Counters: counters, MaxQueued: 1 << 20,
			Emit: func(r *metrics.Record) error { got = append(got, *r); return nil }})
		finish(c, 5000)
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		check(t, got, 5000)
	}
}

// A counter that stands still until everything has finished: the load is not held up, all but the first batch wait in the journal, which
// costs memory by the megabyte, and what comes back from there is the same.
func TestBatchesThatWaitTooLongWaitInTheJournal(t *testing.T) {
	const n, text = 400, 16 << 10
	var got []metrics.Record
	gate := make(chan struct{})
	j := &memory{wrote: make(chan struct{}, 1)}
	var once sync.Once
	c := New(Options{Journal: j, Counters: 2, MaxQueued: 1,
		Count: func(text []byte) int { once.Do(func() { <-gate }); return words(text) },
		Emit:  func(r *metrics.Record) error { got = append(got, *r); return nil }})
	output := bytes.Repeat([]byte("w "), text/2)
	for i := range n {
		c.Finished(&loadgen.Finished{Record: metrics.Record{Seq: int64(i)}, Output: output, Input: []byte("d e")})
		<-j.wrote // each record is a batch of its own
	}
	c.mu.Lock()
	// At most: one that is counted, one that was enough to wait, and what lies in the journal by the megabyte.
	if most := 2 + (n*(text+100))/(maxBatchText-(text+100)) + 1; len(c.queue) > most || len(c.filled) > 1 {
		t.Errorf("%d batches wait, %d are not written; want at most %d", len(c.queue), len(c.filled), most)
	}
	c.mu.Unlock()
	close(gate)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	for i, r := range got {
		if r.Seq != int64(i) || r.Out != metrics.Known(text/2) || r.In != metrics.Known(2) {
			t.Fatalf("record %d came out as number %d with %v output tokens and %v input tokens", i, r.Seq, r.Out, r.In)
		}
	}
	if len(got) != n || j.reads == 0 {
		t.Errorf("%d records, %d reads of the journal; want %d records, some read back", len(got), j.reads, n)
	}
}

// A disk that stands still for a while holds up neither the load nor the bounds of a batch.
func TestWhatFinishesWhileTheDiskStandsStillIsTakenInBatches(t *testing.T) {
	var got []metrics.Record
	j := &memory{wrote: make(chan struct{})}
	c := New(Options{Journal: j, Count: words, Counters: 1, MaxQueued: 1 << 20,
		Emit: func(r *metrics.Record) error { got = append(got, *r); return nil }})
	finish(c, 3000) // the first write waits meanwhile
	c.mu.Lock()
	for _, b := range c.filled {
		if len(b.items) > maxBatchItems {
			t.Errorf("a batch of %d records", len(b.items))
		}
	}
	c.mu.Unlock()
	done := make(chan error)
	go func() { done <- c.Close() }()
	for {
		select {
		case <-j.wrote:
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			check(t, got, 3000)
			return
		}
	}
}

// Whoever takes the records stands still: what has finished waits in the journal, and comes into memory again only as it is taken.
func TestWhatIsNotTakenWaitsInTheJournal(t *testing.T) {
	const n, most = 2000, 64 << 10
	var got []metrics.Record
	gate := make(chan struct{})
	j := new(memory)
	c := New(Options{Journal: j, Count: words, Counters: 3, MaxQueued: most,
		Emit: func(r *metrics.Record) error { <-gate; got = append(got, *r); return nil }})
	emitted := 0 // bytes of lines, at least
	check := func() {
		t.Helper()
		j.mu.Lock()
		defer j.mu.Unlock()
		// The oldest always goes on, and one may be about to.
		if inMemory := j.back - emitted; inMemory > most+2*maxBatchText {
			t.Fatalf("%d bytes were read back and not taken, want about %d", inMemory, most)
		}
	}
	output := bytes.Repeat([]byte("w "), 2<<10)
	for i := range n {
		c.Finished(&loadgen.Finished{Record: metrics.Record{Seq: int64(i)}, Output: output})
		if i%100 == 0 {
			check()
		}
	}
	done := make(chan error)
	go func() { done <- c.Close() }()
	for i := range n {
		gate <- struct{}{}
		if emitted += len(output); i%100 == 0 {
			check()
		}
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	for i, r := range got {
		if r.Seq != int64(i) || r.Out != metrics.Known(2<<10) {
			t.Fatalf("record %d came out as number %d with %v output tokens", i, r.Seq, r.Out)
		}
	}
	if len(got) != n {
		t.Errorf("%d records, want %d", len(got), n)
	}
}

func TestABrokenJournalLosesNoRecordAndIsReported(t *testing.T) {
	var got []metrics.Record
	full := errors.New("no space left on device")
	c := New(Options{Journal: &memory{broken: full}, Count: words, Counters: 1, MaxQueued: 1 << 20,
		Emit: func(r *metrics.Record) error { got = append(got, *r); return nil }})
	finish(c, 100)
	if err := c.Close(); !errors.Is(err, full) {
		t.Errorf("Close() = %v, want the journal's error", err)
	}
	if c.Journalled() {
		t.Error("the journal is said to hold everything")
	}
	check(t, got, 100)
}

func TestTheServersCountsNeedNoCounting(t *testing.T) {
	var got []metrics.Record
	c := New(Options{Journal: new(memory), Counters: 1, MaxQueued: 1 << 20,
		Emit: func(r *metrics.Record) error { got = append(got, *r); return nil }})
	finish(c, 3)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if !c.Journalled() {
		t.Error("the journal is said to lack records")
	}
	for _, r := range got {
		if r.Out.Known || r.Reasoning.Known {
			t.Errorf("record %d has client counts", r.Seq)
		}
	}
}

// A failed request's text counts all the same; a count that the source knew stands.
func TestInputsAreCountedWhereTheSourceDidNotKnow(t *testing.T) {
	failed := &metrics.Error{Code: 500, Type: "T"}
	var got []metrics.Count
	c := New(Options{Journal: new(memory), Count: words, Counters: 1, MaxQueued: 1 << 20,
		Emit: func(r *metrics.Record) error { got = append(got, r.In); return nil }})
	for _, f := range []loadgen.Finished{
		{Input: []byte("one two three")}, {Record: metrics.Record{Err: failed}, Input: []byte("one")},
		{Record: metrics.Record{In: metrics.Known(9)}}, {Record: metrics.Record{Err: failed}},
	} {
		c.Finished(&f)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	want := []metrics.Count{metrics.Known(3), metrics.Known(1), metrics.Known(9), {}}
	if !slices.Equal(got, want) {
		t.Errorf("input counts %v, want %v", got, want)
	}
}
