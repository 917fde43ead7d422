package config

import (
	"strings"
	"time"
)

// Wait is what is asked of each server before the load. A Timeout of 0 = nothing.
type Wait struct {
	Timeout  time.Duration // of each check
	Interval time.Duration // between tries
	Mode     string        // models | inference | both
}

// ResetCache empties the servers' prefix caches before the run.
type ResetCache struct {
	Path    string        // below scheme and host
	Timeout time.Duration // of one request
	Retry   time.Duration // how long a busy server is asked again
}

// Profiler runs the servers' profilers during the measured phases.
type Profiler struct {
	Start, Stop string        // paths below scheme and host
	Timeout     time.Duration // of one request
}

// Defaults of aiperf for the requests beside the load, in s.
const (
	defaultWaitInterval = 5
	defaultHookTimeout  = 30
	defaultResetRetry   = 60
)

func waitModes() []string { return []string{"models", "inference", "both"} }

// controlDraft is what was given of the requests beside the load.
type controlDraft struct {
	waitTimeout, waitInterval opt[float64]
	waitMode                  opt[string]
	reset, profiler           hookDraft
}

// hookDraft is one of them: false, true, or a mapping, which is on.
type hookDraft struct {
	on                    opt[bool]
	timeout, retry        opt[float64]
	path, start, stopPath opt[string]
}

// controlFlags are the flags of the requests beside the load.
func controlFlags() []Flag {
	limit := func(field, name, help string) Flag {
		return Flag{Field: field, Names: []string{name}, Group: gEndpoint, Kind: Duration, Bound: above(0), Default: "30", Help: help}
	}
	return []Flag{
		{Field: "wait_for_model_timeout", Names: []string{"--wait-for-model-timeout"}, Group: gEndpoint, Kind: Duration, Bound: atLeast(0), Default: "0",
			Help: "Wait up to so long, for each server, until it is ready, and end with an error where it is not. Seconds, or with a unit. 0: do not wait."},
		{Field: "wait_for_model_mode", Names: []string{"--wait-for-model-mode"}, Group: gEndpoint, Kind: Enum, Choices: waitModes(), Default: "inference",
			Help: "What says that a server is ready: models, /v1/models lists the model; inference, an inference of one token is answered; both, one after the other."},
		{Field: "wait_for_model_interval", Names: []string{"--wait-for-model-interval"}, Group: gEndpoint, Kind: Duration, Bound: above(0), Default: "5",
			Help: "Pause between tries of --wait-for-model-timeout."},
		{Field: "reset_kv_cache", Names: []string{"--reset-kv-cache"}, Group: gEndpoint, Kind: Bool, Default: "false",
			Help: "POST /reset_prefix_cache to each server before the run, and end with an error where it is not done."},
		limit("reset_kv_cache_timeout_seconds", "--reset-kv-cache-timeout-seconds", "Time for one request of --reset-kv-cache, which it turns on."),
		{Field: "reset_kv_cache_path", Names: []string{"--reset-kv-cache-path"}, Group: gEndpoint, Kind: Text, Default: "/reset_prefix_cache",
			Help: "Path of --reset-kv-cache, which it turns on; below the server's scheme and host."},
		{Field: "server_profiler", Names: []string{"--server-profiler"}, Group: gEndpoint, Kind: Bool, Default: "false",
			Help: "POST /start_profile to each server before the measured phases, and /stop_profile after them."},
		limit("server_profiler_timeout_seconds", "--server-profiler-timeout-seconds", "Time for one request of --server-profiler, which it turns on."),
		{Field: "server_profiler_start_path", Names: []string{"--server-profiler-start-path"}, Group: gEndpoint, Kind: Text, Default: "/start_profile",
			Help: "Path that starts the profiler; turns --server-profiler on."},
		{Field: "server_profiler_stop_path", Names: []string{"--server-profiler-stop-path"}, Group: gEndpoint, Kind: Text, Default: "/stop_profile",
			Help: "Path that stops the profiler; turns --server-profiler on."},
	}
}

// control puts the flags over what the file says.
func (all *flags) control(c *controlDraft) {
	replace(&c.waitTimeout, all.seconds("wait_for_model_timeout"))
	replace(&c.waitInterval, all.seconds("wait_for_model_interval"))
	replace(&c.waitMode, all.choice("wait_for_model_mode"))
	replace(&c.reset.timeout, all.seconds("reset_kv_cache_timeout_seconds"))
	replace(&c.reset.path, all.text("reset_kv_cache_path"))
	replace(&c.profiler.timeout, all.seconds("server_profiler_timeout_seconds"))
	replace(&c.profiler.start, all.text("server_profiler_start_path"))
	replace(&c.profiler.stopPath, all.text("server_profiler_stop_path"))
	turn := func(h *hookDraft, switches string, parts ...string) {
		for _, part := range parts {
			if from := all.byField[part].given; from != "" {
				h.on = given(true, from)
			}
		}
		replace(&h.on, all.truth(switches))
	}
	turn(&c.reset, "reset_kv_cache", "reset_kv_cache_timeout_seconds", "reset_kv_cache_path")
	turn(&c.profiler, "server_profiler", "server_profiler_timeout_seconds", "server_profiler_start_path", "server_profiler_stop_path")
}

// control reads the keys of an endpoint.
func (s *section) control() controlDraft {
	c := controlDraft{
		waitTimeout: s.seconds("wait_for_model_timeout", atLeast(0), false), waitInterval: s.seconds("wait_for_model_interval", above(0), false),
		waitMode: s.choice("wait_for_model_mode", waitModes(), nil),
	}
	if m := s.hook("reset_kv_cache", &c.reset, "path", "max_retry_seconds"); m != nil {
		c.reset.path, c.reset.retry = m.text("path"), m.seconds("max_retry_seconds", atLeast(0), false)
	}
	if m := s.hook("server_profiler", &c.profiler, "start_path", "stop_path"); m != nil {
		c.profiler.start, c.profiler.stopPath = m.text("start_path"), m.text("stop_path")
	}
	return c
}

// hook reads false, true or a mapping, which it returns.
func (s *section) hook(key string, h *hookDraft, known ...string) *section {
	v, where, ok := s.value(key)
	if !ok {
		return nil
	}
	if v.shape != isMap {
		h.on = s.truth(key)
		return nil
	}
	m := s.section(v, where, keys{known: append([]string{"timeout_seconds"}, known...)})
	h.on, h.timeout = given(true, s.place(v.line, v.col, where)), m.seconds("timeout_seconds", above(0), false)
	return m
}

// resolveControl checks the requests beside the load and fills in their defaults.
func (r *decoder) resolveControl(c *controlDraft, e *Endpoint) {
	if e.Wait.Timeout = duration(c.waitTimeout.v); e.Wait.Timeout > 0 {
		e.Wait.Interval, e.Wait.Mode = duration(c.waitInterval.or(defaultWaitInterval)), c.waitMode.or("inference")
	} else {
		var idle []string
		from := ""
		if c.waitInterval.ok && c.waitInterval.v != defaultWaitInterval {
			idle, from = append(idle, "--wait-for-model-interval"), c.waitInterval.from
		}
		if c.waitMode.ok && c.waitMode.v != "inference" {
			idle, from = append(idle, "--wait-for-model-mode"), c.waitMode.from
		}
		if len(idle) > 0 {
			r.problem(from, "%s has no effect unless --wait-for-model-timeout is set to a positive value. Set --wait-for-model-timeout to enable the "+
				"readiness probe.", strings.Join(idle, ", "))
		}
	}
	path := func(o opt[string], key, fallback string) string {
		if o.ok && (strings.Contains(o.v, "://") || !strings.HasPrefix(o.v, "/") || strings.ContainsFunc(o.v, isSpace)) {
			r.problem(o.from, "endpoint.%s must be a relative path starting with '/', got %s", key, pyString(o.v))
		}
		return o.or(fallback)
	}
	if h := &c.reset; h.on.v {
		e.Reset = &ResetCache{Path: path(h.path, "reset_kv_cache.path", "/reset_prefix_cache"), Timeout: duration(h.timeout.or(defaultHookTimeout)),
			Retry: duration(h.retry.or(defaultResetRetry))}
	}
	if h := &c.profiler; h.on.v {
		e.Profiler = &Profiler{Start: path(h.start, "server_profiler.start_path", "/start_profile"),
			Stop: path(h.stopPath, "server_profiler.stop_path", "/stop_profile"), Timeout: duration(h.timeout.or(defaultHookTimeout))}
	}
}

// echo appends what was given, in aiperf's order.
func (c *controlDraft) echo(m Map) Map {
	m = put(put(put(m, "wait_for_model_timeout", c.waitTimeout), "wait_for_model_interval", c.waitInterval), "wait_for_model_mode", c.waitMode)
	if h := &c.reset; h.on.v {
		m = append(m, KeyValue{"reset_kv_cache", put(put(put(Map{}, "timeout_seconds", h.timeout), "max_retry_seconds", h.retry), "path", h.path)})
	}
	if h := &c.profiler; h.on.v {
		m = append(m, KeyValue{"server_profiler", put(put(put(Map{}, "timeout_seconds", h.timeout), "start_path", h.start), "stop_path", h.stopPath)})
	}
	return m
}
