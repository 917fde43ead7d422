package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestPromptFlags(t *testing.T) {
	mix := []LengthShare{
		{25, Length{Mean: 128}, Length{Mean: 64}}, {75, Length{Mean: 512, Stddev: 20}, Length{Mean: 128, Stddev: 5}},
	}
	base := Dataset{Name: "main", Input: Length{Mean: 550}}
	for _, tt := range []struct {
		args string // split at &
		want func(d *Dataset)
	}{
		{"--seq-dist=128,64:25; 512|20,128|5:75;", func(d *Dataset) { d.Mix = mix }},
		{"--sequence-distribution=[(128,64):25,(512|20,128|5):75]", func(d *Dataset) { d.Mix = mix }},
		{`--seq-dist={"pairs":[{"isl":128,"osl":64,"prob":25},{"isl":512,"isl_stddev":20,"osl":128,"osl_stddev":5.0,"prob":75}]}`,
			func(d *Dataset) { d.Mix = mix }},
		{"--isl=100&--osl=10&--random-range-ratio=0.3", func(d *Dataset) {
			d.Input, d.Output = Length{Low: 70, High: 130}, Length{Low: 7, High: 13}
		}},
		{`--isl=100&--osl=10&--random-range-ratio={"input":0,"output":0.95}`, func(d *Dataset) {
			d.Input, d.Output = Length{Low: 100, High: 100}, Length{Low: 1, High: 20}
		}},
		{"--isl=101&--osl=10&--random-range-ratio=0.5&--random-corpus-style=sglang", func(d *Dataset) {
			d.Input, d.Output = Length{Low: 50, High: 101}, Length{Low: 5, High: 10}
		}},
		{"--prompt-corpus=CODING&-b=3&--cache-bust=first-turn-prefix", func(d *Dataset) {
			d.Corpus, d.Batch, d.CacheBust = "coding", 3, "first_turn_prefix"
		}},
		{"--cache-bust=none&--num-prefix-prompts=0", func(*Dataset) {}},
		{"--num-prefix-prompts=4&--prefix-prompt-length=50", func(d *Dataset) { d.PrefixPool, d.PrefixLength = 4, 50 }},
		{"--shared-system-prompt-length=9&--user-context-prompt-length=8", func(d *Dataset) { d.SharedSystem, d.UserContext = 9, 8 }},
		{"--system-prompt=Be brief.", func(d *Dataset) { d.System = "Be brief." }},
		{"--session-turns-mean=3&--session-turns-stddev=1&--session-turn-delay-mean=500&--session-turn-delay-stddev=20&--session-delay-ratio=0.5",
			func(d *Dataset) {
				d.Turns, d.Delay, d.DelayRatio = Length{Mean: 3, Stddev: 1}, Length{Mean: 500, Stddev: 20}, 0.5
			}},
		{"--session-turns-stddev=2", func(d *Dataset) { d.Turns = Length{Mean: 1, Stddev: 2} }},
		{"--dataset-sampling-strategy=shuffle&--num-dataset-entries=5", func(d *Dataset) { d.Sampling, d.Entries = "shuffle", 5 }},
		{"--repeat-share=0.25", func(d *Dataset) { d.Repeat = 0.25 }},
	} {
		want := base
		tt.want(&want)
		c := mustParse(t, "", append([]string{"-m", "m"}, strings.Split(tt.args, "&")...)...)
		if !reflect.DeepEqual(c.Dataset, want) {
			t.Errorf("%s:\ngot  %+v\nwant %+v", tt.args, c.Dataset, want)
		}
	}
	for args, want := range map[string]bool{
		"--isl-counts=prompt": false, "--isl-counts=template": true, "--apply-chat-template": true, "--apply-chat-template=false": false,
		"--apply-chat-template&--isl-counts=template": true,
	} {
		if c := mustParse(t, "", append([]string{"-m", "m"}, strings.Split(args, "&")...)...); c.CountTemplate != want {
			t.Errorf("%s: the template is counted: %t", args, c.CountTemplate)
		}
	}
}

func TestBadPromptFlags(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"--seq-dist=128,64:25", "--seq-dist: Probabilities must sum to 100.0, got 25.000000. They are percentages."},
		{"--seq-dist=a,b:100", "--seq-dist: Invalid pair format: 'a,b:100'. Expected 'ISL[|ISL_STDDEV],OSL[|OSL_STDDEV]:PROB'. " + mixForms + "."},
		{"--seq-dist=", "--seq-dist: Distribution must contain at least one sequence length pair. " + mixForms + "."},
		{"--seq-dist=[(1,2):50,x]", "--seq-dist: 'x' is no pair of lengths. " + mixForms + ", or [(128,64):25,(512|20,128|5):75]."},
		{"--seq-dist=0,2:100", "--seq-dist: Input sequence length must be positive, got 0 with a stddev of 0."},
		{"--seq-dist=1,2:101", "--seq-dist: Probability must be in [0,100], got 101."},
		{`--seq-dist={"pairs":[{"isl":1,"prob":100}]}`, "--seq-dist: Pair 0 missing required keys: 'osl'."},
		{`--seq-dist={"pairs":[{"isl":1,"x":2}]}`, "--seq-dist: pair 0 has the key 'x'; allowed: isl, osl, prob, isl_stddev, osl_stddev."},
		{`--seq-dist={"isl":1}`, "--seq-dist: JSON format must contain 'pairs' key: {\"pairs\":[{\"isl\":128,\"osl\":64,\"prob\":100}]}."},
		{"--random-range-ratio=x&--isl=5&--osl=5", "--random-range-ratio: must be a float or a JSON object with 'input' and 'output' keys, got: 'x'."},
		{"--random-range-ratio=0.5&--osl=5", "--random-range-ratio: --random-range-ratio requires --isl to be set explicitly. There is no safe default " +
			"when a ratio window is requested."},
		{"--random-range-ratio=0.5&--isl=5", "--random-range-ratio: --random-range-ratio requires --osl to be set explicitly. There is no safe default " +
			"when a ratio window is requested."},
		{"--random-range-ratio=1&--isl=5&--osl=5", "--random-range-ratio: range_ratio must be in [0.0, 1.0) in vllm style, got 1."},
		{"--random-range-ratio=0.9&--isl=5&--osl=5", "--random-range-ratio: --random-range-ratio 0.9 with --isl 5 produces a minimum input of 0 tokens. " +
			"Increase --isl, or lower the ratio."},
		{`--random-range-ratio={"input":0.1,"output":0.2}&--isl=5&--osl=5&--random-corpus-style=sglang`, "--random-range-ratio: SGLang corpus style " +
			`applies a single ratio to both ISL and OSL, got {"input":0.1,"output":0.2}.`},
		{"--random-range-ratio=0.5&--isl=5&--osl=5&--isl-stddev=2", "--random-range-ratio: --random-range-ratio cannot be combined with --isl-stddev or " +
			"--osl-stddev."},
		{"--random-range-ratio=0.5&--seq-dist=1,2:100", "--random-range-ratio: random_range_ratio cannot be combined with sequence_distribution " +
			"(--seq-dist); use one or the other."},
		{"--num-prefix-prompts=3", "--num-prefix-prompts: 3 prefixes need their length: give --prefix-prompt-length (prefix_prompts.length)."},
		{"--prefix-prompt-length=3", "--prefix-prompt-length: a prefix of 3 tokens needs the number of prefixes: give --num-prefix-prompts " +
			"(prefix_prompts.pool_size)."},
		{"--num-prefix-prompts=3&--prefix-prompt-length=3&--shared-system-prompt-length=3", "--num-prefix-prompts: pool_size/length cannot be combined " +
			"with --shared-system-prompt-length."},
		{"--system-prompt=x&--shared-system-prompt-length=3", "--system-prompt: a system prompt cannot be combined with --shared-system-prompt-length."},
		{"--system-prompt=x&--system-prompt-file=y", "--system-prompt-file: a system prompt from a file cannot be combined with --system-prompt."},
		{"--system-prompt= ", "--system-prompt: the system prompt has no text in it."},
		{"--system-prompt-file=nope.txt", "--system-prompt-file: the system prompt cannot be read: open nope.txt: file does not exist"},
		{"--cache-bust=warmup_isolation_system", "--cache-bust: warmup_isolation_system needs a system prompt: give --system-prompt or " +
			"--shared-system-prompt-length, or use warmup_isolation_first_turn."},
		{"--session-turn-delay-stddev=3", "--session-turn-delay-stddev: a stddev of the think time needs its mean (--session-turn-delay-mean)."},
		{"--repeat-share=0.5&--num-dataset-entries=3", "--repeat-share: a share of repeats cannot be combined with a number of dataset entries " +
			"(--num-dataset-entries), which repeat in order."},
		{"--repeat-share=1", "--repeat-share: Input should be less than or equal to 0.999999, got '1'."},
		{"--apply-chat-template&--no-prewarm", "--apply-chat-template: the chat template's tokens are measured by a request before the run: leave out " +
			"--no-prewarm and --include-cold."},
		{"--apply-chat-template&--isl-counts=prompt", "--isl-counts: --isl-counts prompt cannot be combined with --apply-chat-template."},
	} {
		if got := message(t, "", append([]string{"-m", "m"}, strings.Split(tt.args, "&")...)...); got != tt.want {
			t.Errorf("%s:\ngot  %s\nwant %s", tt.args, got, tt.want)
		}
	}
}

const promptsYAML = `
benchmark:
  model: m
  endpoint: {url: a:1}
  tokenizer: {name: builtin, apply_chat_template: true}
  dataset:
    prompts:
      batch_size: 2
      cache_bust: {target: system_suffix}
      corpus: random
      sequence_distribution:
        - {isl: 100, osl: 10, probability: 40}
        - {isl: 200, isl_stddev: 5, osl: 20, osl_stddev: 2.5, probability: 60}
    prefix_prompts: {shared_system_length: 30, user_context_length: 40}
    turns: {mean: 4, stddev: 2}
    turn_delay: 250
    turn_delay_ratio: 2
  profiling: {type: concurrency, requests: 5}
`

func TestPromptsInYAML(t *testing.T) {
	c := mustParse(t, promptsYAML)
	want := Dataset{
		Name: "default", Batch: 2, CacheBust: "system_suffix", Corpus: "random", SharedSystem: 30, UserContext: 40,
		Mix:   []LengthShare{{40, Length{Mean: 100}, Length{Mean: 10}}, {60, Length{Mean: 200, Stddev: 5}, Length{Mean: 20, Stddev: 2.5}}},
		Turns: Length{Mean: 4, Stddev: 2}, Delay: Length{Mean: 250}, DelayRatio: 2,
	}
	if !reflect.DeepEqual(c.Dataset, want) || !c.CountTemplate {
		t.Errorf("got  %+v\nwant %+v; the template is counted: %t", c.Dataset, want, c.CountTemplate)
	}
	echo, err := c.Input.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		`"prompts":{"batch_size":2,"cache_bust":{"target":"system_suffix"},"corpus":"random","sequence_distribution":[{"isl":{"value":100.0},"osl":{"value":10.0},` +
			`"probability":40.0},{"isl":{"mean":200.0,"stddev":5.0},"osl":{"mean":20.0,"stddev":2.5},"probability":60.0}]},` +
			`"prefix_prompts":{"shared_system_length":30,"user_context_length":40},"turns":{"mean":4.0,"stddev":2.0},"turn_delay":{"value":250.0},` +
			`"turn_delay_ratio":2.0`,
		`"tokenizer":{"name":"builtin","apply_chat_template":true}`,
	} {
		if !strings.Contains(string(echo), part) {
			t.Errorf("the echo %s\ndoes not contain %s", echo, part)
		}
	}
}

func TestBadPromptsInYAML(t *testing.T) {
	for _, tt := range []struct{ from, to, want string }{
		{"batch_size: 2", "batch_size: 0", "run.yaml:8:19: benchmark.dataset.prompts.batch_size: Input should be greater than or equal to 1; found 0 (an integer)."},
		{"corpus: random", "corpus: poems", "run.yaml:10:15: benchmark.dataset.prompts.corpus: Input should be 'sonnet', 'coding' or 'random'; found 'poems' (a string)."},
		{"probability: 40", "probability: 30", "run.yaml:12:9: benchmark.dataset.prompts.sequence_distribution: Probabilities must sum to 100.0, got 90.000000. They are percentages."},
		{"{isl: 100, osl", "{osl", "run.yaml:12:12: benchmark.dataset.prompts.sequence_distribution.0.isl: Field required."},
		{"{isl: 100, osl", "{isl: {mean: 0}, osl", "run.yaml:12:24: benchmark.dataset.prompts.sequence_distribution.0.isl.mean: Input should be greater than or equal to 1; " +
			"found 0 (an integer)."},
		{"{isl: 200, isl_stddev: 5", "{isl: {mean: 200}, isl_stddev: 5", "run.yaml:13:42: benchmark.dataset.prompts.sequence_distribution.1.isl_stddev: it stands beside a plain " +
			"number alone: put stddev into the mapping of isl."},
		{"turn_delay: 250", "turn_delay: -1", "run.yaml:16:17: benchmark.dataset.turn_delay: Input should be greater than or equal to 0; found -1 (an integer)."},
		{"corpus: random", "random_range_ratio: [1]", "run.yaml:10:27: benchmark.dataset.prompts.random_range_ratio: random_range_ratio must be a number, or a string such as " +
			`'{"input":0.3,"output":0.5}'; found a list of 1.`},
		{"shared_system_length: 30", "pool_size: 3", "run.yaml:14:33: benchmark.dataset.prefix_prompts.pool_size: pool_size/length cannot be combined with " +
			"run.yaml:14:57: benchmark.dataset.prefix_prompts.user_context_length."},
	} {
		if got := message(t, strings.Replace(promptsYAML, tt.from, tt.to, 1)); got != tt.want {
			t.Errorf("%s:\ngot  %s\nwant %s", tt.to, got, tt.want)
		}
	}
}

// The lengths of a mix have all the forms that a length has, and the echo has them as they were given.
func TestFormsOfAMix(t *testing.T) {
	const yaml = `
benchmark:
  model: m
  endpoint: {url: a:1}
  dataset:
    prompts:
      sequence_distribution:
        - {isl: {mean: 512, stddev: 50}, osl: {value: 64}, probability: 25}
        - {isl: {mean: 100}, osl: "7", probability: 75}
  profiling: {type: concurrency, requests: 5}
`
	c := mustParse(t, yaml)
	if want := []LengthShare{{25, Length{Mean: 512, Stddev: 50}, Length{Mean: 64}}, {75, Length{Mean: 100}, Length{Mean: 7}}}; !reflect.DeepEqual(c.Dataset.Mix, want) {
		t.Errorf("got %+v, want %+v", c.Dataset.Mix, want)
	}
	for _, tt := range []struct{ echo, part string }{
		{echoText(t, c), `"sequence_distribution":[{"isl":{"mean":512.0,"stddev":50.0},"osl":{"value":64.0},"probability":25.0},{"isl":{"mean":100.0},"osl":{"value":7.0},"probability":75.0}]`},
		{echoText(t, mustParse(t, "", "-m", "m", "--seq-dist", "128,64|5:100")),
			`"sequence_distribution":[{"isl":{"mean":128.0,"stddev":0.0},"osl":{"mean":64.0,"stddev":5.0},"probability":100.0}]`},
	} {
		if !strings.Contains(tt.echo, tt.part) {
			t.Errorf("the echo %s\ndoes not contain %s", tt.echo, tt.part)
		}
	}
}

func echoText(t *testing.T, c *Config) string {
	t.Helper()
	echo, err := c.Input.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return string(echo)
}

func TestFormsOfARatio(t *testing.T) {
	const yaml = `
benchmark:
  model: m
  endpoint: {url: a:1}
  dataset:
    prompts: {isl: 100, osl: 10, random_range_ratio: RATIO}
  profiling: {type: concurrency, requests: 5}
`
	same := [2]Length{{Low: 50, High: 150}, {Low: 5, High: 15}}
	for _, tt := range []struct {
		written, echo string
		want          [2]Length
	}{
		{"0.5", `"0.5"`, same}, {"0", `"0"`, [2]Length{{Low: 100, High: 100}, {Low: 10, High: 10}}}, {`"0.50"`, `"0.50"`, same},
		{"{input: 0.5, output: 0}", `"{\"input\":0.5,\"output\":0}"`, [2]Length{{Low: 50, High: 150}, {Low: 10, High: 10}}},
		{`'{"input": 0.5, "output": 0.5}'`, `"{\"input\": 0.5, \"output\": 0.5}"`, same},
	} {
		c := mustParse(t, strings.Replace(yaml, "RATIO", tt.written, 1))
		if got := [2]Length{c.Dataset.Input, c.Dataset.Output}; got != tt.want {
			t.Errorf("%s: got %+v, want %+v", tt.written, got, tt.want)
		}
		if part := `"random_range_ratio":` + tt.echo; !strings.Contains(echoText(t, c), part) {
			t.Errorf("%s: the echo %s\ndoes not contain %s", tt.written, echoText(t, c), part)
		}
	}
}

// What a mix takes the place of is not dropped without a word.
func TestLengthsBesideAMixAreSaid(t *testing.T) {
	c := mustParse(t, "", "-m", "m", "--seq-dist", "128,64:100", "--isl", "9", "--osl-stddev", "2", "--osl", "3")
	for _, want := range []string{
		"--isl has no effect: the lengths are those of --seq-dist.", "--osl has no effect: the lengths are those of --seq-dist.",
		"--osl-stddev has no effect: the lengths are those of --seq-dist.",
	} {
		if !slices.Contains(c.Notices, want) {
			t.Errorf("%q is not among the notices %q", want, c.Notices)
		}
	}
	for _, notice := range mustParse(t, "", "-m", "m", "--seq-dist", "128,64:100").Notices {
		if strings.Contains(notice, "has no effect") {
			t.Errorf("nothing was given beside the mix: %s", notice)
		}
	}
}

// A scan over input lengths runs nothing whose lengths are not the scan's.
func TestAScanRefusesOtherLengths(t *testing.T) {
	parse := func(yaml string, args ...string) (*Config, error) {
		texts := map[string]string{"run.yaml": yaml}
		if yaml != "" {
			args = append([]string{"-f", "run.yaml"}, args...)
		}
		return ParseLength(append(args, "--streaming"), noEnv, files(texts), 512)
	}
	const all = ": a scan holds input lengths against each other, each of them fixed, and "
	for _, tt := range []struct {
		yaml, args string // args are split at &
		want       string
	}{
		{"", "-m=m&--input-file=a.jsonl", "--input-file" + all + "the prompts of a file have lengths of their own: leave it out."},
		{"", "-m=m&--seq-dist=128,64:100", "--seq-dist" + all + "a mix has lengths of its own: leave it out."},
		{"", "-m=m&--osl=9&--random-range-ratio=0.5", "--random-range-ratio" + all + "a range spreads the lengths: leave it out."},
		{"", "-m=m&--isl-stddev=5", "--isl-stddev" + all + "a standard deviation spreads the input length: leave it out."},
		{"benchmark: {model: m, endpoint: {url: a:1}, dataset: {isl: {mean: 5, stddev: 2}}, profiling: {type: concurrency, requests: 5}}", "--osl=9",
			"run.yaml:1:78: benchmark.dataset.isl.stddev" + all + "a standard deviation spreads the input length: leave it out."},
	} {
		_, err := parse(tt.yaml, strings.Split(tt.args, "&")...)
		if err == nil || err.Error() != tt.want {
			t.Errorf("%s %s:\ngot  %v\nwant %s", tt.yaml, tt.args, err, tt.want)
		}
	}
	if c, err := parse("", "-m=m", "--osl=9", "--osl-stddev=2"); err != nil || c.Dataset.Input != (Length{Mean: 512}) || c.Dataset.Output != (Length{Mean: 9, Stddev: 2}) {
		t.Errorf("got %+v, %v", c, err)
	}
}

// A list of phases with nothing in it is said, whatever the dataset.
func TestNoPhases(t *testing.T) {
	for _, dataset := range []string{"{isl: 8}", "{type: file, path: a.jsonl}"} {
		yaml := "benchmark:\n  model: m\n  endpoint: {url: a:1}\n  dataset: " + dataset + "\n  phases: []\n"
		if got, want := message(t, yaml), "run.yaml:5:11: benchmark.phases: List should have at least 1 item after validation, not 0."; got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", dataset, got, want)
		}
	}
}

func FuzzMix(f *testing.F) {
	for _, s := range []string{"128,64:25;512|20,128|5:75", "[(1,2):100]", `{"pairs":[{"isl":1,"osl":2,"prob":100}]}`, "", "[", "{"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		mix, err := parseMix(s)
		if err != nil {
			return
		}
		sum := 0.0
		for _, m := range mix {
			sum += m.Percent
			if m.Input.Mean < 1 || m.Output.Mean < 1 {
				t.Errorf("%q gives %+v", s, m)
			}
		}
		if len(mix) == 0 || fmt.Sprintf("%.3f", sum) != "100.000" {
			t.Errorf("%q gives %+v", s, mix)
		}
	})
}

// A flag alone brings the other one's default into what aiperf notes.
func TestTurnsOfFlagsAreNotedWhole(t *testing.T) {
	for flag, want := range map[string]string{
		"--session-turns-mean":       `"turns":{"mean":3.0,"stddev":0.0}`,
		"--session-turns-stddev":     `"turns":{"mean":1.0,"stddev":3.0}`,
		"--session-turn-delay-mean":  `"turn_delay":{"mean":3.0,"stddev":0.0}`,
		"--conversation-turn-mean":   `"turns":{"mean":3.0,"stddev":0.0}`,
		"--conversation-turn-stddev": `"turns":{"mean":1.0,"stddev":3.0}`,
	} {
		b, err := mustParse(t, "", "-m", "m", flag, "3").Input.MarshalJSON()
		if err != nil || !strings.Contains(string(b), want) {
			t.Errorf("%s 3: %s (%v), want %s in it", flag, b, err, want)
		}
	}
}
