package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestFileDatasetsByFlags(t *testing.T) {
	base := []string{"--model", "m", "--tokenizer", "builtin", "--input-file", "a.jsonl"}
	ms := func(v float64) *float64 { return &v }
	second := time.Second
	for _, c := range []struct {
		flags string
		want  FileDataset
		out   Length
	}{
		{"", FileDataset{Sampling: "sequential"}, Length{}},
		{"--custom-dataset-type multi-turn --dataset-sampling-strategy SHUFFLE --osl 5 --osl-stddev 2", FileDataset{Format: "multi_turn", Sampling: "shuffle"},
			Length{Mean: 5, Stddev: 2}},
		{"--custom-dataset-type random_pool --request-count 7", FileDataset{Format: "random_pool", Sampling: "sequential", Entries: 7}, Length{}},
		{"--custom-dataset-type random_pool --request-count 7 --num-sessions 6", FileDataset{Format: "random_pool", Sampling: "sequential", Entries: 6}, Length{}},
		{"--custom-dataset-type random_pool --num-sessions 6 --num-prompts 3", FileDataset{Format: "random_pool", Sampling: "sequential", Entries: 3}, Length{}},
		{"--custom-dataset-type mooncake_trace --isl-block-size 64 --synthesis-max-isl 9 --synthesis-max-osl 8 --inter-turn-delay-cap-seconds 1",
			FileDataset{Format: "mooncake_trace", Sampling: "sequential", Block: 64, MaxInput: 9, MaxOutput: 8, DelayCap: &second, Schedule: Schedule{IfTimed: true}},
			Length{}},
		{"--custom-dataset-type mooncake_trace --no-fixed-schedule --ignore-trace-delays", FileDataset{Format: "mooncake_trace", Sampling: "sequential", IgnoreTimes: true},
			Length{}},
		{"--custom-dataset-type burst_gpt_trace", FileDataset{Format: "burst_gpt_trace", Sampling: "sequential"}, Length{}},
		{"--fixed-schedule --fixed-schedule-start-offset 5 --fixed-schedule-end-offset 50", FileDataset{Sampling: "sequential", Schedule: Schedule{On: true, Start: ms(5),
			End: ms(50)}}, Length{}},
		{"--fixed-schedule --fixed-schedule-auto-offset", FileDataset{Sampling: "sequential", Schedule: Schedule{On: true, FromFirst: true}}, Length{}},
	} {
		got := mustParse(t, "", slices.Concat(base, strings.Fields(c.flags))...).Dataset
		c.want.Path = "a.jsonl"
		entries := got.File.Entries
		if c.want.Entries == 0 {
			got.File.Entries = 0 // the other formats use the whole file
		}
		if !reflect.DeepEqual(*got.File, c.want) || got.Output != c.out || got.Input != (Length{}) {
			t.Errorf("%s: %+v (%d entries), output %v; want %+v, %v", c.flags, *got.File, entries, got.Output, c.want, c.out)
		}
	}
	for _, c := range []struct{ flags, want string }{
		{"--isl 5", "--isl is only supported with synthetic datasets; remove --input-file"},
		{"--isl-stddev 5", "--isl-stddev is only supported with synthetic datasets"},
		{"--custom-dataset-type weka_trace", "--custom-dataset-type weka_trace: not supported yet by this version of prefire, which has 'single_turn'"},
		{"--custom-dataset-type what", "--custom-dataset-type"},
		{"--dataset-sampling-strategy best", "--dataset-sampling-strategy"},
		{"--fixed-schedule-auto-offset", "--fixed-schedule-{auto,start,end}-offset requires --fixed-schedule."},
		{"--fixed-schedule-end-offset 5", "--fixed-schedule-{auto,start,end}-offset requires --fixed-schedule."},
		{"--fixed-schedule --fixed-schedule-auto-offset --fixed-schedule-start-offset 5", "exclude each other"},
		{"--fixed-schedule --fixed-schedule-start-offset 6 --fixed-schedule-end-offset 5", "the start must not be after the end"},
		{"--fixed-schedule --dataset-sampling-strategy random", "--fixed-schedule needs sequential sampling"},
		{"--custom-dataset-type single_turn --isl-block-size 5", "--isl-block-size only applies to hash-id trace replay"},
		{"--synthesis-max-isl 0", "--synthesis-max-isl"},
	} {
		if got := message(t, "", slices.Concat(base, strings.Fields(c.flags))...); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s\nwant %s", c.flags, got, c.want)
		}
	}
	for _, flags := range []string{
		"--custom-dataset-type single_turn", "--ignore-trace-delays", "--fixed-schedule", "--inter-turn-delay-cap-seconds 1",
		"--isl-block-size 5", "--synthesis-max-isl 5", "--synthesis-max-osl 5",
	} {
		name, _, _ := strings.Cut(flags, " ")
		if got, want := message(t, "", slices.Concat(base[:4], strings.Fields(flags))...), name+" needs a dataset from a file: pass --input-file"; !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", flags, got, want)
		}
	}
	if got := mustParse(t, "", "--model", "m", "--tokenizer", "builtin", "--dataset-sampling-strategy", "sequential").Dataset.File; got != nil {
		t.Errorf("sequential synthetic prompts are a file: %+v", got)
	}
}

const fileYAML = `schemaVersion: "2.0"
benchmark:
  model: m
  endpoint: {url: "http://h"}
  dataset: {type: file, path: a.jsonl, format: mooncake_trace, sampling: sequential, synthesis: {max_isl: 9, max_osl: 8}, entries: 4, osl: {mean: 5, stddev: 1},
    inter_turn_delay_cap_seconds: 0.5, block_size: 64, ignore_trace_delays: true}
  profiling: {type: concurrency, requests: 3}
  tokenizer: {name: builtin}
`

func TestFileDatasetsByFile(t *testing.T) {
	half := time.Second / 2
	c := mustParse(t, fileYAML)
	want := FileDataset{Path: "a.jsonl", Format: "mooncake_trace", Sampling: "sequential", Entries: 4, Block: 64, MaxInput: 9, MaxOutput: 8, IgnoreTimes: true,
		DelayCap: &half}
	if !reflect.DeepEqual(*c.Dataset.File, want) || c.Dataset.Output != (Length{Mean: 5, Stddev: 1}) {
		t.Errorf("got %+v, output %v", *c.Dataset.File, c.Dataset.Output)
	}
	const echo = `{"name":"default","type":"file","path":"a.jsonl","format":"mooncake_trace","sampling":"sequential","synthesis":{"max_isl":9,"max_osl":8},"entries":4,` +
		`"inter_turn_delay_cap_seconds":0.5,"osl":{"mean":5.0,"stddev":1.0},"block_size":64,"ignore_trace_delays":true}`
	if got := strings.Join(strings.Fields(asJSON(t, c.Input)), ""); !strings.Contains(got, echo) {
		t.Errorf("the echo is %s, want %s in it", got, echo)
	}
	if got := mustParse(t, fileYAML, "--input-file", "b.jsonl", "--isl-block-size", "16").Dataset.File; got.Path != "b.jsonl" || got.Block != 16 {
		t.Errorf("flags do not stand above the file: %+v", got)
	}
	if got := message(t, strings.Replace(fileYAML, "type: file, path: a.jsonl, format: mooncake_trace, sampling: sequential, synthesis: {max_isl: 9, max_osl: 8}, entries: 4, osl: {mean: 5, stddev: 1},\n    inter_turn_delay_cap_seconds: 0.5, block_size: 64, ignore_trace_delays: true", "isl: 8", 1), "--input-file", "b.jsonl"); !strings.Contains(got, "--input-file applies to a file dataset, but the config file declares type: synthetic") {
		t.Errorf("a file for a synthetic dataset: %s", got)
	}
}

// What shapes a file's prompts, and rows that stand in the config file itself.
func TestFileDatasetsWithPromptKeys(t *testing.T) {
	yaml := strings.Replace(minimal("phases: {type: concurrency, requests: 1}"), "  dataset: {isl: 8}\n", "", 1)
	yaml = strings.Replace(yaml, "  phases:", `  dataset:
    type: file
    records: [{text: "one two", output_length: 3}, {texts: [a, b]}]
    cache_bust: {target: first_turn_prefix}
    prompts: {corpus: coding}
    system_prompt: Be brief.
  phases:`, 1)
	c := mustParse(t, yaml)
	want := Dataset{Name: c.Dataset.Name, Corpus: "coding", CacheBust: "first_turn_prefix", System: "Be brief.", Entries: c.Dataset.Entries,
		File: &FileDataset{Path: "run.yaml (records)", Format: "single_turn", Sampling: "sequential", Entries: c.Dataset.File.Entries,
			Records: []byte(`{"text":"one two","output_length":3}` + "\n" + `{"texts":["a","b"]}` + "\n")}}
	if !reflect.DeepEqual(c.Dataset, want) {
		t.Errorf("%+v, %+v; want %+v, %+v", c.Dataset, *c.Dataset.File, want, *want.File)
	}
	const echo = `"records":[{"text":"one two","output_length":3},{"texts":["a","b"]}],"format":"single_turn"`
	b, err := c.Input.MarshalJSON()
	if err != nil || !strings.Contains(string(b), echo) {
		t.Errorf("%s (%v) has no %s", b, err, echo)
	}
	for _, c := range []struct{ from, to, want string }{
		{"type: file", "type: file\n    path: x.jsonl", "FileDataset requires exactly one source"},
		{`[{text: "one two", output_length: 3}, {texts: [a, b]}]`, "[]", "benchmark.dataset.records: List should have at least 1 item"},
		{`[{text: "one two", output_length: 3}, {texts: [a, b]}]`, "[5]", "benchmark.dataset.records[0]: Input should be a valid dictionary; found 5"},
		{`[{text: "one two", output_length: 3}, {texts: [a, b]}]`, "{a: [{text: b}]}", "Several pools of random_pool are given as a folder"},
		{"prompts: {corpus: coding}", "prompt_batch_size: 2", "a number of texts a request is only supported with synthetic datasets and with --custom-dataset-type random_pool"},
	} {
		if got := message(t, strings.Replace(yaml, c.from, c.to, 1)); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s\nwant %s", c.to, got, c.want)
		}
	}
	if got := message(t, yaml, "--input-file", "a.jsonl"); !strings.Contains(got, "--input-file is given, and the config file has the rows themselves") {
		t.Error(got)
	}
	for _, c := range []struct{ flags, want string }{
		{"--batch-size 2", "--batch-size: a number of texts a request"},
		{"--repeat-share 0.5", "--repeat-share: it is only supported with synthetic datasets"},
		{"--isl-counts template", "--isl-counts: it is only supported with synthetic datasets"},
		{"--system-prompt x --system-prompt-file nope", "--system-prompt-file: a system prompt from a file cannot be combined with --system-prompt"},
	} {
		if got := message(t, "", append([]string{"--model", "m", "--input-file", "a.jsonl"}, strings.Fields(c.flags)...)...); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s\nwant %s", c.flags, got, c.want)
		}
	}
	pool := mustParse(t, "", "--model", "m", "--input-file", "a", "--custom-dataset-type", "random_pool", "--batch-size", "3", "--cache-bust", "system_suffix").Dataset
	if pool.Batch != 3 || pool.CacheBust != "system_suffix" {
		t.Errorf("%+v", pool)
	}
}

// traced is a file of schema 2.0 whose dataset is a trace, with these phases.
func traced(phases string) string {
	return "benchmark:\n  model: m\n  endpoint: {url: h}\n  dataset: {type: file, path: t.jsonl, format: mooncake_trace}\n  phases:\n" + phases
}

func TestFixedScheduleOfAConfigFile(t *testing.T) {
	ms := func(v float64) *float64 { return &v }
	for _, tt := range []struct {
		phase  string
		args   []string
		want   Schedule
		capped bool
		kept   int
	}{
		{"{name: profiling, type: fixed_schedule}", nil, Schedule{On: true, FromFirst: true}, false, 1},
		{"{name: profiling, type: fixed_schedule, auto_offset: false, start_offset: 5, end_offset: 9, concurrency: 7}", nil,
			Schedule{On: true, Start: ms(5), End: ms(9)}, true, 7},
		{"{name: profiling, type: fixed_schedule, duration: 3}", []string{"--no-fixed-schedule=false"}, Schedule{On: true, FromFirst: true}, false, 1},
		{"{name: profiling, type: concurrency, requests: 3}", []string{"--no-gpu-telemetry"}, Schedule{IfTimed: true}, false, 1},
	} {
		c := mustParse(t, traced("    - {name: warmup, type: concurrency, requests: 2}\n    - "+tt.phase+"\n"), tt.args...)
		p := c.Phases[1]
		if got := c.Dataset.File.Schedule; !reflect.DeepEqual(got, tt.want) || p.Capped != tt.capped || p.Concurrency != tt.kept || p.Load.Open() {
			t.Errorf("%s: schedule %+v, phase %+v; want %+v, capped %t, concurrency %d", tt.phase, got, p, tt.want, tt.capped, tt.kept)
		}
	}
	for _, tt := range []struct{ phases, want string }{
		{"    - {name: warmup, type: fixed_schedule}\n    - {name: profiling, type: concurrency, requests: 1}\n",
			"run.yaml:6:28: benchmark.phases.0.type: a warm-up phase on a fixed schedule is known to aiperf, not supported by this version of prefire."},
		{"    - {name: profiling, type: fixed_schedule, requests: 3}\n",
			"run.yaml:6:57: benchmark.phases.0.requests: a number of requests or sessions on a fixed schedule is known to aiperf, not supported by this " +
				"version of prefire, which plays the file to its end: give a duration or an end_offset, or shorten the file."},
		{"    - {name: profiling, type: fixed_schedule, start_offset: 3}\n",
			"run.yaml:6:61: benchmark.phases.0.start_offset: auto_offset cannot be True when start_offset is set: set auto_offset to false."},
		{"    - {name: profiling, type: fixed_schedule, auto_offset: false, start_offset: 3, end_offset: 2}\n",
			"run.yaml:6:81: benchmark.phases.0.start_offset: start_offset must be <= end_offset: 3 is after 2."},
		{"    - {name: profiling, type: fixed_schedule}\n    - {name: b, kind: profiling, type: concurrency, requests: 1}\n",
			"run.yaml:6:8: benchmark.phases.0: phase 'profiling' on a fixed schedule beside phase 'b', which is on none, is known to aiperf, not supported " +
				"by this version of prefire."},
		{"    - {name: profiling, type: fixed_schedule}\n    - {name: b, kind: profiling, type: fixed_schedule, auto_offset: false}\n",
			"run.yaml:7:40: benchmark.phases.1.type: phases on a fixed schedule with different offsets are known to aiperf, not supported by this version " +
				"of prefire."},
	} {
		if got := message(t, traced(tt.phases)); got != tt.want {
			t.Errorf("%s: got\n%s\nwant\n%s", tt.phases, got, tt.want)
		}
	}
	if got, want := message(t, minimal("phases: {type: fixed_schedule}")), "run.yaml:6:12: benchmark.phases: Phase 'profiling' uses fixed_schedule, which takes "+
		"its times from a dataset of type file"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
