package config

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
)

// noEnv is an environment without variables.
func noEnv(string) (string, bool) { return "", false }

// files is a reader over texts by name.
func files(texts map[string]string) func(string) ([]byte, error) {
	return func(path string) ([]byte, error) {
		text, ok := texts[path]
		if !ok {
			return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
		}
		return []byte(text), nil
	}
}

// mustParse parses args, with the text of run.yaml where it is not empty.
func mustParse(t *testing.T, yaml string, args ...string) *Config {
	t.Helper()
	c, err := parseWith(yaml, args...)
	if err != nil {
		t.Fatalf("Parse(%q): %v", args, err)
	}
	return c
}

func parseWith(yaml string, args ...string) (*Config, error) {
	texts := map[string]string{}
	if yaml != "" {
		texts["run.yaml"] = yaml
		args = append([]string{"-f", "run.yaml"}, args...)
	}
	return Parse(args, noEnv, files(texts))
}

// message is the text of the *Error that parsing ends in.
func message(t *testing.T, yaml string, args ...string) string {
	t.Helper()
	c, err := parseWith(yaml, args...)
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("Parse(%q) = %+v, %v; want an *Error", args, c, err)
	}
	return e.Msg
}

func fixture(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// closedLoad is the load of a phase of which nothing but a concurrency is known.
func closedLoad() Load { return Load{Type: "concurrency"} }
