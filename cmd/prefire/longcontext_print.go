package main

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"prefire/internal/export"
	"prefire/internal/procedure"
	"prefire/metrics"
)

// table prints one row for each input length, its figures beside those of the shortest.
func (s *scan) table(v procedure.LongContext) error {
	w := tabwriter.NewWriter(s.stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	heads := [2]string{"ISL\treached\tserver's\tprefill\t\tper 1,000\tTTFT avg\tp99\tgrowth\toutput\t\tmeasured\tcold\t",
		"tokens\ttokens\tcount\ttok/s/user\tof first\ts\tms\tms\texponent\ttok/s/user\tof first\trequests\tout\t"}
	losses := s.losses()
	for _, l := range losses {
		heads[0], heads[1] = heads[0]+l.head+"\t", heads[1]+l.below+"\t"
	}
	if s.baseline != nil {
		heads[0], heads[1] = heads[0]+"baseline\t\t", heads[1]+"tok/s/user\tnow\t"
	}
	fmt.Fprintf(w, "%s\n%s\n", heads[0], heads[1])
	for i, r := range s.runs {
		prefill, output := find(r.Results, "prefill_throughput_per_user"), find(r.Results, "output_token_throughput_per_user")
		ttft := find(r.Results, "time_to_first_token")
		growth := "-"
		if c := v.Lengths[i].Check("ttft_growth"); c != nil && c.Value != nil {
			growth = fmt.Sprintf("%.2f", *c.Value)
		}
		counted := "-"
		if n := s.samples[i].Counted(); n > 0 {
			counted = fmt.Sprintf("%.0f", n)
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t", s.lengths[i],
			cell(find(r.Results, "input_sequence_length"), "%.0f", avg), counted, cell(prefill, "%.0f", avg), s.ofFirst(prefill),
			cell(prefill, "%.3f", func(m *metrics.Result) float64 { return 1000 / m.Avg }),
			cell(ttft, "%.2f", avg), cell(ttft, "%.2f", func(m *metrics.Result) float64 { return m.P[len(m.P)-1] }), growth,
			cell(output, "%.1f", avg), s.ofFirst(output),
			cell(ttft, "%.0f", func(m *metrics.Result) float64 { return float64(m.Count) }), r.Screen.Cold.Count)
		for _, l := range losses {
			fmt.Fprintf(w, "%d\t", l.of(&r.Screen.Counts))
		}
		if s.baseline != nil {
			old, ok := s.baseline.at(s.lengths[i])
			if ok && prefill != nil {
				fmt.Fprintf(w, "%.0f\t%+.1f %%\t", old, 100*(prefill.Avg-old)/old)
			} else {
				fmt.Fprint(w, "-\t-\t")
			}
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}

// loss is a column for requests that were not answered.
type loss struct {
	head, below string
	of          func(*metrics.Counts) int64
}

// losses are the columns that the scan has any for.
func (s *scan) losses() []loss {
	return slices.DeleteFunc([]loss{
		{"failed", "", func(c *metrics.Counts) int64 { return c.Failed }},
		{"cut while", "they ran", func(c *metrics.Counts) int64 { return c.Censored }},
	}, func(l loss) bool {
		return !slices.ContainsFunc(s.runs, func(r *export.Run) bool { return l.of(&r.Screen.Counts) > 0 })
	})
}

// ofFirst is a metric's average as a share of that at the shortest length.
func (s *scan) ofFirst(m *metrics.Result) string {
	if m == nil {
		return "-"
	}
	first := find(s.runs[0].Results, m.Def.Tag)
	if first == nil || first.Avg == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f %%", 100*m.Avg/first.Avg)
}

// verdictText says what the verdict is and what it rests on.
func verdictText(v procedure.LongContext) string {
	rules := map[string]string{}
	for _, r := range procedure.Rules() {
		rules[r[0]] = r[1]
	}
	var b strings.Builder
	switch v.Verdict {
	case procedure.Healthy:
		fmt.Fprintf(&b, "Verdict: healthy: prefill scales with the input up to %d tokens.", v.Lengths[len(v.Lengths)-1].Asked)
	case procedure.Unhealthy:
		fmt.Fprintf(&b, "Verdict: unhealthy from %d tokens on, by the rule that %s.", v.From, rules[v.Rule])
	default:
		b.WriteString("Verdict: undecided.")
		if len(v.Lengths) < 2 {
			b.WriteString(" One length alone cannot be judged.")
		} else if v.CutFrom > 0 {
			fmt.Fprintf(&b, " By its own count the server does not read the whole prompts of %d tokens: it cuts them, and what it does with whole ones is not known.", v.CutFrom)
		} else if v.Needed > 0 {
			fmt.Fprintf(&b, " About %d requests at each length would decide it, if the figures stay as they are.", v.Needed)
		}
	}
	for _, l := range v.Lengths {
		if l.Cut {
			fmt.Fprintf(&b, "\n  at %d tokens: how it scales is not judged, for prompts were cut", l.Asked)
		}
		for _, c := range l.Checks {
			if c.Judgement == procedure.Healthy || l.Cut && c.Rule != "error_rate" {
				continue
			}
			fmt.Fprintf(&b, "\n  at %d tokens: %s", l.Asked, c.Rule)
			switch {
			case c.Value == nil:
				b.WriteString(" cannot be told: a figure is missing")
			case c.Low == nil:
				fmt.Fprintf(&b, " %.2f, limit %.2f: too few requests for an interval", *c.Value, c.Limit)
			default:
				fmt.Fprintf(&b, " %.2f (%.2f to %.2f), limit %.2f: %s", *c.Value, *c.Low, *c.High, c.Limit, c.Judgement)
			}
		}
	}
	return b.String()
}

// document is longcontext.json.
func (s *scan) document(v procedure.LongContext) export.Object {
	o := export.Object{{Key: "schema_version", Value: 1}, {Key: "prefire_version", Value: version()}, {Key: "verdict", Value: string(v.Verdict)}}
	if v.From > 0 {
		o = append(o, export.Field{Key: "unhealthy_from", Value: v.From}, export.Field{Key: "rule", Value: v.Rule})
	}
	if v.CutFrom > 0 {
		o = append(o, export.Field{Key: "prompts_cut_from", Value: v.CutFrom})
	}
	if v.Needed > 0 {
		o = append(o, export.Field{Key: "requests_needed", Value: v.Needed})
	}
	var rules export.Object
	for _, r := range procedure.Rules() {
		rules = append(rules, export.Field{Key: r[0], Value: r[1]})
	}
	lengths := make([]export.Object, len(s.runs))
	for i, r := range s.runs {
		l := export.Object{{Key: "isl", Value: s.lengths[i]}, {Key: "artifact_dir", Value: s.folder(s.lengths[i])},
			{Key: "requests", Value: r.Screen.Counts.OK}, {Key: "failed", Value: r.Screen.Counts.Failed},
			{Key: "cut", Value: r.Screen.Counts.Censored}, {Key: "overdue", Value: s.samples[i].Overdue}, {Key: "cold", Value: r.Screen.Cold.Count}}
		add := func(key, tag string, of func(*metrics.Result) float64) {
			if m := find(r.Results, tag); m != nil {
				l = append(l, export.Field{Key: key, Value: of(m)})
			}
		}
		add("isl_reached_avg", "input_sequence_length", avg)
		if n := s.samples[i].Counted(); n > 0 {
			l = append(l, export.Field{Key: "isl_counted_by_server_avg", Value: n})
		}
		add("prefill_throughput_per_user_avg", "prefill_throughput_per_user", avg)
		add("seconds_per_1000_tokens", "prefill_throughput_per_user", func(m *metrics.Result) float64 { return 1000 / m.Avg })
		add("time_to_first_token_avg_ms", "time_to_first_token", avg)
		add("time_to_first_token_p99_ms", "time_to_first_token", func(m *metrics.Result) float64 { return m.P[len(m.P)-1] })
		add("time_to_first_token_count", "time_to_first_token", func(m *metrics.Result) float64 { return float64(m.Count) })
		add("output_token_throughput_per_user_avg", "output_token_throughput_per_user", avg)
		if old, ok := s.baseline.at(s.lengths[i]); ok {
			l = append(l, export.Field{Key: "baseline_prefill_throughput_per_user", Value: old})
		}
		if why := unmeasured(r); why != "" {
			l = append(l, export.Field{Key: "not_measured_because", Value: why})
		}
		if v.Lengths[i].Cut {
			l = append(l, export.Field{Key: "prompts_cut", Value: true})
		}
		l = append(l, export.Field{Key: "checks", Value: v.Lengths[i].Checks})
		lengths[i] = l
	}
	o = append(o, export.Field{Key: "rules", Value: rules})
	if s.baseline != nil {
		o = append(o, export.Field{Key: "baseline", Value: s.baseline.from})
	}
	if lines := s.notes.lines(); len(lines) > 0 {
		o = append(o, export.Field{Key: "notes", Value: lines})
	}
	return append(o, export.Field{Key: "lengths", Value: lengths})
}
