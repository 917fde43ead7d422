package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
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
	truthRequests = flag.Int("truth.requests", 50, "requests of a run")
	truthTTFT     = flag.Duration("truth.ttft", 30*time.Millisecond, "the server's TTFT")
	truthITL      = flag.Duration("truth.itl", 5*time.Millisecond, "the server's ITL, but for the cases that name their own")
	truthTokens   = flag.Int("truth.tokens", 16, "tokens of an answer")
	truthReport   = flag.Bool("truth.report", false, "print what was measured")
	truthLimits   = flag.Bool("truth.limits", false, "hold the averages to limits too, which needs a machine without other work")
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

// profileProcess runs `prefire profile` in a process of its own, which prefix may start in its way, and gives what it printed.
func profileProcess(t *testing.T, prefix, env []string, args ...string) string {
	t.Helper()
	line := slices.Concat(prefix, []string{"prefire"}, args)
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Env = append(os.Environ(), append(env, verifyEnv+"=false")...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%q: %v\n%s", line, err, out)
	}
	return string(out)
}

// busyLoops keeps every core busy until the test ends.
func busyLoops(t *testing.T) {
	t.Helper()
	for range runtime.NumCPU() {
		cmd := exec.Command("sh", "-c", "while :; do :; done")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
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
	records         []record
	entries         map[string]fakellm.Entry
}

// measure holds every record of a run against the server's log.
func measure(t *testing.T, records []record, entries map[string]fakellm.Entry) (out truths) {
	t.Helper()
	out.records, out.entries = records, entries
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

// sizedArgs are profileArgs at the size that the flags ask for.
func sizedArgs(url, dir string, more ...string) []string {
	args := profileArgs(url, dir, append(more, "--concurrency", strconv.Itoa(*truthInFlight), "--request-count", strconv.Itoa(*truthRequests))...)
	args[slices.Index(args, "--osl")+1] = strconv.Itoa(*truthTokens)
	return args
}

// judged is what the tests read of prefire.client.
type judged struct {
	Prefire struct {
		Phases []struct {
			Sending float64 `json:"sending_ms"`
		}
		Client struct {
			Machine struct {
				RunQueueWait *float64 `json:"run_queue_wait_seconds"`
			}
			Verdicts []struct {
				Claim string
				Good  bool
				Why   string
				Limit float64 `json:"limit_ms"`
				With  float64 `json:"in_flight_mean_with_server"`
			}
		}
	}
}

// hold checks a run's figures against their bounds, and its verdicts against the truth: a claim that is called fit has errors within its
// limit.
func (got *truths) hold(t *testing.T, dir string) {
	t.Helper()
	var j judged
	readJSON(t, filepath.Join(dir, "profile_export_aiperf.json"), &j)
	for _, v := range j.Prefire.Client.Verdicts {
		if *truthReport && v.Claim == "load" {
			t.Logf("load fit %v: %s; by the server's log %.2f", v.Good, v.Why, inFlightTruth(got.records, got.entries, ns(j.Prefire.Phases[0].Sending)))
		}
	}
	for _, f := range []struct {
		claim string
		all   []heldFigure
	}{{"TTFT", got.ttft}, {"ITL", got.itl}, {"ICL", got.gaps}} {
		if *truthReport {
			t.Logf("%s: %s", f.claim, describe(f.all))
		}
		if bad := beyond(f.all); len(bad) > 0 {
			t.Errorf("%s: %d of %d figures are further from the server's log than their bound: %s", f.claim, len(bad), len(f.all), describe(bad))
		}
		for _, v := range j.Prefire.Client.Verdicts {
			if *truthReport && v.Claim == f.claim {
				t.Logf("%s fit %v: %s", v.Claim, v.Good, v.Why)
			}
			if v.Claim == f.claim && v.Good && v.Limit > 0 && p99Error(f.all) > v.Limit {
				t.Errorf("%s is called fit, with a limit of %v ms, and its errors are %s", v.Claim, v.Limit, describe(f.all))
			}
		}
	}
	if *truthReport {
		slices.Sort(got.sent)
		n := len(got.sent)
		t.Logf("%d gaps lost; from start to arrival p50 %d p99 %d max %d µs", got.lost, got.sent[n/2]/1000, got.sent[n*99/100]/1000, got.sent[n-1]/1000)
	}
}

// p99Error is in ms.
func p99Error(fs []heldFigure) float64 {
	errs := make([]int64, len(fs))
	for i, f := range fs {
		errs[i] = f.err
	}
	slices.Sort(errs)
	return float64(errs[(len(errs)-1)*99/100]) / 1e6
}

func averageError(fs []heldFigure) float64 {
	sum := int64(0)
	for _, f := range fs {
		sum += f.err
	}
	return float64(sum) / float64(len(fs)) / 1e6
}

// No bound that a record states is smaller than its error.
func TestNoErrorIsLargerThanItsBound(t *testing.T) {
	for _, c := range []struct {
		name     string
		mock     []string
		flags    []string
		itl      time.Duration
		avg, p99 float64 // limits of TTFT's error, in ms
	}{
		{name: "reactor", avg: 0.2, p99: 1},
		{name: "portable", flags: []string{"--client", "portable"}, avg: 0.2, p99: 1},
		{name: "TLS", mock: []string{"--tls"}, avg: 0.3, p99: 2},
		{name: "h2", mock: []string{"--h2"}, flags: []string{"--http", "2"}, avg: 0.3, p99: 2},
		{name: "h2c", mock: []string{"--h2c"}, flags: []string{"--http", "h2c"}, avg: 0.3, p99: 2},
		{name: "reactor, ITL 2 ms", itl: 2 * time.Millisecond, avg: 0.2, p99: 1},
		{name: "portable, ITL 2 ms", flags: []string{"--client", "portable"}, itl: 2 * time.Millisecond, avg: 0.2, p99: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			itl := cmp.Or(c.itl, *truthITL)
			m := startLoggingMock(t, append(c.mock, "--ttft", truthTTFT.String(), "--itl", itl.String(), "--jitter", "0.2")...)
			dir := t.TempDir()
			profileProcess(t, nil, nil, sizedArgs(m.url, dir, c.flags...)...)
			got := measure(t, readRecords(t, dir), m.entries(t))
			if len(got.ttft) != *truthRequests {
				t.Errorf("%d requests, want %d", len(got.ttft), *truthRequests)
			}
			got.hold(t, dir)
			if avg, p99 := averageError(got.ttft), p99Error(got.ttft); *truthLimits && (avg > c.avg || p99 > c.p99) {
				t.Errorf("TTFT is %.3f ms off on average and %.3f at p99; want %v and %v at most", avg, p99, c.avg, c.p99)
			}
		})
	}
}

// Two busy loops or more do not move TTFT, and the result names the wait for a core.
func TestBusyCoresAreNamedAndTTFTStaysRight(t *testing.T) {
	m := startLoggingMock(t, "--ttft", (4 * *truthTTFT).String(), "--itl", (4 * *truthITL).String(), "--jitter", "0.2")
	dir := t.TempDir()
	busyLoops(t)
	screen := profileProcess(t, nil, nil, sizedArgs(m.url, dir)...)
	got := measure(t, readRecords(t, dir), m.entries(t))
	got.hold(t, dir)
	if avg := averageError(got.ttft); *truthLimits && avg > 1 {
		t.Errorf("TTFT is %.3f ms off on average, want 1 at most", avg)
	}
	var j judged
	readJSON(t, filepath.Join(dir, "profile_export_aiperf.json"), &j)
	wait := j.Prefire.Client.Machine.RunQueueWait
	if _, err := os.Stat("/proc/self/schedstat"); err != nil {
		t.Skip("SKIP: this system does not tell how long threads wait for a core")
	}
	if wait == nil || *wait <= 0 || !strings.Contains(screen, "run-queue wait") {
		t.Errorf("the run-queue wait is %v, with every core busy, and the screen:\n%s", wait, screen)
	}
}

// A stall in the middle of an answer is found at its place.
func TestAStallIsFoundAtItsPlace(t *testing.T) {
	const after = 9
	m := startLoggingMock(t, "--ttft", "20ms", "--itl", "5ms", "--stall", "300ms", "--stall-after", strconv.Itoa(after))
	dir := t.TempDir()
	args := profileArgs(m.url, dir, "--concurrency", "4", "--request-count", "12")
	args[slices.Index(args, "--osl")+1] = "20"
	profileProcess(t, nil, nil, args...)
	entries := m.entries(t)
	near := 0
	for _, r := range readRecords(t, dir) {
		e := entries[r.Metadata.RequestID]
		w := contents(&e)
		place := after - 1 // where the log has the longest gap: a machine that stands still may make another one of it
		for k := range len(w) - 1 {
			if w[k].until(w[k+1]).from > w[place].until(w[place+1]).to {
				place = k
			}
		}
		truth := w[place].until(w[place+1])
		list := r.Metrics["inter_chunk_latency"].Value.([]any)
		at, longest := 0, 0. // the longest gap of the record, and where it stands among all
		inList := 0
		for k, next := 0, 0; next < len(list); k++ {
			if slices.Contains(r.Prefire.GapsLost, k) {
				continue
			}
			if v := list[next].(float64); v > longest {
				at, longest, inList = k, v, next
			}
			next++
		}
		if at != place {
			t.Errorf("request %d: its longest gap is number %d, the server's %d (gaps %v, lost %v)", r.Metadata.SessionNum, at, place, list, r.Prefire.GapsLost)
			continue
		}
		// Where the machine stands still as well, an event after the stall shares its read: the bound covers what the gap is then off.
		off := truth.off(ns(list[inList].(float64)))
		if off > max(int64(time.Millisecond), 1000*r.Prefire.GapSlack) {
			t.Errorf("request %d: the stall is %d ns off, with a bound of %d µs", r.Metadata.SessionNum, off, r.Prefire.GapSlack)
		}
		if off <= int64(time.Millisecond) {
			near++
		}
	}
	if near == 0 {
		t.Error("no stall is within 1 ms of the server's log")
	}
}

// A client that gets less of the cores than its server cannot keep the load up, and must not claim it.
func TestALoadThatTheClientCannotSendIsNotClaimed(t *testing.T) {
	const asked = 100
	m := startLoggingMock(t)
	dir := t.TempDir()
	busyLoops(t)
	profileProcess(t, []string{"nice", "-n", "5"}, []string{"GOMAXPROCS=1"}, profileArgs(m.url, dir, "--concurrency", strconv.Itoa(asked),
		"--benchmark-duration", "1", "--benchmark-grace-period", "20")...)
	var j judged
	readJSON(t, filepath.Join(dir, "profile_export_aiperf.json"), &j)
	truth := inFlightTruth(readRecords(t, dir), m.entries(t), ns(j.Prefire.Phases[0].Sending))
	for _, v := range j.Prefire.Client.Verdicts {
		if v.Claim != "load" {
			continue
		}
		if *truthReport {
			t.Logf("the server's log has %.2f in flight; %s", truth, v.Why)
		}
		if v.Good || v.With > inFlightShare*asked || !strings.HasPrefix(v.Why, "the load was not the one asked") {
			t.Errorf("load of %d sessions fit: %v, %.2f with the server, %q; by its log %.2f were in flight", asked, v.Good, v.With, v.Why, truth)
		}
		if math.Abs(v.With-truth) > asked/10 {
			t.Errorf("%.2f sessions are said to have been with the server; by its log %.2f were", v.With, truth)
		}
		return
	}
	t.Error("no verdict on the load")
}

// inFlightTruth is the average number of a run's requests that the server had in hand, for so long from its first arrival on.
func inFlightTruth(records []record, entries map[string]fakellm.Entry, span int64) float64 {
	var from int64
	for _, r := range records {
		if e := entries[r.Metadata.RequestID]; from == 0 || e.ArrivedNS < from {
			from = e.ArrivedNS
		}
	}
	area := 0.
	for _, r := range records {
		e := entries[r.Metadata.RequestID]
		area += float64(max(min(from+span, e.Writes[len(e.Writes)-1].AfterNS)-e.ArrivedNS, 0))
	}
	return area / float64(span)
}
