package metrics

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// The cases are runs of the real aiperf 0.13.0; testdata/aiperf-0.13.0/README.md says how they were made.
var gateCases = []struct {
	name string
	o    Options
}{
	{"streamed", Options{Streaming: true}},
	{"errors", Options{Streaming: true}},
	{"plain", Options{}},
	{"server", Options{Streaming: true, ServerCounts: true}},
	{"warmup", Options{Streaming: true}},
	{"all", Options{Streaming: true, Network: true, Objectives: objectives}},
	{"turns", Options{Streaming: true}},
	{"turns-errors", Options{Streaming: true}},
}

// objectives are those of the run all.
var objectives = func() *Objectives {
	o, err := NewObjectives([]Objective{{"time_to_first_token", 42}, {"inter_token_latency", 30}})
	if err != nil {
		panic(err)
	}
	return o
}()

// untrimmed reports whether a case has aiperf's curves.
func untrimmed(name string) bool { return name == "all" || strings.HasPrefix(name, "turns") }

type exportedLine struct {
	Metadata struct {
		CreditIssued int64  `json:"credit_issued_ns"`
		RequestStart int64  `json:"request_start_ns"`
		RequestEnd   int64  `json:"request_end_ns"`
		Phase        string `json:"benchmark_phase"`
		WasCancelled bool   `json:"was_cancelled"`
	} `json:"metadata"`
	Metrics map[string]struct {
		Value json.RawMessage `json:"value"`
		Unit  Unit            `json:"unit"`
	} `json:"metrics"`
	Error *Error `json:"error"`
}

// number is a metric's value in its definition's Unit.
func (l *exportedLine) number(t *testing.T, d *Def) (float64, bool) {
	t.Helper()
	m, ok := l.Metrics[d.Tag]
	if !ok {
		return 0, false
	}
	var v float64
	if err := json.Unmarshal(m.Value, &v); err != nil {
		t.Fatalf("%s: %v", d.Tag, err)
	}
	return v / d.Factor(), true
}

func (l *exportedLine) numbers(t *testing.T, d *Def) []float64 {
	t.Helper()
	m, ok := l.Metrics[d.Tag]
	if !ok {
		return nil
	}
	var v []float64
	if err := json.Unmarshal(m.Value, &v); err != nil {
		t.Fatalf("%s: %v", d.Tag, err)
	}
	for i := range v {
		v[i] /= d.Factor()
	}
	return v
}

type exportedMetric struct {
	Unit  Unit   `json:"unit"`
	Count *int64 `json:"count"`

	Avg, Min, Max, Std, Sum         *float64
	P1, P5, P10, P25, P50, P75, P90 *float64
	P95, P99                        *float64
}

func (m *exportedMetric) percentiles() [9]*float64 {
	return [9]*float64{m.P1, m.P5, m.P10, m.P25, m.P50, m.P75, m.P90, m.P95, m.P99}
}

type gateCase struct {
	lines   []exportedLine // of profiling
	metrics map[string]exportedMetric
	csv     []string // names, in order
	errors  []ErrorCount
	window  Window // relative to base
	base    int64
}

func readGate(t *testing.T, name string) *gateCase {
	t.Helper()
	read := func(file string) []byte {
		b, err := os.ReadFile(filepath.Join("testdata", "aiperf-0.13.0", name, file))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	g := &gateCase{metrics: map[string]exportedMetric{}, base: math.MaxInt64}
	sc := bufio.NewScanner(bytes.NewReader(read("profile_export.jsonl")))
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		var l exportedLine
		if err := json.Unmarshal(sc.Bytes(), &l); err != nil {
			t.Fatal(err)
		}
		if l.Metadata.Phase == "profiling" {
			g.lines = append(g.lines, l)
			g.base = min(g.base, l.Metadata.RequestStart-1e9)
		}
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(read("profile_export_aiperf.json"), &all); err != nil {
		t.Fatal(err)
	}
	for tag, raw := range all {
		var m exportedMetric
		if json.Unmarshal(raw, &m) == nil && m.Unit != "" {
			g.metrics[tag] = m
		}
	}
	var summary []struct {
		Details Error `json:"error_details"`
		Count   int64
	}
	if err := json.Unmarshal(all["error_summary"], &summary); err != nil {
		t.Fatal(err)
	}
	for _, s := range summary {
		g.errors = append(g.errors, ErrorCount{s.Details, s.Count})
	}
	g.window = gateWindow(t, all, g.base)
	for _, line := range readCSV(t, read("profile_export_aiperf.csv")) {
		if line[0] != "Metric" {
			g.csv = append(g.csv, line[0])
		}
	}
	return g
}

func readCSV(t *testing.T, b []byte) [][]string {
	t.Helper()
	r := csv.NewReader(bytes.NewReader(b))
	r.FieldsPerRecord = -1
	var lines [][]string
	for {
		line, err := r.Read()
		if errors.Is(err, io.EOF) {
			return lines
		}
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
}

func gateWindow(t *testing.T, all map[string]json.RawMessage, base int64) Window {
	t.Helper()
	at := func(key string) int64 {
		var s string
		if err := json.Unmarshal(all[key], &s); err != nil {
			t.Fatal(err)
		}
		v, err := time.Parse("2006-01-02T15:04:05.999999", s)
		if err != nil {
			t.Fatal(err)
		}
		return v.UnixNano() - base
	}
	return Window{at("start_time"), at("end_time")}
}

// near compares to a relative 1e-9. Where the values are all but equal, a standard deviation is noise in proportion to the values.
func near(got, want, size float64) bool {
	return math.Abs(got-want) <= 1e-9*max(math.Abs(want), size*1e-3)
}

func compareSeries(t *testing.T, tag string, got Result, want exportedMetric) {
	t.Helper()
	if want.Count == nil || got.Count != *want.Count {
		t.Errorf("%s: %d values, aiperf has %v", tag, got.Count, want.Count)
		return
	}
	check := func(stat string, got float64, want *float64) {
		t.Helper()
		if want == nil || !near(got, *want, 0) {
			t.Errorf("%s: %s is %v, aiperf has %v", tag, stat, got, deref(want))
		}
	}
	check("avg", got.Avg, want.Avg)
	check("min", got.Min, want.Min)
	check("max", got.Max, want.Max)
	check("sum", got.Sum, want.Sum)
	if want.Std == nil || !near(got.Std, *want.Std, math.Abs(got.Max)) {
		t.Errorf("%s: std is %v, aiperf has %v", tag, got.Std, deref(want.Std))
	}
	for i, p := range want.percentiles() {
		if p == nil || !near(got.P[i], *p, 0) {
			t.Errorf("%s: p%v is %v, aiperf has %v", tag, Percentiles[i], got.P[i], deref(p))
		}
	}
}

func deref(v *float64) any {
	if v == nil {
		return "none"
	}
	return *v
}

// aiperf's own value of every record, through our series, gives aiperf's statistics.
func TestSeriesGiveAiperfsRecordMetrics(t *testing.T) {
	for _, c := range gateCases {
		t.Run(c.name, func(t *testing.T) {
			g := readGate(t, c.name)
			compared := 0
			for _, d := range c.o.Table() {
				s := NewSeries(SeriesOptions{Unit: d.Unit, HDR: true})
				for i := range g.lines {
					l := &g.lines[i]
					if m, ok := l.Metrics[d.Tag]; ok && m.Unit != d.Display {
						t.Errorf("%s: the unit is %q, aiperf has %q", d.Tag, d.Display, m.Unit)
					}
					if d.Shape == PerGap {
						for _, v := range l.numbers(t, d) {
							s.Add(v)
						}
					} else if v, ok := l.number(t, d); ok && d.Shape == PerRecord {
						s.Add(v)
					}
				}
				if got, ok := s.Result(d); ok {
					compareSeries(t, d.Tag, got, g.metrics[d.Tag])
					compared++
				}
			}
			want := 0
			for tag, m := range g.metrics {
				if m.Count != nil && !strings.HasPrefix(tag, "adj_") && tag != "credit_to_start_latency" && tag != "effective_latency" {
					want++
				}
			}
			if compared != want || want < 20 {
				t.Errorf("compared %d record metrics, aiperf has %d", compared, want)
			}
			for i := range g.lines {
				for tag := range g.lines[i].Metrics {
					if !slices.ContainsFunc(c.o.Table(), func(d *Def) bool { return d.Tag == tag }) {
						t.Errorf("the table has no %s, which aiperf writes of a record", tag)
					}
				}
			}
		})
	}
}

// record rebuilds the facts of a request from what aiperf wrote of it.
func (g *gateCase) record(t *testing.T, l *exportedLine, o Options) *Record {
	t.Helper()
	defs := map[string]*Def{}
	for _, d := range Table() {
		defs[d.Tag] = d
	}
	ns := func(tag string) (int64, bool) {
		v, ok := l.number(t, defs[tag])
		return int64(math.Round(v)), ok
	}
	get := func(tag string) int64 {
		v, _ := ns(tag)
		return v
	}
	count := func(tag string) Count {
		v, ok := ns(tag)
		return Count{v, ok}
	}
	r := &Record{Issued: l.Metadata.CreditIssued - g.base, Start: l.Metadata.RequestStart - g.base, End: l.Metadata.RequestEnd - g.base, Streaming: o.Streaming}
	if l.Error != nil {
		r.Err, r.In, r.Cancelled = l.Error, count("error_isl"), l.Metadata.WasCancelled
		r.ContextOverflow = strings.Contains(l.Error.Message, "maximum context length")
		return r
	}
	r.Last = r.Start + get("request_latency")
	r.First = r.Last
	if o.Streaming {
		r.First = r.Start + get("time_to_first_token")
	}
	if v, ok := ns("time_to_first_output_token"); ok {
		r.FirstOut = r.Start + v
	}
	if v := get("time_to_second_token"); v > 0 {
		r.Second = r.First + v
	}
	for _, v := range l.numbers(t, defs["inter_chunk_latency"]) {
		if v == 0 {
			r.Gaps = append(r.Gaps, Shared)
		} else {
			r.Gaps = append(r.Gaps, Gap(math.Round(v)))
		}
	}
	u := &r.Usage
	u.Prompt, u.Completion, u.Total = count("usage_prompt_tokens"), count("usage_completion_tokens"), count("usage_total_tokens")
	u.Reasoning, u.CacheRead = count("usage_reasoning_tokens"), count("usage_prompt_cache_read_tokens")
	n := get("output_sequence_length")
	if !o.ServerCounts { // else the accumulator takes them from the usage
		r.In, r.Reasoning = count("input_sequence_length"), count("reasoning_token_count")
		r.Out = Known(n - r.Reasoning.N)
	}
	if pct, ok := l.number(t, defs["osl_mismatch_diff_pct"]); ok {
		r.RequestedOSL = Known(int64(math.Round(float64(n) / (1 + pct/100))))
	}
	h := &r.HTTP
	h.Blocked, h.Reused = get("http_req_blocked"), get("http_req_connection_reused") == 1
	h.DialStart = 1
	h.DialEnd = h.DialStart + get("http_req_connecting")
	h.FirstWrite = r.Start
	h.LastWrite = h.FirstWrite + get("http_req_sending")
	h.FirstByte = h.LastWrite + get("http_req_waiting")
	h.LastByte = h.FirstByte + get("http_req_receiving")
	h.Sent, h.Received = get("http_req_data_sent"), get("http_req_data_received")
	h.Writes, h.Reads = get("http_req_chunks_sent"), get("http_req_chunks_received")
	return r
}

// The facts of aiperf's records, through the accumulator, give aiperf's results, but where the table is right and aiperf is wrong.
func TestAccumulatorGivesAiperfsResults(t *testing.T) {
	// Values of 0 in these come from events of one read or one event; they are absent here.
	withoutZeros := map[string]bool{"inter_token_latency": true, "inter_chunk_latency": true, "time_to_second_token": true}
	// aiperf takes these from float64 epoch times, on a grid of 256 ns, and the phase's bounds are exported in whole µs.
	coarse := map[string]bool{"benchmark_duration": true, "goodput": true, "request_throughput": true, "input_token_throughput": true,
		"output_token_throughput": true, "total_token_throughput": true}
	for _, c := range gateCases {
		t.Run(c.name, func(t *testing.T) {
			g := readGate(t, c.name)
			a := NewAccumulator(c.o)
			a.SetNetwork(30e6)
			for i := range g.lines {
				a.Add(g.record(t, &g.lines[i], c.o))
			}
			var tags []string
			for _, got := range a.Results(g.window) {
				tag := got.Def.Tag
				tags = append(tags, tag)
				want, ok := g.metrics[tag]
				switch {
				case !ok && got.Def.Group >= EffectiveTable && !untrimmed(c.name), c.name == "plain" && got.Def.Shape == Curve:
				case !ok:
					t.Errorf("%s: aiperf has no such result", tag)
				case want.Unit != got.Def.Display:
					t.Errorf("%s: the unit is %q, aiperf has %q", tag, got.Def.Display, want.Unit)
				case c.name == "plain" && tag == "http_req_duration":
					// aiperf stamps the end of a body of one read some µs after the read that it counts as the end of receiving.
					if got.Avg > *want.Avg || got.Count != *want.Count {
						t.Errorf("%s is %v, more than aiperf's %v", tag, got.Avg, *want.Avg)
					}
				case coarse[tag]:
					if math.Abs(got.Avg / *want.Avg - 1) > 2e-5 {
						t.Errorf("%s is %v, aiperf has %v", tag, got.Avg, *want.Avg)
					}
				case got.Def.Shape == Curve:
					compareCurve(t, got, want)
				case tag == "adj_inter_token_latency" && c.name == "errors": // aiperf has zeros in it, of answers that came at once
				case got.Def.Shape == Restated, got.Def.Has(Completed):
					compareRestated(t, got, want)
				case got.Scalar:
					if want.Count != nil || !near(got.Avg, *want.Avg, 0) {
						t.Errorf("%s is %v, aiperf has %v", tag, got.Avg, *want.Avg)
					}
				case withoutZeros[tag]:
					s := NewSeries(SeriesOptions{Unit: got.Def.Unit})
					for i := range g.lines {
						values := g.lines[i].numbers
						if got.Def.Shape != PerGap {
							values = func(t *testing.T, d *Def) []float64 {
								v, _ := g.lines[i].number(t, d)
								return []float64{v}
							}
						}
						for _, v := range values(t, got.Def) {
							if v != 0 {
								s.Add(v)
							}
						}
					}
					if want, ok := s.Result(got.Def); !ok || want.Count != got.Count || !near(got.Avg, want.Avg, 0) || !near(got.P[8], want.P[8], 0) {
						t.Errorf("%s is %+v, aiperf's values without zeros give %+v", tag, got, want)
					}
				default:
					compareSeries(t, tag, got, want)
				}
			}
			for tag := range g.metrics {
				// An answer in one piece says nothing of how it came; aiperf has zeros.
				if !slices.Contains(tags, tag) && (c.name != "plain" || tag != "tokens_in_flight") {
					t.Errorf("no result %s, which aiperf has", tag)
				}
			}
			compareErrors(t, a.Errors(), g.errors)
		})
	}
}

// compareCurve compares to what the grid of 256 ns that aiperf's times are on leaves of a curve, and lets a percentile that lies between two
// steps be either: it says how long which value held.
func compareCurve(t *testing.T, got Result, want exportedMetric) {
	t.Helper()
	for name, p := range map[string]*float64{"avg": want.Avg, "min": want.Min, "max": want.Max, "std": want.Std, "p50": want.P50, "p90": want.P90,
		"p95": want.P95, "p99": want.P99, "p75": want.P75, "sum": want.Sum} {
		if strings.Contains(got.Def.Tag, "decode") && (name == "min" || name == "max") {
			continue // the end of one gap and the start of the next lie up to 256 ns apart on the grid, with no rate or both rates between
		}
		off := 1e-3
		if got.Def.Tag == "tokens_in_flight" && name == "max" {
			off = 1e-2 // a token that comes as another request ends is there before or after
		}
		v, ok := got.Stat(name)
		if ok != (p != nil) || ok && math.Abs(v-*p) > off*(got.Max+1e-9) {
			t.Errorf("%s: %s is %v, aiperf has %v", got.Def.Tag, name, v, deref(p))
		}
	}
}

// compareRestated compares figures that aiperf has in part, and times between stamps on its grid.
func compareRestated(t *testing.T, got Result, want exportedMetric) {
	t.Helper()
	stats := map[string]*float64{"avg": want.Avg, "min": want.Min, "max": want.Max, "std": want.Std, "sum": want.Sum}
	for i, p := range want.percentiles() {
		stats[fmt.Sprintf("p%g", Percentiles[i])] = p
	}
	for name, p := range stats {
		v, ok := got.Stat(name)
		if ok != (p != nil) || ok && math.Abs(v-*p) > 1e-3 {
			t.Errorf("%s: %s is %v, aiperf has %v", got.Def.Tag, name, v, deref(p))
		}
	}
	if count, ok := got.Stat("count"); ok != (want.Count != nil) || ok && int64(count) != *want.Count {
		t.Errorf("%s: %v values, aiperf has %v", got.Def.Tag, count, want.Count)
	}
}

func compareErrors(t *testing.T, got, want []ErrorCount) {
	t.Helper()
	same := func(a, b ErrorCount) bool {
		return a.Count == b.Count && a.Error.Code == b.Error.Code && a.Error.Type == b.Error.Type && a.Error.Message == b.Error.Message
	}
	if !slices.EqualFunc(got, want, same) {
		t.Errorf("the errors are\n%+v\naiperf has\n%+v", got, want)
	}
}

// The CSV's names and their order are the table's.
func TestNamesAreAiperfs(t *testing.T) {
	for _, c := range gateCases {
		t.Run(c.name, func(t *testing.T) {
			g := readGate(t, c.name)
			defs := c.o.Table()
			slices.SortFunc(defs, func(a, b *Def) int { return strings.Compare(a.Tag, b.Tag) })
			g.csv = slices.DeleteFunc(g.csv, func(name string) bool { // what an answer in one piece says nothing of; aiperf has zeros
				return c.name == "plain" && (strings.HasPrefix(name, "Active ") || strings.HasPrefix(name, "Tokens In Flight") ||
					strings.HasPrefix(name, "Effective ") && name != "Effective Concurrency" && !strings.HasPrefix(name, "Effective Latency"))
			})
			var want []string
			for _, values := range []bool{true, false} {
				for _, d := range defs {
					_, has := g.metrics[d.Tag]
					has = has || d.Group >= EffectiveTable && d.Group <= ActiveTable // cut out of the JSON
					if has && (d.Shape != Aggregate && d.Shape != Derived) == values {
						name := d.Header
						if d.Display != Requests && d.Display != CountUnit {
							name += " (" + string(d.Display) + ")"
						}
						want = append(want, name)
					}
				}
			}
			if !slices.Equal(g.csv, want) {
				t.Errorf("aiperf's CSV has\n%q\nthe table gives\n%q", g.csv, want)
			}
		})
	}
}
