package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"prefire/internal/export"
	"prefire/internal/fakellm"
	"prefire/metrics"
	"prefire/tokenize"
)

var killTimes = flag.Int("kill.times", 3, "runs that are killed at a random moment and recovered")

// asPrefire is a link to this test binary under the program's name.
func asPrefire(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "prefire")
	if err := os.Symlink(self, link); err != nil {
		t.Fatal(err)
	}
	return link
}

const watchEvery = 20 * time.Millisecond

// watchWaits notes how long a process's threads wait for a core. What it returns ends that, and is the wait of the last second: a program that
// the machine does not run cannot write what it has received.
func watchWaits(pid int) func() time.Duration {
	type sample struct {
		at     time.Time
		waited time.Duration
	}
	var samples []sample
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for every := time.NewTicker(watchEvery); ; {
			if w := threadWaits(filepath.Join("/proc", strconv.Itoa(pid), "task")); w.ok {
				samples = append(samples, sample{time.Now(), w.v})
			}
			select {
			case <-stop:
				every.Stop()
				return
			case <-every.C:
			}
		}
	}()
	return func() time.Duration {
		close(stop)
		<-done
		if len(samples) == 0 {
			return 0
		}
		last, late := samples[len(samples)-1], time.Duration(0)
		i := slices.IndexFunc(samples, func(s sample) bool { return last.at.Sub(s.at) < time.Second })
		for j := i + 1; j < len(samples); j++ { // a wait that is not over yet is not counted, and would have held up this goroutine too
			late = max(late, samples[j].at.Sub(samples[j-1].at)-watchEvery)
		}
		return max(last.waited-samples[i].waited, 0) + late
	}
}

// Whenever a run is killed, recover gives every record whose answer the server had finished 100 ms of the client's own time before, and never a
// broken line.
func TestWhatAKilledRunHadFinishedIsRecovered(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIP: -short leaves out what the full step runs")
	}
	const requests, prewarm = 120, 3
	bin := asPrefire(t)
	counter, err := tokenize.Open("builtin")
	if err != nil {
		t.Fatal(err)
	}
	seed := uint64(time.Now().UnixNano())
	draw := rand.New(rand.NewPCG(seed, 1))
	t.Logf("seed %d", seed)
	for i := range *killTimes {
		s := serve(t, fakellm.Options{TTFT: 10 * time.Millisecond, ITL: time.Millisecond, Counter: counter})
		dir := t.TempDir()
		cmd := exec.Command(bin, profileArgs(s.URL(), dir, "--request-rate", "200", "--request-count", "120", "--warmup-request-count", "5", "--concurrency", "40")...)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		waits := watchWaits(cmd.Process.Pid)
		// From the first probe to beyond the end of the run, when the files are being written.
		at := 1 + draw.IntN(prewarm+requests+10)
		ended := make(chan struct{})
		go func() { _ = cmd.Wait(); close(ended) }()
		reached := make(chan struct{})
		go func() {
			defer close(reached)
			if _, err := s.Wait(t.Context(), min(at, prewarm+5+requests)); err == nil {
				<-time.After(time.Duration(draw.IntN(30_000)) * time.Microsecond)
			}
		}()
		select {
		case <-reached:
		case <-ended:
			<-reached
		}
		killed := time.Now().UnixNano()
		_ = cmd.Process.Kill()
		<-ended
		starved := waits()
		finished := map[string]bool{} // of the load: the throwaway is the first
		var due []string
		first := true
		for _, e := range s.Entries() {
			if e.Method != "POST" {
				continue
			}
			if first {
				first = false
				continue
			}
			if e.Ended == fakellm.EndedFinished {
				finished[e.XRequestID] = true
				if last := e.Writes[len(e.Writes)-1]; last.AfterNS < killed-100_000_000-starved.Nanoseconds() {
					due = append(due, e.XRequestID)
				}
			}
		}
		p := <-start(nil, nil, "recover", dir)
		switch {
		case p.code == exitOK:
		case len(due) == 0 && (strings.Contains(p.stderr, "there is nothing to recover") || strings.Contains(p.stderr, "no such file")):
			continue // before a request had finished
		case strings.Contains(p.stderr, "the run ended in order"):
		default:
			t.Fatalf("run %d, killed after %d entries with %d answers due: exit %d\n%s\nthe run said\n%s", i, at, len(due), p.code, p.stderr, out.String())
		}
		records := readRecords(t, dir)
		seen := map[string]bool{}
		for _, r := range records {
			if id := r.Metadata.RequestID; seen[id] || r.Error != nil {
				t.Errorf("run %d: %s is there twice, or failed: %+v", i, id, r.Error)
			}
			seen[r.Metadata.RequestID] = true
			if r.Metrics["output_sequence_length"].Value != 8.0 {
				t.Errorf("run %d: %s has %v output tokens", i, r.Metadata.RequestID, r.Metrics["output_sequence_length"].Value)
			}
		}
		for _, id := range due {
			if !seen[id] {
				t.Errorf("run %d: %s had been answered 100 ms before the kill, and is not there", i, id)
			}
		}
		profiled := 0
		data, err := os.ReadFile(filepath.Join(dir, "profile_export.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		profiled = bytes.Count(data, []byte(`"benchmark_phase":"profiling"`))
		if sum := readSummary(t, dir); int64(profiled) != sum.Prefire.Counts.OK || int64(profiled) != int64(sum.Requests.Avg) {
			t.Errorf("run %d: %d records of profiling, the summary has %+v", i, profiled, sum.Prefire.Counts)
		}
		var inputs struct{ Data []any }
		readJSON(t, filepath.Join(dir, "inputs.json"), &inputs)
		left, err := filepath.Glob(filepath.Join(dir, ".prefire*"))
		if err != nil || len(left) > 0 {
			t.Errorf("run %d: %q are left (%v)", i, left, err)
		}
		t.Logf("run %d: killed after %d entries, %v of waiting for a core in the second before: %d answers due, %d finished, %d recovered", i, at, starved, len(due), len(finished), len(records))
	}
}

func TestRecoveredFilesAreThoseOfTheRun(t *testing.T) {
	s := serve(t, fakellm.Options{TTFT: time.Millisecond, ITL: time.Millisecond})
	dir := t.TempDir()
	kept := t.TempDir()
	keep := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	wholeRun(t, dir, profileArgs(s.URL(), dir, "--concurrency", "2", "--request-count", "12", "--warmup-request-count", "3", "--random-seed", "5")...)
	journal, note := keep(journalFile), keep(noteFile)
	want := map[string][]byte{}
	for _, name := range []string{"profile_export.jsonl", "inputs.json"} {
		want[name] = keep(name)
	}
	whole := readSummary(t, dir)
	lines := bytes.SplitAfter(journal, []byte("\n"))
	lines = lines[:len(lines)-1]
	if len(lines) != 15 {
		t.Fatalf("the journal has %d lines, want 15", len(lines))
	}
	for _, tt := range []struct {
		name    string
		journal []byte
		lines   int
		said    string
	}{
		{"whole", journal, 15, ""},
		{"torn", journal[:len(journal)-7], 14, "the journal's last line was broken off"},
		{"rubbish", slices.Concat(lines[0], []byte("rubbish\n"), []byte(`{"record":{"Phase":9}}`+"\n"), journal[len(lines[0]):]), 15, "2 lines of the journal are no records and are left out, the first of them line 2"},
	} {
		to := filepath.Join(kept, tt.name)
		if err := os.MkdirAll(to, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, data := range map[string][]byte{journalFile: tt.journal, noteFile: note, ".inputs.json.tmp": want["inputs.json"][:len(want["inputs.json"])/2]} {
			if err := os.WriteFile(filepath.Join(to, name), data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		p := must(t, "recover", to)
		if !strings.Contains(p.stdout, "recovered: ") || !strings.Contains(p.stdout, tt.said) || !strings.Contains(p.stdout, "INCOMPLETE RESULTS") {
			t.Errorf("%s: the screen does not say it\n%s", tt.name, p.stdout)
		}
		records, err := os.ReadFile(filepath.Join(to, "profile_export.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		all := bytes.SplitAfter(want["profile_export.jsonl"], []byte("\n"))
		if exp := bytes.Join(all[:tt.lines], nil); !bytes.Equal(records, exp) {
			t.Errorf("%s: the records are\n%s\nwant those of the run\n%s", tt.name, records, exp)
		}
		got := readSummary(t, to)
		if got.Prefire.Counts.OK != int64(tt.lines-3) || got.IsComplete || !got.WasCancelled {
			t.Errorf("%s: %+v", tt.name, got.Prefire.Counts)
		}
		if tt.lines == 15 && (got.TTFT != whole.TTFT || got.Latency != whole.Latency || got.OSL != whole.OSL || got.Prefire.Cold.Count != whole.Prefire.Cold.Count) {
			t.Errorf("%s: %+v, want the run's own figures %+v", tt.name, got, whole)
		}
		var inputs struct{ Data []json.RawMessage }
		readJSON(t, filepath.Join(to, "inputs.json"), &inputs)
		if n := len(inputs.Data); n < 3 || n > 9 {
			t.Errorf("%s: %d inputs of half of 15", tt.name, n)
		}
		for _, name := range []string{"profile_export_aiperf.csv", "profile_export_console.txt", "profile_export.hlog", ".aiperf_results_ready.json", "phase_manifest.json"} {
			if _, err := os.Stat(filepath.Join(to, name)); err != nil {
				t.Errorf("%s: %v", tt.name, err)
			}
		}
		if left, err := filepath.Glob(filepath.Join(to, ".prefire*")); err != nil || len(left) > 0 {
			t.Errorf("%s: %q are left (%v)", tt.name, left, err)
		}
		if p := <-start(nil, nil, "recover", to); p.code != exitFailed || !strings.Contains(p.stderr, "its files are complete: there is nothing to recover") {
			t.Errorf("%s: once more: exit %d\n%s", tt.name, p.code, p.stderr)
		}
	}
}

// wholeRun makes a run whose journal is still there at its end, since one of its files cannot be written: a folder has the name under which it
// is begun.
func wholeRun(t *testing.T, dir string, args ...string) {
	t.Helper()
	blocked := filepath.Join(dir, ".profile_export.hlog.tmp")
	if err := os.Mkdir(blocked, 0o755); err != nil {
		t.Fatal(err)
	}
	p := <-start(nil, nil, args...)
	if p.code != exitFailed || !strings.Contains(p.stderr, "recover "+dir+" makes the files of them") {
		t.Fatalf("exit %d\n%s", p.code, p.stderr)
	}
	if err := os.Remove(blocked); err != nil {
		t.Fatal(err)
	}
}

// onScreen is what a program printed, without boxes and line breaks.
func onScreen(p program) string {
	return strings.Join(strings.Fields(strings.NewReplacer("│", " ", "┃", " ").Replace(p.stdout)), " ")
}

// All that a run was asked for is there where it is recovered, as the run itself writes it.
func TestARecoveredRunHasAllFilesThatWereAskedFor(t *testing.T) {
	flaky, err := fakellm.ParseFault("status=500,after=8")
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, fakellm.Options{TTFT: 2 * time.Millisecond, ITL: time.Millisecond, Faults: []fakellm.Fault{flaky}})
	dir := t.TempDir()
	const secret = "sk-0123456789"
	wholeRun(t, dir, profileArgs(s.URL(), dir, "--concurrency", "2", "--request-count", "12", "--api-key", secret, "--export-http-trace", "--export-level", "raw",
		"--slice-duration", "0.01", "--export-outputs-json", "--network-latency-automatic", "--header", "X-Own:1", "--show-trace-timing", "--goodput", "time_to_first_token:1000")...)
	own := map[string][]byte{}
	for _, name := range []string{"profile_export.jsonl", "profile_export_raw.jsonl", "outputs.json", "profile_export_aiperf_timeslices.json", "profile_export_aiperf_timeslices.csv",
		"profile_export_network_latency.jsonl"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		own[name] = data
	}
	if n := bytes.Count(own["profile_export.jsonl"], []byte(`"trace_data"`)); n != 12 {
		t.Errorf("%d of 12 lines have a trace", n)
	}
	var whole, got map[string]json.RawMessage
	readJSON(t, filepath.Join(dir, "profile_export_aiperf.json"), &whole)
	note, err := os.ReadFile(filepath.Join(dir, noteFile))
	if err != nil || bytes.Contains(note, []byte(secret)) {
		t.Errorf("%v: the note is %s", err, note)
	}
	raw := filepath.Join(dir, "profile_export_raw.jsonl")
	if err := os.WriteFile(raw, append(bytes.Clone(own["profile_export_raw.jsonl"]), `{"broken`...), 0o644); err != nil {
		t.Fatal(err)
	}
	screen := onScreen(must(t, "recover", dir))
	for _, want := range []string{
		fmt.Sprintf("%d of 12 requests failed: the latencies are those of the others", readSummary(t, dir).Prefire.Counts.Failed),
		"12 raw records were on disk when the run was killed",
		"Raw Records", "Outputs JSON", "Timeslice JSON Export",
	} {
		if !strings.Contains(screen, want) {
			t.Errorf("%s\nwant %s", screen, want)
		}
	}
	if strings.Contains(screen, "not recovered") {
		t.Errorf("nothing is missing, but\n%s", screen)
	}
	for name, want := range own {
		if data, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.Equal(data, want) {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, data, want)
		}
	}
	readJSON(t, filepath.Join(dir, "profile_export_aiperf.json"), &got)
	for _, d := range metrics.Table() { // what goes over the phase's time goes by other ends of it
		if (d.Shape == metrics.PerRecord || d.Shape == metrics.PerGap || d.Shape == metrics.Restated) && !bytes.Equal(got[d.Tag], whole[d.Tag]) {
			t.Errorf("%s: %s, want %s", d.Tag, got[d.Tag], whole[d.Tag])
		}
	}
	if _, ok := got["network_adjusted_time_to_first_token"]; !ok {
		t.Error("there is no network-adjusted TTFT")
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".prefire*")); err != nil || len(left) > 0 {
		t.Errorf("%q are left (%v)", left, err)
	}
}

// A run of a series keeps its place in it, and on the folder of the whole series the folder to recover is named.
func TestAKilledRunOfASeriesKeepsItsPlace(t *testing.T) {
	s := serve(t, fakellm.Options{TTFT: time.Millisecond})
	dir := t.TempDir()
	second := filepath.Join(dir, "concurrency_2")
	blocked := filepath.Join(second, ".profile_export.hlog.tmp")
	if err := os.MkdirAll(blocked, 0o755); err != nil {
		t.Fatal(err)
	}
	<-start(nil, nil, profileArgs(s.URL(), dir, "--concurrency", "1,2", "--request-count", "4")...)
	if err := os.Remove(blocked); err != nil {
		t.Fatal(err)
	}
	type facts struct {
		Info    map[string]any `json:"run_info"`
		Prefire struct {
			Series map[string]any `json:"series"`
		} `json:"prefire"`
	}
	var whole, got facts
	readJSON(t, filepath.Join(second, "profile_export_aiperf.json"), &whole)
	if p := <-start(nil, nil, "recover", dir); p.code != exitFailed || !strings.Contains(p.stderr, "runs in it were killed: recover their folders, "+second) {
		t.Errorf("exit %d\n%s", p.code, p.stderr)
	}
	must(t, "recover", second)
	readJSON(t, filepath.Join(second, "profile_export_aiperf.json"), &got)
	for _, f := range []*facts{&whole, &got} {
		delete(f.Info, "benchmark_id")
	}
	if !reflect.DeepEqual(got, whole) || got.Info["variation_index"] != 1.0 || got.Prefire.Series["run"] != 2.0 {
		t.Errorf("%+v, want %+v", got, whole)
	}
}

func TestWhatCannotBeRecoveredIsSaid(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(want string) {
		t.Helper()
		if p := <-start(nil, nil, "recover", dir); p.code != exitFailed || !strings.Contains(p.stderr, want) {
			t.Errorf("exit %d, want %q\n%s", p.code, want, p.stderr)
		}
	}
	expect("holds no journal (.prefire_journal.jsonl) of a run that was killed: there is nothing to recover")
	put("profile_export.jsonl", "{}\n")
	expect("there is nothing to recover; records alone (profile_export.jsonl) hold metrics, not the facts that the files are made of")
	put(journalFile, "")
	expect("cannot be made into files without what was noted of its run: open " + filepath.Join(dir, noteFile))
	put(noteFile, "{")
	expect(noteFile + " cannot be read: unexpected end of JSON input")
	put(noteFile, "{}")
	expect(noteFile + " names no phase of the run")
	put(noteFile, `{"phases":[{"name":"profiling","kind":0}]}`)
	expect("holds no finished request: the run was killed before one was")
	put(noteFile, `{"phases":[{"name":"profiling","kind":0}],"answers_counted":true,"tokenizer":"no-such-tokenizer"}`)
	expect("the answers cannot be counted: ")
	if text, err := os.ReadFile(filepath.Join(dir, journalFile)); err != nil || len(text) > 0 {
		t.Errorf("the journal is %q, %v", text, err)
	}
}

// A run that goes on is not recovered, and a new one in the folder of a killed one keeps what that left.
func TestAKilledRunsJournalIsKeptByTheNextRun(t *testing.T) {
	s := serve(t, fakellm.Options{TTFT: 5 * time.Millisecond})
	dir := t.TempDir()
	signals := make(chan os.Signal, 1)
	first := start(signals, nil, profileArgs(s.URL(), dir, "--concurrency", "2", "--benchmark-duration", "600")...)
	if _, err := s.Wait(t.Context(), 20); err != nil {
		t.Fatal(err)
	}
	if p := <-start(nil, nil, "recover", dir); p.code != exitFailed || !strings.Contains(p.stderr, "the run that writes to "+dir+" is still going on") {
		t.Errorf("exit %d\n%s", p.code, p.stderr)
	}
	journal, err := os.ReadFile(filepath.Join(dir, journalFile))
	if err != nil {
		t.Fatal(err)
	}
	note, err := os.ReadFile(filepath.Join(dir, noteFile))
	if err != nil {
		t.Fatal(err)
	}
	signals <- os.Interrupt
	<-first
	for name, data := range map[string][]byte{journalFile: journal, noteFile: note} { // as if it had been killed then
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	must(t, profileArgs(s.URL(), dir, "--request-count", "2")...)
	if got := readRecords(t, dir); len(got) != 2 {
		t.Errorf("the new run has %d records", len(got))
	}
	must(t, "recover", filepath.Join(dir, killedFolder))
	if got, want := len(readRecords(t, filepath.Join(dir, killedFolder))), bytes.Count(journal, []byte("\n")); got != want || want == 0 {
		t.Errorf("%d records of the killed run, want %d", got, want)
	}
}

// fill gives v and everything in it a value that is not zero.
func fill(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint8, reflect.Uint64:
		v.SetUint(1)
	case reflect.Float64:
		v.SetFloat(0.5)
	case reflect.String:
		v.SetString("<text>")
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem())
	case reflect.Interface:
		v.Set(reflect.ValueOf(int64(7)))
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() {
			v.SetBytes([]byte(`{"a":1}`))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(t, v.Index(0))
		fill(t, v.Index(1))
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Tag.Get("json") != "-" {
				fill(t, v.Field(i))
			}
		}
	default:
		t.Fatalf("a note holds a %s, which this test cannot fill in", v.Type())
	}
}

// All that is noted of a run is there when it is recovered.
func TestANoteReadsBack(t *testing.T) {
	var n runNote
	fill(t, reflect.ValueOf(&n).Elem())
	n.SLOs = []metrics.Objective{{Tag: "time_to_first_token", Limit: 0.5}}
	dir := t.TempDir()
	if err := n.write(export.Dir{FS: export.Disk{}, Path: dir}); err != nil {
		t.Fatal(err)
	}
	got, err := readNote(dir)
	if got.Metrics.Objectives == nil {
		t.Error("the objectives are lost")
	}
	got.Metrics.Objectives = nil // they hold functions, which are equal to none
	if err != nil || !reflect.DeepEqual(got, n) {
		t.Errorf("%+v, %v; want %+v", got, err, n)
	}
}
