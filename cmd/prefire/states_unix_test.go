//go:build linux || darwin

package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"prefire/internal/fakellm"
)

// A signal ends the waiting for a server, and nothing is left that looks like a result: only the log, which says why.
func TestASignalEndsTheWaitingForTheModel(t *testing.T) {
	for signal, want := range map[os.Signal]int{os.Interrupt: exitFailed, syscall.SIGTERM: exitTerminated} {
		s := serve(t, fakellm.Options{TTFT: time.Hour}) // the model that is waited for never answers
		dir := t.TempDir()
		signals := make(chan os.Signal, 1)
		done := start(signals, nil, profileArgs(s.URL(), dir, "--request-count", "1", "--wait-for-model-timeout", "600")...)
		if err := s.WaitInFlight(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		signals <- signal
		p := <-done
		if p.code != want || !strings.Contains(p.stderr, "stopped before the first request was sent") {
			t.Errorf("%v: exit %d, want %d\n%s", signal, p.code, want, p.stderr)
		}
		onlyTheLog(t, dir, "")
	}
}

// Ctrl-C twice ends the program also while it writes its files, and what was measured can be recovered.
func TestCtrlCTwiceEndsTheExport(t *testing.T) {
	s := serve(t, fakellm.Options{TTFT: time.Millisecond})
	dir := t.TempDir()
	pipe := filepath.Join(dir, ".profile_export_aiperf.json.tmp") // opening it waits for a reader
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	signals := make(chan os.Signal, 2)
	quit := make(chan int)
	gone := make(chan struct{})
	done := start(signals, func(code int) { quit <- code; <-gone }, profileArgs(s.URL(), dir, "--concurrency", "2", "--request-count", "6")...)
	if _, err := s.Wait(t.Context(), 3+6); err != nil {
		t.Fatal(err)
	}
	signals <- os.Interrupt
	signals <- os.Interrupt
	if code := <-quit; code != exitKilled {
		t.Errorf("exit %d, want %d", code, exitKilled)
	}
	killed := t.TempDir()
	for _, name := range []string{journalFile, noteFile} { // as they are where the program ends here
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(killed, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	reader, err := os.Open(pipe) // lets the program of this test end
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, reader)
	_ = reader.Close()
	close(gone)
	<-done
	must(t, "recover", killed)
	if n := len(readRecords(t, killed)); n < 1 || n > 6 {
		t.Errorf("%d records", n)
	}
}

// What the machine does not give is said, in the exit code too, and what was measured is not lost.
func TestAFullDiskAndFewFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIP: -short leaves out what the full step runs")
	}
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("SKIP: limits are set by a shell, and there is no bash")
	}
	bin := asPrefire(t)
	s := serve(t, fakellm.Options{TTFT: time.Millisecond})
	for _, tt := range []struct {
		name, limit string
		args        []string
		said        []string
		measured    bool
	}{
		{"a disk that is full early", "ulimit -f 8", []string{"--concurrency", "4", "--request-count", "60"},
			[]string{"the journal of finished requests cannot be written", "file too large", "60 sent = 60 ok"}, true},
		{"few files", "ulimit -n 90", []string{"--concurrency", "100", "--request-count", "100"},
			[]string{"the run needs 100 connections at once, and this process may have 90 files open", "ulimit -n"}, false},
	} {
		dir := t.TempDir()
		cmd := exec.Command(bash, append([]string{"-c", tt.limit + `; exec "$0" "$@"`, bin}, profileArgs(s.URL(), dir, tt.args...)...)...)
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != exitFailed {
			t.Errorf("%s: %v, want exit %d\n%s", tt.name, err, exitFailed, out)
		}
		for _, want := range tt.said {
			if !strings.Contains(string(out), want) {
				t.Errorf("%s: %q is not said\n%s", tt.name, want, out)
			}
		}
		if _, err := os.Stat(filepath.Join(dir, "profile_export.jsonl")); (err == nil) != tt.measured {
			t.Errorf("%s: records: %v", tt.name, err)
		}
		if mark, err := os.ReadFile(filepath.Join(dir, ".aiperf_results_ready.json")); err == nil && !strings.Contains(string(mark), `"partial":true,"failed_exporters":[`) {
			t.Errorf("%s: the mark says %s", tt.name, mark)
		}
	}
}

// A folder where nothing can be made is said before anything is sent.
func TestAFolderThatCannotBeWritten(t *testing.T) {
	s := serve(t, fakellm.Options{})
	p := <-start(nil, nil, profileArgs(s.URL(), "/dev/null/results", "--request-count", "1")...)
	if p.code != exitFailed || !strings.Contains(p.stderr, "the artifact folder /dev/null/results cannot be made") || len(s.Entries()) != 0 {
		t.Errorf("exit %d, %d requests\n%s", p.code, len(s.Entries()), p.stderr)
	}
}

// A run that is suspended and goes on loses nothing and calls nothing a failure.
func TestASuspendedRunGoesOn(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIP: -short leaves out what the full step runs")
	}
	s := serve(t, fakellm.Options{TTFT: 20 * time.Millisecond, ITL: time.Millisecond})
	dir := t.TempDir()
	cmd := exec.Command(asPrefire(t), profileArgs(s.URL(), dir, "--concurrency", "4", "--request-count", "60")...)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Wait(t.Context(), 3+10); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	<-time.After(400 * time.Millisecond) // what the answers of those in flight take, and more
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait()
	if sum := readSummary(t, dir); err != nil || sum.Prefire.Counts.OK != 60 || sum.Prefire.Counts.Sent != 60 {
		t.Errorf("%v, %+v\n%s", err, sum.Prefire.Counts, out.String())
	}
}
