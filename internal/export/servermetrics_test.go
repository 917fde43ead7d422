package export

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"prefire/internal/servermetrics"
	"prefire/metrics"
)

// The golden files are aiperf 0.13.0's, of a run against prefire mock:
//
//	prefire mock --port 18741 --ttft 20ms --itl 3ms --model test-model
//	aiperf profile -m test-model -u http://127.0.0.1:18741 --streaming --tokenizer builtin --ui none --isl 32 --osl 8 --random-seed 7 \
//	  --concurrency 2 --request-count 24 --warmup-request-count 4 --no-gpu-telemetry --artifact-dir out
func goldenServer(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/aiperf-0.13.0/servermetrics/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// serverRun is a run whose two phases counted as the golden one's did.
func serverRun(t *testing.T) *Run {
	t.Helper()
	b := servermetrics.NewBook("http://127.0.0.1:18741/metrics")
	at := int64(1)
	// What the mock's /metrics says after so many requests.
	add := func(requests int, role servermetrics.Role) {
		list, err := servermetrics.Parse(goldenServer(t, fmt.Sprintf("metrics-%d.txt", requests)))
		if err != nil {
			t.Fatal(err)
		}
		b.Add(at, 2e6, list, false, role)
		at += 300e6
	}
	add(0, servermetrics.Edge)
	b.Begin(0)
	add(4, servermetrics.Tick)
	add(4, servermetrics.Edge)
	b.End(0)
	b.Begin(1)
	add(28, servermetrics.Tick)
	add(28, servermetrics.Edge)
	b.End(1)
	epoch := time.Date(2026, 11, 30, 23, 42, 36, 0, time.UTC)
	r := &Run{BenchmarkID: "eb73bc5af4f2", InputConfig: raw(`{}`), Start: epoch.Add(time.Second), End: epoch.Add(2 * time.Second)}
	r.Phases = []Phase{{Index: 0, Name: "warmup", Kind: metrics.Warmup, Start: epoch, End: epoch.Add(time.Second)},
		{Index: 1, Name: "profiling", Kind: metrics.Profiling, Start: r.Start, End: r.End}}
	report := func(phase int, whole bool) []servermetrics.Report {
		one, ok := b.Report([]int{phase}, whole)
		if !ok {
			t.Fatal("no report")
		}
		return []servermetrics.Report{one}
	}
	urls := []string{b.URL()}
	r.Server = &ServerMetrics{JSON: true, CSV: true, Configured: urls, Successful: urls, Profiling: report(1, true), Warmup: report(0, true),
		ByPhase: [][]servermetrics.Report{report(0, false), report(1, false)}, WarmupStart: epoch, WarmupEnd: epoch.Add(time.Second),
		Wall: func(at int64) time.Time { return epoch.Add(time.Duration(at)) }}
	return r
}

// shapeOf is a JSON value without what timing decides: numbers are told apart by whether they are whole, lists of one kind by their length.
func shapeOf(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			if k == "input_config" || k == "timeslices" {
				delete(v, k)
				continue
			}
			v[k] = shapeOf(v[k])
		}
		return v
	case []any:
		for i := range v {
			v[i] = shapeOf(v[i])
		}
		return v
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE") {
			return "float"
		}
		return "int"
	}
	return v
}

func decodeNumbers(t *testing.T, b []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// sameShape holds two JSON files against each other: keys, their order, kinds of values, texts.
func sameShape(t *testing.T, what string, got, want []byte) {
	t.Helper()
	a, b := shapeOf(decodeNumbers(t, got)), shapeOf(decodeNumbers(t, want))
	ga, _ := json.MarshalIndent(a, "", " ")
	gb, _ := json.MarshalIndent(b, "", " ")
	mask := func(s string) string {
		return regexp.MustCompile(`"(\d{4}-\d\d-\d\dT[\d:.]+|[0-9a-f]{12})"`).ReplaceAllString(s, `"MASKED"`)
	}
	la, lb := strings.Split(mask(string(ga)), "\n"), strings.Split(mask(string(gb)), "\n")
	for i := range max(len(la), len(lb)) {
		if i >= len(la) || i >= len(lb) || la[i] != lb[i] {
			from := max(0, i-6)
			t.Errorf("%s differs at line %d:\n%s\naiperf's:\n%s", what, i, strings.Join(la[min(from, len(la)):min(i+3, len(la))], "\n"), strings.Join(lb[min(from, len(lb)):min(i+3, len(lb))], "\n"))
			return
		}
	}
}

func TestServerMetricsAreInAiperfsShape(t *testing.T) {
	r := serverRun(t)
	write := func(f func(io.Writer) error) []byte {
		var b bytes.Buffer
		if err := f(&b); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	got, want := write(func(w io.Writer) error { return ServerMetricsJSON(w, r) }), goldenServer(t, "server_metrics_export.json")
	sameShape(t, "server_metrics_export.json", got, want)
	a, b := keyOrder(got), keyOrder(want)
	for i := range max(len(a), len(b)) {
		if i >= len(a) || i >= len(b) || a[i] != b[i] {
			t.Fatalf("key %d is %q, aiperf's %q", i, a[min(i, len(a)-1)], b[min(i, len(b)-1)])
		}
	}
	if !bytes.HasPrefix(got, want[:40]) || bytes.HasSuffix(got, []byte("\n")) {
		t.Errorf("layout %q", got[:40])
	}
	for i, name := range []string{"warmup", "profiling"} {
		got, want := write(func(w io.Writer) error { return ServerMetricsPhase(w, r, i) }), goldenServer(t, name+".json")
		sameShape(t, name, got, want)
		if !bytes.HasPrefix(got, want[:30]) || !bytes.HasSuffix(got, want[len(want)-30:]) {
			t.Errorf("%s: layout %q … %q", name, got[:30], got[len(got)-30:])
		}
	}
	// The CSV: every cell but the figures.
	lines := func(b []byte) (out []string) {
		for line := range strings.SplitSeq(string(b), "\n") {
			out = append(out, regexp.MustCompile(`benchmark_id: \w+|\d+(\.\d+)?`).ReplaceAllString(line, "9"))
		}
		return out
	}
	a = lines(write(func(w io.Writer) error { return ServerMetricsCSV(w, r) }))
	if b := lines(goldenServer(t, "server_metrics_export.csv")); !slices.Equal(a, b) {
		for i := range max(len(a), len(b)) {
			if i >= len(a) || i >= len(b) || a[i] != b[i] {
				t.Fatalf("line %d of the CSV is\n%q, aiperf's\n%q", i, a[min(i, len(a)-1)], b[min(i, len(b)-1)])
			}
		}
	}
}

// keyOrder is the order of a file's keys down to the series.
func keyOrder(b []byte) (keys []string) {
	seen := map[string]bool{}
	for line := range strings.SplitSeq(string(b), "\n") {
		key, _, ok := strings.Cut(line, `": `)
		if key == `  "input_config` {
			break
		}
		if ok && !seen[key] && len(key)-len(strings.TrimLeft(key, " ")) <= 14 {
			seen[key] = true
			keys = append(keys, key)
		}
	}
	return keys
}

func TestLabelColumns(t *testing.T) {
	row := func(names ...string) csvRow {
		s := &servermetrics.Series{}
		for _, n := range names {
			s.Labels = append(s.Labels, servermetrics.Label{Name: n})
		}
		return csvRow{&servermetrics.Metric{}, s}
	}
	for _, c := range []struct {
		rows []csvRow
		want string
	}{
		{[]csvRow{row("a", "b"), row("b", "c"), row("x")}, "a c b x"},
		{[]csvRow{row("engine", "model"), row("engine", "model", "reason"), row("model", "kind")}, "kind reason engine model"},
		{[]csvRow{row(), row()}, ""},
		{[]csvRow{row("z"), row("z"), row("b", "y")}, "b y z"},
	} {
		if got := strings.Join(labelColumns(c.rows), " "); got != c.want {
			t.Errorf("%v: %q, want %q", c.rows, got, c.want)
		}
	}
}
