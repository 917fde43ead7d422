package config

import (
	"slices"
	"strings"
	"testing"
)

func TestServerMetrics(t *testing.T) {
	flag := func(args ...string) *Config {
		return mustParse(t, "", append([]string{"-m", "m", "--tokenizer", "builtin"}, args...)...)
	}
	const ok = "phases: {type: concurrency, requests: 5}\n"
	file := func(section string, args ...string) *Config {
		return mustParse(t, minimal(ok+"  server_metrics: "+section), append([]string{"--tokenizer", "builtin"}, args...)...)
	}
	both, none := &ServerMetrics{JSON: true, CSV: true}, (*ServerMetrics)(nil)
	for _, c := range []struct {
		name  string
		c     *Config
		want  *ServerMetrics
		input string
	}{
		{"by default", flag(), both, `"server_metrics":{"enabled":true,"urls":[],"formats":["json","csv"]}`},
		{"off", flag("--no-server-metrics"), none, `"server_metrics":{"enabled":false}`},
		{"addresses", flag("--server-metrics", "h:1", "https://x/metrics/,y:2/a", "word", "--server-metrics-formats", "JSON"),
			&ServerMetrics{URLs: []string{"http://h:1/metrics", "https://x/metrics", "http://y:2/a/metrics"}, JSON: true},
			`"server_metrics":{"enabled":true,"urls":["http://h:1/metrics","https://x/metrics","http://y:2/a/metrics"],"formats":["json"]}`},
		{"a file without", mustParse(t, minimal(ok), "--tokenizer", "builtin"), both, ""},
		{"a file that is off", file("{enabled: false}"), none, `"server_metrics":{"enabled":false}`},
		{"off again", file("{urls: ['h:1']}", "--no-server-metrics"), none, `"server_metrics":{"enabled":false}`},
		{"on again", file("{enabled: false}", "--server-metrics", "h:1"), &ServerMetrics{URLs: []string{"http://h:1/metrics"}, JSON: true, CSV: true},
			`"server_metrics":{"enabled":true,"urls":["http://h:1/metrics"]}`},
		{"an address alone", file("http://h:9/metrics"), &ServerMetrics{URLs: []string{"http://h:9/metrics"}, JSON: true, CSV: true},
			`"server_metrics":{"enabled":true,"urls":["http://h:9/metrics"]}`},
		{"formats", file("{formats: [csv]}"), &ServerMetrics{CSV: true}, `"server_metrics":{"formats":["csv"]}`},
	} {
		got := c.c.ServerMetrics
		if (got == nil) != (c.want == nil) || got != nil && (!slices.Equal(got.URLs, c.want.URLs) || got.JSON != c.want.JSON || got.CSV != c.want.CSV) {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
		b, err := c.c.Input.MarshalJSON()
		if err != nil || !strings.Contains(string(b), c.input) || c.input == "" && strings.Contains(string(b), "server_metrics") {
			t.Errorf("%s: %s, %v", c.name, b, err)
		}
	}
	for args, want := range map[string]string{
		"--no-server-metrics|--server-metrics|h:1": "Cannot use both --no-server-metrics and --server-metrics together. Use only one or the other.",
		"--server-metrics-formats|parquet":         "--server-metrics-formats: parquet: the server's metrics as parquet are not supported yet by this version of prefire, which writes 'json' and 'csv'.",
		"--server-metrics-formats|json|jsonl":      "the server's metrics as jsonl are not supported yet",
		"--server-metrics-formats|xml":             "--server-metrics-formats: Input should be 'json', 'csv', 'jsonl' or 'parquet', got 'xml'.",
		"--server-metrics|ftp://h":                 "",
		"--server-metrics|http://h:99999":          "has an invalid port",
	} {
		args := append([]string{"-m", "m", "--tokenizer", "builtin"}, strings.Split(args, "|")...)
		if want == "" {
			want = "unsupported scheme 'ftp'"
		}
		if got := message(t, "", args...); !strings.Contains(got, want) {
			t.Errorf("%q: %s", args, got)
		}
	}
}
