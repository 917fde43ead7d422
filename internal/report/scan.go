package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"prefire/internal/report/chart"
)

const scanFile = "longcontext.json"

// scan is a longcontext.json.
type scan struct {
	Verdict string            `json:"verdict"`
	From    json.Number       `json:"unhealthy_from"`
	Rule    string            `json:"rule"`
	Needed  json.Number       `json:"requests_needed"`
	CutFrom json.Number       `json:"prompts_cut_from"`
	Rules   map[string]string `json:"rules"`
	Notes   []string          `json:"notes"`
	Lengths []scanLength      `json:"lengths"`
}

type scanLength struct {
	ISL      json.Number `json:"isl"`
	Requests json.Number `json:"requests"`
	Failed   json.Number `json:"failed"`
	Cut      json.Number `json:"cut"`
	Missing  string      `json:"not_measured_because"`
	NotRead  bool        `json:"prompts_cut"` // the server did not read the whole prompts, so that how it scales is not judged
	Cold     json.Number `json:"cold"`
	Reached  json.Number `json:"isl_reached_avg"`
	Prefill  json.Number `json:"prefill_throughput_per_user_avg"`
	Seconds  json.Number `json:"seconds_per_1000_tokens"`
	TTFTAvg  json.Number `json:"time_to_first_token_avg_ms"`
	TTFTP99  json.Number `json:"time_to_first_token_p99_ms"`
	Output   json.Number `json:"output_token_throughput_per_user_avg"`
	Baseline json.Number `json:"baseline_prefill_throughput_per_user"`
	Checks   []struct {
		Rule      string   `json:"rule"`
		Limit     float64  `json:"limit"`
		Value     *float64 `json:"value"`
		Low       *float64 `json:"low"`
		High      *float64 `json:"high"`
		Judgement string   `json:"judgement"`
	} `json:"checks"`
}

// readScan reads a scan's own file; nil where the folder holds none.
func readScan(dir fs.FS) (*scan, error) {
	data, err := fs.ReadFile(dir, scanFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return parseScan(data)
}

func parseScan(data []byte) (*scan, error) {
	s := new(scan)
	if err := json.Unmarshal(data, s); err != nil {
		return nil, fmt.Errorf("%s: it is no result of prefire longcontext: %w", scanFile, err)
	}
	return s, nil
}

// LongContextSVG draws a longcontext.json as a file of its own: TTFT against input length. It draws nothing where no length has a TTFT.
func LongContextSVG(w io.Writer, data []byte) error {
	s, err := parseScan(data)
	if err != nil {
		return err
	}
	c := s.plot()
	if c == nil {
		return errors.New("no length has a TTFT")
	}
	c.Title += ": " + s.Verdict
	return c.File(w, "svg")
}

// says is the verdict in words.
func (s *scan) says() judged {
	const claim = "Prefill over the input length"
	switch s.Verdict {
	case "healthy":
		return judged{good, claim, "it scales with the input over all lengths of this scan.", "✓ healthy"}
	case "unhealthy":
		return judged{bad, claim, fmt.Sprintf("it breaks down from %s tokens on, by the rule that %s.", s.From, s.Rules[s.Rule]), "✗ unhealthy"}
	}
	text := "an interval straddles its limit, or there are too few requests for one."
	if s.CutFrom != "" {
		text = fmt.Sprintf("by its own count the server does not read the whole prompts of %s tokens: it cuts them, and what it does with whole ones is not known.", s.CutFrom)
	}
	if s.Needed != "" {
		text += fmt.Sprintf(" About %s requests at each length would decide it, if the figures stay as they are.", s.Needed)
	}
	return judged{warn, claim, text, "? undecided"}
}

// checks are the rules that are not kept for certain, and what bears on the verdict beside them, in words.
func (s *scan) checks() []string {
	var out []string
	for _, l := range s.Lengths {
		if l.Missing != "" {
			out = append(out, fmt.Sprintf("at %s tokens: not measured: %s", l.ISL, clipped(l.Missing)))
		}
		if l.NotRead {
			out = append(out, fmt.Sprintf("at %s tokens: how it scales is not judged, for prompts were cut", l.ISL))
		}
		for _, c := range l.Checks {
			switch {
			case c.Judgement == "healthy" || c.Value == nil || l.NotRead && c.Rule != "error_rate":
			case c.Low == nil || c.High == nil:
				out = append(out, fmt.Sprintf("at %s tokens: %s %.2f, limit %.2f: too few requests for an interval", l.ISL, c.Rule, *c.Value, c.Limit))
			default:
				out = append(out, fmt.Sprintf("at %s tokens: %s %.2f (%.2f to %.2f), limit %.2f: %s", l.ISL, c.Rule, *c.Value, *c.Low, *c.High, c.Limit, c.Judgement))
			}
		}
	}
	for _, note := range s.Notes {
		out = append(out, clipped(note))
	}
	return out
}

// heads are those of the lengths' figures.
func (s *scan) heads() []string {
	out := []string{"asked tokens", "reached tokens", "prefill tok/s/user", "s per 1,000 tokens", "TTFT avg ms", "TTFT p99 ms", "growth exponent", "output tok/s/user", "requests", "failed", "cut", "cold"}
	if s.compared() {
		out = append(out, "baseline prefill tok/s/user", "now")
	}
	return out
}

// compared reports whether the scan has a baseline.
func (s *scan) compared() bool {
	return slices.ContainsFunc(s.Lengths, func(l scanLength) bool { return l.Baseline != "" })
}

// growth is the exponent of TTFT's growth from the length before.
func (l *scanLength) growth() figure {
	for _, c := range l.Checks {
		if c.Rule == "ttft_growth" && c.Value != nil {
			return figure{Shown: fmt.Sprintf("%.2f", *c.Value)}
		}
	}
	return figure{}
}

// rows are the lengths' figures.
func (s *scan) rows() [][]figure {
	out := make([][]figure, len(s.Lengths))
	for i := range s.Lengths {
		l := &s.Lengths[i]
		for _, c := range [...]struct {
			key string
			n   json.Number
		}{{"isl", l.ISL}, {"isl_reached_avg", l.Reached}, {"prefill_throughput_per_user_avg", l.Prefill}, {"seconds_per_1000_tokens", l.Seconds},
			{"time_to_first_token_avg_ms", l.TTFTAvg}, {"time_to_first_token_p99_ms", l.TTFTP99}, {"output_token_throughput_per_user_avg", l.Output},
			{"requests", l.Requests}, {"failed", l.Failed}, {"cut", l.Cut}, {"cold", l.Cold}} {
			if c.key == "output_token_throughput_per_user_avg" {
				out[i] = append(out[i], l.growth())
			}
			out[i] = append(out[i], newFigure(fmt.Sprintf("lengths.%d.%s", i, c.key), c.n))
		}
		if s.compared() {
			was, err := l.Baseline.Float64()
			is, err2 := l.Prefill.Float64()
			now := figure{}
			if errors.Join(err, err2) == nil {
				now.Shown = percent(was, is)
			}
			out[i] = append(out[i], newFigure(fmt.Sprintf("lengths.%d.baseline_prefill_throughput_per_user", i), l.Baseline), now)
		}
	}
	return out
}

// plot is TTFT against input length with the straight line that it should follow; nil where no length has one.
func (s *scan) plot() *chart.Chart {
	c := &chart.Chart{Name: "ttft_by_length", Title: "Time to first token by input length", X: chart.Axis{Label: "input tokens"}, Y: chart.Axis{Label: "ms"}}
	var avg, p99 []chart.Point
	for _, l := range s.Lengths {
		x, err := l.Reached.Float64()
		a, err2 := l.TTFTAvg.Float64()
		b, err3 := l.TTFTP99.Float64()
		if errors.Join(err, err2, err3) != nil || x <= 0 {
			continue
		}
		avg, p99 = append(avg, chart.Point{X: x, Y: a}), append(p99, chart.Point{X: x, Y: b})
		c.X.Span(x)
		c.Y.Span(b)
	}
	if len(avg) == 0 {
		return nil
	}
	first, last := avg[0], avg[len(avg)-1]
	straight := chart.Point{X: last.X, Y: first.Y / first.X * last.X}
	c.Y.Span(straight.Y)
	c.X.Settle(true)
	c.Y.Settle(true)
	c.Layers = []chart.Layer{
		{Name: "in line with the input", Kind: chart.Line, Tone: chart.Quiet, Dashed: true, Points: []chart.Point{{}, straight}},
		{Name: "average", Kind: chart.Line, Tone: chart.Main, Points: avg}, {Kind: chart.Dots, Tone: chart.Main, Large: true, Points: avg},
		{Name: "99th percentile", Kind: chart.Line, Tone: chart.Second, Points: p99}, {Kind: chart.Dots, Tone: chart.Second, Large: true, Points: p99},
	}
	c.Text = fmt.Sprintf("From %s to %s input tokens the average goes from %s to %s ms; in line with the input it would be %s ms.",
		chart.Short(first.X), chart.Short(last.X), chart.Short(first.Y), chart.Short(last.Y), chart.Short(straight.Y))
	return c
}
