package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"prefire/internal/export"
	"prefire/loadgen"
)

// sessionsIn are the sessions of an inputs.json, in order, each with its first payload's name.
func sessionsIn(t *testing.T, path string) (list []string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Data []struct {
			Session  string `json:"session_id"`
			Payloads []struct{ Name string }
		}
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	for _, d := range file.Data {
		list = append(list, d.Session+" "+d.Payloads[0].Name)
	}
	return list
}

// What many workers issue at once stands in the file in the order of phases and numbers; what is left out was never issued.
func TestInputsStandInOrder(t *testing.T) {
	const phases, each, workers = 3, 400, 8
	dir := export.Dir{FS: export.Disk{}, Path: t.TempDir()}
	stream, err := dir.Stream(export.InputsFile)
	if err != nil {
		t.Fatal(err)
	}
	f := newInputs(stream)
	var want []string
	for phase := range phases {
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() {
				buf := make([]byte, 0, 100) // the caller's own, used again
				for seq := w; seq < each; seq += workers {
					if seq == 77 {
						continue // it failed before it was sent
					}
					buf = fmt.Appendf(buf[:0], `{"name":"%d.%d"}`, phase, seq)
					f.add(loadgen.Stream{Phase: phase}, int64(seq), fmt.Sprint("s", seq), buf)
				}
			})
		}
		for seq := range each {
			if seq != 77 {
				want = append(want, fmt.Sprintf("s%d %d.%d", seq, phase, seq))
			}
		}
		wg.Wait()
		f.phaseDone(phase)
	}
	if err := f.close(); err != nil {
		t.Fatal(err)
	}
	got := sessionsIn(t, filepath.Join(dir.Path, export.InputsFile))
	if !slices.Equal(got, want) {
		t.Errorf("the file has %d requests, want %d:\n%v\nwant\n%v", len(got), len(want), got, want)
	}
}

// A request that never comes holds up what stands behind it only as long as that is little.
func TestInputsDoNotWaitForever(t *testing.T) {
	f := &inputsFile{pending: map[place]input{}}
	f.cond = sync.NewCond(&f.mu)
	body := make([]byte, 1<<20)
	var ready []input
	for seq := int64(1); seq <= 100; seq++ { // 0 is missing
		f.add(loadgen.Stream{}, seq, fmt.Sprint(seq), body)
		before := len(ready)
		if ready = f.take(ready); f.waiting > outOfOrder {
			t.Fatalf("%d bytes wait after request %d", f.waiting, seq)
		}
		if before == 0 && len(ready) > 0 && seq != 33 {
			t.Errorf("the first requests left at number %d, want 33", seq)
		}
	}
	for i, in := range ready {
		if in.session != fmt.Sprint(i+1) {
			t.Fatalf("number %d is session %s", i+1, in.session)
		}
	}
	if len(ready) != 100 {
		t.Errorf("%d requests left, want all 100: what follows a gap in order has not to wait", len(ready))
	}
}

// Past the size of the file nothing is copied any more, however slow the disk.
func TestInputsAreBounded(t *testing.T) {
	body := make([]byte, 1<<10)
	f := &inputsFile{pending: map[place]input{}, copied: export.InputsLimit - 16<<10}
	f.cond = sync.NewCond(&f.mu)
	for seq := range int64(20) {
		f.add(loadgen.Stream{}, seq, "s", body)
	}
	if len(f.pending) != 16 || f.leftOut != 4 || !f.full {
		t.Errorf("%d requests kept, %d left out; want 16 and 4", len(f.pending), f.leftOut)
	}
}

// A copy of a body is made in memory that was used before.
func TestInputsReuseMemory(t *testing.T) {
	dir := export.Dir{FS: export.Disk{}, Path: t.TempDir()}
	stream, err := dir.Stream(export.InputsFile)
	if err != nil {
		t.Fatal(err)
	}
	f := &inputsFile{out: export.NewInputs(stream, 0), stream: stream, pending: map[place]input{}}
	f.cond = sync.NewCond(&f.mu)
	body := []byte(`{"name":"x"}`)
	var ready []input
	seq := int64(0)
	step := func() {
		f.add(loadgen.Stream{}, seq, "s", body)
		seq++
		ready = f.take(ready[:0])
		f.reuse(ready)
	}
	step()
	if n := testing.AllocsPerRun(100, step); n != 0 {
		t.Errorf("%v allocations a request", n)
	}
	stream.Discard()
}
