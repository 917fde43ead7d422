package export

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"prefire/internal/servermetrics"
	"prefire/metrics"
)

// ServerMetrics is what the servers' own metrics did in a run.
type ServerMetrics struct {
	JSON, CSV              bool // the files that are wanted
	Configured, Successful []string
	// Profiling and Warmup are the reports of all endpoints over the phases of a kind, ByPhase those over each phase of the run.
	Profiling, Warmup []servermetrics.Report
	ByPhase           [][]servermetrics.Report
	// WarmupStart and WarmupEnd bound the warm-up phases. A zero time is left out.
	WarmupStart, WarmupEnd time.Time
	Wall                   func(at int64) time.Time // of a time of the run
}

// writes reports whether there is anything for the files.
func (m *ServerMetrics) writes() bool { return m != nil && len(m.Profiling) > 0 }

// JSONName and CSVName are the files that are written; "" = none.
func (m *ServerMetrics) JSONName(n Names) string {
	if !m.writes() || !m.JSON {
		return ""
	}
	return n.ServerJSON
}

// CSVName is JSONName for the CSV.
func (m *ServerMetrics) CSVName(n Names) string {
	if !m.writes() || !m.CSV {
		return ""
	}
	return n.ServerCSV
}

// of reports whether there is anything for the file of the phase at index i.
func (m *ServerMetrics) of(i int) bool {
	return m.writes() && i < len(m.ByPhase) && len(m.ByPhase[i]) > 0
}

// serverPhaseFile stands in the folder of each phase.
const serverPhaseFile = "server_metrics.json"

// ServerMetricsJSON writes server_metrics_export.json, aiperf's schema 1.1.
func ServerMetricsJSON(w io.Writer, r *Run) error {
	m := r.Server
	summary := Object{{"endpoints_configured", m.Configured}, {"endpoints_successful", m.Successful}}
	if !r.Start.IsZero() {
		summary = append(summary, Field{"start_time", isoformat(r.Start)}, Field{"end_time", isoformat(r.End)})
	}
	var infos, ranges Object
	for i := range m.Profiling {
		infos = append(infos, Field{m.Profiling[i].URL, m.info(&m.Profiling[i].Info)})
	}
	slices.SortFunc(infos, func(a, b Field) int { return strings.Compare(a.Key, b.Key) })
	span := func(name string, from, to time.Time) {
		if !from.IsZero() && from.Before(to) {
			ranges = append(ranges, Field{name, Object{{"start_ns", from.UnixNano()}, {"end_ns", to.UnixNano()}}})
		}
	}
	span("profiling", r.Start, r.End)
	span("warmup", m.WarmupStart, m.WarmupEnd)
	summary = append(summary, Field{"endpoint_info", infos}, Field{"phase_time_ranges", ranges})
	top := Object{{"schema_version", "1.1"}, {"aiperf_version", AIPerfVersion}}
	if r.BenchmarkID != "" {
		top = append(top, Field{"benchmark_id", r.BenchmarkID})
	}
	top = append(top, Field{"summary", summary}, Field{"metrics_phase", "profiling"},
		Field{"metrics", serverMetrics(servermetrics.Merge(m.Profiling), true)})
	if len(m.Warmup) > 0 {
		top = append(top, Field{"warmup_metrics", serverMetrics(servermetrics.Merge(m.Warmup), true)})
	}
	if r.InputConfig != nil {
		top = append(top, Field{"input_config", r.InputConfig})
	}
	out, err := appendObject(nil, "the server's metrics", top, 0)
	if err != nil {
		return err
	}
	_, err = w.Write(out)
	return err
}

func (m *ServerMetrics) info(i *servermetrics.Info) Object {
	ns := func(at int64) int64 {
		if at == 0 {
			return 0
		}
		return m.Wall(at).UnixNano()
	}
	o := Object{
		{"total_fetches", i.Fetches}, {"first_fetch_ns", ns(i.FirstFetch)}, {"last_fetch_ns", ns(i.LastFetch)},
		{"avg_fetch_latency_ms", i.FetchLatency() / 1e6}, {"unique_updates", i.Updates}, {"first_update_ns", ns(i.FirstUpdate)},
		{"last_update_ns", ns(i.LastUpdate)}, {"duration_seconds", float64(i.LastUpdate-i.FirstUpdate) / 1e9},
	}
	mean, median, ok := i.UpdateInterval()
	o = append(o, Field{"avg_update_interval_ms", mean / 1e6})
	if ok {
		o = append(o, Field{"median_update_interval_ms", median / 1e6})
	}
	return o
}

// serverMetrics are metrics by name. whole adds what the file over all endpoints has: units, and each series' endpoint.
func serverMetrics(list []servermetrics.Metric, whole bool) Object {
	out := Object{}
	for i := range list {
		m := &list[i]
		o := Object{{"type", string(m.Kind)}, {"description", m.Help}}
		if whole && m.Unit != "" {
			o = append(o, Field{"unit", m.Unit})
		}
		series := make([]Object, len(m.Series))
		for k := range m.Series {
			series[k] = serverSeries(&m.Series[k], whole)
		}
		out = append(out, Field{m.Name, append(o, Field{"series", series})})
	}
	return out
}

func serverSeries(s *servermetrics.Series, whole bool) Object {
	var o Object
	if whole {
		o = append(o, Field{"endpoint_url", s.URL})
	}
	if len(s.Labels) > 0 {
		var labels Object
		for _, l := range s.Labels {
			labels = append(labels, Field{l.Name, l.Value})
		}
		o = append(o, Field{"labels", labels})
	}
	names := percentileNames()
	switch {
	case s.Gauge != nil:
		g := s.Gauge
		stats := Object{{"avg", g.Avg}, {"min", g.Min}, {"max", g.Max}, {"std", g.Std}}
		for i, v := range g.P {
			stats = append(stats, Field{names[i], v})
		}
		return append(o, Field{"stats", stats})
	case s.Counter != nil:
		return append(o, Field{"stats", Object{{"total", s.Counter.Total}, {"rate", s.Counter.Rate}}})
	}
	h := s.Histogram
	stats := Object{{"count", h.Count}}
	if h.HasCount {
		stats = append(stats, Field{"sum", h.Sum}, Field{"avg", h.Avg})
	}
	if h.HasRate {
		stats = append(stats, Field{"count_rate", h.CountRate}, Field{"sum_rate", h.SumRate})
	}
	for i, v := range h.Estimates {
		stats = append(stats, Field{names[i] + "_estimate", v})
	}
	o = append(o, Field{"stats", stats})
	if h.Buckets != nil {
		buckets := Object{}
		for _, b := range h.Buckets {
			buckets = append(buckets, Field{b.Le, int64(b.Count)})
		}
		o = append(o, Field{"buckets", buckets})
	}
	return o
}

// ServerMetricsPhase writes phases/NAME/server_metrics.json of the phase at index i.
func ServerMetricsPhase(w io.Writer, r *Run, i int) error {
	m, p := r.Server, &r.Phases[i]
	from, to := int64(0), int64(0)
	summaries := Object{}
	for k := range m.ByPhase[i] {
		one := &m.ByPhase[i][k]
		if from == 0 || one.Info.FirstFetch < from {
			from = one.Info.FirstFetch
		}
		to = max(to, one.Info.LastFetch)
		summaries = append(summaries, Field{display(one.URL), Object{
			{"endpoint_url", one.URL}, {"info", m.info(&one.Info)}, {"metrics", serverMetrics(one.Metrics, false)}}})
	}
	data := Object{
		{"end_ns", m.Wall(to).UnixNano()}, {"endpoint_summaries", summaries}, {"endpoints_configured", m.Successful}, {"endpoints_successful", m.Successful},
		{"error_summary", []any{}}, {"phase", p.Kind.String()}, {"phase_index", p.Index}, {"phase_kind", p.Kind.String()}, {"phase_name", p.Name},
		{"phase_results", []any{}}, {"start_ns", m.Wall(from).UnixNano()},
	}
	if r.BenchmarkID != "" {
		data = append(data, Field{"benchmark_id", r.BenchmarkID})
	}
	var profiling any = json.RawMessage("null")
	if p.Kind == metrics.Profiling {
		profiling = p.ProfilingIndex
		data = append(data, Field{"profiling_index", profiling})
	}
	phase := Object{
		{"end_ns", p.End.UnixNano()}, {"phase_index", p.Index}, {"phase_kind", p.Kind.String()}, {"phase_name", p.Name},
		{"profiling_index", profiling}, {"start_ns", p.Start.UnixNano()}, {"was_cancelled", p.WasCancelled},
	}
	top := Object{{"data", data}, {"phase", phase}, {"schema_version", 1}, {"warnings", []any{}}}
	out, err := appendObject(nil, "the server's metrics of a phase", sortedKeys(top), 0)
	if err != nil {
		return err
	}
	_, err = w.Write(append(out, '\n'))
	return err
}

// sortedKeys is an object with its keys, and those of the objects in it, in order.
func sortedKeys(o Object) Object {
	out := make(Object, len(o))
	for i, f := range o {
		switch v := f.Value.(type) {
		case Object:
			f.Value = sortedKeys(v)
		case []Object:
			list := make([]Object, len(v))
			for k := range v {
				list[k] = sortedKeys(v[k])
			}
			f.Value = list
		}
		out[i] = f
	}
	slices.SortFunc(out, func(a, b Field) int { return strings.Compare(a.Key, b.Key) })
	return out
}

// display is an endpoint's address without its scheme and /metrics.
func display(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	return u.Host + strings.TrimSuffix(u.Path, "/metrics")
}

// csvRow is one series of the CSV.
type csvRow struct {
	m *servermetrics.Metric
	s *servermetrics.Series
}

// ServerMetricsCSV writes server_metrics_export.csv: a section for each kind of metric, with a column for each label.
func ServerMetricsCSV(w io.Writer, r *Run) error {
	if _, err := fmt.Fprintf(w, "# AIPerf Server Metrics Export (CSV)\n# aiperf_version: %s\n# schema_version: 1.0\n# benchmark_id: %s\n"+
		"# Note: Same benchmark_id and version appear in JSON and Parquet exports\n#\n", AIPerfVersion, r.BenchmarkID); err != nil {
		return err
	}
	list := servermetrics.Merge(r.Server.Profiling)
	byKind := map[servermetrics.Kind][]csvRow{}
	var about []csvRow
	for i := range list {
		m := &list[i]
		for k := range m.Series {
			row := csvRow{m, &m.Series[k]}
			if m.Kind == servermetrics.Gauge && strings.HasSuffix(m.Name, "_info") {
				about = append(about, row)
			} else {
				byKind[m.Kind] = append(byKind[m.Kind], row)
			}
		}
	}
	c := csv.NewWriter(w)
	c.UseCRLF = true
	// A csv.Writer keeps its first error and reports it at the end.
	first := true
	begin := func() {
		if !first {
			_ = c.Write(nil)
		}
		first = false
	}
	for _, kind := range [...]servermetrics.Kind{servermetrics.Gauge, servermetrics.Counter, servermetrics.Histogram, servermetrics.Unknown} {
		if rows := byKind[kind]; len(rows) > 0 {
			begin()
			csvSection(c, kind, rows)
		}
	}
	if len(about) > 0 {
		begin()
		_ = c.Write([]string{"Endpoint", "Metric", "Key", "Value", "Description"})
		slices.SortStableFunc(about, func(a, b csvRow) int {
			return strings.Compare(a.m.Name+"\x00"+display(a.s.URL), b.m.Name+"\x00"+display(b.s.URL))
		})
		for _, row := range about {
			for _, l := range row.s.Labels {
				_ = c.Write([]string{display(row.s.URL), row.m.Name, l.Name, l.Value, row.m.Help})
			}
		}
	}
	c.Flush()
	return c.Error()
}

func csvSection(c *csv.Writer, kind servermetrics.Kind, rows []csvRow) {
	names := percentileNames()
	head := []string{"Endpoint", "Type", "Metric", "Unit"}
	switch kind {
	case servermetrics.Counter:
		head = append(head, "total", "rate", "rate_avg", "rate_min", "rate_max", "rate_std")
	case servermetrics.Histogram:
		head = append(head, "count", "count_rate", "sum", "sum_rate", "avg")
		for _, p := range names {
			head = append(head, p+"_estimate")
		}
	default:
		head = append(append(head, "avg", "min", "max", "std"), names[:]...)
	}
	labels := labelColumns(rows)
	head = append(append(head, labels...), "Description")
	if kind == servermetrics.Histogram {
		head = append(head, "buckets")
	}
	_ = c.Write(head)
	order := func(row csvRow) string {
		filled := make([]byte, len(labels))
		for i, name := range labels {
			filled[i] = '0'
			if slices.ContainsFunc(row.s.Labels, func(l servermetrics.Label) bool { return l.Name == name }) {
				filled[i] = '1'
			}
		}
		return strings.Join([]string{string(filled), row.m.Name, display(row.s.URL), servermetrics.LabelText(row.s.Labels)}, "\x00")
	}
	slices.SortStableFunc(rows, func(a, b csvRow) int { return strings.Compare(order(a), order(b)) })
	for _, row := range rows {
		cells := append([]string{display(row.s.URL), string(kind), row.m.Name, row.m.Unit}, csvStats(row.s)...)
		for _, name := range labels {
			cell := ""
			for _, l := range row.s.Labels {
				if l.Name == name {
					cell = l.Value
				}
			}
			cells = append(cells, cell)
		}
		cells = append(cells, row.m.Help)
		if kind == servermetrics.Histogram {
			var buckets []string
			for _, b := range row.s.Histogram.Buckets {
				buckets = append(buckets, b.Le+"="+strconv.FormatInt(int64(b.Count), 10))
			}
			cells = append(cells, strings.Join(buckets, ";"))
		}
		_ = c.Write(cells)
	}
}

// labelColumns are the labels of rows in aiperf's order: those that are ever used together are a family; in it those of a single series come
// first.
func labelColumns(rows []csvRow) []string {
	family, uses := map[string]string{}, map[string]int{}
	var root func(string) string
	root = func(name string) string {
		if family[name] == "" || family[name] == name {
			family[name] = name
			return name
		}
		return root(family[name])
	}
	for _, row := range rows {
		for i, l := range row.s.Labels {
			uses[l.Name]++
			if r := root(l.Name); i > 0 {
				family[r] = root(row.s.Labels[i-1].Name)
			}
		}
	}
	members := map[string][]string{}
	for name := range uses {
		members[root(name)] = append(members[root(name)], name)
	}
	var families [][]string
	for _, list := range members {
		slices.SortFunc(list, func(a, b string) int {
			if (uses[a] > 1) != (uses[b] > 1) {
				return uses[a] - uses[b]
			}
			return strings.Compare(a, b)
		})
		families = append(families, list)
	}
	slices.SortFunc(families, func(a, b []string) int { return strings.Compare(slices.Min(a), slices.Min(b)) })
	return slices.Concat(families...)
}

// csvStats are a series' figures as cells, whole numbers plain, others with four decimals.
func csvStats(s *servermetrics.Series) []string {
	four := func(v float64) string { return strconv.FormatFloat(v, 'f', 4, 64) }
	switch {
	case s.Gauge != nil:
		out := []string{four(s.Gauge.Avg), four(s.Gauge.Min), four(s.Gauge.Max), four(s.Gauge.Std)}
		for _, v := range s.Gauge.P {
			out = append(out, four(v))
		}
		return out
	case s.Counter != nil:
		return []string{four(s.Counter.Total), four(s.Counter.Rate), "", "", "", ""}
	}
	h := s.Histogram
	out := []string{strconv.FormatInt(h.Count, 10), "", "", "", ""}
	if h.HasRate {
		out[1], out[3] = four(h.CountRate), four(h.SumRate)
	}
	if h.HasCount {
		out[2], out[4] = four(h.Sum), four(h.Avg)
	}
	for i := range metrics.Percentiles {
		cell := ""
		if i < len(h.Estimates) {
			cell = four(h.Estimates[i])
		}
		out = append(out, cell)
	}
	return out
}
