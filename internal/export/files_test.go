package export

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"prefire/metrics"
)

// listing is every file under dir, with slashes.
func listing(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			rel, _ := filepath.Rel(dir, path)
			names = append(names, filepath.ToSlash(rel))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func twoPhases(t *testing.T) *Run {
	r := aiperfRun(t, "warmup/summary.json")
	r.Phases = []Phase{
		{Index: 0, Name: "warmup", Kind: metrics.Warmup, OK: 4, Results: r.Warmup, Start: r.Start.Add(-time.Second), End: r.Start},
		{Index: 1, Name: "a/../b", OK: 15, Failed: 1, Results: r.Results, Start: r.Start, End: r.End, WasCancelled: true,
			Errors: []metrics.ErrorCount{{Error: metrics.Error{Code: 500, Type: "Oh", Message: "no", Chain: []string{"x"}}, Count: 1}}},
	}
	r.Prefire = Object{{"version", "1"}}
	return r
}

func TestNames(t *testing.T) {
	def := Names{JSON: "profile_export_aiperf.json", CSV: "profile_export_aiperf.csv", Records: "profile_export.jsonl",
		Censored: "profile_export_censored.jsonl", Console: "profile_export_console.txt", Hlog: "profile_export.hlog", Raw: "profile_export_raw.jsonl",
		SlicesJSON: "profile_export_aiperf_timeslices.json", SlicesCSV: "profile_export_aiperf_timeslices.csv",
		Network: "profile_export_network_latency.jsonl", ServerJSON: "server_metrics_export.json", ServerCSV: "server_metrics_export.csv"}
	of := func(base string) Names {
		return Names{JSON: base + ".json", CSV: base + ".csv", Records: base + ".jsonl", Censored: base + "_censored.jsonl", Console: base + "_console.txt",
			Hlog: base + ".hlog", Raw: base + "_raw.jsonl", SlicesJSON: base + "_timeslices.json", SlicesCSV: base + "_timeslices.csv",
			Network: base + "_network_latency.jsonl", ServerJSON: base + "_server_metrics.json", ServerCSV: base + "_server_metrics.csv"}
	}
	foo := of("foo")
	for prefix, want := range map[string]Names{"": def, ".json": def, "foo": foo, "foo.json": foo, "foo.jsonl": foo, "foo_raw.jsonl": foo,
		"foo_console.txt": foo, "foo_timeslices.csv": foo, "foo_server_metrics.parquet": foo, "foo.txt": of("foo.txt")} {
		if got := NewNames(prefix); got != want {
			t.Errorf("%q: %+v", prefix, got)
		}
	}
}

func TestWriteRun(t *testing.T) {
	d := Dir{Disk{}, filepath.Join(t.TempDir(), "deep [1", "run"), NewNames(""), false} // a folder is no pattern
	if err := d.Prepare(); err != nil {
		t.Fatal(err)
	}
	if got := listing(t, d.Path); len(got) != 0 {
		t.Fatalf("Prepare left %v", got)
	}
	r := twoPhases(t)
	h := hdrhistogram.New(1, 1e12, 3)
	if err := h.RecordValue(25_000_000); err != nil {
		t.Fatal(err)
	}
	def := &metrics.Def{Tag: "request_latency", Unit: metrics.Nanoseconds, Display: metrics.Milliseconds}
	hs := []metrics.Histogram{{Def: def, Hist: h, Scale: 1}}
	if err := d.WriteRun(r, hs); err != nil {
		t.Fatal(err)
	}
	want := []string{".aiperf_results_ready.json", "phase_manifest.json", "phases/a_.._b/profile_export_aiperf.csv",
		"phases/a_.._b/profile_export_aiperf.json", "phases/warmup/profile_export_aiperf.csv", "phases/warmup/profile_export_aiperf.json",
		"profile_export.hlog", "profile_export_aiperf.csv", "profile_export_aiperf.json", "profile_export_console.txt"}
	if got := listing(t, d.Path); !slices.Equal(got, want) {
		t.Errorf("files %q", got)
	}
	if got := read(t, d.Path, ReadyFile); got != string(golden(t, "warmup/aiperf_results_ready.json")) {
		t.Errorf("ready mark %s", got)
	}
	if info, err := os.Stat(filepath.Join(d.Path, ReadyFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("ready mark: %v %v", info.Mode(), err)
	}
	top := read(t, d.Path, d.Names.JSON)
	if !strings.HasSuffix(top, ",\n  \"prefire\": {\n    \"version\": \"1\"\n  }\n}") {
		t.Errorf("the summary ends with %q", top[len(top)-80:])
	}
	var phase map[string]any
	if err := json.Unmarshal([]byte(read(t, d.Path, "phases/a_.._b", d.Names.JSON)), &phase); err != nil {
		t.Fatal(err)
	}
	if phase["was_cancelled"] != true || phase["warmup_metrics"] != nil || phase["prefire"] != nil || len(phase["error_summary"].([]any)) != 1 {
		t.Errorf("phase summary: %v", phase)
	}
	var console bytes.Buffer
	if err := Console(&console, r, ConsoleWidth); err != nil || console.String() != read(t, d.Path, d.Names.Console) {
		t.Errorf("console text differs from the file: %v", err)
	}
	manifest := read(t, d.Path, ManifestFile)
	for _, part := range []string{`"metrics_json": "phases/a_.._b/profile_export_aiperf.json"`, `"phase_name": "a/../b"`,
		"\"count\": 1,\n          \"error_details\": {\n            \"cause\": null,\n            \"cause_chain\": [\n              \"x\"\n            ],\n" +
			"            \"code\": 500,\n            \"details\": null,\n            \"message\": \"no\",\n            \"type\": \"Oh\"\n"} {
		if !strings.Contains(manifest, part) {
			t.Errorf("%s is not in the manifest:\n%s", part, manifest)
		}
	}

	// The next run in the same folder must not be taken for this one.
	if err := d.Prepare(); err != nil {
		t.Fatal(err)
	}
	if got := listing(t, d.Path); len(got) != 0 {
		t.Errorf("after Prepare: %q", got)
	}
}

func TestOnePhaseHasNoFolderOfItsOwn(t *testing.T) {
	d := Dir{Disk{}, t.TempDir(), NewNames("foo"), false}
	r := aiperfRun(t, "streaming/summary.json")
	r.Phases = []Phase{{Name: "profiling"}}
	if err := d.WriteRun(r, nil); err != nil {
		t.Fatal(err)
	}
	if got, want := listing(t, d.Path), []string{".aiperf_results_ready.json", "foo.csv", "foo.json", "foo_console.txt"}; !slices.Equal(got, want) {
		t.Errorf("files %q", got)
	}
}

// failing is a file system on which one file cannot be made and another not be written.
type failing struct {
	Disk
	make, write string
}

func (f failing) Create(path string, perm os.FileMode) (io.WriteCloser, error) {
	if strings.Contains(path, f.make) {
		return nil, errors.New("no space")
	}
	w, err := f.Disk.Create(path, perm)
	if strings.Contains(path, f.write) {
		return full{w}, err
	}
	return w, err
}

type full struct{ io.WriteCloser }

func (full) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestOneBadFileDoesNotCostTheOthers(t *testing.T) {
	d := Dir{failing{Disk{}, "aiperf.csv", "console"}, t.TempDir(), NewNames(""), false}
	err := d.WriteRun(aiperfRun(t, "streaming/summary.json"), nil)
	if err == nil || err.Error() != "no space" {
		t.Errorf("error %v", err)
	}
	if got, want := listing(t, d.Path), []string{".aiperf_results_ready.json", "profile_export_aiperf.json"}; !slices.Equal(got, want) {
		t.Errorf("files %q", got)
	}
	want := `{"ready":true,"was_cancelled":false,"partial":true,"failed_exporters":["profile_export_aiperf.csv","profile_export_console.txt"]}`
	if got := read(t, d.Path, ReadyFile); got != want {
		t.Errorf("ready mark %s", got)
	}
}

func TestPrepareNamesTheFolder(t *testing.T) {
	d := Dir{failing{Disk{}, "probe", "-"}, t.TempDir(), NewNames(""), false}
	want := "the artifact folder " + d.Path + " cannot be written: no space; choose another with --artifact-dir"
	if err := d.Prepare(); err == nil || err.Error() != want {
		t.Errorf("error %v", err)
	}
	file := filepath.Join(d.Path, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d = Dir{Disk{}, filepath.Join(file, "run"), NewNames(""), false}
	err := d.Prepare()
	if err == nil || !strings.HasPrefix(err.Error(), "the artifact folder "+d.Path+" cannot be made: ") {
		t.Errorf("error %v", err)
	}
}

func TestAppendedFile(t *testing.T) {
	d := Dir{Disk{}, t.TempDir(), NewNames(""), false}
	a := d.Append("x.jsonl")
	if err := errors.Join(a.Flush(), a.Close()); err != nil || len(listing(t, d.Path)) != 0 {
		t.Errorf("a file without lines: %v, %v", err, listing(t, d.Path))
	}
	line := bytes.Repeat([]byte("x"), 100<<10)
	line[len(line)-1] = '\n'
	for range 3 {
		if _, err := a.Write(line); err != nil {
			t.Fatal(err)
		}
	}
	// The third line did not fit beside the first two: what is on disk ends with a whole line.
	if got := read(t, d.Path, "x.jsonl"); len(got) != 2*len(line) {
		t.Errorf("%d bytes on disk, want two lines of %d", len(got), len(line))
	}
	if err := a.Flush(); err != nil {
		t.Fatal(err)
	}
	if got := read(t, d.Path, "x.jsonl"); len(got) != 3*len(line) {
		t.Errorf("%d bytes on disk after Flush", len(got))
	}
	if err := errors.Join(a.Close(), a.Close()); err != nil {
		t.Error(err)
	}
}

func TestStreamIsSeenOnlyWhole(t *testing.T) {
	d := Dir{Disk{}, t.TempDir(), NewNames(""), false}
	s, err := d.Stream(InputsFile)
	if err != nil {
		t.Fatal(err)
	}
	in := NewInputs(s, 0)
	if err := errors.Join(in.Add("a", []byte(`{"x":1}`)), in.Close()); err != nil {
		t.Fatal(err)
	}
	if got := listing(t, d.Path); !slices.Equal(got, []string{".inputs.json.tmp"}) {
		t.Errorf("while it grows: %q", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := listing(t, d.Path); !slices.Equal(got, []string{InputsFile}) {
		t.Errorf("at the end: %q", got)
	}
	s, err = d.Stream("other")
	if err != nil {
		t.Fatal(err)
	}
	s.Discard()
	if got := listing(t, d.Path); !slices.Equal(got, []string{InputsFile}) {
		t.Errorf("after Discard: %q", got)
	}
}

func TestInputsAreCutAtTheirLimit(t *testing.T) {
	var out bytes.Buffer
	in := NewInputs(&out, 300)
	for range 5 {
		if err := in.Add("s", []byte(`{"messages":[]}`), []byte(`{"second":2}`)); err != nil {
			t.Fatal(err)
		}
	}
	in.LeaveOut(2)
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	want := `{
  "data": [
    {
      "session_id": "s",
      "payloads": [
        {
          "messages": []
        },
        {
          "second": 2
        }
      ]
    }
  ],
  "prefire_truncated": {
    "sessions_written": 1,
    "sessions_left_out": 6,
    "limit_bytes": 300
  }
}`
	same(t, "inputs.json", out.Bytes(), []byte(want))
	if in.Truncated() != 6 {
		t.Errorf("Truncated() = %d", in.Truncated())
	}
}

func TestInputsOfNothing(t *testing.T) {
	var out bytes.Buffer
	in := NewInputs(&out, 0)
	if err := in.Close(); err != nil || out.String() != "{\n  \"data\": []\n}" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

func TestInputsReportWriteErrors(t *testing.T) {
	in := NewInputs(full{}, 0)
	body := append(append([]byte(`"`), bytes.Repeat([]byte("x"), 70<<10)...), '"')
	if err := in.Add("s", body); err == nil || err.Error() != "disk full" {
		t.Errorf("error %v", err)
	}
	if err := in.Close(); err == nil || err.Error() != "disk full" {
		t.Errorf("error %v", err)
	}
}

func TestHlogIsReadByTheLibrary(t *testing.T) {
	ttft := hdrhistogram.New(1, 1e12, 3)
	tps := hdrhistogram.New(1, 1e12, 3)
	for i := range int64(100) {
		if err := errors.Join(ttft.RecordValue(20_000_000+i*1000), tps.RecordValue(200_000_000+i)); err != nil {
			t.Fatal(err)
		}
	}
	hs := []metrics.Histogram{
		{Def: &metrics.Def{Tag: "time_to_first_token", Unit: metrics.Nanoseconds, Display: metrics.Milliseconds}, Hist: ttft, Scale: 1},
		{Def: &metrics.Def{Tag: "output_token_throughput_per_user", Unit: metrics.TokensPerSecUser, Display: metrics.TokensPerSecUser},
			Hist: tps, Scale: 1e6},
	}
	var out bytes.Buffer
	start := time.UnixMilli(1_796_058_000_250)
	if err := Hlog(&out, hs, start, start.Add(1500*time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	for i, want := range []string{
		"#[Histogram log format version 1.3]",
		"#[time_to_first_token: a recorded value is 1 times the value in ns; Interval_Max is in ms]",
		"#[output_token_throughput_per_user: a recorded value is 1000000 times the value in tokens/sec/user; Interval_Max is in tokens/sec/user]",
		"#[StartTime: 1796058000 (seconds since epoch), 2026-11-30T17:00:00Z]",
		`"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"`,
		"Tag=time_to_first_token,1796058000.250,1.500,20.103,",
		"Tag=output_token_throughput_per_user,1796058000.250,1.500,200.016,",
	} {
		if !strings.HasPrefix(lines[i], want) {
			t.Errorf("line %d is %.120q, want %q", i+1, lines[i], want)
		}
	}
	in := hdrhistogram.NewHistogramLogReader(&out)
	for _, h := range hs {
		got, err := in.NextIntervalHistogram()
		if err != nil {
			t.Fatal(err)
		}
		if got.Tag() != h.Def.Tag || !got.Equals(h.Hist) || got.TotalCount() != 100 {
			t.Errorf("%s came back as %s with %d values", h.Def.Tag, got.Tag(), got.TotalCount())
		}
	}
}

func TestRedactor(t *testing.T) {
	if got := NewRedactor("Bearer sk-12345").String("Bearer sk-12345, sk-12345, Bearer"); got != "<redacted>, <redacted>, Bearer" {
		t.Error(got)
	}
	r := NewRedactor("sk-abc", "sk-abcdef", "", "key")
	if got := r.String("sk-abcdef sk-abc the key"); got != "<redacted> <redacted> the key" {
		t.Error(got)
	}
	if got := (*Redactor)(nil).String("sk-abc"); got != "sk-abc" {
		t.Error(got)
	}
	run := &Run{Secrets: r, Errors: []metrics.ErrorCount{{Error: metrics.Error{Code: 401, Message: "bad sk-abc", Cause: "sk-abc"}, Count: 1}},
		Phases: []Phase{{Errors: []metrics.ErrorCount{{Error: metrics.Error{Message: "bad sk-abc", Cause: "sk-abc"}, Count: 1}}}}}
	var out bytes.Buffer
	if err := errors.Join(JSON(&out, run), Console(&out, run, ConsoleWidth), Manifest(&out, run, NewNames(""))); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "sk-abc") || strings.Count(out.String(), Redacted) != 6 {
		t.Error(out.String())
	}
}

func TestSensitiveHeader(t *testing.T) {
	for name, want := range map[string]bool{"Authorization": true, "X-API-Key": true, "api_key": true, "X-Acme-Token": true, "Cookie": true,
		"X-Session-Affinity": true, "Ocp-Apim-Subscription-Key": true, "X-Functions-Key": true, "Accept": false, "Content-Type": false,
		"User-Agent": false, "X-Request-ID": false} {
		if got := SensitiveHeader(name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
