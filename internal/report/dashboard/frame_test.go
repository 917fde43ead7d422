package dashboard

import (
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"prefire/metrics"
)

var update = flag.Bool("update", false, "write the golden frames anew, to be looked at")

// running is a run after n seconds.
func running(n int) State {
	f := float64(n)
	s := State{Title: "my-model at http://127.0.0.1:8000", Phase: "profiling", Index: 2, Phases: 2, At: 3 + f, Elapsed: f, Requests: 1000, Returned: int64(10 * n), InFlight: 12, Asked: 12,
		Client: Client{Transport: "reactor", Cores: 2, Share: 0.08, Machine: 0.97, Connections: 12}}
	s.OK, s.Failed, s.Cancelled, s.Cold = int64(9*n), int64(n), int64(n/3), 2
	s.Input, s.Output = 9*f*1024, 9*f*32
	count := int64(9 * n)
	s.TTFT = metrics.Watched{Count: count, Sum: float64(count) * (100 + 10*math.Sin(f/4)), P50: 73.12, P90: 88.1, P99: 1094.6, Max: 120345}
	s.ITL = metrics.Watched{Count: count, Sum: float64(count) * 4, P50: 4.02, P90: 4.17, P99: 4.4, Max: 4.44}
	s.Latency = metrics.Watched{Count: count, Sum: float64(count) * (200 + f), P50: 197, P90: 214, P99: 220, Max: 225}
	s.ReceiveDelay = metrics.Watched{Count: count, P99: 0.05}
	s.SendLate = metrics.Watched{Count: count, P99: 3.5}
	s.Errors = []metrics.ErrorCount{
		{Error: metrics.Error{Code: 429, Type: "Too Many Requests", Message: "slow\ndown \x1b[2J\x07please"}, Count: 1},
		{Error: metrics.Error{Code: 503, Type: "Service Unavailable", Message: "The engine is currently busy and cannot accept new requests, 日本語 too. Please try again later."}, Count: int64(n)}}
	return s
}

// shown draws a run that was watched second by second.
func shown(seconds, width, height int, messages ...string) []line {
	var h history
	var s State
	for n := 1; n <= seconds; n++ {
		s = running(n)
		h.observe(&s)
	}
	return frame(&s, &h, messages, width, height)
}

func bare(f []line) string {
	var b strings.Builder
	for _, l := range f {
		text := ""
		for _, s := range l {
			text += s.text
		}
		b.WriteString(strings.TrimRight(text, " ") + "\n")
	}
	return b.String()
}

func TestGoldenFrames(t *testing.T) {
	for _, size := range [][2]int{{80, 24}, {120, 40}, {40, 10}} {
		got := bare(shown(30, size[0], size[1], "warm after 0.1 s; the clock starts", "stopping: no more requests are sent, those in flight may finish; press Ctrl-C again to quit at once"))
		file := filepath.Join("testdata", fmt.Sprintf("%dx%d.txt", size[0], size[1]))
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s is another:\n%s\nwant\n%s", file, got, want)
		}
	}
}

// No frame is ever larger than its terminal, and none holds what a terminal would obey; the most important lines stay.
func TestFramesFit(t *testing.T) {
	states := []struct {
		name string
		f    func(w, h int) []line
	}{
		{"running", func(w, h int) []line { return shown(40, w, h, "one", "two", "three\x1b[31m") }},
		{"warming up", func(w, h int) []line {
			return frame(&State{Title: "m", At: 5, Client: Client{Share: -1, Machine: -1}}, new(history), nil, w, h)
		}},
		{"nothing", func(w, h int) []line { return frame(new(State), new(history), nil, w, h) }},
		{"draining for a time", func(w, h int) []line {
			s := State{Phase: strings.Repeat("long ", 40), Elapsed: 7000, Seconds: 3600, Draining: true}
			return frame(&s, new(history), nil, w, h)
		}},
	}
	for _, c := range states {
		for w := 1; w <= 130; w += 8 {
			for h := 1; h <= 45; h += 3 {
				f := c.f(w, h)
				if len(f) > h || len(f) == 0 {
					t.Fatalf("%s, %d×%d: %d lines", c.name, w, h, len(f))
				}
				for _, l := range f {
					width := 0
					for _, s := range l {
						width += ansi.StringWidth(s.text)
						if strings.ContainsAny(s.text, "\x1b\n\r\x07\t") {
							t.Fatalf("%s: %q", c.name, s.text)
						}
					}
					if width > w {
						t.Fatalf("%s, %d×%d: a line of %d cells: %q", c.name, w, h, width, l)
					}
				}
				if c.name == "running" && h >= 3 && w >= 30 && !strings.Contains(bare(f), "failed 40") {
					t.Fatalf("%d×%d does not say how many failed:\n%s", w, h, bare(f))
				}
			}
		}
	}
	if f := frame(new(State), new(history), nil, 0, 0); f != nil {
		t.Errorf("a frame of no size: %v", f)
	}
}

// The curves are what happened between two seconds, not averages of the whole run.
func TestHistory(t *testing.T) {
	var h history
	at := func(phase string, at, elapsed float64, ok int64, sum float64) {
		s := State{Phase: phase, Index: 1, At: at, Elapsed: elapsed}
		s.OK, s.TTFT = ok, metrics.Watched{Count: ok, Sum: sum}
		h.observe(&s)
	}
	at("", 1, 0, 0, 0)
	at("warm", 2.5, 0.5, 7, 70)
	if len(h.list) != 0 {
		t.Errorf("%d samples after half a second", len(h.list))
	}
	at("warm", 3, 1, 10, 100)
	at("warm", 3.5, 1.5, 11, 100)
	at("warm", 5, 3, 30, 500)
	at("warm", 6, 4, 30, 500)
	if got := fmt.Sprint(h.curve(func(s *sample) float64 { return s.requests })); got != "[10 10 0]" {
		t.Errorf("requests a second %s", got)
	}
	if got := fmt.Sprint(h.curve(func(s *sample) float64 { return s.ttft })); got != "[10 20 NaN]" {
		t.Errorf("average TTFT %s", got)
	}
	at("load", 7.5, 1, 4, 4)
	if got := fmt.Sprint(h.curve(func(s *sample) float64 { return s.requests })); got != "[4]" {
		t.Errorf("the next phase starts with %s", got)
	}
	for i := range 1000 {
		at("load", 8.5+float64(i), 2+float64(i), int64(i), 0)
	}
	if len(h.list) != samples {
		t.Errorf("%d samples are kept", len(h.list))
	}
}

func TestSpark(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		points []float64
		width  int
		want   string
	}{{nil, 3, "   "}, {[]float64{0, 0}, 3, " ▁▁"}, {[]float64{1, 2, 4, 8}, 4, "▂▃▅█"}, {[]float64{9, 9, 1, nan, 8}, 3, "▂ █"}} {
		if got := spark(c.points, c.width); got != c.want {
			t.Errorf("%v in %d is %q, want %q", c.points, c.width, got, c.want)
		}
	}
}

func TestFigure(t *testing.T) {
	for v, want := range map[float64]string{0: "0.00", 1.234: "1.23", 12.34: "12.3", 123.4: "123", 99999: "99999", 123456: "123k", 1.5e7: "15M"} {
		if got := figure(v); got != want {
			t.Errorf("%v is %q, want %q", v, got, want)
		}
	}
}

// What comes from outside changes the model as it should: size, messages, Ctrl-C.
func TestModel(t *testing.T) {
	pressed, asked := 0, 0
	m := &model{o: Options{Interrupt: func() { pressed++ }, State: func() State { asked++; return running(asked) }}, width: 80, height: 24}
	send := func(msg tea.Msg) tea.Cmd { _, cmd := m.Update(msg); return cmd }
	if cmd := send(m.Init()()); cmd == nil || asked != 1 {
		t.Errorf("asked %d times, and no next time", asked)
	}
	send(tea.WindowSizeMsg{Width: 50, Height: 12})
	send(tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl})
	send(tea.KeyPressMsg{Code: 'c'})
	for i := range 20 {
		send(say(fmt.Sprint("message ", i)))
	}
	if pressed != 1 || m.width != 50 || m.height != 12 || len(m.messages) != mostMessages || m.messages[mostMessages-1] != "message 19" {
		t.Errorf("pressed %d, %d×%d, %v", pressed, m.width, m.height, m.messages)
	}
	if v := m.View(); !v.AltScreen || !strings.Contains(ansi.Strip(v.Content), "profiling 2/2") {
		t.Errorf("view %q", v.Content)
	}
}

// A dashboard whose terminal is gone ends when it is told to, and messages to it are lost and nothing else.
func TestDashboardWithoutATerminal(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	defer w.Close()
	d := Start(Options{Out: w, Environ: []string{"TERM=xterm"}, State: func() State { return running(3) }, Interrupt: func() {}})
	for range 50 {
		d.Say("hello")
	}
	d.Close()
	d.Say("after the end")
	d.Abort()
	select {
	case <-d.done:
	case <-time.After(time.Minute):
		t.Error("it does not end")
	}
}

// BenchmarkFrame is what one frame costs beside its snapshot.
func BenchmarkFrame(b *testing.B) {
	var h history
	var s State
	for n := 1; n <= 300; n++ {
		s = running(n)
		h.observe(&s)
	}
	b.ReportAllocs()
	for b.Loop() {
		_ = text(frame(&s, &h, nil, 120, 40))
	}
}
