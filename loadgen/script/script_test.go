package script

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"prefire/loadgen"
	"prefire/loadgen/wire"
	"prefire/loadgen/wire/fake"
	"prefire/metrics"
)

func event(delta string) string { return `{"choices":[{"index":0,"delta":{` + delta + `}}]}` }

// answers plays each chat with three tokens 10 ms apart, the first after 50 ms, and usage; the third request of all fails.
func answers(n int64, _ *wire.Call) fake.Answer {
	if n == 3 {
		return fake.Answer{Status: 503, ContentType: "application/json", Head: time.Millisecond}
	}
	gap := 10 * time.Millisecond
	return fake.Answer{Parts: []fake.Part{fake.Text(50*time.Millisecond, event(`"content":"a"`)), fake.Text(gap, event(`"content":"b"`)), fake.Text(gap, event(`"content":"c"`)),
		fake.Text(0, `{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}}`, "[DONE]")}}
}

func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := fake.NewClock()
		transport := fake.New(fake.Options{Clock: clock, Script: answers})
		var asked []string
		r, err := Run(t.Context(), Options{URL: "http://fake", Model: "m", MaxTokens: 3, Clock: clock, Transport: transport, Prompt: func(phase string, i int64) (string, error) {
			asked = append(asked, phase)
			if phase == "b" && i == 3 {
				return "", io.EOF
			}
			return phase, nil
		}},
			loadgen.Phase{Name: "a", Kind: metrics.Profiling, Concurrency: 1, Requests: 4, Grace: -1},
			loadgen.Phase{Name: "b", Kind: metrics.Profiling, Concurrency: 1, Requests: 10, Grace: -1})
		if err != nil {
			t.Fatal(err)
		}
		if err := transport.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		a, b := &r.Phases[0], &r.Phases[1]
		if a.OK != 3 || a.Failed != 1 || len(a.Errors) != 1 || a.Errors[0].Error.Code != 503 || b.OK != 3 || b.Sent != 3 {
			t.Errorf("a %d ok, %d failed, %v; b %d ok of %d; want 3, 1, a 503, 3 of 3", a.OK, a.Failed, a.Errors, b.OK, b.Sent)
		}
		for tag, want := range map[string]float64{"time_to_first_token": 50, "inter_token_latency": 10, "request_latency": 70, "input_sequence_length": 7,
			"output_sequence_length": 3} {
			if got, ok := b.Find(tag); !ok || got.Avg != want || got.Count != 3 {
				t.Errorf("%s is %v over %d, want %v over 3", tag, got.Avg, got.Count, want)
			}
		}
		if _, ok := b.Find("no_such_metric"); ok {
			t.Error("a metric that there is not is found")
		}
		if asked[0] != "prewarm" || !r.Summary.Prewarm.Targets[0].Proven {
			t.Errorf("prompts were asked for %v, proven warm %v", asked, r.Summary.Prewarm.Targets[0].Proven)
		}
	})
}

func TestWhatCannotRun(t *testing.T) {
	clock := fake.NewClock()
	good := Options{URL: "http://fake", Model: "m", Clock: clock, Transport: fake.New(fake.Options{Clock: clock, Script: answers}),
		Prompt: func(string, int64) (string, error) { return "p", nil }}
	phase := loadgen.Phase{Name: "a", Concurrency: 1, Requests: 1, Grace: -1}
	for want, c := range map[string]struct {
		change func(*Options)
		phases []loadgen.Phase
	}{
		"needs a phase":          {func(*Options) {}, nil},
		"needs a clock":          {func(o *Options) { o.Clock = nil }, []loadgen.Phase{phase}},
		"is no address":          {func(o *Options) { o.URL = "fake:80" }, []loadgen.Phase{phase}},
		"the name of a model":    {func(o *Options) { o.Model = "" }, []loadgen.Phase{phase}},
		"prompt 0 of prewarm: x": {func(o *Options) { o.Prompt = func(string, int64) (string, error) { return "", errors.New("x") } }, []loadgen.Phase{phase}},
	} {
		o := good
		c.change(&o)
		if r, err := Run(t.Context(), o, c.phases...); err == nil || r != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, %v; want an error with %q", r, err, want)
		}
	}
}
