package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"prefire/internal/fakellm"
)

// The sizes of the runs that are held against the truth. By default they are small; docs/trust.md has the commands for large ones.
var (
	truthInFlight = flag.Int("truth.inflight", 20, "requests in flight")
	truthRequests = flag.Int("truth.requests", 80, "requests of a run")
	truthTTFT     = flag.Duration("truth.ttft", 40*time.Millisecond, "the server's TTFT")
	truthITL      = flag.Duration("truth.itl", 5*time.Millisecond, "the server's ITL, but for the cases that name their own")
	truthTokens   = flag.Int("truth.tokens", 16, "tokens of an answer")
	truthReport   = flag.Bool("truth.report", false, "print what was measured")
)

// loggingMock is a mock in a process of its own, so that it has a scheduler of its own.
type loggingMock struct {
	url string
	log string
	cmd *exec.Cmd
}

func startLoggingMock(t *testing.T, args ...string) *loggingMock {
	t.Helper()
	m := &loggingMock{log: filepath.Join(t.TempDir(), "mock.jsonl")}
	m.cmd = exec.Command("prefire", append([]string{"mock", "--log", m.log}, args...)...)
	out, err := m.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := m.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.cmd.Process.Kill(); _ = m.cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the mock did not say where it listens: %v", err)
	}
	m.url, _, _ = strings.Cut(line[strings.Index(line, "http"):], " ")
	return m
}

// entries ends the mock and reads its log, by X-Request-ID.
func (m *loggingMock) entries(t *testing.T) map[string]fakellm.Entry {
	t.Helper()
	if err := m.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = m.cmd.Wait()
	data, err := os.ReadFile(m.log)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]fakellm.Entry{}
	for line := range bytes.Lines(data) {
		var e fakellm.Entry
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		out[e.XRequestID] = e
	}
	return out
}

// profileProcess runs `prefire profile` in a process of its own.
func profileProcess(t *testing.T, env []string, args ...string) {
	t.Helper()
	cmd := exec.Command("prefire", args...)
	cmd.Env = append(os.Environ(), append(env, verifyEnv+"=false")...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("prefire %q: %v\n%s", args, err, out)
	}
}

// interval is the time, in ns since 1970, in which something happened.
type interval struct{ from, to int64 }

// off is how far at lies outside the interval.
func (i interval) off(at int64) int64 { return max(i.from-at, at-i.to, 0) }

// until is how long it may have taken from one to the other.
func (i interval) until(o interval) interval { return interval{o.from - i.to, o.to - i.from} }

// contents are the writes of content, in order.
func contents(e *fakellm.Entry) []interval {
	var out []interval
	for _, w := range e.Writes {
		if w.Kind == fakellm.WriteContent || w.Kind == fakellm.WriteFinish {
			i := interval{w.BeforeNS, w.AfterNS}
			if w.Held {
				i.to += int64(time.Hour) // nobody knows when it was sent
			}
			out = append(out, i)
		}
	}
	return out
}

// heldFigure is one figure of a request beside the truth, in ns.
type heldFigure struct{ err, bound int64 }

// truths are the figures of one run.
type truths struct {
	ttft, itl, gaps []heldFigure
	lost            int // gaps that are no measurement
	sent            []int64
}

// measure holds every record of a run against the server's log.
func measure(t *testing.T, records []record, entries map[string]fakellm.Entry) (out truths) {
	t.Helper()
	for _, r := range records {
		e, ok := entries[r.Metadata.RequestID]
		if !ok {
			t.Fatalf("request %d is not in the server's log", r.Metadata.SessionNum)
		}
		w := contents(&e)
		if len(w) < 2 || r.Error != nil {
			t.Fatalf("request %d: %d writes of content, error %v", r.Metadata.SessionNum, len(w), r.Error)
		}
		first, last := w[0], w[len(w)-1]
		out.sent = append(out.sent, e.ArrivedNS-r.Metadata.Start)
		out.ttft = append(out.ttft, heldFigure{first.off(r.Metadata.Start + ns(r.value("time_to_first_token"))), 1000 * r.Prefire.TTFTSlack})
		n := int64(e.OutputTokens - 1)
		all := first.until(last)
		if v := r.value("inter_token_latency"); v > 0 {
			out.itl = append(out.itl, heldFigure{interval{all.from / n, all.to/n + 1}.off(ns(v)), 1000 * max(r.Prefire.TTFTSlack, r.Prefire.LastSlack) / n})
		}
		list, _ := r.Metrics["inter_chunk_latency"].Value.([]any)
		k := 0
		for i := range len(w) - 1 {
			if slices.Contains(r.Prefire.GapsLost, i) {
				out.lost++
				continue
			}
			if k == len(list) {
				t.Fatalf("request %d has %d gaps, and lost %v of %d", r.Metadata.SessionNum, len(list), r.Prefire.GapsLost, len(w)-1)
			}
			out.gaps = append(out.gaps, heldFigure{w[i].until(w[i+1]).off(ns(list[k].(float64))), 1000 * r.Prefire.GapSlack})
			k++
		}
		if k != len(list) {
			t.Fatalf("request %d has %d gaps, want %d", r.Metadata.SessionNum, len(list), k)
		}
	}
	return out
}

// ns is a time in ms in ns.
func ns(ms float64) int64 { return int64(ms*1e6 + 0.5) }

// beyond are the figures whose error is more than their bound.
func beyond(fs []heldFigure) (out []heldFigure) {
	for _, f := range fs {
		if f.err > f.bound+wallGrain {
			out = append(out, f)
		}
	}
	return out
}

// describe sums figures up: average, p99 and largest error, and the p99 of the bounds, in ms.
func describe(fs []heldFigure) string {
	if len(fs) == 0 {
		return "none"
	}
	at := func(p float64, f func(heldFigure) int64) float64 {
		s := slices.SortedFunc(slices.Values(fs), func(a, b heldFigure) int { return cmp.Compare(f(a), f(b)) })
		return float64(f(s[int(p*float64(len(s)-1))])) / 1e6
	}
	sum := int64(0)
	for _, f := range fs {
		sum += f.err
	}
	e, b := func(f heldFigure) int64 { return f.err }, func(f heldFigure) int64 { return f.bound }
	return fmt.Sprintf("%d: error avg %.3f p99 %.3f max %.3f, bound p99 %.3f max %.3f", len(fs), float64(sum)/float64(len(fs))/1e6, at(0.99, e), at(1, e), at(0.99, b), at(1, b))
}

// No bound that a record states is smaller than its error.
func TestNoErrorIsLargerThanItsBound(t *testing.T) {
	for _, c := range []struct {
		name  string
		mock  []string
		flags []string
		itl   time.Duration
	}{
		{name: "reactor", flags: withReactor()},
		{name: "portable", flags: []string{"--client", "portable"}},
		{name: "TLS", mock: []string{"--tls"}},
		{name: "h2", mock: []string{"--h2"}, flags: []string{"--http", "2"}},
		{name: "h2c", mock: []string{"--h2c"}, flags: []string{"--http", "h2c"}},
		{name: "reactor, ITL 2 ms", flags: withReactor(), itl: 2 * time.Millisecond},
		{name: "portable, ITL 2 ms", flags: []string{"--client", "portable"}, itl: 2 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			itl := cmp.Or(c.itl, *truthITL)
			m := startLoggingMock(t, append(c.mock, "--ttft", truthTTFT.String(), "--itl", itl.String(), "--jitter", "0.2")...)
			dir := t.TempDir()
			args := profileArgs(m.url, dir, append(c.flags, "--concurrency", strconv.Itoa(*truthInFlight), "--request-count", strconv.Itoa(*truthRequests))...)
			args[slices.Index(args, "--osl")+1] = strconv.Itoa(*truthTokens)
			profileProcess(t, nil, args...)
			got := measure(t, readRecords(t, dir), m.entries(t))
			if len(got.ttft) != *truthRequests {
				t.Errorf("%d requests, want %d", len(got.ttft), *truthRequests)
			}
			for _, f := range []struct {
				what string
				all  []heldFigure
			}{{"TTFT", got.ttft}, {"ITL", got.itl}, {"gaps", got.gaps}} {
				if *truthReport {
					t.Logf("%s: %s", f.what, describe(f.all))
				}
				if bad := beyond(f.all); len(bad) > 0 {
					t.Errorf("%d of %d %s are further from the server's log than their bound: %s", len(bad), len(f.all), f.what, describe(bad))
				}
			}
			if *truthReport {
				slices.Sort(got.sent)
				t.Logf("%d gaps lost; from start to arrival p50 %d p99 %d max %d µs", got.lost, got.sent[len(got.sent)/2]/1000, got.sent[len(got.sent)*99/100]/1000, got.sent[len(got.sent)-1]/1000)
			}
		})
	}
}
