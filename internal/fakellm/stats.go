package fakellm

import (
	"slices"
	"strconv"
	"strings"
	"sync"
)

// stats are the server's own figures, under vLLM's names and with its labels, help texts and bucket bounds.
type stats struct {
	mu       sync.Mutex
	model    string
	created  float64
	prompt   float64
	output   float64
	success  map[string]float64
	rejects  float64
	ttft     histogram
	itl      histogram
	e2e      histogram
	promptH  histogram
	outputH  histogram
	finishes []string
}

func newStats(model string, maxLen int, created float64) *stats {
	// vLLM's bounds: v1/metrics/buckets.py.
	latency := []float64{0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}
	return &stats{
		model: labelValue(model), created: created, success: map[string]float64{},
		finishes: []string{reasonStop, reasonLength, reasonAbort, "error", "repetition"},
		ttft: newHistogram(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160,
			640, 2560),
		itl: newHistogram(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80),
		e2e: newHistogram(latency...), promptH: newHistogram(oneTwoFive(maxLen)...), outputH: newHistogram(oneTwoFive(maxLen)...),
	}
}

// oneTwoFive are 1, 2, 5, 10, 20, 50, ... up to most.
func oneTwoFive(most int) []float64 {
	var b []float64
	for unit := 1; unit <= most; unit *= 10 {
		for _, m := range [...]int{1, 2, 5} {
			if m*unit <= most {
				b = append(b, float64(m*unit))
			}
		}
	}
	return b
}

// first takes an answer's first step: its time to first token in seconds, the prompt's tokens, the step's tokens.
func (s *stats) first(ttft float64, prompt, tokens int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.prompt += float64(prompt)
	s.output += float64(tokens)
	s.ttft.observe(ttft)
}

// next takes a further step, gap seconds after the one before.
func (s *stats) next(gap float64, tokens int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.output += float64(tokens)
	s.itl.observe(gap)
}

// finished takes the end of a request after seconds. As in vLLM an aborted one is counted and enters no distribution.
func (s *stats) finished(reason string, prompt, tokens int, seconds float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.success[reason]++
	if reason == reasonAbort {
		return
	}
	s.e2e.observe(seconds)
	s.promptH.observe(float64(prompt))
	s.outputH.observe(float64(tokens))
}

func (s *stats) rejected() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rejects++
}

// appendText appends all figures in Prometheus's text format.
func (s *stats) appendText(dst []byte, running, waiting int) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := text{dst}
	both := `engine="0",model_name="` + s.model + `"`
	t.family("num_requests_running", "gauge", "Number of requests in model execution batches.")
	t.sample("num_requests_running", both, float64(running))
	t.family("num_requests_waiting", "gauge", "Number of requests waiting to be processed.")
	t.sample("num_requests_waiting", both, float64(waiting))
	t.counter("prompt_tokens", "Number of prefill tokens processed.", s.created, series{both, s.prompt})
	t.counter("generation_tokens", "Number of generation tokens processed.", s.created, series{both, s.output})
	var success []series
	for _, reason := range s.finishes {
		success = append(success, series{`engine="0",finished_reason="` + reason + `",model_name="` + s.model + `"`, s.success[reason]})
	}
	t.counter("request_success", "Count of successfully processed requests.", s.created, success...)
	t.counter("admission_rejections", "Number of admission attempts rejected by a queue limit, by reason.", s.created,
		series{`model_name="` + s.model + `",reason="max_num_queued_reqs"`, s.rejects},
		series{`model_name="` + s.model + `",reason="max_num_queued_tokens"`, 0})
	for _, h := range []struct {
		name, help string
		h          *histogram
	}{
		{"request_prompt_tokens", "Number of prefill tokens processed.", &s.promptH},
		{"request_generation_tokens", "Number of generation tokens processed.", &s.outputH},
		{"time_to_first_token_seconds", "Histogram of time to first token in seconds.", &s.ttft},
		{"inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", &s.itl},
		{"e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.", &s.e2e},
	} {
		t.histogram(h.name, h.help, s.model, s.created, h.h)
	}
	return t.b
}

type histogram struct {
	bounds []float64
	counts []uint64 // of each bound's own interval; one more for +Inf
	sum    float64
}

func newHistogram(bounds ...float64) histogram {
	return histogram{bounds: bounds, counts: make([]uint64, len(bounds)+1)}
}

func (h *histogram) observe(v float64) {
	i, _ := slices.BinarySearch(h.bounds, v)
	h.counts[i]++
	h.sum += v
}

// text writes Prometheus's text format as its Python client does.
type text struct{ b []byte }

type series struct {
	labels string
	v      float64
}

func (t *text) family(name, kind, help string) {
	t.b = append(t.b, "# HELP vllm:"+name+" "+help+"\n# TYPE vllm:"+name+" "+kind+"\n"...)
}

func (t *text) sample(name, labels string, v float64) {
	t.b = append(t.b, "vllm:"+name+"{"+labels+"} "...)
	t.b = append(appendFloat(t.b, v), '\n')
}

func (t *text) counter(name, help string, created float64, all ...series) {
	t.family(name+"_total", "counter", help)
	for _, s := range all {
		t.sample(name+"_total", s.labels, s.v)
	}
	t.family(name+"_created", "gauge", help)
	for _, s := range all {
		t.sample(name+"_created", s.labels, created)
	}
}

func (t *text) histogram(name, help, model string, created float64, h *histogram) {
	t.family(name, "histogram", help)
	tail := `",model_name="` + model + `"`
	var n uint64
	for i, c := range h.counts {
		n += c
		bound := "+Inf"
		if i < len(h.bounds) {
			bound = string(appendFloat(nil, h.bounds[i]))
		}
		t.sample(name+"_bucket", `engine="0",le="`+bound+tail, float64(n))
	}
	both := `engine="0",model_name="` + model + `"`
	t.sample(name+"_count", both, float64(n))
	t.sample(name+"_sum", both, h.sum)
	t.family(name+"_created", "gauge", help)
	t.sample(name+"_created", both, created)
}

// appendFloat writes whole numbers with a trailing .0 and large ones with an exponent.
func appendFloat(dst []byte, v float64) []byte {
	if v >= 1e6 {
		return strconv.AppendFloat(dst, v, 'e', -1, 64)
	}
	at := len(dst)
	dst = strconv.AppendFloat(dst, v, 'f', -1, 64)
	if !strings.Contains(string(dst[at:]), ".") {
		dst = append(dst, ".0"...)
	}
	return dst
}

func labelValue(s string) string {
	return strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`).Replace(s)
}
