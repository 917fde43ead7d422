package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"prefire/internal/fakellm"
	"prefire/tokenize"
)

// program is one run of the program inside the test.
type program struct {
	code           int
	stdout, stderr string
}

// locked is a buffer that a running program writes and a test reads.
type locked struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) { l.mu.Lock(); defer l.mu.Unlock(); return l.b.Write(p) }

func (l *locked) String() string { l.mu.Lock(); defer l.mu.Unlock(); return l.b.String() }

// start runs the program; the result comes when it has ended. quit takes the code of an end without an orderly stop.
func start(signals chan os.Signal, quit func(int), args ...string) <-chan program {
	done := make(chan program, 1)
	go func() {
		var out, err locked
		code := run(process{args: append([]string{"prefire"}, args...), stdout: &out, stderr: &err, signals: signals, exit: quit,
			env: func(name string) (string, bool) {
				// A test's server has a certificate of its own; that it must be trusted is a script's matter.
				return "false", name == "AIPERF_HTTP_SSL_VERIFY"
			}})
		done <- program{code, out.String(), err.String()}
	}()
	return done
}

// must runs the program to a good end.
func must(t *testing.T, args ...string) program {
	t.Helper()
	p := <-start(nil, nil, args...)
	if p.code != exitOK {
		t.Fatalf("prefire %q ended with %d\n%s%s", args, p.code, p.stdout, p.stderr)
	}
	return p
}

// newMock is a server that does not listen yet.
func newMock(t *testing.T, o fakellm.Options) *fakellm.Server {
	t.Helper()
	if o.Counter == nil {
		tokens, err := tokenize.Open("builtin")
		if err != nil {
			t.Fatal(err)
		}
		o.Counter = tokens
	}
	o.Clock, o.KeepLog = newClock(), true
	s, err := fakellm.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func serve(t *testing.T, o fakellm.Options) *fakellm.Server {
	t.Helper()
	s := newMock(t, o)
	if err := s.Start(context.Background(), "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	return s
}

// summary is what the tests read of profile_export_aiperf.json.
type summary struct {
	TTFT         metric `json:"time_to_first_token"`
	Anchored     metric `json:"time_to_first_token_from_intended"`
	Prefill      metric `json:"prefill_throughput_per_user"`
	ISL          metric `json:"input_sequence_length"`
	OSL          metric `json:"output_sequence_length"`
	Latency      metric `json:"request_latency"`
	Requests     metric `json:"request_count"`
	UsagePrompt  metric `json:"usage_prompt_tokens"`
	DNS          metric `json:"http_req_dns_lookup"`
	Connecting   metric `json:"http_req_connecting"`
	WasCancelled bool   `json:"was_cancelled"`
	IsComplete   bool   `json:"is_complete"`
	Prefire      struct {
		Counts struct{ Sent, OK, Failed, Cancelled, Censored int64 }
		Cold   struct {
			Count    int64
			Severity string
			Reasons  map[string]int64
			With     map[string]metric `json:"metrics_with_cold"`
		}
		Prewarm struct {
			Targets []struct {
				Connections int
				ProbeMax    float64 `json:"probe_max_ms"`
				TLSMax      float64 `json:"tls_max_ms"`
				SettingsMax float64 `json:"settings_max_ms"`
				Inferences  []struct {
					UsagePrompt float64 `json:"usage_prompt_tokens"`
				}
			}
		}
		Phases []struct {
			InFlightMax int64 `json:"in_flight_max"`
		}
		Client struct {
			Transport string
			Loops     int
			Verdicts  []struct {
				Claim string
				Good  bool
			}
		}
	}
}

// claims reports whether the run calls its client fit for a claim.
func (s *summary) claims(t *testing.T, claim string) bool {
	t.Helper()
	for _, v := range s.Prefire.Client.Verdicts {
		if v.Claim == claim {
			return v.Good
		}
	}
	t.Fatalf("there is no verdict on %s in %v", claim, s.Prefire.Client.Verdicts)
	return false
}

type metric struct {
	Unit               string
	Avg, Min, Max, P99 float64
	Count              int64
}

func readSummary(t *testing.T, dir string) summary {
	t.Helper()
	var s summary
	readJSON(t, filepath.Join(dir, "profile_export_aiperf.json"), &s)
	return s
}

func readJSON(t *testing.T, path string, v any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, v); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// record is what the tests read of a line of profile_export.jsonl.
type record struct {
	Metadata struct {
		SessionNum int64  `json:"session_num"`
		RequestID  string `json:"x_request_id"`
		// CorrelationID names the session.
		CorrelationID string `json:"x_correlation_id"`
		Start         int64  `json:"request_start_ns"`
	}
	Metrics map[string]struct {
		Value any
		Unit  string
	}
	Error   *struct{ Type string }
	Prefire struct {
		Cold      []string
		TTFTSlack int64 `json:"ttft_slack_us"`
		LastSlack int64 `json:"last_slack_us"`
		GapSlack  int64 `json:"gap_slack_us"`
		GapsLost  []int `json:"gaps_in_one_read"`
		Intended  int64 `json:"intended_ns"`
	}
}

func readRecords(t *testing.T, dir string) []record {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "profile_export.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var out []record
	for _, line := range bytes.Split(bytes.TrimSpace(data), []byte("\n")) {
		var r record
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		out = append(out, r)
	}
	return out
}

// profileArgs is a streamed run of short answers.
func profileArgs(url, dir string, more ...string) []string {
	return append([]string{"profile", "--model", "m", "--url", url, "--streaming", "--tokenizer", "builtin", "--isl", "64", "--osl", "8",
		"--no-gpu-telemetry", "--no-server-metrics", "--ui", "none", "--artifact-dir", dir}, more...)
}

func TestCtrlCOnceWritesEverythingMarked(t *testing.T) {
	s := serve(t, fakellm.Options{TTFT: 20 * time.Millisecond, ITL: time.Millisecond})
	dir := t.TempDir()
	signals := make(chan os.Signal, 1)
	done := start(signals, nil, profileArgs(s.URL(), dir, "--concurrency", "2", "--benchmark-duration", "600")...)
	if _, err := s.Wait(t.Context(), 8); err != nil { // the prewarm's three, and some of the run's
		t.Fatal(err)
	}
	signals <- os.Interrupt
	p := <-done
	sum := readSummary(t, dir)
	if p.code != exitOK || !sum.WasCancelled || sum.IsComplete {
		t.Errorf("exit %d, was_cancelled %v, is_complete %v; want 0, true, false\n%s", p.code, sum.WasCancelled, sum.IsComplete, p.stderr)
	}
	c := sum.Prefire.Counts
	if c.Sent < 4 || c.OK != c.Sent || int64(len(readRecords(t, dir))) != c.Sent {
		t.Errorf("%d sent, %d ok, %d records; want all that were sent", c.Sent, c.OK, len(readRecords(t, dir)))
	}
	if !bytes.Contains([]byte(p.stdout), []byte("cancelled early")) {
		t.Errorf("the screen does not say that the run was cancelled early:\n%s", p.stdout)
	}
}

func TestCtrlCTwiceEndsAtOnce(t *testing.T) {
	s := serve(t, fakellm.Options{TTFT: time.Hour})
	signals := make(chan os.Signal, 2)
	quit := make(chan int, 1)
	ctx, end := context.WithCancel(t.Context())
	defer end()
	done := start(signals, func(code int) { quit <- code; <-ctx.Done() },
		profileArgs(s.URL(), t.TempDir(), "--concurrency", "1", "--request-count", "3", "--include-cold")...)
	if err := s.WaitInFlight(t.Context(), 1); err != nil { // nothing ends that could be waited for
		t.Fatal(err)
	}
	signals <- os.Interrupt
	signals <- os.Interrupt
	if code := <-quit; code != exitKilled {
		t.Errorf("exit %d, want %d", code, exitKilled)
	}
	_ = s.Close() // lets the run end
	end()
	<-done
}

func TestSIGTERMCutsTheRunAndKeepsWhatWasMeasured(t *testing.T) {
	s := serve(t, fakellm.Options{TTFT: 300 * time.Millisecond})
	dir := t.TempDir()
	signals := make(chan os.Signal, 1)
	done := start(signals, nil, profileArgs(s.URL(), dir, "--concurrency", "1", "--request-count", "1000", "--include-cold")...)
	if _, err := s.Wait(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	signals <- syscall.SIGTERM
	p := <-done
	sum := readSummary(t, dir)
	if p.code != exitTerminated || !sum.WasCancelled || sum.Prefire.Counts.OK < 1 {
		t.Errorf("exit %d, was_cancelled %v, %+v; want %d, true, 1 ok at least", p.code, sum.WasCancelled, sum.Prefire.Counts, exitTerminated)
	}
	if c := sum.Prefire.Counts; c.Sent != c.OK+c.Censored {
		t.Errorf("%+v: sent is not ok + censored", c)
	}
}

func TestCtrlCDuringThePrewarmLeavesNothingThatLooksLikeAResult(t *testing.T) {
	for signal, want := range map[os.Signal]int{os.Interrupt: exitFailed, syscall.SIGTERM: exitTerminated} {
		s := serve(t, fakellm.Options{TTFT: time.Hour})
		dir := t.TempDir()
		signals := make(chan os.Signal, 1)
		done := start(signals, nil, profileArgs(s.URL(), dir, "--concurrency", "1", "--request-count", "1")...)
		if _, err := s.Wait(t.Context(), 2); err != nil { // probe and model list; the throwaway is next
			t.Fatal(err)
		}
		signals <- signal
		p := <-done
		if p.code != want || !bytes.Contains([]byte(p.stderr), []byte("no profile results to export")) {
			t.Errorf("%v: exit %d, want %d\n%s", signal, p.code, want, p.stderr)
		}
		onlyTheLog(t, dir, "")
	}
}
