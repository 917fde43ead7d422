package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"prefire/internal/config"
	"prefire/internal/export"
	"prefire/internal/procedure"
	"prefire/loadgen"
	"prefire/metrics"
)

const (
	// capacityState says what a capacity run is, for its going on; capacityStep what came of a load, once that is known.
	capacityState = "capacity_run.json"
	capacityStep  = "capacity_step.json"
	// capacitySeconds is how long a step sends where the user gave no stop.
	capacitySeconds = "60"
	// capacityHopeless ends a step in which a larger share of the requests fails, where the user gave no such share.
	capacityHopeless = 0.5
)

const capacityHelp = `capacity finds how much load a server carries: prefire profile once for each load, all else as the flags and the config file say. It takes
every flag of prefire profile, and

  --concurrency N,N,...   a ladder of sessions at once, from the lowest up; it ends early where the server is saturated
  --request-rate R,R,...  a ladder of rates, in requests/s
  --search WHAT           in the place of a ladder: the most load that keeps the limits, WHAT is concurrency or rate
  --search-from N         the search's first load (8 sessions, 1 request/s); from there it doubles or halves, then bisects
  --search-to N           its largest (4096 sessions, 10000 requests/s)
  --slo LIMITS            what a load must keep (error_rate<1%)
  --artifact-dir DIR      folder for the files (results/capacity/MODEL); each step gets its own below it
  --resume DIR            go on with a run that was interrupted; no finished step is repeated. Give flags with secrets again, as --api-key, no others

LIMITS are ` + procedure.SLOHelp + `

A step sends for 60 s, or as --benchmark-duration or --request-count say. It is judged in its steady state: the beginning is left out by MSER-5 on
request latency and requests in flight, and at the end what began within a median latency of the last start; the table has the window. Failed
requests count against a load: in the error rate, and as beyond every limit on a percentile. A rate must be served too: the number in flight may
not grow by more than 1 % of the arrivals. Averages have intervals from batches of neighbouring requests, percentiles are judged by the share of
requests beyond the limit, both at 95 %. A load that its intervals leave open is run again, once. A step in which more than half of the requests
fail ends at once.

The result is in DIR/capacity.json, a plot in DIR/capacity.svg. The exit code says whether the runs worked, not what they found.`

func capacityCommand(p process) *cobra.Command {
	return &cobra.Command{
		Use:                "capacity --concurrency N,N,... | --request-rate R,R,... | --search WHAT | --resume DIR  FLAGS",
		Short:              "Find how much load a server carries within given limits",
		Long:               capacityHelp,
		DisableFlagParsing: true, // as profile
		Example: `  prefire capacity --model my-model --url http://127.0.0.1:8000 --streaming --tokenizer builtin --isl 1024 --osl 128 --search concurrency --slo 'ttft_p99<500ms,itl_avg<30ms'
  prefire capacity --config run.yaml --concurrency 10,25,50,100,200
  prefire capacity --resume results/capacity/my-model`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if slices.Contains(args, "--help") || slices.Contains(args, "-h") {
				return cmd.Help()
			}
			if err := runCapacity(p, args); err != nil {
				return complain(p.stderr, err)
			}
			return nil
		},
	}
}

// capacityPlan is what a capacity run is, as its folder keeps it.
type capacityPlan struct {
	Schema  int              `json:"schema_version"`
	Version string           `json:"prefire_version"`
	Command string           `json:"command"` // secrets redacted
	Ladder  procedure.Ladder `json:"ladder"`
	SLO     string           `json:"slo"`
	// Args are profile's flags for every step. Those with secrets are left out, and named in Secret.
	Args   []string `json:"args"`
	Secret []string `json:"given_again_on_resume,omitempty"`
	// UI is how each step shows its progress, where that was given; it may be given anew.
	UI string `json:"ui,omitempty"`
	// Config is a digest of what Args and the config file say together.
	Config string `json:"config_sha256"`
}

// capacityRun is a capacity run.
type capacityRun struct {
	process
	capacityPlan
	dir    string
	extra  []string // flags with secrets
	report bool
	slo    []procedure.Clause
	done   []finishedStep // in the order they were run
}

// finishedStep is a load's result as its folder keeps it.
type finishedStep struct {
	Order  int    `json:"order"`
	Folder string `json:"artifact_dir"` // below the run's
	procedure.Step
}

func runCapacity(p process, args []string) error {
	c, err := openCapacity(p, args)
	if err != nil {
		return err
	}
	finished, err := c.steps()
	if err != nil {
		err = complain(p.stderr, err)
	}
	if len(c.done) == 0 {
		if err == nil {
			err = exitError(exitFailed)
		}
		return err
	}
	return errors.Join(c.conclude(finished), err)
}

// openCapacity reads the flags, or what an interrupted run's folder says, and checks the first load before anything is written.
func openCapacity(p process, args []string) (*capacityRun, error) {
	resume, rest, err := takeOne(args, "--resume")
	if err != nil {
		return nil, err
	}
	c := &capacityRun{process: p}
	if resume != "" {
		err = c.readPlan(resume, rest)
	} else {
		err = c.makePlan(args)
	}
	if err != nil {
		return nil, err
	}
	if c.slo, err = procedure.ParseSLO(c.SLO); err != nil {
		return nil, fmt.Errorf("--slo: %w", err)
	}
	if _, err := c.config(c.first(), c.flags()); err != nil {
		return nil, err
	}
	cfg, err := c.config(c.first(), slices.Concat(c.Args, c.extra)) // --ui may change on a resume
	if err != nil {
		return nil, err
	}
	for _, limit := range c.slo {
		if def := definition(limit.Tag); def != nil && def.Has(metrics.StreamOnly) && !cfg.Endpoint.Streaming {
			return nil, fmt.Errorf("--slo: %s is a limit on what only streamed answers have: add --streaming (endpoint.streaming: true in the config file)", limit.Text)
		}
	}
	c.report = cfg.Report
	digest, err := digestOf(cfg)
	switch {
	case err != nil:
		return nil, err
	case resume != "" && digest != c.Config:
		return nil, fmt.Errorf("--resume: what the flags and the config file of %s say has changed since it began: its steps could not be held against each other; "+
			"start a new run in another folder", resume)
	case resume != "":
		return c, c.readSteps()
	}
	if c.dir == "" {
		c.dir = filepath.Join("results", "capacity", strings.NewReplacer("/", "_", ".", "_").Replace(cfg.Models[0]))
	}
	if _, err := os.Stat(filepath.Join(c.dir, capacityState)); err == nil {
		return nil, fmt.Errorf("%s holds a capacity run already: go on with it by --resume %s, or choose another folder with --artifact-dir", c.dir, c.dir)
	}
	c.Schema, c.Version, c.Config, c.Command = 1, version(), digest, config.CommandLine("prefire", "capacity", args)
	return c, c.write(capacityState, func(w io.Writer) error { return indented(w, &c.capacityPlan) })
}

// takeOne takes a flag that is given once at most, under any of its names.
func takeOne(args []string, name string) (value string, rest []string, err error) {
	given, rest, err := takeFlag(args, flagNames(name))
	switch {
	case err != nil || len(given) == 0:
		return "", rest, err
	case len(given) > 1:
		return "", nil, fmt.Errorf("%s takes one value and is given %d", name, len(given))
	}
	return given[0], rest, nil
}

// flagGroup is a flag as given, with its values.
type flagGroup struct {
	name  string // the flag's first name
	words []string
}

// flagGroups are the flags of a command line, each with the words up to the next one.
func flagGroups(args []string) []flagGroup {
	var out []flagGroup
	for _, arg := range args {
		if len(out) > 0 && !(len(arg) > 1 && arg[0] == '-' && (arg[1] < '0' || arg[1] > '9')) {
			out[len(out)-1].words = append(out[len(out)-1].words, arg)
			continue
		}
		name, _, _ := strings.Cut(arg, "=")
		if !strings.HasPrefix(name, "--") && len(name) > 2 {
			name = name[:2] // a short flag with its value tied to it
		}
		out = append(out, flagGroup{flagNames(strings.ReplaceAll(name, "_", "-"))[0], []string{arg}})
	}
	return out
}

// secret reports whether a command line that is shown leaves something of the flag out: no file of the run may hold it.
func (g *flagGroup) secret() bool {
	return strings.Contains(config.CommandLine("", "", g.words), strings.Trim(export.Redacted, "<>"))
}

// takeSecrets takes the flags with secrets out of args.
func (c *capacityRun) takeSecrets(args []string) {
	for _, g := range flagGroups(args) {
		if !g.secret() {
			c.Args = append(c.Args, g.words...)
			continue
		}
		c.extra = append(c.extra, g.words...)
		if !slices.Contains(c.Secret, g.name) {
			c.Secret = append(c.Secret, g.name)
		}
	}
}

// makePlan reads the flags of a new run.
func (c *capacityRun) makePlan(args []string) (err error) {
	var what, from, to string
	rest := args
	for _, f := range [...]struct {
		name  string
		value *string
	}{{"--search", &what}, {"--search-from", &from}, {"--search-to", &to}, {"--slo", &c.SLO}, {"--artifact-dir", &c.dir}, {"--ui", &c.UI}} {
		if *f.value, rest, err = takeOne(rest, f.name); err != nil {
			return err
		}
	}
	loads := map[string][]string{}
	for _, name := range [...]string{"--concurrency", "--request-rate"} {
		if loads[name], rest, err = takeFlag(rest, flagNames(name)); err != nil {
			return err
		}
	}
	c.Ladder, rest, err = ladder(what, from, to, loads, rest)
	if err != nil {
		return err
	}
	if err == nil {
		c.takeSecrets(rest)
	}
	return err
}

// ladder reads which loads to run. A single value of the other kind of load stays among the flags.
func ladder(what, from, to string, loads map[string][]string, rest []string) (l procedure.Ladder, _ []string, err error) {
	const concurrency, rate = "--concurrency", "--request-rate"
	name, other := concurrency, rate
	lists := map[string][]float64{}
	for _, n := range [...]string{concurrency, rate} {
		if lists[n], err = loadList(n, loads[n]); err != nil {
			return l, nil, err
		}
	}
	switch {
	case what == "concurrency" || what == "rate":
		if what == "rate" {
			name, other = rate, concurrency
		}
		l = procedure.Ladder{From: 8, To: 4096}
		if what == "rate" {
			l = procedure.Ladder{Open: true, From: 1, To: 10000}
		}
		if len(lists[name]) > 0 {
			return l, nil, fmt.Errorf("--search %s finds it by itself: leave %s out, or give --search-from and --search-to", what, name)
		}
		for _, f := range [...]struct {
			flag, text string
			v          *float64
		}{{"--search-from", from, &l.From}, {"--search-to", to, &l.To}} {
			if f.text != "" {
				if *f.v, err = oneLoad(f.flag, f.text, !l.Open); err != nil {
					return l, nil, err
				}
			}
		}
		if l.From > l.To {
			return l, nil, fmt.Errorf("--search-from is %v, above --search-to, which is %v", l.From, l.To)
		}
	case what != "":
		return l, nil, fmt.Errorf("--search is %q; it may be concurrency or rate", what)
	case from != "" || to != "":
		return l, nil, errors.New("--search-from and --search-to are for --search concurrency or --search rate, which is not there")
	default:
		if len(lists[rate]) > 1 {
			name, other = rate, concurrency
		}
		if len(lists[name]) < 2 {
			return l, nil, errors.New("capacity needs loads to try: a list of two and more, as --concurrency 10,25,50,100 or --request-rate 1,2,4,8, or --search " +
				"concurrency or --search rate")
		}
		l = procedure.Ladder{Open: name == rate, Loads: lists[name]}
	}
	switch {
	case len(lists[other]) > 1:
		return l, nil, fmt.Errorf("%s has a list beside the loads to try, which are of %s: give one of them", other, name)
	case len(lists[other]) == 1 && name == concurrency:
		return l, nil, fmt.Errorf("%s has no effect on a number of sessions at once: leave it out", other)
	case len(lists[other]) == 1:
		rest = append(rest, other, loads[other][0])
	}
	return l, rest, nil
}

// loadList reads a list of loads, rising.
func loadList(flag string, given []string) (out []float64, err error) {
	for _, word := range given {
		for part := range strings.SplitSeq(word, ",") {
			v, err := oneLoad(flag, strings.TrimSpace(part), flag == "--concurrency")
			if err != nil {
				return nil, err
			}
			if slices.Contains(out, v) {
				return nil, fmt.Errorf("%s: %s is given twice", flag, part)
			}
			out = append(out, v)
		}
	}
	slices.Sort(out)
	return out, nil
}

func oneLoad(flag, text string, whole bool) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil || !(v > 0) || math.IsInf(v, 0) || whole && v != math.Trunc(v):
		if whole {
			return 0, fmt.Errorf("%s: %q is no number of sessions; give whole numbers from 1", flag, text)
		}
		return 0, fmt.Errorf("%s: %q is no rate; give requests/s above 0", flag, text)
	case v > 1e6:
		return 0, fmt.Errorf("%s: %s is more than 1,000,000", flag, text)
	}
	return v, nil
}

// readPlan reads what an interrupted run's folder says.
func (c *capacityRun) readPlan(dir string, rest []string) error {
	ui, rest, err := takeOne(rest, "--ui")
	if err != nil {
		return err
	}
	path := filepath.Join(dir, capacityState)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("--resume: %s holds no capacity run: there is no %s in it", dir, capacityState)
	}
	if err == nil {
		err = json.Unmarshal(data, &c.capacityPlan)
	}
	if err != nil {
		return fmt.Errorf("--resume: %s cannot be read: %w", path, err)
	}
	if c.Schema != 1 {
		return fmt.Errorf("--resume: %s has schema_version %d; this version of prefire reads 1", path, c.Schema)
	}
	var again []string
	for _, g := range flagGroups(rest) {
		if !slices.Contains(c.Secret, g.name) {
			return fmt.Errorf("--resume goes on with the run as it began: beside it there may be --ui and the flags whose secrets its files do not hold (%s), not %s",
				cmp.Or(strings.Join(c.Secret, ", "), "there are none"), g.words[0])
		}
		again, c.extra = append(again, g.name), append(c.extra, g.words...)
	}
	for _, name := range c.Secret {
		if !slices.Contains(again, name) {
			return fmt.Errorf("--resume: the run was given %s with a secret, which no file of it holds: give it again", name)
		}
	}
	c.dir, c.UI = dir, cmp.Or(ui, c.UI)
	return nil
}

// readSteps reads the steps that are finished.
func (c *capacityRun) readSteps() error {
	folders, err := export.Disk{}.Folders(c.dir)
	if err != nil {
		return err
	}
	for _, folder := range folders {
		path := filepath.Join(c.dir, folder, capacityStep)
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was not finished
		}
		var s finishedStep
		if err == nil {
			err = json.Unmarshal(data, &s)
		}
		if err != nil {
			return fmt.Errorf("--resume: %s cannot be read: %w; take the folder %s away, and its step is run again", path, err, folder)
		}
		c.done = append(c.done, s)
	}
	slices.SortFunc(c.done, func(a, b finishedStep) int { return a.Order - b.Order })
	fmt.Fprintf(c.stdout, "Going on after %d finished steps.\n", len(c.done))
	return nil
}

func (c *capacityRun) first() float64 { load, _ := c.Ladder.Next(nil); return load }

// flags are profile's for every step.
func (c *capacityRun) flags() []string {
	args := slices.Concat(c.Args, c.extra)
	if c.UI != "" {
		args = append(args, "--ui", c.UI)
	}
	return args
}

// config is that of one load.
func (c *capacityRun) config(load float64, args []string) (*config.Config, error) {
	flag := "--concurrency"
	if c.Ladder.Open {
		flag = "--request-rate"
	}
	parse := func(args []string) (*config.Config, error) {
		return unlessStopped(c.process, errStopped, func() (*config.Config, error) { return config.Parse(args, c.env, os.ReadFile) })
	}
	args = slices.Concat(args, []string{flag, procedure.LoadText(load)})
	cfg, err := parse(args)
	if err == nil && cfg.DefaultStop {
		cfg, err = parse(append(args, "--benchmark-duration", capacitySeconds))
	}
	if err != nil {
		return nil, err
	}
	measured := 0
	for i := range cfg.Phases {
		ph := &cfg.Phases[i]
		if ph.Kind != metrics.Profiling {
			continue
		}
		measured++
		if ph.Load.Open() != c.Ladder.Open || c.Ladder.Open && ph.Load.Rate != load || !c.Ladder.Open && float64(ph.Concurrency) != load {
			return nil, fmt.Errorf("phase %q has a load of another shape (%s), which %s does not set: capacity runs a number of sessions at once or a rate", ph.Name, ph.Load.Type, flag)
		}
		if ph.Load.FailedShare == nil {
			share := capacityHopeless
			ph.Load.FailedShare = &share
		}
	}
	if measured != 1 {
		return nil, fmt.Errorf("the config has %d phases that are measured; a step of a capacity run is one", measured)
	}
	return cfg, nil
}

// digestOf is a digest of a config.
func digestOf(cfg *config.Config) (string, error) {
	data, err := json.Marshal(cfg.Input)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}

func definition(tag string) *metrics.Def {
	table := metrics.Table()
	if i := slices.IndexFunc(table, func(d *metrics.Def) bool { return d.Tag == tag }); i >= 0 {
		return table[i]
	}
	return nil
}

// steps runs what is left to run. Ctrl-C ends it at the step that it hit, which is not part of the result.
func (c *capacityRun) steps() (finished bool, err error) {
	for {
		load, more := c.Ladder.Next(c.results())
		if !more {
			return true, nil
		}
		if stopped, err := c.step(load); err != nil || stopped {
			return false, err
		}
	}
}

func (c *capacityRun) results() []procedure.Step {
	out := make([]procedure.Step, len(c.done))
	for i := range c.done {
		out[i] = c.done[i].Step
	}
	return out
}

// folders are those of a load's runs so far.
func (c *capacityRun) folders(load float64) []string {
	var out []string
	for i := range c.done {
		if c.done[i].Load == load {
			out = append(out, c.done[i].Folder)
		}
	}
	return out
}

// step runs one load, once, and keeps its result.
func (c *capacityRun) step(load float64) (stopped bool, err error) {
	before := c.folders(load)
	folder := "concurrency" + procedure.LoadText(load)
	if c.Ladder.Open {
		folder = "rate" + procedure.LoadText(load)
	}
	if len(before) > 0 {
		folder += "-" + strconv.Itoa(len(before)+1)
	}
	cfg, err := c.config(load, slices.Concat(c.flags(), []string{"--artifact-dir", filepath.Join(c.dir, folder)}))
	if err != nil {
		return false, err
	}
	cfg.Command = c.Command
	cfg.Report = false // the run has one for all steps
	if cfg.Seed != nil {
		// Every step draws prompts of its own: with one seed, the server's prefix cache would know those of the step before.
		own := rand.NewPCG(*cfg.Seed, math.Float64bits(load)+uint64(len(before))).Uint64() >> 11
		cfg.Seed = &own
	}
	if len(c.done) > 0 {
		cfg.Notices = nil // they are the first step's
	}
	out, err := benchmark(c.process, cfg, c.Command)
	switch {
	case errors.Is(err, errStopped) || err == nil && out.run.WasCancelled:
		fmt.Fprintf(c.stdout, "Stopped at %s: that step is not in the table. Go on with: prefire capacity --resume %s\n", c.Ladder.Named(load), c.dir)
		if err == nil && out.code == exitTerminated {
			err = exitError(exitTerminated)
		} else {
			err = nil
		}
		return true, err
	case err != nil:
		return false, err
	}
	var many *loadgen.FailuresError
	aborted := errors.As(out.failed, &many)
	if out.failed != nil && !aborted {
		return false, out.failed
	}
	return false, c.keep(load, append(before, folder), cfg.Artifacts.Prefix, aborted, out)
}

// keep judges a load by all its runs and writes that down, whole or not at all: what has this file is finished.
func (c *capacityRun) keep(load float64, folders []string, prefix string, aborted bool, out *outcome) error {
	o := procedure.StepOptions{Load: load, Open: c.Ladder.Open, SLO: c.slo, Tags: procedure.StepTags(c.slo), Aborted: aborted}
	var runs [][]procedure.StepRequest
	for _, folder := range folders {
		rs, err := readStepRequests(filepath.Join(c.dir, folder), export.NewNames(prefix), o.Tags)
		if err != nil {
			return err
		}
		runs = append(runs, rs)
	}
	s := finishedStep{Order: len(c.done), Folder: folders[len(folders)-1], Step: procedure.JudgeStep(o, runs...)}
	for _, v := range out.run.Screen.Client {
		if !v.Good {
			s.Client = append(s.Client, v.Claim)
		}
	}
	if err := c.write(filepath.Join(s.Folder, capacityStep), func(w io.Writer) error { return indented(w, &s) }); err != nil {
		return err
	}
	c.done = append(c.done, s)
	fmt.Fprintf(c.stdout, "  %s: %d requests, %s\n", c.Ladder.Named(load), s.Sent, s.Says())
	return nil
}

func (c *capacityRun) write(name string, fill func(io.Writer) error) error {
	return export.Dir{FS: export.Disk{}, Path: c.dir}.Write(filepath.ToSlash(name), 0o644, fill)
}

func indented(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// readStepRequests reads a step's requests, none where none came back.
func readStepRequests(dir string, names export.Names, tags []string) (rs []procedure.StepRequest, err error) {
	records, censored, err := openRecords(dir, names)
	if err != nil {
		return nil, err
	}
	if rs, err = procedure.ReadStepRequests(records, censored, tags); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return rs, nil
}

// openRecords gives a run's records and its censored requests, empty where there are none.
func openRecords(dir string, names export.Names) (records, censored io.Reader, err error) {
	open := func(name string) io.Reader {
		data, failed := os.ReadFile(filepath.Join(dir, name))
		if failed != nil && !errors.Is(failed, fs.ErrNotExist) {
			err = errors.Join(err, failed)
		}
		return bytes.NewReader(data)
	}
	records, censored = open(names.Records), open(names.Censored)
	return records, censored, err
}
