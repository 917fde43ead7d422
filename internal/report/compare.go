package report

import (
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"

	"prefire/internal/procedure"
	"prefire/internal/report/chart"
	"prefire/internal/report/digest"
)

// Comparison is a pair of runs as prefire compare found it.
type Comparison struct {
	Name    string // what both are called within their folders; "" = each is the only run of its folder
	Records [2]string
	Verdict string
	Notes   []string // what else there is to say
	Metrics []procedure.Compared
	// Head and Rows are the table of the metrics, a row each.
	Head []string
	Rows [][]string
}

// Compare writes the page of a comparison of two folders: of each pair what is different, the table, the changes with their intervals, and both
// runs' distributions; then the runs themselves.
func Compare(w io.Writer, o Options, a, b fs.FS, pairs []Comparison) error {
	r := &Report{name: o.Name, version: o.Version}
	for _, pair := range pairs {
		for i, dir := range [...]fs.FS{a, b} {
			found, err := procedure.FindArtifacts(dir)
			if err != nil {
				return err
			}
			at := slices.IndexFunc(found, func(a procedure.Artifacts) bool { return a.Records == pair.Records[i] })
			if at < 0 {
				return fmt.Errorf("%s is there no more", pair.Records[i])
			}
			one, err := readRun(dir, found[at])
			if err != nil {
				return err
			}
			if one.label = [...]string{"A", "B"}[i]; pair.Name != "" && len(pairs) > 1 {
				one.label += ": " + pair.Name
			}
			r.runs = append(r.runs, one)
		}
		r.compared = append(r.compared, pair)
	}
	return r.HTML(w)
}

// comparedView is a pair's part of the page.
type comparedView struct {
	Title   string
	Verdict judged
	Notes   []string
	Head    []string
	Rows    []comparedRow
	Plots   []plotView
}

type comparedRow struct {
	State state
	Cells []string
}

func comparedState(verdict procedure.Outcome) state {
	switch verdict {
	case procedure.Better, procedure.NoDifference:
		return good
	case procedure.NotComparable:
		return unknown
	}
	return bad
}

// view is the i-th pair's part of the page; a and b are its runs.
func (c *Comparison) view(i int, a, b *run) comparedView {
	v := comparedView{Title: "B against A", Verdict: judged{comparedState(procedure.Outcome(c.Verdict)), "B against A", "over all metrics.", c.Verdict}, Notes: c.Notes, Head: c.Head}
	if c.Name != "" && c.Name != "." {
		v.Title += ": " + c.Name
	}
	if c.Verdict == "better and worse" {
		v.Verdict.State = warn
	}
	for k, cells := range c.Rows {
		v.Rows = append(v.Rows, comparedRow{comparedState(c.Metrics[k].Outcome), cells})
	}
	prefix := fmt.Sprintf("pair-%d-", i+1)
	if p := c.changes(); p != nil {
		v.Plots = append(v.Plots, drawn(p, prefix))
	}
	for _, f := range a.figures() {
		if p := both(f, a.digest, b.digest); p != nil {
			v.Plots = append(v.Plots, drawn(p, prefix))
		}
	}
	return v
}

// short are the metrics' names beside a plot.
func short(tag string) string {
	names := map[string]string{"time_to_first_token": "TTFT", "time_to_second_token": "TTST", "time_to_first_output_token": "TTFO", "request_latency": "latency", "decode_duration": "decode",
		"inter_token_latency": "ITL", "inter_chunk_latency": "ICL", "output_token_throughput_per_user": "out/user", "e2e_output_token_throughput": "e2e", "prefill_throughput_per_user": "prefill",
		"request_throughput": "req/s", "output_token_throughput": "tok/s"}
	if name, ok := names[tag]; ok {
		return name
	}
	return tag[:min(len(tag), 9)]
}

// changes are the averages' changes with their intervals, one below the other; nil where none was told.
func (c *Comparison) changes() *chart.Chart {
	p := &chart.Chart{Name: "changes", Title: "Change of the averages", X: chart.Axis{Label: "% from A to B, with 95 % intervals"}}
	tones := map[procedure.Outcome]chart.Tone{procedure.Better: chart.Main, procedure.Worse: chart.Bad, procedure.NoDifference: chart.Quiet}
	lines, dots := map[procedure.Outcome][]chart.Point{}, map[procedure.Outcome][]chart.Point{}
	p.X.Span(-1)
	p.X.Span(1)
	told := map[procedure.Outcome]int{}
	for i := len(c.Metrics) - 1; i >= 0; i-- {
		m := &c.Metrics[i]
		if m.Tag == "error_rate" || len(m.Differences) == 0 || m.Differences[0].Stat != "avg" {
			continue
		}
		d := m.Differences[0]
		p.Y.Names = append(p.Y.Names, short(m.Tag))
		y := float64(len(p.Y.Names))
		lines[m.Outcome] = append(lines[m.Outcome], chart.Point{X: d.Low, Y: y}, chart.Point{X: d.High, Y: y}, chart.Point{X: d.High, Y: math.NaN()})
		dots[m.Outcome] = append(dots[m.Outcome], chart.Point{X: d.Change, Y: y})
		p.X.Span(1.05 * d.Low)
		p.X.Span(d.High)
		told[m.Outcome]++
	}
	if len(p.Y.Names) == 0 {
		return nil
	}
	p.X.Settle(false)
	p.Y.Min, p.Y.Max = 0.4, float64(len(p.Y.Names))+0.6
	p.Layers = append(p.Layers, chart.Layer{Kind: chart.Mark, Tone: chart.Quiet, Dashed: true, Points: []chart.Point{{}}})
	for _, o := range [...]procedure.Outcome{procedure.Worse, procedure.Better, procedure.NoDifference} {
		if len(dots[o]) > 0 {
			p.Layers = append(p.Layers, chart.Layer{Name: string(o), Kind: chart.Line, Tone: tones[o], Points: lines[o]}, chart.Layer{Kind: chart.Dots, Tone: tones[o], Large: true, Points: dots[o]})
		}
	}
	p.Text = fmt.Sprintf("Of %d metrics %d are worse, %d better, and %d show no difference.", len(p.Y.Names), told[procedure.Worse], told[procedure.Better], told[procedure.NoDifference])
	return p
}

// both is what share of the requests of each run lies at or below a value; nil where one run has none.
func both(f followed, a, b *digest.Digest) *chart.Chart {
	if a == nil || b == nil {
		return nil
	}
	sides := [...]*digest.Sketch{a.Whole(f.figure), b.Whole(f.figure)}
	c := &chart.Chart{Name: f.name + "_of_both", Title: f.word + ", A and B", X: chart.Axis{Label: f.unit + ", log axis", Log: true}, Y: chart.Axis{Label: "% of requests at or below", Max: 100}}
	for i, s := range sides {
		if s.Count() == 0 {
			return nil
		}
		l := chart.Layer{Name: [...]string{"A", "B"}[i], Kind: chart.Line, Tone: [...]chart.Tone{chart.Main, chart.Second}[i]}
		for p := 0.; p <= 100; p++ {
			if v := s.Quantile(p); v > 0 {
				l.Points = append(l.Points, chart.Point{X: v, Y: p})
				c.X.Span(v)
			}
		}
		c.Layers = append(c.Layers, l)
	}
	c.X.Settle(false)
	c.Text = fmt.Sprintf("The median is %s %s in A and %s in B, the %s %s and %s.", chart.Short(sides[0].Quantile(50)), f.unit, chart.Short(sides[1].Quantile(50)),
		f.tail.words, chart.Short(sides[0].Quantile(f.tail.rank)), chart.Short(sides[1].Quantile(f.tail.rank)))
	return c
}
