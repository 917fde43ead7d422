package main

import (
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"prefire/internal/fakellm"
)

// While a run goes on its metrics can be scraped, as often as anyone likes; with its end the address is free again.
func TestLiveMetrics(t *testing.T) {
	server := serve(t, fakellm.Options{TTFT: 2 * time.Millisecond, ITL: time.Millisecond})
	signals := make(chan os.Signal, 1)
	var out, errs locked
	ended := make(chan int, 1)
	go func() {
		ended <- run(process{args: []string{"prefire", "profile", "--model", "m", "--url", server.URL(), "--streaming", "--tokenizer", "builtin", "--isl", "16", "--osl", "4",
			"--concurrency", "2", "--benchmark-duration", "600", "--ui", "none", "--live-metrics", "0", "--artifact-dir", t.TempDir()},
			stdout: &out, stderr: &errs, signals: signals, exit: func(int) {}, env: func(string) (string, bool) { return "", false }})
	}()
	says := regexp.MustCompile(`live metrics at (http://127\.0\.0\.1:\d+/metrics)`)
	var url string
	for url == "" {
		if m := says.FindStringSubmatch(errs.String()); m != nil {
			url = m[1]
		}
		select {
		case code := <-ended:
			t.Fatalf("the run ended with %d: %s", code, errs.String())
		case <-time.After(5 * time.Millisecond):
		}
	}
	var scrapes sync.WaitGroup
	for range 4 {
		scrapes.Go(func() {
			for {
				text := scrape(t, url)
				if m := regexp.MustCompile(`prefire_time_to_first_token_seconds_count\{phase="profiling"\} (\d+)`).FindStringSubmatch(text); m != nil && m[1] != "0" {
					for _, want := range []string{`prefire_phase_running{phase="profiling",kind="profiling"} 1`, `prefire_requests_total{phase="profiling",outcome="failed"} 0`, `model="m"`} {
						if !strings.Contains(text, want) {
							t.Errorf("the text has no %s:\n%s", want, text)
						}
					}
					return
				}
				if t.Failed() {
					return
				}
			}
		})
	}
	scrapes.Wait()
	signals <- syscall.SIGINT
	if code := <-ended; code != exitOK {
		t.Fatalf("the run ended with %d: %s", code, errs.String())
	}
	address := strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/metrics")
	if l, err := net.Listen("tcp", address); err != nil {
		t.Errorf("the address is still taken: %v", err)
	} else {
		l.Close()
	}
}

func scrape(t *testing.T, url string) string {
	r, err := http.Get(url)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK || !strings.HasPrefix(r.Header.Get("Content-Type"), "text/plain; version=0.0.4") {
		t.Errorf("%v, status %d, %v", err, r.StatusCode, r.Header)
	}
	return string(text)
}

func TestLiveAddress(t *testing.T) {
	for given, want := range map[string]string{"9464": "127.0.0.1:9464", ":9464": "127.0.0.1:9464", "0": "127.0.0.1:0", "0.0.0.0:9464": "0.0.0.0:9464", "[::1]:1": "[::1]:1", "localhost:80": "localhost:80",
		"x": "", "1.2.3.4": "", "a:b:c": "", ":70000": "", "-1": ""} {
		got, err := liveAddress(given)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q is %q, want %q (%v)", given, got, want, err)
		}
	}
}

// An address that is taken ends the run before anything is sent.
func TestLiveMetricsAddressTaken(t *testing.T) {
	server := serve(t, fakellm.Options{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := <-start(nil, nil, "profile", "--model", "m", "--url", server.URL(), "--tokenizer", "builtin", "--request-count", "2", "--ui", "none", "--live-metrics", l.Addr().String(), "--artifact-dir", t.TempDir())
	if p.code != exitFailed || !strings.Contains(p.stderr, "--live-metrics: listen tcp "+l.Addr().String()) || !strings.Contains(p.stderr, "choose another address") {
		t.Errorf("exit code %d: %s", p.code, p.stderr)
	}
	if n := len(server.Entries()); n != 0 {
		t.Errorf("%d requests were sent all the same", n)
	}
}
