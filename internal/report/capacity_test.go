package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/net/html"

	"prefire/internal/procedure"
)

func interval(v, low, high float64) procedure.Interval {
	return procedure.Interval{Value: v, Low: &low, High: &high}
}

// capacityMade is a capacity.json of three loads: one that keeps its limits for sure, one that keeps them by its figures, and one that breaks
// them and has no TTFT; with its runs.
func capacityMade(t *testing.T, load string, finished bool) (fstest.MapFS, []byte) {
	t.Helper()
	limits := []string{"ttft_p99<500ms", "itl_avg<30ms", "error_rate<1%", "output_token_throughput_per_user_p5>20"}
	share := func(v float64) *procedure.Interval { i := interval(v, v/2, 2*v); return &i }
	step := func(at, rate float64, folders ...string) map[string]any {
		s := procedure.Step{Load: at, Tries: len(folders), Sent: 900, Requests: 700, From: 1.25, To: 58.5, Length: 60, Steady: true, Throughput: interval(rate, rate-3, rate+3),
			Tokens: rate * 20, InFlight: at - 0.25, Kept: true, Sure: true,
			Metrics: map[string]procedure.Figures{"time_to_first_token": {Count: 690, Avg: 150 * at, P50: 140 * at, P99: 400 * at}, "request_latency": {Count: 690, Avg: 1500 * at, P50: 1400, P99: 2000 * at},
				"inter_token_latency": {Count: 690, Avg: 21.5, P50: 20, P99: 40}},
			Findings: []procedure.Finding{{Limit: limits[0], Value: &procedure.Interval{Value: 400 * at}, Beyond: share(0.004), Kept: true, Sure: true}, {Limit: limits[1], Value: share(21.5), Kept: true, Sure: true},
				{Limit: limits[2], Value: share(0.0025), Kept: true, Sure: true}, {Limit: limits[3], Value: &procedure.Interval{Value: 33.5}, Beyond: share(0.01), Kept: true, Sure: true}}}
		switch at {
		case 2:
			s.Sure, s.Findings[2].Sure, s.Steady, s.Why = false, false, false, "the number in flight rises"
		case 4:
			s.Kept, s.Failed, s.ErrorRate, s.Metrics = false, 350, 0.5, map[string]procedure.Figures{}
			s.Findings[0] = procedure.Finding{Limit: limits[0], Beyond: share(0.4), Sure: true}
			s.Findings[2].Kept = false
		}
		if load == "request_rate" {
			s.Unserved = share(0.002 * at)
		}
		return map[string]any{"artifact_dirs": folders, "figures": s}
	}
	file, err := json.Marshal(map[string]any{"schema_version": 1, "load": load, "finished": finished, "slo": limits,
		"result": procedure.Capacity{Best: 2, AtLeast: 1, Below: 4, Broken: []string{limits[0], limits[2]}, Knee: 1}, "steps": []any{step(1, 100, "one"), step(2, 190, "two", "two-2"), step(4, 150, "four")}})
	if err != nil {
		t.Fatal(err)
	}
	dir := fstest.MapFS{"capacity.json": {Data: file}}
	for _, name := range []string{"one", "two", "two-2", "four"} {
		dir[name+"/profile_export.jsonl"] = &fstest.MapFile{Data: []byte(line(1_796_080_000_000_000_000, 5, 10))}
	}
	return dir, file
}

// The page of a capacity run has the verdict and the best point first, every figure as the file has it, and a link from each load to its last run.
func TestCapacity(t *testing.T) {
	dir, file := capacityMade(t, "concurrency", true)
	page := made(t, dir, Options{Name: "sizing"})
	doc := validate(t, page)
	shown, numbers := figures(doc), decoded(t, file)
	for of, nodes := range shown {
		if want := at(t, numbers, of); want == "" || attr(nodes[0], "value") != want.String() {
			t.Errorf("%s is shown as %s, the file has %s", of, attr(nodes[0], "value"), want)
		}
	}
	for _, want := range []string{"result.best", "result.at_least", "result.below", "result.knee", "steps.0.figures.load", "steps.1.figures.request_throughput.value", "steps.2.figures.error_rate",
		"steps.0.figures.metrics.time_to_first_token.p99", "steps.1.figures.metrics.inter_token_latency.avg", "steps.0.figures.metrics.request_latency.avg", "steps.2.figures.in_flight_mean",
		"steps.1.figures.output_token_throughput"} {
		if shown[want] == nil {
			t.Errorf("%s is not in the page", want)
		}
	}
	said := strings.Join(strings.Fields(text(doc)), " ")
	last := 0
	for _, want := range []string{"! not sure Capacity Best: 2 in flight keeps ttft_p99<500ms, itl_avg<30ms, error_rate<1%, output_token_throughput_per_user_p5>20 by its figures; by whole 95 % intervals " +
		"1 in flight do. Limited by ttft_p99<500ms, error_rate<1%; 4 in flight is surely too much.", "Knee: 1 in flight", "At 2 in flight no steady state was found (the number in flight rises)",
		"At 2 in flight", "190 answers/s 95 %: 187 to 193", "1.2 to 58.5", "no: the number in flight rises", "within the limits, not for sure", "breaks ttft_p99<500ms, error_rate<1%",
		"ttft_p99<500ms (at most 1 % beyond)", "400 ms, beyond 0.4 % (0.2 to 0.8), kept", "21.5 ms (10.75 to 43), kept", "33.5 tokens/sec/user, beyond 1 % (0.5 to 2), kept",
		"0.25 % (0.125 to 0.5), kept?", "among the failed, beyond 40 % (20 to 80), broken", "All runs"} {
		i := strings.Index(said[last:], want)
		if i < 0 {
			t.Fatalf("the page does not say %q after %q: %s", want, said[:last][max(0, last-80):], said[last:min(len(said), last+1500)])
		}
		last += i
	}
	var links []string
	names := map[string]string{}
	for n := range doc.Descendants() {
		if n.Data == "a" && n.FirstChild.Data == "data" {
			links = append(links, attr(n, "href"))
		} else if n.Data == "a" {
			names[attr(n, "href")] = n.FirstChild.Data
		}
	}
	for i, link := range links {
		links[i] = names[link]
	}
	if !slices.Equal(links, []string{"one", "two-2", "four"}) {
		t.Errorf("the loads lead to %v", links)
	}
	if got, want := plotTitles(doc), []string{"Throughput by load", "TTFT by load", "ITL by load", "Error rate by load", "Output token throughput per user by load", "Request latency by load"}; !slices.Equal(got[:min(len(got), len(want))], want) {
		t.Errorf("the plots are %q, want %q first", got, want)
	}
	for _, want := range []string{"From 1 to 4 in flight the throughput goes from 100 to 150 answers/s; at 2 in flight it is 190.", "P99 800 at 2 in flight and unknown at 4, limit 500; average 300 at 2 in flight and unknown at 4."} {
		if !strings.Contains(said, want) {
			t.Errorf("the plots do not say %q", want)
		}
	}
	dir, _ = capacityMade(t, "request_rate", false)
	said = strings.Join(strings.Fields(text(validate(t, made(t, dir, Options{})))), " ")
	for _, want := range []string{"! mind Not finished what follows is from the steps so far", "Best: 2 requests/s keeps", "in flight grows by at most 1 % of the arrivals", "0.8 % (0.4 to 1.6 %)"} {
		if !strings.Contains(said, want) {
			t.Errorf("the page of rates does not say %q", want)
		}
	}
}

func plotTitles(doc *html.Node) []string {
	var out []string
	for n := range doc.Descendants() {
		if n.Data == "h4" {
			out = append(out, n.FirstChild.Data)
		}
	}
	return out
}

// A capacity run's and a scan's plots can be had as files: well-formed, with what they are of.
func TestPlotsOfProcedures(t *testing.T) {
	_, file := capacityMade(t, "concurrency", true)
	const scan = `{"verdict":"healthy","lengths":[{"isl_reached_avg":512,"time_to_first_token_avg_ms":30.5,"time_to_first_token_p99_ms":31},{"isl_reached_avg":2048,"time_to_first_token_avg_ms":90,"time_to_first_token_p99_ms":99}]}`
	for _, c := range []struct {
		draw func(io.Writer, []byte) error
		file string
		says []string
	}{
		{CapacitySVG, string(file), []string{"Throughput by load", "sessions at once", "answers/s", "TTFT by load", "limit on the p99", "breaks a limit"}},
		{LongContextSVG, scan, []string{"Time to first token by input length: healthy", "input tokens", "in line with the input", "99th percentile"}},
	} {
		var b bytes.Buffer
		if err := c.draw(&b, []byte(c.file)); err != nil {
			t.Fatal(err)
		}
		all := svgTexts(t, b.Bytes())
		for _, want := range c.says {
			if !slices.Contains(all, want) {
				t.Errorf("the plot does not say %q: %q", want, all)
			}
		}
		if strings.Contains(b.String(), "NaN") {
			t.Error("there is a NaN in the plot")
		}
		if err := c.draw(io.Discard, []byte(`{"steps":[],"lengths":[]}`)); err == nil {
			t.Error("a plot of nothing is drawn")
		}
	}
}

func svgTexts(t *testing.T, svg []byte) []string {
	t.Helper()
	var out []string
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if s, ok := tok.(xml.CharData); ok {
			out = append(out, strings.TrimSpace(string(s)))
		}
	}
}
