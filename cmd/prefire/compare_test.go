package main

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"prefire/internal/procedure"
)

// writeRun leaves the records of 400 requests with a TTFT of about so many ms in a folder, and a summary, as aiperf does.
func writeRun(t *testing.T, dir string, seed uint64, ttft float64, concurrency int) string {
	return writeFailingRun(t, dir, seed, ttft, concurrency, 0)
}

// writeFailingRun is writeRun with so many of its 400 requests failed.
func writeFailingRun(t *testing.T, dir string, seed uint64, ttft float64, concurrency, failed int) string {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	var b strings.Builder
	for i := range 400 {
		v := ttft * math.Exp(0.1*rng.NormFloat64())
		start := 1_000_000_000 + int64(i)*10_000_000
		if i*failed/400 != (i+1)*failed/400 {
			fmt.Fprintf(&b, `{"metadata":{"benchmark_phase":"profiling","was_cancelled":false,"request_start_ns":%d,"request_end_ns":%d},"metrics":{},"error":{"message":"refused"}}`+"\n",
				start, start+1e6)
			continue
		}
		fmt.Fprintf(&b, `{"metadata":{"benchmark_phase":"profiling","was_cancelled":false,"request_start_ns":%d,"request_end_ns":%d},"metrics":{`+
			`"time_to_first_token":{"value":%v,"unit":"ms"},"input_sequence_length":{"value":100,"unit":"tokens"},"output_sequence_length":{"value":10,"unit":"tokens"}},"error":null}`+"\n",
			start, start+int64(v*1e6), v)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"profile_export.jsonl": b.String(),
		"profile_export_aiperf.json": fmt.Sprintf(`{"input_config":{"phases":[{"kind":"profiling","type":"concurrency","concurrency":%d}]}}`, concurrency)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestCompareCommand(t *testing.T) {
	dir := t.TempDir()
	a, same := writeRun(t, filepath.Join(dir, "a"), 1, 100, 10), writeRun(t, filepath.Join(dir, "same"), 2, 100, 10)
	slow, other := writeRun(t, filepath.Join(dir, "slow"), 3, 110, 10), writeRun(t, filepath.Join(dir, "other"), 4, 100, 20)
	failing, refusing := writeFailingRun(t, filepath.Join(dir, "failing"), 5, 100, 10, 30), writeFailingRun(t, filepath.Join(dir, "refusing"), 6, 100, 10, 80)
	for _, c := range []struct {
		args []string
		code int
		says []string
	}{
		{[]string{a, same}, exitOK, []string{same + " (B) against " + a + " (A): no difference"}},
		{[]string{a, same, "--fail-on", "time_to_first_token.p99>+5%", "--fail-on", "ttft<-5%"}, exitOK, []string{"ttft<-5%: kept"}},
		{[]string{a, slow}, exitOK, []string{"(A): worse"}},
		{[]string{slow, a}, exitOK, []string{"(A): better"}},
		{[]string{a, slow, "--fail-on", "ttft>+5%"}, exitChanged, []string{"ttft>+5%: broken"}},
		{[]string{a, slow, "--fail-on", "ttft.p50>+5%", "--markdown"}, exitChanged, []string{"| time_to_first_token | ms | 10", "- ttft.p50>+5%: broken"}},
		{[]string{a, slow, "--fail-on", "ttft>+30%"}, exitOK, []string{"ttft>+30%: kept"}},
		{[]string{a, other, "--fail-on", "ttft>+5%"}, exitFailed,
			[]string{"(A): not comparable", "not comparable: other load: concurrency 10 and concurrency 20 (time_to_first_token, ", "ttft>+5%: cannot be judged: other load"}},
		{[]string{a, failing}, exitOK, []string{"(A): worse\nerrors: worse: 0.0 % of A's requests failed and 7.5 % of B's\n",
			"of the requests that succeeded: 100.0 % of A's and 92.5 % of B's (time_to_first_token, "}},
		{[]string{failing, a, "--markdown"}, exitOK, []string{"\n\nerrors: better: 7.5 % of A's requests failed and 0.0 % of B's\n\n| metric"}},
		{[]string{a, refusing, "--fail-on", "ttft>+5%"}, exitFailed, []string{"errors: worse: 0.0 % of A's requests failed and 20.0 % of B's",
			"ttft>+5%: cannot be judged: other share of failed requests: 0.0 % and 20.0 %"}},
		{[]string{a, refusing, "--fail-on", "error_rate>+1%"}, exitChanged, []string{"error_rate>+1%: broken"}},
		{[]string{a, slow, "--fail-on", "itl>+5%"}, exitFailed, []string{"itl>+5%: cannot be judged: neither run has the metric"}},
		{[]string{dir, a}, exitFailed, []string{"no run of " + dir}},
		{[]string{a, filepath.Join(dir, "none")}, exitFailed, []string{"none cannot be read"}},
		{[]string{a, same, "--fail-on", "ttft>5"}, exitFailed, []string{`--fail-on: "ttft>5" is no limit on a change`}},
		{[]string{a, same, "--fail-on", "speed>5%"}, exitFailed, []string{`"speed" is not compared`}},
		{[]string{a, same, "--fail-on", "ttft.max>5%"}, exitFailed, []string{`"max" is no statistic`}},
		{[]string{a, same, "--fail-on", "error_rate.p99>5%"}, exitFailed, []string{"error_rate has an average alone"}},
	} {
		p := <-start(nil, nil, append([]string{"compare"}, c.args...)...)
		if p.code != c.code {
			t.Errorf("%q ended with %d, want %d\n%s%s", c.args, p.code, c.code, p.stdout, p.stderr)
		}
		for _, want := range c.says {
			if !strings.Contains(p.stdout+p.stderr, want) {
				t.Errorf("%q does not say %q:\n%s%s", c.args, want, p.stdout, p.stderr)
			}
		}
	}
}

// Folders with several runs are paired by their paths, and the JSON has what the table has.
func TestCompareFoldersOfRuns(t *testing.T) {
	dir := t.TempDir()
	for i, name := range []string{"a/isl1", "a/isl2", "b/isl1", "b/isl2", "b/isl3"} {
		ttft := 100.
		if name == "b/isl2" {
			ttft = 120
		}
		failed := 0
		if name == "b/isl2" {
			failed = 30
		}
		writeFailingRun(t, filepath.Join(dir, filepath.FromSlash(name)), uint64(i), ttft, 10, failed)
	}
	page := filepath.Join(dir, "new", "page.html")
	p := must(t, "compare", filepath.Join(dir, "a"), filepath.Join(dir, "b"), "--json", "--report", page)
	var got struct {
		Schema int `json:"schema_version"`
		Pairs  []struct {
			A, B, Verdict string
			Metrics       []procedure.Compared
		}
	}
	if err := json.Unmarshal([]byte(p.stdout), &got); err != nil {
		t.Fatalf("%v\n%s", err, p.stdout)
	}
	if got.Schema != 1 || len(got.Pairs) != 2 || got.Pairs[0].Verdict != "no difference" || got.Pairs[1].Verdict != "worse" ||
		got.Pairs[1].B != filepath.Join(dir, "b", "isl2") {
		t.Fatalf("%+v", got)
	}
	m := got.Pairs[1].Metrics[0]
	if d := m.Differences[0]; m.Tag != "time_to_first_token" || m.Outcome != procedure.Worse || d.Stat != "avg" || math.Abs(d.Change-20) > 3 || d.Low > 20 || d.High < 20 {
		t.Errorf("%+v, want a TTFT that is 20 %% worse", m)
	}
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"B against A: isl1", "B against A: isl2", `class="word">worse</span>`, `class="word">no difference</span>`, "<li>errors: worse: 0.0 % of A&#39;s requests failed and 7.5 % of B&#39;s</li>", ">A: isl2</h2>", ">B: isl2</h2>"} {
		if !strings.Contains(string(data), want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if !strings.Contains(p.stderr, filepath.Join("b", "isl3", "profile_export.jsonl")+" has no counterpart") {
		t.Errorf("the run without a counterpart is not named: %s", p.stderr)
	}
}

// Real artifacts of aiperf, whose cold requests are told by their connection facts.
func TestCompareOfRealRuns(t *testing.T) {
	runs := "../../internal/procedure/testdata/aiperf-0.13.0/"
	if p := must(t, "compare", runs+"c5", runs+"c5"); !strings.Contains(p.stdout, "c5 (A): no difference") || strings.Contains(p.stdout, "worse") {
		t.Errorf("a run against itself:\n%s", p.stdout)
	}
	if p := must(t, "compare", runs+"c5", runs+"c1"); !strings.Contains(p.stdout, "not comparable: other cold share: 16.7 % and 10.0 %") {
		t.Errorf("five cold requests of 30 against one of 10:\n%s", p.stdout)
	}
}
