package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"prefire/internal/fakellm"
)

func TestTheSearchFindsTheLargestNumberThatHolds(t *testing.T) {
	for _, c := range []struct {
		carries, most, want int // want is what it ends with
		tried               []int
	}{
		{carries: 2400, most: 8192, want: 2400, tried: []int{500, 1000, 2000, 4000, 2800, 2400, 2600}},
		{carries: 2000, most: 8192, want: 2000, tried: []int{500, 1000, 2000, 4000, 2800, 2400, 2200}},
		{carries: 130, most: 8192, want: 130, tried: []int{500, 250, 125, 180, 150, 140, 130}},
		{carries: 10000, most: 3000, want: 3000, tried: []int{500, 1000, 2000, 3000}},
		{carries: 10000, most: 32, want: 32, tried: []int{32}},
		{carries: 3, most: 8192, want: 3, tried: []int{500, 250, 125, 62, 31, 15, 7, 3, 5, 4}},
		{carries: 1, most: 8192, want: 1, tried: []int{500, 250, 125, 62, 31, 15, 7, 3, 1, 2}},
		{carries: 0, most: 8192, want: 0, tried: []int{500, 250, 125, 62, 31, 15, 7, 3, 1}},
	} {
		s := search{most: c.most}
		var tried []int
		for n, ok := s.next(); ok; n, ok = s.next() {
			tried = append(tried, n)
			s.tell(n, n <= c.carries)
		}
		if s.held != c.want || !slices.Equal(tried, c.tried) {
			t.Errorf("carries %d, at most %d: found %d by way of %v, want %d by way of %v", c.carries, c.most, s.held, tried, c.want, c.tried)
		}
	}
	// Whatever a machine carries, what is found is within 10 %, and below.
	for carries := 20; carries < 8000; carries += 7 {
		s := search{most: calibrationMost}
		for n, ok := s.next(); ok; n, ok = s.next() {
			s.tell(n, n <= carries)
		}
		// Two digits are as near as it goes: between 10 and 11 lies nothing.
		if s.held > carries || float64(carries) >= float64(s.held)*searchRatio+1 {
			t.Fatalf("carries %d, found %d", carries, s.held)
		}
	}
}

// stepLength is a step's length in these tests: its windows are 200 ms each, from 1,680 ms on.
const stepLength = 2*calibrationEdge + 1200*time.Millisecond

// steadyStep are the records of a step in which every stream gets its tokens on time: 100 requests a second, TTFT 100 ms, 74 gaps of 20 ms.
// change may spoil a request; first and last are when its first and last token came, in ms since the first window's begin.
func steadyStep(change func(r *stepRecord, first, last float64)) []stepRecord {
	var out []stepRecord
	for at := time.Duration(0); at < stepLength; at += 10 * time.Millisecond {
		var r stepRecord
		r.Metadata.Start = 1_700_000_000_000_000_000 + int64(at)
		r.Metrics.TTFT.Value, r.Metrics.ITL.Value, r.Metrics.Latency.Value, r.Metrics.Tokens.Value = 100, 20, 1580, 75
		r.Prefire.Chunks = 75
		if change != nil {
			change(&r, ms(int64(at-calibrationEdge))+100, ms(int64(at-calibrationEdge))+1580)
		}
		out = append(out, r)
	}
	return out
}

func TestAStepIsJudgedByItsWindows(t *testing.T) {
	steady := figures{Rate: 50}
	for _, c := range []struct {
		name   string
		change func(r *stepRecord, first, last float64)
		fit    int
		limits []limit // of a step that does not hold
		middle figures
	}{
		{name: "steady", fit: 6, middle: steady},
		{name: "the start is left out", fit: 6, middle: steady, change: func(r *stepRecord, _, last float64) {
			if last < 0 {
				r.Prefire.TTFTSlack, r.Prefire.SendLate = 500_000, 900_000
			}
		}},
		{name: "so is the end", fit: 6, middle: steady, change: func(r *stepRecord, first, _ float64) {
			if first > 1200 {
				r.Prefire.TTFTSlack, r.Prefire.SendLate, r.Prefire.Late = 500_000, 900_000, 900_000
			}
		}},
		{name: "a stall spoils the window that it is in", fit: 5, middle: steady, change: func(r *stepRecord, first, last float64) {
			if first >= 410 && first < 470 {
				r.Prefire.TTFTSlack = 60_000
			}
			if last >= 410 && last < 470 {
				r.Prefire.LastSlack = 60_000
			}
		}},
		{name: "last tokens that came with the end of the stream", fit: 6, middle: figures{Rate: 50, ITLBound: 0.3}, change: func(r *stepRecord, _, _ float64) {
			r.Prefire.LastSlack = 22_200
		}},
		{name: "TTFT bound", limits: []limit{limitTTFT}, middle: figures{Rate: 50, TTFTBound: 2.96, ITLBound: 0.04}, change: func(r *stepRecord, _, _ float64) {
			r.Prefire.TTFTSlack = 2960
		}},
		{name: "within the TTFT bound", fit: 6, middle: figures{Rate: 50, TTFTBound: 0.74, ITLBound: 0.01}, change: func(r *stepRecord, _, _ float64) {
			r.Prefire.TTFTSlack = 740
		}},
		{name: "ITL bound", limits: []limit{limitITL}, middle: figures{Rate: 50, ITLBound: 0.5}, change: func(r *stepRecord, _, _ float64) {
			r.Prefire.LastSlack = 37_000
		}},
		{name: "gaps", limits: []limit{limitGaps}, middle: figures{Rate: 50, GapsLost: 5. / 74}, change: func(r *stepRecord, _, _ float64) { r.Prefire.Shared = 5 }},
		{name: "send lateness", limits: []limit{limitSend}, middle: figures{Rate: 50, SendLate: 32}, change: func(r *stepRecord, _, _ float64) {
			r.Prefire.SendLate = 32_000
		}},
		{name: "receive delay", limits: []limit{limitReceive}, middle: figures{Rate: 50, Receive: 21}, change: func(r *stepRecord, _, _ float64) {
			r.Prefire.Late = 21_000
		}},
		{name: "a server that cannot keep up", limits: []limit{limitRate}, middle: figures{Rate: 40}, change: func(r *stepRecord, _, _ float64) {
			r.Metrics.ITL.Value = 25
		}},
		{name: "failures", limits: []limit{limitErrors}, change: func(r *stepRecord, _, _ float64) {
			r.Error = json.RawMessage(`{"code":503}`)
		}},
		{name: "cold requests are no measurement", limits: []limit{limitEmpty}, change: func(r *stepRecord, _, _ float64) { r.Metrics.TTFT.Value = 0 }},
		{name: "half of the windows", fit: 3, limits: []limit{limitTTFT}, middle: figures{Rate: 50, TTFTBound: 18.5, ITLBound: 0.25},
			change: func(r *stepRecord, first, _ float64) {
				if first >= 600 {
					r.Prefire.TTFTSlack = 37_000
				}
			}},
	} {
		s := judgeStep(160, steadyStep(c.change), stepLength)
		held := c.fit >= 5
		near := func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }
		f, m := s.Figures, c.middle
		if s.Streams != 160 || s.Windows != 6 || s.Fit != c.fit || s.Held != held || !reflect.DeepEqual(s.Limits, c.limits) || !near(f.TTFTBound, m.TTFTBound) ||
			!near(f.ITLBound, m.ITLBound) || !near(f.GapsLost, m.GapsLost) || !near(f.SendLate, m.SendLate) || !near(f.Receive, m.Receive) || !near(f.Rate, m.Rate) {
			t.Errorf("%s: %+v; want %d windows to hold, limits %v, figures %+v", c.name, s, c.fit, c.limits, c.middle)
		}
	}
	if s := judgeStep(160, nil, stepLength); s.Held || s.Fit != 0 || s.Windows != 6 || !reflect.DeepEqual(s.Limits, []limit{limitEmpty}) {
		t.Errorf("a step without one record: %+v", s)
	}
	if s := judgeStep(1, nil, stepLength); s.Held || s.Windows != 0 {
		t.Errorf("one stream without one record: %+v", s)
	}
	// One stream has few first and last tokens, and only windows with one are judged: here the fifth, which has the second answer's last and
	// the third's first.
	one := steadyStep(nil)[:3]
	begin := one[0].Metadata.Start
	one[1].Metadata.Start = begin + int64(1020*time.Millisecond)
	one[2].Metadata.Start = begin + int64(calibrationEdge+800*time.Millisecond)
	if s := judgeStep(1, one, stepLength); !s.Held || s.Windows != 1 || s.Fit != 1 || s.Figures.Rate != 50 {
		t.Errorf("one stream: %+v; want one window to be judged, and to hold", s)
	}
}

func TestStepRecordsAreReadFromTheFileThatProfileWrites(t *testing.T) {
	s := serve(t, fakellm.Options{TTFT: 5 * time.Millisecond, ITL: time.Millisecond})
	dir := t.TempDir()
	must(t, profileArgs(s.URL(), dir, "--concurrency", "2", "--request-count", "6")...)
	got, err := readStep(filepath.Join(dir, "profile_export.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	want := readRecords(t, dir)
	if len(got) != 6 || len(want) != 6 {
		t.Fatalf("%d records, and %d by another reader; want 6", len(got), len(want))
	}
	for i, r := range got {
		w := want[i]
		if r.Metadata.Start != w.Metadata.Start || r.Metrics.TTFT.Value != w.value("time_to_first_token") || r.Metrics.ITL.Value != w.value("inter_token_latency") ||
			r.Metrics.Latency.Value != w.value("request_latency") || r.Metrics.Tokens.Value != 8 || r.Prefire.Chunks != 8 ||
			r.Prefire.TTFTSlack != w.Prefire.TTFTSlack || len(r.Error) > 0 {
			t.Errorf("record %d is %+v; the other reader has %+v", i, r, w)
		}
	}
	spoilt := filepath.Join(dir, "spoilt.jsonl")
	if err := os.WriteFile(spoilt, []byte(`{"metadata":{}}`+"\n{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := readStep(spoilt); err == nil {
		t.Error("half a record is read without an error")
	}
	if none, err := readStep(filepath.Join(dir, "none.jsonl")); none != nil || err != nil {
		t.Errorf("a step in which nothing ended: %v, %v; want none and no error", none, err)
	}
}

// figure is a calibration of this machine.
func figure(streams int) calibration {
	return calibration{Client: "portable", Streams: streams, TokensPerSecond: 50, Version: "1.2.3", Cores: runtime.NumCPU(), Date: "2026-11-30T20:00:00Z"}
}

// withCalibration is a process that keeps its calibrations in a file.
func withCalibration(path string) process {
	return process{args: []string{"prefire"}, env: func(name string) (string, bool) { return path, name == calibrationEnv }}
}

func TestAPlanOfTwiceTheFigureIsFlaggedAndOneOfHalfIsNot(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIP: -short leaves out what the full step runs")
	}
	s := serve(t, fakellm.Options{TTFT: time.Millisecond})
	path := filepath.Join(t.TempDir(), "new", "calibration.json")
	f := figure(4)
	f.Client = clientInUse(t, s)
	if err := storeCalibration(path, &f); err != nil {
		t.Fatal(err)
	}
	const warning = " streams at once are more than prefire calibrate found this client ("
	for _, c := range []struct {
		concurrency string
		flagged     bool
		more        []string
	}{
		{concurrency: "8", flagged: true}, {concurrency: "5", flagged: true}, {concurrency: "4"}, {concurrency: "2"},
	} {
		dir := t.TempDir()
		var out, stderr locked
		args := profileArgs(s.URL(), dir, "--concurrency", c.concurrency, "--request-count", "8")
		p := withCalibration(path)
		p.args, p.stdout, p.stderr = append(p.args, args...), &out, &stderr
		if code := run(p); code != exitOK {
			t.Fatalf("exit %d\n%s", code, stderr.String())
		}
		if got := strings.Contains(stderr.String(), c.concurrency+warning); got != c.flagged {
			t.Errorf("calibrated for 4, %s streams asked: flagged %v, want %v\n%s", c.concurrency, got, c.flagged, stderr.String())
		}
		if n := strings.Count(stderr.String(), "prefire calibrate"); n > 1 {
			t.Errorf("the warning takes %d lines:\n%s", n, stderr.String())
		}
		var sum struct {
			Prefire struct {
				Client struct{ Calibration calibration }
			}
		}
		readJSON(t, filepath.Join(dir, "profile_export_aiperf.json"), &sum)
		if got := sum.Prefire.Client.Calibration; !reflect.DeepEqual(got, f) {
			t.Errorf("the result says that calibration %+v was used, want %+v", got, f)
		}
	}
}

// clientInUse is the transport that a run takes by itself.
func clientInUse(t *testing.T, s *fakellm.Server) string {
	t.Helper()
	dir := t.TempDir()
	must(t, profileArgs(s.URL(), dir, "--concurrency", "1", "--request-count", "1")...)
	var sum struct {
		Prefire struct{ Client struct{ Transport string } }
	}
	readJSON(t, filepath.Join(dir, "profile_export_aiperf.json"), &sum)
	return sum.Prefire.Client.Transport
}

func TestTheWarningSaysWhatItRestsOn(t *testing.T) {
	f := figure(2000)
	const want = "4000 streams at once are more than prefire calibrate found this client (portable) to carry here: 2000 at 50 tokens/s each, " +
		"which is assumed of yours (2026-11-30T20:00:00Z, prefire 1.2.3); see the verdicts on the client at the end of the run"
	if got := f.exceeded(4000); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	f.AtLeast = true
	if got := f.exceeded(2001); !strings.Contains(got, ": at least 2000 at 50") {
		t.Errorf("%s: it does not say that the figure is a least", got)
	}
}

func TestAFileThatIsNoCalibrationOfThisMachineIsIgnoredAndSaid(t *testing.T) {
	other := figure(7)
	other.Cores++
	foreign := t.TempDir() + "/foreign.json"
	if err := storeCalibration(foreign, &other); err != nil {
		t.Fatal(err)
	}
	write := func(text string) string {
		path := filepath.Join(t.TempDir(), "c.json")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct{ path, want string }{
		{filepath.Join(t.TempDir(), "none.json"), ""},
		{write(`{"prefire_calibration":1,"figures":{}}`), ""},
		{write("half a fi"), " is no calibration: invalid character"},
		{write("{}"), "prefire_calibration is 0, and 1 is known"},
		{write(`{"prefire_calibration":2,"figures":{"portable":{"streams":9}}}`), "prefire_calibration is 2, and 1 is known"},
		{write(`{"prefire_calibration":1,"figures":{"portable":{"client":"portable","streams":-9}}}`), `its figure for "portable" is not whole`},
		{foreign, fmt.Sprintf("it was made with %d cores, and here are %d; prefire calibrate makes a new one", other.Cores, runtime.NumCPU())},
		{t.TempDir(), "is a directory"},
	} {
		got, notice := findCalibration(withCalibration(c.path), "portable")
		if got != nil || (c.want == "") != (notice == "") || !strings.Contains(notice, c.want) {
			t.Errorf("%s: %+v, notice %q; want none and a notice that says %q", c.path, got, notice, c.want)
		}
	}
}

func TestCalibrationsAreKeptByTransport(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b", "calibration.json")
	portable, first, second := figure(100), figure(300), figure(400)
	first.Client, second.Client = "reactor", "reactor"
	for _, f := range []*calibration{&portable, &first, &second} {
		if err := storeCalibration(path, f); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]*calibration{"portable": &portable, "reactor": &second, "fake": nil} {
		if got, notice := findCalibration(withCalibration(path), name); !reflect.DeepEqual(got, want) || notice != "" {
			t.Errorf("%s: %+v (%s), want %+v", name, got, notice, want)
		}
	}
	if err := os.WriteFile(path, []byte("spoilt"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := storeCalibration(path, &portable); err != nil {
		t.Fatal(err)
	}
	if got, notice := findCalibration(withCalibration(path), "portable"); !reflect.DeepEqual(got, &portable) || notice != "" {
		t.Errorf("after a spoilt file: %+v (%s), want %+v", got, notice, portable)
	}
	if left, err := filepath.Glob(filepath.Dir(path) + "/.*"); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// Whether one stream is carried within the limits is the machine's to say; that what is found is what is printed and kept is not.
func TestACalibrationRunsAgainstAServerOfItsOwn(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIP: -short leaves out what the full step runs")
	}
	path := filepath.Join(t.TempDir(), "kept.json")
	p := withCalibration(path)
	var out, stderr locked
	p.args, p.stdout, p.stderr = append(p.args, "calibrate", "--max-streams", "1", "--step", "5s", "--json"), &out, &stderr
	p.executable = os.Executable // the test's binary, which is the program where it is called so
	code := run(p)
	var found struct {
		Calibration *calibration
		Steps       []step
	}
	if err := json.Unmarshal([]byte(out.String()), &found); err != nil {
		t.Fatalf("%v: %q\n%s", err, out.String(), stderr.String())
	}
	if n := len(found.Steps); n < 1 || n > 2 || found.Steps[0].Streams != 1 || found.Steps[0].Windows > windowsOfStep {
		t.Errorf("steps %+v; want one stream, tried once, or twice where some windows held", found.Steps)
	}
	held := found.Steps[len(found.Steps)-1].Held
	all, err := readCalibrations(path)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]calibration{}
	if f := found.Calibration; f != nil {
		want[f.Client] = *f
		if f.Streams != 1 || !f.AtLeast || f.TokensPerSecond != 50 || f.Cores != runtime.NumCPU() {
			t.Errorf("figure %+v", f)
		}
	}
	if (found.Calibration != nil) != held || (code == exitOK) != held || len(all) != len(want) || held && !reflect.DeepEqual(all, want) {
		t.Errorf("held %v, exit %d, printed %+v, kept %+v", held, code, found.Calibration, all)
	}
	if said := strings.Count(stderr.String(), "prefire: 1 streams, "); said != len(found.Steps) {
		t.Errorf("%d steps, and %d lines on stderr:\n%s", len(found.Steps), said, stderr.String())
	}
}

// A step that the user stopped, or whose server has ended, says nothing of how many streams are carried; one that cannot be run does.
func TestAStepThatWasStoppedIsNoLimit(t *testing.T) {
	s := serve(t, fakellm.Options{TTFT: time.Hour})
	at := func(signals chan os.Signal) *calibrator {
		return &calibrator{process: process{args: []string{"prefire"}, env: func(string) (string, bool) { return "", false }, signals: signals, stderr: io.Discard},
			calibrateFlags: calibrateFlags{client: "auto", step: calibrationStepLeast}, url: s.URL(), dir: t.TempDir(), clock: newClock(), steps: []step{{}}}
	}
	for signal, want := range map[os.Signal]error{os.Interrupt: errCalibrationStopped, syscall.SIGTERM: exitError(exitTerminated)} {
		signals := make(chan os.Signal, 1)
		go func() {
			if err := s.WaitInFlight(t.Context(), 1); err != nil {
				t.Error(err)
			}
			signals <- signal
		}()
		c := at(signals)
		if _, err := c.try(2); !errors.Is(err, want) || len(c.steps) != 1 {
			t.Errorf("%v: %v, %d more steps; want %v", signal, err, len(c.steps)-1, want)
		}
	}
	c := at(nil)
	c.dir = filepath.Join(c.dir, "file")
	if err := os.WriteFile(c.dir, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := c.try(2); err != nil || !slices.Equal(got.Limits, []limit{limitErrors}) || len(c.steps) != 2 {
		t.Errorf("a folder that cannot be made: %+v, %v", got, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	c = at(nil)
	if got, err := c.try(2); err == nil || !strings.Contains(err.Error(), "the server does not answer any more") || len(c.steps) != 1 {
		t.Errorf("the server has ended: %+v, %v", got, err)
	}
}

func TestWhereCalibrationsAreKept(t *testing.T) {
	dir := t.TempDir()
	cache := func() (string, error) { return dir, nil }
	for _, c := range []struct {
		env   string
		cache func() (string, error)
		want  string
	}{
		{want: ""}, {cache: cache, want: filepath.Join(dir, "prefire", "calibration.json")}, {env: "/elsewhere.json", cache: cache, want: "/elsewhere.json"},
		{env: "none", cache: cache, want: ""}, {cache: func() (string, error) { return "", os.ErrNotExist }, want: ""},
	} {
		p := withCalibration(c.env)
		p.cacheDir = c.cache
		if got := calibrationFile(p); filepath.ToSlash(got) != c.want {
			t.Errorf("environment %q: %q, want %q", c.env, got, c.want)
		}
	}
}
