package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Ctrl-C ends the program also where it waits for a file that does not come, or reads one that has no end.
func TestASignalEndsWhatHasNoLoadYet(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "profile_export.jsonl")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	writer, err := os.OpenFile(pipe, os.O_RDWR, 0) // so that readers find no end; they do when it closes
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	for _, args := range [][]string{
		{"profile", "--config", pipe},
		{"longcontext", "--config", pipe, "--isl", "100,200"},
		{"profile", "--model", "m", "--url", "http://127.0.0.1:1", "--tokenizer", "builtin", "--input-file", pipe, "--custom-dataset-type", "single_turn",
			"--artifact-dir", t.TempDir()},
		{"debias", dir},
		{"analyze-trace", pipe},
	} {
		for signal, want := range map[os.Signal]int{os.Interrupt: exitFailed, syscall.SIGTERM: exitTerminated} {
			signals := make(chan os.Signal, 1)
			signals <- signal
			p := <-start(signals, nil, args...)
			if p.code != want || want == exitFailed && !strings.Contains(p.stderr, "stopped before") {
				t.Errorf("%q on %v: exit %d, want %d\n%s", args, signal, p.code, want, p.stderr)
			}
		}
	}
}
