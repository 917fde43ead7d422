package export

import (
	"encoding/csv"
	"encoding/json"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"prefire/internal/sweep"
)

// Files of a series of runs.
const (
	aggregateName = "profile_export_aiperf_aggregate"
	sweepName     = "profile_export_aiperf_sweep"
	collatedName  = "profile_export_aiperf_collated.json"
)

// Series is what all files of a sweep, or of repeats, say of it.
type Series struct {
	Variations []sweep.Variation
	Runs       []*sweep.Run
	Level      float64 // of the intervals
	Cooldown   float64 // between repeats, in s
	Layout     sweep.Layout
	Models     []string // by variation
	Limits     []sweep.Limit
	Prefire    Object // prefire's own facts, one extra key in each JSON file
}

// part is one run of a series, in the run_info of its summary.
type part struct {
	ID        string // of the series
	Trial     int
	Variation *sweep.Variation
}

// RunOf makes the run_info of a run say which run of a series it is.
func (i *Info) RunOf(id string, v *sweep.Variation, trial int) {
	i.Trial, i.part = trial, &part{id, trial, v}
}

func (p *part) fields() Object {
	values := Object{}
	for _, s := range p.Variation.Values {
		values = append(values, Field{s.Path, settled(s.Value)})
	}
	return Object{{"run_label", sweep.RunLabel(p.Trial)}, {"variation_label", p.Variation.Label}, {"variation_index", p.Variation.Index}, {"variation_values", values}}
}

// settled is a value of a sweep as an Object holds it; a null of the user's is one.
func settled(v any) any {
	switch v := v.(type) {
	case nil:
		return json.RawMessage("null")
	case sweep.Map:
		out := Object{}
		for _, e := range v {
			out = append(out, Field{e.Key, settled(e.Value)})
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = settled(item)
		}
		return out
	}
	return v
}

// Figures are the metrics of a run as its summary file has them, for statistics over runs.
func Figures(r *Run) []sweep.Metric {
	var out []sweep.Metric
	add := func(tag string, o Object) {
		m := sweep.Metric{Tag: tag}
		for _, f := range o {
			switch v := f.Value.(type) {
			case string:
				m.Unit = v
			case float64:
				m.Stats = append(m.Stats, sweep.Stat{Key: f.Key, Value: v})
			case int64:
				m.Stats = append(m.Stats, sweep.Stat{Key: f.Key, Value: float64(v)})
			}
		}
		out = append(out, m)
	}
	first := declared()
	for _, tag := range first {
		if m := result(r.Results, tag); m != nil && !hidden(m) {
			add(tag, metricObject(m))
		}
	}
	for _, f := range byTag(r.Results, first) {
		add(f.Key, f.Value.(Object))
	}
	return out
}

// WriteSeries writes what the runs of a series show together: the aggregate of each variation with a run that counts, and the sweep's own
// files. It returns the cells, which the screen shows too.
func (d Dir) WriteSeries(s *Series) ([]sweep.Cell, sweep.Summary, error) {
	cells := sweep.Cells(s.Runs, s.Level)
	sum := sweep.Summarise(cells, s.Limits)
	var first error
	write := func(name string, fill func(io.Writer) error) {
		if err := d.Write(name, 0o644, fill); err != nil && first == nil {
			first = err
		}
	}
	for _, c := range sum.Cells {
		base := s.Layout.Aggregate(c.Variation) + "/" + aggregateName
		write(base+".json", func(w io.Writer) error { return aggregateJSON(w, s, c) })
		write(base+".csv", func(w io.Writer) error { return aggregateCSV(w, s, c) })
	}
	if s.Layout.Swept && len(sum.Cells) > 0 {
		base := s.Layout.Summary() + "/" + sweepName
		write(base+".json", func(w io.Writer) error { return sweepJSON(w, s, &sum) })
		write(base+".csv", func(w io.Writer) error { return sweepCSV(w, s, &sum) })
	}
	return cells, sum, first
}

// RemoveSeries takes away what an earlier series of the same variations left: files that this one may not write would else be read as its own.
func (d Dir) RemoveSeries(s *Series) error {
	names := []string{s.Layout.Summary() + "/" + sweepName + ".json", s.Layout.Summary() + "/" + sweepName + ".csv"}
	for i := range s.Variations {
		dir := s.Layout.Aggregate(&s.Variations[i]) + "/"
		names = append(names, dir+aggregateName+".json", dir+aggregateName+".csv", dir+collatedName)
	}
	for _, name := range names {
		if err := d.FS.Remove(d.path(name)); err != nil {
			return err
		}
	}
	return nil
}

// orNull is v, or aiperf's null where a statistic does not exist.
func orNull(v float64) any {
	if !finite(v) {
		return json.RawMessage("null")
	}
	return v
}

func failures(runs []*sweep.Run) []Object {
	out := []Object{}
	for _, r := range runs {
		if !r.OK() {
			out = append(out, Object{{"label", sweep.RunLabel(r.Trial)}, {"error", r.Failure}})
		}
	}
	return out
}

// aggregateFacts are what an aggregate says of its runs, in the order of its metadata.
func aggregateFacts(s *Series, c *sweep.Cell) Object {
	var labels []any
	for _, r := range c.Runs {
		if r.OK() {
			labels = append(labels, sweep.RunLabel(r.Trial))
		}
	}
	o := Object{{"confidence_level", s.Level}, {"run_labels", labels}}
	if c.OK() == 1 {
		o = append(o, Field{"single_run", true})
	}
	o = append(o, Field{"cooldown_seconds", s.Cooldown})
	if !s.Layout.Swept {
		return o
	}
	values := sweep.Map{}
	for _, v := range c.Variation.Values {
		values = append(values, sweep.Entry{Key: v.Path, Value: sweep.Scalar(v.Value)})
	}
	slices.SortStableFunc(values, func(a, b sweep.Entry) int { return strings.Compare(a.Key, b.Key) })
	return append(o, Field{"variation_label", c.Variation.Label}, Field{"variation_values", values}, Field{"sweep_mode", string(s.order())},
		Field{"model", s.Models[c.Variation.Index]})
}

func (s *Series) order() sweep.Order {
	if s.Layout.Order == "" {
		return sweep.Repeated
	}
	return s.Layout.Order
}

func aggregateJSON(w io.Writer, s *Series, c *sweep.Cell) error {
	meta := Object{{"aggregation_type", "confidence"}, {"num_profile_runs", len(c.Runs)}, {"num_successful_runs", c.OK()}, {"failed_runs", failures(c.Runs)}}
	for _, f := range aggregateFacts(s, c) {
		meta = append(meta, Field{f.Key, settled(f.Value)})
	}
	var metrics Object
	for i := range c.Aggregates {
		a := &c.Aggregates[i]
		metrics = append(metrics, Field{a.Name(), Object{{"mean", orNull(a.Mean)}, {"std", orNull(a.Std)}, {"min", orNull(a.Min)}, {"max", orNull(a.Max)},
			{"cv", orNull(a.CV)}, {"se", orNull(a.SE)}, {"ci_low", orNull(a.Low)}, {"ci_high", orNull(a.High)}, {"t_critical", orNull(a.T)}, {"unit", a.Unit}}})
	}
	return whole(w, Object{{"schema_version", "1.0"}, {"aiperf_version", AIPerfVersion}, {"metadata", meta}, {"metrics", metrics}, {"prefire", s.Prefire}})
}

// whole writes a document without a final newline, as orjson does.
func whole(w io.Writer, o Object) error {
	out, err := appendObject(nil, "the document", o, 0)
	if err != nil {
		return err
	}
	_, err = w.Write(out)
	return err
}

func aggregateCSV(w io.Writer, s *Series, c *sweep.Cell) error {
	out := csv.NewWriter(w)
	out.UseCRLF = true
	// A csv.Writer keeps its first error and reports it at the end.
	_ = out.Write([]string{"metric", "mean", "std", "min", "max", "cv", "se", "ci_low", "ci_high", "t_critical", "unit"})
	for i := range c.Aggregates {
		a := &c.Aggregates[i]
		_ = out.Write([]string{a.Name(), cell(a.Mean, 2), cell(a.Std, 2), cell(a.Min, 2), cell(a.Max, 2), cell(a.CV, 4), cell(a.SE, 4), cell(a.Low, 2), cell(a.High, 2),
			cell(a.T, 4), a.Unit})
	}
	_ = out.Write(nil)
	_ = out.Write([]string{"Aggregation Type", "confidence"})
	_ = out.Write([]string{"Total Runs", strconv.Itoa(len(c.Runs))})
	_ = out.Write([]string{"Successful Runs", strconv.Itoa(c.OK())})
	for _, f := range aggregateFacts(s, c) {
		_ = out.Write([]string{title(f.Key), sweep.Text(f.Value)})
	}
	out.Flush()
	return out.Error()
}

// cell is a number of a CSV file; nothing where it does not exist.
func cell(v float64, decimals int) string {
	switch {
	case math.IsInf(v, 1):
		return "inf"
	case math.IsInf(v, -1):
		return "-inf"
	case math.IsNaN(v):
		return ""
	}
	return strconv.FormatFloat(v, 'f', decimals, 64)
}

// title is a key as a heading: each word with a capital.
func title(key string) string {
	words := strings.Split(key, "_")
	for i, w := range words {
		if w != "" {
			words[i] = strings.ToUpper(w[:1]) + w[1:]
		}
	}
	return strings.Join(words, " ")
}

// parameters are the sweep's, with their names in the files and the values that ran.
func (s *Series) parameters(cells []*sweep.Cell) (names map[string]string, out []Object, order []string) {
	names = sweep.Names(s.Variations)
	values := map[string][]any{}
	for _, r := range s.Runs {
		for _, set := range sorted(r.Variation) {
			name := names[set.Path]
			if !slices.Contains(order, name) {
				order = append(order, name)
			}
			if v := sweep.Scalar(set.Value); !slices.Contains(values[name], v) {
				values[name] = append(values[name], v)
			}
		}
	}
	for _, name := range order {
		list := make([]any, len(values[name]))
		for i, v := range values[name] {
			list[i] = settled(v)
		}
		out = append(out, Object{{"name", name}, {"values", list}})
	}
	return names, out, order
}

// sorted are a variation's values in the order of their paths.
func sorted(v *sweep.Variation) []sweep.Setting {
	out := slices.Clone(v.Values)
	slices.SortStableFunc(out, func(a, b sweep.Setting) int { return strings.Compare(a.Path, b.Path) })
	return out
}

// sweepJSON writes profile_export_aiperf_sweep.json. A variation that ran once has its metrics by tag, one with repeats the mean of every
// figure by tag and figure, as in aiperf.
func sweepJSON(w io.Writer, s *Series, sum *sweep.Summary) error {
	names, parameters, _ := s.parameters(sum.Cells)
	ok, most := 0, 0
	ran := map[*sweep.Variation]int{}
	for _, r := range s.Runs {
		if r.OK() {
			ok++
		}
		ran[r.Variation]++
		most = max(most, ran[r.Variation])
	}
	of := func(c *sweep.Cell) Object {
		o := Object{}
		for _, set := range sorted(c.Variation) {
			o = append(o, Field{names[set.Path], settled(sweep.Scalar(set.Value))})
		}
		return o
	}
	meta := Object{{"sweep_parameters", parameters}, {"num_combinations", len(ran)}}
	if len(s.Limits) > 0 {
		var filters []Object
		for _, l := range s.Limits {
			filters = append(filters, Object{{"metric_tag", l.Metric}, {"stat", l.Stat}, {"op", l.Op}, {"threshold", l.Threshold}})
		}
		meta = append(meta, Field{"sla_constraints", Object{{"active_filters", filters}, {"feasible_count", sum.Feasible}, {"infeasible_count", len(sum.Cells) - sum.Feasible}}})
	}
	meta = append(meta, Field{"sweep_mode", string(s.order())}, Field{"confidence_level", s.Level}, Field{"num_trials_per_value", most}, Field{"aggregation_type", "sweep"})
	cells, hung := []Object{}, []Object{}
	for _, c := range sum.Cells {
		cells = append(cells, Object{{"parameters", of(c)}, {"metrics", cellMetrics(c)}})
		if share := c.Hung(); share > 0 {
			hung = append(hung, Object{{"parameters", of(c)}, {"share_percent", share}})
		}
	}
	own := s.Prefire
	if len(hung) > 0 {
		own = append(slices.Clone(own), Field{"hung", hung})
	}
	best := Object{}
	for _, b := range []struct {
		key string
		*sweep.Best
	}{{"best_throughput", sum.Throughput}, {"best_latency_p99", sum.Latency}} {
		if b.Best != nil {
			best = append(best, Field{b.key, Object{{"parameters", of(b.Cell)}, {"metric", b.Metric}, {"unit", b.Unit}}})
		}
	}
	pareto := []Object{}
	for _, c := range sum.Pareto {
		pareto = append(pareto, of(c))
	}
	return whole(w, Object{{"aggregation_type", "sweep"}, {"num_profile_runs", len(s.Runs)}, {"num_successful_runs", ok}, {"failed_runs", failures(s.Runs)},
		{"metadata", meta}, {"per_combination_metrics", cells}, {"best_configurations", best}, {"pareto_optimal", pareto}, {"prefire", own}})
}

// cellMetrics are the figures of one variation.
func cellMetrics(c *sweep.Cell) Object {
	o := Object{}
	if len(c.Runs) > 1 {
		for i := range c.Aggregates {
			a := &c.Aggregates[i]
			o = append(o, Field{a.Name(), Object{{"mean", orNull(a.Mean)}, {"std", orNull(a.Std)}, {"min", orNull(a.Min)}, {"max", orNull(a.Max)}, {"cv", orNull(a.CV)},
				{"ci_low", orNull(a.Low)}, {"ci_high", orNull(a.High)}, {"unit", a.Unit}}})
		}
		return o
	}
	for i := range c.Runs[0].Metrics {
		m := &c.Runs[0].Metrics[i]
		avg, _ := m.Stat("avg")
		or := func(key string) float64 {
			if v, ok := m.Stat(key); ok {
				return v
			}
			return avg
		}
		one := Object{{"mean", avg}, {"avg", avg}, {"std", 0.0}, {"min", or("min")}, {"max", or("max")}, {"cv", 0.0}, {"ci_low", avg}, {"ci_high", avg}, {"unit", m.Unit}}
		for _, key := range []string{"p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "count", "sum"} {
			v, ok := m.Stat(key)
			switch {
			case ok && key == "count":
				one = append(one, Field{key, int64(v)})
			case ok:
				one = append(one, Field{key, v})
			}
		}
		o = append(o, Field{m.Tag, one})
	}
	return o
}

func sweepCSV(w io.Writer, s *Series, sum *sweep.Summary) error {
	names, _, order := s.parameters(sum.Cells)
	of := func(c *sweep.Cell) []string {
		row := make([]string, len(order))
		for _, set := range c.Variation.Values {
			if i := slices.Index(order, names[set.Path]); i >= 0 && set.Value != nil {
				row[i] = sweep.Text(sweep.Scalar(set.Value))
			}
		}
		return row
	}
	all := make([]map[string][5]float64, len(sum.Cells))
	var columns []string
	for i, c := range sum.Cells {
		all[i] = cellColumns(c)
		for name := range all[i] {
			if !slices.Contains(columns, name) {
				columns = append(columns, name)
			}
		}
	}
	slices.Sort(columns)
	out := csv.NewWriter(w)
	out.UseCRLF = true
	header := slices.Clone(order)
	for _, name := range columns {
		for _, stat := range []string{"mean", "std", "min", "max", "cv"} {
			header = append(header, name+"_"+stat)
		}
	}
	_ = out.Write(header)
	for i, c := range sum.Cells {
		row := of(c)
		for _, name := range columns {
			v, ok := all[i][name]
			for j, x := range v {
				switch {
				case !ok || !finite(x):
					row = append(row, "")
				case j == 4:
					row = append(row, cell(x, 4))
				default:
					row = append(row, cell(x, 2))
				}
			}
		}
		_ = out.Write(row)
	}
	_ = out.Write(nil)
	_ = out.Write([]string{"Best Configurations"})
	if sum.Throughput != nil || sum.Latency != nil {
		_ = out.Write(slices.Concat([]string{"Configuration"}, order, []string{"Metric", "Unit"}))
	}
	if b := sum.Throughput; b != nil {
		_ = out.Write(slices.Concat([]string{"Best Throughput"}, of(b.Cell), []string{cell(b.Metric, 2), b.Unit}))
	}
	if b := sum.Latency; b != nil {
		_ = out.Write(slices.Concat([]string{"Best Latency P99"}, of(b.Cell), []string{cell(b.Metric, 2), b.Unit}))
	}
	_ = out.Write(nil)
	_ = out.Write([]string{"Pareto Optimal Points"})
	if len(sum.Pareto) == 0 {
		_ = out.Write([]string{"None"})
	} else {
		_ = out.Write(order)
		for _, c := range sum.Pareto {
			_ = out.Write(of(c))
		}
	}
	_ = out.Write(nil)
	ok := 0
	for _, r := range s.Runs {
		if r.OK() {
			ok++
		}
	}
	combinations := len(sweep.Cells(s.Runs, s.Level))
	for _, row := range [][]string{{"Metadata"}, {"Field", "Value"}, {"Aggregation Type", "sweep"}, {"Sweep Parameters", strings.Join(order, ", ")},
		{"Number of Combinations", strconv.Itoa(combinations)}, {"Number of Profile Runs", strconv.Itoa(len(s.Runs))}, {"Number of Successful Runs", strconv.Itoa(ok)}} {
		_ = out.Write(row)
	}
	out.Flush()
	return out.Error()
}

// cellColumns are mean, std, min, max and cv of a variation's figures, by the names that sweepJSON gives them.
func cellColumns(c *sweep.Cell) map[string][5]float64 {
	out := map[string][5]float64{}
	if len(c.Runs) > 1 {
		for i := range c.Aggregates {
			a := &c.Aggregates[i]
			out[a.Name()] = [5]float64{a.Mean, a.Std, a.Min, a.Max, a.CV}
		}
		return out
	}
	for i := range c.Runs[0].Metrics {
		m := &c.Runs[0].Metrics[i]
		avg, _ := m.Stat("avg")
		low, high := avg, avg
		if v, ok := m.Stat("min"); ok {
			low = v
		}
		if v, ok := m.Stat("max"); ok {
			high = v
		}
		out[m.Tag] = [5]float64{avg, 0, low, high, 0}
	}
	return out
}

// Collated are the values of each metric of all runs together, by run.
type Collated struct {
	Tag    string
	Labels []string // of the runs that have values
	Values [][]float64
}

// WriteCollated writes profile_export_aiperf_collated.json: statistics over the requests of all runs of a series as if they were one.
func (d Dir) WriteCollated(s *Series, metrics []Collated) error {
	ok, labels := 0, []any{}
	for _, r := range s.Runs {
		if r.OK() {
			ok++
			labels = append(labels, sweep.RunLabel(r.Trial))
		}
	}
	all := Object{}
	for _, m := range metrics {
		var perRun []Object
		for i, label := range m.Labels {
			perRun = append(perRun, Object{{"label", label}, {"mean", sweep.Mean(m.Values[i])}, {"count", len(m.Values[i])}})
		}
		all = append(all, Field{m.Tag, Object{{"combined", pooled(slices.Concat(m.Values...))}, {"per_run", perRun}}})
	}
	return d.Write("aggregate/"+collatedName, 0o644, func(w io.Writer) error {
		return whole(w, Object{{"schema_version", "1.0.0"}, {"aiperf_version", AIPerfVersion},
			{"description", "The values of single requests of all runs, put together and described as one population (p50, p90, p95, p99). " +
				aggregateName + ".json holds statistics over the figures of whole runs instead."},
			{"metadata", Object{{"aggregation_type", "detailed"}, {"num_profile_runs", len(s.Runs)}, {"num_successful_runs", ok}, {"failed_runs", failures(s.Runs)},
				{"run_labels", labels}, {"cooldown_seconds", s.Cooldown}}},
			{"metrics", all}, {"prefire", s.Prefire}})
	})
}

// pooled describes values, of which there is one at least; the standard deviation is a sample's.
func pooled(values []float64) Object {
	slices.Sort(values)
	std := 0.0
	if a := sweep.Interval(values, 0.95); len(values) > 1 {
		std = a.Std
	}
	o := Object{{"mean", sweep.Mean(values)}, {"std", std}}
	for _, p := range []int{50, 90, 95, 99} {
		o = append(o, Field{"p" + strconv.Itoa(p), sweep.Percentile(values, float64(p))})
	}
	return append(o, Field{"count", len(values)})
}
