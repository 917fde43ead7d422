package config

import "prefire/metrics"

// echo is the config as it was given, in the shape and order of aiperf's input_config: sections and keys that nobody set are absent, but
// for those that aiperf always writes. Secrets are redacted.
func (d *draft) echo(c *Config) Map {
	flagsOnly := d.file == ""
	m := Map{
		{"models", d.models.echo()},
		{"endpoint", d.endpoint.echo(c)},
		{"datasets", []any{d.dataset.echo(d.pool())}},
		{"phases", d.echoPhases()},
	}
	if a := d.echoArtifacts(c); len(a) > 0 {
		m = append(m, KeyValue{"artifacts", a})
	}
	m = d.outputs.echoObjectives(m)
	tokenizer := put(put(Map{}, "name", d.tokenizer), "revision", d.revision)
	m = append(m, KeyValue{"tokenizer", put(tokenizer, "apply_chat_template", d.dataset.prompts.template)})
	// It is not collected, whether or not a flag says so.
	if flagsOnly || d.noGPU {
		m = append(m, KeyValue{"gpu_telemetry", Map{{"enabled", false}}})
	}
	if s := d.server.echo(flagsOnly); s != nil {
		m = append(m, KeyValue{"server_metrics", s})
	}
	m = append(m, KeyValue{"network_latency", d.outputs.echoRoundTrip()})
	if flagsOnly {
		m = append(m, KeyValue{"otel", Map{}}, KeyValue{"mlflow", Map{}}, KeyValue{"wandb", Map{}})
	}
	var runtime Map
	if c.UI != "" {
		runtime = Map{{"ui", c.UI}}
	}
	if runtime = put(runtime, "stats_interval", d.interval); len(runtime) > 0 {
		m = append(m, KeyValue{"runtime", runtime})
	}
	if d.level.ok {
		m = append(m, KeyValue{"logging", Map{{"level", d.level.v}}})
	}
	return m
}

// put appends a value that was given.
func put[T any](m Map, key string, o opt[T]) Map {
	if !o.ok {
		return m
	}
	return append(m, KeyValue{key, o.v})
}

func (e *endpointDraft) echo(c *Config) Map {
	urls := make([]any, len(c.Endpoint.URLs))
	for i, u := range c.Endpoint.URLs {
		urls[i] = redactURL(u)
	}
	m := put(Map{{"urls", urls}}, "url_strategy", e.urlStrategy)
	m = put(m, "type", e.kind)
	path := e.path
	path.v = redactURL(path.v)
	m = put(m, "path", path)
	if e.apiKey.ok {
		m = append(m, KeyValue{"api_key", redacted})
	}
	m = put(m, "timeout", e.timeout)
	m = put(m, "streaming", e.streaming)
	m = put(m, "connection_reuse", e.reuse)
	m = put(m, "use_legacy_max_tokens", e.legacy)
	m = put(put(m, "use_server_token_count", e.serverCounts), "per_chunk_usage", e.perChunk)
	if len(e.headers) > 0 {
		var h Map
		for _, kv := range e.headers {
			if sensitiveHeader(kv.Key) {
				kv.Value = redacted
			}
			h = append(h, kv)
		}
		m = append(m, KeyValue{"headers", h})
	}
	if len(e.extra) > 0 {
		m = append(m, KeyValue{"extra", redactExtra(e.extra)})
	}
	return e.control.echo(put(put(m, "request_content_type", e.contentType), "session_header", e.session))
}

// pool is the number of prompts that aiperf notes for a run by flags that does not give one: as many as the run's stop asks for. prefire's
// prompts do not repeat, so that it is theirs too.
func (d *draft) pool() opt[int64] {
	p := d.phases[len(d.phases)-1]
	switch {
	case d.file != "" || d.dataset.entries.ok:
		return d.dataset.entries
	case p.sessions.ok:
		return p.sessions
	case p.requests.from == "the default":
		return opt[int64]{}
	}
	return p.requests
}

func (l lengthDraft) echo() (Map, bool) {
	if l.form != nil {
		return l.form, true
	}
	if l.fixed {
		return Map{{"value", l.mean.v}}, true
	}
	return put(put(Map{}, "mean", l.mean), "stddev", l.stddev), l.mean.ok
}

func (ds *datasetDraft) echo(entries opt[int64]) Map {
	if ds.isFile {
		return ds.echoFile(entries)
	}
	m := Map{{"name", ds.name}}
	if ds.typed {
		m = append(m, KeyValue{"type", "synthetic"})
	}
	m = put(m, "entries", entries)
	m = put(put(m, "random_seed", ds.seed), "sampling", ds.sampling)
	var prompts Map
	for _, l := range []struct {
		key string
		lengthDraft
	}{{"isl", ds.isl}, {"osl", ds.osl}} {
		if length, ok := l.echo(); ok {
			prompts = append(prompts, KeyValue{l.key, length})
		}
	}
	var rest Map
	prompts, rest = ds.prompts.echo(prompts, rest)
	m = append(append(m, KeyValue{"prompts", prompts}), rest...)
	if ds.template.ok {
		m = append(m, KeyValue{"prompt_template", Map{{"content", ds.template.v}}})
	}
	if len(ds.vars) > 0 {
		var vars []any
		for _, v := range ds.vars {
			vars = append(vars, Map{{"name", v.Name}, {"values", v.Values}})
		}
		m = append(m, KeyValue{"variables", vars})
	}
	return put(m, "max_total_tokens", ds.maxTotal)
}

func (d *draft) echoPhases() []any {
	var out []any
	for _, p := range d.phases {
		m := Map{{"name", p.name}, {"kind", p.kind.String()}, {"type", p.typeOf()}}
		// aiperf fills it in for warm-up, whether or not it was given.
		if p.exclude || p.kind == metrics.Warmup {
			m = append(m, KeyValue{"exclude_from_results", p.kind == metrics.Warmup})
		}
		m = put(m, "requests", p.requests)
		m = put(m, "duration", p.duration)
		m = put(m, "sessions", p.sessions)
		m = put(m, "concurrency", p.concurrency)
		m = p.echoLimits(m)
		if p.grace.ok {
			m = append(m, KeyValue{"grace_period", finite(p.grace.v)})
		}
		m = p.echoRest(m)
		out = append(out, m)
	}
	return out
}

func (d *draft) echoArtifacts(c *Config) Map {
	var m Map
	if d.file == "" || d.dir.ok {
		m = append(m, KeyValue{"dir", c.Artifacts.Dir})
	}
	m = d.outputs.echo(put(m, "prefix", d.prefix))
	if d.file == "" {
		m = append(m, KeyValue{"auto_plot", false}, KeyValue{"plot_required", false})
	}
	return put(m, "export_outputs_json", d.outputs.answers)
}

// Settle writes into the config and its echo what only the caller knows: the result folder's absolute path, and the progress display where
// none was asked for.
func (c *Config) Settle(dir, ui string) {
	c.Artifacts.Dir = dir
	for i, kv := range c.Input {
		if a, ok := kv.Value.(Map); ok && kv.Key == "artifacts" {
			for j := range a {
				if a[j].Key == "dir" {
					a[j].Value = dir
				}
			}
			c.Input[i].Value = a
		}
	}
	if c.UI != ui {
		c.UI = ui
		runtime, _ := c.Input.Get("runtime")
		m, _ := runtime.(Map)
		c.Input = c.Input.set("runtime", m.set("ui", ui))
	}
}
