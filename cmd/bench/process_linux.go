package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"prefire/internal/bench"
	"prefire/loadgen/wire"
)

// clock is the monotonic clock, anchored to the wall clock once.
type clock struct{ epoch time.Time }

var _ wire.Clock = (*clock)(nil)

func newClock() *clock { return &clock{time.Now()} }

func (c *clock) Now() int64 { return int64(time.Since(c.epoch)) + 1 }

func (c *clock) Wall(at int64) time.Time { return c.epoch.Add(time.Duration(at - 1)) }

func (c *clock) Until(ctx context.Context, at int64) error {
	t := time.NewTimer(time.Duration(at - c.Now()))
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pinned is a command on certain cores.
func pinned(ctx context.Context, cpus, file string, args []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, file, args...)
	if cpus != "" {
		cmd = exec.CommandContext(ctx, "taskset", append([]string{"-c", cpus, file}, args...)...)
	}
	// A group of its own: its children end with it, and a Ctrl-C is this program's to pass on.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = 5 * time.Second
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}

// server is a prefire mock.
type server struct {
	url  string
	stop func()
}

func startServer(ctx context.Context, cpus, file string, args []string) (*server, error) {
	ctx, cancel := context.WithCancel(ctx)
	cmd := pinned(ctx, cpus, file, args)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it writes the rest of its log
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("the server: %w", err)
	}
	s := &server{stop: func() { cancel(); _ = cmd.Wait() }}
	line, _ := bufio.NewReader(out).ReadString('\n')
	listens, ok := strings.CutPrefix(line, "prefire mock: listening on ")
	if !ok {
		s.stop()
		return nil, fmt.Errorf("the server did not start: %s", strings.TrimSpace(line+said.String()))
	}
	s.url, _, _ = strings.Cut(listens, " ")
	return s, nil
}

// watched runs a command to its end and measures it.
func (m *measurement) watched(ctx context.Context, file string, args, env []string) (bench.Run, error) {
	ctx, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	r := bench.Run{Command: bench.Shown(file, args), Env: env}
	cmd := pinned(ctx, m.clientCPUs, file, args)
	cmd.Env = append(os.Environ(), env...)
	var said tail
	cmd.Stdout, cmd.Stderr = &said, &said
	stalls := bench.WatchStalls(ctx, m.clock, true)
	begin := m.clock.Now()
	r.Began = m.clock.Wall(begin).UnixNano()
	if err := cmd.Start(); err != nil {
		_, _ = stalls.Stop()
		return r, err
	}
	memory := watchMemory(cmd.Process.Pid)
	err := cmd.Wait()
	r.Wall = float64(m.clock.Now()-begin) / 1e9
	r.PeakRSS = memory.stop()
	if late, real := stalls.Stop(); real {
		m.realTime, r.Stall = true, &late
	}
	if u, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		r.CPU = float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
	}
	if err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("not done after %v", m.timeout)
		}
		return r, fmt.Errorf("%w: %s", err, said.b)
	}
	return r, nil
}

// tail keeps the last of what a program says.
type tail struct{ b []byte }

func (t *tail) Write(p []byte) (int, error) {
	const most = 2000
	t.b = append(t.b, p...)
	if len(t.b) > most {
		t.b = append(t.b[:0], t.b[len(t.b)-most:]...)
	}
	return len(p), nil
}

// memory watches the peak memory of a process and its descendants.
type memory struct {
	quit, done chan struct{}
	peak       map[int]float64 // MiB, of each process
}

// watchEvery is how often the processes are looked at. Their peaks are the kernel's; only what happens within the last such time of a process
// is missed. (The kernel's own figure at a process's end is no help: it counts what the parent held before the exec.)
const watchEvery = 50 * time.Millisecond

func watchMemory(pid int) *memory {
	w := &memory{quit: make(chan struct{}), done: make(chan struct{}), peak: map[int]float64{}}
	go func() {
		defer close(w.done)
		t := time.NewTicker(watchEvery)
		defer t.Stop()
		for {
			w.look(pid)
			select {
			case <-t.C:
			case <-w.quit:
				return
			}
		}
	}()
	return w
}

// stop ends the watch: the sum of all peaks, in MiB.
func (w *memory) stop() float64 {
	close(w.quit)
	<-w.done
	sum := 0.
	for _, v := range w.peak {
		sum += v
	}
	return sum
}

// look reads a process's peak and its children's.
func (w *memory) look(pid int) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return // it has ended
	}
	if v := kilobytes(string(status), "VmHWM") / 1024; v > 0 {
		w.peak[pid] = v
	}
	tasks, err := filepath.Glob(filepath.Join(dir, "task", "*", "children"))
	if err != nil {
		return
	}
	for _, f := range tasks {
		text, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		for _, word := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(word); err == nil {
				w.look(child)
			}
		}
	}
}

// kilobytes is a field of /proc's "Name: 123 kB" files; 0 where it is absent.
func kilobytes(text, name string) float64 {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			words := strings.Fields(rest)
			if len(words) > 0 {
				v, err := strconv.ParseFloat(words[0], 64)
				if err == nil {
					return v
				}
			}
		}
	}
	return 0
}
