package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A dashboard's reader finds at every path of aiperf's files a value of the same type in ours. The runs of aiperf 0.13.0, and the commands that
// made them, are in internal/export/testdata/aiperf-0.13.0 (make.sh); the server here is that of its mock.py.
func TestEveryPathOfAiperfsFilesIsInOurs(t *testing.T) {
	// What docs/differences.md 41 and 36 say is not in ours.
	curves := regexp.MustCompile(`(?i)/(effective|active)[_ ](decode|prefill|total)|/active |/tokens.in.flight`)
	causes := regexp.MustCompile(`/cause_chain`)
	// What differences.md 3 leaves out where all gaps fell within reads.
	gaps := regexp.MustCompile(`(?i)second.token|inter.(token|chunk).latency|per.user`)
	for _, c := range []struct {
		name   string
		errors bool
		args   []string
		absent *regexp.Regexp
		files  []string
	}{
		{"streaming", false, []string{"--streaming", "--concurrency", "4", "--request-count", "24"}, nil, []string{"summary.json", "summary.csv", "records.jsonl"}},
		{"plain", false, []string{"--concurrency", "4", "--request-count", "12"}, curves, []string{"summary.json", "summary.csv"}},
		{"errors", true, []string{"--streaming", "--concurrency", "4", "--request-count", "30"}, causes, []string{"summary.json", "summary.csv", "records.jsonl"}},
		{"warmup", false, []string{"--streaming", "--concurrency", "4", "--request-count", "16", "--warmup-request-count", "4"}, nil,
			[]string{"summary.json", "summary.csv", "records.jsonl"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := goldenServer(c.errors)
			defer server.Close()
			dir := t.TempDir()
			must(t, append([]string{"profile", "-m", "mock", "-u", server.URL, "--endpoint-type", "chat", "--tokenizer", "builtin", "--ui", "none", "--isl", "32",
				"--osl", "8", "--random-seed", "7", "--artifact-dir", dir, "--no-gpu-telemetry", "--no-server-metrics"}, c.args...)...)
			var own struct {
				Prefire struct {
					Client struct {
						Records struct {
							Gaps json.RawMessage `json:"gaps_in_one_read"`
						}
					}
				}
			}
			b, err := os.ReadFile(filepath.Join(dir, "profile_export_aiperf.json"))
			if err == nil {
				err = json.Unmarshal(b, &own)
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range c.files {
				ours := map[string]string{"summary.json": "profile_export_aiperf.json", "summary.csv": "profile_export_aiperf.csv",
					"records.jsonl": "profile_export.jsonl"}[file]
				want, got := pathsOf(t, filepath.Join("../../internal/export/testdata/aiperf-0.13.0", c.name, file)), pathsOf(t, filepath.Join(dir, ours))
				if len(want) < 20 {
					t.Errorf("%s: %d paths", file, len(want))
				}
				for _, path := range slices.Sorted(maps.Keys(want)) {
					switch {
					case c.absent != nil && c.absent.MatchString(path), own.Prefire.Client.Records.Gaps != nil && gaps.MatchString(path):
						continue
					}
					for _, kind := range want[path] {
						if !slices.Contains(got[path], kind) {
							t.Errorf("%s: %s is %q, aiperf has %q", file, path, got[path], kind)
						}
					}
				}
			}
		})
	}
}

// goldenServer answers as the server of the golden runs does. With errors, two requests in six fail: one with status 500, one in its stream.
func goldenServer(errors bool) *httptest.Server {
	var count atomic.Int64
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct{ Stream bool }
		if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&q) != nil {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		n := count.Add(1) - 2 // the first is the prewarm's
		const usage = `"usage":{"prompt_tokens":40,"completion_tokens":8,"total_tokens":48,"prompt_tokens_details":{"cached_tokens":16}}`
		if errors && n%6 == 3 {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, `{"error":{"message":"engine died","type":"InternalServerError"}}`)
			return
		}
		if !q.Stream {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"id":"x","object":"chat.completion","model":"mock","choices":[{"index":0,"message":{"role":"assistant","content":"`+
				strings.Repeat(" token", 8)+`"},"finish_reason":"length"}],`+usage+`}`)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		event := func(text string) {
			_, _ = io.WriteString(w, text+"\n\n")
			w.(http.Flusher).Flush()
		}
		chunk := func(delta, finish string) {
			event(`data: {"id":"x","object":"chat.completion.chunk","model":"mock","choices":[{"index":0,"delta":` + delta + `,"finish_reason":` + finish + `}]}`)
		}
		chunk(`{"role":"assistant","content":""}`, "null")
		for i := range 8 {
			if errors && n%6 == 5 && i == 2 {
				event("event: error\n: boom happened\ndata: {\"error\":\"boom\"}")
				return
			}
			select {
			case <-r.Context().Done():
				return
			case <-time.After(5 * time.Millisecond):
			}
			chunk(`{"content":" token"}`, "null")
		}
		chunk("{}", `"length"`)
		event(`data: {"id":"x","object":"chat.completion.chunk","model":"mock","choices":[],` + usage + `}`)
		event("data: [DONE]")
	}))
}

// pathsOf are the paths of a file's values, those of lists and of records together, with the types found there.
func pathsOf(t *testing.T, name string) map[string][]string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]string{}
	add := func(path, kind string) {
		if !slices.Contains(found[path], kind) {
			found[path] = append(found[path], kind)
		}
	}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			add(path, "object")
			for k, v := range v {
				walk(path+"/"+k, v)
			}
		case []any:
			add(path, "list")
			for _, v := range v {
				walk(path+"/*", v)
			}
		case string:
			add(path, "text")
		case bool:
			add(path, "bool")
		case nil:
			add(path, "null")
		default:
			add(path, "number")
		}
	}
	if strings.HasSuffix(name, ".csv") {
		r := csv.NewReader(bytes.NewReader(b))
		r.FieldsPerRecord = -1
		rows, err := r.ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		var columns []string
		for _, row := range rows {
			if row[0] == "Metric" {
				columns = row
				add("/"+strings.Join(row, ","), "header")
				continue
			}
			for i := range row {
				add("/"+row[0]+"/"+columns[i], map[bool]string{true: "empty", false: "filled"}[row[i] == ""])
			}
		}
		return found
	}
	lines := [][]byte{b}
	if strings.HasSuffix(name, ".jsonl") {
		lines = bytes.Split(bytes.TrimSpace(b), []byte("\n"))
	}
	for _, line := range lines {
		var v map[string]any
		if err := json.Unmarshal(line, &v); err != nil {
			t.Fatal(err)
		}
		end := ""
		if strings.HasSuffix(name, ".jsonl") {
			if end = "/ok"; v["error"] != nil {
				end = "/failed"
			}
		}
		walk(end, v)
	}
	return found
}
