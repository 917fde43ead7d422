package main

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"os"
	"prefire/internal/fakellm"
	"prefire/loadgen/wire/reactor"
	"slices"
	"syscall"
)

// wallGrain is how far the two clocks of client and server, and times that went through milliseconds as floats, may lie apart, in ns.
const wallGrain = 2000

// inferences are the server's entries of a run's own requests, by X-Request-ID.
func inferences(s *fakellm.Server, records []record) map[string]fakellm.Entry {
	own := map[string]bool{}
	for _, r := range records {
		own[r.Metadata.RequestID] = true
	}
	out := map[string]fakellm.Entry{}
	for _, e := range s.Entries() {
		if own[e.XRequestID] {
			out[e.XRequestID] = e
		}
	}
	return out
}

func (r *record) value(tag string) float64 { v, _ := r.Metrics[tag].Value.(float64); return v }

// softirq is how long after the server's write a packet may still reach the client's side of the loopback on a busy machine, in ns. It is
// there to find blunders; how near the stamps come is measured, not tested.
const softirq = 250_000_000

// holdsTo checks a run's records, request by request, against the server's own log: the request left before it arrived, its first token came
// after the server began to write it and, within the slack that the record states, not much later, and it is cold exactly where it is the
// first inference on a connection that was opened during the run, and not probed ahead of need.
func holdsTo(t *testing.T, s *fakellm.Server, dir string) (cold int) {
	t.Helper()
	records := readRecords(t, dir)
	entries := inferences(s, records)
	var begin int64 // the run's first request
	firstOn := map[int64]int64{}
	for _, e := range entries {
		if begin == 0 || e.ArrivedNS < begin {
			begin = e.ArrivedNS
		}
		if at, ok := firstOn[e.Connection]; !ok || e.ArrivedNS < at {
			firstOn[e.Connection] = e.ArrivedNS
		}
	}
	before := map[int64]bool{} // connections that had been used before the run
	for _, e := range s.Entries() {
		if e.ArrivedNS < begin {
			before[e.Connection] = true
		}
	}
	for _, r := range records {
		e, ok := entries[r.Metadata.RequestID]
		if !ok {
			t.Errorf("request %d is not in the server's log", r.Metadata.SessionNum)
			continue
		}
		first, ok := e.Find("content")
		if !ok {
			t.Errorf("request %d: the server wrote no content", r.Metadata.SessionNum)
			continue
		}
		at := r.Metadata.Start + int64(r.value("time_to_first_token")*1e6)
		slack := r.Prefire.TTFTSlack * 1000
		if at < first.BeforeNS-wallGrain || at-slack > first.AfterNS+softirq {
			t.Errorf("request %d: first token at %d with a slack of %d ns; the server wrote it between %d and %d ns after that",
				r.Metadata.SessionNum, at, slack, first.BeforeNS-at, first.AfterNS-at)
		}
		if r.Metadata.Start > e.ArrivedNS+wallGrain {
			t.Errorf("request %d started %d ns after it had arrived", r.Metadata.SessionNum, r.Metadata.Start-e.ArrivedNS)
		}
		isCold := len(r.Prefire.Cold) > 0
		want := !before[e.Connection] && e.ArrivedNS == firstOn[e.Connection]
		if want && e.Use > 1 && !isCold {
			want = false // the connection was opened and probed ahead of need; a request that had to wait for it is cold all the same
		}
		if isCold != want {
			t.Errorf("request %d is cold for %v; it was number %d on connection %d", r.Metadata.SessionNum, r.Prefire.Cold, e.Use, e.Connection)
		}
		// What the server held back for a cold connection was no hot request.
		if held := e.StartNS - e.ArrivedNS; !isCold && held != 0 {
			t.Errorf("request %d is hot, and the server held it for %d ns before its clock", r.Metadata.SessionNum, held)
		}
		if isCold {
			cold++
		}
	}
	return cold
}

func TestNothingColdIsInTheResult(t *testing.T) {
	const slow = 400 * time.Millisecond // longer than a machine stalls, so that the cold request stands out
	for _, c := range []struct {
		name   string
		server fakellm.Options
		flags  []string
		where  string // whose delay it is
	}{
		{name: "first byte", server: fakellm.Options{ColdConnection: slow}, where: "probe"},
		{name: "first byte, portable", server: fakellm.Options{ColdConnection: slow}, flags: []string{"--client", "portable"}, where: "probe"},
		{name: "TLS handshake", server: fakellm.Options{TLS: true, ColdTLS: slow}, where: "tls"},
		{name: "TLS handshake, h2", server: fakellm.Options{H2: true, ColdTLS: slow}, where: "tls"},
		{name: "first byte, h2c", server: fakellm.Options{H2C: true, ColdConnection: slow}, flags: []string{"--http", "h2c"}, where: "settings"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.server.TTFT, c.server.ITL = 15*time.Millisecond, time.Millisecond
			s := serve(t, c.server)
			dir := t.TempDir()
			must(t, profileArgs(s.URL(), filepath.Join(dir, "warm"), append(c.flags, "--concurrency", "1", "--request-count", "10")...)...)
			warm := readSummary(t, filepath.Join(dir, "warm"))
			if n := holdsTo(t, s, filepath.Join(dir, "warm")); n != 0 || warm.Prefire.Cold.Count != 0 || warm.TTFT.Count != 10 || warm.Requests.Avg != 10 {
				t.Errorf("%d cold by the log and %d by the result, %d measured of %v; want 0, 0, 10 of 10", n, warm.Prefire.Cold.Count, warm.TTFT.Count, warm.Requests.Avg)
			}
			pre := warm.Prefire.Prewarm.Targets[0]
			took := map[string]float64{"probe": pre.ProbeMax, "tls": pre.TLSMax, "settings": pre.SettingsMax}[c.where]
			if took < slow.Seconds()*1e3 {
				t.Errorf("the prewarm shows %v ms for the %s, want the %v", took, c.where, slow)
			}
			// aiperf's way: the delay is in the first request, and in the average.
			must(t, profileArgs(s.URL(), filepath.Join(dir, "cold"), append(c.flags, "--concurrency", "1", "--request-count", "10", "--include-cold")...)...)
			cold := readSummary(t, filepath.Join(dir, "cold"))
			if n := holdsTo(t, s, filepath.Join(dir, "cold")); n != 1 || cold.Prefire.Cold.Count != 1 || cold.TTFT.Count != 10 || cold.Prefire.Cold.Severity != "high" {
				t.Errorf("%d cold by the log and %d by the result (%s), %d measured; want 1, 1 (high), 10", n, cold.Prefire.Cold.Count, cold.Prefire.Cold.Severity, cold.TTFT.Count)
			}
			if cold.TTFT.Max < slow.Seconds()*1e3+15 || warm.TTFT.Max >= cold.TTFT.Max {
				t.Errorf("TTFT max is %v ms cold and %v warm; want the %v in the first alone", cold.TTFT.Max, warm.TTFT.Max, slow)
			}
			first := readRecords(t, filepath.Join(dir, "cold"))[0]
			if c.where == "tls" && first.value("http_req_connecting") < slow.Seconds()*1e3 {
				t.Errorf("the first request's http_req_connecting is %v ms, want the handshake's %v", first.value("http_req_connecting"), slow)
			}
		})
	}
}

func TestConnectionsThatCloseMakeColdRequestsThatAreKeptOut(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIP: -short leaves out what the full step runs")
	}
	for _, c := range []struct {
		name        string
		server      fakellm.Options
		concurrency string
		flags       []string
	}{
		{"in the clear", fakellm.Options{ColdConnection: 60 * time.Millisecond}, "1", nil},
		{"portable", fakellm.Options{ColdConnection: 60 * time.Millisecond}, "1", []string{"--client", "portable"}},
		{"TLS", fakellm.Options{TLS: true, ColdTLS: 60 * time.Millisecond}, "1", nil},
		{"TLS, three at once", fakellm.Options{TLS: true, ColdTLS: 60 * time.Millisecond}, "3", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.server.TTFT, c.server.ITL, c.server.CloseAfter = 10*time.Millisecond, time.Millisecond, 4
			s := serve(t, c.server)
			dir := t.TempDir()
			must(t, profileArgs(s.URL(), dir, append(c.flags, "--concurrency", c.concurrency, "--request-count", "30")...)...)
			sum, n := readSummary(t, dir), holdsTo(t, s, dir)
			if n == 0 || int64(n) != sum.Prefire.Cold.Count || sum.TTFT.Count != 30-int64(n) || sum.Requests.Avg != 30 || sum.Latency.Count != sum.TTFT.Count {
				t.Errorf("%d cold by the log, %d by the result; %d TTFTs and %d latencies of %v requests", n, sum.Prefire.Cold.Count, sum.TTFT.Count, sum.Latency.Count, sum.Requests.Avg)
			}
			if with := sum.Prefire.Cold.With["time_to_first_token"]; with.Count != 30 || with.Max < 70 {
				t.Errorf("with the cold ones TTFT would be of %d requests and %v ms at most; want 30 and 70 ms at least", with.Count, with.Max)
			}
		})
	}
}

// The reactor is used wherever it can be, and the result says what was used.
func TestTheResultNamesTheTransport(t *testing.T) {
	own := "portable"
	if reactor.Available() {
		own = "reactor"
	}
	for _, c := range []struct {
		name   string
		server fakellm.Options
		flags  []string
		want   string
	}{
		{"in the clear", fakellm.Options{}, nil, own},
		{"HTTP/1.1 by name", fakellm.Options{}, []string{"--http", "1.1"}, own},
		{"asked for", fakellm.Options{}, []string{"--client", "portable"}, "portable"},
		{"TLS", fakellm.Options{TLS: true}, nil, "portable"},
		{"h2c", fakellm.Options{H2C: true}, []string{"--http", "h2c"}, "portable"},
	} {
		s, dir := serve(t, c.server), t.TempDir()
		must(t, profileArgs(s.URL(), dir, append(c.flags, "--concurrency", "1", "--request-count", "1")...)...)
		if got := readSummary(t, dir).Prefire.Client; got.Transport != c.want || got.Loops > 0 != (c.want == "reactor") {
			t.Errorf("%s: the transport was %s with %d loops, want %s", c.name, got.Transport, got.Loops, c.want)
		}
	}
}

func TestExactlyTheAskedSessionsAreInFlight(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIP: -short leaves out what the full step runs")
	}
	for _, client := range []string{"auto", "portable", "h2c"} {
		h2c := client == "h2c"
		s := serve(t, fakellm.Options{TTFT: 800 * time.Millisecond, H2C: h2c})
		flags := []string{"--concurrency", "45", "--request-count", "100", "--streams-per-connection", "7"}
		switch client {
		case "h2c":
			flags = append(flags, "--http", "h2c")
		case "portable":
			flags = append(flags, "--client", "portable")
		}
		dir := t.TempDir()
		must(t, profileArgs(s.URL(), dir, flags...)...)
		sum := readSummary(t, dir)
		if s.MaxInFlight() != 45 || sum.Prefire.Phases[0].InFlightMax != 45 || sum.Requests.Avg != 100 {
			t.Errorf("%s: %d in flight at the server, %d by our count, %v requests; want 45, 45, 100", client, s.MaxInFlight(), sum.Prefire.Phases[0].InFlightMax, sum.Requests.Avg)
		}
		if want, got := map[bool]int{false: 45, true: 7}[h2c], sum.Prefire.Prewarm.Targets[0].Connections; got != want || s.Connections() != int64(want) {
			t.Errorf("%s: %d connections opened, %d at the server; want %d", client, got, s.Connections(), want)
		}
		holdsTo(t, s, dir)
	}
}

func TestPromptsAreExactAndDoNotRepeat(t *testing.T) {
	s := serve(t, fakellm.Options{})
	dir := t.TempDir()
	must(t, profileArgs(s.URL(), dir, "--concurrency", "4", "--request-count", "60", "--warmup-request-count", "20")...)
	seen := map[string]bool{}
	n := 0
	for _, e := range s.Entries() {
		if e.Method != "POST" {
			continue
		}
		n++
		if e.PromptTokens != 64 {
			t.Errorf("the server counted %d tokens, want 64", e.PromptTokens)
		}
		seen[e.PromptSHA256] = true
	}
	if n != 81 || len(seen) != n {
		t.Errorf("%d different prompts in %d requests; want 81 in 81 (one throwaway)", len(seen), n)
	}
}

// The first requests go out while the other prompts are still to be made: all of these would take hours, and fill the memory.
func TestTheFirstRequestDoesNotWaitForAllPrompts(t *testing.T) {
	s := serve(t, fakellm.Options{})
	dir := t.TempDir()
	signals := make(chan os.Signal, 1)
	args := profileArgs(s.URL(), dir, "--concurrency", "1", "--request-count", "50000000")
	args[slices.Index(args, "--isl")+1] = "4096"
	done := start(signals, nil, args...)
	if _, err := s.Wait(t.Context(), 5); err != nil { // probe, model list, throwaway, and two of the run's
		t.Fatal(err)
	}
	signals <- syscall.SIGTERM
	p := <-done
	if sum := readSummary(t, dir); p.code != exitTerminated || sum.Prefire.Counts.OK < 1 || sum.ISL.Max != 4096 {
		t.Errorf("exit %d, %+v, prompts of %v tokens at most; want %d, 1 ok at least, 4096", p.code, sum.Prefire.Counts, sum.ISL.Max, exitTerminated)
	}
}

// The reading that people do of profile_export.jsonl to leave out the first request, in its steps.
func TestRecordsCanBeReadAsPeopleReadThem(t *testing.T) {
	s := serve(t, fakellm.Options{TTFT: 2 * time.Millisecond})
	dir := t.TempDir()
	must(t, profileArgs(s.URL(), dir, "--concurrency", "1", "--request-count", "5", "--include-cold")...)
	var left int
	for i, r := range readRecords(t, dir) {
		if r.Metadata.SessionNum != int64(i) {
			t.Errorf("line %d has session_num %d", i, r.Metadata.SessionNum)
		}
		wantReused := 1.0
		if i == 0 {
			wantReused = 0
		}
		if got := r.Metrics["http_req_connection_reused"]; got.Value != wantReused || got.Unit != "ratio" {
			t.Errorf("line %d: http_req_connection_reused is %v %s, want %v ratio", i, got.Value, got.Unit, wantReused)
		}
		for tag, unit := range map[string]string{"time_to_first_token": "ms", "prefill_throughput_per_user": "tokens/sec/user", "request_latency": "ms"} {
			if m := r.Metrics[tag]; m.Unit != unit || r.value(tag) <= 0 {
				t.Errorf("line %d: %s is %v %s, want a value in %s", i, tag, m.Value, m.Unit, unit)
			}
		}
		if r.Metadata.SessionNum != 0 {
			left++
		}
	}
	if left != 4 {
		t.Errorf("%d records left, want 4", left)
	}
}

func TestTheDemoFindsWhatItsServerDoes(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	p := must(t, "demo", "--report")
	dir = filepath.Join(dir, "results", "longcontext")
	for _, isl := range []string{"512", "1024", "2048", "4096"} {
		sum := readSummary(t, filepath.Join(dir, "demo_mock-model", "isl"+isl))
		if got := fmt.Sprint(sum.ISL.Avg, sum.ISL.Min, sum.ISL.Max); got != isl+" "+isl+" "+isl {
			t.Errorf("ISL avg, min, max %s, want %s", got, isl)
		}
		if sum.TTFT.Min < 20 {
			t.Errorf("TTFT min is %v ms; the server takes more than 20", sum.TTFT.Min)
		}
	}
	if !regexp.MustCompile(`(?m)^ +512 +512 .*\n +1024 +1024 .*\n +2048 +2048 .*\n +4096 +4096 .*$`).MatchString(p.stdout) {
		t.Errorf("the table has not the four rows:\n%s", p.stdout)
	}
	if page, err := os.ReadFile(filepath.Join(dir, "demo_mock-model", reportFile)); err != nil || !strings.Contains(string(page), "Long-context scan") || strings.Count(string(page), "<article") != 4 {
		t.Errorf("the page of the demo: %v, %d bytes", err, len(page))
	}
}
