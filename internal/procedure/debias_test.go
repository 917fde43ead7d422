package procedure

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"

	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"prefire/metrics"
)

func change(t *testing.T, d *Debiased, tag string) *Change {
	t.Helper()
	for i := range d.Changes {
		if d.Changes[i].Def.Tag == tag {
			return &d.Changes[i]
		}
	}
	t.Fatalf("%s is not among the changes", tag)
	return nil
}

func same(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Max(math.Abs(a), math.Abs(b)) }

func readJSONLines[T any](t *testing.T, file string) []T {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []T
	for sc := bufio.NewScanner(bytes.NewReader(data)); sc.Scan(); {
		var v T
		if err := json.Unmarshal(sc.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		out = append(out, v)
	}
	return out
}

// aiperf's own artifacts: with the cold requests each metric is aiperf's to the last digits, and without them TTFT is the mean of aiperf's
// own records of requests that were not the first of their connection by the server's log.
func TestDebiasOfRealRuns(t *testing.T) {
	for name, want := range map[string]struct{ requests, cold int }{"c1": {10, 1}, "c5": {30, 5}, "c50": {100, 50}} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join("testdata", "aiperf-0.13.0", name)
			f, err := os.Open(filepath.Join(dir, defaultRecords))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			d, err := Debias(f)
			if err != nil {
				t.Fatal(err)
			}
			if d.Requests != want.requests || d.Cold != want.cold || d.Signs.NewConnection != want.cold || d.Untold != 0 || d.Failed != 0 {
				t.Errorf("%+v, want %d requests, %d of them cold by a new connection", d, want.requests, want.cold)
			}
			first := map[string]bool{}
			for _, l := range readJSONLines[struct {
				ID  string `json:"x_request_id"`
				Use int    `json:"request_on_connection"`
			}](t, filepath.Join(dir, "server.jsonl")) {
				first[l.ID] = l.Use == 1
			}
			sum, n := 0., 0
			for _, r := range readJSONLines[struct {
				Metadata struct {
					ID string `json:"x_request_id"`
				}
				Metrics struct {
					TTFT struct{ Value float64 } `json:"time_to_first_token"`
				}
			}](t, filepath.Join(dir, defaultRecords)) {
				if !first[r.Metadata.ID] {
					sum, n = sum+r.Metrics.TTFT.Value, n+1
				}
			}
			ttft := change(t, d, "time_to_first_token")
			if int64(n) != ttft.After.Count || !same(ttft.After.Avg, sum/float64(n)) {
				t.Errorf("TTFT is %v over %d without cold requests; by the server's log %v over %d", ttft.After.Avg, ttft.After.Count, sum/float64(n), n)
			}
			if ttft.Before.Avg < 180 || ttft.After.Max >= 1500 || d.Severity != metrics.SeverityHigh {
				t.Errorf("TTFT moves from avg %v to max %v, severity %s", ttft.Before.Avg, ttft.After.Max, d.Severity)
			}
			data, err := os.ReadFile(filepath.Join(dir, defaultSummary))
			if err != nil {
				t.Fatal(err)
			}
			var own map[string]json.RawMessage
			if err := json.Unmarshal(data, &own); err != nil {
				t.Fatal(err)
			}
			if len(d.Changes) != 10 {
				t.Errorf("%d metrics, want the 10 that leave cold requests out", len(d.Changes))
			}
			for _, c := range d.Changes {
				var m struct{ Avg, Min, Max, Std, Sum, P1, P50, P99 float64 }
				if err := json.Unmarshal(own[c.Def.Tag], &m); err != nil {
					t.Fatalf("%s: %v", c.Def.Tag, err)
				}
				b := c.Before
				got := [...]float64{b.Avg, b.Min, b.Max, b.Std, b.Sum, b.P[0], b.P[4], b.P[8]}
				for i, v := range [...]float64{m.Avg, m.Min, m.Max, m.Std, m.Sum, m.P1, m.P50, m.P99} {
					if !same(got[i], v) {
						t.Errorf("%s with the cold requests: value %d is %v, aiperf has %v", c.Def.Tag, i, got[i], v)
					}
				}
			}
		})
	}
}

// record is a record with a TTFT and the connection facts given; a fact below 0 is absent.
func record(ttft, reused, dns, connect float64) string {
	s := fmt.Sprintf(`{"metadata":{"session_num":0,"benchmark_phase":"profiling","was_cancelled":false},"metrics":{"time_to_first_token":{"value":%v,"unit":"ms"}`, ttft)
	for _, f := range []struct {
		tag, unit string
		v         float64
	}{{"http_req_connection_reused", "ratio", reused}, {"http_req_dns_lookup", "ms", dns}, {"http_req_connecting", "ms", connect}} {
		if f.v >= 0 {
			s += fmt.Sprintf(`,%q:{"value":%v,"unit":%q}`, f.tag, f.v, f.unit)
		}
	}
	return s + "}}\n"
}

func TestSigns(t *testing.T) {
	hot := record(100, 1, 0, 0)
	for name, c := range map[string]struct {
		records  string
		cold     int
		signs    Signs
		untold   int
		after    float64
		severity metrics.Severity
		moved    float64 // -1 = nil
	}{
		"none cold":              {hot + hot, 0, Signs{}, 0, 100, metrics.SeverityNone, -1},
		"a new connection":       {hot + record(300, 0, 0, 2), 1, Signs{NewConnection: 1}, 0, 100, metrics.SeverityHigh, 100},
		"DNS above 500 ms":       {hot + record(300, 1, 500.5, 0), 1, Signs{SlowDNS: 1}, 0, 100, metrics.SeverityHigh, 100},
		"500 ms is not above":    {hot + record(300, 1, 500, 500), 0, Signs{}, 0, 200, metrics.SeverityNone, -1},
		"connect above 500 ms":   {hot + record(300, -1, -1, 501), 1, Signs{SlowConnect: 1}, 0, 100, metrics.SeverityHigh, 100},
		"all three":              {hot + record(300, 0, 1002, 1144), 1, Signs{1, 1, 1}, 0, 100, metrics.SeverityHigh, 100},
		"10 % is medium":         {hot + record(120, 0, 0, 0), 1, Signs{NewConnection: 1}, 0, 100, metrics.SeverityMedium, 10},
		"2 % is medium":          {hot + record(104, 0, 0, 0), 1, Signs{NewConnection: 1}, 0, 100, metrics.SeverityMedium, 2},
		"below 2 % is low":       {hot + record(103, 0, 0, 0), 1, Signs{NewConnection: 1}, 0, 100, metrics.SeverityLow, 1.5},
		"faster is a change too": {hot + record(50, 0, 0, 0), 1, Signs{NewConnection: 1}, 0, 100, metrics.SeverityHigh, 25},
		"no facts":               {hot + record(300, -1, -1, -1), 0, Signs{}, 1, 200, metrics.SeverityNone, -1},
		"all cold":               {record(300, 0, 0, 0), 1, Signs{NewConnection: 1}, 0, 0, metrics.SeverityHigh, -1},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := Debias(strings.NewReader(c.records))
			if err != nil {
				t.Fatal(err)
			}
			if d.Cold != c.cold || d.Signs != c.signs || d.Untold != c.untold || d.Severity != c.severity {
				t.Errorf("%+v, want %+v", d, c)
			}
			if ttft := change(t, d, "time_to_first_token"); ttft.Gone != (c.after == 0) || ttft.After.Avg != c.after {
				t.Errorf("TTFT without cold requests is %v, want %v", ttft.After.Avg, c.after)
			}
			if (d.Moved == nil) != (c.moved < 0) || d.Moved != nil && !same(*d.Moved, c.moved) {
				t.Errorf("moved by %v, want %v", d.Moved, c.moved)
			}
		})
	}
}

// Warm-up, failed and cancelled requests are in no latency metric.
func TestOnlyAnsweredRequestsOfProfiling(t *testing.T) {
	in := record(100, 1, 0, 0) +
		strings.Replace(record(900, 1, 0, 0), "profiling", "warmup", 1) +
		strings.Replace(record(900, 1, 0, 0), `"was_cancelled":false`, `"was_cancelled":true`, 1) +
		strings.Replace(record(900, 1, 0, 0), `{"metadata"`, `{"error":{"code":500,"message":"x"},"metadata"`, 1) +
		strings.Replace(record(200, 1, 0, 0), `{"metadata"`, `{"error":null,"metadata"`, 1)
	d, err := Debias(strings.NewReader(in))
	if err != nil {
		t.Fatal(err)
	}
	if ttft := change(t, d, "time_to_first_token"); d.Requests != 2 || d.Failed != 2 || ttft.Before.Avg != 150 {
		t.Errorf("%d requests, %d failed, TTFT %v; want 2, 2, 150", d.Requests, d.Failed, ttft.Before.Avg)
	}
}

func TestRecordsThatCannotBeRead(t *testing.T) {
	whole := record(100, 1, 0, 0)
	for name, c := range map[string]struct{ in, want string }{
		"half a line in the middle": {whole[:40] + "\n" + whole, "line 1 is no record"},
		"another file":              {whole + "{\"a\":1}\n", "line 2 is no record: it has no metadata or no metrics"},
		"an array":                  {"[]\n", "line 1 is no record"},
	} {
		if _, err := Debias(strings.NewReader(c.in)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if d, err := Debias(strings.NewReader(whole + whole[:40])); err != nil || !d.CutLine || d.Requests != 1 {
		t.Errorf("a run that was killed: %+v, %v", d, err)
	}
	odd := strings.Replace(whole, `"unit":"ms"`, `"unit":"furlongs"`, 1)
	if d, err := Debias(strings.NewReader(odd + odd)); err != nil || len(d.Changes) != 0 || d.Odd["time_to_first_token"] != `its unit is "furlongs" in the records, "ms" is known` {
		t.Errorf("an unknown unit: %+v, %v", d, err)
	}
}

// No input panics, and a run is never split into more than its parts.
func FuzzDebias(f *testing.F) {
	f.Add(record(100, 1, 0, 0) + record(300, 0, 600, 0))
	f.Add(`{"metadata":{},"metrics":{"inter_chunk_latency":{"value":[1,2],"unit":"ms"}}}`)
	f.Fuzz(func(t *testing.T, in string) {
		d, err := Debias(strings.NewReader(in))
		if err != nil {
			return
		}
		if d.Cold+d.Untold > d.Requests {
			t.Errorf("%d cold and %d untold of %d", d.Cold, d.Untold, d.Requests)
		}
		for _, c := range d.Changes {
			if c.After.Count > c.Before.Count {
				t.Errorf("%s has %d values without cold requests, %d with", c.Def.Tag, c.After.Count, c.Before.Count)
			}
		}
	})
}

func TestFindArtifacts(t *testing.T) {
	file := &fstest.MapFile{}
	got, err := FindArtifacts(fstest.MapFS{
		"b/profile_export.jsonl": file, "b/profile_export_aiperf.json": file, "b/profile_export_aiperf.csv": file,
		"b/profile_export_aiperf_debiased.json": file, "b/profile_export_censored.jsonl": file, "b/inputs.json": file,
		"a/deep/mine.jsonl": file, "a/deep/mine.json": file, "a/deep/mine_raw.jsonl": file,
		"c/profile_export.jsonl": file,
	})
	want := []Artifacts{
		{"a/deep/mine.jsonl", "a/deep/mine.json", ""},
		{"b/profile_export.jsonl", "b/profile_export_aiperf.json", "b/profile_export_aiperf.csv"},
		{"c/profile_export.jsonl", "", ""},
	}
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
}

// brokenFS cannot look into one folder.
type brokenFS struct{ fstest.MapFS }

func (b brokenFS) ReadDir(name string) ([]fs.DirEntry, error) {
	if name == "locked" {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return b.MapFS.ReadDir(name)
}

func TestFolderThatCannotBeRead(t *testing.T) {
	got, err := FindArtifacts(brokenFS{fstest.MapFS{"locked/x": {}, "open/profile_export.jsonl": {}}})
	if err == nil || !strings.Contains(err.Error(), "locked") || len(got) != 1 {
		t.Errorf("%v, %v", got, err)
	}
}
