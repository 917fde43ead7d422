package fakellm

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"prefire/tokenize"
)

const (
	completionsPath = "/v1/completions"
	embeddingsPath  = "/v1/embeddings"
)

const hello = `"messages":[{"role":"user","content":"hello there"}]`

// TestAnswersAreVLLMs holds the server's answers against what vLLM 0.32 sent to the same requests.
func TestAnswersAreVLLMs(t *testing.T) {
	s := start(t, Options{Models: []string{"tiny"}, MaxModelLen: 8192, UsageExtra: 12, Slots: 2, Refuse: 503})
	for _, c := range []struct {
		golden, method, path, contentType, body string
		status                                  int
	}{
		{"models.json", "GET", "/v1/models", "", "", 200},
		{"404.json", "GET", "/nope", "", "", 404},
		{"405.json", "GET", chatPath, "", "", 405},
		{"stream.sse", "POST", chatPath, "application/json",
			`{"model":"tiny",` + hello + `,"stream":true,"max_completion_tokens":4,"ignore_eos":true,"stream_options":{"include_usage":true}}`, 200},
		{"stream-nousage.sse", "POST", chatPath, "application/json",
			`{"model":"tiny",` + hello + `,"stream":true,"max_tokens":3,"ignore_eos":true}`, 200},
		{"stream-one.sse", "POST", chatPath, "application/json; charset=utf-8",
			`{"model":"tiny",` + hello + `,"stream":true,"max_tokens":1,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`, 200},
		{"plain.json", "POST", chatPath, "application/json", `{"model":"tiny",` + hello + `,"max_tokens":3,"ignore_eos":true}`, 200},
		{"nomodel.json", "POST", chatPath, "application/json", `{"model":"other",` + hello + `}`, 404},
		{"nomessages.json", "POST", chatPath, "application/json", `{"model":"tiny"}`, 400},
		{"emptymessages.json", "POST", chatPath, "application/json", `{"model":"tiny","messages":[]}`, 400},
		{"badct.json", "POST", chatPath, "text/plain", `{}`, 400},
		{"noct.json", "POST", chatPath, "", `{}`, 400},
		{"emptybody.json", "POST", chatPath, "application/json", ``, 400},
		{"zero.json", "POST", chatPath, "application/json", `{"model":"tiny",` + hello + `,"max_tokens":0}`, 400},
		{"neg.json", "POST", chatPath, "application/json", `{"model":"tiny",` + hello + `,"max_completion_tokens":-1}`, 400},
		{"toolong.json", "POST", chatPath, "application/json",
			`{"model":"tiny","messages":[{"role":"user","content":"` + strings.Repeat("hello there friend ", 4000) + `"}],"max_tokens":4}`, 400},
		{"outlong.json", "POST", chatPath, "application/json", `{"model":"tiny",` + hello + `,"max_tokens":9000,"stream":true}`, 400},
		{"so-nostream.json", "POST", chatPath, "application/json",
			`{"model":"tiny",` + hello + `,"max_tokens":1,"stream_options":{"include_usage":true}}`, 400},

		{"completions.sse", "POST", completionsPath, "application/json",
			`{"model":"tiny","prompt":"to be","stream":true,"max_tokens":4,"ignore_eos":true,"stream_options":{"include_usage":true}}`, 200},
		{"completions-nousage.sse", "POST", completionsPath, "application/json",
			`{"model":"tiny","prompt":["to be"],"stream":true,"max_tokens":3,"ignore_eos":true}`, 200},
		{"completions-continuous.sse", "POST", completionsPath, "application/json", `{"model":"tiny","prompt":"to be","stream":true,"max_tokens":2,` +
			`"ignore_eos":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`, 200},
		{"completions.json", "POST", completionsPath, "application/json", `{"model":"tiny","prompt":"to be","max_tokens":3,"ignore_eos":true}`, 200},
		{"completions-batch.json", "POST", completionsPath, "application/json", `{"model":"tiny","prompt":["to be","the"],"max_tokens":2,"ignore_eos":true}`, 200},
		{"completions-nolimit.json", "POST", completionsPath, "application/json", `{"model":"tiny","prompt":"to be","ignore_eos":true}`, 200},
		{"completions-noprompt.json", "POST", completionsPath, "application/json", `{"model":"tiny"}`, 400},
		{"completions-empty.json", "POST", completionsPath, "application/json", `{"model":"tiny","prompt":[]}`, 400},
		{"completions-nomodel.json", "POST", completionsPath, "application/json", `{"model":"other","prompt":"to be"}`, 404},
		{"completions-outlong.json", "POST", completionsPath, "application/json", `{"model":"tiny","prompt":"to be","max_tokens":9000}`, 400},
		{"completions-zero.json", "POST", completionsPath, "application/json", `{"model":"tiny","prompt":"to be","max_tokens":0}`, 400},
		{"completions-so-nostream.json", "POST", completionsPath, "application/json",
			`{"model":"tiny","prompt":"to be","max_tokens":1,"stream_options":{"include_usage":true}}`, 400},

		{"embeddings.json", "POST", embeddingsPath, "application/json", `{"model":"tiny","input":["one two three four","one two three"]}`, 200},
		{"embeddings-empty.json", "POST", embeddingsPath, "application/json", `{"model":"tiny","input":[]}`, 400},
		{"embeddings-noinput.json", "POST", embeddingsPath, "application/json", `{"model":"tiny"}`, 400},
		{"embeddings-nomodel.json", "POST", embeddingsPath, "application/json", `{"model":"other","input":["a"]}`, 404},
	} {
		t.Run(c.golden, func(t *testing.T) {
			req, err := http.NewRequest(c.method, s.URL()+c.path, strings.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("X-Request-ID", "abc-1")
			if c.contentType != "" {
				req.Header.Set("Content-Type", c.contentType)
			}
			resp, body := roundTrip(t, http.DefaultTransport, req)
			if resp.StatusCode != c.status {
				t.Errorf("status %d, want %d", resp.StatusCode, c.status)
			}
			want, err := os.ReadFile(filepath.Join("testdata", "vllm-0.32.0", c.golden))
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(c.golden, ".json") {
				want = want[:len(want)-1] // the file's own newline
			}
			if got, want := normal(body), normal(string(want)); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			if c.golden == "stream.sse" && resp.Header.Get("Content-Type") != "text/event-stream; charset=utf-8" {
				t.Errorf("content type %q", resp.Header.Get("Content-Type"))
			}
		})
	}
}

func roundTrip(t *testing.T, rt http.RoundTripper, req *http.Request) (*http.Response, string) {
	t.Helper()
	resp, err := rt.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

// normal takes out what differs from answer to answer.
func normal(s string) string {
	for _, r := range [][2]string{
		{`"id":"chatcmpl-[^"]*"`, `"id":"chatcmpl-ID"`}, {`"id":"modelperm-[^"]*"`, `"id":"modelperm-ID"`}, {`"created":\d+`, `"created":0`},
		{`"id":"cmpl-[^"]*"`, `"id":"cmpl-ID"`}, {`"id":"embd-[^"]*"`, `"id":"embd-ID"`}, {`"embedding":\[[^\]]+\]`, `"embedding":[NUMBERS]`},
		{`"text":"(\\.|[^"\\])+"`, `"text":"TEXT"`}, {`"content":"[^"]+"`, `"content":"TEXT"`}, {`"vllm-0\.32\.0-[^"]*"`, `"FINGERPRINT"`},
	} {
		s = regexp.MustCompile(r[0]).ReplaceAllString(s, r[1])
	}
	return s
}

// TestStopIsVLLMs compares the end of an answer that ends by itself: the end-of-sequence token has no text and is counted.
func TestStopIsVLLMs(t *testing.T) {
	s := start(t, Options{Models: []string{"tiny"}, UsageExtra: 12, OutputTokens: 2})
	ask := func(extra string) string {
		req, err := http.NewRequest("POST", s.URL()+chatPath, strings.NewReader(`{"model":"tiny",`+hello+`,"stream":true,"max_tokens":8`+extra+`}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		_, body := roundTrip(t, http.DefaultTransport, req)
		return body
	}
	want, err := os.ReadFile("testdata/vllm-0.32.0/stop.sse")
	if err != nil {
		t.Fatal(err)
	}
	body := ask(`,"stream_options":{"include_usage":true}`)
	// vLLM's answer had no text at all, this one has two tokens.
	got := strings.SplitAfter(body, "\n\n")
	counts := strings.NewReplacer(`"total_tokens":17,"completion_tokens":3`, `"total_tokens":15,"completion_tokens":1`)
	if len(got) != 7 {
		t.Fatalf("%d events: %q", len(got)-1, got)
	}
	if g, w := normal(got[0]+counts.Replace(strings.Join(got[3:], ""))), normal(string(want)); g != w {
		t.Errorf("got\n%s\nwant\n%s", g, w)
	}
	for extra, n := range map[string]int{`,"ignore_eos":true`: 8, `,"min_tokens":5`: 5, ``: 2} {
		if got := strings.Count(ask(extra), `"content":" `); got != n {
			t.Errorf("with %q %d tokens of text, want %d", extra, got, n)
		}
	}
}

func TestBusyIsVLLMs(t *testing.T) {
	want, err := os.ReadFile("testdata/vllm-0.32.0/busy.json")
	if err != nil {
		t.Fatal(err)
	}
	if got := string(busy(503).body()) + "\n"; got != string(want) {
		t.Errorf("got %s want %s", got, want)
	}
}

// TestMetricsAreVLLMs compares families, help texts, labels and bucket bounds, and then values.
func TestMetricsAreVLLMs(t *testing.T) {
	s := newStats("tiny", 8192, 1796058380.5)
	s.first(0.185, 100, 1)
	s.next(0.020, 2)
	s.finished(reasonLength, 100, 3, 0.205)
	s.finished(reasonAbort, 10, 0, 9)
	s.rejected()
	got := string(s.appendText(nil, 1, 2))
	want, err := os.ReadFile("testdata/vllm-0.32.0/metrics.txt")
	if err != nil {
		t.Fatal(err)
	}
	if g := regexp.MustCompile(`(?m)^(vllm:.*) \S+$`).ReplaceAllString(got, "$1"); g != string(want) {
		t.Errorf("got\n%s\nwant\n%s", g, want)
	}
	const both = `{engine="0",model_name="tiny"} `
	for _, line := range []string{
		"vllm:num_requests_running" + both + "1.0", "vllm:num_requests_waiting" + both + "2.0",
		"vllm:prompt_tokens_total" + both + "100.0", "vllm:generation_tokens_total" + both + "3.0",
		"vllm:prompt_tokens_created" + both + "1.7960583805e+09",
		`vllm:request_success_total{engine="0",finished_reason="length",model_name="tiny"} 1.0`,
		`vllm:request_success_total{engine="0",finished_reason="abort",model_name="tiny"} 1.0`,
		`vllm:admission_rejections_total{model_name="tiny",reason="max_num_queued_reqs"} 1.0`,
		`vllm:time_to_first_token_seconds_bucket{engine="0",le="0.1",model_name="tiny"} 0.0`,
		`vllm:time_to_first_token_seconds_bucket{engine="0",le="0.25",model_name="tiny"} 1.0`,
		`vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf",model_name="tiny"} 1.0`,
		"vllm:time_to_first_token_seconds_sum" + both + "0.185", "vllm:time_to_first_token_seconds_count" + both + "1.0",
		"vllm:inter_token_latency_seconds_sum" + both + "0.02", "vllm:e2e_request_latency_seconds_count" + both + "1.0",
		"vllm:request_prompt_tokens_sum" + both + "100.0",
	} {
		if !strings.Contains(got, line+"\n") {
			t.Errorf("no line %q", line)
		}
	}
}

func TestOneTokenBelongsToTheBucketOfItsBound(t *testing.T) {
	h := newHistogram(1, 2, 5)
	for _, v := range []float64{1, 1.5, 5, 6} {
		h.observe(v)
	}
	if got := fmt.Sprint(h.counts, h.sum); got != "[1 1 1 1] 13.5" {
		t.Errorf("counts %s", got)
	}
}

// TestTextCountsAsManyTokensAsChunks is what makes the server an oracle for output lengths.
func TestTextCountsAsManyTokensAsChunks(t *testing.T) {
	for _, name := range []string{"builtin", "cl100k_base"} {
		counter, err := tokenize.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		s := start(t, Options{Counter: counter})
		for _, n := range []int{1, 2, 37, 500} {
			req, err := http.NewRequest("POST", s.URL()+chatPath, strings.NewReader(chatBody(5, n)))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			_, body := roundTrip(t, http.DefaultTransport, req)
			chunks := regexp.MustCompile(`"content":"([^"]+)"`).FindAllStringSubmatch(body, -1)
			var all string
			for _, c := range chunks {
				all += c[1]
			}
			if got := counter.Count([]byte(all)); len(chunks) != n || got != n {
				t.Errorf("%s: %d chunks of %d tokens, want %d", name, len(chunks), got, n)
			}
		}
		if got := entries(t, s, 4)[0].PromptTokens; got != counter.Count([]byte("w w w w w")) {
			t.Errorf("%s: the prompt has %d tokens", name, got)
		}
	}
}
