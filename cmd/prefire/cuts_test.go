package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// losing is a server of two-token answers that refuses or holds for good what lose says, by the number of the inference (from 0, the prewarm's).
func losing(t *testing.T, lose func(n int64, body string) (status int, hang bool)) string {
	t.Helper()
	var n atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			fmt.Fprint(w, "{}")
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		status, hang := lose(n.Add(1)-1, string(body))
		switch {
		case hang:
			<-r.Context().Done()
			return
		case status != 0:
			http.Error(w, `{"error":{"message":"overloaded"}}`, status)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		const token = `data: {"choices":[{"index":0,"delta":{"content":"a b"},"finish_reason":%s}]}` + "\n\n"
		fmt.Fprintf(w, token, "null")
		_ = http.NewResponseController(w).Flush()
		fmt.Fprintf(w, token+"data: [DONE]\n\n", `"stop"`)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// long tells a prompt of 256 tokens from one of 64.
func long(body string) bool { return len(body) > 700 }

// A scan has the requests that were lost at a length in its table, its verdict and its file, and a length without an answer is a row with the reason.
func TestAScanOfAServerThatLosesRequests(t *testing.T) {
	var of atomic.Int64 // long ones: the first is the prewarm's
	type length struct {
		Requests, Failed, Cut, Overdue int64
		Missing                        string `json:"not_measured_because"`
	}
	for _, tt := range []struct {
		name  string
		lose  func(n int64, body string) (int, bool)
		flags []string
		code  int
		says  []string
		errs  string
		want  length // of the long prompts
	}{
		{"half fail", func(_ int64, body string) (int, bool) {
			if long(body) && of.Add(1)%2 == 0 {
				return 503, false
			}
			return 0, false
		}, []string{"--request-count", "40", "--num-dataset-entries", "20"}, exitOK,
			[]string{"Verdict: unhealthy from 256 tokens on, by the rule that at most 1 % of the requests fail, or hang until they are cut.", "error_rate 0.50 (", "cold  failed",
				"Note: at 64, 256 tokens: 20 prompts were sent before in this run"}, "", length{Requests: 20, Failed: 20}},
		{"all fail", func(_ int64, body string) (int, bool) {
			if long(body) && of.Add(1) > 1 {
				return 503, false
			}
			return 0, false
		}, []string{"--request-count", "12"}, exitFailed,
			[]string{"  256 tokens: not measured: no request of 12 was answered: 12 failed, most often with Service Unavailable: ", "Verdict: unhealthy from 256 tokens on, by the rule that at most 1 %"},
			"at 256 tokens no request of 12 was answered: 12 failed", length{Failed: 12, Missing: "no request of 12 was answered"}},
		{"all hang", func(_ int64, body string) (int, bool) { return 0, long(body) && of.Add(1) > 1 },
			[]string{"--benchmark-duration", "0.3", "--benchmark-grace-period", "0"}, exitFailed,
			[]string{"  256 tokens: not measured: no request of 2 was answered: 2 were cut while they ran", "they ran", "at 256 tokens: error_rate 1.00 ("},
			"2 were cut while they ran", length{Cut: 2, Overdue: 2, Missing: "no request of 2 was answered"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			of.Store(0)
			dir := t.TempDir()
			p := <-start(nil, nil, append([]string{"longcontext", "--model", "m", "--url", losing(t, tt.lose), "--streaming", "--tokenizer", "builtin", "--isl", "64,256", "--osl", "2",
				"--concurrency", "2", "--no-gpu-telemetry", "--no-server-metrics", "--ui", "none", "--artifact-dir", dir}, tt.flags...)...)
			for _, want := range tt.says {
				if !strings.Contains(p.stdout, want) {
					t.Errorf("the screen does not say %q:\n%s", want, p.stdout)
				}
			}
			if p.code != tt.code || !strings.Contains(p.stderr, tt.errs) {
				t.Errorf("exit %d, want %d, with %q on\n%s", p.code, tt.code, tt.errs, p.stderr)
			}
			data, err := os.ReadFile(filepath.Join(dir, "longcontext.json"))
			if err != nil {
				t.Fatal(err)
			}
			var file struct{ Lengths []length }
			if err := json.Unmarshal(data, &file); err != nil || len(file.Lengths) != 2 {
				t.Fatalf("%v\n%s", err, data)
			}
			got := file.Lengths[1]
			if !strings.HasPrefix(got.Missing, tt.want.Missing) || (got.Missing == "") != (tt.want.Missing == "") {
				t.Errorf("not measured because %q, want %q", got.Missing, tt.want.Missing)
			}
			if got.Missing = tt.want.Missing; got != tt.want {
				t.Errorf("at 256 tokens %+v, want %+v", got, tt.want)
			}
		})
	}
	p := <-start(nil, nil, "longcontext", "--model", "m", "--streaming", "--isl", "64,256", "--export-level", "summary")
	if p.code != exitFailed || !strings.Contains(p.stderr, "--export-level summary") {
		t.Errorf("without records: exit %d\n%s", p.code, p.stderr)
	}
}

// The best of a sweep is none whose requests hang until they are cut, however fast the others are.
func TestASweepOfAServerThatHangs(t *testing.T) {
	dir := t.TempDir()
	var of atomic.Int64
	url := losing(t, func(_ int64, body string) (int, bool) { return 0, long(body) && of.Add(1)%4 == 0 })
	args := profileArgs(url, dir, "--concurrency", "2", "--benchmark-duration", "1", "--benchmark-grace-period", "0.2")
	args[slices.Index(args, "--isl")+1] = "64,256"
	p := must(t, args...)
	for _, want := range []string{"  hung  ", "Best latency (p99): mean=64 (", "Not among the best, since more than 1 % of their requests failed or hung until they were cut: mean=256\n"} {
		if !strings.Contains(p.stdout, want) {
			t.Errorf("the screen does not say %q:\n%s", want, p.stdout)
		}
	}
	data, err := os.ReadFile(filepath.Join(dir, "sweep_aggregate", "profile_export_aiperf_sweep.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Prefire struct {
			Hung []struct {
				Parameters map[string]int
				Share      float64 `json:"share_percent"`
			}
		}
	}
	counts := readSummary(t, filepath.Join(dir, "mean_256")).Prefire.Counts
	if err := json.Unmarshal(data, &file); err != nil || len(file.Prefire.Hung) != 1 {
		t.Fatalf("%v: %+v", err, file)
	}
	if h := file.Prefire.Hung[0]; !slices.Contains(slices.Collect(maps.Values(h.Parameters)), 256) || h.Share != 100*float64(counts.Censored)/float64(counts.Sent) || counts.Censored == 0 {
		t.Errorf("%+v hung, of %+v", h, counts)
	}
}

// A warm-up whose requests fail is named.
func TestAWarmupThatFails(t *testing.T) {
	for _, tt := range []struct {
		fail int64 // of five
		says bool
	}{{5, true}, {3, true}, {2, false}} {
		url := losing(t, func(n int64, _ string) (int, bool) {
			if n >= 1 && n <= tt.fail {
				return 503, false
			}
			return 0, false
		})
		p := must(t, profileArgs(url, t.TempDir(), "--concurrency", "1", "--warmup-request-count", "5", "--request-count", "3")...)
		said := strings.Join(strings.Fields(p.stdout), " ")
		if want := fmt.Sprintf("%d of the 5 requests of phase warmup failed or were cut", tt.fail); strings.Contains(said, want) != tt.says {
			t.Errorf("%d fail: %t that the screen says %q:\n%s", tt.fail, !tt.says, want, p.stdout)
		}
	}
}
