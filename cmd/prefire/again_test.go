package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"prefire/internal/fakellm"
)

// What is sent again after a 429 has its wait in its latencies, and the run says how many have one and what the figures are without.
func TestARunSaysWhatItsRetriesDoToTheFigures(t *testing.T) {
	// The prewarm's three requests and two of the load are answered first; then each is refused once.
	busy, err := fakellm.ParseFault("status=429,retry-after=0.2,after=5,times=1")
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, fakellm.Options{TTFT: 3 * time.Millisecond, ITL: time.Millisecond, Faults: []fakellm.Fault{busy}})
	dir := t.TempDir()
	p := must(t, profileArgs(s.URL(), dir, "--concurrency", "1", "--request-count", "6", "--retry-429", "2")...)
	type spread struct {
		Count int64   `json:"count"`
		Avg   float64 `json:"avg_ms"`
		Min   float64 `json:"min_ms"`
		P99   float64 `json:"p99_ms"`
	}
	var got struct {
		TTFT    metric `json:"time_to_first_token"`
		Latency metric `json:"request_latency"`
		Prefire struct {
			Again struct {
				Requests, Sends int64
				Waited          spread
				Without         map[string]spread `json:"without_the_waits"`
			} `json:"sent_again"`
		} `json:"prefire"`
	}
	readJSON(t, filepath.Join(dir, "profile_export_aiperf.json"), &got)
	again := got.Prefire.Again
	var waits []float64
	lines, err := os.ReadFile(filepath.Join(dir, "profile_export.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range bytes.Split(bytes.TrimSpace(lines), []byte("\n")) {
		var r struct {
			Prefire struct {
				Attempts int64
				Waited   float64 `json:"first_send_to_last_ms"`
			}
		}
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		if (r.Prefire.Attempts == 2) != (r.Prefire.Waited >= 200) {
			t.Errorf("%d attempts and %v ms between them", r.Prefire.Attempts, r.Prefire.Waited)
		}
		if r.Prefire.Waited > 0 {
			waits = append(waits, r.Prefire.Waited)
		}
	}
	n := int64(len(waits))
	if n == 0 || n == 6 || again.Requests != n || again.Sends != n || again.Waited.Count != n || math.Abs(again.Waited.Min-slices.Min(waits)) > 0.001 {
		t.Fatalf("%+v, want the waits %v", again, waits)
	}
	for tag, with := range map[string]metric{"time_to_first_token": got.TTFT, "request_latency": got.Latency} {
		without := again.Without[tag]
		if want := with.Avg - again.Waited.Avg*float64(n)/6; without.Count != 6 || math.Abs(without.Avg-want) > 1e-6 || without.P99 >= with.P99 {
			t.Errorf("%s: %+v without the waits, want %v", tag, without, want)
		}
	}
	if said := fmt.Sprintf("%d of those measured waited %.1f ms on average, which is in the latencies: Time to First Token is %.1f ms on average and %.1f at p99, without the waits %.1f and %.1f",
		n, again.Waited.Avg, got.TTFT.Avg, got.TTFT.P99, again.Without["time_to_first_token"].Avg, again.Without["time_to_first_token"].P99); !strings.Contains(onScreen(p), said) {
		t.Errorf("%s\nwant %s", onScreen(p), said)
	}
}
