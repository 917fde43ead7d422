package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestSystemTimesAreReadFromProc(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("1/schedstat", "900 1500 3\n")
	write("2/schedstat", "100 2500 4\n")
	if got := threadWaits(dir); got != (reading[time.Duration]{4000, true}) {
		t.Errorf("waited %+v, want 4000 ns", got)
	}
	write("3/schedstat", "broken")
	if got := threadWaits(dir); got.ok {
		t.Errorf("a broken file gives %+v", got)
	}
	if got := threadWaits(filepath.Join(dir, "none")); got.ok {
		t.Errorf("no file gives %+v", got)
	}
	write("stat", "cpu  10 2 3 1000 50 4 5 6 0 0\ncpu0 1 1 1 1\n")
	if got, stolen := coresBusy(filepath.Join(dir, "stat")); got != (reading[time.Duration]{300 * time.Millisecond, true}) ||
		stolen != (reading[time.Duration]{60 * time.Millisecond, true}) {
		t.Errorf("busy %+v, stolen %+v; want 300 ms: user 10, nice 2, system 3, irq 4, softirq 5, steal 6 ticks", got, stolen)
	}
	for _, text := range []string{"", "cpu 1 2", "intr 1 2 3 4 5 6 7 8 9", "cpu a b c d e f g h i"} {
		write("stat", text)
		if got, stolen := coresBusy(filepath.Join(dir, "stat")); got.ok || stolen.ok {
			t.Errorf("%q gives %+v and %+v", text, got, stolen)
		}
	}
	if cpu, _, _, _ := systemTimes(); !cpu.ok || cpu.v <= 0 {
		t.Errorf("this process used %+v", cpu)
	}
}
