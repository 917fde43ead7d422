package config

import (
	"encoding/json"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// decodedJSON is v as encoding/json sees it after a round trip, with numbers as they are written.
func decodedJSON(t *testing.T, text string) map[string]any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var out map[string]any
	if err := d.Decode(&out); err != nil {
		t.Fatal(err)
	}
	return out
}

// The echo equals aiperf's input_config, key order and number formats included (testdata/echo.py made the list).
func TestEchoIsAiperfs(t *testing.T) {
	var cases []struct {
		YAML  string          `json:"yaml"`
		Flags []string        `json:"flags"`
		Want  json.RawMessage `json:"input_config"`
	}
	if err := json.Unmarshal([]byte(fixture(t, "aiperf-0.13.0-echo.json")), &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) != 11 {
		t.Fatalf("%d cases, want 11", len(cases))
	}
	for _, tt := range cases {
		c := mustParse(t, tt.YAML, tt.Flags...)
		ui := c.UI
		if !slices.Contains(tt.Flags, "--ui") && c.LogLevel == "INFO" {
			ui = "none" // as aiperf decides without a terminal, over a file too
		}
		c.Settle(c.Artifacts.Dir, ui)
		want := string(tt.Want)
		// aiperf puts its folder in when the run begins; prefire's has it from the start.
		if artifacts, ok := decodedJSON(t, want)["artifacts"].(map[string]any); ok && artifacts["dir"] == nil {
			dir, err := json.Marshal(c.Artifacts.Dir)
			if err != nil {
				t.Fatal(err)
			}
			want = strings.Replace(want, `"artifacts": {`, `"artifacts": {"dir": `+string(dir)+",", 1)
		}
		// A relative folder is echoed as it was given, without the ./ that Python's Path drops.
		want = strings.Replace(want, `"dir": "outx"`, `"dir": "./outx"`, 1)
		if got, want := compact(t, asJSON(t, c.Input)), compact(t, want); got != want {
			t.Errorf("%s %q:\ngot  %s\nwant %s", tt.YAML, tt.Flags, got, want)
		}
	}
}

// compact drops the whitespace between the tokens of JSON.
func compact(t *testing.T, text string) string {
	t.Helper()
	var b strings.Builder
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	for {
		tok, err := d.Token()
		if err != nil {
			return b.String()
		}
		if n, ok := tok.(json.Number); ok {
			tok = string(n)
		}
		out, err := json.Marshal(tok)
		if err != nil {
			out = []byte(tok.(json.Delim).String())
		}
		b.Write(out)
		b.WriteByte(' ')
	}
}

func TestMapKeepsOrderAndFloats(t *testing.T) {
	m := Map{{"z", 1.0}, {"a", Map{{"<k>", []any{int64(1), 2.5, nil, true, "<x>", 1e21}}}}, {"e", Map{}}, {"l", []any{}}}
	got, err := m.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"z":1.0,"a":{"<k>":[1,2.5,null,true,"<x>",1e+21]},"e":{},"l":[]}`; string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
	back, err := fromJSON(string(got))
	if err != nil || !reflect.DeepEqual(back, any(m)) {
		t.Errorf("read back: %v, %v; want %v", back, err, m)
	}
}

func TestSettle(t *testing.T) {
	c := mustParse(t, "", "--model", "m")
	c.Settle("/abs/dir", "simple")
	text := asJSON(t, c.Input)
	in := decodedJSON(t, text)
	if c.Artifacts.Dir != "/abs/dir" || c.UI != "simple" || in["artifacts"].(map[string]any)["dir"] != "/abs/dir" ||
		in["runtime"].(map[string]any)["ui"] != "simple" {
		t.Errorf("folder %q, display %q, echo %s", c.Artifacts.Dir, c.UI, text)
	}
}

func TestEndpointURL(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(fixture(t, "aiperf-0.13.0-urls.txt")), "\n")
	if len(lines) != 40 {
		t.Fatalf("%d lines, want 40", len(lines))
	}
	for _, line := range lines {
		base, rest, _ := strings.Cut(line, "\t")
		path, want, _ := strings.Cut(rest, "\t")
		got, err := EndpointURL(base, path)
		if err != nil {
			t.Errorf("EndpointURL(%q, %q): %v", base, path, err)
			continue
		}
		// An empty path is sent as / all the same.
		if u, err := url.Parse(want); err == nil && u.Path == "" {
			want += "/"
		}
		if got.String() != want {
			t.Errorf("EndpointURL(%q, %q) = %s, want %s", base, path, got, want)
		}
	}
	for _, tt := range []struct{ base, path, want string }{
		{"http://h/v1?x=1", "/p?y=2", "http://h/v1/p?x=1&y=2"},
		{"ftp://h", "/p", "URL 'ftp://h' has unsupported scheme 'ftp'. Expected 'http' or 'https'."},
		{"http://h", "/%zz", "the endpoint's path '/%zz' has a malformed % sequence."},
	} {
		u, err := EndpointURL(tt.base, tt.path)
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = u.String()
		}
		if got != tt.want {
			t.Errorf("EndpointURL(%q, %q) = %s, want %s", tt.base, tt.path, got, tt.want)
		}
	}
}
