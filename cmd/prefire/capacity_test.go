package main

import (
	"bufio"
	"flag"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"prefire/internal/fakellm"
	"prefire/internal/procedure"
)

var (
	capacitySlots = flag.Int("capacity.slots", 6, "slots of the server whose capacity is searched for")
	capacityStepS = flag.Duration("capacity.step", 500*time.Millisecond, "length of a step of that search")
)

// capacityResult is what the tests read of capacity.json.
type capacityResult struct {
	Finished bool
	Result   procedure.Capacity
	Steps    []struct {
		Dirs    []string `json:"artifact_dirs"`
		Figures procedure.Step
	}
}

func readCapacity(t *testing.T, dir string) (r capacityResult) {
	t.Helper()
	readJSON(t, filepath.Join(dir, "capacity.json"), &r)
	return r
}

// stepsIn are the finished steps in a folder, each with the time at which it was written.
func stepsIn(t *testing.T, dir string) map[string]time.Time {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*", capacityStep))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]time.Time{}
	for _, p := range paths {
		info, err := os.Stat(p)
		if err != nil {
			t.Fatal(err)
		}
		out[p] = info.ModTime()
	}
	return out
}

// A server that refuses what finds no slot carries as many in flight as it has slots. The search is killed in the middle, and goes on to the same
// answer without repeating a step.
func TestCapacityIsFoundAcrossAKill(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIP: -short leaves out what the full step runs")
	}
	s := serve(t, fakellm.Options{TTFT: 30 * time.Millisecond, ITL: 2 * time.Millisecond, Slots: *capacitySlots, Refuse: 429})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "prefire")
	if err := os.Symlink(self, program); err != nil {
		t.Skip("SKIP: this system has no links, by which the test's binary is called prefire: ", err)
	}
	run := filepath.Join(dir, "run")
	args := []string{"capacity", "--model", "m", "--url", s.URL(), "--streaming", "--tokenizer", "builtin", "--isl", "32", "--osl", "8", "--api-key", "sk-capacity-key",
		"--search", "concurrency", "--search-from", strconv.Itoa(*capacitySlots / 2), "--slo", "error_rate<10%", "--benchmark-duration",
		strconv.FormatFloat(capacityStepS.Seconds(), 'g', -1, 64), "--ui", "none", "--no-gpu-telemetry", "--no-server-metrics", "--artifact-dir", run}
	cmd := exec.CommandContext(t.Context(), program, args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for range 2 {
		lines.Scan()
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	before := stepsIn(t, run)
	if len(before) < 2 {
		t.Fatalf("%d steps were finished when the run was killed, want 2", len(before))
	}
	if p := <-start(nil, nil, args...); p.code != exitFailed || !strings.Contains(p.stderr, "--resume "+run) {
		t.Errorf("the same command again ended with %d: %s", p.code, p.stderr)
	}
	if p := <-start(nil, nil, "capacity", "--resume", run); p.code != exitFailed || !strings.Contains(p.stderr, "--api-key") {
		t.Errorf("a resume without the key ended with %d: %s", p.code, p.stderr)
	}
	if p := <-start(nil, nil, "capacity", "--resume", run, "--api-key", "k", "--concurrency", "3,4"); p.code != exitFailed ||
		!strings.Contains(p.stderr, "beside it there may be --ui and the flags whose secrets its files do not hold (--api-key), not --concurrency") {
		t.Errorf("a resume with other loads ended with %d: %s", p.code, p.stderr)
	}
	p := must(t, "capacity", "--resume", run, "--api-key", "sk-capacity-key", "--ui", "none")
	r := readCapacity(t, run)
	if !r.Finished || math.Abs(r.Result.Best-float64(*capacitySlots)) > 1 || !slices.Contains(r.Result.Broken, "error_rate<10%") {
		t.Errorf("%+v, want %d in flight, and no more for errors\n%s", r.Result, *capacitySlots, p.stdout)
	}
	after := stepsIn(t, run)
	for path, at := range before {
		if after[path] != at {
			t.Errorf("%s was finished before the run was killed, and was run again", path)
		}
	}
	files, err := filepath.Glob(filepath.Join(run, "*"))
	if err != nil {
		t.Fatal(err)
	}
	nested, err := filepath.Glob(filepath.Join(run, "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range append(files, nested...) {
		if data, err := os.ReadFile(f); err == nil && strings.Contains(string(data), "sk-capacity-key") {
			t.Errorf("%s holds the API key", f)
		}
	}
	// Gone on with once more, there is nothing left to do.
	n := len(s.Entries())
	must(t, "capacity", "--resume", run, "--api-key", "sk-capacity-key")
	if again := readCapacity(t, run); again.Result.Best != r.Result.Best || len(s.Entries()) != n {
		t.Errorf("resumed at its end the run finds %+v after %d more requests, want %+v and none", again.Result, len(s.Entries())-n, r.Result)
	}
}

// No file of a run holds a secret, in whatever flag and form it was given; all else of the command line is kept.
func TestSecretsOfACapacityRun(t *testing.T) {
	for _, c := range []struct{ args, kept, secret, names string }{
		{"--model m --osl 4", "--model m --osl 4", "", ""},
		{"--api-key K --model m", "--model m", "--api-key K", "--api-key"},
		{"--model m --api_key=K -HAuthorization:Bearer --osl 4", "--model m --osl 4", "--api_key=K -HAuthorization:Bearer", "--api-key --header"},
		{"-H X-Auth:S X-Plain:p --header X-Plain:q --osl 4", "--header X-Plain:q --osl 4", "-H X-Auth:S X-Plain:p", "--header"},
		{"--extra-inputs password:S ignore_eos:true --seed -1", "--seed -1", "--extra-inputs password:S ignore_eos:true", "--extra-inputs"},
	} {
		var r capacityRun
		r.takeSecrets(strings.Fields(c.args))
		if got := [...]string{strings.Join(r.Args, " "), strings.Join(r.extra, " "), strings.Join(r.Secret, " ")}; got != [...]string{c.kept, c.secret, c.names} {
			t.Errorf("%q: %q, want %q, %q, %q", c.args, got, c.kept, c.secret, c.names)
		}
	}
}

// What cannot be a capacity run is refused before any load, and before anything is written.
func TestCapacityRunsThatCannotBe(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ args, says string }{
		{"--concurrency 4", "capacity needs loads to try"},
		{"--concurrency 4,4", "--concurrency: 4 is given twice"},
		{"--concurrency 4,x", `--concurrency: "x" is no number of sessions`},
		{"--concurrency 4,2.5", `--concurrency: "2.5" is no number of sessions`},
		{"--request-rate 0,1", `--request-rate: "0" is no rate`},
		{"--request-rate 1,2000000", "is more than 1,000,000"},
		{"--search users", `--search is "users"; it may be concurrency or rate`},
		{"--search rate --search concurrency", "--search takes one value and is given 2"},
		{"--search concurrency --concurrency 5", "finds it by itself: leave --concurrency out"},
		{"--search rate --search-from 5 --search-to 2", "--search-from is 5, above --search-to, which is 2"},
		{"--concurrency 1,2 --search-to 5", "are for --search"},
		{"--concurrency 1,2 --request-rate 5", "--request-rate has no effect on a number of sessions at once"},
		{"--concurrency 1,2 --request-rate 5,6", "has a list beside the loads to try"},
		{"--concurrency 1,2 --slo ttft_p99<5m", `--slo: "ttft_p99<5m": "m" is no unit`},
		{"--concurrency 1,2 --slo ttft_p99<5ms", "ttft_p99<5ms is a limit on what only streamed answers have: add --streaming"},
		{"--concurrency 1,2 --no-such-flag", "no-such-flag"},
		{"--concurrency 1,2 --ui neon", "neon"},
		{"--concurrency 1,2 --user-centric-rate 5 --num-users 3 --session-turns-mean 2", "has a load of another shape"},
	} {
		args := append(strings.Fields("capacity --model m --url http://127.0.0.1:1 --tokenizer builtin --artifact-dir "+filepath.Join(dir, "run")), strings.Fields(c.args)...)
		if p := <-start(nil, nil, args...); p.code != exitFailed || !strings.Contains(p.stderr, c.says) {
			t.Errorf("%s ended with %d and said %q, want %q", c.args, p.code, p.stderr, c.says)
		}
	}
	if p := <-start(nil, nil, "capacity", "--resume", dir); p.code != exitFailed || !strings.Contains(p.stderr, dir+" holds no capacity run") {
		t.Errorf("a resume of nothing ended with %d: %s", p.code, p.stderr)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v was written, %v", left, err)
	}
	if p := must(t, "capacity", "--help"); !strings.Contains(p.stdout, "a ladder of sessions at once") {
		t.Errorf("the help is\n%s", p.stdout)
	}
}
