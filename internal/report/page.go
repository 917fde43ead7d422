package report

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strings"

	"prefire/internal/procedure"
	"prefire/internal/report/chart"
	"prefire/internal/report/digest"
)

// The page's limits: it is to open at once, whatever the folder holds.
const (
	mostBytes  = 1900 << 10 // past it, runs are in the overview alone
	mostErrors = 40
	mostSlices = 120
	mostIndex  = 1000
	mostText   = 400      // letters of an error's message
	mostConfig = 48 << 10 // bytes of a config
)

//go:embed page.html
var pageText string

//go:embed page.css
var styleText string

// pageTemplate is parsed for each page: a report is written once.
func pageTemplate() *template.Template {
	sum := template.FuncMap{"add": func(a, b int) int { return a + b }}
	return template.Must(template.New("page").Funcs(sum).Parse(pageText))
}

// HTML writes the page.
func (r *Report) HTML(w io.Writer) error {
	t := pageTemplate()
	p := page{Title: r.name, Version: r.version, Style: template.CSS(styleText), Several: len(r.runs) > 1}
	if r.scan != nil {
		p.Scan = r.scan.view()
	}
	if r.series != nil {
		p.Series = r.series.view()
	}
	for i := range r.compared {
		p.Compared = append(p.Compared, r.compared[i].view(i, r.runs[2*i], r.runs[2*i+1]))
	}
	if p.Several {
		p.Index = r.index()
		p.IndexCut = len(r.runs) - len(p.Index)
	}
	size := 0
	var b bytes.Buffer
	for i, one := range r.runs {
		b.Reset()
		v := one.view(i)
		if err := t.ExecuteTemplate(&b, "run", v); err != nil {
			return err
		}
		if size += b.Len(); size > mostBytes && i > 0 {
			p.Left = len(r.runs) - i
			break
		}
		p.Runs = append(p.Runs, template.HTML(b.String())) //nolint:gosec // made by the template above
		if i < len(p.Index) {
			p.Index[i].Link = "#" + v.ID
		}
	}
	if r.carries != nil {
		p.Capacity = r.carries.view(func(folder string) string {
			if i := slices.IndexFunc(r.runs, func(one *run) bool { return one.folder == folder }); i >= 0 && i < len(p.Runs) {
				return "#" + runID(i)
			}
			return ""
		})
	}
	return t.Execute(w, p)
}

// Plots are the names of the plots that the report has: of a procedure, and of a folder with one run.
func (r *Report) Plots() []string {
	var names []string
	for _, c := range r.charts() {
		names = append(names, c.Name)
	}
	return names
}

// Plot writes one plot as a file of its own.
func (r *Report) Plot(w io.Writer, name, format string) error {
	for _, c := range r.charts() {
		if c.Name == name {
			return c.File(w, format)
		}
	}
	if len(r.runs) > 1 {
		return fmt.Errorf("there is no plot %q of a folder with %d runs: name the folder of one of them", name, len(r.runs))
	}
	return fmt.Errorf("there is no plot %q of this run; there are %s", name, strings.Join(r.Plots(), ", "))
}

func (r *Report) charts() []*chart.Chart {
	var out []*chart.Chart
	if r.scan != nil {
		if c := r.scan.plot(); c != nil {
			out = append(out, c)
		}
	}
	if r.carries != nil {
		out = append(out, r.carries.charts()...)
	}
	if r.series != nil {
		out = append(out, r.series.charts()...)
	}
	if len(r.runs) == 1 {
		out = append(out, r.runs[0].plots()...)
	}
	return out
}

// The page as its template reads it.
type page struct {
	Title, Version string
	Style          template.CSS
	Scan           *scanView
	Capacity       *capacityView
	Series         *sweepView
	Compared       []comparedView
	Several        bool
	Index          []indexRow
	IndexCut       int
	Runs           []template.HTML
	Left           int // runs without a part of their own
}

type scanView struct {
	Verdict judged
	Checks  []string
	Rules   []string
	Head    []string
	Rows    [][]figure
	Plot    *plotView
}

type plotView struct {
	Title, Text string
	SVG         template.HTML
	Key         []keyView
}

// keyView is an entry of a plot's key.
type keyView struct{ Class, Name string }

type runView struct {
	ID, Name  string
	When      string
	Trust     []judged
	Tiles     []tile
	Parts     []partView
	Errors    []errorView
	ErrorsCut int
	Clean     bool // no error at all
	SliceHead []string
	Slices    [][]figure
	SlicesCut int
	Cold      coldView
	Metrics   []metricView
	Times     []timeRow
	TimeHead  []string
	Config    string
	ConfigCut bool
	Command   string
	NoRecords bool
}

type partView struct {
	Title string
	Plots []plotView
}

type tile struct {
	Name, Unit string
	Main       figure
	More       []labelled
	Note       string
}

type labelled struct {
	Name string
	figure
}

type errorView struct {
	Count         figure
	Code, Type    string
	Message       string
	WithoutDetail bool
}

type metricView struct {
	Header, Tag, Unit string
	Values            []labelled
}

type timeRow []string

type coldView struct {
	Text string
	Head []string
	Rows []coldRow
}

type coldRow struct {
	Name, Unit string
	Figures    []figure
	Change     string
}

type indexRow struct {
	Name, Link string
	Figures    []figure
	Trust      judged
}

func drawn(c *chart.Chart, prefix string) plotView {
	v := plotView{Title: c.Title, Text: c.Text, SVG: template.HTML(c.SVG(prefix))} //nolint:gosec // all text in it is escaped there
	for i := range c.Layers {
		l := &c.Layers[i]
		if l.Name == "" || l.Kind == chart.Mark {
			continue
		}
		class := string(l.Tone)
		switch l.Kind {
		case chart.Line:
			class += " line"
			if l.Dashed {
				class += " dashed"
			}
		case chart.Dots:
			class += " dot"
		default:
			class += " patch"
		}
		v.Key = append(v.Key, keyView{class, l.Name})
	}
	return v
}

func (s *scan) view() *scanView {
	v := &scanView{Verdict: s.says(), Checks: s.checks(), Rows: s.rows(), Head: s.heads()}
	for _, rule := range procedure.Rules() {
		if text := s.Rules[rule[0]]; text != "" {
			v.Rules = append(v.Rules, rule[0]+": "+text)
		}
	}
	if c := s.plot(); c != nil {
		p := drawn(c, "scan-")
		v.Plot = &p
	}
	return v
}

func (r *Report) index() []indexRow {
	rows := make([]indexRow, 0, min(len(r.runs), mostIndex))
	for _, one := range r.runs[:min(len(r.runs), mostIndex)] {
		row := indexRow{Name: one.name(), Trust: worst(one.trust())}
		for _, f := range [...][2]string{{"request_count", "avg"}, {"time_to_first_token", "avg"}, {"time_to_first_token", "p99"}, {"inter_token_latency", "avg"},
			{"prefill_throughput_per_user", "avg"}, {"request_throughput", "avg"}, {"output_token_throughput", "avg"}} {
			row.Figures = append(row.Figures, one.summary.metric(f[0]).figure(f[1]))
		}
		rows = append(rows, row)
	}
	return rows
}

// worst is the verdict that weighs most.
func worst(list []judged) judged {
	for _, st := range [...]state{bad, warn, unknown} {
		for _, j := range list {
			if j.State == st {
				return j
			}
		}
	}
	return judged{State: good, Claim: "all claims"}
}

// runID is the i-th run's in the page.
func runID(i int) string { return fmt.Sprintf("run-%d", i+1) }

func (r *run) view(i int) *runView {
	v := &runView{ID: runID(i), Name: r.name(), Trust: r.trust(), Tiles: r.tiles(), Cold: r.coldView(), NoRecords: r.digest == nil}
	if s := r.summary; s != nil {
		v.When = strings.Trim(s.facts.Start+" to "+s.facts.End, " to")
		v.Command = s.facts.Info.Command
		if s.facts.Prefire != nil && s.facts.Prefire.Command != "" {
			v.Command = s.facts.Prefire.Command
		}
		v.Config, v.ConfigCut = config(s.facts.Config)
		v.metrics(s.metrics)
		v.errors(s.facts.Errors)
	}
	v.Clean = len(v.Errors) == 0
	v.slices(r.slices)
	prefix := v.ID + "-"
	titles := map[string]string{"in_flight": "Load over time", "ttft_by_input": "Input length"}
	for _, f := range r.figures() {
		titles[f.name+"_over_time"] = f.word
	}
	for _, c := range r.plots() {
		if title, ok := titles[c.Name]; ok || len(v.Parts) == 0 {
			if !ok {
				title = c.Title
			}
			v.Parts = append(v.Parts, partView{Title: title})
		}
		last := &v.Parts[len(v.Parts)-1]
		last.Plots = append(last.Plots, drawn(c, prefix))
	}
	v.times(r)
	return v
}

func (r *run) tiles() []tile {
	var out []tile
	s := r.summary
	add := func(name, tag string, more ...string) {
		m := s.metric(tag)
		if m == nil {
			return
		}
		t := tile{Name: name, Unit: m.unit, Main: m.figure("avg")}
		for _, key := range more {
			if f := m.figure(key); f.Of != "" {
				t.More = append(t.More, labelled{key, f})
			}
		}
		if v := m.number("avg"); tag == "prefill_throughput_per_user" && v > 0 {
			t.Note = chart.Short(1000/v) + " s per 1,000 prompt tokens"
		}
		out = append(out, t)
	}
	add("TTFT, average", "time_to_first_token", "p50", "p99", "count")
	add("Prefill per user, average", "prefill_throughput_per_user", "p50", "p1")
	add("ITL, average", "inter_token_latency", "p50", "p99", "count")
	if s.metric("time_to_first_token") == nil {
		add("Request latency, average", "request_latency", "p50", "p99", "count")
	}
	add("Requests answered", "request_count")
	add("Requests failed", "error_request_count")
	add("Request rate", "request_throughput")
	add("Output rate", "output_token_throughput")
	add("Goodput", "goodput")
	return out
}

func (v *runView) metrics(list []metric) {
	for i := range list {
		m := &list[i]
		row := metricView{Header: m.header, Tag: m.tag, Unit: m.unit}
		for _, key := range metricColumns() {
			row.Values = append(row.Values, labelled{key, m.figure(key)})
		}
		v.Metrics = append(v.Metrics, row)
	}
}

func metricColumns() []string {
	return []string{"avg", "min", "p1", "p10", "p50", "p90", "p95", "p99", "max", "std", "count"}
}

// Columns are the heads of the table of all metrics.
func (v *runView) Columns() []string { return metricColumns() }

func (v *runView) errors(list []errorCount) {
	for i, e := range list {
		if i == mostErrors {
			v.ErrorsCut = len(list) - i
			break
		}
		row := errorView{Count: newFigure(fmt.Sprintf("error_summary.%d.count", i), e.Count), Code: e.Details.Code.String(), Type: e.Details.Type, Message: e.Details.Message}
		row.Message = clipped(row.Message)
		v.Errors = append(v.Errors, row)
	}
}

// clipped is a text of a foreign program, not without end.
func clipped(text string) string {
	if letters := []rune(text); len(letters) > mostText {
		return string(letters[:mostText]) + " …"
	}
	return text
}

func (v *runView) slices(list []slice) {
	if len(list) == 0 {
		return
	}
	v.SliceHead = []string{"from s", "to s", "requests", "TTFT avg ms", "TTFT p99 ms", "ITL avg ms", "requests/s", "output tokens/s"}
	v.SlicesCut = max(0, len(list)-mostSlices)
	for _, s := range list[:min(len(list), mostSlices)] {
		since := func(ns int64) figure { return figure{Shown: fmt.Sprintf("%.2f", float64(ns-list[0].from)/1e9)} }
		row := []figure{since(s.from), since(s.to)}
		for _, f := range [...][2]string{{"request_count", "avg"}, {"time_to_first_token", "avg"}, {"time_to_first_token", "p99"}, {"inter_token_latency", "avg"},
			{"request_throughput", "avg"}, {"output_token_throughput", "avg"}} {
			x := metricOf(s.metrics, f[0]).figure(f[1])
			x.Of = "" // it is another file's
			row = append(row, x)
		}
		v.Slices = append(v.Slices, row)
	}
}

// times are the figures of the plots over time.
func (v *runView) times(r *run) {
	if r.digest == nil {
		return
	}
	v.TimeHead = []string{"from s", "to s", "started", "in flight", "answered/s", "failed/s", "output tokens/s"}
	figures := r.figures()
	for _, f := range figures {
		short := strings.ToUpper(f.name)
		if f.figure == digest.Prefill || f.figure == digest.Latency {
			short = f.name
		}
		v.TimeHead = append(v.TimeHead, short+" median "+f.unit, short+" "+f.tail.key)
	}
	for _, b := range r.digest.Bins() {
		row := timeRow{fmt.Sprintf("%.2f", b.From), fmt.Sprintf("%.2f", b.To), fmt.Sprint(b.Started), chart.Short(b.InFlight), chart.Short(b.Finished), chart.Short(b.Failed), chart.Short(b.Output)}
		for _, f := range figures {
			for _, p := range [...]float64{50, f.tail.rank} {
				cell := "–"
				if s := b.Figures[f.figure]; s != nil {
					cell = chart.Short(s.Quantile(p))
				}
				row = append(row, cell)
			}
		}
		v.Times = append(v.Times, row)
	}
}

// coldView is what there is to say of cold and of cut requests.
func (r *run) coldView() coldView {
	text := r.coldTrust().Text
	v := coldView{Text: strings.ToUpper(text[:1]) + text[1:]}
	if own := r.own(); own != nil {
		var reasons []string
		for name, n := range own.Cold.Reasons {
			reasons = append(reasons, fmt.Sprintf("%s %s", name, n))
		}
		slices.Sort(reasons)
		if len(reasons) > 0 {
			v.Text += " Reasons: " + strings.Join(reasons, ", ") + "."
		}
		if own.Counts.Censored != "" {
			v.Text += fmt.Sprintf(" Cut by the end of the run: %s.", own.Counts.Censored)
		}
		v.with(r.summary, readMetrics(own.Cold.With))
	}
	if r.cold != nil && r.cold.Cold > 0 {
		v.debiased(r.cold)
	}
	return v
}

func (v *coldView) with(s *summary, with []metric) {
	if len(with) == 0 {
		return
	}
	v.Head = []string{"metric", "unit", "avg", "with cold", "change", "p99", "with cold"}
	for i := range with {
		m := s.metric(with[i].tag)
		name := func(key string) figure {
			f := with[i].figure(key)
			f.Of = "prefire.cold.metrics_with_cold." + f.Of
			return f
		}
		row := coldRow{Name: with[i].header, Unit: with[i].unit, Figures: []figure{m.figure("avg"), name("avg"), m.figure("p99"), name("p99")}}
		row.Change = percent(m.number("avg"), with[i].number("avg"))
		v.Rows = append(v.Rows, row)
	}
}

// debiased shows what prefire debias found.
func (v *coldView) debiased(d *procedure.Debiased) {
	v.Head = []string{"metric", "unit", "avg with cold", "without", "change", "p99 with cold", "without"}
	for i := range d.Changes {
		c := &d.Changes[i]
		row := coldRow{Name: c.Def.Header, Unit: string(c.Def.Display)}
		show := func(v float64, there bool) figure {
			if !there {
				return figure{}
			}
			return figure{Shown: readable(v)}
		}
		row.Figures = []figure{show(c.Before.Avg, true), show(c.After.Avg, !c.Gone), show(c.Before.P[8], true), show(c.After.P[8], !c.Gone)}
		row.Change = "–"
		if !c.Gone {
			row.Change = percent(c.Before.Avg, c.After.Avg)
		}
		v.Rows = append(v.Rows, row)
	}
}

func percent(from, to float64) string {
	if math.IsNaN(from) || math.IsNaN(to) || from == 0 {
		return "–"
	}
	return fmt.Sprintf("%+.1f %%", 100*(to-from)/from)
}

// config is a config laid out for people, without what is secret in it.
func config(raw json.RawMessage) (text string, cut bool) {
	if len(raw) == 0 {
		return "", false
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return "", false
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if e.Encode(redacted(v)) != nil {
		return "", false
	}
	text = strings.TrimRight(b.String(), "\n")
	if len(text) > mostConfig {
		return strings.ToValidUTF8(text[:mostConfig], ""), true
	}
	return text, false
}

// redacted takes the values of keys that name a secret out. prefire's own files hold none; other programs' may.
func redacted(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, inner := range v {
			if _, text := inner.(string); text && secret(key) {
				v[key] = "<redacted>"
			} else {
				v[key] = redacted(inner)
			}
		}
	case []any:
		for i := range v {
			v[i] = redacted(v[i])
		}
	}
	return v
}

func secret(key string) bool {
	key = strings.ReplaceAll(strings.ToLower(key), "-", "_")
	for _, end := range [...]string{"api_key", "apikey", "authorization", "_token", "password", "secret", "cookie"} {
		if strings.HasSuffix(key, end) {
			return true
		}
	}
	return key == "token"
}
