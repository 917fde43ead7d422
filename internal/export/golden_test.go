package export

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"prefire/internal/orjson"
	"prefire/metrics"
)

const aiperfDir = "testdata/aiperf-0.13.0"

func golden(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(aiperfDir, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// aiperfDefs are aiperf's own headers, units, groups and orders, so that these tests hold without prefire's table.
func aiperfDefs(t *testing.T) map[string]*metrics.Def {
	t.Helper()
	var rows []struct {
		Tag, Header, Unit, Display, Group string
		Order                             int
		ErrorOnly                         bool `json:"error_only"`
		Trace, Record                     bool
	}
	if err := json.Unmarshal(golden(t, "defs.json"), &rows); err != nil {
		t.Fatal(err)
	}
	defs := map[string]*metrics.Def{}
	for _, r := range rows {
		d := &metrics.Def{Tag: r.Tag, Header: r.Header, Unit: metrics.Unit(r.Unit), Display: metrics.Unit(r.Display), Order: r.Order}
		switch {
		case r.Trace:
			d.Group = metrics.TraceTable
		case r.Group == "usage":
			d.Group = metrics.UsageTable
		case r.Group == "default":
			d.Group = metrics.Main
		}
		if r.ErrorOnly {
			d.Flags |= metrics.ErrorOnly
		}
		if !r.Record {
			d.Shape = metrics.Derived
		}
		defs[r.Tag] = d
	}
	return defs
}

// raw is JSON that was read, for writing again.
type raw = json.RawMessage

// aiperfRun reads a summary that aiperf wrote back into a Run.
func aiperfRun(t *testing.T, name string) *Run {
	t.Helper()
	defs := aiperfDefs(t)
	var top map[string]raw
	if err := json.Unmarshal(golden(t, name), &top); err != nil {
		t.Fatal(err)
	}
	parse := func(key string, v any) {
		t.Helper()
		if b, ok := top[key]; ok {
			if err := json.Unmarshal(b, v); err != nil {
				t.Fatalf("%s: %v", key, err)
			}
		}
	}
	results := func(m map[string]raw) []metrics.Result {
		var rs []metrics.Result
		for tag, b := range m {
			d := defs[tag]
			if d == nil {
				continue
			}
			var v map[string]any
			if err := json.Unmarshal(b, &v); err != nil {
				t.Fatal(err)
			}
			if v["unit"] != string(d.Display) {
				t.Fatalf("%s: unit %v, the table says %s", tag, v["unit"], d.Display)
			}
			f := func(key string) float64 { x, _ := v[key].(float64); return x }
			r := metrics.Result{Def: d, Scalar: d.Shape == metrics.Derived, Avg: f("avg"), Min: f("min"), Max: f("max"), Std: f("std"),
				Sum: f("sum"), Count: int64(f("count"))}
			for i, p := range metrics.Percentiles {
				r.P[i] = f("p" + strconv.Itoa(int(p)))
			}
			rs = append(rs, r)
		}
		return rs
	}
	r := &Run{Results: results(top)}
	var warm map[string]raw
	parse("warmup_metrics", &warm)
	r.Warmup = results(warm)
	var info struct {
		RandomSeed uint64 `json:"random_seed"`
		Trial      int
		CLICommand string `json:"cli_command"`
	}
	parse("run_info", &info)
	r.Info = Info{Seed: info.RandomSeed, Trial: info.Trial, Command: info.CLICommand}
	var errs []struct {
		ErrorDetails metrics.Error `json:"error_details"`
		Count        int64
	}
	parse("error_summary", &errs)
	for _, e := range errs {
		r.Errors = append(r.Errors, metrics.ErrorCount{Error: e.ErrorDetails, Count: e.Count})
	}
	parse("benchmark_id", &r.BenchmarkID)
	parse("was_cancelled", &r.WasCancelled)
	for key, at := range map[string]*time.Time{"start_time": &r.Start, "end_time": &r.End} {
		var s string
		parse(key, &s)
		v, err := time.ParseInLocation("2006-01-02T15:04:05.999999", s, time.UTC)
		if err != nil {
			t.Fatal(err)
		}
		*at = v
	}
	r.InputConfig = top["input_config"]
	return r
}

func same(t *testing.T, what string, got, want []byte) {
	t.Helper()
	if bytes.Equal(got, want) {
		return
	}
	g, w := strings.Split(string(got), "\n"), strings.Split(string(want), "\n")
	for i := range max(len(g), len(w)) {
		a, b := "(end)", "(end)"
		if i < len(g) {
			a = g[i]
		}
		if i < len(w) {
			b = w[i]
		}
		if a != b {
			t.Fatalf("%s: line %d\n got %q\nwant %q", what, i+1, a, b)
		}
	}
}

func TestSummaryIsAIPerfsByteForByte(t *testing.T) {
	for _, name := range []string{"streaming", "plain", "errors", "warmup", "osl", "prefix"} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := JSON(&out, aiperfRun(t, name+"/summary.json")); err != nil {
				t.Fatal(err)
			}
			same(t, "JSON", out.Bytes(), golden(t, name+"/summary.json"))
		})
	}
}

func TestCSVIsAIPerfsByteForByte(t *testing.T) {
	for _, name := range []string{"streaming", "plain", "errors", "warmup"} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := CSV(&out, aiperfRun(t, name+"/summary.json")); err != nil {
				t.Fatal(err)
			}
			same(t, "CSV", out.Bytes(), golden(t, name+"/summary.csv"))
		})
	}
}

func TestConsoleIsAIPerfs(t *testing.T) {
	for _, name := range []string{"streaming", "plain", "errors", "warmup", "osl", "prefix"} {
		t.Run(name, func(t *testing.T) {
			r := aiperfRun(t, name+"/summary.json")
			r.Screen.ShowTrace = name == "prefix"
			var out bytes.Buffer
			if err := Console(&out, r, ConsoleWidth); err != nil {
				t.Fatal(err)
			}
			same(t, "console", out.Bytes(), own(golden(t, name+"/console.txt"), r, ConsoleWidth))
		})
	}
}

func TestErrorTableWrapsAsRichDoes(t *testing.T) {
	var tables [][]struct {
		metrics.Error
		Count int64
	}
	if err := json.Unmarshal(golden(t, "errors_tables.json"), &tables); err != nil {
		t.Fatal(err)
	}
	for i, rows := range tables {
		r := &Run{}
		for _, row := range rows {
			r.Errors = append(r.Errors, metrics.ErrorCount{Error: row.Error, Count: row.Count})
		}
		name := "errors_table_" + strconv.Itoa(i) + ".txt"
		same(t, name, errorTable(nil, r, ConsoleWidth), golden(t, name))
	}
}

func TestFloatsAreWrittenAsOrjsonDoes(t *testing.T) {
	for line := range strings.Lines(string(golden(t, "floats.txt"))) {
		hex, want, _ := strings.Cut(strings.TrimSpace(line), " ")
		if !strings.Contains(hex, "p") {
			t.Fatalf("bad line %q", line)
		}
		v, err := strconv.ParseFloat(hex, 64)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(appendFloat(nil, v)); got != want {
			t.Errorf("%s: got %s, want %s", hex, got, want)
		}
	}
}

func TestStringsAreWrittenAsOrjsonDoes(t *testing.T) {
	want := golden(t, "strings.json")
	var s []string
	if err := json.Unmarshal(want, &s); err != nil {
		t.Fatal(err)
	}
	got := append(orjson.AppendString([]byte("["), s[0]), ']')
	same(t, "string", got, want)
	same(t, "bytes", append(orjson.AppendString([]byte("["), []byte(s[0])), ']'), want)
}

func TestInputsAreAIPerfsByteForByte(t *testing.T) {
	want := golden(t, "inputs.json")
	var in struct {
		Data []struct {
			SessionID string `json:"session_id"`
			Payloads  []raw
		}
	}
	if err := json.Unmarshal(want, &in); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w := NewInputs(&out, 0)
	for _, s := range in.Data {
		var body bytes.Buffer
		if err := json.Compact(&body, s.Payloads[0]); err != nil {
			t.Fatal(err)
		}
		if err := w.Add(s.SessionID, body.Bytes()); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	same(t, "inputs.json", out.Bytes(), want)
}

func TestManifestIsAIPerfsByteForByte(t *testing.T) {
	want := golden(t, "warmup/phase_manifest.json")
	var m struct {
		Phases []map[string]any
	}
	d := json.NewDecoder(bytes.NewReader(want))
	d.UseNumber()
	if err := d.Decode(&m); err != nil {
		t.Fatal(err)
	}
	r := &Run{}
	for _, p := range m.Phases {
		n := func(key string) int64 { v, _ := p[key].(json.Number); i, _ := v.Int64(); return i }
		ph := Phase{Index: int(n("phase_index")), ProfilingIndex: int(n("profiling_index")), Name: p["phase_name"].(string),
			Start: time.Unix(0, n("start_ns")), End: time.Unix(0, n("end_ns")), OK: n("successful_request_count"), Failed: n("error_request_count")}
		if p["phase_kind"] == "warmup" {
			ph.Kind = metrics.Warmup
		}
		r.Phases = append(r.Phases, ph)
	}
	var out bytes.Buffer
	if err := Manifest(&out, r, NewNames("")); err != nil {
		t.Fatal(err)
	}
	same(t, "manifest", out.Bytes(), want)
}
