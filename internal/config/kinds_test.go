package config

import (
	"slices"
	"strings"
	"testing"
)

func TestKindsOfEndpoint(t *testing.T) {
	c := mustParse(t, "", "-m", "m", "--tokenizer", "builtin", "--endpoint-type", "EMBEDDINGS", "--streaming", "--osl", "8", "--batch-size", "4",
		"--use-legacy-max-tokens", "--request-count", "2", "--no-gpu-telemetry", "--no-server-metrics")
	if c.Endpoint.Type != "embeddings" || c.Endpoint.Streaming || c.Dataset.Batch != 4 || c.Artifacts.Dir != "artifacts/m-openai-embeddings-concurrency1" {
		t.Errorf("%+v", c)
	}
	want := []string{
		"--streaming: Streaming is not supported for endpoint type 'embeddings'. Streaming will be disabled.",
		"--osl has no effect: an embedding has no output tokens that could be limited.",
		"--use-legacy-max-tokens has no effect: the embeddings endpoint has one name for the output limit or none.",
	}
	if !slices.Equal(c.Notices, want) {
		t.Errorf("notices %q\nwant %q", c.Notices, want)
	}
	b, err := c.Input.MarshalJSON()
	if err != nil || !strings.Contains(string(b), `"type":"embeddings","streaming":false,`) {
		t.Errorf("%s, %v", b, err)
	}
	c = mustParse(t, "", "-m", "m", "--tokenizer", "builtin", "--endpoint-type", "completions", "--streaming", "--url-strategy", "round-robin",
		"--request-content-type", "application/json")
	if c.Endpoint.Type != "completions" || !c.Endpoint.Streaming {
		t.Errorf("%+v", c.Endpoint)
	}
	b, err = c.Input.MarshalJSON()
	if err != nil || !strings.Contains(string(b), `{"urls":["http://localhost:8000"],"url_strategy":"round_robin","type":"completions","streaming":true,"request_content_type":"application/json"}`) {
		t.Errorf("%s, %v", b, err)
	}
}

func TestWhatAnEndpointCannotDo(t *testing.T) {
	for args, want := range map[string]string{
		"--endpoint-type|completions|--system-prompt|x": "--system-prompt/--system-prompt-file is not supported by endpoint type 'completions' (no system role), so the " +
			"text would never reach the wire.",
		"--endpoint-type|completions|--shared-system-prompt-length|9":                        "--shared-system-prompt-length: endpoint type 'completions' takes texts and no messages",
		"--endpoint-type|embeddings|--user-context-prompt-length|9":                          "--user-context-prompt-length: endpoint type 'embeddings' takes texts and no messages",
		"--endpoint-type|completions|--cache-bust|first_turn_prefix":                         "--cache-bust: cache-bust markers go into the messages",
		"--endpoint-type|completions|--session-turns-mean|2":                                 "--session-turns-mean: Completions endpoint only supports one turn",
		"--endpoint-type|embeddings|--session-turns-stddev|1":                                "--session-turns-stddev: Embeddings endpoint only supports one turn",
		"--endpoint-type|embeddings|--streaming|--prefill-concurrency|1":                     "prefill_concurrency requires endpoint.streaming=true",
		"--per-chunk-usage|--streaming":                                                      "--per-chunk-usage requires --use-server-token-count",
		"--per-chunk-usage|--use-server-token-count":                                         "--per-chunk-usage requires --streaming",
		"--per-chunk-usage|--use-server-token-count|--streaming|--endpoint-type|completions": "--per-chunk-usage requires endpoint type 'chat'",
		"--request-content-type|multipart/form-data": "request_content_type=multipart/form-data is only supported for endpoint types that accept form-data (e.g. image_edit, " +
			"video_generation); endpoint type chat does not.",
		"--model-selection-strategy|weighted": "All models must have weights specified when using weighted strategy",
		"--url-strategy|random":               "--url-strategy: Input should be 'round_robin', got 'random'",
	} {
		if got := message(t, "", append([]string{"-m", "m", "--tokenizer", "builtin"}, strings.Split(args, "|")...)...); !strings.Contains(got, want) {
			t.Errorf("%s:\n%s\nlacks %s", args, got, want)
		}
	}
	c := mustParse(t, "", "-m", "m", "--tokenizer", "builtin", "--per-chunk-usage", "--use-server-token-count", "--streaming")
	if !c.Endpoint.PerChunkUsage {
		t.Errorf("%+v", c.Endpoint)
	}
}

func TestSeveralModels(t *testing.T) {
	c := mustParse(t, "", "-m", "org/a,b", "--model", "c", "--model-selection-strategy", "RANDOM", "--request-count", "2", "--no-gpu-telemetry", "--no-server-metrics")
	if !slices.Equal(c.Models, []string{"org/a", "b", "c"}) || c.ModelStrategy != "random" || c.ModelWeights != nil ||
		c.Artifacts.Dir != "artifacts/org_a_multi-openai-chat-concurrency1" || c.Tokenizer != "org/a" {
		t.Errorf("%+v", c)
	}
	if want := []string{"prompts and answers of all models are counted with the tokenizer of the first, org/a; --tokenizer names another."}; !slices.Equal(c.Notices, want) {
		t.Errorf("notices %q", c.Notices)
	}
	const ok = "phases: {type: concurrency, requests: 5}\n"
	weighted := strings.Replace(minimal(ok), "model: m", "models: {strategy: weighted, items: [{name: a, weight: 0.75}, {name: b, weight: 0.25}]}", 1)
	c = mustParse(t, weighted, "--tokenizer", "builtin")
	if !slices.Equal(c.Models, []string{"a", "b"}) || c.ModelStrategy != "weighted" || !slices.Equal(c.ModelWeights, []float64{0.75, 0.25}) {
		t.Errorf("%+v", c)
	}
	b, err := c.Input.MarshalJSON()
	if err != nil || !strings.HasPrefix(string(b), `{"models":{"strategy":"weighted","items":[{"name":"a","weight":0.75},{"name":"b","weight":0.25}]},`) {
		t.Errorf("%s, %v", b, err)
	}
	for replace, want := range map[string]string{
		"0.75": "", // no weight at all is refused below
		"2":    "run.yaml:3:58: benchmark.models.items.0.weight: Input should be less than or equal to 1; found 2 (an integer).",
		"0.5":  "run.yaml:3:22: benchmark.models.strategy: Model weights must sum to 1.0, got 0.75.",
	} {
		file := strings.Replace(weighted, "0.75", replace, 1)
		if want == "" {
			file, want = strings.Replace(weighted, ", weight: 0.75", "", 1), "All models must have weights specified when using weighted strategy"
		}
		if got := message(t, file); !strings.Contains(got, want) {
			t.Errorf("%s:\n%s\nlacks %s", replace, got, want)
		}
	}
}
