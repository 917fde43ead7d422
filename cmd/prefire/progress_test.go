package main

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"prefire/internal/config"
	"prefire/loadgen"
)

// Where there is no terminal, a line comes every --stats-interval, every 5 s where it is not given, and never for 0.
func TestLinesOfProgressComeAtTheirInterval(t *testing.T) {
	second, never := time.Second, time.Duration(0)
	for _, tt := range []struct {
		ui       string
		interval *time.Duration
		want     int
	}{{"simple", nil, 2}, {"simple", &second, 12}, {"", &second, 12}, {"simple", &never, 0}, {"none", &second, 0}} {
		synctest.Test(t, func(t *testing.T) {
			var out strings.Builder
			v := newView(&view{phases: []config.Phase{{Name: "profiling", Requests: 5}}, prog: new(loadgen.Progress), out: &out, prefix: "prefire: ",
				now: func() int64 { return 0 }, line: tt.interval}, tt.ui, false)
			time.Sleep(12500 * time.Millisecond)
			v.stop()
			if got := strings.Count(out.String(), "prefire: "); got != tt.want {
				t.Errorf("--ui %q, interval %v: %d lines, want %d:\n%s", tt.ui, tt.interval, got, tt.want, out.String())
			}
		})
	}
}

func TestStatsIntervalOfAFileStaysBesideTheDisplay(t *testing.T) {
	c, err := config.Parse([]string{"-f", "run.yaml"}, func(string) (string, bool) { return "", false }, func(string) ([]byte, error) {
		return []byte("benchmark:\n  model: m\n  endpoint: {url: h}\n  dataset: {isl: 8}\n  phases: {type: concurrency, requests: 1}\n  runtime: {stats_interval: 0.5}\n"), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	c.Settle("out", "none")
	runtime, _ := c.Input.Get("runtime")
	text, err := runtime.(config.Map).MarshalJSON()
	if want := `{"stats_interval":0.5,"ui":"none"}`; err != nil || string(text) != want || *c.StatsInterval != 500*time.Millisecond {
		t.Errorf("runtime %s, %v, interval %v; want %s", text, err, c.StatsInterval, want)
	}
}
