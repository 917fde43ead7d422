package files

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The same trace gives what aiperf 0.13.0 prints and writes (testdata/trace.py says how they were made).
func TestAnalysisIsAiperfs(t *testing.T) {
	a, err := Analyze(disk{}, "testdata/trace.jsonl", 512)
	if err != nil {
		t.Fatal(err)
	}
	want := func(name string) string {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if got := string(a.JSON()); got != want("trace.json") {
		t.Errorf("the JSON is\n%s\nwant\n%s", got, want("trace.json"))
	}
	printed, _, ok := strings.Cut(want("trace.txt"), "Analysis report saved")
	if got := a.Text(); !ok || got != printed {
		t.Errorf("the text is\n%s\nwant\n%s", got, printed)
	}
}

func TestAnalysisOfLittle(t *testing.T) {
	a, err := Analyze(disk{}, write(t, "a", ""), 512)
	if err != nil {
		t.Fatal(err)
	}
	const none = `{
  "total_requests": 0,
  "unique_prefixes": 0,
  "num_prefix_groups": 0,
  "cache_hit_rate": 0.0,
  "min_isl": 0,
  "max_isl": 0,
  "avg_isl": 0.0,
  "min_osl": 0,
  "max_osl": 0,
  "avg_osl": 0.0,
  "prefix_reuse_ratio": 0.0,
  "isl_stats": null,
  "osl_stats": null,
  "context_length_stats": null,
  "unique_prompt_length_stats": null,
  "hit_rate_stats": null
}`
	if got := string(a.JSON()); got != none {
		t.Errorf("got %s", got)
	}
	if !strings.Contains(a.Text(), "│ Theoretical Hit Rates │  N/A │     N/A │ N/A │ N/A │    N/A │ N/A │ N/A │") {
		t.Errorf("got %s", a.Text())
	}
	a, err = Analyze(disk{}, write(t, "a", `{"input_length":30,"hash_ids":[1,2]}`+"\n"+`{"input_length":31,"hash_ids":[1,2]}`+"\n"+`{"input_length":32,"hash_ids":[1,3]}`), 16)
	if err != nil {
		t.Fatal(err)
	}
	// Both blocks of the first two are shared, one of the third.
	if *a.Context != (Stats7{77.0 / 3, a.Context.StdDev, 16, 23, 30, 30.5, 31}) || *a.Unique != (Stats7{16.0 / 3, a.Unique.StdDev, 0, 0, 0, 8, 16}) ||
		*a.Hits != (Stats7{0.5, a.Hits.StdDev, 0, 0.25, 0.5, 0.75, 1}) || a.UniquePrefixes != 3 || a.PrefixGroups != 1 || a.PrefixReuse != 5.0/6 {
		t.Errorf("got %s", a.JSON())
	}
	for text, words := range map[string]string{
		"{}\n[]":                  ":2: found []; allowed: a JSON object",
		`{"input_length":-1}`:     ":1: input_length: found -1; allowed: a whole number",
		`{"hash_ids":[1,"a"]}`:    `:1: hash_ids[1]: found "a"; allowed: a whole number`,
		`{"output_length":"few"}`: `:1: output_length: found "few"`,
	} {
		path := write(t, "a", text)
		if _, err := Analyze(disk{}, path, 16); err == nil || !strings.HasPrefix(err.Error(), path+words) {
			t.Errorf("%s: %v, want %s", text, err, words)
		}
	}
	if _, err := Analyze(disk{}, filepath.Join(t.TempDir(), "none"), 16); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("no file: %v", err)
	}
}
