package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"prefire/internal/config"
	"prefire/internal/dataset/files"
	"prefire/internal/fakellm"
	"prefire/metrics"
	"prefire/tokenize"
)

var promptRequests = flag.Int("prompts.requests", 400, "requests of TestNoPromptRepeats; 10000 is the size that is promised")

// promptFacts is what these tests read of prefire.prompts.
type promptFacts struct {
	Distinct, Repeated int64
	TemplateCounted    bool   `json:"template_counted"`
	TemplateTokens     *int64 `json:"template_tokens"`
	Server             struct {
		Compared int64
		Min      int64 `json:"more_min"`
		Max      int64 `json:"more_max"`
	} `json:"server_count"`
	Reuse struct {
		Asked float64 `json:"asked_share"`
	}
}

func readPrompts(t *testing.T, dir string) promptFacts {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "profile_export_aiperf.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all struct {
		Prefire struct{ Prompts promptFacts }
	}
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	return all.Prefire.Prompts
}

// bodies are the bodies of inputs.json, in the order of sending.
func bodies(t *testing.T, dir string) (sessions []string, texts []string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "inputs.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all struct {
		Data []struct {
			Session  string `json:"session_id"`
			Payloads []struct{ Messages []struct{ Content string } }
		}
	}
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	for _, s := range all.Data {
		for _, p := range s.Payloads {
			sessions = append(sessions, s.Session)
			texts = append(texts, p.Messages[len(p.Messages)-1].Content)
		}
	}
	return sessions, texts
}

// The chat template's share is measured and said; where the length is to count it, the server's own count of every request is the length.
func TestChatTemplate(t *testing.T) {
	s := serve(t, fakellm.Options{Models: []string{"m"}, UsageExtra: 12, OutputTokens: 2})
	for _, c := range []struct {
		args    []string
		isl     float64
		server  float64
		counted bool
		log     int // requests that the server saw
		notice  string
	}{
		{nil, 100, 112, false, 21, "the server counts 12 tokens more of a prompt than ours: most likely its chat template; --apply-chat-template has them in the input length"},
		{[]string{"--apply-chat-template"}, 100, 100, true, 22, ""},
		{[]string{"--isl-counts", "template", "--use-server-token-count"}, 100, 100, true, 22, ""},
	} {
		dir := t.TempDir()
		before := len(s.Entries())
		p := must(t, append([]string{"profile", "--model", "m", "--url", s.URL(), "--streaming", "--tokenizer", "builtin", "--isl", "100", "--osl", "2", "--concurrency", "2",
			"--request-count", "20", "--ui", "none", "--artifact-dir", dir}, c.args...)...)
		sum, facts := readSummary(t, dir), readPrompts(t, dir)
		if sum.ISL.Min != c.isl || sum.ISL.Max != c.isl || sum.UsagePrompt.Min != c.server || sum.UsagePrompt.Max != c.server {
			t.Errorf("%v: ISL %v to %v, the server's %v to %v; want %v and %v", c.args, sum.ISL.Min, sum.ISL.Max, sum.UsagePrompt.Min, sum.UsagePrompt.Max, c.isl, c.server)
		}
		gap := int64(c.server - c.isl)
		if facts.TemplateTokens == nil || *facts.TemplateTokens != 12 || facts.TemplateCounted != c.counted || facts.Server.Min != gap || facts.Server.Max != gap ||
			facts.Server.Compared != 20 && !slices.Contains(c.args, "--use-server-token-count") {
			t.Errorf("%v: %+v", c.args, facts)
		}
		inferences := 0
		for _, e := range s.Entries()[before:] {
			if strings.HasSuffix(e.Path, "/chat/completions") {
				inferences++
			}
		}
		if inferences != c.log {
			t.Errorf("%v: %d inferences, want %d", c.args, inferences, c.log)
		}
		// The screen breaks lines, in cells.
		if screen := strings.Join(strings.Fields(strings.ReplaceAll(p.stdout, "│", " ")), " "); c.notice != "" && !strings.Contains(screen, c.notice) || c.notice == "" && strings.Contains(screen, "the server counts") {
			t.Errorf("%v: want %q on the screen:\n%s", c.args, c.notice, p.stdout)
		}
	}
}

func TestChatTemplateErrors(t *testing.T) {
	s := serve(t, fakellm.Options{Models: []string{"m"}, UsageExtra: 12, OutputTokens: 2})
	for _, c := range []struct{ isl, want string }{
		{"12", "a prompt of 12 input tokens (o200k_base, 12 of them the chat template's) cannot be made"},
		{"5", "a prompt of 5 input tokens (o200k_base, 12 of them the chat template's) cannot be made"},
	} {
		p := <-start(nil, nil, "profile", "--model", "m", "--url", s.URL(), "--streaming", "--tokenizer", "builtin", "--isl", c.isl, "--apply-chat-template",
			"--request-count", "2", "--ui", "none", "--artifact-dir", t.TempDir())
		if p.code != exitFailed || !strings.Contains(p.stderr, c.want) {
			t.Errorf("--isl %s: exit %d, %s; want %s", c.isl, p.code, p.stderr, c.want)
		}
	}
}

// No prompt of a run repeats in its first 16 tokens, a seed gives the same bodies, and a share of repeats is what was asked for.
func TestNoPromptRepeats(t *testing.T) {
	s := serve(t, fakellm.Options{Models: []string{"m"}, OutputTokens: 1})
	tokens, err := tokenize.Open("builtin")
	if err != nil {
		t.Fatal(err)
	}
	n := *promptRequests
	profile := func(args ...string) (string, map[string]int, []string) {
		dir := t.TempDir()
		must(t, append([]string{"profile", "--model", "m", "--url", s.URL(), "--streaming", "--tokenizer", "builtin", "--isl", "24", "--osl", "1", "--concurrency", "8",
			"--request-count", strconv.Itoa(n), "--warmup-request-count", "20", "--ui", "none", "--artifact-dir", dir}, args...)...)
		_, texts := bodies(t, dir)
		starts := map[string]int{}
		for _, text := range texts {
			if got := tokens.Count([]byte(text)); got != 24 {
				t.Errorf("%q has %d tokens", text, got)
			}
			starts[fmt.Sprint(tokens.Append(nil, []byte(text))[:16])]++
		}
		return dir, starts, texts
	}
	dir, starts, texts := profile("--random-seed", "3")
	if facts := readPrompts(t, dir); len(starts) != n+20 || len(texts) != n+20 || facts.Repeated != 0 || facts.Distinct != int64(n)+21 {
		t.Errorf("%d bodies begin in %d ways; %+v", len(texts), len(starts), facts)
	}
	if _, _, again := profile("--random-seed", "3"); !slices.Equal(texts, again) {
		t.Error("the same seed sent other bodies")
	}
	dir, starts, texts = profile("--random-seed", "3", "--repeat-share", "0.5")
	facts := readPrompts(t, dir)
	if repeats := len(texts) - len(starts); repeats != (n+20)/2 || facts.Repeated != int64(repeats) || facts.Reuse.Asked < 0.48 || facts.Reuse.Asked > 0.5 {
		t.Errorf("%d of %d repeat; %+v", repeats, len(texts), facts)
	}
}

// The flags of aiperf's synthetic input reach the bodies.
func TestPromptFlags(t *testing.T) {
	s := serve(t, fakellm.Options{Models: []string{"m"}, OutputTokens: 3})
	tokens, err := tokenize.Open("builtin")
	if err != nil {
		t.Fatal(err)
	}
	system := filepath.Join(t.TempDir(), "system.txt")
	if err := os.WriteFile(system, []byte("Be brief.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	type message struct {
		Role    string
		Content json.RawMessage
	}
	for _, c := range []struct {
		args string
		want string // role and tokens of each message of each request
	}{
		{"--isl 30", "user 30"},
		{"--seq-dist 40,3:100", "user 40"},
		{"--isl 30 --prompt-corpus coding", "user 30"},
		{"--isl 30 --prompt-corpus random", "user 30"},
		{"--isl 30 --num-prefix-prompts 2 --prefix-prompt-length 25", "user 55"},
		{"--isl 30 --shared-system-prompt-length 20 --user-context-prompt-length 10", "system 20|user 10|user 30"},
		{"--isl 30 --system-prompt-file " + system, "system 3|user 30"},
		{"--isl 30 --cache-bust first_turn_prefix", "user 30"},
		{"--isl 30 --batch-size 3", "user 30+30+30"},
		{"--isl 30 --session-turns-mean 2", "user 30;user 30|assistant 3|user 30"},
	} {
		dir := t.TempDir()
		must(t, append([]string{"profile", "--model", "m", "--url", s.URL(), "--streaming", "--tokenizer", "builtin", "--osl", "3", "--num-conversations", "4",
			"--ui", "none", "--artifact-dir", dir}, strings.Fields(c.args)...)...)
		data, err := os.ReadFile(filepath.Join(dir, "inputs.json"))
		if err != nil {
			t.Fatal(err)
		}
		var all struct {
			Data []struct {
				Payloads []struct{ Messages []message }
			}
		}
		if err := json.Unmarshal(data, &all); err != nil {
			t.Fatal(err)
		}
		count := func(m message) string {
			var parts []struct{ Text string }
			if json.Unmarshal(m.Content, &parts) == nil {
				var n []string
				for _, p := range parts {
					n = append(n, strconv.Itoa(tokens.Count([]byte(p.Text))))
				}
				return m.Role + " " + strings.Join(n, "+")
			}
			var text string
			if err := json.Unmarshal(m.Content, &text); err != nil {
				t.Fatal(err)
			}
			return m.Role + " " + strconv.Itoa(tokens.Count([]byte(text)))
		}
		seen := map[string]bool{}
		for _, session := range all.Data {
			for _, p := range session.Payloads {
				var got []string
				for _, m := range p.Messages {
					got = append(got, count(m))
				}
				seen[strings.Join(got, "|")] = true
			}
		}
		want := map[string]bool{}
		for _, w := range strings.Split(c.want, ";") {
			want[w] = true
		}
		if fmt.Sprint(seen) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", c.args, seen, want)
		}
	}
}

func TestGapCauses(t *testing.T) {
	gap := func(pairs ...int64) *promptGap {
		g := new(promptGap)
		for i := 0; i < len(pairs); i += 2 {
			r := counted(pairs[i], pairs[i+1])
			g.add(&r)
		}
		return g
	}
	for _, c := range []struct {
		gap     *promptGap
		counted bool
		want    string // beginning
	}{
		{gap(), false, ""}, {gap(10, 10, 20, 20), true, ""},
		{gap(10, 11, 20, 21), false, "the server counts 1 token more of every prompt: most likely a token that begins each text (BOS)"},
		{gap(10, 22, 20, 31), false, "the server counts 11 to 12 tokens more of a prompt than ours: most likely its chat template"},
		{gap(10, 12, 20, 22), true, "the server counts 2 tokens more of a prompt than were asked for, though its chat template as measured is in the length"},
		{gap(100, 64, 200, 64), false, "the server counts 64 tokens of every prompt, also of those of 200: it cuts them there"},
		{gap(100, 110, 1000, 1100), false, "the server counts 1.100 tokens for each of ours (10 to 100 more of a prompt): its tokenizer is another one"},
		{gap(100, 90, 100, 95), false, "the server counts 0.925 tokens for each of ours (5 to 10 less of a prompt): its tokenizer is another one"},
		{gap(100, 90, 100, 115), false, "the server counts 1.025 tokens for each of ours (10 less to 15 more of a prompt): its tokenizer is another one"},
		{gap(slices.Repeat([]int64{1024, 600}, 8)...), false, "the server counts 600 tokens of every prompt, also of those of 1024: it cuts them there"},
		{gap(slices.Repeat([]int64{1024, 600}, 7)...), false, "the server counts 0.586 tokens for each of ours (424 to 424 less of a prompt): its tokenizer is another one"},
		{gap(slices.Repeat([]int64{20, 15}, 8)...), false, "the server counts 0.750 tokens"},
	} {
		if got := c.gap.cause(c.counted, true); !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%+v: %q, want %q", *c.gap, got, c.want)
		}
	}
}

func counted(ours, server int64) metrics.Record {
	return metrics.Record{In: metrics.Known(ours), Usage: metrics.Usage{Prompt: metrics.Known(server)}}
}

func TestTruncatedMean(t *testing.T) {
	for _, c := range []struct {
		mean, stddev, want, within float64
	}{{100, 0, 100, 0}, {512, 50, 512.5, 0.01}, {20, 50, 48.5, 1}, {100, 100, 129.3, 0.5}} {
		if got := truncated(config.Length{Mean: c.mean, Stddev: c.stddev}); math.Abs(got-c.want) > c.within {
			t.Errorf("mean %v with a stddev of %v comes to %v, want %v", c.mean, c.stddev, got, c.want)
		}
	}
}

// What is given beside a file that has no use for it is said.
func TestWhatAFileHasNoUseForIsSaid(t *testing.T) {
	ds := config.Dataset{Entries: 5, Output: config.Length{Mean: 9}, File: &config.FileDataset{Block: 16}}
	const (
		entries = "a number of dataset entries (--num-dataset-entries) has no effect: the file is %s, and it is for [random_pool]"
		block   = "a block size (--isl-block-size) has no effect: the file is %s, and it is for [mooncake_trace bailian_trace]"
		output  = "an output length (--osl) has no effect: the rows of %s are whole requests, sent as they are"
	)
	for format, want := range map[files.Format][]string{
		files.RandomPool: {block}, files.Mooncake: {entries}, files.Bailian: {entries}, files.SingleTurn: {entries, block},
		files.InputsJSON: {entries, block, output}, files.RawPayload: {entries, block, output},
	} {
		for i := range want {
			want[i] = fmt.Sprintf(want[i], format)
		}
		if got := unused(&ds, format); !slices.Equal(got, want) {
			t.Errorf("%s:\ngot  %q\nwant %q", format, got, want)
		}
	}
	if got := unused(&config.Dataset{File: &config.FileDataset{}}, files.RawPayload); got != nil {
		t.Errorf("nothing was given: %q", got)
	}
}
