package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"prefire/internal/fakellm"
	"prefire/tokenize"
)

// lengthFacts is what these tests read of prefire.prompts.
type lengthFacts struct {
	Tokenizer, Lengths string
	Ratio              float64
	Ahead              int `json:"made_ahead"`
	Calls              struct {
		Before int64 `json:"before_load"`
		During int64 `json:"during_load"`
	} `json:"tokenize_calls"`
}

func readLengths(t *testing.T, dir string) lengthFacts {
	t.Helper()
	var all struct {
		Prefire struct{ Prompts lengthFacts }
	}
	readJSON(t, filepath.Join(dir, "profile_export_aiperf.json"), &all)
	return all.Prefire.Prompts
}

// otherTokens is a tokenizer that the client does not have at hand in these tests.
func otherTokens(t *testing.T) tokenize.Tokenizer {
	t.Helper()
	tokens, err := tokenize.Open("cl100k_base")
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

// asked is how often the server was asked to count, from the n-th request on. It waits until that is want, since the log has a request a
// little after its answer.
func asked(t *testing.T, s *fakellm.Server, n int, want int64) (times int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for list := s.Entries(); ; {
		times = 0
		for _, e := range list[n:] {
			if e.Path == "/tokenize" {
				times++
			}
		}
		if times >= want {
			return times
		}
		var err error
		if list, err = s.Wait(ctx, len(list)+1); err != nil {
			return times
		}
	}
}

func TestTokenizerServer(t *testing.T) {
	tokens := otherTokens(t)
	s := serve(t, fakellm.Options{Models: []string{"m"}, Counter: tokens, UsageExtra: 12})
	yaml := filepath.Join(t.TempDir(), "run.yaml")
	if err := os.WriteFile(yaml, fmt.Appendf(nil, `schema_version: "2.0"
benchmark:
  models: [m]
  endpoint: {urls: ["%s"], streaming: true}
  datasets: [{name: main, type: synthetic, isl: 64}]
  phases: [{name: profiling, type: concurrency, requests: 20, concurrency: 2}]
  tokenizer: {name: server}
`, s.URL()), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		isl, args string
		own       int // tokens of the prompt itself
	}{
		{"40", "--tokenizer server", 40}, {"512", "--tokenizer server", 512}, {"128", "--tokenizer server --apply-chat-template", 116},
		{"64", "--config " + yaml, 64}, {"64", "--tokenizer server --client portable", 64},
	} {
		dir, from := t.TempDir(), len(s.Entries())
		p := must(t, append([]string{"profile", "--model", "m", "--url", s.URL(), "--streaming", "--isl", c.isl, "--osl", "3", "--extra-inputs", "ignore_eos:true",
			"--concurrency", "2", "--request-count", "20", "--ui", "none", "--artifact-dir", dir}, strings.Fields(c.args)...)...)
		sum, facts := readSummary(t, dir), readLengths(t, dir)
		isl, err := strconv.ParseFloat(c.isl, 64)
		if err != nil {
			t.Fatal(err)
		}
		if sum.ISL.Min != isl || sum.ISL.Max != isl || sum.UsagePrompt.Min != float64(c.own+12) || sum.UsagePrompt.Max != float64(c.own+12) || sum.OSL.Min != 3 || sum.OSL.Max != 3 {
			t.Errorf("%+v: ISL %v to %v, the server's %v to %v, OSL %v to %v", c, sum.ISL.Min, sum.ISL.Max, sum.UsagePrompt.Min, sum.UsagePrompt.Max, sum.OSL.Min, sum.OSL.Max)
		}
		_, texts := bodies(t, dir)
		if len(texts) != 20 {
			t.Errorf("%+v: %d prompts", c, len(texts))
		}
		for _, text := range texts {
			if n := tokens.Count([]byte(text)); n != c.own {
				t.Errorf("%+v: %d tokens in %q", c, n, text)
			}
		}
		if calls := asked(t, s, from, facts.Calls.Before); facts.Tokenizer != "server" || facts.Lengths != "exact by the server's /tokenize" || facts.Ahead != 20 ||
			facts.Calls.During != 0 || facts.Calls.Before != calls || calls < 40 || calls > 1000 {
			t.Errorf("%+v: %+v, %d calls in the log", c, facts, calls)
		}
		if strings.Contains(p.stdout, "to count a prompt while it was measured") {
			t.Errorf("%+v: %s", c, p.stdout)
		}
	}
}

// What is asked of the server beside the load is said.
func TestTokenizerServerBesideTheLoad(t *testing.T) {
	s := serve(t, fakellm.Options{Models: []string{"m"}, Counter: otherTokens(t)})
	dir := t.TempDir()
	p := must(t, "profile", "--model", "m", "--url", s.URL(), "--streaming", "--tokenizer", "server", "--isl", "30", "--osl", "2", "--request-count", "5",
		"--no-prewarm", "--ui", "none", "--artifact-dir", dir)
	facts := readLengths(t, dir)
	if total := asked(t, s, 0, facts.Calls.Before+facts.Calls.During); facts.Ahead != 0 || facts.Calls.During < 5 || facts.Calls.Before+facts.Calls.During > total {
		t.Errorf("%+v, %d calls in the log", facts, total)
	}
	screen := strings.Join(strings.Fields(strings.ReplaceAll(p.stdout, "│", " ")), " ")
	if want := "the server was asked " + strconv.FormatInt(facts.Calls.During, 10) + " times to count a prompt while it was measured"; !strings.Contains(screen, want) {
		t.Errorf("no %q in\n%s", want, p.stdout)
	}
}

// Without /tokenize lengths follow the usage of the throwaway, and are said to be fitted; ISL is the server's count.
func TestTokenizerServerByUsage(t *testing.T) {
	s := serve(t, fakellm.Options{Models: []string{"m"}, Counter: pieces{}, UsageExtra: 12, NoTokenize: true})
	dir := t.TempDir()
	p := must(t, "profile", "--model", "m", "--url", s.URL(), "--streaming", "--tokenizer", "server", "--isl", "600", "--osl", "2", "--request-count", "20",
		"--ui", "none", "--artifact-dir", dir)
	sum, facts := readSummary(t, dir), readLengths(t, dir)
	if sum.ISL.Min != sum.UsagePrompt.Min || sum.ISL.Max != sum.UsagePrompt.Max || sum.ISL.Avg < 540 || sum.ISL.Avg > 660 {
		t.Errorf("ISL %+v, the server's %+v, 600 asked for", sum.ISL, sum.UsagePrompt)
	}
	if !strings.HasPrefix(facts.Lengths, "fitted, not exact") || facts.Ratio < 1.2 {
		t.Errorf("%+v", facts)
	}
	screen := strings.Join(strings.Fields(strings.ReplaceAll(p.stdout, "│", " ")), " ")
	if !strings.Contains(screen, "prompt lengths are fitted, not exact: "+s.URL()+"/tokenize is not there") {
		t.Errorf("not said:\n%s", p.stdout)
	}
}

// pieces is a tokenizer of up to three letters a token.
type pieces struct{}

func (pieces) Count(text []byte) (n int) {
	for word := range bytes.FieldsSeq(text) {
		n += (len(word) + 2) / 3
	}
	return n
}

func TestTokenizerServerErrors(t *testing.T) {
	s := serve(t, fakellm.Options{Models: []string{"m"}, NoTokenize: true})
	vllm := serve(t, fakellm.Options{Models: []string{"m"}})
	file := filepath.Join(t.TempDir(), "d.jsonl")
	if err := os.WriteFile(file, []byte(`{"text":"hello"}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, want string }{
		{"--model m --no-prewarm --url " + s.URL(), s.URL() + "/tokenize answered 404, so it is not there, and without the prewarm"},
		{"--model other --url " + vllm.URL(), "/tokenize: answered 404: The model `other` does not exist"},
		{"--model m --url http://127.0.0.1:1", "--tokenizer server: http://127.0.0.1:1/tokenize: no answer: "},
		{"--model m --input-file " + file + " --custom-dataset-type single_turn --url " + vllm.URL(), "the prompts are a file's (" + file + ")"},
		{"--model m --isl 30 --shared-system-prompt-length 20 --url " + s.URL(), "cannot be fitted"},
	} {
		p := <-start(nil, nil, append([]string{"profile", "--streaming", "--tokenizer", "server", "--request-count", "2", "--ui", "none", "--artifact-dir", t.TempDir()},
			strings.Fields(c.args)...)...)
		if p.code != exitFailed || !strings.Contains(p.stderr, c.want) {
			t.Errorf("%s: exit %d, %s; want %s", c.args, p.code, p.stderr, c.want)
		}
	}
}
