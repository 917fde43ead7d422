package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"prefire/internal/fakellm"
)

// A measurement that took an hour is not lost because its folder is: the screen has it, and nothing is said to be where it is not.
func TestWhatWasMeasuredIsShownWhereItsFolderIsGone(t *testing.T) {
	s := serve(t, fakellm.Options{TTFT: 20 * time.Millisecond})
	dir := t.TempDir() + "/run"
	done := start(nil, nil, profileArgs(s.URL(), dir, "--concurrency", "2", "--request-count", "40")...)
	if _, err := s.Wait(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	p := <-done
	if p.code != exitFailed || !strings.Contains(p.stdout, "40 sent = 40 ok") || !strings.Contains(p.stderr, "inputs.json") {
		t.Errorf("exit %d, want %d, the result on the screen and the file that is missing\n%s%s", p.code, exitFailed, p.stdout, p.stderr)
	}
	if strings.Contains(p.stderr, "all requests that finished are in") {
		t.Errorf("the journal is gone with the folder\n%s", p.stderr)
	}
}
