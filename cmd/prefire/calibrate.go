package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"prefire/internal/config"
)

const (
	// calibrationBudget bounds the search: no step begins that would end after it.
	calibrationBudget = 57 * time.Second
	// stepOverhead is what a step takes beside its load: connections, prewarm, files.
	stepOverhead = time.Second
	// serverAnswers is how long the server may take to say that it is there.
	serverAnswers = 5 * time.Second
	// calibrationMost is where the search ends by itself: each stream takes a port and a descriptor in both processes.
	calibrationMost                           = 8192
	calibrationStepLeast, calibrationStepMost = 2*calibrationEdge + time.Second, 20 * time.Second
)

type calibrateFlags struct {
	client, url, store string
	most               int
	step               time.Duration
	json               bool
}

func calibrateCommand(p process) *cobra.Command {
	var o calibrateFlags
	cmd := &cobra.Command{
		Use:   "calibrate",
		Short: "Find how many streams prefire carries on this machine",
		Long: fmt.Sprintf(`calibrate finds in under a minute how many streams of %d tokens/s each prefire carries here, with the error bounds of TTFT and ITL, the
lateness of sends and the delay of reads within the limits of the verdicts on the client (docs/trust.md). It runs prefire profile against the
built-in server in another process on the same machine: they share the cores, so the figure is a floor.

It looks for the number by doubling, then by bisecting to 10 %%. Each step is a few seconds of load, its start left out, judged in %d windows, of
which three in four must keep every limit; a step in which some do and some do not is tried again, once.

The figure is kept in the user's cache folder, one for each transport, and prefire profile warns before a run of more streams than that. It
never refuses one.`, calibrationTokens, windowsOfStep),
		Example: `  prefire calibrate
  prefire calibrate --client portable --json
  prefire mock --host 0.0.0.0 --port 8000 ` + strings.Join(calibrationServer(), " ") + ` # on another machine, then
  prefire calibrate --url http://other:8000`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := calibrate(cmd.Context(), p, o); err != nil {
				return complain(p.stderr, err)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.client, "client", "auto", "transport, as for prefire profile: auto, portable, reactor")
	f.StringVar(&o.url, "url", "", "a prefire mock that runs elsewhere, in the place of one that is started here; give it the flags of the example")
	f.BoolVar(&o.json, "json", false, "print JSON in the place of the table")
	f.StringVar(&o.store, "store", "", "file to keep the figure in; "+calibrationNone+" = nowhere (default: $"+calibrationEnv+
		", else prefire/calibration.json in the user's cache folder)")
	f.IntVar(&o.most, "max-streams", calibrationMost, "number of streams at which the search ends")
	f.DurationVar(&o.step, "step", 2*calibrationEdge+2*time.Second, fmt.Sprintf("length of a step's load, %v to %v", calibrationStepLeast, calibrationStepMost))
	return cmd
}

// calibrationServer are the flags of the server that a calibration runs against.
func calibrationServer() []string {
	return []string{"--ttft", calibrationTTFT.String(), "--itl", calibrationITL.String(), "--jitter", strconv.FormatFloat(calibrationJitter, 'g', -1, 64)}
}

func calibrate(ctx context.Context, p process, o calibrateFlags) (err error) {
	switch {
	case o.most < 1:
		return fmt.Errorf("--max-streams is %d; it must be 1 or more", o.most)
	case o.step < calibrationStepLeast || o.step > calibrationStepMost:
		return fmt.Errorf("--step is %v; it must be from %v to %v", o.step, calibrationStepLeast, calibrationStepMost)
	}
	store := o.store
	switch store {
	case "":
		store = calibrationFile(p)
	case calibrationNone:
		store = ""
	}
	url := o.url
	if url == "" {
		server, err := startMock(ctx, p, calibrationServer())
		if err != nil {
			return err
		}
		defer server.stop()
		url = server.url
	}
	dir, err := os.MkdirTemp("", "prefire-calibrate-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	c := &calibrator{process: p, calibrateFlags: o, url: url, dir: dir, clock: newClock()}
	if err := c.run(); err != nil {
		return err
	}
	return c.report(store)
}

// calibrator is one calibration.
type calibrator struct {
	process
	calibrateFlags
	url, dir string
	clock    *realClock
	steps    []step
	client   string // the transport that was used
	search   search
	out      bool // the time was out before the search was
}

// run searches.
func (c *calibrator) run() error {
	c.search = search{most: c.most}
	for {
		n, ok := c.search.next()
		if !ok {
			return nil
		}
		s, err := c.try(n)
		if err != nil {
			return err
		}
		if !s.Held && s.Fit > 0 && c.timeForStep() {
			// Some windows held: the machine may have stalled in the others.
			if s, err = c.try(n); err != nil {
				return err
			}
		}
		c.search.tell(n, s.Held)
		if !c.timeForStep() {
			_, more := c.search.next()
			c.out = more
			return nil
		}
	}
}

func (c *calibrator) timeForStep() bool {
	return time.Duration(c.clock.Now())+c.step+stepOverhead <= calibrationBudget
}

// try runs one step.
func (c *calibrator) try(streams int) (step, error) {
	dir := filepath.Join(c.dir, strconv.Itoa(len(c.steps)))
	args := []string{"--model", "calibration", "--url", c.url, "--streaming", "--tokenizer", "builtin", "--client", c.calibrateFlags.client,
		"--isl", strconv.Itoa(calibrationISL), "--osl", strconv.Itoa(calibrationOSL), "--osl-stddev", strconv.Itoa(calibrationOSLStd),
		"--concurrency", strconv.Itoa(streams), "--benchmark-duration", strconv.FormatFloat(c.step.Seconds(), 'g', -1, 64),
		"--benchmark-grace-period", "0", "--ui", "none", "--no-gpu-telemetry", "--no-server-metrics", "--artifact-dir", dir}
	cfg, err := config.Parse(args, c.env, os.ReadFile)
	if err != nil {
		return step{}, err
	}
	cfg.Notices = nil
	quiet := c.process
	quiet.stderr, quiet.cacheDir = io.Discard, nil // a calibration is not held against an older one
	quiet.env = func(name string) (string, bool) {
		if name == calibrationEnv {
			return "", false
		}
		return c.env(name)
	}
	out, err := benchmark(quiet, cfg, config.CommandLine(c.name(), "profile", args))
	code := exitError(0)
	switch {
	case errors.Is(err, errStopped):
		return step{}, errCalibrationStopped
	case errors.As(err, &code), err != nil && len(c.steps) == 0:
		return step{}, err
	case err != nil:
		// More descriptors or ports than there are: that is a limit too. A server that has ended is none: Ctrl-C at a terminal ends it first.
		if gone := c.answers(); gone != nil {
			return step{}, errors.Join(err, gone)
		}
		s := step{Streams: streams, Windows: windowsOfStep, Limits: []limit{limitErrors}, Error: err.Error()}
		c.add(s)
		return s, nil
	case out.code == exitTerminated:
		return step{}, exitError(exitTerminated)
	case out.run.WasCancelled:
		return step{}, errCalibrationStopped
	}
	records, err := readStep(filepath.Join(dir, "profile_export.jsonl"))
	if err := errors.Join(err, os.RemoveAll(dir)); err != nil {
		return step{}, err
	}
	s := judgeStep(streams, records, c.step)
	c.client = out.client
	if u := out.used; u.wall > 0 {
		s.Client, s.Machine = share(u, u.cpu), share(u, u.busy)
	}
	c.add(s)
	return s, nil
}

var errCalibrationStopped = errors.New("stopped before a figure was found")

// answers asks whether the server still does.
func (c *calibrator) answers() error {
	client := http.Client{Timeout: serverAnswers}
	defer client.CloseIdleConnections()
	r, err := client.Get(strings.TrimSuffix(c.url, "/") + "/health")
	if err != nil {
		return fmt.Errorf("the server does not answer any more: %w", err)
	}
	return r.Body.Close()
}

// share is a time as a share of the cores'; nil where it is absent.
func share(u used, r reading[time.Duration]) *float64 {
	if !r.ok {
		return nil
	}
	v := u.ofCores(r.v)
	return &v
}

// add keeps a step, and says on stderr that it is over.
func (c *calibrator) add(s step) {
	c.steps = append(c.steps, s)
	verdict := "held"
	if !s.Held {
		verdict = "not held: " + limits(s.Limits)
	}
	fmt.Fprintf(c.stderr, "%s: %d streams, %d of %d windows within the limits: %s\n", c.name(), s.Streams, s.Fit, s.Windows, verdict)
}

func limits(broken []limit) string {
	names := make([]string, len(broken))
	for i, l := range broken {
		names[i] = string(l)
	}
	return strings.Join(names, ", ")
}

// result is the figure; nil where not one stream held.
func (c *calibrator) result() *calibration {
	if c.search.held == 0 {
		return nil
	}
	f := &calibration{Client: c.client, Streams: c.search.held, AtLeast: c.search.broke == 0, TokensPerSecond: calibrationTokens,
		Version: version(), Cores: runtime.NumCPU(), Date: c.clock.Wall(c.clock.Now()).UTC().Format(time.RFC3339)}
	for i := range c.steps {
		switch s := &c.steps[i]; {
		case s.Held && s.Streams == c.search.held:
			f.TTFTBound, f.ITLBound = s.Figures.TTFTBound, s.Figures.ITLBound
		case !s.Held && s.Streams == c.search.broke:
			f.LimitedBy = s.Limits
		}
	}
	return f
}

// report prints what was found and keeps it.
func (c *calibrator) report(store string) error {
	f := c.result()
	if c.json {
		e := json.NewEncoder(c.stdout)
		e.SetIndent("", "  ")
		if err := e.Encode(struct {
			Calibration *calibration `json:"calibration"` // null where not one stream held
			Upper       int          `json:"not_held,omitempty"`
			Steps       []step       `json:"steps"`
		}{f, c.search.broke, c.steps}); err != nil {
			return err
		}
	} else if err := c.print(f); err != nil {
		return err
	}
	switch {
	case f == nil:
		return errors.New("not even one stream was carried within the limits: this machine is too busy to measure from, or the server is not " +
			"prefire mock with the flags that prefire calibrate --help gives")
	case store == "":
		return nil
	}
	if err := storeCalibration(store, f); err != nil {
		return fmt.Errorf("the figure cannot be kept: %w; choose another file with --store, or --store %s", err, calibrationNone)
	}
	if !c.json {
		fmt.Fprintf(c.stdout, "Kept in %s: prefire profile warns of a plan with more streams.\n", store)
	}
	return nil
}

func (c *calibrator) print(f *calibration) error {
	w := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "streams\twithin\tTTFT bound\tITL bound\tgaps in\tsend late\treceive\ttokens/s\tprefire\tmachine\t")
	fmt.Fprintln(w, "\tlimits\tp99 ms\tp99 ms\tone read\tp99 ms\tp99 ms\ta stream\tCPU\tCPU\t")
	for i := range c.steps {
		s := &c.steps[i]
		fmt.Fprintf(w, "%d\t%d/%d\t", s.Streams, s.Fit, s.Windows)
		if s.Figures == (figures{}) {
			fmt.Fprintln(w, "-\t-\t-\t-\t-\t-\t-\t-\t")
			continue
		}
		g := &s.Figures
		fmt.Fprintf(w, "%.3f\t%.4f\t%.2f %%\t%.2f\t%.2f\t%.1f\t%s\t%s\t\n", g.TTFTBound, g.ITLBound, 100*g.GapsLost, g.SendLate, g.Receive, g.Rate,
			percent(s.Client), percent(s.Machine))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if f == nil {
		return nil
	}
	fmt.Fprintf(c.stdout, "\nThis client (%s) carries %d streams here, at %d tokens/s each: TTFT within %.3f ms and ITL within %.4f ms at p99.\n",
		f.Client, f.Streams, f.TokensPerSecond, f.TTFTBound, f.ITLBound)
	switch {
	case f.AtLeast && c.out:
		fmt.Fprintln(c.stdout, "It may carry more: the time was out before a number that does not hold was found.")
	case f.AtLeast:
		fmt.Fprintln(c.stdout, "It may carry more: the search ended at --max-streams.")
	default:
		fmt.Fprintf(c.stdout, "With %d the limit was: %s%s.\n", c.search.broke, limits(f.LimitedBy), c.busy())
		if c.out {
			fmt.Fprintln(c.stdout, "The time was out before the two were within 10 % of each other.")
		}
	}
	if c.calibrateFlags.url == "" {
		fmt.Fprintf(c.stdout, "The server ran on the same %d cores and took its part of them: the figure is a floor.\n", f.Cores)
	}
	return nil
}

// busyShare of the cores' time is where the cores themselves are the limit.
const busyShare = 0.9

// busy says that the machine's cores were in use, where they were in the first step above the figure.
func (c *calibrator) busy() string {
	for i := range c.steps {
		if s := &c.steps[i]; s.Streams == c.search.broke && s.Machine != nil && *s.Machine >= busyShare {
			return fmt.Sprintf("; CPU: the machine's cores were %s busy, with prefire's own part %s", percent(s.Machine), percent(s.Client))
		}
	}
	return ""
}

func percent(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.0f %%", 100**v)
}

// mockProcess is a `prefire mock` in a process of its own.
type mockProcess struct {
	url  string
	stop func() // ends it, and waits for its end
}

// startMock starts this binary as `prefire mock` and waits until it listens.
func startMock(ctx context.Context, p process, flags []string) (*mockProcess, error) {
	const elsewhere = "start a prefire mock yourself and name it with --url"
	if p.executable == nil {
		return nil, errors.New("the server cannot be started from here: " + elsewhere)
	}
	path, err := p.executable()
	if err != nil {
		return nil, fmt.Errorf("the server cannot be started: %w; %s", err, elsewhere)
	}
	ctx, cancel := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, path)
	cmd.Args = append([]string{"prefire", "mock"}, flags...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 5 * time.Second // then it is killed
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("the server cannot be started: %w; %s", err, elsewhere)
	}
	m := &mockProcess{stop: func() { cancel(); _ = cmd.Wait() }} // that it was interrupted is no news
	line, _ := bufio.NewReader(out).ReadString('\n')             // "" where it ended
	listens, ok := strings.CutPrefix(line, "prefire mock: listening on ")
	if !ok {
		m.stop()
		return nil, fmt.Errorf("the server did not start: %s", strings.TrimSpace(line+said.String()))
	}
	m.url, _, _ = strings.Cut(listens, " ")
	return m, nil
}
