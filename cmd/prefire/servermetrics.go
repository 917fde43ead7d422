package main

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"prefire/internal/export"
	"prefire/internal/servermetrics"
	serverscrape "prefire/internal/servermetrics/scrape"
	"prefire/loadgen"
	"prefire/metrics"
)

// servers reads the servers' own metrics while a run goes on; a nil one reads nothing.
type servers struct {
	b       *bench
	scraper *serverscrape.Scraper
}

func newServers(b *bench) *servers {
	if b.cfg.ServerMetrics == nil {
		return nil
	}
	var urls []string
	add := func(address string) {
		if !slices.Contains(urls, address) {
			urls = append(urls, address)
		}
	}
	for _, base := range b.cfg.Endpoint.URLs {
		add(metricsURL(base))
	}
	for _, address := range b.cfg.ServerMetrics.URLs {
		add(address)
	}
	return &servers{b: b, scraper: serverscrape.New(serverscrape.Options{
		Clock: b.clock, URLs: urls, TLS: b.load.plan.Targets[0].Wire.TLS, Agent: "prefire/" + version(), Say: b.view.say,
	})}
}

// metricsURL is where the server of a base URL has its metrics: beside its API.
func metricsURL(base string) string {
	u, err := url.Parse(base)
	if err != nil {
		return base // it was checked when the config was read
	}
	u.Path, u.RawPath = sibling(base, "/metrics"), ""
	u.User, u.Fragment = nil, ""
	return u.String()
}

func (x *servers) start(ctx context.Context) {
	if x != nil {
		x.scraper.Start(ctx)
	}
}

// before reads right before a phase.
func (x *servers) before(ctx context.Context, phase int) error {
	if x != nil {
		x.scraper.Begin(ctx, phase)
	}
	return nil
}

func (x *servers) over(phase int) {
	if x != nil {
		x.scraper.End(phase)
	}
}

// finish makes the last reading and ends the reading. It may take a while: nothing is to wait for it that need not.
func (x *servers) finish(at int64) {
	if x == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	x.scraper.Finish(ctx, at)
}

// report is what the metrics did, nil where none were asked for.
func (x *servers) report(sums []loadgen.PhaseSummary) *export.ServerMetrics {
	if x == nil {
		return nil
	}
	m := &export.ServerMetrics{JSON: x.b.cfg.ServerMetrics.JSON, CSV: x.b.cfg.ServerMetrics.CSV, Wall: x.b.clock.Wall, ByPhase: make([][]servermetrics.Report, len(sums))}
	kinds := map[metrics.Kind][]int{}
	for i, s := range sums {
		kinds[s.Phase.Kind] = append(kinds[s.Phase.Kind], i)
		if s.Phase.Kind == metrics.Warmup {
			if m.WarmupStart.IsZero() {
				m.WarmupStart = x.b.clock.Wall(s.Start)
			}
			m.WarmupEnd = x.b.clock.Wall(s.End)
		}
	}
	for _, o := range x.scraper.Outcomes() {
		m.Configured = append(m.Configured, o.URL)
		if !o.Read {
			continue
		}
		m.Successful = append(m.Successful, o.URL)
		add := func(to *[]servermetrics.Report, phases []int, whole bool) {
			if r, ok := o.Book.Report(phases, whole); ok {
				*to = append(*to, r)
			}
		}
		add(&m.Profiling, kinds[metrics.Profiling], true)
		add(&m.Warmup, kinds[metrics.Warmup], true)
		for i := range sums {
			add(&m.ByPhase[i], []int{i}, false)
		}
	}
	return m
}

// facts are prefire.server_metrics: how each server was read, and what vLLM's own figures rose by in the measured phases.
func (x *servers) facts(m *export.ServerMetrics) any {
	if x == nil {
		return nil
	}
	var out []any
	for _, o := range x.scraper.Outcomes() {
		f := export.Object{{Key: "url", Value: o.URL}, {Key: "read", Value: o.Read}}
		if o.Failed > 0 {
			f = append(f, export.Field{Key: "failed_readings", Value: o.Failed})
		}
		if o.Why != "" {
			f = append(f, export.Field{Key: "last_error", Value: x.b.secrets.String(o.Why)})
		}
		for i := range m.Profiling {
			if r := &m.Profiling[i]; r.URL == o.URL {
				f = append(f, export.Field{Key: "readings", Value: r.Info.Fetches}, export.Field{Key: "reading_ms", Value: r.Info.FetchLatency() / 1e6})
				if v := vllmFacts(r.Metrics); len(v) > 0 {
					f = append(f, export.Field{Key: "vllm", Value: v})
				}
			}
		}
		out = append(out, f)
	}
	return out
}

// vllmFacts are the figures of vLLM's that stand beside the client's, over all engines of a server.
func vllmFacts(list []servermetrics.Metric) export.Object {
	var o export.Object
	for _, f := range [...]struct{ key, name string }{
		{"prompt_tokens", "vllm:prompt_tokens"}, {"generation_tokens", "vllm:generation_tokens"}, {"preemptions", "vllm:num_preemptions"},
		{"prefix_cache_queries", "vllm:prefix_cache_queries"}, {"prefix_cache_hits", "vllm:prefix_cache_hits"},
	} {
		if v, ok := risen(list, f.name, ""); ok {
			o = append(o, export.Field{Key: f.key, Value: int64(v)})
		}
	}
	var ended export.Object
	for _, reason := range []string{"stop", "length", "abort", "error", "repetition"} {
		if v, ok := risen(list, "vllm:request_success", reason); ok {
			ended = append(ended, export.Field{Key: reason, Value: int64(v)})
		}
	}
	if len(ended) > 0 {
		o = append(o, export.Field{Key: "requests", Value: ended})
	}
	for _, f := range [...]struct{ key, name string }{
		{"time_to_first_token_ms", "vllm:time_to_first_token_seconds"}, {"queue_time_ms", "vllm:request_queue_time_seconds"},
		{"prefill_time_ms", "vllm:request_prefill_time_seconds"}, {"inter_token_latency_ms", "vllm:inter_token_latency_seconds"},
		{"e2e_request_latency_ms", "vllm:e2e_request_latency_seconds"},
	} {
		if count, mean, ok := observed(list, f.name); ok {
			o = append(o, export.Field{Key: f.key, Value: export.Object{{Key: "count", Value: count}, {Key: "avg", Value: 1e3 * mean}}})
		}
	}
	for _, f := range [...]struct{ key, name string }{
		{"running", "vllm:num_requests_running"}, {"waiting", "vllm:num_requests_waiting"}, {"kv_cache_usage", "vllm:kv_cache_usage_perc"},
	} {
		for i := range list {
			if m := &list[i]; m.Name == f.name && m.Series[0].Gauge != nil {
				g := m.Series[0].Gauge
				o = append(o, export.Field{Key: f.key, Value: export.Object{{Key: "avg", Value: g.Avg}, {Key: "max", Value: g.Max}}})
			}
		}
	}
	return o
}

// risen is how much the series of a counter rose together; reason picks those with that finished_reason.
func risen(list []servermetrics.Metric, name, reason string) (sum float64, ok bool) {
	for i := range list {
		if list[i].Name != name {
			continue
		}
		for _, s := range list[i].Series {
			wanted := reason == "" || slices.Contains(s.Labels, servermetrics.Label{Name: "finished_reason", Value: reason})
			if s.Counter != nil && wanted {
				sum, ok = sum+s.Counter.Total, true
			}
		}
	}
	return sum, ok
}

// observed is how many values the series of a histogram took together, and their mean.
func observed(list []servermetrics.Metric, name string) (count int64, mean float64, ok bool) {
	sum := 0.0
	for i := range list {
		if list[i].Name != name {
			continue
		}
		for _, s := range list[i].Series {
			if s.Histogram != nil {
				count, sum = count+s.Histogram.Count, sum+s.Histogram.Sum
			}
		}
	}
	if count == 0 {
		return 0, 0, false
	}
	return count, sum / float64(count), true
}

// lines are what the screen says of vLLM's own figures, a line for each server that has them.
func serverLines(m *export.ServerMetrics) []string {
	if m == nil {
		return nil
	}
	var out []string
	for i := range m.Profiling {
		r := &m.Profiling[i]
		prompt, ok := risen(r.Metrics, "vllm:prompt_tokens", "")
		if !ok {
			continue
		}
		made, _ := risen(r.Metrics, "vllm:generation_tokens", "")
		ended, _ := risen(r.Metrics, "vllm:request_success", "")
		parts := []string{fmt.Sprintf("%s: %.0f requests ended, %.0f prompt tokens, %.0f generated, by its own count", r.URL, ended, prompt, made)}
		if _, mean, ok := observed(r.Metrics, "vllm:time_to_first_token_seconds"); ok {
			parts = append(parts, fmt.Sprintf("TTFT %.1f ms on average", 1e3*mean))
		}
		if _, mean, ok := observed(r.Metrics, "vllm:request_queue_time_seconds"); ok {
			parts = append(parts, fmt.Sprintf("of it %.1f ms in its queue", 1e3*mean))
		}
		if n, ok := risen(r.Metrics, "vllm:num_preemptions", ""); ok && n > 0 {
			parts = append(parts, fmt.Sprintf("%.0f preemptions", n))
		}
		out = append(out, strings.Join(parts, "; "))
	}
	return out
}
