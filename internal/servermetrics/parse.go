// Package servermetrics turns readings of a server's /metrics (Prometheus text) into what aiperf 0.13.0 says of them for each phase of a run:
// gauges by their distribution, counters by their rise, histograms by theirs, with percentiles estimated from the buckets. It opens nothing.
package servermetrics

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Kind is what a metric is, by the name that files have for it.
type Kind string

const (
	Gauge     Kind = "gauge"
	Counter   Kind = "counter"
	Histogram Kind = "histogram"
	Unknown   Kind = "unknown" // taken as a gauge
)

// Label is one label of a series.
type Label struct{ Name, Value string }

// Bucket is one bucket of a histogram: how many values were at most Bound, whose spelling by the server is Le.
type Bucket struct {
	Le    string
	Bound float64
	Count float64
}

// Distribution is a histogram as it stands since the server's start.
type Distribution struct {
	Sum, Count float64
	Buckets    []Bucket // by bound
}

// Sample is one series in one reading.
type Sample struct {
	Name   string // a counter's without _total
	Kind   Kind
	Help   string
	Labels []Label // by name
	Value  float64
	Hist   *Distribution // of a histogram
	key    string
	place  int // among the series of its name
}

// Parse reads the text format. What says nothing of a run is left out: creation times, up times, summaries, which are over the server's whole
// life, and values that are no number.
func Parse(body []byte) ([]Sample, error) {
	p := expfmt.NewTextParser(model.UTF8Validation)
	families, err := p.TextToMetricFamilies(bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("it is not in Prometheus's text format: %w", err)
	}
	spelling := bounds(body)
	var out []Sample
	for _, f := range families {
		s := Sample{Name: f.GetName(), Help: f.GetHelp()}
		switch f.GetType() {
		case dto.MetricType_GAUGE:
			s.Kind = Gauge
		case dto.MetricType_COUNTER:
			s.Kind, s.Name = Counter, strings.TrimSuffix(s.Name, "_total")
		case dto.MetricType_HISTOGRAM:
			s.Kind = Histogram
		case dto.MetricType_UNTYPED:
			s.Kind = Unknown
		default:
			continue
		}
		if strings.HasSuffix(s.Name, "_created") || strings.HasSuffix(s.Name, "_uptime") || strings.Contains(s.Name, "_uptime_") {
			continue
		}
		for i, m := range f.GetMetric() {
			s.place = i
			if one := s; one.take(m, spelling) {
				out = append(out, one)
			}
		}
	}
	slices.SortFunc(out, func(a, b Sample) int { return cmp.Compare(a.key, b.key) })
	// Of two samples with the same labels the last counts.
	return slices.CompactFunc(out, func(a, b Sample) bool { return a.key == b.key }), nil
}

// take reads one series; false where it has no number.
func (s *Sample) take(m *dto.Metric, spelling map[float64]string) bool {
	for _, l := range m.GetLabel() {
		s.Labels = append(s.Labels, Label{l.GetName(), l.GetValue()})
	}
	slices.SortFunc(s.Labels, func(a, b Label) int { return cmp.Compare(a.Name, b.Name) })
	s.key = s.Name + "\x00" + LabelText(s.Labels)
	switch s.Kind {
	case Gauge:
		s.Value = m.GetGauge().GetValue()
	case Counter:
		s.Value = m.GetCounter().GetValue()
	case Unknown:
		s.Value = m.GetUntyped().GetValue()
	case Histogram:
		h := m.GetHistogram()
		d := &Distribution{Sum: h.GetSampleSum(), Count: float64(h.GetSampleCount())}
		for _, b := range h.GetBucket() {
			d.Buckets = append(d.Buckets, Bucket{spell(b.GetUpperBound(), spelling), b.GetUpperBound(), float64(b.GetCumulativeCount())})
		}
		slices.SortFunc(d.Buckets, func(a, b Bucket) int { return cmp.Compare(a.Bound, b.Bound) })
		s.Hist = d
		return finite(d.Sum)
	}
	return finite(s.Value)
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// LabelText is labels as Python prints a dict of them, by which files sort series.
func LabelText(labels []Label) string {
	if len(labels) == 0 {
		return ""
	}
	var b strings.Builder
	link := "{"
	for _, l := range labels {
		b.WriteString(link + quoted(l.Name) + ": " + quoted(l.Value))
		link = ", "
	}
	return b.String() + "}"
}

func quoted(s string) string {
	if !strings.ContainsAny(s, "\\'\n\r\t") {
		return "'" + s + "'"
	}
	s = strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`, "\t", `\t`).Replace(s)
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		return `"` + s + `"`
	}
	return "'" + strings.ReplaceAll(s, "'", `\'`) + "'"
}

// bounds are the spellings of all buckets' bounds in a reading: the parser gives numbers, and files have what the server wrote.
func bounds(body []byte) map[float64]string {
	out := map[float64]string{}
	mark := []byte(`le="`)
	for {
		at := bytes.Index(body, mark)
		if at < 0 {
			return out
		}
		body = body[at+len(mark):]
		end := bytes.IndexByte(body, '"')
		if end < 0 {
			return out
		}
		if v, err := strconv.ParseFloat(string(body[:end]), 64); err == nil && out[v] == "" {
			out[v] = string(body[:end])
		}
		body = body[end:]
	}
}

func spell(bound float64, spelling map[float64]string) string {
	switch s := spelling[bound]; {
	case s != "":
		return s
	case math.IsInf(bound, 1):
		return "+Inf"
	}
	return strconv.FormatFloat(bound, 'g', -1, 64)
}
