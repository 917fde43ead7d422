package config

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"prefire/metrics"
)

// What a file's templates become is what aiperf's loader makes of them (testdata/render.py made the values).
func TestTemplatesAreFilledInAsByAiperf(t *testing.T) {
	d := &decoder{file: "run.yaml"}
	env := func(name string) (string, bool) { return "9", name == "NINE" }
	root, err := readYAML("run.yaml", []byte(fixture(t, "render.yaml")), env)
	if err != nil {
		t.Fatal(err)
	}
	before := asJSON(t, root.plainValue())
	got := asJSON(t, d.rendered(root).plainValue())
	if len(d.problems) > 0 {
		t.Fatal(d.problems)
	}
	if want := fixture(t, "render.json"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if after := asJSON(t, root.plainValue()); after != before {
		t.Errorf("rendering changed the file:\n%s\nwas\n%s", after, before)
	}
}

func TestTemplatesInAFile(t *testing.T) {
	c := mustParse(t, `
variables:
  total: "{{ per_gpu * gpus }}"
  per_gpu: 32
  gpus: ${GPUS:4}
benchmark:
  model: "{{ variables.total }}b"
  endpoint: {url: h, streaming: "{{ gpus > 1 }}"}
  dataset: {isl: {mean: "{{ total * 4 }}", stddev: "{{ total // 10 }}"}}
  phases:
    - {name: warmup, type: concurrency, requests: "{{ total }}", concurrency: "{{ per_gpu // 2 }}"}
    - {name: profiling, type: poisson, rate: "{{ total / 4 }}", duration: "{{ gpus }}m", concurrency: "{{ phases.warmup.concurrency_cap | default(7) }}"}
`, "--benchmark-grace-period", "5")
	if want := []string{"128b"}; !slices.Equal(c.Models, want) || !c.Endpoint.Streaming {
		t.Errorf("models %q, streaming %t; want %q and true", c.Models, c.Endpoint.Streaming, want)
	}
	if want := (Length{Mean: 512, Stddev: 12}); c.Dataset.Input != want {
		t.Errorf("input %v, want %v", c.Dataset.Input, want)
	}
	want := []Phase{
		{Name: "warmup", Kind: metrics.Warmup, Requests: 128, Concurrency: 16, Grace: Infinite, Load: closedLoad()},
		{Name: "profiling", Kind: metrics.Profiling, Duration: 4 * time.Minute, Grace: 5 * time.Second, Concurrency: 7, Load: Load{Type: "poisson", Rate: 32}},
	}
	if !reflect.DeepEqual(c.Phases, want) {
		t.Errorf("phases\n%+v\nwant\n%+v", c.Phases, want)
	}
}
