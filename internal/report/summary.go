package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"prefire/metrics"
)

// summary is a run's profile_export_aiperf.json, of aiperf or of prefire.
type summary struct {
	metrics []metric // those known in the table's order, then the others by their tags
	facts   struct {
		Version    string          `json:"aiperf_version"`
		Config     json.RawMessage `json:"input_config"`
		Cancelled  bool            `json:"was_cancelled"`
		Complete   *bool           `json:"is_complete"`
		Incomplete string          `json:"incomplete_reason"`
		Start      string          `json:"start_time"`
		End        string          `json:"end_time"`
		Errors     []errorCount    `json:"error_summary"`
		Info       runInfo         `json:"run_info"`
		Prefire    *ownFacts       `json:"prefire"`
	}
}

type runInfo struct {
	Command string `json:"cli_command"`
}

type errorCount struct {
	Details struct {
		Code    json.Number `json:"code"`
		Type    string      `json:"type"`
		Message string      `json:"message"`
	} `json:"error_details"`
	Count json.Number `json:"count"`
}

// ownFacts is what prefire says under its own key, as far as the report shows it.
type ownFacts struct {
	Version string      `json:"version"`
	Seed    json.Number `json:"seed"`
	Command string      `json:"command"`
	Counts  struct {
		Sent      json.Number `json:"sent"`
		OK        json.Number `json:"ok"`
		Failed    json.Number `json:"failed"`
		Cancelled json.Number `json:"cancelled"`
		Censored  json.Number `json:"censored"`
	} `json:"counts"`
	Phases []struct {
		Kind        string  `json:"kind"`
		Concurrency float64 `json:"concurrency"`
	} `json:"phases"`
	Cold struct {
		Count    json.Number                `json:"count"`
		Of       json.Number                `json:"of"`
		Included bool                       `json:"included"`
		Severity string                     `json:"severity"`
		Change   json.Number                `json:"change_percent"`
		Reasons  map[string]json.Number     `json:"reasons"`
		With     map[string]json.RawMessage `json:"metrics_with_cold"`
	} `json:"cold"`
	Prewarm struct {
		On      *bool `json:"on"` // nil: the file does not say
		Targets []struct {
			URL    string `json:"url"`
			Proven bool   `json:"proven_warm"`
		} `json:"targets"`
	} `json:"prewarm"`
	Client struct {
		Transport string `json:"transport"`
		Verdicts  []struct {
			Claim string `json:"claim"`
			Good  bool   `json:"good"`
			Why   string `json:"why"`
		} `json:"verdicts"`
	} `json:"client"`
}

// metric is one metric's values as the summary writes them.
type metric struct {
	tag, header, unit string
	values            map[string]json.Number
}

// readSummary reads a summary; what it does not know it leaves aside.
func readSummary(data []byte) (*summary, error) {
	s := new(summary)
	top := map[string]json.RawMessage{}
	if err := json.Unmarshal(data, &top); err != nil {
		return nil, fmt.Errorf("it is no JSON object: %w", err)
	}
	if err := json.Unmarshal(data, &s.facts); err != nil {
		return nil, fmt.Errorf("it is no summary of a run: %w", err)
	}
	s.metrics = readMetrics(top)
	return s, nil
}

// readMetrics takes what has a unit and an average out of a JSON object.
func readMetrics(top map[string]json.RawMessage) []metric {
	table := metrics.Table()
	rank := make(map[string]int, len(table))
	for i, d := range table {
		rank[d.Tag] = i
	}
	place := func(tag string) int {
		if i, known := rank[tag]; known {
			return i
		}
		return len(table)
	}
	var out []metric
	for tag, raw := range top {
		m, ok := readMetric(tag, raw)
		if !ok {
			continue
		}
		if i := place(tag); i < len(table) {
			m.header = table[i].Header
		}
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b metric) int {
		return cmp.Or(cmp.Compare(place(a.tag), place(b.tag)), strings.Compare(a.tag, b.tag))
	})
	return out
}

func readMetric(tag string, raw json.RawMessage) (metric, bool) {
	if !bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) {
		return metric{}, false
	}
	fields := map[string]json.RawMessage{}
	if json.Unmarshal(raw, &fields) != nil || fields["unit"] == nil || fields["avg"] == nil {
		return metric{}, false
	}
	m := metric{tag: tag, header: tag, values: map[string]json.Number{}}
	if json.Unmarshal(fields["unit"], &m.unit) != nil {
		return metric{}, false
	}
	for key, v := range fields {
		var n json.Number
		if key != "unit" && json.Unmarshal(v, &n) == nil && n != "" {
			m.values[key] = n
		}
	}
	return m, m.values["avg"] != ""
}

// metric is one of the summary's metrics; nil where it has none of that tag.
func (s *summary) metric(tag string) *metric {
	if s == nil {
		return nil
	}
	return metricOf(s.metrics, tag)
}

func metricOf(list []metric, tag string) *metric {
	for i := range list {
		if list[i].tag == tag {
			return &list[i]
		}
	}
	return nil
}

// number is one value of a metric; NaN where there is none, as where m is nil.
func (m *metric) number(key string) float64 {
	if m == nil {
		return math.NaN()
	}
	v, err := m.values[key].Float64()
	if err != nil {
		return math.NaN()
	}
	return v
}

// figure is a number of the page with the text that it comes from.
type figure struct {
	Of    string // where in the file it stands, such as time_to_first_token.p99
	Exact string // as it is written there
	Shown string
}

// figure is one value of a metric for the page; the zero figure where there is none.
func (m *metric) figure(key string) figure {
	if m == nil || m.values[key] == "" {
		return figure{}
	}
	return newFigure(m.tag+"."+key, m.values[key])
}

func newFigure(of string, n json.Number) figure {
	v, err := n.Float64()
	if err != nil {
		return figure{}
	}
	return figure{of, n.String(), readable(v)}
}

// readable writes a number for people: whole ones whole, small ones with 3 digits, all others with 2 places, as aiperf's tables have them.
func readable(v float64) string {
	switch {
	case v == math.Trunc(v) && math.Abs(v) < 1e15:
		return grouped(fmt.Sprintf("%.0f", v))
	case math.Abs(v) < 0.1:
		return fmt.Sprintf("%.3g", v)
	}
	return grouped(fmt.Sprintf("%.2f", v))
}

// grouped sets thousands apart.
func grouped(s string) string {
	sign := ""
	if strings.HasPrefix(s, "-") {
		sign, s = "-", s[1:]
	}
	whole, rest, point := strings.Cut(s, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if point {
		whole += "." + rest
	}
	return sign + whole
}
