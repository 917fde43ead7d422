package collect

import (
	"context"
	"errors"
	"flag"
	"math"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"prefire/loadgen"
	"prefire/loadgen/wire"
	"prefire/loadgen/wire/fake"
	"prefire/metrics"
)

var (
	flatRequests = flag.Int("flat.requests", 60_000, "requests of the run whose heap must stay flat")
	flatCap      = flag.Int("flat.cap", 5_000, "values that a series keeps; the series of gaps passes it last")
)

// endless is a source of one prompt without end, and the endpoint that takes it.
type endless struct{}

func (endless) Next(context.Context, loadgen.Stream) (*loadgen.Session, error) {
	return &loadgen.Session{Turns: []loadgen.Turn{{Messages: []loadgen.Message{{Role: "user", Content: "go"}}, Input: metrics.Known(1), MaxTokens: 2}}}, nil
}

func (endless) Streaming() bool                       { return true }
func (endless) Parser() wire.Parser                   { return endless{} }
func (endless) SpecDecode([]byte) *metrics.SpecDecode { return nil }

func (endless) Usage([]byte) (metrics.Usage, bool)  { return metrics.Usage{}, false }
func (endless) Body([]byte, *wire.Delta) wire.Class { return wire.Malformed }
func (endless) Answers(*loadgen.Turn) int           { return 1 }

func (endless) AppendBody(dst []byte, _ *loadgen.Turn, _ []loadgen.Message) ([]byte, error) {
	return append(dst, "go"...), nil
}

func (endless) Event(_, data []byte, d *wire.Delta) wire.Class {
	d.Content = data
	return wire.Content
}

// sunk is the sink as the program has it, without its files.
type sunk struct{ *Collector }

func (sunk) Issued(loadgen.Stream, int64, *loadgen.Session, []byte) {}

// gone is a journal that keeps nothing.
type gone struct{}

func (gone) Write(p []byte) (int, error)       { return len(p), nil }
func (gone) ReadAt([]byte, int64) (int, error) { return 0, errors.New("nothing was kept") }

// firstToken is the TTFT of the n-th request: evenly over three powers of ten from 1 ms, on a scale of their exponents.
func firstToken(n int64) time.Duration {
	z := uint64(n) + 0x9e3779b97f4a7c15 // SplitMix64's finisher
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	u := float64((z^z>>31)>>11) / (1 << 53)
	return time.Duration(1e6 * math.Pow(10, 3*u))
}

// A run's live heap does not grow with its length once all series are past their cap, and the percentiles that the histograms give are
// within half a unit of the third digit of the exact ones. The run is the engine's own over virtual time, with failures of ever new texts.
func TestTheHeapStaysFlatAndThePercentilesRight(t *testing.T) {
	const (
		sessions  = 64
		marks     = 20
		failEvery = 29
		slack     = 384 << 10 // of what is on its way at a mark
	)
	total := *flatRequests
	exact := make([]float32, 0, total) // ms, exact to 7 digits
	var heap [marks + 1]uint64
	acc := metrics.NewAccumulator(metrics.Options{Streaming: true, HDR: true, ExactCap: *flatCap})
	synctest.Test(t, func(t *testing.T) {
		clock := fake.NewClock()
		tr := fake.New(fake.Options{Clock: clock, Script: func(n int64, _ *wire.Call) fake.Answer {
			if n%failEvery == 0 {
				return fake.Answer{Status: fake.NoHead, Err: &wire.Error{Type: "ClientConnectorError", Message: "failure number " + strconv.FormatInt(n, 10)}}
			}
			return fake.Answer{Parts: []fake.Part{fake.Text(firstToken(n), "one"), fake.Text(time.Millisecond, " two", "[DONE]")}}
		}})
		emitted := 0
		c := New(Options{Journal: gone{}, Count: words, Counters: 1, MaxQueued: math.MaxInt, Emit: func(r *metrics.Record) error {
			acc.Add(r)
			if r.Valid() && r.Cold == 0 {
				exact = append(exact, float32(r.First-r.Start)/1e6)
			}
			if emitted++; emitted%(total/marks) == 0 {
				runtime.GC()
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				heap[emitted/(total/marks)] = m.HeapAlloc
			}
			return nil
		}})
		plan := &loadgen.Plan{Targets: []loadgen.Target{{Wire: &wire.Target{Scheme: "http", Host: "x", Addr: "x:80"}, URL: "http://x"}}, Keep: wire.KeepText,
			Phases: []loadgen.Phase{{Name: "profiling", Concurrency: sessions, Requests: int64(total), Grace: -1}}}
		sum, err := loadgen.Run(t.Context(), plan, loadgen.Deps{Clock: clock, Transport: tr, Source: endless{}, Endpoint: endless{}, Sink: sunk{c},
			NewID: func() string { return "id" }, Header: func(dst []wire.Field, _, _ string) []wire.Field { return dst }})
		if err := errors.Join(err, c.Close(), tr.Close(t.Context())); err != nil {
			t.Fatal(err)
		}
		if ps := sum.Phases[0]; ps.Sent != int64(total) || emitted != total {
			t.Errorf("%d sent, %d emitted; want %d", ps.Sent, emitted, total)
		}
	})
	// By the middle all series are past their cap, and as many kinds of errors have come as are told apart.
	flat := heap[marks/2:]
	t.Logf("live heap in KiB after each twentieth of %d requests: %v", total, kib(heap[1:]))
	if grown := int64(slices.Max(flat)) - int64(flat[0]); grown > slack {
		t.Errorf("the live heap grew by %d KiB over the second half", grown>>10)
	}
	slices.Sort(exact)
	for _, r := range acc.Results() {
		if r.Def.Tag != "time_to_first_token" {
			continue
		}
		if !r.Approx || r.Count != int64(len(exact)) {
			t.Errorf("%d values, of a histogram: %v; want %d and true", r.Count, r.Approx, len(exact))
		}
		for i, p := range metrics.Percentiles {
			pos := p / 100 * float64(len(exact)-1)
			low := int(pos)
			want := float64(exact[low])
			if low+1 < len(exact) {
				want += (pos - float64(low)) * float64(exact[low+1]-exact[low])
			}
			if off := math.Abs(r.P[i]/want - 1); off > 0.0005 {
				t.Errorf("p%v is %v, %.3g off the exact %v", p, r.P[i], off, want)
			}
		}
	}
}

func kib(bytes []uint64) []uint64 {
	out := make([]uint64, len(bytes))
	for i, b := range bytes {
		out[i] = b >> 10
	}
	return out
}
