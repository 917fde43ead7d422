//go:build unix

package dataset

import (
	"context"
	"flag"
	"runtime"
	"syscall"
	"testing"
)

var big = flag.Int("dataset.prompts", 2000, "prompts of 8,192 tokens that TestManyLongPrompts makes; 100000 is the size that is promised")

// Many long prompts take little CPU and memory. The times are said, not held; memory is: the prompts are never all there.
func TestManyLongPrompts(t *testing.T) {
	o := options(8192)
	o.Template, o.Variables = summarize, topics
	s := source(t, o)
	var before, after syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &before); err != nil {
		t.Fatal(err)
	}
	var most uint64
	for i := range *big {
		if _, err := s.Next(context.Background(), profiling); err != nil {
			t.Fatal(err)
		}
		if i%500 == 0 {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapInuse)
		}
	}
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &after); err != nil {
		t.Fatal(err)
	}
	cpu := after.Utime.Nano() - before.Utime.Nano() + after.Stime.Nano() - before.Stime.Nano()
	t.Logf("%d prompts of 8192 tokens: %.1f s CPU, %.3f ms each; heap at most %d MiB", *big, float64(cpu)/1e9, float64(cpu)/1e6/float64(*big), most>>20)
	if most > 128<<20 {
		t.Errorf("%d MiB of heap in use, want 128 at most", most>>20)
	}
	if got, want := s.Stats(), (Stats{Distinct: int64(*big), Tokens: 8192 * int64(*big)}); got != want {
		t.Errorf("stats %+v, want %+v", got, want)
	}
}
