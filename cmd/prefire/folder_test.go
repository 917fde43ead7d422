package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"prefire/internal/export"
	"prefire/internal/fakellm"
)

// Two runs at once in one folder would take each other's files away.
func TestAFolderThatAnotherRunWritesToIsRefused(t *testing.T) {
	s := serve(t, fakellm.Options{TTFT: 20 * time.Millisecond})
	dir := t.TempDir()
	signals := make(chan os.Signal, 1)
	first := start(signals, nil, profileArgs(s.URL(), dir, "--concurrency", "2", "--benchmark-duration", "600")...)
	if _, err := s.Wait(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	second := <-start(nil, nil, profileArgs(s.URL(), dir, "--request-count", "1")...)
	if second.code != exitFailed || !strings.Contains(second.stderr, "another run is writing to the artifact folder "+dir) {
		t.Errorf("exit %d\n%s", second.code, second.stderr)
	}
	signals <- os.Interrupt
	p := <-first
	sum := readSummary(t, dir)
	if p.code != exitOK || sum.Prefire.Counts.OK != int64(len(readRecords(t, dir))) {
		t.Errorf("the first run: exit %d, %+v and %d records\n%s", p.code, sum.Prefire.Counts, len(readRecords(t, dir)), p.stderr)
	}
	// A run that was killed leaves its journal, and nobody holds it.
	if err := os.WriteFile(filepath.Join(dir, journalFile), []byte("{}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	must(t, profileArgs(s.URL(), dir, "--request-count", "1")...)
}

// Whoever reads the screen may leave (| head -1): the files are there, and that is what the exit code says.
func TestABrokenPipeOnTheScreenIsNoFailure(t *testing.T) {
	s := serve(t, fakellm.Options{})
	dir := t.TempDir()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	defer w.Close()
	var stderr locked
	code := run(process{args: append([]string{"prefire"}, profileArgs(s.URL(), dir, "--request-count", "3")...), stdout: w, stderr: &stderr,
		env: func(string) (string, bool) { return "", false }})
	if sum := readSummary(t, dir); code != exitOK || sum.Prefire.Counts.OK != 3 {
		t.Errorf("exit %d, %+v\n%s", code, sum.Prefire.Counts, stderr.String())
	}
}

// onlyTheLog checks that a run that measured nothing has left nothing in its folder that looks like a result: only the log, which says why.
func onlyTheLog(t *testing.T, dir, why string) {
	t.Helper()
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 || left[0].Name() != export.LogFolder {
		t.Errorf("the folder holds %v (%v), want the log's folder", left, err)
	}
	text, err := os.ReadFile(filepath.Join(dir, export.LogFolder, export.LogFile))
	if err != nil || !strings.Contains(string(text), " - ERROR - "+why) {
		t.Errorf("the log (%v) does not say %q:\n%s", err, why, text)
	}
}
