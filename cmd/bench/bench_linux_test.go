package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"prefire/internal/bench"
)

// TestMain lets the test's binary stand in for the command where the row prompts starts it again.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "--make-prompts" {
		if err := run(context.Background(), os.Args[1:], io.Discard, os.Stderr); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestRowsAreMeasuredFromStartToTables(t *testing.T) {
	dir := t.TempDir()
	doc := filepath.Join(dir, "doc.md")
	if err := os.WriteFile(doc, []byte("before\n"+bench.BeginMark+"\n"+bench.EndMark+"\nafter\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr strings.Builder
	// A machine that stalls is no failure of the command: no round is thrown away here.
	err := run(t.Context(), []string{"--rounds", "1", "--rows", "start,truth-200-f*,prompts", "--scale", "0.02", "--stall-limit", "1e9", "--out", dir, "--doc", doc}, &stdout, &stderr)
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	var rounds []bench.Round
	text, err := os.ReadFile(filepath.Join(dir, "rounds.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &rounds); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range rounds {
		names = append(names, r.Row)
		if r.Thrown != "" || len(r.Runs) != 1 {
			t.Fatalf("%s: %q, %d runs; want one\n%s", r.Row, r.Thrown, len(r.Runs), stderr.String())
		}
		run := &r.Runs[0]
		if run.Error != "" || run.CPU <= 0 || run.Wall <= 0 || run.PeakRSS <= 0 || r.Before.Chunks <= 0 || r.After.CPUPerChunk <= 0 {
			t.Errorf("%s: %+v, %+v", r.Row, run, r.After)
		}
		switch r.Row {
		case "start":
			if run.OK != 1 || run.First <= 0 || run.First > run.Wall {
				t.Errorf("one request: %d ok, the first %v s after the start of %v s", run.OK, run.First, run.Wall)
			}
		case "truth-200-fast":
			c := run.Comparison
			if run.OK != 40 || c == nil || c.Matched != 40 || c.Unmatched != 0 || !c.TTFT.Stated || c.TTFT.Count == 0 || c.ITL.Count == 0 {
				t.Errorf("40 requests: %d ok, %+v", run.OK, c)
			}
		case "prompts":
			if run.Prompts != 400 {
				t.Errorf("%d prompts, want 400", run.Prompts)
			}
		}
	}
	if want := []string{"start", "truth-200-fast", "prompts"}; !slices.Equal(names, want) {
		t.Errorf("rows %q, want %q", names, want)
	}
	tables, err := os.ReadFile(filepath.Join(dir, "tables.md"))
	if err != nil || string(tables) != stdout.String() {
		t.Errorf("the file and the screen differ: %v", err)
	}
	for _, want := range []string{"Command: `go run ./cmd/bench --rounds 1 ", "3 rounds kept, 0 thrown away", "### Making prompts", "| prefire | "} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("the tables lack %q:\n%s", want, stdout.String())
		}
	}
	changed, err := os.ReadFile(doc)
	if err != nil || !strings.HasPrefix(string(changed), "before\n"+bench.BeginMark+"\n\nMachine: ") || !strings.HasSuffix(string(changed), bench.EndMark+"\nafter\n") {
		t.Errorf("the document is %q (%v)", changed, err)
	}
}

func TestWhatCannotBeMeasuredIsRefused(t *testing.T) {
	doc := filepath.Join(t.TempDir(), "doc.md")
	if err := os.WriteFile(doc, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, want string }{
		{"--rounds 0", "--rounds is 0; it must be 1 or more"},
		{"--rows nothing", `--rows names "nothing", which is no row; see --help`},
		{"--scale 0", "--scale must be above 0, --requests 4 or more, --prompts 1 or more"},
		{"--doc " + doc, doc + " has no place for the tables"},
		{"more", `"more" is no flag`},
		{"--prefire /bin/true --peers other --out " + t.TempDir(), `--peers names "other"; it may name aiperf and vllm-bench`},
		{"--prefire /bin/true --peers vllm-bench --vllm-bench /nowhere/x --out " + t.TempDir(), "vllm-bench is neither at /nowhere/x nor in the PATH; name it with --vllm-bench"},
	} {
		var stderr strings.Builder
		if err := run(t.Context(), strings.Fields(c.args), io.Discard, &stderr); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.args, err, c.want)
		}
	}
}

func TestATreeOfProcessesIsMeasuredWhole(t *testing.T) {
	m := &measurement{options: options{timeout: time.Minute}, clock: newClock()}
	// A shell with two children, each of which spends CPU of its own.
	const burn = "i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done"
	one, err := m.watched(t.Context(), "/bin/sh", []string{"-c", burn}, nil)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := m.watched(t.Context(), "/bin/sh", []string{"-c", "(" + burn + "; sleep 0.3) & (" + burn + "; sleep 0.3) & wait"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if one.CPU <= 0 || tree.CPU < one.CPU || tree.PeakRSS <= one.PeakRSS {
		t.Errorf("one process: %.3f s, %.1f MiB; three: %.3f s, %.1f MiB; want more", one.CPU, one.PeakRSS, tree.CPU, tree.PeakRSS)
	}
	if r, err := m.watched(t.Context(), "/bin/sh", []string{"-c", "echo so it went >&2; exit 3"}, nil); err == nil || err.Error() != "exit status 3: so it went\n" {
		t.Errorf("a program that fails: %v, %+v", err, r)
	}
	m.timeout = 50 * time.Millisecond
	if _, err := m.watched(t.Context(), "/bin/sleep", []string{"60"}, nil); err == nil || !strings.Contains(err.Error(), "not done after 50ms") {
		t.Errorf("a program that does not end: %v", err)
	}
}
