// Package livemetrics writes the state of a run in Prometheus' text format, version 0.0.4. Names carry the base units that Prometheus asks
// for: seconds, and counters end in _total.
package livemetrics

import (
	"io"
	"strconv"
	"strings"

	"prefire/metrics"
)

// ContentType is what the text is served as.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// Run is a run at one moment.
type Run struct {
	Version, Model, URL string
	Phases              []Phase // those that have begun
	InFlight            int64
	Draining            bool
	Transport           string
	Connections         int     // open now
	Dialled             int64   // since the start
	Cores               int     // of the machine
	CPU                 float64 // s that the client has used; below 0 = not known
}

// Phase is one phase. Its snapshot has been taken with [Bounds].
type Phase struct {
	Name    string
	Kind    string // warmup or profiling
	Running bool
	metrics.Snapshot
}

// Bounds are the upper ends of the histograms' buckets in ms: three a decade, from 10 µs to 1,000 s.
func Bounds() []float64 {
	return []float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6}
}

// text is the document while it is written.
type text struct{ b []byte }

// Write writes the run.
func Write(w io.Writer, r *Run) error {
	t := new(text)
	t.head("prefire_info", "gauge", "What runs: always 1.")
	t.sample("prefire_info", labels{{"version", r.Version}, {"model", r.Model}, {"url", r.URL}, {"transport", r.Transport}}, 1)
	t.head("prefire_phase_running", "gauge", "1 while a phase sends or waits for its last answers, else 0.")
	for i := range r.Phases {
		p := &r.Phases[i]
		t.sample("prefire_phase_running", labels{{"phase", p.Name}, {"kind", p.Kind}}, truth(p.Running))
	}
	t.gauge("prefire_draining", "1 while no more requests are sent and those in flight may finish, else 0.", truth(r.Draining))
	t.gauge("prefire_requests_in_flight", "Requests sent and not yet answered.", float64(r.InFlight))
	t.gauge("prefire_client_connections", "Connections open now.", float64(r.Connections))
	t.counter("prefire_client_connections_dialled_total", "Connections opened since the start.", float64(r.Dialled))
	t.gauge("prefire_client_cores", "Cores of the client's machine.", float64(r.Cores))
	if r.CPU >= 0 {
		t.counter("prefire_client_cpu_seconds_total", "CPU time that the client has used.", r.CPU)
	}
	t.head("prefire_requests_total", "counter", "Requests by how they ended, once their tokens are counted: ok, failed, cancelled by plan, censored by the end of the run.")
	for i := range r.Phases {
		p := &r.Phases[i]
		for _, o := range [...]struct {
			name string
			n    int64
		}{{"ok", p.OK}, {"failed", p.Failed}, {"cancelled", p.Cancelled}, {"censored", p.Censored}} {
			t.sample("prefire_requests_total", append(p.labels(), label{"outcome", o.name}), float64(o.n))
		}
	}
	t.phases(r, "prefire_cold_requests_total", "counter", "Answered requests that were cold; no latency below holds them, unless --include-cold is given.", func(p *Phase) float64 { return float64(p.Cold) })
	t.phases(r, "prefire_input_tokens_total", "counter", "Input tokens of answered requests.", func(p *Phase) float64 { return p.Input })
	t.phases(r, "prefire_output_tokens_total", "counter", "Output tokens of answered requests.", func(p *Phase) float64 { return p.Output })
	t.histogram(r, "prefire_time_to_first_token_seconds", "Time to first token.", func(p *Phase) *metrics.Watched { return &p.TTFT })
	t.histogram(r, "prefire_inter_token_latency_seconds", "Average time between the tokens of an answer.", func(p *Phase) *metrics.Watched { return &p.ITL })
	t.histogram(r, "prefire_request_latency_seconds", "Time to the last token.", func(p *Phase) *metrics.Watched { return &p.Latency })
	t.histogram(r, "prefire_client_receive_delay_seconds", "How long first tokens lay in the kernel before the client read them; without kernel stamps 0.", func(p *Phase) *metrics.Watched { return &p.ReceiveDelay })
	t.histogram(r, "prefire_client_send_lateness_seconds", "How late requests were ready to go, against the plan.", func(p *Phase) *metrics.Watched { return &p.SendLate })
	_, err := w.Write(t.b)
	return err
}

type label struct{ name, value string }

type labels []label

func (p *Phase) labels() labels { return labels{{"phase", p.Name}} }

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func (t *text) head(name, kind, help string) {
	t.b = append(t.b, "# HELP "+name+" "+help+"\n# TYPE "+name+" "+kind+"\n"...)
}

func (t *text) gauge(name, help string, v float64) {
	t.head(name, "gauge", help)
	t.sample(name, nil, v)
}

func (t *text) counter(name, help string, v float64) {
	t.head(name, "counter", help)
	t.sample(name, nil, v)
}

func (t *text) phases(r *Run, name, kind, help string, of func(*Phase) float64) {
	t.head(name, kind, help)
	for i := range r.Phases {
		t.sample(name, r.Phases[i].labels(), of(&r.Phases[i]))
	}
}

// histogram writes a distribution. A phase without a value has an empty one, so that its series is there from the start.
func (t *text) histogram(r *Run, name, help string, of func(*Phase) *metrics.Watched) {
	t.head(name, "histogram", help)
	bounds := Bounds()
	for i := range r.Phases {
		w, l := of(&r.Phases[i]), r.Phases[i].labels()
		for j, ms := range bounds {
			n := int64(0)
			if w.Within != nil {
				n = w.Within[j]
			}
			t.sample(name+"_bucket", append(l[:1:1], label{"le", number(ms / 1e3)}), float64(n))
		}
		t.sample(name+"_bucket", append(l[:1:1], label{"le", "+Inf"}), float64(w.Count))
		t.sample(name+"_sum", l, w.Sum/1e3)
		t.sample(name+"_count", l, float64(w.Count))
	}
}

func (t *text) sample(name string, l labels, v float64) {
	t.b = append(t.b, name...)
	for i, one := range l {
		sep := byte(',')
		if i == 0 {
			sep = '{'
		}
		t.b = append(append(append(t.b, sep), one.name...), `="`...)
		t.b = append(append(t.b, escape(one.value)...), '"')
	}
	if len(l) > 0 {
		t.b = append(t.b, '}')
	}
	t.b = append(append(append(t.b, ' '), number(v)...), '\n')
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// escape makes a text fit between quotes.
func escape(s string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(strings.ToValidUTF8(s, "\uFFFD"))
}
