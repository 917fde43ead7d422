package main

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"prefire/internal/config"
	"prefire/internal/dataset"
	"prefire/internal/endpoint"
	"prefire/internal/reach"
	"prefire/loadgen"
	"prefire/loadgen/wire"
	"prefire/metrics"
	"prefire/tokenize"
)

const (
	// throwawayTokens is the output limit of the prewarm's inference: enough for a first token and a gap, short enough not to matter.
	throwawayTokens = 8
	// prewarmTimeout bounds each step of the prewarm: a model's first inference may compile kernels for minutes.
	prewarmTimeout = 10 * time.Minute
)

// load is a run's plan with what feeds it.
type load struct {
	plan     loadgen.Plan
	source   source
	sessions loadgen.Source // of source, with their models
	api      *endpoint.Endpoint
	kind     endpoint.Type
	header   endpoint.Header
	tokens   tokenize.Tokenizer
	seed     uint64
	seedGave bool // the user gave the seed
	seedFrom string
	notices  []string
	template template
	server   *byServer // of --tokenizer server; nil = another one
	way      *reach.Way
}

// prepare turns a config into a plan: config → plan. Nothing is sent yet, but what --tokenizer server asks.
func prepare(cfg *config.Config, env func(string) (string, bool), of *part) (*load, error) {
	l := new(load)
	if of != nil {
		l.seed, l.seedGave, l.seedFrom = of.seed, of.series.seedGave, of.series.seedFrom
	} else if err := l.chooseSeed(cfg); err != nil {
		return nil, err
	}
	var err error
	if l.way, err = openWay(cfg, env); err != nil {
		return nil, err
	}
	if l.tokens, err = of.tokenizer(cfg, env); err != nil {
		return nil, err
	}
	if f, ok := l.tokens.(tokenize.Framer); ok && f.Around() > 0 {
		l.notices = append(l.notices, fmt.Sprintf("tokenizer %s puts %d of its own tokens (such as BOS) around a text; lengths leave them out, as in aiperf",
			f.Name(), f.Around()))
	}
	l.kind = endpoint.Type(cfg.Endpoint.Type)
	if l.api, err = api(cfg); err != nil {
		return nil, err
	}
	copies, err := sessionCopies(env)
	if err != nil {
		return nil, err
	}
	l.header, err = l.api.Header(endpoint.HeaderOptions{
		Copies:    copies,
		UserAgent: "prefire/" + version(), APIKey: cfg.Endpoint.APIKey, Session: cfg.Endpoint.SessionHeader, User: fields(cfg.Endpoint.Headers),
	})
	if err != nil {
		return nil, err
	}
	for _, name := range l.header.Overridden {
		l.notices = append(l.notices, fmt.Sprintf("header %s is not sent as given: it follows from the endpoint, the API key or the session, as in aiperf", name))
	}
	if cfg.Tokenizer == serverTokenizer {
		if err := l.countByServer(cfg); err != nil {
			return nil, err
		}
	}
	var lengths lengths
	if lengths, err = l.openSource(cfg); err != nil {
		return nil, err
	}
	l.sessions = l.source
	if len(cfg.Models) > 1 {
		l.sessions = dataset.Models(l.source, dataset.Choice{Models: cfg.Models, Random: cfg.ModelStrategy != "", Weights: cfg.ModelWeights, Seed: l.seed})
	}
	if l.plan, err = makePlan(cfg, l.seed, &l.header, lengths, l.way); err == nil && lengths.onSchedule {
		err = of.onSchedule()
	}
	if err != nil {
		l.source.Close()
		return nil, err
	}
	if l.server != nil { // answers are counted by the server alone
		l.plan.Keep = wire.KeepNothing
	}
	keep(cfg, &l.plan)
	l.plan.Prewarm.Learn = l.learn
	if name := l.way.Unused(); name != "" {
		l.source.Close()
		return nil, fmt.Errorf("--resolve %s is no address that is connected to: --url has %s", name, strings.Join(cfg.Endpoint.URLs, ", "))
	}
	l.notices = append(l.notices, wayNotices(cfg, l.way, l.plan.Targets)...)
	if err := readCeilings().check(&l.plan, len(cfg.Endpoint.Network.Sources)); err != nil {
		l.source.Close()
		return nil, err
	}
	return l, nil
}

// openTokenizer opens what prompts are put together with and answers counted with.
func openTokenizer(cfg *config.Config, env func(string) (string, bool)) (tokenize.Tokenizer, error) {
	name := cfg.Tokenizer
	if name == serverTokenizer {
		name = "builtin"
	}
	t, err := tokenize.FromEnv(env, os.ReadFile, cfg.TokenizerRevision).Open(name)
	if unknown := (*tokenize.UnknownError)(nil); errors.As(err, &unknown) && cfg.Dataset.File == nil {
		return nil, fmt.Errorf("%w; or --tokenizer server: prompts are then as long as the server counts them, and answers have the tokens that it says", err)
	}
	return t, err
}

// chooseSeed takes the user's seed or draws one, so that a second run against a warm server does not find its prompts in the prefix cache.
func (l *load) chooseSeed(cfg *config.Config) error {
	if cfg.Seed != nil {
		l.seed, l.seedGave, l.seedFrom = *cfg.Seed, true, "given"
		l.notices = append(l.notices, givenSeedNotice)
		return nil
	}
	var err error
	l.seed, err = drawSeed()
	l.seedFrom = "drawn from the system"
	return err
}

const givenSeedNotice = "a given seed repeats the same prompts in every run: a server that is still warm may answer them from its prefix cache"

func drawSeed() (uint64, error) {
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		return 0, fmt.Errorf("no seed could be drawn from the system: %w", err)
	}
	return binary.LittleEndian.Uint64(b[:]) >> 11, nil // 53 bits: JSON readers that hold numbers as floats read it exactly
}

func api(cfg *config.Config) (*endpoint.Endpoint, error) {
	extra := make([]endpoint.Pair, 0, len(cfg.Endpoint.Extra))
	for _, kv := range cfg.Endpoint.Extra {
		v, err := json.Marshal(kv.Value)
		if err != nil {
			return nil, fmt.Errorf("extra input %q: %w", kv.Key, err)
		}
		extra = append(extra, endpoint.Pair{Key: kv.Key, JSON: v})
	}
	return endpoint.New(endpoint.Options{
		Type: endpoint.Type(cfg.Endpoint.Type), Model: cfg.Models[0], Streaming: cfg.Endpoint.Streaming, LegacyMaxTokens: cfg.Endpoint.LegacyMaxTokens,
		PerChunkUsage: cfg.Endpoint.PerChunkUsage, Extra: extra,
	})
}

func fields(headers []config.KeyValue) []wire.Field {
	out := make([]wire.Field, len(headers))
	for i, h := range headers {
		out[i] = wire.Field{Name: h.Key, Value: fmt.Sprint(h.Value)}
	}
	return out
}

func makePlan(cfg *config.Config, seed uint64, header *endpoint.Header, longest lengths, way *reach.Way) (loadgen.Plan, error) {
	p := loadgen.Plan{Seed: seed, Timeout: cfg.Endpoint.Timeout, Retries: cfg.Retries, Keep: wire.KeepText, Streams: cfg.StreamsPerConn, FirstUsage: cfg.Endpoint.PerChunkUsage,
		Reuse: map[string]loadgen.Reuse{"pooled": loadgen.Pooled, "sticky-user-sessions": loadgen.Sticky, "never": loadgen.Never}[cfg.Endpoint.Reuse]}
	kind := endpoint.Type(cfg.Endpoint.Type)
	if cfg.Endpoint.ServerCounts || !kind.HasTokens() { // where answers are the history of later turns, the engine keeps them all the same
		p.Keep = wire.KeepNothing
	}
	for _, base := range cfg.Endpoint.URLs {
		t, err := target(cfg, base, header, way)
		if err != nil {
			return p, err
		}
		p.Targets = append(p.Targets, t)
	}
	for _, ph := range cfg.Phases {
		grace := ph.Grace
		if grace == config.Infinite {
			grace = -1
		}
		phase := loadgen.Phase{Name: ph.Name, Kind: ph.Kind, Concurrency: ph.Concurrency, Requests: ph.Requests,
			Sessions: ph.Sessions, Duration: ph.Duration, Grace: grace,
			Arrivals: arrivals(&ph.Load, longest.turns), ConcurrencyRamp: ramp(ph.Load.ConcurrencyRamp),
			Prefill: ph.Load.Prefill, PrefillRamp: ramp(ph.Load.PrefillRamp), Seamless: ph.Load.Seamless,
			Cancel: loadgen.Cancellation{Share: ph.Load.CancelShare, Delay: ph.Load.CancelDelay}, FailedShare: ph.Load.FailedShare,
		}
		if longest.onSchedule && ph.Kind == metrics.Profiling {
			if ph.Load.Open() {
				return p, fmt.Errorf("the dataset's file has times and would be sent at them (fixed schedule), but phase %q has a rate: drop the rate, or pass "+
					"--no-fixed-schedule to keep it and leave the file's times out", ph.Name)
			}
			replay(&phase, ph.Capped)
		}
		p.Phases = append(p.Phases, phase)
	}
	throwaway := throwawayTokens
	if longest.output > 0 {
		throwaway = min(throwaway, longest.output)
	}
	if !kind.HasTokens() {
		throwaway, longest.output = 0, 0
	}
	p.Prewarm = endpoint.Prewarm()
	p.Prewarm.On, p.Prewarm.MaxTokens, p.Prewarm.Timeout = cfg.Prewarm, throwaway, prewarmTimeout
	p.Prewarm.Model, p.Prewarm.Others = cfg.Models[0], cfg.Models[1:]
	p.Prewarm.Input, p.Prewarm.Output = longest.input, longest.output
	return p, p.Validate()
}

// arrivals is a phase's load as the engine takes it; turns are those of an average session.
func arrivals(l *config.Load, turns int) loadgen.Arrivals {
	switch {
	case !l.Open():
		return loadgen.Arrivals{}
	case l.Users > 0:
		return loadgen.Arrivals{Mode: loadgen.Users, Rate: l.Rate, Users: l.Users, Turns: turns}
	}
	a := loadgen.Arrivals{Mode: loadgen.Paced, Rate: l.Rate, Smoothness: l.Smoothness, Ramp: ramp(l.RateRamp),
		Pattern: map[string]loadgen.Pattern{"poisson": loadgen.Poisson, "constant": loadgen.Constant, "gamma": loadgen.Gamma}[l.Type]}
	for _, p := range l.Series {
		a.Series = append(a.Series, loadgen.RatePoint(p))
	}
	return a
}

func ramp(r config.Ramp) loadgen.Ramp {
	return loadgen.Ramp{Duration: r.Duration, Curve: map[string]loadgen.Curve{"linear": loadgen.Linear, "exponential": loadgen.Exponential,
		"poisson": loadgen.Stochastic}[r.Strategy]}
}

// openLoop reports whether the arrivals of a measured phase do not wait for answers.
func openLoop(p *loadgen.Plan) bool {
	return slices.ContainsFunc(p.Phases, func(ph loadgen.Phase) bool {
		return ph.Kind == metrics.Profiling && ph.Arrivals.Mode != loadgen.Closed
	})
}

// target is one URL of the config as the transport and the prewarm need it.
func target(cfg *config.Config, base string, header *endpoint.Header, way *reach.Way) (loadgen.Target, error) {
	u, err := config.EndpointURL(base, cmp.Or(cfg.Endpoint.Path, endpoint.Type(cfg.Endpoint.Type).Path()))
	if err != nil {
		return loadgen.Target{}, err
	}
	if u.User != nil {
		return loadgen.Target{}, fmt.Errorf("the URL of %s holds a user name or password, which is not sent: take it out of --url and give it with --header 'Authorization:Basic …' or --api-key", u.Host)
	}
	w := &wire.Target{
		Scheme: u.Scheme, Host: u.Host, Addr: u.Host, Path: u.RequestURI(), Header: header.Fixed, Streams: cfg.StreamsPerConn,
		Protocol: map[string]wire.Protocol{"auto": wire.Auto, "1.1": wire.HTTP1, "2": wire.HTTP2, "h2c": wire.H2C}[cfg.Endpoint.HTTP],
	}
	if cfg.Endpoint.OwnConnections() && w.Protocol == wire.Auto {
		w.Protocol = wire.HTTP1 // where requests do not share connections one after the other, they do not side by side
	}
	if u.Port() == "" {
		w.Addr = net.JoinHostPort(u.Hostname(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	}
	if header.Host != "" {
		w.Host = header.Host
	}
	shown := u.Scheme + "://" + u.Host
	if err := way.Target(w, shown); err != nil {
		return loadgen.Target{}, err
	}
	return loadgen.Target{
		Wire: w, URL: shown, ProbePath: sibling(base, "/health"), ModelsPath: sibling(base, "/v1/models"),
	}, nil
}

// sibling is the path of a server's other service, beside the API of a base URL: the base's own path with the API's taken off.
func sibling(base, path string) string {
	u, err := url.Parse(base)
	if err != nil {
		return path
	}
	own := strings.TrimSuffix(u.EscapedPath(), "/")
	for _, api := range [...]string{endpoint.Chat.Path(), endpoint.Completions.Path(), endpoint.Embeddings.Path(), "/v1"} {
		own = strings.TrimSuffix(own, api)
	}
	return own + path
}
