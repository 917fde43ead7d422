package servermetrics

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	const text = `# HELP a_total How many.
# TYPE a_total counter
a_total{model="m \"x\"",b="1"} 7
# HELP a_created How many.
# TYPE a_created gauge
a_created 1.7e+09
# TYPE g gauge
g 2.5
g2 3
# TYPE bad gauge
bad NaN
# TYPE s summary
s_sum 1
s_count 2
# TYPE process_uptime_seconds gauge
process_uptime_seconds 5
# HELP h Seconds.
# TYPE h histogram
h_bucket{le="0.5"} 1
h_bucket{le="1.0"} 3
h_bucket{le="+Inf"} 4
h_sum 3.5
h_count 4
`
	got, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, s := range got {
		line := fmt.Sprintf("%s %s %q %s %v", s.Name, s.Kind, s.Help, LabelText(s.Labels), s.Value)
		if s.Hist != nil {
			line += fmt.Sprintf(" %v", *s.Hist)
		}
		lines = append(lines, line)
	}
	want := []string{
		`a counter "How many." {'b': '1', 'model': 'm "x"'} 7`, `g gauge ""  2.5`, `g2 unknown ""  3`,
		`h histogram "Seconds."  0 {3.5 4 [{0.5 0.5 1} {1.0 1 3} {+Inf +Inf 4}]}`,
	}
	if !slices.Equal(lines, want) {
		t.Errorf("got  %q\nwant %q", lines, want)
	}
	for _, bad := range []string{"<html>", "a{ 1\n", "a 1 2 3\n"} {
		if _, err := Parse([]byte(bad)); err == nil || !strings.HasPrefix(err.Error(), "it is not in Prometheus's text format: ") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("# TYPE a_total counter\na_total{b=\"c\"} 1\n"))
	f.Add([]byte("# TYPE h histogram\nh_bucket{le=\"1\"} 2\nh_bucket{le=\"+Inf\"} 3\nh_sum 1\nh_count 3\n"))
	f.Fuzz(func(t *testing.T, body []byte) {
		list, err := Parse(body)
		if err != nil {
			return
		}
		b := NewBook("u")
		b.Begin(0)
		b.Add(1, 1, list, false, Tick)
		b.Add(2, 1, list, true, Tick)
		b.End(0)
		r, _ := b.Report([]int{0}, false)
		seen := map[string]bool{}
		for _, m := range r.Metrics {
			for _, s := range m.Series {
				key := m.Name + LabelText(s.Labels)
				if seen[key] {
					t.Errorf("%s is there twice", key)
				}
				seen[key] = true
				if s.Counter != nil && s.Counter.Total != 0 {
					t.Errorf("%s rose by %v between two readings of one text", key, s.Counter.Total)
				}
			}
		}
	})
}

func sample(kind Kind, v float64) []Sample {
	return []Sample{{Name: "x", Kind: kind, Value: v, key: "x"}}
}

func TestACounterThatBeginsAnewRisesOn(t *testing.T) {
	b := NewBook("u")
	b.Add(0, 1, sample(Counter, 100), false, Edge)
	b.Begin(0)
	for i, v := range []float64{150, 20, 30} { // the server began anew between the first and the second
		b.Add(int64(i+1)*1e9, 1, sample(Counter, v), false, Tick)
	}
	b.End(0)
	r, _ := b.Report([]int{0}, false)
	if c := r.Metrics[0].Series[0].Counter; c.Total != 80 || c.Rate != 80./3 {
		t.Errorf("%+v", c)
	}
}

func TestASeriesFirstSeenInAPhaseCountsFromThere(t *testing.T) {
	b := NewBook("u")
	b.Begin(0)
	b.Add(1e9, 1, sample(Counter, 100), false, Tick)
	b.Add(2e9, 1, sample(Counter, 130), false, Edge)
	b.End(0)
	r, _ := b.Report([]int{0}, false)
	if c := r.Metrics[0].Series[0].Counter; c.Total != 30 || c.Rate != 30 {
		t.Errorf("%+v", c)
	}
}

func TestBucketsThatFallAreWithheld(t *testing.T) {
	h := func(sum, count, low, all float64) []Sample {
		return []Sample{{Name: "x", Kind: Histogram, key: "x", Hist: &Distribution{Sum: sum, Count: count, Buckets: []Bucket{{"1", 1, low}, {"+Inf", 2, all}}}}}
	}
	b := NewBook("u")
	b.Add(0, 1, h(5, 10, 6, 10), false, Edge)
	b.Begin(0)
	b.Add(1e9, 1, h(9, 14, 5, 14), false, Tick)
	b.End(0)
	r, _ := b.Report([]int{0}, false)
	if s := r.Metrics[0].Series[0].Histogram; s.Count != 4 || s.Sum != 4 || s.Buckets != nil || s.Estimates != nil {
		t.Errorf("%+v", s)
	}
}

func TestGaugesAreSampledOnTheClock(t *testing.T) {
	read := func(ticks ...float64) *GaugeStats {
		b := NewBook("u")
		b.Add(0, 1, sample(Gauge, 0), false, Edge)
		b.Begin(0)
		for i, v := range ticks {
			b.Add(int64(i+1), 1, sample(Gauge, v), false, Tick)
		}
		b.Add(100, 1, sample(Gauge, 1), false, Edge)
		b.End(0)
		b.Add(101, 1, sample(Gauge, 50), false, Late)
		r, _ := b.Report([]int{0}, false)
		return r.Metrics[0].Series[0].Gauge
	}
	if g := read(4, 6); g.Avg != 5 || g.Min != 4 || g.Max != 6 {
		t.Errorf("%+v", g)
	}
	// A phase between two readings of the clock has those at its edges alone.
	if g := read(); g.Avg != 1 || g.Std != 0 {
		t.Errorf("%+v", g)
	}
}

// Phases of one kind are summed up, what lies between them left out.
func TestPhasesAreSummedUp(t *testing.T) {
	b := NewBook("u")
	v, at := 0.0, int64(0)
	step := func(up float64, role Role) {
		v, at = v+up, at+1e9
		b.Add(at, 2e6, sample(Counter, v), false, role)
	}
	step(5, Edge)
	b.Begin(0)
	step(10, Edge)
	b.End(0)
	step(100, Tick) // between the phases
	b.Begin(1)
	step(20, Tick)
	step(30, Edge)
	b.End(1)
	r, _ := b.Report([]int{0, 1}, true)
	c := r.Metrics[0].Series[0].Counter
	if c.Total != 60 || c.Rate != 20 || r.Info.Fetches != 5 || r.Info.FetchLatency() != 2e6 {
		t.Errorf("%+v, %+v", c, r.Info)
	}
	if mean, median, ok := r.Info.UpdateInterval(); !ok || mean != 1e9 || median != 1e9 {
		t.Errorf("updates every %v, %v", mean, median)
	}
	// A report changes nothing in the book.
	again, _ := b.Report([]int{0, 1}, true)
	if c := again.Metrics[0].Series[0].Counter; c.Total != 60 {
		t.Errorf("a second report: %+v", c)
	}
	if _, ok := b.Report([]int{7}, false); ok {
		t.Error("a phase that was not has metrics")
	}
}

func TestMergeKeepsSeriesInOrder(t *testing.T) {
	series := func(url, label string) Series {
		return Series{URL: url, Labels: []Label{{"l", label}}, Counter: &CounterStats{}}
	}
	got := Merge([]Report{
		{URL: "b", Metrics: []Metric{{Name: "x", Kind: Counter, Series: []Series{series("b", "1")}}}},
		{URL: "a", Metrics: []Metric{{Name: "w", Kind: Counter, Series: []Series{series("a", "1")}}, {Name: "x", Kind: Counter, Series: []Series{series("a", "2"), series("a", "1")}}}},
		{URL: "c", Metrics: []Metric{{Name: "x", Kind: Gauge, Series: []Series{{URL: "c"}}}}}, // another kind under the name
	})
	var lines []string
	for _, m := range got {
		for _, s := range m.Series {
			lines = append(lines, m.Name+" "+s.URL+" "+LabelText(s.Labels))
		}
	}
	if want := []string{"w a {'l': '1'}", "x a {'l': '1'}", "x a {'l': '2'}", "x b {'l': '1'}"}; !slices.Equal(lines, want) {
		t.Errorf("%q", lines)
	}
}

func BenchmarkReading(b *testing.B) {
	var text strings.Builder
	for i := range 25 {
		fmt.Fprintf(&text, "# TYPE h%d histogram\n", i)
		for k := range 20 {
			fmt.Fprintf(&text, "h%d_bucket{engine=\"0\",le=\"%d.0\",model_name=\"m\"} %d.0\n", i, k, k)
		}
		fmt.Fprintf(&text, "h%d_bucket{engine=\"0\",le=\"+Inf\",model_name=\"m\"} 20.0\nh%d_sum{engine=\"0\",model_name=\"m\"} 1.5\nh%d_count{engine=\"0\",model_name=\"m\"} 20.0\n", i, i, i)
	}
	body := []byte(text.String())
	book := NewBook("u")
	book.Begin(0)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		list, err := Parse(body)
		if err != nil {
			b.Fatal(err)
		}
		book.Add(1, 1, list, false, Tick)
	}
}
