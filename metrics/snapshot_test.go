package metrics

import (
	"fmt"
	"reflect"
	"sync"
	"testing"
)

// watchedRecord is a streamed answer with a TTFT in ms, 10 gaps of 2 ms, and 30 input tokens.
func watchedRecord(ttft int64, cold Cold) *Record {
	r := &Record{Streaming: true, Phase: 0, Cold: cold, Start: 1e9, First: 1e9 + ttft*1e6, Intended: 1e9 - 3e6, Ready: 1e9 - 1e6, FirstLate: 250, KernelStamps: true, Chunks: 11}
	r.Last = r.First + 20e6
	r.End = r.Last
	r.In, r.Out = Count{N: 30, Known: true}, Count{N: 11, Known: true}
	return r
}

// What a snapshot says is what the results say, with the histogram's digits.
func TestSnapshot(t *testing.T) {
	a := NewAccumulator(Options{Streaming: true, HDR: true})
	for ms := int64(1); ms <= 100; ms++ {
		a.Add(watchedRecord(ms, 0))
	}
	a.Add(watchedRecord(5000, ColdDialled))
	s := a.Snapshot([]float64{0.5, 1.5, 50.5, 1000})
	if s.OK != 101 || s.Cold != 1 || s.Input != 3030 || s.Output != 1111 {
		t.Errorf("%+v, %v cold, %v and %v tokens", s.Counts, s.Cold, s.Input, s.Output)
	}
	near := func(got, want float64) bool { return got >= want*0.999 && got <= want*1.001 }
	if w := s.TTFT; w.Count != 100 || w.Sum != 5050 || !near(w.P50, 50) || !near(w.P90, 90) || !near(w.P99, 99) || w.Max != 100 ||
		!reflect.DeepEqual(w.Within, []int64{0, 1, 50, 100}) {
		t.Errorf("TTFT %+v", w)
	}
	if w := s.ITL; w.Count != 100 || !near(w.P50, 2) || w.Max != 2 {
		t.Errorf("ITL %+v", w)
	}
	if w := s.ReceiveDelay; w.Count != 101 || w.Max != 0.25 {
		t.Errorf("receive delay %+v", w)
	}
	if w := s.SendLate; w.Count != 101 || w.Max != 2 {
		t.Errorf("send lateness %+v", w)
	}
	all := NewAccumulator(Options{Streaming: true, HDR: true, IncludeCold: true})
	all.Add(watchedRecord(10, 0))
	all.Add(watchedRecord(5000, ColdDialled))
	if w := all.Snapshot(nil).TTFT; w.Count != 2 || w.Max != 5000 || w.Within != nil {
		t.Errorf("with cold requests: %+v", w)
	}
	if got := NewAccumulator(Options{}).Snapshot([]float64{1}); !reflect.DeepEqual(got, Snapshot{}) {
		t.Errorf("of nothing: %+v", got)
	}
}

// Watching changes nothing, and may go on while records are added.
func TestSnapshotWhileAdding(t *testing.T) {
	a, b := NewAccumulator(Options{Streaming: true, HDR: true, ExactCap: 100}), NewAccumulator(Options{Streaming: true, HDR: true, ExactCap: 100})
	stop := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				a.Snapshot([]float64{10})
			}
		}
	})
	for i := range int64(300) {
		a.Add(watchedRecord(1+i*7%90, 0))
		b.Add(watchedRecord(1+i*7%90, 0))
	}
	close(stop)
	watching.Wait()
	x, y := a.Results(), b.Results()
	for i := range x {
		x[i].Def, y[i].Def = nil, nil // each has a table of its own
	}
	if !reflect.DeepEqual(x, y) {
		t.Errorf("the results are others where they were watched: %v and %v", x, y)
	}
}

// BenchmarkAddWatched adds records with and without someone who takes snapshots as often as a dashboard draws: four a second, as a share of
// what a second of adding is here.
func BenchmarkAddWatched(b *testing.B) {
	for _, c := range []struct {
		name  string
		every int // records between two snapshots; 0 = none
	}{{"alone", 0}, {"a snapshot every 2,500", 2500}} {
		b.Run(c.name, func(b *testing.B) {
			a, r := NewAccumulator(Options{Streaming: true, HDR: true}), watchedRecord(20, 0)
			for range DefaultExactCap + 1 {
				a.Add(r)
			}
			n := 0
			b.ReportAllocs()
			for b.Loop() {
				a.Add(r)
				if n++; c.every > 0 && n%c.every == 0 {
					a.Snapshot(nil)
				}
			}
		})
	}
}

// BenchmarkSnapshot is one snapshot of a long run, with the bounds of the live metrics.
func BenchmarkSnapshot(b *testing.B) {
	a := NewAccumulator(Options{Streaming: true, HDR: true})
	for i := range int64(200_000) {
		a.Add(watchedRecord(1+i%900, 0))
	}
	for _, within := range [][]float64{nil, {1, 10, 100, 1000}} {
		b.Run(fmt.Sprint(len(within), " bounds"), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				a.Snapshot(within)
			}
		})
	}
}
