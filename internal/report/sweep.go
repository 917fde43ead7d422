package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"

	"prefire/internal/report/chart"
)

// sweepFiles are where the figures of a series of runs lie, of a sweep and of repeats alone.
func sweepFiles() []string {
	return []string{"sweep_aggregate/profile_export_aiperf_sweep.json", "aggregate/sweep_aggregate/profile_export_aiperf_sweep.json", "aggregate/profile_export_aiperf_aggregate.json"}
}

// sweep is what the runs of a series show together: a profile_export_aiperf_sweep.json, or of repeats alone a profile_export_aiperf_aggregate.json,
// of aiperf or of prefire.
type sweep struct {
	from       document
	parameters []string  // none for repeats alone
	cells      []string  // where the figures of each variation lie in the file
	values     [][]value // its parameters'
	facts      struct {
		Runs    int `json:"num_profile_runs"`
		OK      int `json:"num_successful_runs"`
		Failing []struct {
			Label string `json:"label"`
			Error string `json:"error"`
		} `json:"failed_runs"`
		Level float64 `json:"confidence_level"`
	}
}

// value is what a parameter is set to.
type value struct {
	text   string
	number float64 // NaN where it is none
}

// readSweep reads what the runs of a series show together; nil where the folder holds no such file.
func readSweep(dir fs.FS) (*sweep, error) {
	for _, name := range sweepFiles() {
		data, err := fs.ReadFile(dir, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		s, err := parseSweep(data)
		if err != nil {
			return nil, fmt.Errorf("%s: it is no result of a sweep or of repeats: %w", name, err)
		}
		return s, nil
	}
	return nil, nil
}

func parseSweep(data []byte) (s *sweep, err error) {
	s = new(sweep)
	if s.from, err = readDocument(data); err != nil {
		return nil, err
	}
	var file struct {
		Metadata json.RawMessage `json:"metadata"`
		Cells    []struct {
			Parameters map[string]any `json:"parameters"`
		} `json:"per_combination_metrics"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, err
	}
	var meta struct {
		Parameters []struct {
			Name string `json:"name"`
		} `json:"sweep_parameters"`
	}
	// A sweep has the counts of its runs beside its metadata, repeats have them in it.
	err = json.Unmarshal(data, &s.facts)
	if len(file.Metadata) > 0 {
		err = errors.Join(err, json.Unmarshal(file.Metadata, &s.facts), json.Unmarshal(file.Metadata, &meta))
	}
	if err != nil {
		return nil, err
	}
	for _, p := range meta.Parameters {
		s.parameters = append(s.parameters, p.Name)
	}
	for i, c := range file.Cells {
		s.cells = append(s.cells, fmt.Sprintf("per_combination_metrics.%d.metrics.", i))
		row := make([]value, len(s.parameters))
		for k, name := range s.parameters {
			row[k] = valueOf(c.Parameters[name])
		}
		s.values = append(s.values, row)
	}
	if len(file.Cells) == 0 {
		s.cells, s.values = []string{"metrics."}, [][]value{nil}
	}
	return s, nil
}

func valueOf(v any) value {
	switch v := v.(type) {
	case float64:
		return value{chart.Short(v), v}
	case string:
		return value{v, math.NaN()}
	case nil:
		return value{"–", math.NaN()}
	}
	text, _ := json.Marshal(v) // it came from JSON
	return value{string(text), math.NaN()}
}

// headline is a figure that the table and the plots have.
type headline struct{ tag, stat, head, unit string }

func headlines() []headline {
	return []headline{{"request_throughput", "avg", "answered", "requests/s"}, {"output_token_throughput", "avg", "output", "tokens/s"}, {"time_to_first_token", "avg", "TTFT avg", "ms"},
		{"time_to_first_token", "p99", "TTFT p99", "ms"}, {"inter_token_latency", "avg", "ITL avg", "ms"}, {"request_latency", "avg", "latency avg", "ms"}, {"request_latency", "p99", "latency p99", "ms"},
		{"request_error_rate", "avg", "failed", "%"}}
}

// path is where a figure of the i-th variation lies: with repeats it is their mean, with an interval beside it.
func (s *sweep) path(i int, h headline) (path string, repeated bool) {
	if at := s.cells[i] + h.tag + "_" + h.stat; s.from.number(at+".mean") != "" {
		return at, true
	}
	return s.cells[i] + h.tag, false
}

func (s *sweep) figure(i int, h headline) figure {
	path, repeated := s.path(i, h)
	if repeated {
		return s.from.figure(path + ".mean")
	}
	return s.from.figure(path + "." + h.stat)
}

// bounds is the interval of a figure; NaN where there is none.
func (s *sweep) bounds(i int, h headline) (low, high float64) {
	path, repeated := s.path(i, h)
	low, err := s.from.number(path + ".ci_low").Float64()
	high, err2 := s.from.number(path + ".ci_high").Float64()
	if !repeated || err != nil || err2 != nil {
		return math.NaN(), math.NaN()
	}
	return low, high
}

// has are the headlines that a variation has.
func (s *sweep) has() []headline {
	return slices.DeleteFunc(headlines(), func(h headline) bool {
		for i := range s.cells {
			if s.figure(i, h).Exact != "" {
				return false
			}
		}
		return true
	})
}

// sweepView is the part of the page.
type sweepView struct {
	Title    string
	Verdicts []judged
	Best     []string
	Head     []string
	Named    bool // each row begins with a name
	Rows     [][]figure
	Note     string
	Plots    []plotView
}

func (s *sweep) view() *sweepView {
	v := &sweepView{Title: "Sweep"}
	if len(s.parameters) == 0 {
		v.Title = "Repeats"
	}
	switch failed := s.facts.Runs - s.facts.OK; {
	case failed > 0:
		text := fmt.Sprintf("%d of %d runs do not count.", failed, s.facts.Runs)
		for _, f := range s.facts.Failing {
			text += " " + f.Label + ": " + clipped(f.Error) + "."
		}
		v.Verdicts = append(v.Verdicts, say(warn, "Runs", text))
	default:
		v.Verdicts = append(v.Verdicts, judged{good, "Runs", fmt.Sprintf("all %d count.", s.facts.Runs), "✓ whole"})
	}
	for _, b := range [...]struct{ key, says string }{{"best_throughput", "Best throughput"}, {"best_latency_p99", "Best latency (p99)"}} {
		at := "best_configurations." + b.key + "."
		if n := s.from.figure(at + "metric"); n.Exact != "" {
			v.Best = append(v.Best, fmt.Sprintf("%s: %s (%s %s)", b.says, s.named(at+"parameters."), n.Shown, s.from.text(at+"unit")))
		}
	}
	if len(s.parameters) == 0 {
		s.repeats(v)
	} else {
		s.table(v)
	}
	for _, c := range s.charts() {
		v.Plots = append(v.Plots, drawn(c, "sweep-"))
	}
	return v
}

// named are the parameters at a place of the file.
func (s *sweep) named(at string) string {
	var parts []string
	for _, p := range s.parameters {
		text := s.from.text(at + p)
		if n := s.from.number(at + p); n != "" {
			text = n.String()
		}
		parts = append(parts, p+" "+text)
	}
	return strings.Join(parts, ", ")
}

// table is one row for each variation.
func (s *sweep) table(v *sweepView) {
	v.Head = slices.Clone(s.parameters)
	hs := s.has()
	intervals := false
	for _, h := range hs {
		v.Head = append(v.Head, h.head+" "+h.unit)
	}
	for i := range s.cells {
		var row []figure
		for _, p := range s.values[i] {
			row = append(row, figure{Shown: p.text})
		}
		for _, h := range hs {
			f := s.figure(i, h)
			if low, high := s.bounds(i, h); high > low && f.Exact != "" {
				f.Shown += " (" + chart.Short(low) + " to " + chart.Short(high) + ")"
				intervals = true
			}
			row = append(row, f)
		}
		v.Rows = append(v.Rows, row)
	}
	if intervals {
		v.Note = fmt.Sprintf("Means over the repeats, in brackets their %s %% intervals.", chart.Short(100*s.facts.Level))
	}
}

// repeats is one row for each figure.
func (s *sweep) repeats(v *sweepView) {
	v.Named = true
	v.Head = []string{"figure", "mean", "from", "to", "std", "lowest", "highest"}
	for _, h := range s.has() {
		path, _ := s.path(0, h)
		row := []figure{{Shown: h.head + " " + h.unit}}
		for _, key := range [...]string{"mean", "ci_low", "ci_high", "std", "min", "max"} {
			row = append(row, s.from.figure(path+"."+key))
		}
		v.Rows = append(v.Rows, row)
	}
	v.Note = fmt.Sprintf("Over the repeats; from and to are the %s %% interval of the mean.", chart.Short(100*s.facts.Level))
}

// charts are the headlines over the parameter, where it is one and has numbers; else throughput against latency.
func (s *sweep) charts() []*chart.Chart {
	switch {
	case len(s.parameters) == 0 || len(s.cells) < 2:
		return nil
	case len(s.parameters) > 1 || slices.ContainsFunc(s.values, func(v []value) bool { return math.IsNaN(v[0].number) }):
		return []*chart.Chart{s.tradeOff()}
	}
	var out []*chart.Chart
	order := make([]int, len(s.cells))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(math.Copysign(1, s.values[a][0].number-s.values[b][0].number)) })
	for _, p := range [...]struct {
		name, title string
		of          []headline
	}{{"throughput_by_value", "Requests a second", headlines()[0:1]}, {"output_by_value", "Output tokens a second", headlines()[1:2]}, {"ttft_by_value", "TTFT", headlines()[2:4]},
		{"itl_by_value", "ITL", headlines()[4:5]}, {"latency_by_value", "Request latency", headlines()[5:7]}} {
		c := &chart.Chart{Name: p.name, Title: p.title + " by " + s.parameters[0], X: chart.Axis{Label: s.parameters[0]}, Y: chart.Axis{Label: p.of[0].unit}}
		var said []string
		for k, h := range p.of {
			text := s.curve(c, order, h, [...]chart.Tone{chart.Main, chart.Second}[k])
			if text != "" {
				said = append(said, text)
			}
		}
		if len(said) == 0 {
			continue
		}
		c.X.Settle(c.X.Min > 0)
		c.Y.Settle(true)
		c.Text = strings.Join(said, "; ") + "."
		out = append(out, c)
	}
	return out
}

// curve adds a headline to a plot, with its interval where there is one; "" where no variation has it.
func (s *sweep) curve(c *chart.Chart, order []int, h headline, tone chart.Tone) string {
	var line, high []chart.Point
	var low []float64
	band := false
	for _, i := range order {
		x := s.values[i][0].number
		y, err := s.from.number(s.figure(i, h).Of).Float64()
		if err != nil {
			continue
		}
		line = append(line, chart.Point{X: x, Y: y})
		from, to := s.bounds(i, h)
		if tone != chart.Main || !(to > from) { // a second interval would hide the first
			from, to = y, y
		} else {
			band = true
		}
		high, low = append(high, chart.Point{X: x, Y: to}), append(low, max(0, from))
		c.X.Span(x)
		c.Y.Span(to)
	}
	if len(line) == 0 {
		return ""
	}
	if band {
		c.Layers = append(c.Layers, chart.Layer{Name: "interval of the mean", Kind: chart.Band, Tone: tone, Points: high, To: low})
	}
	c.Layers = append(c.Layers, chart.Layer{Name: h.head, Kind: chart.Line, Tone: tone, Points: line}, chart.Layer{Kind: chart.Dots, Tone: tone, Large: true, Points: line})
	first, last := line[0], line[len(line)-1]
	return fmt.Sprintf("%s goes from %s %s at %s to %s at %s", h.head, chart.Short(first.Y), h.unit, chart.Short(first.X), chart.Short(last.Y), chart.Short(last.X))
}

// tradeOff is throughput against latency, with the variations that no other beats in both.
func (s *sweep) tradeOff() *chart.Chart {
	latency := headlines()[3]
	if !slices.Contains(s.has(), latency) {
		latency = headlines()[6]
	}
	c := &chart.Chart{Name: "trade_off", Title: "Throughput against " + latency.head, X: chart.Axis{Label: latency.head + ", " + latency.unit}, Y: chart.Axis{Label: "requests/s"}}
	var all []chart.Point
	for i := range s.cells {
		x, err := s.from.number(s.figure(i, latency).Of).Float64()
		y, err2 := s.from.number(s.figure(i, headlines()[0]).Of).Float64()
		if errors.Join(err, err2) != nil {
			continue
		}
		all = append(all, chart.Point{X: x, Y: y})
		c.X.Span(x)
		c.Y.Span(y)
	}
	front := slices.DeleteFunc(slices.Clone(all), func(p chart.Point) bool {
		return slices.ContainsFunc(all, func(o chart.Point) bool { return o.X <= p.X && o.Y >= p.Y && o != p })
	})
	slices.SortFunc(front, func(a, b chart.Point) int { return int(math.Copysign(1, a.X-b.X)) })
	c.X.Settle(true)
	c.Y.Settle(true)
	c.Layers = []chart.Layer{{Name: "each variation", Kind: chart.Dots, Tone: chart.Main, Large: true, Points: all},
		{Name: "none is better in both", Kind: chart.Line, Tone: chart.Second, Points: front}, {Kind: chart.Dots, Tone: chart.Second, Large: true, Points: front}}
	c.Text = fmt.Sprintf("Of %d variations %d are such that none is better in both.", len(all), len(front))
	return c
}
