package main

import (
	"context"
	"flag"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"prefire/internal/fakellm"
)

// The sizes that are promised: -load.rates 200,2000,5000 -load.seconds 30, and -load.concurrency 1,2,45,128,1000,5000 -load.hold 5s; with
// -load.limits on a machine without other work.
var (
	loadRates       = flag.String("load.rates", "150", "arrivals a second of TestArrivalsAsAskedFor")
	loadSeconds     = flag.Int("load.seconds", 2, "how long each of its runs sends")
	loadConcurrency = flag.String("load.concurrency", "1,2,16", "sessions of TestExactlySoManyInFlight")
	loadHold        = flag.Duration("load.hold", 400*time.Millisecond, "how long its server holds each answer")
	loadLimits      = flag.Bool("load.limits", false, "hold lateness to limits too, and print it")
)

func numbers(t *testing.T, list string) (out []int) {
	t.Helper()
	for s := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, n)
	}
	return out
}

// bareLateness is how late a loop that does nothing else wakes, at the given rate for some seconds: the 99th percentile in ms.
func bareLateness(ctx context.Context, rate, seconds int) (float64, error) {
	c := newClock()
	start := c.Now()
	var late []int64
	for i := range rate * seconds {
		at := start + int64(i)*int64(time.Second)/int64(rate)
		if err := c.Until(ctx, at); err != nil {
			return 0, err
		}
		late = append(late, c.Now()-at)
	}
	slices.Sort(late)
	return float64(late[len(late)*99/100]) / 1e6, nil
}

// Every drawn arrival is sent and none is added, as many as asked for in every second: no burst at the start, no drift.
func TestArrivalsAsAskedFor(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIP: -short leaves out what the full step runs")
	}
	for _, rate := range numbers(t, *loadRates) {
		for _, pattern := range []string{"constant", "poisson"} {
			t.Run(fmt.Sprintf("%d %s", rate, pattern), func(t *testing.T) {
				m, dir := startLoggingMock(t), t.TempDir()
				args := []string{"profile", "--model", "m", "--url", m.url, "--streaming", "--tokenizer", "builtin", "--isl", "32", "--osl", "1",
					"--no-gpu-telemetry", "--no-server-metrics", "--ui", "none", "--artifact-dir", dir, "--request-rate", strconv.Itoa(rate),
					"--arrival-pattern", pattern, "--benchmark-duration", strconv.Itoa(*loadSeconds)}
				bare := math.NaN() // a bare loop's, beside the run: what this machine gives to anyone at that time
				beside := make(chan error, 1)
				if *loadLimits {
					go func() {
						var err error
						bare, err = bareLateness(t.Context(), rate, *loadSeconds)
						beside <- err
					}()
				} else {
					beside <- nil
				}
				profileProcess(t, nil, nil, args...)
				if err := <-beside; err != nil {
					t.Fatal(err)
				}
				var sum struct {
					Prefire struct {
						Load []struct {
							Due, Sent int64
							Dropped   int64 `json:"dropped_at_a_limit"`
							Missed    int64 `json:"due_and_not_sent"`
							Late      int64
							Lateness  struct {
								P50 float64 `json:"p50_ms"`
								P99 float64 `json:"p99_ms"`
								Max float64 `json:"max_ms"`
							} `json:"send_lateness"`
							OverTime struct {
								Bucket    float64 `json:"bucket_s"`
								Due, Sent []int64
							} `json:"over_time"`
						}
					}
				}
				readJSON(t, filepath.Join(dir, "profile_export_aiperf.json"), &sum)
				l := sum.Prefire.Load[0]
				records := readRecords(t, dir)
				n, asked := int64(len(records)), float64(rate**loadSeconds)
				there := int64(-1) // the throwaway inference has no record
				for _, e := range m.entries(t) {
					if e.Method == "POST" {
						there++
					}
				}
				if l.Sent+l.Missed != l.Due || l.Dropped != 0 || n != l.Sent || there != n {
					t.Errorf("%+v: %d records, %d at the server; want all that was due", l, n, there)
				}
				spread := 1.0
				if pattern == "poisson" {
					spread = 4 * math.Sqrt(asked)
				}
				if off := math.Abs(float64(l.Due) - asked); off > spread {
					t.Errorf("%d are due, %v off %v", l.Due, off, asked)
				}
				perBucket := float64(rate) * l.OverTime.Bucket
				for i, due := range l.OverTime.Due {
					bound := 1.0
					if pattern == "poisson" {
						bound = 5*math.Sqrt(perBucket) + 1 // of many buckets, some are far off
					}
					whole := float64(i+1)*l.OverTime.Bucket <= float64(*loadSeconds)
					if off := float64(due) - perBucket; off > bound || whole && off < -bound {
						t.Errorf("second %v to %v: %d are due, want %v within %v", float64(i)*l.OverTime.Bucket, float64(i+1)*l.OverTime.Bucket, due, perBucket, bound)
					}
				}
				if !*loadLimits {
					return
				}
				fmt.Printf("%5d rps %s: %d due, %d sent, %d late; lateness p50 %.3f p99 %.3f max %.3f ms, a bare loop's p99 %.3f ms; first second %d, last %d\n", rate, pattern,
					l.Due, l.Sent, l.Late, l.Lateness.P50, l.Lateness.P99, l.Lateness.Max, bare, l.OverTime.Sent[0], l.OverTime.Sent[*loadSeconds-1])
				if rate <= 2000 && l.Lateness.P99 > bare+0.3 {
					t.Errorf("sends are %.3f ms late (p99), a bare loop %.3f", l.Lateness.P99, bare)
				}
				if l.Missed != 0 {
					t.Errorf("%d of %d were not sent before the end", l.Missed, l.Due)
				}
			})
		}
	}
}

// The server has exactly as many requests at once as there are sessions, never one more, and gets exactly as many in all as asked for.
func TestExactlySoManyInFlight(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIP: -short leaves out what the full step runs")
	}
	for _, c := range numbers(t, *loadConcurrency) {
		t.Run(strconv.Itoa(c), func(t *testing.T) {
			s, dir := serve(t, fakellm.Options{TTFT: *loadHold}), t.TempDir()
			want := 2*c + 1
			must(t, "profile", "--model", "m", "--url", s.URL(), "--streaming", "--tokenizer", "builtin", "--isl", "32", "--osl", "1", "--no-gpu-telemetry",
				"--no-server-metrics", "--ui", "none", "--artifact-dir", dir, "--concurrency", strconv.Itoa(c), "--request-count", strconv.Itoa(want))
			records := readRecords(t, dir)
			log := inferences(s, records)
			if len(records) != want || len(log) != want {
				t.Fatalf("%d records, %d requests at the server, want %d", len(records), len(log), want)
			}
			var arrived []int64
			for _, e := range log {
				arrived = append(arrived, e.ArrivedNS)
			}
			slices.Sort(arrived)
			most := s.MaxInFlight()
			// Where this machine stood still, the first answers were there before the last requests.
			if inTime := arrived[c-1]-arrived[0] < int64(*loadHold); most > c || inTime && most != c {
				t.Errorf("%d at once, want %d", most, c)
			}
			if *loadLimits {
				took := float64(arrived[c-1]-arrived[0]) / 1e6
				fmt.Printf("%5d sessions: %d at once, all there after %.1f ms, %d requests\n", c, most, took, want)
				if c <= 1000 && took > 50 {
					t.Errorf("the %d are there after %.1f ms, want 50", c, took)
				}
			}
		})
	}
}
