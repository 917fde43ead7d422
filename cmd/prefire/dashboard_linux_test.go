package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"prefire/internal/fakellm"
)

// screen is a terminal with a program in it.
type screen struct {
	master, slave *os.File
	out           locked
	cmd           *exec.Cmd
	more          chan struct{} // something was written to it
	ended         chan error
	stdout        bytes.Buffer
}

// terminalOf starts this binary as prefire in a terminal of its own, of 80 columns and 24 rows.
func terminalOf(t *testing.T, args ...string) *screen {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("SKIP: this machine has no pseudo terminals: %v", err)
	}
	t.Cleanup(func() { master.Close() })
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { slave.Close() })
	if err := unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "prefire")
	if err := os.Symlink(self, link); err != nil {
		t.Fatal(err)
	}
	s := &screen{master: master, slave: slave, cmd: exec.Command(link, args...), ended: make(chan error, 1), more: make(chan struct{}, 1)}
	s.cmd.Stdin, s.cmd.Stderr, s.cmd.Stdout = slave, slave, &s.stdout
	s.cmd.Env = append(os.Environ(), "TERM=xterm-256color")
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			_, _ = s.out.Write(buf[:n])
			if err != nil {
				close(s.more)
				return
			}
			select {
			case s.more <- struct{}{}:
			default:
			}
		}
	}()
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { s.ended <- s.cmd.Wait() }()
	t.Cleanup(func() { _ = s.cmd.Process.Kill() })
	return s
}

// shows waits until the terminal got a text, and fails where the program ends without it.
func (s *screen) shows(t *testing.T, text string) {
	t.Helper()
	for !strings.Contains(s.out.String(), text) {
		select {
		case err := <-s.ended:
			t.Fatalf("the program ended (%v) and did not show %q:\n%q", err, text, s.out.String())
		case <-s.more:
		}
	}
}

// end waits for the program and gives its exit code.
func (s *screen) end(t *testing.T) int {
	t.Helper()
	err := <-s.ended
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return s.cmd.ProcessState.ExitCode()
}

// mode is whether the terminal echoes and makes signals of keys.
func (s *screen) mode(t *testing.T) uint32 {
	t.Helper()
	m, err := unix.IoctlGetTermios(int(s.slave.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return m.Lflag & (unix.ECHO | unix.ICANON | unix.ISIG)
}

const leavesScreen = "\x1b[?1049l"

// The dashboard takes the terminal and gives it back; one Ctrl-C ends the run with its results, a second one ends it at once, as without
// the dashboard.
func TestDashboardInATerminal(t *testing.T) {
	for _, c := range []struct {
		name  string
		extra []string // beside a run that would never end by itself
		keys  int
		code  int
		says  string // on the terminal, after the dashboard
	}{
		{"to the end", []string{"--request-count", "4", "--osl", "4"}, 0, exitOK, "the clock starts"},
		{"Ctrl-C", []string{"--benchmark-duration", "600", "--osl", "4"}, 1, exitOK, "stopping: no more requests are sent"},
		{"Ctrl-C twice", []string{"--benchmark-duration", "600", "--osl", "100000", "--extra-inputs", "ignore_eos:true"}, 2, exitKilled, "quit at once"},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := serve(t, fakellm.Options{TTFT: 5 * time.Millisecond, ITL: 2 * time.Millisecond})
			dir := t.TempDir()
			s := terminalOf(t, append([]string{"profile", "--model", "m", "--url", server.URL(), "--streaming", "--tokenizer", "builtin", "--isl", "16",
				"--concurrency", "2", "--ui", "dashboard", "--artifact-dir", dir}, c.extra...)...)
			before := s.mode(t)
			if c.keys > 0 {
				s.shows(t, "profiling")
				s.shows(t, "in flight")
			}
			for i := range c.keys {
				if _, err := s.master.WriteString("\x03"); err != nil {
					t.Fatal(err)
				}
				if i+1 < c.keys {
					s.shows(t, "stopping")
				}
			}
			if code := s.end(t); code != c.code {
				t.Errorf("exit code %d, want %d:\n%q", code, c.code, s.out.String())
			}
			mode := s.mode(t)
			s.slave.Close() // the last one that holds it: what was written comes through, and then an end
			for range s.more {
			}
			_, after, left := strings.Cut(s.out.String(), leavesScreen)
			if !left || !strings.Contains(after, c.says) {
				t.Errorf("after the dashboard the terminal does not say %q:\n%q", c.says, s.out.String())
			}
			if mode != before || mode&unix.ECHO == 0 {
				t.Errorf("the terminal's mode was %b and is %b", before, mode)
			}
			if results := strings.Contains(s.stdout.String(), "Time to First Token"); results != (c.code == exitOK) {
				t.Errorf("results on stdout: %v\n%s", results, s.stdout.String())
			}
		})
	}
}

// Without a terminal the dashboard gives way, as in aiperf, and says so.
func TestDashboardWithoutATerminal(t *testing.T) {
	server := serve(t, fakellm.Options{})
	p := must(t, "profile", "--model", "m", "--url", server.URL(), "--streaming", "--tokenizer", "builtin", "--isl", "16", "--osl", "4", "--request-count", "2", "--ui", "dashboard",
		"--artifact-dir", t.TempDir())
	if !strings.Contains(p.stderr, "--ui dashboard requires an interactive terminal; stderr is not a TTY, falling back to --ui simple") || strings.Contains(p.stderr, "\x1b") {
		t.Errorf("stderr: %q", p.stderr)
	}
}
