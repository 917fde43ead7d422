package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"prefire/internal/export"
	"prefire/internal/procedure"
	"prefire/internal/report"
)

// exitChanged is the exit code of a comparison in which a change that --fail-on names was found.
const exitChanged = 2

type compareFlags struct {
	json, markdown bool
	report         string
	failOn         []string
}

func compareCommand(p process) *cobra.Command {
	var o compareFlags
	cmd := &cobra.Command{
		Use:   "compare A B",
		Short: "Say what is different between two runs, and what is chance",
		Long: `compare holds the results in folder B against those in folder A, of prefire or of aiperf (0.9 to 0.13). Folders with several runs are paired
by their paths within. For each metric it gives the change of the average with a 95 % interval, and a verdict: better, worse, no difference, or
not comparable, with the reason: other load, other lengths, another share of cold requests or of failed ones, requests that hung until they were
cut (which count as failed ones), or a client that was the limit in one of them. Where the error rates differ, that comes first, and the verdicts on the others say of which share of the requests they are.

The intervals come from the records by a moving block bootstrap, since requests that ran side by side are alike; what the lengths of the prompts
explain is taken out of the averages; Holm's procedure keeps the chance of any false verdict over all metrics of a pair at 5 %. Cold requests
are left out of latencies on both sides. Percentiles have intervals of their own, without a verdict.

--fail-on METRIC.STATISTIC>+N% (or <-N%) makes compare end with exit code 2 where a change is larger than that and its interval holds no 0, so
that chance is no failure; it ends with 1 where that cannot be judged. An error rate's change is in percentage points.`,
		Example: `  prefire compare results/before results/after
  prefire compare old new --fail-on 'time_to_first_token.p99>+5%' --fail-on 'request_throughput<-3%' --markdown > change.md`,
		Args: cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, dirs []string) error {
			code, err := unlessStopped(p, errors.New("stopped before the end"), func() (exitError, error) { return compareRuns(p, o, dirs) })
			if err != nil {
				return complain(p.stderr, err)
			}
			if code != exitOK {
				return code
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringArrayVar(&o.failOn, "fail-on", nil, "a change that must not be, as time_to_first_token.p99>+5%; may be given several times")
	f.BoolVar(&o.json, "json", false, "print JSON in the place of the tables")
	f.BoolVar(&o.markdown, "markdown", false, "print Markdown in the place of the tables")
	f.StringVar(&o.report, "report", "", "file for an HTML page with the tables, the changes with their intervals, both distributions, and both runs")
	cmd.MarkFlagsMutuallyExclusive("json", "markdown")
	return cmd
}

// comparedPair is two runs and what their comparison found.
type comparedPair struct {
	records [2]string // of both runs, within their folders
	name    string    // the path that both have within their folders; "" = each is the only run of its folder
	a, b    string    // their folders
	metrics []procedure.Compared
	checks  []failCheck
}

// failCheck is what came of one --fail-on.
type failCheck struct {
	Limit  string `json:"fail_on"`
	Broken bool   `json:"broken"`
	Why    string `json:"not_judged_because,omitempty"`
}

func compareRuns(p process, o compareFlags, dirs []string) (exitError, error) {
	var limits []procedure.FailOn
	options := procedure.CompareOptions{Percentiles: []float64{50, 90, 99}, Seed: 1}
	for _, text := range o.failOn {
		f, err := procedure.ParseFailOn(text)
		if err != nil {
			return 0, fmt.Errorf("--fail-on: %w", err)
		}
		limits = append(limits, f)
		if f.Percentile > 0 && !slices.Contains(options.Percentiles, f.Percentile) {
			options.Percentiles = append(options.Percentiles, f.Percentile)
		}
	}
	pairs, alone, err := pairRuns(dirs[0], dirs[1])
	if err != nil {
		return 0, err
	}
	for _, name := range alone {
		fmt.Fprintf(p.stderr, "%s: %s has no counterpart and is left out\n", p.name(), name)
	}
	code := exitError(exitOK)
	compared := make([]comparedPair, len(pairs))
	for i, pair := range pairs {
		c := &compared[i]
		if *c, err = comparePair(dirs, pair, options); err != nil {
			return 0, err
		}
		for _, f := range limits {
			broken, why := f.Broken(c.metrics)
			c.checks = append(c.checks, failCheck{f.Text, broken, why})
			switch {
			case broken:
				code = exitChanged
			case why != "" && code == exitOK:
				code = exitFailed
			}
		}
	}
	if o.report != "" {
		if err := writeComparedReport(o.report, dirs, compared); err != nil {
			return 0, err
		}
	}
	switch {
	case o.json:
		err = printComparedJSON(p.stdout, compared)
	case o.markdown:
		err = printComparedMarkdown(p.stdout, compared)
	default:
		err = printCompared(p.stdout, compared)
		if o.report != "" && err == nil {
			fmt.Fprintf(p.stdout, "\nReport: %s\n", o.report)
		}
	}
	return code, err
}

// pairRuns finds the runs of both folders: one each, or those with the same path within.
func pairRuns(a, b string) (pairs [][2]procedure.Artifacts, alone []string, err error) {
	var found [2][]procedure.Artifacts
	for i, dir := range [...]string{a, b} {
		info, err := os.Stat(dir)
		switch {
		case err != nil:
			return nil, nil, fmt.Errorf("%s cannot be read: %w", dir, err)
		case !info.IsDir():
			return nil, nil, fmt.Errorf("%s is a file: name the folder that it is in", dir)
		}
		if found[i], err = procedure.FindArtifacts(os.DirFS(dir)); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", dir, err)
		}
		if len(found[i]) == 0 {
			return nil, nil, fmt.Errorf("%s holds no results: there is no profile_export.jsonl in it or below it", dir)
		}
	}
	if len(found[0]) == 1 && len(found[1]) == 1 {
		return [][2]procedure.Artifacts{{found[0][0], found[1][0]}}, nil, nil
	}
	for _, x := range found[0] {
		i := slices.IndexFunc(found[1], func(y procedure.Artifacts) bool { return y.Records == x.Records })
		if i < 0 {
			alone = append(alone, filepath.Join(a, x.Records))
			continue
		}
		pairs = append(pairs, [2]procedure.Artifacts{x, found[1][i]})
	}
	for _, y := range found[1] {
		if !slices.ContainsFunc(found[0], func(x procedure.Artifacts) bool { return x.Records == y.Records }) {
			alone = append(alone, filepath.Join(b, y.Records))
		}
	}
	if len(pairs) == 0 {
		return nil, nil, fmt.Errorf("no run of %s has the path of one of %s within its folder: name the folders of two runs", a, b)
	}
	return pairs, alone, nil
}

func comparePair(dirs []string, pair [2]procedure.Artifacts, o procedure.CompareOptions) (comparedPair, error) {
	var c comparedPair
	var sides [2]procedure.Side
	for i, dir := range dirs {
		side, err := readSide(os.DirFS(dir), pair[i])
		if err != nil {
			return c, fmt.Errorf("%s: %w", filepath.Join(dir, pair[i].Records), err)
		}
		sides[i] = side
	}
	c.a, c.b = filepath.Join(dirs[0], path.Dir(pair[0].Records)), filepath.Join(dirs[1], path.Dir(pair[1].Records))
	if pair[0].Records == pair[1].Records {
		c.name = path.Dir(pair[0].Records)
	}
	c.records = [2]string{pair[0].Records, pair[1].Records}
	c.metrics = procedure.Compare(sides[0], sides[1], o)
	return c, nil
}

// readSide reads a run's records, and from its summary what it says of its load and its client.
func readSide(fsys fs.FS, a procedure.Artifacts) (s procedure.Side, err error) {
	f, err := fsys.Open(a.Records)
	if err != nil {
		return s, err
	}
	defer closeInto(&err, f)
	var censored io.Reader // none where no request was cut, and of aiperf never
	switch cut, failed := fsys.Open(strings.TrimSuffix(a.Records, ".jsonl") + "_censored.jsonl"); {
	case failed == nil:
		defer closeInto(&err, cut)
		censored = cut
	case !errors.Is(failed, fs.ErrNotExist):
		return s, failed
	}
	if s.Requests, err = procedure.ReadStepRequests(f, censored, procedure.CompareTags()); err != nil || a.Summary == "" {
		return s, err
	}
	data, err := fs.ReadFile(fsys, a.Summary)
	if err != nil {
		return s, err
	}
	var summary struct {
		Config struct {
			Phases []struct {
				Kind        string   `json:"kind"`
				Type        string   `json:"type"`
				Concurrency *float64 `json:"concurrency"`
				Rate        *float64 `json:"rate"`
				Users       *float64 `json:"users"`
			} `json:"phases"`
		} `json:"input_config"`
		Prefire struct {
			Client struct {
				Verdicts []struct {
					Claim string `json:"claim"`
					Good  bool   `json:"good"`
				} `json:"verdicts"`
			} `json:"client"`
		} `json:"prefire"`
	}
	if json.Unmarshal(data, &summary) != nil {
		return s, nil // what a summary of another version says of these is not known
	}
	var loads []string
	for _, ph := range summary.Config.Phases {
		if ph.Kind == "warmup" {
			continue
		}
		load := []string{ph.Type}
		for _, figure := range [...]struct {
			name string
			v    *float64
		}{{"concurrency", ph.Concurrency}, {"rate", ph.Rate}, {"users", ph.Users}} {
			if figure.v != nil {
				load = append(load, fmt.Sprintf("%s %g", figure.name, *figure.v))
			}
		}
		loads = append(loads, strings.TrimPrefix(strings.Join(load, " "), "concurrency "))
	}
	s.Load = strings.Join(loads, ", ")
	for _, v := range summary.Prefire.Client.Verdicts {
		if !v.Good {
			s.Unfit = append(s.Unfit, v.Claim)
		}
	}
	return s, nil
}

// overall is a pair's verdict over all its metrics.
func (c *comparedPair) overall() string {
	n := map[procedure.Outcome]int{}
	for i := range c.metrics {
		n[c.metrics[i].Outcome]++
	}
	switch {
	case n[procedure.Better] > 0 && n[procedure.Worse] > 0:
		return "better and worse"
	case n[procedure.Worse] > 0:
		return string(procedure.Worse)
	case n[procedure.Better] > 0:
		return string(procedure.Better)
	case n[procedure.NoDifference] > 0:
		return string(procedure.NoDifference)
	}
	return string(procedure.NotComparable)
}

// writeComparedReport makes the page of a comparison.
func writeComparedReport(file string, dirs []string, pairs []comparedPair) error {
	list := make([]report.Comparison, len(pairs))
	for i := range pairs {
		c := &pairs[i]
		rows, notes := c.rows(), append(c.reasons(), c.said()...)
		if line := c.errors(); line != "" {
			notes = slices.Insert(notes, 0, line)
		}
		list[i] = report.Comparison{Name: c.name, Records: c.records, Verdict: c.overall(), Notes: notes, Metrics: c.metrics, Head: rows[0], Rows: rows[1:]}
	}
	o := report.Options{Name: fmt.Sprintf("%s (B) against %s (A)", dirs[1], dirs[0]), Version: version()}
	to := export.Dir{FS: export.Disk{}, Path: filepath.Dir(file)}
	err := to.Write(filepath.Base(file), 0o644, func(w io.Writer) error { return report.Compare(w, o, os.DirFS(dirs[0]), os.DirFS(dirs[1]), list) })
	if err != nil {
		return fmt.Errorf("--report %s: %w", file, err)
	}
	return nil
}

// comparedFields is a pair in JSON.
func (c *comparedPair) fields() export.Object {
	o := export.Object{{Key: "a", Value: c.a}, {Key: "b", Value: c.b}, {Key: "verdict", Value: c.overall()}}
	if len(c.checks) > 0 {
		o = append(o, export.Field{Key: "checks", Value: value(c.checks)})
	}
	return append(o, export.Field{Key: "metrics", Value: value(c.metrics)})
}
