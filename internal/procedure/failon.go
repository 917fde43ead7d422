package procedure

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// FailOn is a change that must not be.
type FailOn struct {
	Text       string
	Tag        string
	Stat       string  // avg, p50, p99.9
	Percentile float64 // 0 = avg
	Above      bool    // the change must not be above Limit, else not below it
	Limit      float64 // in %, of an error rate in percentage points
}

var failOn = regexp.MustCompile(`^([a-z0-9_]+)(?:\.([a-z0-9.]+))?\s*([<>])\s*([+-]?[0-9]+(?:\.[0-9]+)?)\s*%$`)

// ParseFailOn reads METRIC.STATISTIC>+N%, or <-N%.
func ParseFailOn(text string) (FailOn, error) {
	m := failOn.FindStringSubmatch(strings.TrimSpace(text))
	if m == nil {
		return FailOn{}, fmt.Errorf("%q is no limit on a change; one looks like time_to_first_token.p99>+5%% or request_throughput<-3%%", text)
	}
	f := FailOn{Text: m[0], Tag: m[1], Stat: m[2], Above: m[3] == ">"}
	if f.Stat == "" {
		f.Stat = "avg"
	}
	if tag, ok := aliases[f.Tag]; ok {
		f.Tag = tag
	}
	known := append(CompareTags(), tagRequests, tagOutTokens, errorRate)
	known = slices.DeleteFunc(known, func(tag string) bool { return tag == tagInput || tag == tagOutput })
	if !slices.Contains(known, f.Tag) {
		return f, fmt.Errorf("%q: %q is not compared; these are: %s", text, f.Tag, strings.Join(known, ", "))
	}
	if f.Stat != "avg" {
		rank, ok := strings.CutPrefix(f.Stat, "p")
		p, err := strconv.ParseFloat(rank, 64)
		switch {
		case !ok || err != nil || !(p > 0 && p < 100):
			return f, fmt.Errorf("%q: %q is no statistic; avg and percentiles (p50, p99.9) are", text, f.Stat)
		case f.Tag == tagRequests || f.Tag == tagOutTokens || f.Tag == errorRate:
			return f, fmt.Errorf("%q: %s has an average alone", text, f.Tag)
		}
		f.Percentile, f.Stat = p, percentileName(p)
	}
	limit, err := strconv.ParseFloat(m[4], 64)
	if err != nil {
		return f, fmt.Errorf("%q: %w", text, err)
	}
	f.Limit = limit
	return f, nil
}

// Broken reports whether a change is beyond the limit and, by its interval, not by chance; why is given where that cannot be told.
func (f *FailOn) Broken(cs []Compared) (broken bool, why string) {
	i := slices.IndexFunc(cs, func(c Compared) bool { return c.Tag == f.Tag })
	if i < 0 {
		return false, "neither run has the metric"
	}
	if cs[i].Outcome == NotComparable {
		return false, cs[i].Why
	}
	d := cs[i].find(f.Stat)
	switch {
	case d == nil:
		return false, "the figure is 0 in a run"
	case f.Above:
		return d.Change > f.Limit && d.Low > 0, ""
	}
	return d.Change < f.Limit && d.High < 0, ""
}
