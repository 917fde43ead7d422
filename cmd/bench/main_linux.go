// Command bench measures prefire, and other load generators beside it, against prefire mock on this machine: see docs/performance.md.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"prefire/internal/bench"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(1)
	}
}

// options are the command's flags.
type options struct {
	rounds                       int
	rows, peers, clients         string
	prefire, aiperf, vllm        string
	tokenizerCache               string
	clientCPUs, serverCPUs       string
	out, doc                     string
	timeout                      time.Duration
	stallLimit                   float64
	sizes                        bench.Sizes
	makePrompts, makePromptsSize int
}

func (o *options) parse(args []string, stderr io.Writer) error {
	home, err := os.UserHomeDir()
	if err != nil {
		home = "."
	}
	peers := filepath.Join(home, ".cache", "peers")
	if dir, ok := os.LookupEnv("PEERS"); ok {
		peers = dir
	}
	o.sizes = bench.DefaultSizes()
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.IntVar(&o.rounds, "rounds", 3, "rounds to keep of each row; as many more are tried where the machine stalled")
	f.StringVar(&o.rows, "rows", "", "rows to run, by comma; a name ending in * stands for all that begin so (default: all)")
	f.StringVar(&o.clients, "clients", "", "prefire's transports, by comma: reactor, portable; each is a line of the tables (default: what prefire takes by itself)")
	f.StringVar(&o.peers, "peers", "", "other load generators, by comma: aiperf, vllm-bench")
	f.StringVar(&o.prefire, "prefire", "", "prefire's binary (default: built from this module)")
	f.StringVar(&o.aiperf, "aiperf", filepath.Join(peers, "aiperf", "bin", "aiperf"), "aiperf's binary")
	f.StringVar(&o.tokenizerCache, "tiktoken-cache", filepath.Join(peers, "tiktoken-cache"), "aiperf's TIKTOKEN_CACHE_DIR")
	f.StringVar(&o.vllm, "vllm-bench", filepath.Join(peers, "vllm-bench", "target", "release", "vllm-bench"), "vllm-bench's binary")
	f.StringVar(&o.clientCPUs, "client-cpus", "", "cores of every load generator, as taskset -c has them (default: all)")
	f.StringVar(&o.serverCPUs, "server-cpus", "", "cores of the server (default: all)")
	f.StringVar(&o.out, "out", "bench-results", "folder for rounds.json and tables.md")
	f.StringVar(&o.doc, "doc", "", "document in which to replace the tables, such as docs/performance.md")
	f.DurationVar(&o.timeout, "timeout", 3*time.Minute, "time after which one run is ended")
	f.Float64Var(&o.stallLimit, "stall-limit", bench.StallLimit, "ms that the machine may stand still in a round before it is thrown away")
	f.IntVar(&o.sizes.Requests, "requests", o.sizes.Requests, "requests of the large run of the rows request and request-uncounted")
	f.IntVar(&o.sizes.Prompts, "prompts", o.sizes.Prompts, "prompts of the row prompts")
	f.Float64Var(&o.sizes.Scale, "scale", o.sizes.Scale, "factor on all concurrencies and request counts, to try the command out")
	f.IntVar(&o.makePrompts, "make-prompts", 0, "make so many prompts and do nothing else: what the row prompts runs")
	f.IntVar(&o.makePromptsSize, "isl", 8192, "tokens of each with --make-prompts")
	f.Usage = func() {
		fmt.Fprintf(stderr, "Usage of bench (docs/performance.md explains it):\n")
		f.PrintDefaults()
		fmt.Fprintf(stderr, "Rows:\n")
		for _, r := range bench.Rows(o.sizes) {
			fmt.Fprintf(stderr, "  %-18s %s\n", r.Name, r.Title)
		}
	}
	if err := f.Parse(args); err != nil {
		return err
	}
	switch {
	case f.NArg() > 0:
		return fmt.Errorf("%q is no flag", f.Arg(0))
	case o.rounds < 1:
		return fmt.Errorf("--rounds is %d; it must be 1 or more", o.rounds)
	case !(o.sizes.Scale > 0) || o.sizes.Requests < 4 || o.sizes.Prompts < 1:
		return errors.New("--scale must be above 0, --requests 4 or more, --prompts 1 or more")
	}
	return nil
}

// chosen are the rows that --rows names, in the tables' order.
func chosen(all []bench.Row, names string) ([]bench.Row, error) {
	if names == "" {
		return all, nil
	}
	var out []bench.Row
	wanted := strings.Split(names, ",")
	matches := func(name, pattern string) bool {
		prefix, star := strings.CutSuffix(pattern, "*")
		return name == pattern || star && strings.HasPrefix(name, prefix)
	}
	for _, w := range wanted {
		if !slices.ContainsFunc(all, func(r bench.Row) bool { return matches(r.Name, w) }) {
			return nil, fmt.Errorf("--rows names %q, which is no row; see --help", w)
		}
	}
	for _, r := range all {
		if slices.ContainsFunc(wanted, func(w string) bool { return matches(r.Name, w) }) {
			out = append(out, r)
		}
	}
	return out, nil
}

// tools are the load generators asked for.
func (o *options) tools() ([]bench.Tool, error) {
	var out []bench.Tool
	if o.clients == "" {
		out = append(out, bench.Tool{Name: "prefire", Kind: bench.Prefire, Path: o.prefire})
	} else {
		for _, c := range strings.Split(o.clients, ",") {
			out = append(out, bench.Tool{Name: "prefire " + c, Kind: bench.Prefire, Path: o.prefire, Client: c})
		}
	}
	for _, name := range strings.Split(o.peers, ",") {
		t := bench.Tool{Name: name, Kind: name}
		switch name {
		case "":
			continue
		case bench.AIPerf:
			t.Path, t.TokenizerCache = o.aiperf, o.tokenizerCache
		case bench.VLLMBench:
			t.Path = o.vllm
		default:
			return nil, fmt.Errorf("--peers names %q; it may name aiperf and vllm-bench", name)
		}
		path, err := exec.LookPath(t.Path)
		if err != nil {
			if path, err = exec.LookPath(name); err != nil {
				return nil, fmt.Errorf("%s is neither at %s nor in the PATH; name it with --%s", name, t.Path, name)
			}
		}
		t.Path = path
		out = append(out, t)
	}
	return out, nil
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var o options
	if err := o.parse(args, stderr); err != nil {
		return err
	}
	if o.makePrompts > 0 {
		return makePrompts(ctx, o.makePrompts, o.makePromptsSize)
	}
	rows, err := chosen(bench.Rows(o.sizes), o.rows)
	if err != nil {
		return err
	}
	if o.doc != "" {
		text, err := os.ReadFile(o.doc)
		if err != nil {
			return err
		}
		if _, ok := bench.Insert(string(text), ""); !ok {
			return fmt.Errorf("%s has no place for the tables: it needs the lines %q and %q", o.doc, bench.BeginMark, bench.EndMark)
		}
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	if o.prefire == "" {
		o.prefire = filepath.Join(o.out, "prefire")
		build := exec.CommandContext(ctx, "go", "build", "-o", o.prefire, "prefire/cmd/prefire")
		if text, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("prefire cannot be built: %w\n%s", err, text)
		}
	}
	if o.prefire, err = filepath.Abs(o.prefire); err != nil {
		return err
	}
	tools, err := o.tools()
	if err != nil {
		return err
	}
	m := &measurement{options: o, tools: tools, clock: newClock(), said: stderr}
	failed := m.rowsOf(ctx, rows) // what was measured before is worth keeping
	tables := m.tables(rows, strings.Join(append([]string{"go run ./cmd/bench"}, args...), " "))
	if err := m.write(tables); err != nil {
		return errors.Join(failed, err)
	}
	fmt.Fprint(stdout, tables)
	return failed
}

// measurement is one use of the command.
type measurement struct {
	options
	tools    []bench.Tool
	clock    *clock
	said     io.Writer
	rounds   []bench.Round
	control  bench.Control // the last
	realTime bool
}

// rowsOf runs all rows.
func (m *measurement) rowsOf(ctx context.Context, rows []bench.Row) (err error) {
	if m.control, err = bench.RunControl(ctx, m.clock, m.sizes.Control()); err != nil {
		return err
	}
	for i := range rows {
		kept := 0
		for n := 1; n <= 2*m.options.rounds && kept < m.options.rounds; n++ {
			r, err := m.round(ctx, &rows[i], n)
			m.rounds = append(m.rounds, r)
			if err != nil {
				return err
			}
			if r.Thrown == "" {
				kept++
			} else {
				fmt.Fprintf(m.said, "bench: %s, round %d is thrown away: %s\n", r.Row, n, r.Thrown)
			}
		}
	}
	return nil
}

// round runs every tool once in every scenario of a row. A tool that fails is a result; an error is of the measurement itself.
func (m *measurement) round(ctx context.Context, row *bench.Row, n int) (r bench.Round, err error) {
	r = bench.Round{Row: row.Name, Number: n, Before: m.control}
	for _, i := range bench.Order(len(m.tools), n) {
		runs, err := m.tool(ctx, row, &m.tools[i], n)
		r.Runs = append(r.Runs, runs...)
		if err != nil {
			r.Thrown = err.Error()
			return r, err
		}
	}
	m.control, err = bench.RunControl(ctx, m.clock, m.sizes.Control())
	r.After = m.control
	if err != nil {
		r.Thrown = err.Error()
		return r, err
	}
	r.Judge(m.stallLimit)
	return r, nil
}

func (m *measurement) tool(ctx context.Context, row *bench.Row, t *bench.Tool, round int) (runs []bench.Run, err error) {
	for i := range row.Scenarios {
		if t.Supports(&row.Scenarios[i]) != "" {
			return nil, nil
		}
	}
	one := func(r bench.Run, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		r.Row, r.Round, r.Tool = row.Name, round, t.Name
		if err != nil {
			r.Error = err.Error()
		}
		runs = append(runs, r)
		fmt.Fprintf(m.said, "bench: %s, round %d, %s %s: %d ok, %d failed, CPU %.2f s, %.2f s, peak %.0f MiB %s\n",
			row.Name, round, t.Name, r.Scenario, r.OK+r.Prompts, r.Failed, r.CPU, r.Wall, r.PeakRSS, r.Error)
		return nil
	}
	if row.Prompts > 0 {
		file, args := t.Path, t.PromptsCommand(row.Prompts, row.ISL)
		switch t.Kind {
		case bench.AIPerf:
			return nil, nil
		case bench.Prefire:
			if file, err = os.Executable(); err != nil {
				return nil, err
			}
			args = []string{"--make-prompts", fmt.Sprint(row.Prompts), "--isl", fmt.Sprint(row.ISL)}
		}
		r, err := m.watched(ctx, file, args, nil)
		r.Prompts = row.Prompts
		return runs, errors.Join(one(r, err))
	}
	for i := range row.Scenarios {
		if err := one(m.load(ctx, t, &row.Scenarios[i])); err != nil {
			return runs, err
		}
		if runs[len(runs)-1].Error != "" {
			break
		}
	}
	return runs, nil
}

// load runs a tool against a server of its own.
func (m *measurement) load(ctx context.Context, t *bench.Tool, s *bench.Scenario) (r bench.Run, err error) {
	dir, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	logFile := filepath.Join(dir, "log.jsonl")
	server, err := startServer(ctx, m.serverCPUs, m.prefire, s.ServerArgs(logFile))
	if err != nil {
		return r, err
	}
	args, env := t.Command(s, server.url, filepath.Join(dir, "run"))
	r, err = m.watched(ctx, t.Path, args, env)
	server.stop()
	r.Scenario, r.Tokens = s.Name, s.OSL
	if err != nil {
		return r, err
	}
	measured, err := m.report(&r, t, filepath.Join(dir, "run", t.Report()))
	if err != nil || !s.Log {
		return r, err
	}
	f, err := os.Open(logFile)
	if err != nil {
		return r, err
	}
	log, first, err := bench.ReadLog(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return r, err
	}
	if first > 0 {
		r.First = float64(first-r.Began) / 1e9
	}
	c := bench.Compare(measured, log)
	r.Comparison = &c
	return r, nil
}

// report reads what a tool wrote of its requests.
func (m *measurement) report(r *bench.Run, t *bench.Tool, path string) (measured []bench.Measured, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s wrote no requests: %w", t.Name, err)
	}
	if t.Kind == bench.VLLMBench {
		measured, r.Failed, err = bench.ReadVLLMBench(f, bench.IDPrefix)
	} else {
		measured, r.Failed, err = bench.ReadRecords(f)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	r.OK = len(measured)
	if r.OK == 0 {
		return nil, fmt.Errorf("none of its requests succeeded, %d failed", r.Failed)
	}
	return measured, nil
}

// tables are all rows' tables under their heading.
func (m *measurement) tables(rows []bench.Row, command string) string {
	h := machine()
	h.Command, h.ClientCPUs, h.ServerCPUs, h.Versions = command, m.clientCPUs, m.serverCPUs, map[string]string{}
	h.RealTime, h.StallLimit = m.realTime, m.stallLimit
	h.Date = m.clock.Wall(m.clock.Now()).UTC().Format("2006-01-02")
	for i := range m.tools {
		h.ToolsInOrder = append(h.ToolsInOrder, m.tools[i].Name)
		h.Versions[m.tools[i].Name] = versionOf(&m.tools[i])
	}
	var perChunk []float64
	for i := range m.rounds {
		r := &m.rounds[i]
		if r.Thrown == "" {
			h.RoundsKept++
			perChunk = append(perChunk, r.Before.CPUPerChunk, r.After.CPUPerChunk)
			continue
		}
		h.RoundsThrown++
		h.ThrownBecause = append(h.ThrownBecause, fmt.Sprintf("%s round %d: %s", r.Row, r.Number, r.Thrown))
	}
	h.ControlPerChunk = bench.SpreadOf(perChunk)
	text := h.Heading()
	for i := range rows {
		text += "\n" + bench.Markdown(&rows[i], m.tools, bench.Summarize(&rows[i], m.tools, m.rounds))
	}
	return text
}

// write keeps the rounds and the tables.
func (m *measurement) write(tables string) error {
	text, err := json.MarshalIndent(m.rounds, "", " ")
	if err != nil {
		return err
	}
	err = errors.Join(os.WriteFile(filepath.Join(m.out, "rounds.json"), append(text, '\n'), 0o644),
		os.WriteFile(filepath.Join(m.out, "tables.md"), []byte(tables), 0o644))
	if m.doc == "" || err != nil {
		return err
	}
	document, err := os.ReadFile(m.doc)
	if err != nil {
		return err
	}
	changed, _ := bench.Insert(string(document), tables) // that it has the marks was checked before
	return os.WriteFile(m.doc, []byte(changed), 0o644)
}

// versionOf asks a tool.
func versionOf(t *bench.Tool) string {
	text, err := exec.Command(t.Path, "--version").Output()
	if err != nil {
		return "(version unknown)"
	}
	words := strings.Fields(string(text))
	if len(words) == 0 {
		return "(version unknown)"
	}
	return words[len(words)-1]
}

// machine reads what the system says of itself.
func machine() bench.Machine {
	h := bench.Machine{Cores: runtime.NumCPU(), Go: runtime.Version(), CPU: "unknown CPU", Kernel: "unknown"}
	if text, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		h.Kernel = strings.TrimSpace(string(text))
	}
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if name, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				h.CPU = strings.TrimSpace(v)
				break
			}
		}
	}
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		h.MemoryGiB = kilobytes(string(text), "MemTotal") / (1 << 20)
	}
	return h
}
