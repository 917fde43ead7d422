package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"prefire/internal/report/chart"
	"prefire/internal/report/digest"
)

const (
	most       = 48   // bars of a distribution, and lengths of TTFT against input length
	logAbove   = 20   // the range of values, largest over smallest, from which a plot over time has a log axis
	sameLength = 1.05 // inputs whose longest is less than this times the shortest are of one length
)

// leastAtLength is how many requests of about one length a line over lengths rests on, where there are enough in all.
const leastAtLength = 4

// followed is a figure that is followed over time.
type followed struct {
	figure           digest.Figure
	name, word, unit string
	tag              string     // of its metric in the summary
	tail             percentile // of the bad end
	shoulder         percentile // halfway to it
}

// percentile is a rank with its names.
type percentile struct {
	rank       float64
	key, words string
}

func ttft() followed {
	return slow(digest.TTFT, "ttft", "Time to first token", "time_to_first_token")
}

// slow is a time: its bad end is the upper one.
func slow(f digest.Figure, name, word, tag string) followed {
	return followed{f, name, word, "ms", tag, percentile{99, "p99", "99th percentile"}, percentile{90, "p90", "90th percentile"}}
}

func latency() followed {
	return slow(digest.Latency, "latency", "Request latency", "request_latency")
}

// prefill has its bad end at the slow requests, which is the lower one.
func prefill() followed {
	return followed{digest.Prefill, "prefill", "Prefill throughput per user", "tokens/s", "prefill_throughput_per_user",
		percentile{1, "p1", "1st percentile"}, percentile{10, "p10", "10th percentile"}}
}

// figures are those of a run: of one without streaming, whose requests have a latency alone, that.
func (r *run) figures() []followed {
	if r.digest == nil {
		return nil
	}
	all := []followed{ttft(),
		slow(digest.ITL, "itl", "Inter token latency", "inter_token_latency"), prefill()}
	if r.digest.Whole(digest.TTFT).Count() == 0 {
		all = []followed{latency()}
	}
	return slices.DeleteFunc(all, func(f followed) bool { return r.digest.Whole(f.figure).Count() == 0 })
}

// plots are all plots of a run, in the page's order.
func (r *run) plots() []*chart.Chart {
	if r.digest == nil {
		return nil
	}
	bins := r.digest.Bins()
	var out []*chart.Chart
	for _, f := range r.figures() {
		if c := r.overTime(f, bins); c != nil {
			out = append(out, c)
		}
		if c := r.distribution(f); c != nil {
			out = append(out, c)
		}
	}
	if len(bins) > 0 {
		out = append(out, r.inFlight(bins), r.rate(bins))
		if c := outputRate(bins); c != nil {
			out = append(out, c)
		}
	}
	if c := r.byInput(); c != nil {
		out = append(out, c)
	}
	return out
}

// clock is the axis of a run's time.
func clock(bins []digest.Bin) chart.Axis {
	a := chart.Axis{Label: "time since the first request", Clock: true, Max: bins[len(bins)-1].To}
	a.Settle(true)
	return a
}

func middle(b *digest.Bin) float64 { return (b.From + b.To) / 2 }

// overTime is a figure over the run: each request where they are few, and the median and the 99th percentile of each bin.
func (r *run) overTime(f followed, bins []digest.Bin) *chart.Chart {
	if len(bins) == 0 {
		return nil
	}
	c := &chart.Chart{Name: f.name + "_over_time", Title: f.word + " over time", X: clock(bins)}
	c.Y.Label = f.unit
	var median, tail, upper []chart.Point
	var lower []float64
	low, high := math.Inf(1), 0.
	worst, worstAt := math.NaN(), 0.
	for i := range bins {
		s := bins[i].Figures[f.figure]
		at := middle(&bins[i])
		of := func(p float64) chart.Point {
			if s == nil {
				return chart.Point{X: at, Y: math.NaN()}
			}
			return chart.Point{X: at, Y: s.Quantile(p)}
		}
		median, tail, upper, lower = append(median, of(50)), append(tail, of(f.tail.rank)), append(upper, of(90)), append(lower, of(10).Y)
		if s == nil {
			continue
		}
		low, high = min(low, of(1).Y), max(high, of(99).Y)
		if v := of(f.tail.rank).Y; math.IsNaN(worst) || (v > worst) == (f.tail.rank > 50) {
			worst, worstAt = v, at
		}
	}
	hot, cold := r.dots(f)
	for _, p := range slices.Concat(hot, cold) {
		low, high = min(low, p.Y), max(high, p.Y)
	}
	c.Y.Log = low > 0 && high/low > logAbove
	c.Y.Span(low)
	c.Y.Span(high)
	c.Y.Settle(true)
	if len(hot)+len(cold) > 0 {
		c.Layers = append(c.Layers, chart.Layer{Name: "each request", Kind: chart.Dots, Tone: chart.Main, Points: hot})
		if len(cold) > 0 {
			name := "cold requests, left out of all figures"
			if r.digest.IncludeCold {
				name = "cold requests, part of all figures"
			}
			c.Layers = append(c.Layers, chart.Layer{Name: name, Kind: chart.Dots, Tone: chart.Bad, Points: cold})
		}
	} else {
		c.Layers = append(c.Layers, chart.Layer{Name: "10th to 90th percentile", Kind: chart.Band, Tone: chart.Main, Points: upper, To: lower})
	}
	c.Layers = append(c.Layers, chart.Layer{Name: "median", Kind: chart.Line, Tone: chart.Main, Points: median},
		chart.Layer{Name: f.tail.words, Kind: chart.Line, Tone: chart.Second, Dashed: true, Points: tail})
	first, last := ends(median)
	most := "highest"
	if f.tail.rank < 50 {
		most = "lowest"
	}
	c.Text = fmt.Sprintf("The median is %s %s at the start and %s %s at the end of the run; the %s %s of any part, %s %s, is %s after the first request.",
		chart.Short(first), f.unit, chart.Short(last), f.unit, most, f.tail.words, chart.Short(worst), f.unit, duration(worstAt))
	return c
}

// ends are the first and the last value of a line.
func ends(line []chart.Point) (first, last float64) {
	first, last = math.NaN(), math.NaN()
	for _, p := range line {
		if math.IsNaN(p.Y) {
			continue
		}
		if math.IsNaN(first) {
			first = p.Y
		}
		last = p.Y
	}
	return first, last
}

// dots are the requests one by one, where they are few enough.
func (r *run) dots(f followed) (hot, cold []chart.Point) {
	for _, p := range r.digest.Points() {
		v := p.Figures[f.figure]
		if math.IsNaN(p.At) || math.IsNaN(v) {
			continue
		}
		if p.Cold {
			cold = append(cold, chart.Point{X: p.At, Y: v})
		} else {
			hot = append(hot, chart.Point{X: p.At, Y: v})
		}
	}
	return hot, cold
}

// distribution is how often which value came, on a log axis, with the summary's percentiles.
func (r *run) distribution(f followed) *chart.Chart {
	s := r.digest.Whole(f.figure)
	bars := s.Bars(most)
	if len(bars) == 0 {
		return nil
	}
	c := &chart.Chart{Name: f.name + "_distribution", Title: f.word + ", distribution",
		X: chart.Axis{Label: f.unit + ", log axis", Log: true, Min: bars[0].From, Max: bars[len(bars)-1].To}, Y: chart.Axis{Label: "% of requests"}}
	c.X.Settle(false)
	l := chart.Layer{Kind: chart.Bars, Tone: chart.Main}
	for _, b := range bars {
		share := 100 * float64(b.Count) / float64(s.Count())
		c.Y.Span(share)
		l.Points, l.To = append(l.Points, chart.Point{X: b.From, Y: share}), append(l.To, b.To)
	}
	c.Y.Span(1.2 * c.Y.Max) // room for the names of the marks
	c.Y.Settle(true)
	c.Layers = append(c.Layers, l)
	said := fmt.Sprintf("%s values from %s to %s %s", readable(float64(s.Count())), chart.Short(s.Min()), chart.Short(s.Max()), f.unit)
	var marks []string
	for _, p := range [...]percentile{{50, "p50", "median"}, f.shoulder, f.tail} {
		v := r.summary.metric(f.tag).number(p.key)
		if math.IsNaN(v) {
			v = s.Quantile(p.rank)
		}
		tone := chart.Quiet
		if p == f.tail {
			tone = chart.Second
		}
		if v > 0 {
			c.Layers = append(c.Layers, chart.Layer{Name: p.key + " " + chart.Short(v), Kind: chart.Mark, Tone: tone, Dashed: true, Points: []chart.Point{{X: v}}})
		}
		marks = append(marks, fmt.Sprintf("%v %% lie at or below %s %s", p.rank, chart.Short(v), f.unit))
	}
	c.Text = said + "; " + strings.Join(marks, ", ") + "."
	if z := s.Zeros(); z > 0 {
		c.Text += fmt.Sprintf(" %d values of 0 have no place on a log axis.", z)
	}
	return c
}

func (r *run) inFlight(bins []digest.Bin) *chart.Chart {
	c := &chart.Chart{Name: "in_flight", Title: "Requests in flight over time", X: clock(bins), Y: chart.Axis{Label: "requests"}}
	line := make([]chart.Point, len(bins))
	low, high := math.Inf(1), 0.
	for i := range bins {
		line[i] = chart.Point{X: middle(&bins[i]), Y: bins[i].InFlight}
		low, high = min(low, bins[i].InFlight), max(high, bins[i].InFlight)
	}
	c.Y.Span(high)
	c.Layers = []chart.Layer{{Kind: chart.Area, Tone: chart.Main, Points: line}, {Name: "average of each part", Kind: chart.Line, Tone: chart.Main, Points: line}}
	c.Text = fmt.Sprintf("Between %s and %s requests in flight, on the average of each part of the run.", chart.Short(low), chart.Short(high))
	if asked := r.asked(); asked > 0 {
		c.Y.Span(asked)
		c.Layers = append(c.Layers, chart.Layer{Name: "asked", Kind: chart.Line, Tone: chart.Quiet, Dashed: true, Points: []chart.Point{{X: 0, Y: asked}, {X: c.X.Max, Y: asked}}})
		c.Text += fmt.Sprintf(" %s were asked for.", chart.Short(asked))
	}
	c.Y.Settle(true)
	return c
}

// asked is the concurrency of a run that has one measured phase; 0 where there are more, or none is set.
func (r *run) asked() float64 {
	if r.summary == nil || r.summary.facts.Prefire == nil {
		return 0
	}
	asked, measured := 0., 0
	for _, p := range r.summary.facts.Prefire.Phases {
		if p.Kind == "profiling" {
			asked, measured = p.Concurrency, measured+1
		}
	}
	if measured != 1 {
		return 0
	}
	return asked
}

func (r *run) rate(bins []digest.Bin) *chart.Chart {
	c := &chart.Chart{Name: "rate", Title: "Requests a second over time", X: clock(bins), Y: chart.Axis{Label: "requests/s"}}
	ok, bad := make([]chart.Point, len(bins)), make([]chart.Point, len(bins))
	high, failed := 0., 0.
	for i := range bins {
		at := middle(&bins[i])
		ok[i], bad[i] = chart.Point{X: at, Y: bins[i].Finished}, chart.Point{X: at, Y: bins[i].Failed}
		high, failed = max(high, bins[i].Finished), max(failed, bins[i].Failed)
	}
	c.Y.Span(max(high, failed))
	c.Y.Settle(true)
	c.Layers = []chart.Layer{{Name: "answered", Kind: chart.Line, Tone: chart.Main, Points: ok}}
	counts := r.digest.Counts()
	c.Text = fmt.Sprintf("%s requests were answered, at most %s a second in a part of the run.", readable(float64(counts.OK)), chart.Short(high))
	if n := counts.Failed + counts.Cancelled + counts.Censored; n > 0 {
		c.Layers = append(c.Layers, chart.Layer{Name: "failed, cancelled or cut", Kind: chart.Line, Tone: chart.Bad, Points: bad})
		c.Text += fmt.Sprintf(" %s were not, at most %s a second.", readable(float64(n)), chart.Short(failed))
	}
	return c
}

func outputRate(bins []digest.Bin) *chart.Chart {
	c := &chart.Chart{Name: "output_rate", Title: "Output tokens a second over time", X: clock(bins), Y: chart.Axis{Label: "tokens/s"}}
	line := make([]chart.Point, len(bins))
	high := 0.
	for i := range bins {
		line[i] = chart.Point{X: middle(&bins[i]), Y: bins[i].Output}
		high = max(high, bins[i].Output)
	}
	if high == 0 {
		return nil
	}
	c.Y.Span(high)
	c.Y.Settle(true)
	c.Layers = []chart.Layer{{Kind: chart.Area, Tone: chart.Main, Points: line}, {Name: "all requests together", Kind: chart.Line, Tone: chart.Main, Points: line}}
	c.Text = fmt.Sprintf("At most %s output tokens a second in a part of the run; the tokens of a request are spread evenly from its first token to its end.", chart.Short(high))
	return c
}

// byInput is TTFT against input length; nil where all inputs are about as long.
func (r *run) byInput() *chart.Chart {
	// With fewer requests a length, its percentiles would say nothing.
	ls := r.digest.Lengths(int(min(max(r.digest.Whole(digest.TTFT).Count()/25, 8), most)))
	if len(ls) < 2 || ls[len(ls)-1].Input < ls[0].Input*sameLength {
		return nil
	}
	c := &chart.Chart{Name: "ttft_by_input", Title: "Time to first token against input length", X: chart.Axis{Label: "input tokens"}, Y: chart.Axis{Label: "ms"}}
	var p50, p90, p99 []chart.Point
	var p10 []float64
	for i := range ls {
		s := &ls[i].TTFT
		at := func(p float64) chart.Point { return chart.Point{X: ls[i].Input, Y: s.Quantile(p)} }
		if s.Count() < leastAtLength && r.digest.Whole(digest.TTFT).Count() > 10*leastAtLength {
			continue
		}
		p50, p90, p99, p10 = append(p50, at(50)), append(p90, at(90)), append(p99, at(99)), append(p10, s.Quantile(10))
	}
	var hot, cold []chart.Point
	for _, p := range r.digest.Points() {
		if v := p.Figures[digest.TTFT]; p.Input > 0 && v > 0 {
			if p.Cold {
				cold = append(cold, chart.Point{X: p.Input, Y: v})
			} else {
				hot = append(hot, chart.Point{X: p.Input, Y: v})
			}
		}
	}
	lowX, highX := ls[0].Input, ls[len(ls)-1].Input
	lowY, highY := math.Inf(1), 0.
	widen := func(x, y float64) {
		lowX, highX, lowY, highY = min(lowX, x), max(highX, x), min(lowY, y), max(highY, y)
	}
	for _, p := range slices.Concat(hot, cold) {
		widen(p.X, p.Y)
	}
	for i := range ls {
		widen(ls[i].Input, ls[i].TTFT.Quantile(1))
		widen(ls[i].Input, ls[i].TTFT.Quantile(99))
	}
	c.X.Log, c.Y.Log = lowX > 0 && highX/lowX > 4, lowY > 0 && highY/lowY > 4
	c.X.Span(lowX)
	c.X.Span(highX)
	c.X.Settle(false)
	c.Y.Span(lowY)
	c.Y.Span(highY)
	c.Y.Settle(true)
	if len(hot)+len(cold) > 0 {
		c.Layers = append(c.Layers, chart.Layer{Name: "each request", Kind: chart.Dots, Tone: chart.Main, Points: hot})
		if len(cold) > 0 {
			c.Layers = append(c.Layers, chart.Layer{Name: "cold requests", Kind: chart.Dots, Tone: chart.Bad, Points: cold})
		}
	} else {
		c.Layers = append(c.Layers, chart.Layer{Name: "10th to 90th percentile", Kind: chart.Band, Tone: chart.Main, Points: p90, To: p10},
			chart.Layer{Name: "99th percentile", Kind: chart.Line, Tone: chart.Second, Dashed: true, Points: p99})
	}
	c.Layers = append(c.Layers, chart.Layer{Name: "median of about the same length", Kind: chart.Line, Tone: chart.Second, Points: p50})
	first, last := ends(p50)
	if len(p50) > 1 {
		from, to := p50[0].X, p50[len(p50)-1].X
		c.Text = fmt.Sprintf("From about %s to about %s input tokens (%s times as many) the median goes from %s to %s ms (%s times).",
			chart.Short(from), chart.Short(to), chart.Short(to/from), chart.Short(first), chart.Short(last), chart.Short(last/first))
	} else {
		c.Text = "Too few requests of about one length for a median to follow."
	}
	return c
}

// duration writes seconds as people say them.
func duration(s float64) string {
	switch {
	case s < 60:
		return chart.Short(math.Round(s*10)/10) + " s"
	case s < 3600:
		return fmt.Sprintf("%d min %02d s", int(s)/60, int(s)%60)
	}
	return fmt.Sprintf("%d h %02d min", int(s)/3600, int(s)/60%60)
}
