package config

import (
	"reflect"
	"strings"
	"testing"
)

func TestCommandLine(t *testing.T) {
	tests := []struct{ args, want string }{ // split at |
		{"--model|a b|--concurrency|3|--streaming|--ui|none", "prefire profile --model 'a b' --concurrency 3 --streaming --ui 'none'"},
		{"-mfoo|--isl=5|-u|a|b:1", "prefire profile -m 'foo' --isl=5 -u 'a' 'b:1'"},
		{"--model|it's|--random-seed|-1|--benchmark-duration|0.5",
			`prefire profile --model 'it'\''s' --random-seed -1 --benchmark-duration 0.5`},
		{"--api-key|SECRET", "prefire profile --api-key '<redacted>'"},
		{"--api_key=SECRET", "prefire profile --api-key='<redacted>'"},
		{"--header|X:1|Authorization: Bearer SECRET|-H|X-Acme-Token:SECRET,Y:2",
			"prefire profile --header 'X:1' 'Authorization:<redacted>' -H 'X-Acme-Token:<redacted>,Y:2'"},
		{`-H{"Cookie": "SECRET"}`, "prefire profile -H 'Cookie:<redacted>'"},
		{"-H|no colon SECRET", "prefire profile -H '<redacted>'"},
		{"--url|http://u:SECRET@h/x?token=SECRET&a=1#f|SECRET:SECRET@h2", "prefire profile --url " +
			"'http://<redacted>@h/x?token=<redacted>&a=1#f' '<redacted>@h2'"},
		{`--extra-inputs|max_tokens:3|api_key:SECRET|{"auth":{"password":"SECRET"}}`,
			`prefire profile --extra-inputs 'max_tokens:3' 'api_key:<redacted>' 'auth:{"password":"<redacted>"}'`},
		{"--unknown|x|--model|$(y)|", "prefire profile --unknown 'x' --model '$(y)' ''"},
	}
	for _, tt := range tests {
		if got := CommandLine("prefire", "profile", strings.Split(tt.args, "|")); got != tt.want {
			t.Errorf("%s:\ngot  %s\nwant %s", tt.args, got, tt.want)
		}
	}
}

// shellWords splits a command line as a shell does, as far as quote makes use of it.
func shellWords(s string) []string {
	var words []string
	var b strings.Builder
	quoted, any := false, false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\'':
			quoted, any = !quoted, true
		case c == '\\' && !quoted:
			i++
			b.WriteByte(s[i])
		case c == ' ' && !quoted:
			if any || b.Len() > 0 {
				words = append(words, b.String())
			}
			b.Reset()
			any = false
		default:
			b.WriteByte(c)
		}
	}
	return append(words, b.String())
}

func TestCommandLineRunsAgain(t *testing.T) {
	for _, args := range [][]string{
		append([]string{"--header", "Accept: a, b", "X: it's $HOME", "-u", "a", "b", "--ui=none", "-v"}, quiet...),
		append([]string{"--extra-inputs", `{"a": [1, "x y"], "b": null}`, "c:true", "--tokenizer", "a'b\"c\\d"}, quiet...),
		append([]string{"-H{\"X\": \"1\"}", "--benchmark-duration", "5m", "--artifact-dir", "-x y"}, quiet...),
	} {
		want := mustParse(t, "", args...)
		words := shellWords(want.Command)
		if words[0] != "aiperf" || words[1] != "profile" {
			t.Fatalf("the command line is %s", want.Command)
		}
		got := mustParse(t, "", words[2:]...)
		want.Command, got.Command = "", ""
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%q run again:\ngot  %+v\nwant %+v", args, got, want)
		}
	}
}

// What stands beside a secret is written as it can be given again.
func TestWhatStandsBesideASecretStays(t *testing.T) {
	for _, tt := range []struct{ word, want string }{
		{`seed:null,stop:["a","b"],on:true,token:S`, `'seed:null,stop:["a","b"],on:true,token:<redacted>'`},
		{`{"n":1.5,"token":"S"}`, `'n:1.5,token:<redacted>'`},
	} {
		if got := CommandLine("aiperf", "profile", []string{"--extra-inputs", tt.word}); got != "aiperf profile --extra-inputs "+tt.want {
			t.Errorf("%s: %s, want %s", tt.word, got, tt.want)
		}
	}
}

func TestSecretsStayOut(t *testing.T) {
	const yaml = `
benchmark:
  model: m
  endpoint:
    urls: ["http://u:SECRET@h/v1?api_key=SECRET"]
    api_key: SECRET
    headers: {Authorization: "Bearer SECRET", X-Session-Thing: SECRET, Ocp-Apim-Subscription-Key: SECRET}
    extra: {token: SECRET, deep: {client_secret: SECRET}}
  dataset: {isl: 8}
  phases: {type: concurrency, requests: 1}
`
	c := mustParse(t, yaml, "--api-key", "SECRET", "-H", "X-Auth:SECRET", "--extra-inputs", "password:SECRET",
		`{"tools":[{"api_key":"SECRET"}],"credential":{"of":["SECRET"]}}`, "--endpoint", "/v1/chat/completions?a=1&token=SECRET")
	if c.Endpoint.APIKey != "SECRET" || len(c.Endpoint.Headers) != 4 {
		t.Fatalf("the secrets did not reach the config: %+v", c.Endpoint)
	}
	for name, text := range map[string]string{
		"echo": asJSON(t, c.Input), "command line": c.Command, "notices": strings.Join(c.Notices, "\n"),
	} {
		if strings.Contains(text, "SECRET") {
			t.Errorf("the %s has a secret in it: %s", name, text)
		}
	}
	for _, args := range [][]string{
		{"-m", "m", "--url", "ftp://u:SECRET@h"}, {"-m", "m", "--url", "http://u:SECRET@h:99999"}, {"-m", "m", "-H",
			"Authorization:SECRET\nx"},
		{"-m", "m", "--api-key", "SECRET\n"}, {"-m", "m", "-H", "Authorization SECRET"},
	} {
		if got := message(t, "", args...); strings.Contains(got, "SECRET") {
			t.Errorf("%q: the message has a secret in it: %s", args, got)
		}
	}
	for _, edit := range [][2]string{{"api_key: SECRET", "api_key: [SECRET]"}, {`"Bearer SECRET"`, `"Bearer SECRET\n"`}, {"http://u",
		"ftp://u"}} {
		if got := message(t, strings.Replace(yaml, edit[0], edit[1], 1)); strings.Contains(got, "SECRET") {
			t.Errorf("%q: the message has a secret in it: %s", edit, got)
		}
	}
}

func TestRedactURL(t *testing.T) {
	for given, want := range map[string]string{
		"http://h/v1":               "http://h/v1",
		"http://u:p@h/v1":           "http://<redacted>@h/v1",
		"http://u@h":                "http://<redacted>@h",
		"http://h/a@b?e=c@d":        "http://h/a@b?e=c@d",
		"u:p@h:1":                   "<redacted>@h:1",
		"me@h":                      "me@h",
		"http://h?api%5Fkey=x&n=1":  "http://h?api%5Fkey=<redacted>&n=1",
		"http://h?token_count=3":    "http://h?token_count=3",
		"http://h?api+key=x#token=": "http://h?api+key=<redacted>#token=",
	} {
		if got := redactURL(given); got != want {
			t.Errorf("redactURL(%q) = %q, want %q", given, got, want)
		}
	}
}
