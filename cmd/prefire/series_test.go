package main

import (
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"prefire/internal/config"
	"prefire/internal/fakellm"
	"prefire/internal/sweep"
)

// filesBelow are the files below a folder, without those of each phase.
func filesBelow(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if !strings.Contains(filepath.ToSlash(name), "/phases/") {
			out = append(out, filepath.ToSlash(name))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// runFiles are the files of one run.
func runFiles(folder string, more ...string) []string {
	var out []string
	for _, name := range append(more, ".aiperf_results_ready.json", "inputs.json", "logs/aiperf.log", "profile_export.hlog", "profile_export.jsonl", "profile_export_aiperf.csv",
		"profile_export_aiperf.json", "profile_export_console.txt") {
		out = append(out, folder+"/"+name)
	}
	return out
}

func aggregateFiles(folder string) []string {
	return []string{folder + "/profile_export_aiperf_aggregate.csv", folder + "/profile_export_aiperf_aggregate.json"}
}

// runPlace is what the tests read of a run's run_info.
type runPlace struct {
	TTFT    metric `json:"time_to_first_token"`
	RunInfo struct {
		SweepID   string `json:"sweep_id"`
		Seed      uint64 `json:"random_seed"`
		Trial     int
		Label     string `json:"run_label"`
		Variation string `json:"variation_label"`
		Index     int    `json:"variation_index"`
		Values    map[string]any
	} `json:"run_info"`
	Warmup map[string]any `json:"warmup_metrics"`
}

func placeOf(t *testing.T, dir string) (p runPlace) {
	t.Helper()
	readJSON(t, filepath.Join(dir, "profile_export_aiperf.json"), &p)
	return p
}

// aggregate is what the tests read of an aggregate.
type aggregate struct {
	Metadata struct {
		Runs       int      `json:"num_profile_runs"`
		Successful int      `json:"num_successful_runs"`
		Labels     []string `json:"run_labels"`
		Failed     []struct{ Label, Error string }
	}
	Metrics map[string]struct{ Mean, Min, Max float64 }
}

// A sweep with repeats leaves aiperf's folders and files; each run has a seed and prompts of its own, all from one seed; warm-up comes once a
// variation; the aggregates are of the runs' own figures.
func TestASweepWithRepeats(t *testing.T) {
	s, dir := serve(t, fakellm.Options{}), t.TempDir()
	p := must(t, profileArgs(s.URL(), dir, "--request-count", "5", "--concurrency", "1,2", "--num-profile-runs", "2", "--warmup-request-count", "2", "--report")...)
	var want []string
	for _, c := range []string{"concurrency_1", "concurrency_2"} {
		want = append(want, aggregateFiles("aggregate/"+c)...)
		want = append(want, runFiles("profile_runs/trial_0001/"+c, "phase_manifest.json")...)
		want = append(want, runFiles("profile_runs/trial_0002/"+c)...)
	}
	// --report makes one page, of all runs.
	want = append(want, "aggregate/sweep_aggregate/profile_export_aiperf_sweep.csv", "aggregate/sweep_aggregate/profile_export_aiperf_sweep.json", reportFile)
	slices.Sort(want)
	got := filesBelow(t, dir)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("files\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	page, err := os.ReadFile(filepath.Join(dir, reportFile))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "all 4 count.") || strings.Count(string(page), "<article") != 4 || !strings.Contains(p.stdout, "Report: "+filepath.Join(dir, reportFile)) {
		t.Errorf("the page of the series has %d runs", strings.Count(string(page), "<article"))
	}
	seeds, prompts, ids := map[uint64]bool{}, map[string]bool{}, map[string]bool{}
	requests := 0
	for i, c := range []string{"concurrency_1", "concurrency_2"} {
		var means []float64
		for trial, label := range []string{"run_0001", "run_0002"} {
			folder := filepath.Join(dir, "profile_runs", []string{"trial_0001", "trial_0002"}[trial], c)
			at := placeOf(t, folder)
			means = append(means, at.TTFT.Avg)
			info := at.RunInfo
			seeds[info.Seed], ids[info.SweepID] = true, true
			if info.Trial != trial || info.Label != label || info.Index != i || info.Variation != "phases.profiling.concurrency="+c[len(c)-1:] || (at.Warmup != nil) != (trial == 0) {
				t.Errorf("%s says %+v; warm-up %v", folder, info, at.Warmup != nil)
			}
			records := readRecords(t, folder)
			for _, e := range inferences(s, records) {
				prompts[e.PromptSHA256] = true
				requests++
			}
			if n := 5 + 2*(1-trial); len(records) != n {
				t.Errorf("%s: %d records; want %d", folder, len(records), n)
			}
		}
		var a aggregate
		readJSON(t, filepath.Join(dir, "aggregate", c, "profile_export_aiperf_aggregate.json"), &a)
		m := a.Metrics["time_to_first_token_avg"]
		if want := (means[0] + means[1]) / 2; a.Metadata.Runs != 2 || a.Metadata.Successful != 2 || math.Abs(m.Mean-want) > 1e-9*want || m.Max != max(means[0], means[1]) {
			t.Errorf("%s: %+v of %v", c, m, means)
		}
	}
	if len(seeds) != 4 || len(ids) != 1 || len(prompts) != requests || requests != 24 {
		t.Errorf("%d seeds, %d ids of a sweep, %d prompts in %d requests; want 4, 1, 24 in 24", len(seeds), len(ids), len(prompts), requests)
	}
	for _, line := range []string{"run 3 of 4: concurrency=1, run_0002"} {
		if !strings.Contains(p.stderr, line) {
			t.Errorf("stderr lacks %q:\n%s", line, p.stderr)
		}
	}
	if !strings.Contains(p.stdout, "Best throughput: concurrency=") {
		t.Errorf("the screen has no best:\n%s", p.stdout)
	}
}

// Under --set-consistent-seed the repeats send the same, from aiperf's seed; in independent order they are below their variation.
func TestConsistentRepeatsSendTheSame(t *testing.T) {
	s, dir := serve(t, fakellm.Options{}), t.TempDir()
	must(t, profileArgs(s.URL(), dir, "--request-count", "3,4", "--num-profile-runs", "2", "--set-consistent-seed", "--parameter-sweep-mode", "independent")...)
	for i, folder := range []string{"requests_3", "requests_4"} {
		first, second := filepath.Join(dir, folder, "profile_runs", "trial_0001"), filepath.Join(dir, folder, "profile_runs", "trial_0002")
		a, b := promptsOf(t, s, first), promptsOf(t, s, second)
		if len(a) != 3+i || !slices.Equal(a, b) {
			t.Errorf("%s: the repeats sent %d and %d prompts, not the same", folder, len(a), len(b))
		}
		for _, at := range []string{first, second} {
			if seed := placeOf(t, at).RunInfo.Seed; seed != 42+uint64(i) {
				t.Errorf("%s has the seed %d; want %d", at, seed, 42+i)
			}
		}
		if _, err := os.Stat(filepath.Join(dir, folder, "aggregate", "profile_export_aiperf_aggregate.csv")); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "sweep_aggregate", "profile_export_aiperf_sweep.json")); err != nil {
		t.Error(err)
	}
}

// promptsOf are the prompts that a run sent, in the order of their hashes.
func promptsOf(t *testing.T, s *fakellm.Server, folder string) []string {
	t.Helper()
	var out []string
	for _, e := range inferences(s, readRecords(t, folder)) {
		out = append(out, e.PromptSHA256)
	}
	slices.Sort(out)
	return out
}

// A variation that cannot run does not end the sweep. Two that can are enough for its files; with one there are none, and the sweep fails.
func TestAVariationThatFails(t *testing.T) {
	s := serve(t, fakellm.Options{MaxModelLen: 200})
	args := func(dir, isl string) []string {
		return []string{"profile", "--model", "m", "--url", s.URL(), "--streaming", "--tokenizer", "builtin", "--isl", isl, "--osl", "4", "--request-count", "3", "--ui", "none",
			"--no-gpu-telemetry", "--no-server-metrics", "--artifact-dir", dir}
	}
	dir := t.TempDir()
	p := must(t, args(dir, "20,500,30")...)
	var sum struct {
		Runs   int                                   `json:"num_profile_runs"`
		OK     int                                   `json:"num_successful_runs"`
		Failed []struct{ Label, Error string }       `json:"failed_runs"`
		Cells  []struct{ Parameters map[string]any } `json:"per_combination_metrics"`
	}
	readJSON(t, filepath.Join(dir, "sweep_aggregate", "profile_export_aiperf_sweep.json"), &sum)
	if sum.Runs != 3 || sum.OK != 2 || len(sum.Failed) != 1 || !strings.Contains(sum.Failed[0].Error, "500") || len(sum.Cells) != 2 || sum.Cells[1].Parameters["mean"] != 30.0 {
		t.Errorf("%+v", sum)
	}
	if !strings.Contains(p.stderr, "mean=500 does not count: ") {
		t.Errorf("stderr does not say which run failed:\n%s", p.stderr)
	}
	dir = t.TempDir()
	p = <-start(nil, nil, args(dir, "20,500,600")...)
	if _, err := os.Stat(filepath.Join(dir, "sweep_aggregate")); p.code != exitFailed || !os.IsNotExist(err) || !strings.Contains(p.stderr, "At least 2 successful variations are required") {
		t.Errorf("exit %d, %v\n%s", p.code, err, p.stderr)
	}
	if p = <-start(nil, nil, args(t.TempDir(), "500,600")...); p.code != exitFailed || !strings.Contains(p.stderr, "All runs failed") {
		t.Errorf("exit %d\n%s", p.code, p.stderr)
	}
}

// Ctrl-C in a run ends the sweep with that run's own files, marked, and the sweep's files of the runs that were complete; what an earlier sweep
// left there is gone.
func TestCtrlCInASweep(t *testing.T) {
	s, dir := serve(t, fakellm.Options{TTFT: 5 * time.Millisecond}), t.TempDir()
	old := filepath.Join(dir, "aggregate", "requests_1000000", "profile_export_aiperf_aggregate.json")
	if err := os.MkdirAll(filepath.Dir(old), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(old, []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	signals := make(chan os.Signal, 1)
	done := start(signals, nil, profileArgs(s.URL(), dir, "--request-count", "2,3,1000000,4")...)
	if _, err := s.Wait(t.Context(), 40); err != nil { // more than the first two runs and all prewarms take
		t.Fatal(err)
	}
	signals <- os.Interrupt
	p := <-done
	var sum struct {
		Runs    int                                   `json:"num_profile_runs"`
		OK      int                                   `json:"num_successful_runs"`
		Cells   []struct{ Parameters map[string]any } `json:"per_combination_metrics"`
		Prefire struct {
			Stopped bool
			Planned int `json:"runs_planned"`
		}
	}
	readJSON(t, filepath.Join(dir, "sweep_aggregate", "profile_export_aiperf_sweep.json"), &sum)
	if p.code != exitOK || sum.Runs != 3 || sum.OK != 2 || len(sum.Cells) != 2 || !sum.Prefire.Stopped || sum.Prefire.Planned != 4 {
		t.Errorf("exit %d, %+v\n%s", p.code, sum, p.stderr)
	}
	if third := readSummary(t, filepath.Join(dir, "requests_1000000")); !third.WasCancelled || third.Prefire.Counts.OK < 1 {
		t.Errorf("the run that was stopped: %+v", third.Prefire.Counts)
	}
	for _, name := range []string{old, filepath.Join(dir, "requests_4")} {
		if _, err := os.Stat(name); !os.IsNotExist(err) {
			t.Errorf("%s is there: %v", name, err)
		}
	}
}

// Ctrl-C between two runs ends the wait; SIGTERM is remembered for the exit code.
func TestSignalsEndThePauseBetweenRuns(t *testing.T) {
	for signal, want := range map[os.Signal]int{os.Interrupt: exitOK, syscall.SIGTERM: exitTerminated} {
		signals := make(chan os.Signal, 1)
		s := &series{process: process{signals: signals, stderr: io.Discard}, plan: &config.Plan{Cooldown: time.Hour}}
		signals <- signal
		if s.pause(&sweep.Place{}, &sweep.Place{Trial: 1}) || !s.stopped || s.code != want {
			t.Errorf("%v: stopped %t, code %d; want true, %d", signal, s.stopped, s.code, want)
		}
	}
	// Between variations it is the other time, which is none here.
	s := &series{plan: &config.Plan{Cooldown: time.Hour, Layout: sweep.Layout{Swept: true, Runs: 2}}}
	if !s.pause(&sweep.Place{}, &sweep.Place{Variation: 1}) {
		t.Error("the pause between two variations was stopped")
	}
	s = &series{plan: &config.Plan{SweepCooldown: time.Hour, Layout: sweep.Layout{Swept: true, Runs: 2, Order: sweep.Independent}}}
	if !s.pause(&sweep.Place{}, &sweep.Place{Trial: 1}) {
		t.Error("the pause between two repeats was stopped")
	}
}

// Repeats end once the metric is steady, and the requests of all runs are described together.
func TestRepeatsEndWhenTheyConverge(t *testing.T) {
	s, dir := serve(t, fakellm.Options{}), t.TempDir()
	p := must(t, profileArgs(s.URL(), dir, "--request-count", "4", "--num-profile-runs", "5", "--convergence-metric", "input_sequence_length", "--convergence-mode", "cv")...)
	want := slices.Concat(aggregateFiles("aggregate"), []string{"aggregate/profile_export_aiperf_collated.json"}, runFiles("profile_runs/run_0001"), runFiles("profile_runs/run_0002"))
	got := filesBelow(t, dir)
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("files\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	var c struct {
		Metrics map[string]struct {
			Combined struct {
				Mean, P50, P99 float64
				Count          int
			}
			PerRun []struct {
				Label string
				Count int
			} `json:"per_run"`
		}
	}
	readJSON(t, filepath.Join(dir, "aggregate", "profile_export_aiperf_collated.json"), &c)
	m := c.Metrics["input_sequence_length"]
	if m.Combined.Count != 8 || m.Combined.Mean != 64 || m.Combined.P99 != 64 || len(m.PerRun) != 2 || m.PerRun[1].Label != "run_0002" || m.PerRun[1].Count != 4 {
		t.Errorf("the requests of both runs: %+v", m)
	}
	if !strings.Contains(p.stderr, "run_0002: input_sequence_length is steady, no more repeats") || !strings.Contains(p.stdout, "2 of 2 runs count") {
		t.Errorf("%s\n%s", p.stderr, p.stdout)
	}
}

// A metric that no run has does not end the repeats, and is named.
func TestAMetricThatNoRunHas(t *testing.T) {
	s, dir := serve(t, fakellm.Options{}), t.TempDir()
	p := must(t, profileArgs(s.URL(), dir, "--request-count", "2", "--num-profile-runs", "3", "--convergence-metric", "time_to_frist_token", "--no-sweep-table")...)
	if n := strings.Count(p.stderr, "no run has a metric time_to_frist_token"); n != 1 || !strings.Contains(p.stdout, "3 of 3 runs count") {
		t.Errorf("said %d times\n%s", n, p.stderr)
	}
}
