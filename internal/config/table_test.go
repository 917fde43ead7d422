package config

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// aiperfFlag is a line of the golden list of aiperf's flags.
type aiperfFlag struct{ field, kind, names, negative, typ, fallback, choices string }

func aiperfFlags(t *testing.T, text string) []aiperfFlag {
	t.Helper()
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if len(lines) != 264 {
		t.Fatalf("the golden list has %d fields, want 264", len(lines))
	}
	var out []aiperfFlag
	for _, line := range lines {
		c := strings.Split(line, "\t")
		if len(c) != 7 {
			t.Fatalf("%q has %d columns", line, len(c))
		}
		out = append(out, aiperfFlag{c[0], c[1], c[2], c[3], c[4], c[5], c[6]})
	}
	return out
}

// otherDefaults are the flags whose default is not aiperf's, each with the reason.
var otherDefaults = map[string]string{
	"conversation_num_dataset_entries": "no prompt repeats unless it is asked for",
	"concurrency":                      "aiperf fills in 1 later",
	"dataset_sampling_strategy":        "aiperf fills in sequential later",
	"session_header":                   "aiperf's own default name",
	"reset_kv_cache_timeout_seconds":   "aiperf fills in 30 later",
	"reset_kv_cache_path":              "aiperf fills it in later",
	"server_profiler_timeout_seconds":  "aiperf fills in 30 later",
	"server_profiler_start_path":       "aiperf fills it in later",
	"server_profiler_stop_path":        "aiperf fills it in later",
	"request_content_type":             "aiperf fills it in later",
	"set_consistent_seed":              "repeats draw prompts of their own unless they are asked to be the same",
	"vary_seed_per_trial":              "repeats draw prompts of their own unless they are asked to be the same",
}

// sameDefault compares a default of the table with one of aiperf's, whose numbers and booleans are Python's.
func sameDefault(ours, theirs string) bool {
	a, errA := strconv.ParseFloat(ours, 64)
	b, errB := strconv.ParseFloat(theirs, 64)
	return strings.EqualFold(ours, theirs) || errA == nil && errB == nil && a == b
}

// Every flag of aiperf 0.13.0 is in the table, under all its names, takes what it takes there and has its default (testdata/flags.py made the
// list).
func TestTableHoldsAllOfAiperfsFlags(t *testing.T) {
	ours := map[string]Flag{}
	for _, f := range Flags() {
		ours[f.Field] = f
	}
	theirs := map[string]bool{}
	for _, a := range aiperfFlags(t, fixture(t, "aiperf-0.13.0-flags.txt")) {
		theirs[a.field] = true
		f, ok := ours[a.field]
		if !ok {
			t.Errorf("%s (%s) is not in the table", a.field, a.names)
			continue
		}
		if got := strings.Join(f.Names, " "); got != a.names {
			t.Errorf("%s: names %q, aiperf's are %q", a.field, got, a.names)
		}
		if got := strings.Join(f.Negative, " "); got != a.negative {
			t.Errorf("%s: negative names %q, aiperf's are %q", a.field, got, a.negative)
		}
		if got := f.Kind == Bool; got != (a.kind == "bool") {
			t.Errorf("%s: a switch: %t, aiperf has %s", a.field, got, a.kind)
		}
		if got := f.Several; got != (a.kind == "words") {
			t.Errorf("%s: takes several words: %t, aiperf has %s", a.field, got, a.kind)
		}
		if f.Status != Supported && f.Reason == "" || f.Status == Supported && f.Help == "" {
			t.Errorf("%s has neither a reason nor a help text", a.field)
		}
		if f.Status != Supported {
			continue
		}
		kinds := map[string][]Kind{"int": {Int}, "float": {Number, Duration}, "str": {Text, Headers, Pairs}, "enum": {Enum}}[a.typ]
		if a.typ == "enum" && f.Several {
			kinds = append(kinds, Text) // a list with commas, whose words are looked at when it is split
		}
		if kinds != nil && !slices.Contains(kinds, f.Kind) {
			t.Errorf("%s: it is of kind %d, aiperf's is %s", a.field, f.Kind, a.typ)
		}
		if same := sameDefault(f.Default, a.fallback); same != (otherDefaults[a.field] == "") {
			t.Errorf("%s: the default is %q, aiperf's is %q; why it differs: %q", a.field, f.Default, a.fallback, otherDefaults[a.field])
		}
		for c := range strings.FieldsSeq(a.choices) {
			if _, ok := choose(c, f.Choices); !ok && f.Kind == Enum {
				t.Errorf("%s: aiperf's choice %s is none of %q", a.field, c, f.Choices)
			}
		}
	}
	var own []string
	for _, f := range Flags() {
		if !theirs[f.Field] {
			own = append(own, f.Name())
		}
	}
	want := []string{"--client", "--http", "--prewarm", "--include-cold", "--streams-per-connection", "--retry-429", "--live-metrics", "--report",
		"--ca-file", "--client-cert", "--client-key", "--insecure", "--sni", "--ip-version", "--unix-socket", "--proxy", "--no-proxy", "--source-address", "--resolve",
		"--isl-counts",
		"--repeat-share"}
	if !slices.Equal(own, want) {
		t.Errorf("flags that aiperf does not have: %q, want %q", own, want)
	}
}

func TestTableIsConsistent(t *testing.T) {
	seen := map[string]string{}
	for _, f := range Flags() {
		for _, n := range slices.Concat(f.Names, f.Negative) {
			if seen[n] != "" {
				t.Errorf("%s belongs to %s and %s", n, seen[n], f.Field)
			}
			seen[n] = f.Field
		}
		if !slices.Contains(groupOrder(), f.Group) {
			t.Errorf("%s is in the group %q, which the help does not have", f.Field, f.Group)
		}
		if f.Default != "" && f.Status == Supported {
			if err := f.check(f.Name(), f.Default); err != nil {
				t.Errorf("the default of %s is not allowed: %v", f.Name(), err)
			}
		}
		for _, c := range f.Usable {
			if !slices.Contains(f.Choices, c) {
				t.Errorf("%s: %s is usable and no choice", f.Field, c)
			}
		}
	}
}

func TestHelpNamesEveryFlagInItsGroup(t *testing.T) {
	help := Help("aiperf")
	at := -1
	for _, group := range []string{
		"prefire", "Endpoint", "Input", "Output", "Tokenizer", "Load Generator", "Warmup", "Conversation Input",
		"Input Sequence Length (ISL)",
		"Output Sequence Length (OSL)", "Service", "Server Metrics", "GPU Telemetry", "UI",
	} {
		i := strings.Index(help, "\n"+group+":\n")
		if i <= at {
			t.Errorf("the group %q is missing or out of order", group)
		}
		at = i
	}
	words := " " + strings.Join(strings.FieldsFunc(help, func(r rune) bool { return r == ' ' || r == ',' || r == '\n' }), " ") + " "
	refused := strings.FieldsFunc(HelpRefused(), func(r rune) bool { return r == ' ' || r == ',' || r == '\n' })
	for _, f := range Flags() {
		names := slices.Concat(f.Names, f.Negative)
		if f.Status == Notice {
			names = []string{f.Name()}
		}
		for _, n := range names {
			if in := strings.Contains(words, " "+n+" "); in != (f.Status != Refused) {
				t.Errorf("the help names %s: %t", n, in)
			}
			if in := slices.Contains(refused, n); in != (f.Status == Refused) {
				t.Errorf("the list of refused flags has %s: %t", n, in)
			}
		}
	}
	for _, want := range []string{
		"Usage: aiperf profile [OPTIONS]", "  --url, -u TEXT ...\n", "  --prewarm, --no-prewarm\n",
		"  --ui-type, --ui dashboard|none|simple\n",
		"  --concurrency N,...\n      Sessions, and so requests, in flight at any time. [default: 1]\n", "  --endpoint-type chat|completions|embeddings\n",
		"refused by this version, each with its reason:\n  aiperf profile --help-refused\n",
	} {
		if !strings.Contains(help, want) {
			t.Errorf("the help does not contain %q", want)
		}
	}
	for _, line := range strings.Split(help+HelpRefused(), "\n") {
		if utf8.RuneCountInString(line) > 80 {
			t.Errorf("a line of the help has %d characters: %s", len(line), line)
		}
	}
}

func TestComplete(t *testing.T) {
	tests := []struct {
		args  []string
		word  string
		want  []string
		files bool
	}{
		{nil, "--concurrency-r", []string{"--concurrency-ramp-duration\tBring the sessions up from 1 to --concurrency in this time"}, false},
		{nil, "--no-pre", []string{"--no-prewarm\tBefore the clock starts, send one throwaway request to each server and open, handshake " +
			"and probe all " +
			"connections, so that nothing cold is measured"}, false},
		{[]string{"--ui"}, "", []string{"dashboard", "none", "simple"}, false},
		{[]string{"--model", "m", "--http"}, "h", []string{"h2c"}, false},
		{[]string{"--endpoint_type"}, "", []string{"chat", "completions", "embeddings"}, false},
		{[]string{"-f"}, "", nil, true},
		{[]string{"--input-file"}, "", nil, true},
		{[]string{"--api-key"}, "", nil, false},
		{nil, "--ui=S", []string{"--ui=simple"}, false},
		{nil, "--streaming=", []string{"--streaming=true", "--streaming=false"}, false},
		{nil, "--config=", nil, true},
		{nil, "--no-such=x", nil, false},
		{[]string{"--search-planner"}, "", nil, false},
		{[]string{"--model"}, "", nil, false},
		{[]string{"--request-rate"}, "", nil, false},
		{nil, "", nil, false},
		{[]string{"--export-level"}, "r", []string{"records", "raw"}, false},
		{nil, "--gpu-tel", nil, false}, // refused flags are not offered
	}
	for _, tt := range tests {
		got, files := Complete(tt.args, tt.word)
		if !slices.Equal(got, tt.want) || files != tt.files {
			t.Errorf("Complete(%q, %q) = %q, %t; want %q, %t", tt.args, tt.word, got, files, tt.want, tt.files)
		}
	}
}

// Where aiperf is installed, the golden list is what it says.
func TestGoldenFlagsAreThoseOfTheInstalledAiperf(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIP: it starts Python")
	}
	python := filepath.Join(aiperfTemplates(), "../../../../../../bin/python")
	if _, err := os.Stat(python); err != nil {
		t.Skipf("SKIP: there is no aiperf: %v", err)
	}
	out, err := exec.Command(python, "testdata/flags.py").Output()
	if err != nil {
		t.Fatalf("flags.py: %v", err)
	}
	if string(out) != fixture(t, "aiperf-0.13.0-flags.txt") {
		t.Error("testdata/aiperf-0.13.0-flags.txt is not what testdata/flags.py prints")
	}
}
