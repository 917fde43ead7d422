package procedure

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"prefire/metrics"
)

// Clause is one limit that a load must keep.
type Clause struct {
	Text string // as it was given
	Tag  string // a metric with one value a request, or errorRate
	// Percentile is its rank, 0 = the average.
	Percentile float64
	// AtLeast says that the figure must lie above the limit, not below it.
	AtLeast bool
	Limit   float64 // in the metric's Display unit; a ratio for errorRate
	Unit    metrics.Unit
}

const (
	errorRate = "error_rate"
	// defaultErrorRate is the limit on failures where none is given: errors and refusals count against a load.
	defaultErrorRate = "error_rate<1%"
)

// ErrorRate reports whether the limit is on the share of the requests that fail.
func (c *Clause) ErrorRate() bool { return c.Tag == errorRate }

// aliases are the short names of metrics in a limit.
var aliases = map[string]string{
	"ttft": "time_to_first_token", "ttst": "time_to_second_token", "itl": "inter_token_latency", "tpot": "inter_token_latency",
	"latency": "request_latency", "e2e": "request_latency",
}

// SLOHelp describes what ParseSLO reads.
const SLOHelp = `METRIC_STATISTIC<LIMIT, several joined by commas: 'ttft_p99<500ms,itl_avg<30ms,error_rate<1%'. METRIC is ttft, ttst, itl, tpot (= itl), latency,
e2e (= latency) or the name of any metric that a record has once; STATISTIC is avg or a percentile (p50, p99.9); a time has the unit us, ms or
s (none = ms); > asks for more, not less: 'output_token_throughput_per_user_p5>20'.`

// ParseSLO reads limits, and adds one on failures where there is none. An error names the part that it is about.
func ParseSLO(text string) ([]Clause, error) {
	var out []Clause
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		c, err := parseClause(part)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", part, err)
		}
		if slices.ContainsFunc(out, func(o Clause) bool {
			return o.Tag == c.Tag && o.Percentile == c.Percentile && o.AtLeast == c.AtLeast
		}) {
			return nil, fmt.Errorf("%q: this figure has a limit already", part)
		}
		out = append(out, c)
	}
	if len(out) == 0 && strings.TrimSpace(text) != "" {
		return nil, fmt.Errorf("%q holds no limit", text)
	}
	if !slices.ContainsFunc(out, func(c Clause) bool { return c.Tag == errorRate }) {
		c, err := parseClause(defaultErrorRate)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

func parseClause(text string) (Clause, error) {
	at := strings.IndexAny(text, "<>")
	if at < 0 {
		return Clause{}, fmt.Errorf("it has neither < nor >; a limit looks like ttft_p99<500ms")
	}
	name, limit := strings.TrimSpace(text[:at]), strings.TrimSpace(strings.TrimPrefix(text[at+1:], "="))
	c := Clause{Text: strings.ReplaceAll(text, " ", ""), AtLeast: text[at] == '>'}
	if name == errorRate {
		c.Tag, c.Unit = errorRate, metrics.Ratio
		if c.AtLeast {
			return c, fmt.Errorf("an error rate can have an upper limit alone")
		}
	} else if err := c.named(name); err != nil {
		return c, err
	}
	return c, c.limited(limit)
}

// named reads METRIC_STATISTIC.
func (c *Clause) named(name string) error {
	at := strings.LastIndexByte(name, '_')
	if at < 0 {
		return fmt.Errorf("%q names no statistic: a limit is on an average or a percentile, as %s_avg or %s_p99", name, name, name)
	}
	metric, stat := name[:at], name[at+1:]
	if tag, ok := aliases[metric]; ok {
		metric = tag
	}
	i := slices.IndexFunc(metrics.Table(), func(d *metrics.Def) bool { return d.Tag == metric })
	var def *metrics.Def
	if i >= 0 {
		def = metrics.Table()[i]
	}
	switch {
	case def == nil:
		return fmt.Errorf("%q is no metric; known are error_rate, ttft, ttst, itl, latency, and the names in profile_export.jsonl, each with _avg or _pNN", metric)
	case def.Shape != metrics.PerRecord || def.Has(metrics.ErrorOnly) || def.Has(metrics.NotInRecord):
		return fmt.Errorf("%s has not one value a request, so that a limit on it cannot be judged from the requests", metric)
	}
	c.Tag, c.Unit = def.Tag, def.Display
	if stat == "avg" {
		return nil
	}
	rank, ok := strings.CutPrefix(stat, "p")
	p, err := strconv.ParseFloat(rank, 64)
	if !ok || err != nil || !(p > 0 && p < 100) {
		return fmt.Errorf("%q is no statistic: a limit is on avg or a percentile, p1 to p99.9", stat)
	}
	c.Percentile = p
	return nil
}

// limited reads the limit with its unit.
func (c *Clause) limited(text string) error {
	number := strings.TrimRight(text, "abcdefghijklmnopqrstuvwxyzµ%/ ")
	unit := strings.TrimSpace(text[len(number):])
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || math.IsInf(v, 0) || math.IsNaN(v) || v < 0 {
		return fmt.Errorf("%q is no limit: a number from 0 with a unit is", text)
	}
	scales := map[string]float64{"": 1}
	switch c.Unit {
	case metrics.Milliseconds:
		scales = map[string]float64{"": 1, "us": 1e-3, "µs": 1e-3, "ms": 1, "s": 1e3, "sec": 1e3}
	case metrics.Ratio:
		scales = map[string]float64{"": 1, "%": 0.01}
	}
	scale, ok := scales[unit]
	if !ok {
		return fmt.Errorf("%q is no unit of it; its values are in %s", unit, c.Unit)
	}
	c.Limit = v * scale
	if c.Tag == errorRate && c.Limit >= 1 {
		return fmt.Errorf("an error rate is below 100 %%; write %s%% or a ratio", number)
	}
	return nil
}
