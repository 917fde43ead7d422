package main

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"prefire/internal/fakellm"
)

// front is a server before the mock that has the paths of vLLM's development mode, and keeps what it was asked: its own probes left out, and
// each line once in a row.
func front(t *testing.T) (address string, asked func() []string) {
	t.Helper()
	to, err := url.Parse(serve(t, fakellm.Options{Models: []string{"m"}}).URL())
	if err != nil {
		t.Fatal(err)
	}
	mock := httputil.NewSingleHostReverseProxy(to)
	var mu sync.Mutex
	var lines []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		line := r.Method + " " + r.URL.Path
		mu.Lock()
		if line != "GET /health" && (len(lines) == 0 || lines[len(lines)-1] != line) {
			lines = append(lines, line)
		}
		mu.Unlock()
		switch r.URL.Path {
		case "/reset_prefix_cache":
			_, _ = w.Write([]byte(`{"success": true}`))
		case "/start_profile", "/stop_profile":
		default:
			mock.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, func() []string { mu.Lock(); defer mu.Unlock(); return slices.Clone(lines) }
}

func TestWhatComesBesideTheLoadComesInItsOrder(t *testing.T) {
	address, asked := front(t)
	dir := t.TempDir()
	p := must(t, profileArgs(address, dir, "--request-count", "3", "--warmup-request-count", "2", "--wait-for-model-timeout", "60", "--wait-for-model-mode", "both",
		"--reset-kv-cache", "--server-profiler")...)
	const chat = "POST /v1/chat/completions"
	want := []string{
		"GET /v1/models", chat, // readiness
		"POST /reset_prefix_cache",
		"GET /v1/models", chat, // the prewarm, and the warm-up phase
		"POST /start_profile", chat, "POST /stop_profile",
	}
	if got := asked(); !slices.Equal(got, want) {
		t.Errorf("asked %q, want %q", got, want)
	}
	var sum struct {
		Prefire struct{ Control map[string]any }
	}
	readJSON(t, filepath.Join(dir, "profile_export_aiperf.json"), &sum)
	waited, _ := sum.Prefire.Control["ready_after_ms"].(float64)
	delete(sum.Prefire.Control, "ready_after_ms")
	if want := map[string]any{"kv_cache_reset": true, "server_profiler_phases": 1.0}; waited <= 0 || !reflect.DeepEqual(sum.Prefire.Control, want) {
		t.Errorf("prefire.control says %v after %v ms, want %v", sum.Prefire.Control, waited, want)
	}
	if !strings.Contains(p.stdout, "the server's profiler ran during the measured phases") {
		t.Errorf("the screen does not say that the profiler ran:\n%s", p.stdout)
	}
}

// A server without the paths of the development mode ends the run: before any load, or before the measured part of it.
func TestWhatCannotBeDoneBesideTheLoadEndsTheRun(t *testing.T) {
	s := serve(t, fakellm.Options{})
	for _, tt := range []struct{ flag, want string }{
		{"--reset-kv-cache", "reset_kv_cache failed before benchmark start: POST " + s.URL() + "/reset_prefix_cache: answered 404 Not Found; vLLM has this path"},
		{"--server-profiler", "server_profiler start failed: POST " + s.URL() + "/start_profile: answered 404 Not Found; vLLM has this path"},
	} {
		dir := t.TempDir()
		p := <-start(nil, nil, profileArgs(s.URL(), dir, "--request-count", "3", tt.flag)...)
		if p.code != exitFailed || !strings.Contains(p.stderr, tt.want) {
			t.Errorf("%s: exit %d, want %d and %s\n%s", tt.flag, p.code, exitFailed, tt.want, p.stderr)
		}
		onlyTheLog(t, dir, tt.want)
	}
}

func TestCtrlCEndsTheWaitForAServer(t *testing.T) {
	asked := make(chan struct{}, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		select {
		case asked <- struct{}{}:
		default:
		}
	}))
	defer s.Close()
	signals := make(chan os.Signal, 1)
	done := start(signals, nil, profileArgs(s.URL, t.TempDir(), "--request-count", "1", "--wait-for-model-timeout", "1h")...)
	<-asked
	signals <- os.Interrupt
	if p := <-done; p.code != exitFailed || !strings.Contains(p.stderr, "no profile results to export") {
		t.Errorf("exit %d, want %d\n%s", p.code, exitFailed, p.stderr)
	}
}
