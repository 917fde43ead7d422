package config

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"prefire/metrics"
)

const seriesJSON = `{"points":[{"time_s":0,"qps":5},{"time_s":2.5,"qps":20}]}`

// parseWith parses flags, with a rate series in the file s.json and one with a fault in bad.json.
func parseLoad(args ...string) (*Config, error) {
	return Parse(append([]string{"-m", "m", "--streaming"}, args...), noEnv, files(map[string]string{
		"s.json": seriesJSON, "list.json": `[{"time_s":0,"qps":5},{"time_s":1,"qps":6}]`,
		"bad.json": `{"points":[{"time_s":0,"qps":5},{"time_s":0,"qps":20}]}`, "zero.json": `[{"time_s":0,"qps":0},{"time_s":1,"qps":1}]`,
		"key.json": `{"rates":[]}`, "one.json": `[{"time_s":0,"qps":1}]`, "text.json": `{`, "word.json": `[{"time_s":0,"qps":"x"},{"time_s":1,"qps":1}]`,
	}))
}

func TestLoadFlags(t *testing.T) {
	share := 0.25
	series := []RatePoint{{0, 5}, {2.5, 20}}
	for _, tt := range []struct {
		args string
		want Phase
		dir  string
	}{
		{"--request-rate|10", Phase{Requests: 10, Load: Load{Type: "poisson", Rate: 10}}, "request_rate10.0"},
		{"--request-rate|0.5|--arrival-pattern|constant|--concurrency|4", Phase{Requests: 10, Concurrency: 4, Load: Load{Type: "constant", Rate: 0.5}},
			"concurrency4-request_rate0.5"},
		{"--request-rate|10|--arrival-smoothness|2", Phase{Requests: 10, Load: Load{Type: "gamma", Rate: 10, Smoothness: 2}}, "request_rate10.0"},
		{"--request-rate|10|--request-rate-mode|gamma", Phase{Requests: 10, Load: Load{Type: "gamma", Rate: 10, Smoothness: 1}}, "request_rate10.0"},
		{"--request-rate|10|--request-rate-ramp-duration|30s", Phase{Requests: 10, Load: Load{Type: "poisson", Rate: 10,
			RateRamp: Ramp{30 * time.Second, "linear"}}}, "request_rate10.0"},
		{"--request-rate-series|s.json|--benchmark-duration|9", Phase{Duration: 9 * time.Second, Grace: 30 * time.Second,
			Load: Load{Type: "poisson", Series: series}}, "request_rate5.0"},
		{"--request-rate-series|list.json", Phase{Requests: 10, Load: Load{Type: "poisson", Series: []RatePoint{{0, 5}, {1, 6}}}}, "request_rate5.0"},
		{"--concurrency|8|--prefill-concurrency|2|--concurrency-ramp-duration|4|--prefill-concurrency-ramp-duration|1m",
			Phase{Requests: 10, Concurrency: 8, Load: Load{Type: "concurrency", Prefill: 2, ConcurrencyRamp: Ramp{4 * time.Second, "linear"},
				PrefillRamp: Ramp{time.Minute, "linear"}}}, "concurrency8"},
		{"--request-cancellation-rate|2.5|--request-cancellation-delay|0.5|--failed-request-threshold|0.25",
			Phase{Requests: 10, Concurrency: 1, Load: Load{Type: "concurrency", CancelShare: 0.025, CancelDelay: 500 * time.Millisecond, FailedShare: &share}},
			"concurrency1"},
		{"--user-centric-rate|2|--num-users|4|--session-turns-mean|20", Phase{Requests: 10, Load: Load{Type: "user_centric", Rate: 2, Users: 4}},
			"user_centric-users4-qps2.0"},
		{"--user-centric-rate|0.5|--num-users|3|--session-turns-mean|2|--benchmark-duration|9|--concurrency|8|--request-rate|7",
			Phase{Duration: 9 * time.Second, Grace: 30 * time.Second, Concurrency: 8, Load: Load{Type: "user_centric", Rate: 0.5, Users: 3}},
			"user_centric-users3-qps0.5"},
	} {
		c, err := parseLoad(strings.Split(tt.args, "|")...)
		if err != nil {
			t.Errorf("%s: %v", tt.args, err)
			continue
		}
		tt.want.Name = "profiling"
		if tt.want.Duration == 0 {
			tt.want.Grace = Infinite
		}
		if !reflect.DeepEqual(c.Phases, []Phase{tt.want}) || c.Artifacts.Dir != "artifacts/m-openai-chat-"+tt.dir {
			t.Errorf("%s:\ngot  %+v in %s\nwant %+v in %s", tt.args, c.Phases, c.Artifacts.Dir, tt.want, tt.dir)
		}
	}
}

func TestAWarmUpInheritsItsLoad(t *testing.T) {
	for _, tt := range []struct {
		args string
		want Load
		c    int
	}{
		{"--request-rate|10|--arrival-pattern|gamma|--arrival-smoothness|3|--concurrency|4", Load{Type: "gamma", Rate: 10, Smoothness: 3}, 4},
		{"--request-rate|10|--arrival-smoothness|3", Load{Type: "poisson", Rate: 10}, 0},
		{"--request-rate|10", Load{Type: "poisson", Rate: 10}, 0},
		{"--request-rate|10|--warmup-request-rate|2|--warmup-arrival-pattern|constant|--warmup-concurrency|7", Load{Type: "constant", Rate: 2}, 7},
		{"--request-rate|10|--request-rate-ramp-duration|5", Load{Type: "poisson", Rate: 10, RateRamp: Ramp{5 * time.Second, "linear"}}, 0},
		{"--warmup-request-rate|3", Load{Type: "poisson", Rate: 3}, 0},
		{"--concurrency|9|--prefill-concurrency|3|--warmup-prefill-concurrency|2|--concurrency-ramp-duration|8|--warmup-concurrency-ramp-duration|2",
			Load{Type: "concurrency", Prefill: 2, ConcurrencyRamp: Ramp{2 * time.Second, "linear"}}, 9},
		{"--request-rate-series|s.json", Load{Type: "concurrency"}, 1},
		{"--request-cancellation-rate|50|--failed-request-threshold|0.5", Load{Type: "concurrency"}, 1},
	} {
		c, err := parseLoad(append(strings.Split(tt.args, "|"), "--warmup-request-count", "5")...)
		if err != nil {
			t.Errorf("%s: %v", tt.args, err)
			continue
		}
		want := Phase{Name: "warmup", Kind: metrics.Warmup, Requests: 5, Concurrency: tt.c, Grace: Infinite, Load: tt.want}
		if !reflect.DeepEqual(c.Phases[0], want) {
			t.Errorf("%s:\ngot  %+v\nwant %+v", tt.args, c.Phases[0], want)
		}
	}
}

// The combinations that aiperf refuses, in its words.
func TestLoadsThatCannotBe(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"--request-rate|5|--request-rate-series|s.json", "--request-rate and --request-rate-series are mutually exclusive."},
		{"--arrival-smoothness|2", "--arrival-smoothness is only supported with --arrival-pattern gamma."},
		{"--request-rate|5|--arrival-pattern|constant|--arrival-smoothness|2", "--arrival-smoothness is only supported with --arrival-pattern gamma."},
		{"--request-rate-ramp-duration|5", "--request-rate-ramp-duration can only be used with rate-controlled scheduling"},
		{"--request-cancellation-delay|1", "--request-cancellation-delay requires --request-cancellation-rate to be set"},
		{"--concurrency|2|--prefill-concurrency|3", "Phase 'profiling': prefill_concurrency must be <= concurrency: 3 is more than 2"},
		{"--prefill-concurrency|2", "Phase 'profiling': prefill_concurrency must be <= concurrency: 2 is more than 1, the default"},
		{"--request-rate|0", "--request-rate: Input should be greater than 0, got '0'."},
		{"--request-cancellation-rate|101", "--request-cancellation-rate: Input should be less than or equal to 100, got '101'."},
		{"--failed-request-threshold|1.5", "--failed-request-threshold: Input should be less than or equal to 1, got '1.5'."},
		{"--arrival-pattern|uniform", "--arrival-pattern: Input should be 'concurrency_burst', 'constant', 'gamma' or 'poisson', got 'uniform'."},
		{"--warmup-request-rate|5", "--warmup-request-rate needs a warmup phase to apply to."},
		{"--warmup-request-count|3|--warmup-request-rate-ramp-duration|2", "--warmup-request-rate-ramp-duration requires warmup rate-controlled scheduling."},
		{"--request-rate-series|none.json", "--request-rate-series: Cannot read request-rate series JSON 'none.json': open none.json: file does not exist"},
		{"--request-rate-series|text.json", "--request-rate-series: Invalid request-rate series JSON 'text.json': "},
		{"--request-rate-series|key.json", "--request-rate-series: 'key.json': Request-rate series JSON must contain exactly one top-level key: points"},
		{"--request-rate-series|one.json", "--request-rate-series: 'one.json': Request-rate series requires at least two points"},
		{"--request-rate-series|bad.json", "time_s values must be strictly increasing: point 1 is at 0 s, the one before it at 0 s"},
		{"--request-rate-series|zero.json", "'zero.json': Invalid request-rate series point 0: qps is 0"},
		{"--request-rate-series|word.json", "'word.json': Invalid request-rate series point 0: qps is x"},
		{"--num-users|5", "--num-users requires --user-centric-rate. Pass --user-centric-rate to enable user-centric mode, or drop --num-users to use the " +
			"default concurrency/rate timing mode."},
		{"--user-centric-rate|5|--num-users|3", "User-centric rate mode requires --session-turns-mean >= 2. For single-turn workloads, use --request-rate instead."},
		{"--user-centric-rate|5|--session-turns-mean|3", "Phase 'profiling': users: Field required"},
		{"--user-centric-rate|5|--num-users|30|--session-turns-mean|3|--request-count|20", "--request-count: Phase 'profiling': --request-count (20) must be >= " +
			"--num-users (30). Each user needs at least one request."},
		{"--user-centric-rate|5|--num-users|30|--session-turns-mean|3|--num-sessions|20", "Phase 'profiling': --num-sessions (20) must be >= --num-users (30). " +
			"Each user needs at least one session."},
		{"--user-centric-rate|5|--num-users|3|--session-turns-mean|3|--request-rate-series|s.json", "--request-rate-series is not supported with --user-centric-rate."},
		{"--user-centric-rate|5|--num-users|3|--session-turns-mean|3|--arrival-smoothness|2", "--arrival-smoothness is only supported with --arrival-pattern gamma."},
		{"--user-centric-rate|0|--num-users|3", "--user-centric-rate: Input should be greater than 0, got '0'."},
		{"--user-centric-rate|1|--num-users|3,4", "In variation 0 of the sweep: phases.profiling.users=3."},
	} {
		_, err := parseLoad(strings.Split(tt.args, "|")...)
		var ce *Error
		if !errors.As(err, &ce) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s:\ngot  %v\nwant %s", tt.args, err, tt.want)
		}
	}
}

func TestLoadsInAFile(t *testing.T) {
	share := 0.5
	yaml := `phases:
    - {name: a, kind: profiling, type: gamma, rate: 5, smoothness: 2, rate_ramp: {duration: 3s, strategy: exponential}, duration: 10,
       concurrency: 8, concurrency_ramp: 2, prefill_concurrency: 4, prefill_ramp: {duration: 1, strategy: poisson},
       cancellation: {rate: 10, delay: 0.25}, failed_request_threshold: 0.5}
    - {name: b, kind: profiling, type: constant, rate_series: [{time_s: 0, qps: 1}, {time_s: 4, qps: 2.5}], requests: 3, seamless: true}`
	c := mustParse(t, minimal(yaml), "--streaming")
	want := []Phase{
		{Name: "a", Concurrency: 8, Duration: 10 * time.Second, Load: Load{Type: "gamma", Rate: 5, Smoothness: 2, RateRamp: Ramp{3 * time.Second, "exponential"},
			ConcurrencyRamp: Ramp{2 * time.Second, "linear"}, Prefill: 4, PrefillRamp: Ramp{time.Second, "poisson"}, CancelShare: 0.1,
			CancelDelay: 250 * time.Millisecond, FailedShare: &share}},
		{Name: "b", Requests: 3, Grace: Infinite, Load: Load{Type: "constant", Series: []RatePoint{{0, 1}, {4, 2.5}}, Seamless: true}},
	}
	if !reflect.DeepEqual(c.Phases, want) {
		t.Errorf("got  %+v\nwant %+v", c.Phases, want)
	}
	echo := `{"phases":[{"name":"a","kind":"profiling","type":"gamma","duration":10.0,"concurrency":8,"concurrency_ramp":{"duration":2.0},"prefill_concurrency":4,` +
		`"prefill_ramp":{"duration":1.0,"strategy":"poisson"},"cancellation":{"rate":10.0,"delay":0.25},"failed_request_threshold":0.5,"rate":5.0,` +
		`"rate_ramp":{"duration":3.0,"strategy":"exponential"},"smoothness":2.0},` +
		`{"name":"b","kind":"profiling","type":"constant","requests":3,"seamless":true,"rate_series":{"points":[{"time_s":0.0,"qps":1.0},{"time_s":4.0,"qps":2.5}]}}]}`
	if phases := echoedPhases(t, c); phases != echo {
		t.Errorf("echo\n%s\nwant\n%s", phases, echo)
	}
}

// echoedPhases is the part of a config's echo that holds the phases.
func echoedPhases(t *testing.T, c *Config) string {
	t.Helper()
	for _, kv := range c.Input {
		if kv.Key == "phases" {
			b, err := json.Marshal(Map{kv})
			if err != nil {
				t.Fatal(err)
			}
			return string(b)
		}
	}
	return ""
}

func TestUsersInAFile(t *testing.T) {
	edit := func(yaml, old, new string) string { return strings.Replace(yaml, old, new, 1) }
	phase := "phases: {type: user_centric, rate: 2, users: 15, requests: 60, rate_ramp: 5}"
	// A request rate is the users' own there: it changes no type.
	c := mustParse(t, edit(minimal(phase), "{isl: 8}", "{isl: 8, turns: 4, turn_delay: 100}"), "--request-rate", "3", "--num-users", "12")
	if want := (Load{Type: "user_centric", Rate: 3, Users: 12}); !reflect.DeepEqual(c.Phases[0].Load, want) {
		t.Errorf("got %+v, want %+v", c.Phases[0].Load, want)
	}
	echo := `{"phases":[{"name":"profiling","kind":"profiling","type":"user_centric","requests":60,"rate":3.0,"rate_ramp":{"duration":5.0},"users":12}]}`
	if got := echoedPhases(t, c); got != echo {
		t.Errorf("echo\n%s\nwant\n%s", got, echo)
	}
	for _, want := range []string{
		"benchmark.phases.rate_ramp has no effect: the gap between a user's turns does not change, as in aiperf.",
		"benchmark.dataset.turn_delay has no effect on phase 'profiling': the gap between a user's turns is users / rate, as in aiperf.",
	} {
		if notices := strings.Join(c.Notices, "\n"); !strings.Contains(notices, want) {
			t.Errorf("no notice says %q:\n%s", want, notices)
		}
	}
	// A phase of another type becomes one of users by the flag, and what it had of its own falls away.
	c = mustParse(t, minimal("phases: {type: gamma, rate: 2, smoothness: 3, requests: 60}"), "--user-centric-rate", "4", "--num-users", "5")
	if want := (Load{Type: "user_centric", Rate: 4, Users: 5}); !reflect.DeepEqual(c.Phases[0].Load, want) {
		t.Errorf("got %+v, want %+v", c.Phases[0].Load, want)
	}
	for _, tt := range []struct{ yaml, flag, value, want string }{
		{minimal(phase), "--arrival-pattern", "gamma", "--arrival-pattern cannot be applied to the 'user_centric' profiling phase from the config file"},
		{minimal(phase), "--arrival-smoothness", "2", "--arrival-smoothness cannot be applied to the 'user_centric' profiling phase from the config file"},
		{minimal("phases: {type: poisson, rate: 2, requests: 60}"), "--num-users", "3", "--num-users requires --user-centric-rate."},
		{edit(minimal(phase), "{isl: 8}", "{type: file, path: x, format: single_turn}"), "--num-users", "3",
			"Phase 'profiling' uses user_centric which requires multi_turn dataset format, but dataset 'default' uses 'single_turn' format"},
	} {
		if got := message(t, tt.yaml, tt.flag, tt.value); !strings.Contains(got, tt.want) {
			t.Errorf("%s %s:\ngot  %s\nwant %s", tt.flag, tt.value, got, tt.want)
		}
	}
}

func TestFaultsOfALoadInAFile(t *testing.T) {
	for _, tt := range []struct{ yaml, want string }{
		{"{type: concurrency, requests: 1, rate: 5}", "run.yaml:6:44: benchmark.phases.rate: Extra inputs are not permitted: unknown key 'rate'. A phase of type " +
			"'concurrency' has none; it belongs to type 'poisson', 'gamma', 'constant' or 'user_centric'."},
		{"{type: poisson, requests: 1, rate: 5, smoothness: 2}", "A phase of type 'poisson' has none; it belongs to type 'gamma'."},
		{"{type: poisson, requests: 1}", "Phase 'profiling': rate-controlled phases require rate or rate_series"},
		{"{type: poisson, requests: 1, rate: 2, rate_series: [{time_s: 0, qps: 1}, {time_s: 1, qps: 1}]}", "rate and rate_series are mutually exclusive"},
		{"{type: poisson, requests: 1, rate_series: [{time_s: 0, qps: 1}]}", "Request-rate series requires at least two points"},
		{"{type: poisson, requests: 1, rate_series: [{time_s: 1, qps: 1}, {time_s: 1, qps: 1}]}", "time_s values must be strictly increasing"},
		{"{type: poisson, requests: 1, rate_series: [{time_s: 1}, {time_s: 2, qps: 1}]}", "rate_series.0.qps: Field required."},
		{"{type: poisson, requests: 1, rate_series: {path: x, points: []}}", "rate_series.path and rate_series.points are mutually exclusive"},
		{"{type: poisson, requests: 1, rate: -1}", "benchmark.phases.rate: Input should be greater than 0; found -1 (an integer)."},
		{"{type: concurrency, requests: 1, cancellation: {delay: 1}}", "benchmark.phases.cancellation.rate: Field required: the per cent of requests to cancel."},
		{"{type: concurrency, requests: 1, cancellation: {rate: 200}}", "Input should be less than or equal to 100"},
		{"{type: concurrency, requests: 1, concurrency_ramp: {strategy: linear}}", "benchmark.phases.concurrency_ramp.duration: Field required."},
		{"{type: concurrency, requests: 1, concurrency_ramp: {duration: 1, strategy: sine}}", "Input should be 'linear', 'exponential' or 'poisson'"},
		{"{type: concurrency, requests: 1, seamless: true}", "Phase config 'profiling' cannot have seamless=True because it is first."},
		{"{type: concurrency, requests: 1, concurrency: 2, prefill_concurrency: 3}", "prefill_concurrency must be <= concurrency: 3 is more than 2"},
		{"{type: concurrency, requests: 1, concurrency: 2, prefill_concurrency: 2}", "prefill_concurrency requires endpoint.streaming=true"},
		{"{type: user_centric, requests: 9, rate: 2}", "Phase 'profiling': users: Field required"},
		{"{type: user_centric, requests: 9, users: 3}", "Phase 'profiling': rate-controlled phases require rate or rate_series"},
		{"{type: user_centric, requests: 9, users: 3, rate_series: [{time_s: 0, qps: 1}, {time_s: 1, qps: 1}]}", "user-centric phases do not support rate_series"},
		{"{type: user_centric, requests: 2, users: 3, rate: 2}", "Phase 'profiling': --request-count (2) must be >= --num-users (3)."},
		{"{type: concurrency, requests: 1, users: 3}", "A phase of type 'concurrency' has none; it belongs to type 'user_centric'."},
	} {
		_, err := parseWith(minimal("phases: " + tt.yaml))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s:\ngot  %v\nwant %s", tt.yaml, err, tt.want)
		}
	}
}
