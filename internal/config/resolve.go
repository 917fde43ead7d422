package config

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"prefire/metrics"
)

// Defaults that aiperf has too.
const (
	defaultURL     = "http://localhost:8000"
	defaultISL     = 550
	defaultTimeout = 21600
	defaultDir     = "artifacts"
	defaultStreams = 16
)

// olderPadding is what the older dialect wants max_total_tokens to leave beside input and output.
const olderPadding = 16

// resolve fills in defaults and checks the rules between values.
func (d *draft) resolve() (*Config, error) {
	r := &decoder{file: d.file, dialect: d.dialect, notices: d.notices}
	c := &Config{
		Dialect: d.dialect, File: d.file, DefaultStop: d.noStop,
		UI: d.ui.v, LogLevel: d.level.or("INFO"),
		Client: d.client.or("auto"), Prewarm: d.prewarm.or(true), IncludeCold: d.includeCold.v, Report: d.report.v, LiveMetrics: d.liveMetrics.v,
		StreamsPerConn: int(min(d.streamsPerConn.or(defaultStreams), 1<<31-1)),
		Retries:        int(d.retries.or(0)),
	}
	c.Models = d.models.names()
	c.ModelStrategy, c.ModelWeights = r.resolveModels(&d.models)
	r.settleKind(d)
	c.Endpoint = r.resolveEndpoint(d)
	c.Dataset = r.resolveDataset(d)
	c.Phases = r.resolvePhases(d)
	c.Seed = r.resolveSeed(d)
	if d.verbose {
		c.UI = "simple"
	}
	if d.interval.ok {
		every := duration(d.interval.v)
		c.StatsInterval = &every
	}
	if c.IncludeCold {
		if d.prewarm.ok && d.prewarm.v {
			r.problem(d.prewarm.from, "--include-cold measures cold requests, so it cannot be combined with --prewarm. Drop one of them.")
		}
		c.Prewarm = false
	}
	r.resolvePrompts(d, c, &c.Dataset)
	c.ServerMetrics = r.resolveServerMetrics(&d.server)
	c.Artifacts.Prefix = basePrefix(d.prefix.v)
	r.resolveOutputs(&d.outputs, c)
	if len(r.problems) > 0 {
		return nil, r.err()
	}
	c.Tokenizer, c.TokenizerRevision = r.resolveTokenizer(d), d.revision.v
	c.Artifacts.Dir = d.folder(c)
	if !d.noGPU {
		r.notices = append(r.notices, "This version of prefire collects no GPU telemetry (as with --no-gpu-telemetry).")
	}
	c.Notices = r.notices
	c.Input = d.echo(c)
	return c, nil
}

func (r *decoder) resolveEndpoint(d *draft) Endpoint {
	e := Endpoint{
		Path: d.endpoint.path.v, Type: d.endpoint.kind.or(kindChat), Streaming: d.endpoint.streaming.v, APIKey: d.endpoint.apiKey.v,
		Headers: d.endpoint.headers, Extra: d.endpoint.extra, Timeout: duration(d.endpoint.timeout.or(defaultTimeout)),
		SessionHeader: d.endpoint.session.v, LegacyMaxTokens: d.endpoint.legacy.v, ServerCounts: d.endpoint.serverCounts.v,
		PerChunkUsage: d.endpoint.perChunk.v, HTTP: d.http.or("auto"), Reuse: d.endpoint.reuse.v,
	}
	if e.OwnConnections() && (e.HTTP == "2" || e.HTTP == "h2c") {
		r.problem(d.http.from, "Connections that are %s carry one request at a time, which HTTP/2 does not: drop %s, or use pooled.",
			map[string]string{"never": "never used again", "sticky-user-sessions": "a session's own"}[e.Reuse], d.http.from)
	}
	urls := d.endpoint.urls
	if !urls.ok {
		if d.dialect == Schema20 {
			r.problem(d.endpoint.at+".urls", "Field required: the server's address, here or with --url.")
		}
		urls = given([]string{defaultURL}, "the default")
	}
	if len(urls.v) == 0 {
		r.problem(urls.from, "List should have at least 1 item after validation, not 0.")
	}
	for _, u := range urls.v {
		u = withScheme(u)
		if what := urlFault(u); what != "" {
			r.problem(urls.from, "%s", what)
			continue
		}
		secure := strings.HasPrefix(strings.ToLower(u), "https:")
		switch {
		case e.HTTP == "2" && !secure:
			r.problem(d.http.from, "HTTP/2 needs TLS, and %s is in the clear: use an https URL, or --http h2c.", redactURL(u))
		case e.HTTP == "h2c" && secure:
			r.problem(d.http.from, "h2c is HTTP/2 in the clear, and %s uses TLS: use --http 2 or auto.", redactURL(u))
		}
		e.URLs = append(e.URLs, u)
	}
	if e.Path != "" && !strings.HasPrefix(e.Path, "/") {
		r.problem(d.endpoint.path.from, "endpoint.path must start with a leading slash; found %s.", pyString(e.Path))
	}
	if strings.ContainsFunc(e.Path, isSpace) {
		r.problem(d.endpoint.path.from, "endpoint.path has whitespace in it: %s.", pyString(e.Path))
	}
	r.resolveControl(&d.endpoint.control, &e)
	e.Network = r.resolveNetwork(&d.endpoint.network)
	if d.endpoint.apiKey.ok && headerFault("Authorization", e.APIKey) != "" {
		r.problem(d.endpoint.apiKey.from, "the API key has a line end or a null byte in it.")
	}
	return e
}

func (r *decoder) resolveDataset(d *draft) Dataset {
	ds := &d.dataset
	if d.file == "" {
		ds.name, ds.typed = "main", true
		if !ds.isl.mean.ok && !ds.isFile {
			ds.isl.mean = given(float64(defaultISL), "the default")
		}
	}
	switch {
	case ds.isl.mean.ok, ds.prompts.mix.ok, ds.isFile, len(r.problems) > 0:
	case ds.isl.stddev.ok:
		r.problem(ds.isl.stddev.from, "Field required: a stddev of the input length needs its mean (--isl).")
	default:
		r.warnOrRefuse(d, ds.at, "All synthetic data are disabled. Please enable at least one of prompt, image, audio, or video: give the dataset an isl, "+
			"or pass --isl.")
	}
	if ds.osl.stddev.ok && !ds.osl.mean.ok {
		r.problem(ds.osl.stddev.from, "Field required: a stddev of the output length needs its mean (--osl).")
	}
	r.checkTotal(ds)
	var file *FileDataset
	if ds.isFile {
		file = ds.fromFile.resolve(d.pool(), ds.sampling.or("sequential"))
	}
	if !ds.isFile && ds.sampling.ok && ds.sampling.v != "sequential" && !ds.entries.ok {
		r.notices = append(r.notices, ds.sampling.from+": "+ds.sampling.v+" has no effect without a number of entries (--num-dataset-entries): "+
			"every request has a prompt of its own")
	}
	return Dataset{
		File: file,
		Name: ds.name, Sampling: ds.sampling.v, Entries: int(ds.entries.v), Template: ds.template.v, Variables: ds.vars, MaxTotalTokens: int(ds.maxTotal.v),
		Input: ds.isl.length(), Output: ds.osl.length(),
	}
}

// checkTotal holds max_total_tokens against the lengths in force, flags included.
func (r *decoder) checkTotal(ds *datasetDraft) {
	if !ds.maxTotal.ok {
		return
	}
	in, out, total := ds.isl.mean.v, ds.osl.mean.v, float64(ds.maxTotal.v)
	figures := fmt.Sprintf("max_total_tokens is %s, input %s + output %s is %s", plain(total), plain(in), plain(out), plain(in+out))
	switch {
	case total < in+out:
		r.problem(ds.maxTotal.from, "%s: the requests do not fit. Raise max_total_tokens to %s, or shorten input_tokens (--isl) or "+
			"output_tokens (--osl).",
			figures, plain(in+out+olderPadding))
	case total < in+out+olderPadding:
		r.notices = append(r.notices, fmt.Sprintf("%s: %s; the rule max_total_tokens >= input + output + %d asks for %s.",
			ds.maxTotal.from, figures,
			olderPadding, plain(in+out+olderPadding)))
	}
}

func (r *decoder) resolvePhases(d *draft) []Phase {
	var out []Phase
	seen := map[string]bool{}
	profiling := 0
	for i, p := range d.phases {
		if low := strings.ToLower(p.name); seen[low] {
			r.problem(p.at, "the phase name '%s' is given twice; names differ in more than their case.", p.name)
		} else {
			seen[low] = true
		}
		if p.kind == metrics.Profiling {
			profiling++
		}
		if !p.requests.ok && !p.duration.ok && !p.sessions.ok && p.load != fixedSchedule {
			r.problem(p.at, "Phase '%s': at least one of 'requests', 'duration', or 'sessions' must be specified.", p.name)
		}
		if p.grace.ok && !p.duration.ok {
			r.graceAlone(d, p)
		}
		ph := Phase{
			Name: p.name, Kind: p.kind, Concurrency: int(p.concurrency.v), Capped: d.dataset.isFile && p.concurrency.ok && p.concurrency.from != "the default",
			Requests: p.requests.v, Sessions: p.sessions.v, Duration: duration(p.duration.v), Grace: p.graceOf(d.dialect),
			Load: r.resolveLoad(p, i == 0, d.endpoint.streaming.v),
		}
		if !ph.Load.Open() {
			ph.Concurrency = int(p.concurrency.or(1))
		}
		out = append(out, ph)
	}
	r.usersHold(d, out)
	r.checkSchedule(d)
	if profiling == 0 && len(r.problems) == 0 {
		r.problem(d.file+": benchmark.phases", "at least one phase must have kind 'profiling': a run with warm-up alone measures nothing.")
	}
	return out
}

func (r *decoder) graceAlone(d *draft, p *phaseDraft) {
	if d.file == "" {
		r.problems = append(r.problems, "--benchmark-grace-period requires --benchmark-duration to be set. Grace period only applies "+
			"after a "+
			"duration-bounded run; drop --benchmark-grace-period or pass --benchmark-duration as well.")
		return
	}
	r.problem(p.grace.from, "Phase '%s': grace_period requires duration to be set.", p.name)
}

// graceOf is the grace that a phase without one of its own gets. With flags it is --benchmark-duration's 30 s. A file of schema 2.0 gives
// a profiling phase none at all: aiperf 0.13.0 cuts what is in flight when the duration ends. The older dialect says nothing of it; its
// duration is meant like the flag's. Warm-up waits for all of its requests.
func (p *phaseDraft) graceOf(dialect Dialect) time.Duration {
	switch {
	case p.grace.ok:
		return duration(p.grace.v)
	case !p.duration.ok || p.kind == metrics.Warmup:
		return Infinite
	case dialect == Schema20:
		return 0
	}
	return defaultGrace * time.Second
}

func (r *decoder) resolveSeed(d *draft) *uint64 {
	seed, ds := d.seed, d.dataset.seed
	if !seed.ok && !ds.ok {
		return nil
	}
	if seed.ok && ds.ok && seed.v != ds.v {
		r.problem(ds.from, "two seeds: random_seed is %d at the top level and %d in the dataset. prefire draws everything from one; "+
			"give one of them.",
			seed.v, ds.v)
	}
	v := uint64(seed.or(ds.v))
	return &v
}

// resolveTokenizer is the name asked for, builtin for a model whose name is a placeholder, and the model's own name otherwise.
func (r *decoder) resolveTokenizer(d *draft) string {
	first := d.models.list[0].name
	if !d.tokenizer.ok && isPlaceholder(first) {
		d.tokenizer = given("builtin", "the default")
		r.notices = append(r.notices, fmt.Sprintf("Model name '%s' looks like a placeholder; defaulting tokenizer to 'builtin' "+
			"(tiktoken o200k_base). "+
			"Pass --tokenizer <name> to override.", first))
	}
	if !d.tokenizer.ok && len(d.models.list) > 1 {
		r.notices = append(r.notices, fmt.Sprintf("prompts and answers of all models are counted with the tokenizer of the first, %s; --tokenizer names another.", first))
	}
	return d.tokenizer.or(first)
}

// isPlaceholder follows aiperf's rule for model names that no tokenizer has.
func isPlaceholder(name string) bool {
	if name == "" || strings.ContainsAny(name, `/\`) || name[0] == '.' || name[0] == '~' {
		return false
	}
	n := strings.ReplaceAll(strings.ToLower(name), "_", "-")
	switch n {
	case "test", "mock", "fake", "dummy", "example", "sample", "placeholder":
		return true
	}
	for _, part := range []string{
		"mock-", "-mock", "fake-", "-fake", "test-model", "-test-model", "your-model", "my-model", "model-name", "model-id",
	} {
		if strings.Contains(n, part) {
			return true
		}
	}
	return false
}

// folder names the folder as aiperf does: the one given, else one below artifacts after model, endpoint and load.
func (d *draft) folder(c *Config) string {
	if d.dir.ok && d.dir.v != "" {
		return d.dir.v
	}
	load := ""
	for i := range c.Phases {
		if p := &c.Phases[i]; p.Kind == metrics.Profiling {
			load = stimulus(p)
			break
		}
	}
	model := c.Models[0]
	if len(c.Models) > 1 {
		model += "_multi"
	}
	name := fmt.Sprintf("%s-openai-%s-%s", strings.ReplaceAll(model, "/", "_"), c.Endpoint.Type, load)
	return filepath.Join(defaultDir, name)
}

// basePrefix takes the folder of an absolute path off, and the ending of a file that aiperf writes.
func basePrefix(p string) string {
	if filepath.IsAbs(p) {
		p = filepath.Base(p)
	}
	// The longest come first, so that _raw.jsonl wins over .jsonl.
	for _, suffix := range []string{
		"_server_metrics.parquet", "_server_metrics.jsonl", "_server_metrics.json", "_server_metrics.csv", "_network_latency.jsonl",
		"_gpu_telemetry.jsonl", "_timeslices.csv", "_timeslices.json", "_console.txt", "_raw.jsonl", ".parquet", ".csv", ".json", ".jsonl",
	} {
		if base, ok := strings.CutSuffix(p, suffix); ok {
			return base
		}
	}
	return p
}
