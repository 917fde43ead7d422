package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// The files of real runs keep to the published schemas.
func TestFilesKeepToTheSchemas(t *testing.T) {
	compile := func(name string) *jsonschema.Schema {
		s, err := jsonschema.NewCompiler().Compile(filepath.Join("../../docs/schema", name))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	summary, record := compile("summary.json"), compile("record.json")
	check := func(s *jsonschema.Schema, doc []byte) {
		t.Helper()
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(doc))
		if err == nil {
			err = s.Validate(v)
		}
		if err != nil {
			t.Errorf("%v in %.2000s", err, doc)
		}
	}
	line, stop := runMock("--ttft", "3ms", "--itl", "1ms", "--slots", "2", "--refuse", "429")
	defer stop()
	url, _, _ := strings.Cut(strings.TrimPrefix(line, "prefire mock: listening on "), " ")
	for _, more := range [][]string{
		{"--streaming", "--concurrency", "3", "--request-count", "8", "--warmup-request-count", "1", "--export-http-trace", "--goodput", "time_to_first_token:500",
			"--network-latency-mean", "1"},
		{"--request-rate", "200", "--request-count", "6"},
	} {
		dir := t.TempDir()
		must(t, append([]string{"profile", "-m", "mock-model", "-u", url, "--tokenizer", "builtin", "--isl", "20", "--osl", "5", "--ui", "none",
			"--artifact-dir", dir}, more...)...)
		read := func(name string) []byte {
			b, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		check(summary, read("profile_export_aiperf.json"))
		for l := range bytes.Lines(read("profile_export.jsonl")) {
			check(record, l)
		}
	}
}
