package config

import (
	"slices"
	"strings"
	"testing"
)

// Every flag of aiperf 0.13.0 is in the table, under all its names, and takes what it takes there (testdata/flags.py made the list).
func TestTableHoldsAllOfAiperfsFlags(t *testing.T) {
	ours := map[string]Flag{}
	for _, f := range Flags() {
		ours[f.Field] = f
	}
	lines := strings.Split(strings.TrimRight(fixture(t, "aiperf-0.13.0-flags.txt"), "\n"), "\n")
	if len(lines) != 264 {
		t.Fatalf("the golden list has %d fields, want 264", len(lines))
	}
	theirs := map[string]bool{}
	for _, line := range lines {
		field, rest, _ := strings.Cut(line, "\t")
		kind, rest, _ := strings.Cut(rest, "\t")
		names, negative, _ := strings.Cut(rest, "\t")
		theirs[field] = true
		f, ok := ours[field]
		if !ok {
			t.Errorf("%s (%s) is not in the table", field, names)
			continue
		}
		if got := strings.Join(f.Names, " "); got != names {
			t.Errorf("%s: names %q, aiperf's are %q", field, got, names)
		}
		if got := strings.Join(f.Negative, " "); got != strings.TrimSpace(negative) {
			t.Errorf("%s: negative names %q, aiperf's are %q", field, got, negative)
		}
		if got := f.Kind == Bool; got != (kind == "bool") {
			t.Errorf("%s: a switch: %t, aiperf has %s", field, got, kind)
		}
		if got := f.Several; got != (kind == "words") {
			t.Errorf("%s: takes several words: %t, aiperf has %s", field, got, kind)
		}
		if f.Status != Supported && f.Reason == "" || f.Status == Supported && f.Help == "" {
			t.Errorf("%s has neither a reason nor a help text", field)
		}
	}
	var own []string
	for _, f := range Flags() {
		if !theirs[f.Field] {
			own = append(own, f.Name())
		}
	}
	want := []string{"--client", "--http", "--prewarm", "--include-cold", "--streams-per-connection", "--report",
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
	for _, f := range Flags() {
		names := f.Names
		if f.Status != Supported {
			names = []string{f.Name()}
		}
		for _, n := range names {
			if !strings.Contains(help, n) {
				t.Errorf("the help does not name %s", n)
			}
		}
	}
	for _, want := range []string{
		"Usage: aiperf profile [OPTIONS]", "  --url, -u TEXT ...\n", "  --prewarm, --no-prewarm\n",
		"  --ui-type, --ui dashboard|none|simple\n",
		"  --concurrency N\n      Sessions, and so requests, in flight at any time. [default: 1]\n", "  --endpoint-type chat|completions|embeddings\n",
	} {
		if !strings.Contains(help, want) {
			t.Errorf("the help does not contain %q", want)
		}
	}
	for _, line := range strings.Split(help, "\n") {
		if len(line) > 150 {
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
		{[]string{"--model"}, "", nil, false},
		{[]string{"--request-rate"}, "", nil, false},
		{nil, "", nil, false},
		{nil, "--export-lev", nil, false}, // refused flags are not offered
	}
	for _, tt := range tests {
		got, files := Complete(tt.args, tt.word)
		if !slices.Equal(got, tt.want) || files != tt.files {
			t.Errorf("Complete(%q, %q) = %q, %t; want %q, %t", tt.args, tt.word, got, files, tt.want, tt.files)
		}
	}
}
