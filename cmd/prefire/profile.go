package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"prefire/internal/config"
	"prefire/internal/export"
	"prefire/loadgen"
	"prefire/loadgen/wire"
	"prefire/loadgen/wire/portable"
	"prefire/loadgen/wire/reactor"
	"prefire/metrics"
)

const aiperfVersion = export.AIPerfVersion

func profileCommand(p process) *cobra.Command {
	cmd := &cobra.Command{
		Use:                "profile",
		Short:              "Measure an endpoint under load",
		DisableFlagParsing: true, // aiperf's flags have habits of their own
		RunE:               func(_ *cobra.Command, args []string) error { return profile(p, args) },
		ValidArgsFunction: func(_ *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
			candidates, files := config.Complete(args, word)
			if files {
				return candidates, cobra.ShellCompDirectiveDefault
			}
			return candidates, cobra.ShellCompDirectiveNoFileComp
		},
	}
	cmd.SetHelpFunc(func(*cobra.Command, []string) { fmt.Fprint(p.stdout, config.Help(p.name())) })
	return cmd
}

// profile is the profile command: config → plan → load → files and screen.
func profile(p process, args []string) error {
	if slices.Contains(args, config.RefusedFlag) {
		_, err := fmt.Fprint(p.stdout, config.HelpRefused())
		return err
	}
	plan, err := unlessStopped(p, errStopped, func() (*config.Plan, error) { return config.ParsePlan(args, p.env, os.ReadFile) })
	if errors.Is(err, config.ErrHelp) {
		fmt.Fprint(p.stdout, config.Help(p.name()))
		return nil
	}
	if err != nil {
		return complain(p.stderr, err)
	}
	cfg, command := plan.Steps[0].Config, config.CommandLine(p.name(), "profile", args)
	for _, name := range unread(p.environ) {
		cfg.Notices = append(cfg.Notices, name+" is set and has no effect: of aiperf's settings in the environment prefire reads "+
			strings.Join(readSettings(), ", "))
	}
	if plan.Layout.Many() {
		return runSeries(p, plan, command)
	}
	out, err := benchmark(p, cfg, command)
	if err != nil {
		return complain(p.stderr, err)
	}
	if err := out.show(p.stdout); err != nil {
		return complain(p.stderr, err)
	}
	return out.end(p.stderr)
}

// show prints the run's tables. That nobody reads them is no error.
func (o *outcome) show(w io.Writer) error {
	err := errors.Join(export.Console(w, o.run, consoleWidth(w)), export.Footer(w, o.run))
	if errors.Is(err, syscall.EPIPE) {
		return nil
	}
	return err
}

// end says what ended the run before its time, and gives the exit code.
func (o *outcome) end(stderr io.Writer) error {
	if o.failed != nil {
		return complain(stderr, o.failed)
	}
	if c := o.run.Screen.Counts; o.code == exitFailed && c.OK == 0 {
		return complain(stderr, errors.New(unanswered(&c)))
	}
	if o.code != exitOK {
		return exitError(o.code)
	}
	return nil
}

// unanswered says why a run has no answered request.
func unanswered(c *metrics.Counts) string {
	switch {
	case c.Sent == 0:
		return "no request was sent: none was due before the end of the run"
	case c.Failed == c.Sent:
		return fmt.Sprintf("all %d requests failed", c.Sent)
	case c.Cancelled == c.Sent:
		return fmt.Sprintf("all %d requests were cancelled, as --request-cancellation-rate asks", c.Sent)
	case c.Censored == c.Sent:
		return fmt.Sprintf("none of the %d requests was answered before the end of the run and its grace", c.Sent)
	}
	return fmt.Sprintf("none of the %d requests was answered: %d failed, %d were cancelled, %d were cut at the end of the run", c.Sent, c.Failed, c.Cancelled, c.Censored)
}

// complain prints an error and gives its exit code.
func complain(w io.Writer, err error) error {
	var code exitError
	if errors.As(err, &code) {
		return err
	}
	title := "Error Running AIPerf System"
	var ce *config.Error
	if errors.As(err, &ce) {
		title = ce.Title
	}
	fmt.Fprintf(w, "%s\n%s\n", title, strings.TrimRight(err.Error(), "\n"))
	return exitError(exitFailed)
}

func consoleWidth(w io.Writer) int {
	if f, ok := w.(*os.File); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			return width
		}
	}
	return export.ConsoleWidth
}

// outcome is a finished benchmark.
type outcome struct {
	run    *export.Run
	code   int
	failed error  // what ended the run in the middle
	client string // the transport
	used   used   // over the profiling phases
	// prompts is what the run says of its prompts.
	prompts []string
	// overdue is how many requests were cut after they had run for longer than any that was answered.
	overdue int
}

// bench is one benchmark while it runs.
type bench struct {
	process
	cfg     *config.Config
	load    *load
	clock   *realClock
	sink    *sink
	dir     export.Dir
	health  wire.Health
	secrets *export.Redactor
	options metrics.Options
	prog    *loadgen.Progress
	part    *part  // of a series of runs; nil = the benchmark stands alone
	ui      string // as the user asked for it; "" = not asked
	command string // one that can be run again, secrets redacted
	view    *view
	log     *courseLog
	typed   chan os.Signal // Ctrl-C as a key of the dashboard
	live    *liveMetrics
	state   func() wire.Health // the transport's, now
	control *controls
	servers *servers
	trip    *roundTrip
	began   machine
	running int  // profiling phases that run now: seamless ones overlap
	used    used // over the profiling phases
	// calibrated is what prefire carries on this machine; nil = not known.
	calibrated *calibration
	// terminated: SIGTERM came.
	terminated atomic.Bool
}

// unread are the settings of aiperf's in the environment that prefire does not read.
func unread(environ []string) []string {
	var names []string
	for _, kv := range environ {
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "AIPERF_") && !slices.Contains(readSettings(), name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// benchmark runs one config, which the command gave, from its plan to its files.
func benchmark(p process, cfg *config.Config, command string) (*outcome, error) {
	return benchmarkPart(p, cfg, command, nil)
}

// benchmarkPart is benchmark for one run of a series.
func benchmarkPart(p process, cfg *config.Config, command string, of *part) (*outcome, error) {
	p.hideSecrets(cfg.Secrets()...)
	say := func(notices []string) {
		if export.LogLevel(cfg.LogLevel) <= export.Notice {
			of.say(p, notices)
		}
	}
	say(cfg.Notices)
	live, err := listenLive(cfg.LiveMetrics, len(cfg.Phases))
	if err != nil {
		return nil, err
	}
	defer live.close()
	l, err := unlessStopped(p, errStopped, func() (*load, error) { return prepare(cfg, p.env, of) })
	if err != nil {
		return nil, err
	}
	defer l.source.Close()
	if live != nil {
		fmt.Fprintf(p.stderr, "%s: live metrics at %s\n", p.name(), live.url())
	}
	say(l.notices)
	ui, shown := cfg.UI, cfg.UI
	if shown == "" {
		shown = "none"
		if terminal(p.stderr) {
			shown = "simple"
		}
	}
	if ui == "dashboard" && !terminal(p.stderr) {
		fmt.Fprintf(p.stderr, "%s: --ui dashboard requires an interactive terminal; stderr is not a TTY, falling back to --ui simple\n", p.name())
		ui, shown = "simple", "simple"
	}
	dir, err := filepath.Abs(cfg.Artifacts.Dir)
	if err != nil {
		return nil, err
	}
	cfg.Settle(dir, shown)
	b := &bench{process: p, cfg: cfg, load: l, clock: newClock(), prog: new(loadgen.Progress), ui: ui,
		command: command, part: of, log: noLog(), typed: make(chan os.Signal, 2), live: live,
		dir: export.Dir{FS: export.Disk{}, Path: cfg.Artifacts.Dir, Names: export.NewNames(cfg.Artifacts.Prefix)}}
	b.secrets = export.NewRedactor(cfg.Secrets()...)
	b.trip = &roundTrip{b: b}
	slos, err := objectives(cfg)
	if err != nil {
		return nil, err
	}
	far, err := lengthLimits(p.env)
	if err != nil {
		return nil, err
	}
	b.options = metrics.Options{Streaming: l.api.Streaming(), NoTokens: !l.kind.HasTokens(), ServerCounts: cfg.Endpoint.ServerCounts, IncludeCold: cfg.IncludeCold, OpenLoop: openLoop(&l.plan), HDR: true,
		Scheduled: onSchedule(&l.plan), Network: cfg.RoundTrip.Adjusts(), Objectives: slos, Limits: far}
	if err := applicable(cfg, b.options.Table()); err != nil {
		return nil, err
	}
	out, err := b.execute()
	if err != nil || !cfg.Report {
		return out, err
	}
	file := filepath.Join(b.dir.Path, reportFile)
	if failed := writeReport(b.dir.Path, file, nil); failed != nil {
		out.failed, out.code = errors.Join(out.failed, fmt.Errorf("the report could not be made: %w", failed)), exitFailed
		return out, nil
	}
	out.run.Screen.Files = append(out.run.Screen.Files, export.File{Kind: "Report", Path: file})
	return out, nil
}

// execute runs the load and writes the files of what came of it.
func (b *bench) execute() (out *outcome, err error) {
	count := b.load.tokens.Count
	if b.cfg.Endpoint.ServerCounts || b.load.server != nil || b.options.NoTokens {
		count = nil
	}
	transport, err := b.transport()
	if err != nil {
		return nil, err
	}
	b.useCalibration(transport.Health().Client)
	b.sink, err = newSink(sinkOptions{
		dir: b.dir, now: b.clock.Now, secrets: b.secrets, count: count, phases: len(b.cfg.Phases), metrics: b.options,
		records: export.RecordOptions{Defs: b.options.Table(), Phases: b.phases(nil), Secrets: b.secrets,
			Wall:  func(at int64) int64 { return b.clock.Wall(at).UnixNano() },
			Trace: b.cfg.Artifacts.Trace, Request: b.load.requestFields, Host: b.load.host},
		slice: int64(b.cfg.Artifacts.Slice), level: b.cfg.Artifacts.Level, answers: b.cfg.Artifacts.Answers, retries: b.cfg.Retries > 0,
		note: b.note(count != nil), hideBodies: b.cfg.Endpoint.SecretBodies(),
	})
	if err != nil {
		return nil, errors.Join(err, transport.Close(context.Background()))
	}
	if b.log, err = openLog(b.dir.Path, export.LogLevel(b.cfg.LogLevel), b.secrets); err != nil {
		return nil, errors.Join(err, b.sink.close(), b.sink.abandon(), transport.Close(context.Background()))
	}
	defer b.log.close()
	defer func() { b.log.end(out, err) }()
	b.log.begin(b)
	if b.log.Enabled(context.Background(), slog.LevelDebug) {
		b.sink.tell = func(r *metrics.Record) { b.log.request(r, b.clock.Wall) }
	}
	b.state = transport.Health
	b.view = newView(&view{phases: b.cfg.Phases, prog: b.prog, now: b.clock.Now, out: b.stderr, line: b.cfg.StatsInterval, prefix: b.name() + ": ",
		live:   func(phase int) metrics.Live { return b.sink.byPhase[phase].Live() },
		screen: b.screen(), keys: b.interrupt, environ: b.environ, heard: func(text string) { b.log.at(slog.LevelInfo, "%s", text) }},
		b.ui, export.LogLevel(b.cfg.LogLevel) <= slog.LevelDebug)
	b.control = newControls(b)
	b.live.serve(b.liveRun)
	b.servers = newServers(b)
	stop, ctx, release := b.listen()
	defer release()
	b.servers.start(ctx)
	sum, err := b.control.run(ctx, stop, loadgen.Deps{
		Clock: b.clock, Transport: transport, Source: b.load.sessions, Endpoint: b.load.api, Sink: b.sink,
		NewID: uuid.NewString, Header: b.load.header.AppendIDs, Progress: b.prog, Stop: stop,
		OnPhase: b.onPhase, Before: b.servers.before,
	})
	ended := b.clock.Now()
	b.trip.end()
	b.load.server.loaded()
	b.view.stop()
	b.redactPrewarm(sum)
	b.health = transport.Health()
	closing, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	closed := transport.Close(closing)
	last := make(chan struct{})
	go func() {
		defer close(last)
		b.servers.finish(ended)
	}()
	written := b.sink.close()
	<-last
	if sum == nil || len(sum.Phases) == 0 {
		// Nothing was sent: no file is left that could be taken for a result.
		return nil, errors.Join(b.nothing(sum, err), b.sink.abandon())
	}
	out, exported := b.export(sum, err)
	if failure := errors.Join(written, exported); failure != nil {
		failure = b.redacted(failure)
		if b.sink.kept() {
			failure = fmt.Errorf("%w; all requests that finished are in %s: %s recover %s makes the files of them", failure,
				filepath.Join(b.dir.Path, journalFile), b.name(), b.dir.Path)
		}
		if out == nil {
			return nil, failure
		}
		// The files are not to be trusted, but the screen has what was measured.
		out.failed, out.code = failure, exitFailed
		return out, nil
	}
	if closed != nil {
		b.log.at(slog.LevelWarn, "connections were still open at the end: %v", closed)
		fmt.Fprintf(b.stderr, "%s: connections were still open at the end: %v\n", b.name(), closed)
	}
	return out, b.sink.forget()
}

// transport makes the one that the user chose, or else the reactor wherever it speaks to all targets.
func (b *bench) transport() (wire.Transport, error) {
	other := slices.IndexFunc(b.load.plan.Targets, func(t loadgen.Target) bool { return !reactor.Serves(t.Wire) })
	asked := b.cfg.Client == "reactor"
	if asked && other >= 0 {
		return nil, fmt.Errorf("--client reactor speaks HTTP/1.1 in the clear over TCP alone, and %s asks for more: use --client portable",
			b.load.plan.Targets[other].URL)
	}
	if asked || b.cfg.Client == "auto" && other < 0 {
		t, err := reactor.New(reactor.Options{Clock: b.clock, Resolver: b.load.way.Resolver()})
		if err == nil {
			return t, nil
		}
		if asked {
			return nil, fmt.Errorf("--client reactor: %w; use --client portable", err)
		}
	}
	return portable.New(portable.Options{Clock: b.clock, Resolver: b.load.way.Resolver()}), nil
}

// onPhase is told when a phase begins and when it is over.
func (b *bench) onPhase(i int, sum *loadgen.PhaseSummary) {
	over := sum != nil
	if i == 0 && !over {
		b.log.at(slog.LevelInfo, "warm after %.1f s; the clock starts", float64(b.clock.Now())/1e9)
	}
	b.log.phase(&namedPhases(b.cfg.Phases)[i], &b.load.plan.Phases[i], sum)
	b.live.phase(i, over)
	b.view.stage(i, over)
	if over {
		b.sink.inputs.phaseDone(i)
		b.servers.over(i)
	}
	if b.cfg.Phases[i].Kind != metrics.Profiling {
		return
	}
	now := readMachine(b.clock.Now())
	if over {
		if b.running--; b.running == 0 {
			b.used = b.used.add(now.since(b.began))
		}
		b.control.phaseOver(i)
		return
	}
	if b.running++; b.running == 1 {
		b.trip.begin()
		b.began = now
	}
}

// errStopped is the error of a run that the user stopped before it had begun.
var errStopped = errors.New("stopped before the first request was sent: no profile results to export")

// nothing is the error of a run that ended before its first request.
func (b *bench) nothing(sum *loadgen.Summary, err error) error {
	if err != nil {
		return b.redacted(err)
	}
	switch {
	case sum == nil || !sum.Stopped:
		return errors.New("the run sent no request")
	case b.terminated.Load():
		fmt.Fprintf(b.stderr, "%s: %v\n", b.name(), errStopped)
		return exitError(exitTerminated)
	}
	return errStopped
}

// redactPrewarm takes secrets out of what servers answered to the prewarm. sum may be nil.
func (b *bench) redactPrewarm(sum *loadgen.Summary) {
	if sum == nil {
		return
	}
	for i := range sum.Prewarm.Targets {
		for _, inf := range sum.Prewarm.Targets[i].Inferences {
			if e := inf.Err; e != nil {
				e.Type, e.Message = b.secrets.String(e.Type), b.secrets.String(e.Message)
			}
		}
	}
}

// redacted takes secrets out of an error's text.
func (b *bench) redacted(err error) error {
	if text := b.secrets.String(err.Error()); text != err.Error() {
		return errors.New(text)
	}
	return err
}

// listen turns signals into the run's two ends: the first Ctrl-C closes stop, the second ends the process at once; SIGTERM cuts the run.
func (b *bench) listen() (stop chan struct{}, ctx context.Context, release func()) {
	stop = make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	var listening sync.WaitGroup
	listening.Go(func() {
		asked := false
		for {
			var s os.Signal
			select {
			case <-done:
				return
			case s = <-b.signals:
			case s = <-b.typed:
			}
			switch {
			case s == syscall.SIGTERM:
				b.terminated.Store(true)
			case asked:
				b.view.say("quit at once; " + b.name() + " recover " + b.dir.Path + " makes the files of the requests that finished")
				b.view.abort()
				b.exit(exitKilled)
				return
			default:
				b.view.say("stopping: no more requests are sent, those in flight may finish; press Ctrl-C again to quit at once")
			}
			if !asked {
				close(stop)
			}
			asked = true
			if s == syscall.SIGTERM {
				cancel() // after stop, by which the run knows that it was stopped and has not failed
			}
		}
	})
	return stop, ctx, func() { close(done); cancel(); listening.Wait() }
}

// phases are the run's phases as the files name them; sums are those that ran, nil before the run.
func (b *bench) phases(sums []loadgen.PhaseSummary) []export.Phase {
	out := namedPhases(b.cfg.Phases)
	if sums != nil {
		out = out[:min(len(out), len(sums))]
	}
	for i := range out {
		e := &out[i]
		if sums != nil {
			s := &sums[i]
			acc := b.sink.byPhase[i]
			e.Start, e.End = b.clock.Wall(s.Start), b.clock.Wall(s.End)
			e.WasCancelled = s.Stopped
			e.OK, e.Failed = s.OK, s.Failed+s.Cancelled
			e.Errors, e.Drafts = acc.Errors(), acc.Drafts()
			e.Results = acc.Results(metrics.Window{Start: s.Start, End: s.End})
		}
	}
	return out
}

// namedPhases are a run's phases as the files number and name them.
func namedPhases(phases []config.Phase) []export.Phase {
	out := make([]export.Phase, len(phases))
	profiling := 0
	for i := range phases {
		out[i] = export.Phase{Index: i, Name: phases[i].Name, Kind: phases[i].Kind}
		if phases[i].Kind == metrics.Profiling {
			out[i].ProfilingIndex = profiling
			profiling++
		}
	}
	return out
}

// merged folds the accumulators of all phases of one kind that ran, with the windows of those.
func (b *bench) merged(sums []loadgen.PhaseSummary, kind metrics.Kind) (*metrics.Accumulator, []metrics.Window, error) {
	var accs []*metrics.Accumulator
	var windows []metrics.Window
	for i, s := range sums {
		if s.Phase.Kind == kind {
			accs = append(accs, b.sink.byPhase[i])
			windows = append(windows, metrics.Window{Start: s.Start, End: s.End})
		}
	}
	if len(accs) == 1 {
		return accs[0], windows, nil // the values of a long run are not held twice
	}
	acc := metrics.NewAccumulator(b.options)
	for _, a := range accs {
		if err := acc.Merge(a); err != nil {
			return nil, nil, err
		}
	}
	return acc, windows, nil
}

// results are the figures of the phases that ran; acc holds those of the measured ones.
func (b *bench) results(sum *loadgen.Summary) (r *export.Run, acc *metrics.Accumulator, err error) {
	acc, windows, err := b.merged(sum.Phases, metrics.Profiling)
	if err != nil {
		return nil, nil, err
	}
	warm, warmWindows, err := b.merged(sum.Phases, metrics.Warmup)
	if err != nil {
		return nil, nil, err
	}
	acc.SetNetwork(b.trip.mean())
	warm.SetNetwork(b.trip.mean())
	for _, a := range b.sink.byPhase {
		a.SetNetwork(b.trip.mean())
	}
	parts, err := b.slices(acc)
	if err != nil {
		return nil, nil, err
	}
	r = &export.Run{
		BenchmarkID:  strings.ReplaceAll(uuid.NewString(), "-", "")[:12],
		Info:         export.Info{Seed: b.load.seed, Command: b.cfg.Command},
		Results:      acc.Results(windows...),
		Errors:       acc.Errors(),
		WasCancelled: sum.Stopped,
		InputConfig:  b.cfg.Input,
		Phases:       b.phases(sum.Phases),
		Secrets:      b.secrets,
		Slices:       parts,
		NoSummary:    b.cfg.Artifacts.NoSummary,
		Drafts:       acc.Drafts(),
	}
	b.part.name(r)
	if len(windows) > 0 {
		r.Start, r.End = b.clock.Wall(windows[0].Start), b.clock.Wall(windows[len(windows)-1].End)
	}
	if len(warmWindows) > 0 {
		r.Warmup = warm.Results(warmWindows...)
	}
	r.Server = b.servers.report(sum.Phases)
	return r, acc, nil
}

// export writes the run's files and says how the program ends.
func (b *bench) export(sum *loadgen.Summary, failed error) (*outcome, error) {
	r, acc, err := b.results(sum)
	if err != nil {
		return nil, err
	}
	code := exitOK
	switch {
	case failed != nil:
		failed = b.redacted(failed)
		r.Incomplete, code = failed.Error(), exitFailed
	case sum.Stopped:
		r.Incomplete = "the run was cancelled early"
	}
	if acc.Counts().OK == 0 {
		code = exitFailed
	}
	if b.terminated.Load() {
		code = exitTerminated
	}
	more, written := b.outputFiles()
	b.describe(r, sum, acc)
	r.Screen.Files = b.files(r.Server, more)
	r.Broken = b.sink.broken
	return &outcome{run: r, code: code, failed: failed, client: b.health.Client, used: b.used, prompts: b.promptNotices(b.load.source.Stats()),
		overdue: b.sink.overdue.Count()}, errors.Join(written, b.dir.WriteRun(r, acc.Histograms()))
}
