package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/google/uuid"

	"prefire/internal/config"
	"prefire/internal/export"
	"prefire/internal/procedure"
	"prefire/internal/sweep"
	"prefire/metrics"
	"prefire/tokenize"
)

// series is a sweep, repeats, or both, while it runs: one benchmark after another in this process. What costs time to make and holds nothing of
// a run, the tokenizer, is made once; each run has its own prewarm, seed and folder.
type series struct {
	process
	plan     *config.Plan
	command  string
	id       string
	dir      export.Dir
	seedGave bool
	seedFrom string
	seeds    []sweep.Seeds // by variation
	tokens   map[[2]string]tokenize.Tokenizer
	said     map[string]bool
	runs     []*sweep.Run
	samples  map[*sweep.Run]map[string][]float64 // single values, where convergence asks for them
	stopped  bool
	code     int // of a stop that has one of its own
}

// part is one run of a series.
type part struct {
	series    *series
	variation *sweep.Variation
	trial     int
	seed      uint64
}

// tokenizer opens the config's tokenizer, once in a series. A nil part is a run that stands alone.
func (of *part) tokenizer(cfg *config.Config, env func(string) (string, bool)) (tokenize.Tokenizer, error) {
	if of == nil {
		return openTokenizer(cfg, env)
	}
	key := [2]string{cfg.Tokenizer, cfg.TokenizerRevision}
	if t, ok := of.series.tokens[key]; ok {
		return t, nil
	}
	t, err := openTokenizer(cfg, env)
	if err == nil {
		of.series.tokens[key] = t
	}
	return t, err
}

// say prints notices, each once in a series.
func (of *part) say(p process, notices []string) {
	for _, n := range notices {
		if of != nil {
			of.series.say(n)
			continue
		}
		fmt.Fprintf(p.stderr, "%s: %s\n", p.name(), n)
	}
}

// say prints a notice, once.
func (s *series) say(notice string) {
	if !s.said[notice] {
		s.said[notice] = true
		fmt.Fprintf(s.stderr, "%s: %s\n", s.name(), notice)
	}
}

// onSchedule refuses a sweep over the load of prompts that come with times of their own.
func (of *part) onSchedule() error {
	if of == nil {
		return nil
	}
	for _, s := range of.variation.Values {
		if strings.HasPrefix(s.Path, "phases.") {
			return fmt.Errorf("parameter sweeps (%s) cannot be used with --fixed-schedule mode (including the auto-promotion of trace datasets with per-record timestamps): "+
				"the requests are sent at the file's own times. Use a single value, or pass --no-fixed-schedule", s.Path)
		}
	}
	return nil
}

// name makes a run's files say which run of a series it is.
func (of *part) name(r *export.Run) {
	if of == nil {
		return
	}
	r.BenchmarkID = strings.ReplaceAll(uuid.NewString(), "-", "")
	r.Info.RunOf(of.series.id, of.variation, of.trial)
}

// placeFacts are prefire.series of a run.
type placeFacts struct {
	Runs int    `json:"runs"`
	Run  int    `json:"run"`
	Seed uint64 `json:"seed_of_all"`
	Same bool   `json:"same_prompts_in_repeats"`
}

func (of *part) place() placeFacts {
	s := of.series
	return placeFacts{len(s.plan.Steps) * s.plan.Layout.Runs, len(s.runs) + 1, s.seeds[of.variation.Index].Base, s.plan.Layout.Runs > 1 && s.plan.Consistent}
}

// facts are what prefire's own key says of the run's place; nil where it has none.
func (of *part) facts() any {
	if of == nil {
		return nil
	}
	return value(of.place())
}

// runSeries is the profile command for more than one run.
func runSeries(p process, plan *config.Plan, command string) error {
	if plan.Steps[0].Config.UI == "dashboard" && terminal(p.stdout) {
		return complain(p.stderr, &config.Error{Title: "Error Running AIPerf System",
			Msg: "Dashboard UI is not supported with sweep/multi-run mode. Please use '--ui simple' or '--ui none' instead."})
	}
	s := &series{process: p, plan: plan, command: command, id: uuid.NewString(), dir: export.Dir{FS: export.Disk{}, Path: plan.Dir()},
		tokens: map[[2]string]tokenize.Tokenizer{}, said: map[string]bool{}, samples: map[*sweep.Run]map[string][]float64{}}
	if err := s.chooseSeeds(); err != nil {
		return complain(p.stderr, err)
	}
	if err := s.dir.RemoveSeries(s.files()); err != nil {
		return complain(p.stderr, fmt.Errorf("the artifact folder %s cannot be written: %w; choose another with --artifact-dir", s.dir.Path, err))
	}
	s.loop()
	return s.conclude()
}

// chooseSeeds gives every run a seed of its own, all from one, unless the user asks for the same.
func (s *series) chooseSeeds() error {
	base, err := uint64(0), error(nil)
	switch {
	case s.plan.Seed != nil:
		base, s.seedGave, s.seedFrom = *s.plan.Seed, true, "given"
	case s.plan.FixedSeed:
		base, s.seedGave, s.seedFrom = config.AIPerfSeed, true, "of --set-consistent-seed"
	default:
		if base, err = drawSeed(); err != nil {
			return err
		}
		s.seedFrom = "drawn from the system"
	}
	for i := range s.plan.Steps {
		own := base
		if seed := s.plan.Steps[i].Config.Seed; seed != nil { // a sweep may vary it
			own = *seed
		}
		s.seeds = append(s.seeds, sweep.Seeds{Base: own, Same: s.plan.SameSeed || !s.plan.Layout.Swept, Vary: s.plan.Layout.Runs > 1 && !s.plan.Consistent})
	}
	if s.seedGave {
		s.say(givenSeedNotice)
	}
	if s.plan.Layout.Runs > 1 && s.plan.Consistent {
		s.say("all repeats send the same prompts, as asked: from the second one on a server may answer them from its prefix cache")
	}
	return nil
}

// loop runs what is to be run, until the user stops it.
func (s *series) loop() {
	places := s.plan.Layout.Places(len(s.plan.Steps))
	steady := make([]bool, len(s.plan.Steps))
	var last *sweep.Place
	for i := range places {
		at := &places[i]
		if steady[at.Variation] {
			continue
		}
		if last != nil && !s.pause(last, at) {
			return
		}
		last = at
		step := &s.plan.Steps[at.Variation]
		fmt.Fprintf(s.stderr, "%s: run %d of %d: %s\n", s.name(), len(s.runs)+1, len(places), s.label(&step.Variation, at.Trial))
		run, ended := s.run(step, at.Trial)
		s.runs = append(s.runs, run)
		if !ended {
			return
		}
		if s.converged(at.Variation) {
			steady[at.Variation] = true
			fmt.Fprintf(s.stderr, "%s: %s: %s is steady, no more repeats\n", s.name(), s.label(&step.Variation, at.Trial), s.plan.Convergence.Metric)
		}
		if s.plan.Layout.Swept && !s.plan.NoTable && terminal(s.stdout) && i < len(places)-1 {
			s.table()
		}
	}
}

// pause waits between two runs. It returns false where the user stops the series.
func (s *series) pause(last, next *sweep.Place) bool {
	between := s.plan.Cooldown
	if s.plan.Layout.Order == sweep.Independent && last.Variation != next.Variation || s.plan.Layout.Order != sweep.Independent && last.Trial == next.Trial {
		between = s.plan.SweepCooldown
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	waited := make(chan error, 1)
	clock := newClock()
	go func() { waited <- clock.Until(ctx, clock.Now()+int64(between)) }()
	select {
	case <-waited:
		return true
	case sig := <-s.signals:
		s.stop(sig)
		cancel()
		<-waited
		return false
	}
}

func (s *series) stop(sig os.Signal) {
	s.stopped = true
	if sig == syscall.SIGTERM {
		s.code = exitTerminated
	}
}

// run is one run of the series. ended is false where the user stopped it.
func (s *series) run(step *config.Step, trial int) (run *sweep.Run, ended bool) {
	of := &part{series: s, variation: &step.Variation, trial: trial}
	of.seed = s.seeds[step.Index].Of(of.variation, trial)
	folder := filepath.Join(s.dir.Path, s.plan.Layout.Run(of.variation, trial))
	cfg := step.Config.ForRun(folder, trial == 0 || !s.plan.WarmupOnce)
	cfg.Report = false // the series has one for all runs
	run = &sweep.Run{Variation: of.variation, Trial: trial}
	out, err := benchmarkPart(s.process, cfg, s.command, of)
	if err != nil {
		if errors.Is(err, errStopped) || errors.Is(err, exitError(exitTerminated)) {
			s.stopped, run.Failure = true, errStopped.Error()
			if !errors.Is(err, errStopped) {
				s.code = exitTerminated
			}
			return run, false
		}
		run.Failure = strings.TrimRight(err.Error(), "\n")
		_ = complain(s.stderr, err) // the exit code is that of the series
		return run, true
	}
	if err := out.show(s.stdout); err != nil {
		_ = complain(s.stderr, err)
	}
	_ = out.end(s.stderr)
	run.Metrics = export.Figures(out.run)
	counts := out.run.Screen.Counts
	run.Hung = 100 * float64(out.overdue) / float64(max(1, counts.Sent))
	switch {
	case out.code == exitTerminated:
		s.stopped, s.code, run.Failure = true, exitTerminated, "the run was terminated: its files hold what was measured until then"
		return run, false
	case out.run.WasCancelled:
		s.stopped, run.Failure = true, "the run was stopped: its files hold what was measured until then"
		return run, false
	case out.failed != nil:
		run.Failure = out.failed.Error()
	case counts.OK == 0 && counts.Failed > 0:
		run.Failure = fmt.Sprintf("All %d requests failed", counts.Failed)
	case counts.OK == 0:
		run.Failure = "No requests completed"
	case out.code != exitOK:
		run.Failure = fmt.Sprintf("Benchmark failed with exit code %d", out.code)
	case s.plan.Convergence != nil:
		s.readSamples(run, filepath.Join(folder, export.NewNames(cfg.Artifacts.Prefix).Records), cfg.IncludeCold)
	}
	return run, true
}

// readSamples reads the single values of a run's requests. Cold requests stay out of what they stay out of in the run's own figures.
func (s *series) readSamples(run *sweep.Run, file string, includeCold bool) {
	coldOut := map[string]bool{}
	for _, d := range metrics.Table() {
		coldOut[d.Tag] = d.ColdOut && !includeCold
	}
	values := map[string][]float64{}
	f, err := os.Open(file)
	if err == nil {
		err = errors.Join(procedure.ReadMetrics(f, func(tag string, cold bool, v float64) {
			if !cold || !coldOut[tag] {
				values[tag] = append(values[tag], v)
			}
		}), f.Close())
	}
	if err != nil {
		fmt.Fprintf(s.stderr, "%s: the records of %s cannot be read, and are left out of what is said of all requests: %v\n", s.name(), sweep.RunLabel(run.Trial), err)
		return
	}
	s.samples[run] = values
}

// converged reports whether the repeats of a variation are enough.
func (s *series) converged(variation int) bool {
	c := s.plan.Convergence
	if c == nil {
		return false
	}
	var runs []*sweep.Run
	var values [][]float64
	for _, r := range s.runs {
		if r.Variation.Index == variation {
			runs = append(runs, r)
			if v := s.samples[r]; r.OK() && len(v[c.Metric]) > 0 {
				values = append(values, v[c.Metric])
			}
		}
	}
	if len(runs) >= c.MinRuns && len(values) == 0 && len(c.Figures(runs)) == 0 {
		s.say(fmt.Sprintf("no run has a metric %s with the figure %s: the repeats will not end before their number is reached; is it spelt as in the JSON files?",
			c.Metric, c.Stat))
	}
	return len(runs) < s.plan.Layout.Runs && c.Reached(runs, s.plan.Confidence, values)
}

// files is what the files of the whole series are made from.
func (s *series) files() *export.Series {
	f := &export.Series{Runs: s.runs, Level: s.plan.Confidence, Cooldown: s.plan.Cooldown.Seconds(), Layout: s.plan.Layout, Limits: s.plan.Limits, Variations: s.variations(),
		Prefire: export.Object{{Key: "version", Value: version()}, {Key: "command", Value: s.command}, {Key: "seed", Value: s.seeds[0].Base}, {Key: "seed_source", Value: s.seedFrom},
			{Key: "same_prompts_in_repeats", Value: s.plan.Layout.Runs > 1 && s.plan.Consistent}, {Key: "stopped", Value: s.stopped},
			{Key: "runs_planned", Value: len(s.plan.Steps) * s.plan.Layout.Runs}}}
	for i := range s.plan.Steps {
		f.Models = append(f.Models, s.plan.Steps[i].Config.Models[0])
	}
	return f
}

// conclude writes what the runs show together and prints it.
func (s *series) conclude() error {
	ok := 0
	for _, r := range s.runs {
		if r.OK() {
			ok++
		}
	}
	s.failures(ok)
	if ok >= 2 {
		cells, sum, err := s.dir.WriteSeries(s.files())
		if s.plan.Convergence != nil && !s.plan.Layout.Swept {
			err = errors.Join(err, s.dir.WriteCollated(s.files(), s.collated()))
		}
		s.show(cells, &sum)
		if err != nil {
			return complain(s.stderr, err)
		}
	}
	if ok > 0 && s.plan.Steps[0].Config.Report {
		page := filepath.Join(s.dir.Path, reportFile)
		if err := writeReport(s.dir.Path, page, nil); err != nil {
			return complain(s.stderr, fmt.Errorf("the report could not be made: %w", err))
		}
		fmt.Fprintf(s.stdout, "Report: %s\n", page)
	}
	switch {
	case s.code != exitOK:
		return exitError(s.code)
	case ok < 2:
		return exitError(exitFailed)
	}
	return nil
}

// collated are the single values of all runs that count, in the order of the table of metrics.
func (s *series) collated() []export.Collated {
	var out []export.Collated
	for _, d := range metrics.Table() {
		c := export.Collated{Tag: d.Tag}
		for _, r := range s.runs {
			if v := s.samples[r][d.Tag]; r.OK() && len(v) > 0 {
				c.Labels, c.Values = append(c.Labels, sweep.RunLabel(r.Trial)), append(c.Values, v)
			}
		}
		if len(c.Labels) > 0 {
			out = append(out, c)
		}
	}
	return out
}
