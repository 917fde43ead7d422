package config

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestRequestsBesideTheLoad(t *testing.T) {
	reset := &ResetCache{Path: "/reset_prefix_cache", Timeout: 30 * time.Second, Retry: time.Minute}
	profiler := &Profiler{Start: "/start_profile", Stop: "/stop_profile", Timeout: 30 * time.Second}
	phase := "phases: {type: concurrency, requests: 1}"
	yaml := func(keys string) string { return strings.Replace(minimal(phase), "{url: h}", "{url: h, "+keys+"}", 1) }
	for _, tt := range []struct {
		name, yaml string
		args       []string
		want       Endpoint // what is of the requests beside the load
		echo       Map      // as above
	}{
		{"nothing", "", []string{"--wait-for-model-timeout", "0", "--reset-kv-cache=false"}, Endpoint{}, Map{{"wait_for_model_timeout", 0.0}}},
		{"waiting", "", []string{"--wait-for-model-timeout", "30"}, Endpoint{Wait: Wait{30 * time.Second, 5 * time.Second, "inference"}},
			Map{{"wait_for_model_timeout", 30.0}}},
		{"waiting otherwise", "", []string{"--wait-for-model-timeout", "5m", "--wait-for-model-mode", "Both", "--wait-for-model-interval", "0.5"},
			Endpoint{Wait: Wait{5 * time.Minute, 500 * time.Millisecond, "both"}},
			Map{{"wait_for_model_timeout", 300.0}, {"wait_for_model_interval", 0.5}, {"wait_for_model_mode", "both"}}},
		{"switches", "", []string{"--reset-kv-cache", "--server-profiler"}, Endpoint{Reset: reset, Profiler: profiler},
			Map{{"reset_kv_cache", Map{}}, {"server_profiler", Map{}}}},
		{"parts turn them on", "", []string{"--reset-kv-cache-path", "/r", "--server-profiler-start-path", "/a", "--server-profiler-stop-path", "/b",
			"--server-profiler-timeout-seconds", "3", "--reset-kv-cache-timeout-seconds", "2"},
			Endpoint{Reset: &ResetCache{"/r", 2 * time.Second, time.Minute}, Profiler: &Profiler{"/a", "/b", 3 * time.Second}},
			Map{{"reset_kv_cache", Map{{"timeout_seconds", 2.0}, {"path", "/r"}}},
				{"server_profiler", Map{{"timeout_seconds", 3.0}, {"start_path", "/a"}, {"stop_path", "/b"}}}}},
		{"a file", yaml("wait_for_model_timeout: 7, waitForModelMode: models, reset_kv_cache: true, server_profiler: {start_path: /a}"), nil,
			Endpoint{Wait: Wait{7 * time.Second, 5 * time.Second, "models"}, Reset: reset, Profiler: &Profiler{"/a", "/stop_profile", 30 * time.Second}},
			Map{{"wait_for_model_timeout", 7.0}, {"wait_for_model_mode", "models"}, {"reset_kv_cache", Map{}}, {"server_profiler", Map{{"start_path", "/a"}}}}},
		{"flags over a file", yaml("reset_kv_cache: {path: /r, max_retry_seconds: 0, timeout_seconds: 1}, server_profiler: true"),
			[]string{"--reset-kv-cache", "--server-profiler=false"}, Endpoint{Reset: &ResetCache{"/r", time.Second, 0}},
			Map{{"reset_kv_cache", Map{{"timeout_seconds", 1.0}, {"max_retry_seconds", 0.0}, {"path", "/r"}}}}},
	} {
		args := tt.args
		if tt.yaml == "" {
			args = append([]string{"-m", "m"}, args...)
		}
		c := mustParse(t, tt.yaml, args...)
		got := Endpoint{Wait: c.Endpoint.Wait, Reset: c.Endpoint.Reset, Profiler: c.Endpoint.Profiler}
		if !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s:\ngot  %s\nwant %s", tt.name, asJSON(t, got), asJSON(t, tt.want))
		}
		var echo Map
		for _, kv := range c.Input {
			if kv.Key == "endpoint" {
				for _, e := range kv.Value.(Map) {
					if strings.HasPrefix(e.Key, "wait_") || e.Key == "reset_kv_cache" || e.Key == "server_profiler" {
						echo = append(echo, e)
					}
				}
			}
		}
		if !reflect.DeepEqual(echo, tt.echo) {
			t.Errorf("%s: echo\ngot  %s\nwant %s", tt.name, asJSON(t, echo), asJSON(t, tt.echo))
		}
	}
}

func TestTheSessionHeaderIsEchoed(t *testing.T) {
	yaml := strings.Replace(minimal("phases: {type: concurrency, requests: 1}"), "{url: h}", "{url: h, session_header: X-A}", 1)
	for _, tt := range []struct {
		args []string
		want string
	}{{nil, "X-A"}, {[]string{"--session-header", "X-B"}, "X-B"}} {
		c := mustParse(t, yaml, tt.args...)
		echo := asJSON(t, c.Input)
		if c.Endpoint.SessionHeader != tt.want || !strings.Contains(echo, `"session_header": "`+tt.want+`"`) {
			t.Errorf("%q: %q, echo %s", tt.args, c.Endpoint.SessionHeader, echo)
		}
	}
}

func TestRequestsBesideTheLoadThatCannotBe(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"--wait-for-model-interval|1", "--wait-for-model-interval: --wait-for-model-interval has no effect unless --wait-for-model-timeout is set to a positive " +
			"value. Set --wait-for-model-timeout to enable the readiness probe."},
		{"--wait-for-model-interval|1|--wait-for-model-mode|models", "--wait-for-model-mode: --wait-for-model-interval, --wait-for-model-mode has no effect unless " +
			"--wait-for-model-timeout is set to a positive value. Set --wait-for-model-timeout to enable the readiness probe."},
		{"--wait-for-model-timeout=-1", "--wait-for-model-timeout: Input should be greater than or equal to 0, got '-1'."},
		{"--wait-for-model-timeout|1|--wait-for-model-interval|0", "--wait-for-model-interval: Input should be greater than 0, got '0'."},
		{"--wait-for-model-mode|health", "--wait-for-model-mode: Input should be 'models', 'inference' or 'both', got 'health'."},
		{"--reset-kv-cache-path|reset", "--reset-kv-cache-path: endpoint.reset_kv_cache.path must be a relative path starting with '/', got 'reset'"},
		{"--server-profiler-start-path|http://h/x", "--server-profiler-start-path: endpoint.server_profiler.start_path must be a relative path starting with '/', " +
			"got 'http://h/x'"},
	} {
		if got := message(t, "", append([]string{"-m", "m"}, strings.Split(tt.args, "|")...)...); got != tt.want {
			t.Errorf("%s:\ngot  %s\nwant %s", tt.args, got, tt.want)
		}
	}
	for _, tt := range []struct{ keys, want string }{
		{"reset_kv_cache: {stop_path: /x}", "benchmark.endpoint.reset_kv_cache.stop_path: Extra inputs are not permitted: unknown key 'stop_path'"},
		{"server_profiler: 5", "benchmark.endpoint.server_profiler: Input should be a valid boolean; found 5 (an integer)."},
	} {
		yaml := strings.Replace(minimal("phases: {type: concurrency, requests: 1}"), "{url: h}", "{url: h, "+tt.keys+"}", 1)
		if got := message(t, yaml); !strings.Contains(got, tt.want) {
			t.Errorf("%s:\ngot  %s\nwant %s", tt.keys, got, tt.want)
		}
	}
}
