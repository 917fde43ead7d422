package servermetrics

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"strconv"
	"testing"

	"prefire/metrics"
)

type reading struct {
	At      int64
	Sum     float64
	Count   float64
	Buckets []float64
}

type golden struct {
	Bounds     []string
	Histograms map[string]struct {
		Readings []reading
		Want     map[string]float64
		Buckets  []float64
	}
	Gauge, Counter struct {
		Values []float64
		Want   map[string]float64
	}
	Units [][3]string
}

func readGolden(t *testing.T) (g golden) {
	t.Helper()
	b, err := os.ReadFile("testdata/estimates.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &g); err != nil {
		t.Fatal(err)
	}
	return g
}

// near holds values to aiperf's, which it makes with sums in another order.
func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9*max(1, math.Abs(want)) {
		t.Errorf("%s is %v, aiperf's %v", what, got, want)
	}
}

// phaseOf is a report of one series, whose first reading is from before the phase.
func phaseOf(t *testing.T, list []Sample, at []int64) Series {
	t.Helper()
	b := NewBook("u")
	b.Add(at[0], 1, list[:1], false, Edge)
	b.Begin(0)
	for i := 1; i < len(list); i++ {
		b.Add(at[i], 1, list[i:i+1], false, Tick)
	}
	b.End(0)
	r, ok := b.Report([]int{0}, false)
	if !ok || len(r.Metrics) != 1 || len(r.Metrics[0].Series) != 1 {
		t.Fatalf("%+v", r)
	}
	return r.Metrics[0].Series[0]
}

// The golden values are aiperf 0.13.0's own, of the same readings (testdata/estimates.py).
func TestHistogramsAreAiperfs(t *testing.T) {
	g := readGolden(t)
	if len(g.Histograms) < 13 {
		t.Fatalf("%d histograms", len(g.Histograms))
	}
	for name, c := range g.Histograms {
		var list []Sample
		var at []int64
		for _, r := range c.Readings {
			d := &Distribution{Sum: r.Sum, Count: r.Count}
			for i, n := range r.Buckets {
				bound, err := strconv.ParseFloat(g.Bounds[i], 64)
				if err != nil {
					t.Fatal(err)
				}
				d.Buckets = append(d.Buckets, Bucket{g.Bounds[i], bound, n})
			}
			list, at = append(list, Sample{Name: "h", Kind: Histogram, Hist: d, key: "h"}), append(at, r.At)
		}
		h := phaseOf(t, list, at).Histogram
		got := map[string]float64{"count": float64(h.Count)}
		if h.HasCount {
			got["sum"], got["avg"] = h.Sum, h.Avg
		}
		if h.HasRate {
			got["count_rate"], got["sum_rate"] = h.CountRate, h.SumRate
		}
		for i, v := range h.Estimates {
			got["p"+strconv.FormatFloat(metrics.Percentiles[i], 'f', -1, 64)+"_estimate"] = v
		}
		for key, want := range c.Want {
			v, ok := got[key]
			if !ok {
				t.Errorf("%s: no %s", name, key)
			}
			near(t, name+": "+key, v, want)
			delete(got, key)
		}
		if len(got) > 0 {
			t.Errorf("%s: beside aiperf's: %v", name, got)
		}
		var buckets []float64
		for _, b := range h.Buckets {
			buckets = append(buckets, b.Count)
		}
		if !slices.Equal(buckets, c.Buckets) {
			t.Errorf("%s: buckets %v, aiperf's %v", name, buckets, c.Buckets)
		}
	}
}

func TestGaugesAndCountersAreAiperfs(t *testing.T) {
	g := readGolden(t)
	var gauges, counters []Sample
	var at []int64
	for i := range g.Gauge.Values {
		gauges = append(gauges, Sample{Name: "g", Kind: Gauge, Value: g.Gauge.Values[i], key: "g"})
		counters = append(counters, Sample{Name: "c", Kind: Counter, Value: g.Counter.Values[i], key: "c"})
		at = append(at, 1e9+int64(i)*333e6)
	}
	s := phaseOf(t, gauges, at).Gauge
	for key, v := range map[string]float64{"avg": s.Avg, "min": s.Min, "max": s.Max, "std": s.Std} {
		near(t, key, v, g.Gauge.Want[key])
	}
	for i, p := range metrics.Percentiles {
		key := "p" + strconv.FormatFloat(p, 'f', -1, 64)
		near(t, key, s.P[i], g.Gauge.Want[key])
	}
	c := phaseOf(t, counters, at).Counter
	near(t, "total", c.Total, g.Counter.Want["total"])
	near(t, "rate", c.Rate, g.Counter.Want["rate"])
	for _, u := range g.Units {
		if got := unitOf(u[0], u[1]); got != u[2] {
			t.Errorf("the unit of %s (%s) is %q, aiperf's %q", u[0], u[1], got, u[2])
		}
	}
}
