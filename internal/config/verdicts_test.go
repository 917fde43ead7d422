package config

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	verdictsFrom = flag.String("verdicts.from", "", "file with aiperf's verdicts on mutations of its own templates (testdata/verdicts.py all), in place of the few kept here")
	aiperfFolder = flag.String("verdicts.templates", "", "folder of an installed aiperf 0.13.0's templates; not given: where shared/peers/setup.sh installs it")
)

// aiperfTemplates is the folder of the templates of an installed aiperf; "" = there is none.
func aiperfTemplates() string {
	if *aiperfFolder != "" {
		return *aiperfFolder
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	found, err := filepath.Glob(filepath.Join(home, ".cache/peers/aiperf/lib/python3*/site-packages/aiperf/config/templates"))
	if err != nil || len(found) == 0 {
		return ""
	}
	return found[0]
}

// verdict is aiperf's word on a file of which one line was changed (testdata/verdicts.py says how).
type verdict struct {
	File, Kind, Error string
	Line              int
	Valid             bool
}

var keyLine = regexp.MustCompile(`^(\s*(?:- )?)([A-Za-z_]+):( +)([^\s#].*)$`)

func (v verdict) mutate(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if v.Kind != "" {
		at := v.Line - 1
		m := keyLine.FindStringSubmatch(lines[at])
		key := m[1] + m[2]
		switch v.Kind {
		case "drop":
			lines = slices.Delete(lines, at, at+1)
		case "misspell":
			lines[at] = key + "x:" + m[3] + m[4]
		case "list":
			lines[at] = key + ":" + m[3] + "[1]"
		case "word":
			lines[at] = key + ":" + m[3] + "oops"
		case "null":
			lines[at] = key + ":"
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

// refusals are the words with which a message names what aiperf has and prefire does not.
var refusals = []string{"known to aiperf, not supported by this version of prefire", "not part of prefire"}

// checkVerdicts holds Validate against aiperf's verdicts: it agrees, or names what it refuses.
func checkVerdicts(t *testing.T, list []byte, read func(name string) string) (agreed, refused int) {
	t.Helper()
	for lines := bufio.NewScanner(bytes.NewReader(list)); lines.Scan(); {
		var v verdict
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		_, err := Validate("run.yaml", noEnv, files(map[string]string{"run.yaml": v.mutate(read(v.File))}))
		var e *Error
		switch {
		case err != nil && !errors.As(err, &e):
			t.Errorf("%s:%d %s: %v", v.File, v.Line, v.Kind, err)
		case (err == nil) == v.Valid:
			agreed++
		case err == nil && v.File == "sweep_distributions.yaml" && overruled(v): // docs/differences.md
			agreed++
		case err != nil && slices.ContainsFunc(refusals, func(s string) bool { return strings.Contains(e.Msg, s) }):
			refused++
		default:
			t.Errorf("%s:%d %s: aiperf takes it: %t (%s); prefire: %v", v.File, v.Line, v.Kind, v.Valid, strings.ReplaceAll(v.Error, "\n", " | "), err)
		}
	}
	return agreed, refused
}

// overruled are aiperf's verdicts on a template of a sweep that prefire runs: aiperf refuses the template itself, as a sweep over its one
// dataset, and what the sweep replaces in every run (the lines of isl and rate) need not be right in the file.
func overruled(v verdict) bool {
	return v.Kind == "" || strings.Contains(v.Error, "'dataset' cannot be used with 'datasets'") || v.Line == 63 || v.Line == 75
}

// Every mutation of prefire's own templates is valid here where it is in aiperf.
func TestVerdictsOnOwnTemplates(t *testing.T) {
	agreed, refused := checkVerdicts(t, []byte(fixture(t, "verdicts-own.jsonl")), func(name string) string {
		b, err := os.ReadFile(filepath.Join("templates", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	})
	if agreed < 500 || refused > 0 {
		t.Errorf("%d verdicts agree, %d times prefire refuses what aiperf takes", agreed, refused)
	}
}

// aiperf's own templates, and mutations of them, which stay with aiperf.
func TestVerdictsOnAiperfsTemplates(t *testing.T) {
	folder := aiperfTemplates()
	if folder == "" {
		t.Skip("SKIP: there is no aiperf (-verdicts.templates names its templates)")
	}
	list := []byte(fixture(t, "verdicts-aiperf.jsonl"))
	if *verdictsFrom != "" {
		var err error
		if list, err = os.ReadFile(*verdictsFrom); err != nil {
			t.Fatal(err)
		}
	}
	agreed, refused := checkVerdicts(t, list, func(name string) string {
		b, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	})
	t.Logf("%d verdicts agree, %d files are refused by name", agreed, refused)
}
