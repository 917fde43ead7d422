package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"strings"

	"prefire/internal/procedure"
	"prefire/internal/report/chart"
)

const capacityFile = "capacity.json"

// capacity is a capacity.json.
type capacity struct {
	ladder   procedure.Ladder
	finished bool
	slo      []procedure.Clause
	found    procedure.Capacity
	steps    []procedure.Step // by rising load
	folders  [][]string       // of their runs
	from     document
}

// readCapacity reads a capacity run's own file; nil where the folder holds none.
func readCapacity(dir fs.FS) (*capacity, error) {
	data, err := fs.ReadFile(dir, capacityFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return parseCapacity(data)
}

func parseCapacity(data []byte) (*capacity, error) {
	no := func(err error) error {
		return fmt.Errorf("%s: it is no result of prefire capacity: %w", capacityFile, err)
	}
	var file struct {
		Load     string             `json:"load"`
		Finished bool               `json:"finished"`
		SLO      []string           `json:"slo"`
		Result   procedure.Capacity `json:"result"`
		Steps    []struct {
			Folders []string       `json:"artifact_dirs"`
			Figures procedure.Step `json:"figures"`
		} `json:"steps"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, no(err)
	}
	if len(file.Steps) == 0 {
		return nil, no(errors.New("it has no steps"))
	}
	c := &capacity{ladder: procedure.Ladder{Open: file.Load == "request_rate"}, finished: file.Finished, found: file.Result}
	var err error
	if c.slo, err = procedure.ParseSLO(strings.Join(file.SLO, ",")); err != nil {
		return nil, no(err)
	}
	if c.from, err = readDocument(data); err != nil {
		return nil, no(err)
	}
	for _, s := range file.Steps {
		c.steps, c.folders = append(c.steps, s.Figures), append(c.folders, s.Folders)
	}
	return c, nil
}

// CapacitySVG draws a capacity.json as a file of its own: throughput over the load, and below it the latency that its first limit is on, or
// else TTFT, or request latency.
func CapacitySVG(w io.Writer, data []byte) error {
	c, err := parseCapacity(data)
	if err != nil {
		return err
	}
	all := c.charts()
	return chart.Stack(w, "svg", all[:min(len(all), 2)]...)
}

// capacityView is the part of the page.
type capacityView struct {
	Verdicts []judged
	Notes    []string
	BestAt   string // the load that the tiles are of; "" = none
	Tiles    []tile
	Head     []string
	Texts    int // how many heads come before those of the rows' Cells
	Rows     []capacityRow
	Limits   []string // heads of the second table
	Kept     []capacityRow
	Plots    []plotView
}

// capacityRow is a load's row of a table.
type capacityRow struct {
	Load    figure
	Link    string // its last run in the page
	Figures []figure
	Cells   []judged // Text is what stands there
}

// view is the part of the page. link gives where the run of a folder is in the page; "" = nowhere.
func (c *capacity) view(link func(folder string) string) *capacityView {
	var v capacityView
	limits := make([]string, len(c.slo))
	for i := range c.slo {
		limits[i] = c.slo[i].Text
	}
	if !c.finished {
		v.Verdicts = append(v.Verdicts, say(warn, "Not finished", "what follows is from the steps so far."))
	}
	best, more := c.found.Says(&c.ladder, limits, c.steps)
	found := judged{State: bad, Claim: "Capacity", Text: best, own: "✗ none"}
	switch {
	case c.found.BestSure:
		found.State, found.own = good, "✓ sure"
	case c.found.Best > 0:
		found.State, found.own = warn, "! not sure"
	}
	v.Verdicts = append(v.Verdicts, found)
	v.Notes = more
	if i := slices.IndexFunc(c.steps, func(s procedure.Step) bool { return s.Load == c.found.Best }); i >= 0 {
		v.BestAt, v.Tiles = c.ladder.Named(c.found.Best), c.tiles(i)
	}
	c.table(&v)
	c.kept(&v)
	for i, folders := range c.folders {
		if len(folders) > 0 {
			v.Rows[i].Link = link(folders[len(folders)-1])
		}
	}
	for _, p := range c.charts() {
		v.Plots = append(v.Plots, drawn(p, "capacity-"))
	}
	return &v
}

func (c *capacity) loadUnit() string {
	if c.ladder.Open {
		return "requests/s asked"
	}
	return "sessions at once"
}

// tiles are the figures at the i-th load.
func (c *capacity) tiles(i int) []tile {
	at := fmt.Sprintf("steps.%d.figures.", i)
	var out []tile
	add := func(name, unit string, main figure, more ...labelled) {
		t := tile{Name: name, Unit: unit, Main: main}
		for _, m := range more {
			if m.Exact != "" {
				t.More = append(t.More, m)
			}
		}
		if main.Exact != "" {
			out = append(out, t)
		}
	}
	add("Best load", c.loadUnit(), c.from.figure("result.best"), labelled{"sure up to", c.from.figure("result.at_least")},
		labelled{"surely too much", c.from.figure("result.below")}, labelled{"knee", c.from.figure("result.knee")})
	add("Throughput", "answers/s", c.from.figure(at+"request_throughput.value"))
	if in := between(&c.steps[i].Throughput, 1, ""); in != "" && len(out) > 0 {
		out[len(out)-1].Note = "95 %: " + in
	}
	add("Output", "tokens/s", c.from.figure(at+"output_token_throughput"))
	for _, m := range c.shown() {
		in := at + "metrics." + m.tag + "."
		add(m.word+", average", "ms", c.from.figure(in+"avg"), labelled{"p50", c.from.figure(in + "p50")}, labelled{"p99", c.from.figure(in + "p99")},
			labelled{"count", c.from.figure(in + "count")})
	}
	add("In flight", "requests", c.from.figure(at+"in_flight_mean"))
	add("Failed", "%", c.from.share(at+"error_rate"))
	return out
}

// loadMetric is a latency that the tables have.
type loadMetric struct{ tag, word, name string }

// shown are the latencies that any step has.
func (c *capacity) shown() []loadMetric {
	var out []loadMetric
	for _, m := range [...]loadMetric{{"time_to_first_token", "TTFT", "ttft"}, {"inter_token_latency", "ITL", "itl"}, {"request_latency", "Request latency", "latency"}} {
		if slices.ContainsFunc(c.steps, func(s procedure.Step) bool { _, ok := s.Metrics[m.tag]; return ok }) {
			out = append(out, m)
		}
	}
	return out
}

// load is the i-th load, with its unit.
func (c *capacity) load(i int) figure {
	f := c.from.figure(fmt.Sprintf("steps.%d.figures.load", i))
	f.Shown = c.ladder.Named(c.steps[i].Load)
	return f
}

// table is one row for each load.
func (c *capacity) table(v *capacityView) {
	v.Head = []string{"load", "window s", "requests in it", "failed %", "answers/s", "95 %", "output tokens/s", "in flight"}
	for _, m := range c.shown() {
		v.Head = append(v.Head, strings.TrimPrefix(m.word, "Request ")+" avg ms", "p99 ms")
	}
	v.Texts = len(v.Head)
	v.Head = append(v.Head, "steady", "what came of it")
	for i := range c.steps {
		s, at := &c.steps[i], fmt.Sprintf("steps.%d.figures.", i)
		row := capacityRow{Load: c.load(i), Figures: []figure{
			{Shown: fmt.Sprintf("%.1f to %.1f", s.From, s.To)}, c.from.figure(at + "requests"), c.from.share(at + "error_rate"),
			c.from.figure(at + "request_throughput.value"), {Shown: between(&s.Throughput, 1, "")}, c.from.figure(at + "output_token_throughput"),
			c.from.figure(at + "in_flight_mean")}}
		for _, m := range c.shown() {
			in := at + "metrics." + m.tag + "."
			row.Figures = append(row.Figures, c.from.figure(in+"avg"), c.from.figure(in+"p99"))
		}
		steady := judged{State: good, Text: "yes"}
		if !s.Steady {
			steady = judged{State: warn, Text: "no: " + s.Why}
		}
		row.Cells = []judged{steady, {State: keeping(s.Kept, s.Sure), Text: s.Says()}}
		v.Rows = append(v.Rows, row)
	}
}

// keeping is the state of a limit or of all.
func keeping(kept, sure bool) state {
	switch {
	case !sure:
		return warn
	case kept:
		return good
	}
	return bad
}

// between is an interval in words; "" where there is none.
func between(i *procedure.Interval, scale float64, unit string) string {
	if i == nil || i.Low == nil || i.High == nil {
		return ""
	}
	return chart.Short(scale**i.Low) + " to " + chart.Short(scale**i.High) + unit
}

// kept is the table of the limits, load by load.
func (c *capacity) kept(v *capacityView) {
	v.Limits = []string{"load"}
	for i := range c.slo {
		head := c.slo[i].Text
		if allowed := c.allowed(&c.slo[i]); allowed > 0 {
			head += fmt.Sprintf(" (at most %s %% beyond)", chart.Short(100*allowed))
		}
		v.Limits = append(v.Limits, head)
	}
	if c.ladder.Open {
		v.Limits = append(v.Limits, "served: in flight grows by at most 1 % of the arrivals")
	}
	for i := range c.steps {
		s := &c.steps[i]
		row := capacityRow{Load: c.load(i)}
		for k := range c.slo {
			row.Cells = append(row.Cells, c.cell(s, &c.slo[k]))
		}
		if c.ladder.Open {
			cell := judged{State: unknown, Text: "–"}
			if u := s.Unserved; u != nil {
				broken := slices.Contains(s.Broken(), procedure.Falling)
				cell = judged{State: good, Text: fmt.Sprintf("%s %% (%s)", chart.Short(100*u.Value), between(u, 100, " %"))}
				if broken {
					cell.State = bad
				}
			}
			row.Cells = append(row.Cells, cell)
		}
		v.Kept = append(v.Kept, row)
	}
}

// allowed is what share of the requests may lie beyond the limit; 0 where it is not on a percentile.
func (c *capacity) allowed(l *procedure.Clause) float64 {
	switch {
	case l.Percentile == 0:
		return 0
	case l.AtLeast:
		return l.Percentile / 100
	}
	return 1 - l.Percentile/100
}

// finding is what a step says of a limit; nil where it has none.
func finding(s *procedure.Step, l *procedure.Clause) *procedure.Finding {
	if i := slices.IndexFunc(s.Findings, func(f procedure.Finding) bool { return f.Limit == l.Text }); i >= 0 {
		return &s.Findings[i]
	}
	return nil
}

// cell is a limit at a load.
func (c *capacity) cell(s *procedure.Step, l *procedure.Clause) judged {
	f := finding(s, l)
	if f == nil {
		return judged{State: unknown, Text: "–"}
	}
	j := judged{State: keeping(f.Kept, f.Sure)}
	scale, unit := 1., " "+string(l.Unit)
	if l.ErrorRate() {
		scale, unit = 100, " %"
	}
	var parts []string
	switch v := f.Value; {
	case v == nil && f.Beyond != nil:
		parts = append(parts, "among the failed")
	case v == nil:
		parts = append(parts, "no value")
	default:
		text := chart.Short(scale*v.Value) + unit
		if in := between(v, scale, ""); in != "" {
			text += " (" + in + ")"
		}
		parts = append(parts, text)
	}
	if b := f.Beyond; b != nil {
		parts = append(parts, fmt.Sprintf("beyond %s %% (%s)", chart.Short(100*b.Value), between(b, 100, "")))
	}
	word := "kept"
	if !f.Kept {
		word = "broken"
	}
	if !f.Sure {
		word += "?"
	}
	j.Text = strings.Join(append(parts, word), ", ")
	return j
}

// charts are throughput over the load, and the latencies and what else has a limit, those with a limit first.
func (c *capacity) charts() []*chart.Chart {
	out := []*chart.Chart{c.throughput()}
	drawn := c.shown()
	failing := slices.ContainsFunc(c.steps, func(s procedure.Step) bool { return s.Failed > 0 })
	for i := range c.slo {
		l := &c.slo[i]
		if l.ErrorRate() && !failing {
			continue
		}
		if !slices.ContainsFunc(drawn, func(m loadMetric) bool { return m.tag == l.Tag }) {
			drawn = append(drawn, loadMetric{l.Tag, strings.ToUpper(l.Tag[:1]) + strings.ReplaceAll(l.Tag[1:], "_", " "), l.Tag})
		}
	}
	limited := func(m loadMetric) int {
		if i := slices.IndexFunc(c.slo, func(l procedure.Clause) bool { return l.Tag == m.tag }); i >= 0 {
			return i
		}
		return len(c.slo)
	}
	slices.SortStableFunc(drawn, func(a, b loadMetric) int { return limited(a) - limited(b) })
	for _, m := range drawn {
		if p := c.overLoad(m); p != nil {
			out = append(out, p)
		}
	}
	return out
}

// over is a plot over the load; name and title are those of what it shows.
func (c *capacity) over(name, title, unit string) *chart.Chart {
	p := &chart.Chart{Name: name + "_by_load", Title: title + " by load", X: chart.Axis{Label: c.loadUnit()}, Y: chart.Axis{Label: unit}}
	for i := range c.steps {
		p.X.Span(c.steps[i].Load)
	}
	p.X.Settle(true)
	return p
}

// curve is a figure of each load; NaN breaks it.
func (c *capacity) curve(of func(*procedure.Step) float64) []chart.Point {
	out := make([]chart.Point, len(c.steps))
	for i := range c.steps {
		out[i] = chart.Point{X: c.steps[i].Load, Y: of(&c.steps[i])}
	}
	return out
}

// finish gives a plot the marks of the best load and of the knee, and dots in the colour of what came of each load on its first curve.
func (c *capacity) finish(p *chart.Chart, first []chart.Point) {
	p.Y.Settle(true)
	var kept, broken []chart.Point
	for i, at := range first {
		if c.steps[i].Kept {
			kept = append(kept, at)
		} else {
			broken = append(broken, at)
		}
	}
	p.Layers = append(p.Layers, chart.Layer{Kind: chart.Dots, Tone: chart.Main, Large: true, Points: kept})
	if len(broken) > 0 {
		p.Layers = append(p.Layers, chart.Layer{Name: "breaks a limit", Kind: chart.Dots, Tone: chart.Bad, Large: true, Points: broken})
	}
	mark := func(word string, load float64, tone chart.Tone) {
		p.Layers = append(p.Layers, chart.Layer{Name: word + " " + procedure.LoadText(load), Kind: chart.Mark, Tone: tone, Dashed: true, Points: []chart.Point{{X: load}}})
	}
	switch {
	case c.found.Best > 0 && c.found.Best == c.found.Knee:
		mark("best and knee", c.found.Best, chart.Main)
	default:
		if c.found.Best > 0 {
			mark("best", c.found.Best, chart.Main)
		}
		if c.found.Knee > 0 {
			mark("knee", c.found.Knee, chart.Quiet)
		}
	}
}

// at names a load for a plot's description: the best one, or else the first.
func (c *capacity) at() int {
	return max(0, slices.IndexFunc(c.steps, func(s procedure.Step) bool { return s.Load == c.found.Best }))
}

func (c *capacity) throughput() *chart.Chart {
	p := c.over("throughput", "Throughput", "answers/s")
	line := c.curve(func(s *procedure.Step) float64 { return s.Throughput.Value })
	high, low := slices.Clone(line), make([]float64, len(line))
	band := false
	for i := range c.steps {
		t := &c.steps[i].Throughput
		low[i] = t.Value
		if t.Low != nil && t.High != nil {
			high[i].Y, low[i], band = *t.High, max(0, *t.Low), true
		}
		p.Y.Span(high[i].Y)
	}
	if band {
		p.Layers = append(p.Layers, chart.Layer{Name: "95 % interval", Kind: chart.Band, Tone: chart.Main, Points: high, To: low})
	}
	p.Layers = append(p.Layers, chart.Layer{Name: "answers a second", Kind: chart.Line, Tone: chart.Main, Points: line})
	p.Y.Span(1.15 * p.Y.Max) // room for the names of the marks
	c.finish(p, line)
	first, last, at := line[0], line[len(line)-1], line[c.at()]
	p.Text = fmt.Sprintf("From %s to %s the throughput goes from %s to %s answers/s; at %s it is %s.", procedure.LoadText(first.X), c.ladder.Named(last.X),
		chart.Short(first.Y), chart.Short(last.Y), c.ladder.Named(at.X), chart.Short(at.Y))
	return p
}

// series is a curve of a plot over the load.
type series struct {
	name string
	at   []chart.Point
}

// overLoad is a metric over the load with its limits; nil where no load has it.
func (c *capacity) overLoad(m loadMetric) *chart.Chart {
	var lines []series
	limits := map[string]float64{} // by the figure's name
	unit, scale := "ms", 1.
	for i := range c.slo {
		l := &c.slo[i]
		if l.Tag != m.tag {
			continue
		}
		unit = string(l.Unit)
		name := "average"
		switch {
		case l.ErrorRate():
			unit, scale, name = "%", 100, "share of the requests"
		case l.Percentile > 0:
			name = fmt.Sprintf("p%v", l.Percentile)
		}
		limits[name] = scale * l.Limit
		lines = append(lines, series{name, c.curve(func(s *procedure.Step) float64 {
			if f := finding(s, l); f != nil && f.Value != nil {
				return scale * f.Value.Value
			}
			return math.NaN()
		})})
	}
	for _, f := range [...]struct {
		name string
		of   func(procedure.Figures) float64
	}{{"average", func(f procedure.Figures) float64 { return f.Avg }}, {"p99", func(f procedure.Figures) float64 { return f.P99 }}} {
		if slices.ContainsFunc(lines, func(s series) bool { return s.name == f.name }) {
			continue
		}
		at := c.curve(func(s *procedure.Step) float64 {
			if v, ok := s.Metrics[m.tag]; ok {
				return f.of(v)
			}
			return math.NaN()
		})
		lines = append(lines, series{f.name, at})
	}
	p := c.over(m.name, m.word, unit)
	return c.draw(p, lines, limits)
}

// draw fills a plot with curves and their limits; nil where there is nothing to draw.
func (c *capacity) draw(p *chart.Chart, lines []series, limits map[string]float64) *chart.Chart {
	lines = slices.DeleteFunc(lines, func(s series) bool {
		return !slices.ContainsFunc(s.at, func(at chart.Point) bool { return !math.IsNaN(at.Y) })
	})
	if len(lines) == 0 {
		return nil
	}
	lowest, highest := math.Inf(1), 0.
	span := func(v float64) {
		if v > 0 {
			lowest, highest = min(lowest, v), max(highest, v)
		}
	}
	for _, s := range lines {
		for _, at := range s.at {
			span(at.Y)
		}
	}
	for _, v := range limits {
		span(v)
	}
	if p.Y.Log = highest > 30*lowest && p.Y.Label != "%"; p.Y.Log {
		p.Y.Label += ", log axis"
		p.Y.Span(lowest)
		p.Y.Span(highest * 1.5) // room for the names of the marks
	} else {
		p.Y.Span(highest * 1.15)
	}
	var said []string
	best := c.at()
	for i, s := range lines {
		tone, dashed := chart.Main, false
		if i > 0 {
			tone, dashed = chart.Second, i > 1
		}
		p.Layers = append(p.Layers, chart.Layer{Name: s.name, Kind: chart.Line, Tone: tone, Dashed: dashed, Points: s.at})
		text := s.name + " " + known(s.at[best].Y) + " at " + c.ladder.Named(s.at[best].X)
		if last := s.at[len(s.at)-1]; last.X != s.at[best].X {
			text += " and " + known(last.Y) + " at " + procedure.LoadText(last.X)
		}
		if limit, ok := limits[s.name]; ok {
			p.Layers = append(p.Layers, chart.Layer{Name: "limit on the " + s.name, Kind: chart.Line, Tone: chart.Bad, Dashed: true,
				Points: []chart.Point{{X: p.X.Min, Y: limit}, {X: p.X.Max, Y: limit}}})
			text += ", limit " + chart.Short(limit)
		}
		said = append(said, text)
	}
	c.finish(p, lines[0].at)
	p.Text = strings.ToUpper(said[0][:1]) + strings.Join(said, "; ")[1:] + "."
	return p
}

// known is a figure of a description.
func known(v float64) string {
	if math.IsNaN(v) {
		return "unknown"
	}
	return chart.Short(v)
}
