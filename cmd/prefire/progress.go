package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"prefire/internal/config"
	"prefire/internal/report/dashboard"
	"prefire/loadgen"
	"prefire/metrics"
)

const (
	redraw    = 100 * time.Millisecond
	plainLine = 5 * time.Second
	barWidth  = 24 // cells; mpb shrinks it where the terminal is narrower
)

// prewarmStage is the number of the stage before the first phase.
const prewarmStage = -1

// view shows a run while it goes on: a bar or a dashboard on a terminal, a line every few seconds elsewhere, nothing where the user wants none. What the
// program has to say meanwhile goes through it, so that a bar and a message do not write over each other.
type view struct {
	phases []config.Phase
	prog   *loadgen.Progress
	live   func(phase int) metrics.Live
	now    func() int64
	out    io.Writer    // stderr
	prefix string       // of a plain line
	told   bool         // each stage's end is told in a line
	heard  func(string) // is told all that is said; nil = nobody
	// line is the time between plain lines; 0 = none are printed, nil = plainLine.
	line *time.Duration

	dash *dashboard.Dashboard // nil = not asked for
	// screen is what the dashboard shows, keys where its Ctrl-C goes, environ the process's environment.
	screen  func() dashboard.State
	keys    func()
	environ []string

	quit chan struct{}
	done sync.WaitGroup

	mu   sync.Mutex
	bars *mpb.Progress // nil where there is no terminal
	bar  *mpb.Bar      // of the present stage; nil between two
	at   int
	said []string // for when the dashboard is gone
}

// newView starts the view that the user asked for by ui ("" = not asked). verbose tells of each stage's end too.
func newView(v *view, ui string, verbose bool) *view {
	v.quit, v.at, v.told = make(chan struct{}), prewarmStage, verbose
	switch {
	case ui == "none":
	case ui == "dashboard":
		v.told = true
		v.dash = dashboard.Start(dashboard.Options{Out: v.out, Environ: v.environ, State: v.screen, Interrupt: v.keys})
	case terminal(v.out):
		v.told = true
		v.bars = mpb.New(mpb.WithOutput(v.out), mpb.WithRefreshRate(redraw), mpb.WithWidth(barWidth))
		v.add(prewarmStage)
		v.done.Go(func() { v.every(redraw, v.step) })
	default:
		every := plainLine
		if v.line != nil {
			every = *v.line
		}
		if every > 0 {
			v.done.Go(func() { v.every(every, func() { v.say(v.status()) }) })
		}
	}
	return v
}

func (v *view) every(d time.Duration, f func()) {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for {
		select {
		case <-v.quit:
			return
		case <-tick.C:
			f()
		}
	}
}

// stage is told when a phase begins and when it is over.
func (v *view) stage(i int, over bool) {
	v.mu.Lock()
	present := v.at
	v.mu.Unlock()
	if over && present != i {
		return // a seamless phase has taken its place
	}
	if over {
		if v.told {
			v.say(v.status())
		}
		v.drop()
		return
	}
	if i > 0 && present >= 0 {
		v.drop() // of the phase that a seamless one takes over from
	}
	if i == 0 {
		if v.told && present == prewarmStage {
			v.say(fmt.Sprintf("warm after %.1f s; the clock starts", float64(v.now())/1e9))
		}
		v.drop()
	}
	v.mu.Lock()
	v.at = i
	v.mu.Unlock()
	v.add(i)
}

// stop ends the view and leaves no bar behind.
func (v *view) stop() {
	close(v.quit)
	v.done.Wait()
	v.drop()
	if v.bars != nil {
		v.bars.Wait()
	}
	if v.dash == nil {
		return
	}
	v.dash.Close()
	v.repeat()
}

// repeat says again what the dashboard took with it.
func (v *view) repeat() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, line := range v.said {
		_, _ = io.WriteString(v.out, line)
	}
	v.said = nil
}

// abort gives a terminal back that the view has taken, for a program that exits at once.
func (v *view) abort() {
	if v.dash != nil {
		v.dash.Abort()
		v.repeat()
	}
}

// say writes a line, above the bar where there is one.
func (v *view) say(text string) {
	if v.heard != nil {
		v.heard(text)
	}
	line := v.prefix + text + "\n"
	if v.dash != nil {
		v.mu.Lock()
		v.said = append(v.said, line)
		v.mu.Unlock()
		v.dash.Say(text)
		return
	}
	if v.bars != nil {
		if _, err := v.bars.Write([]byte(line)); err == nil {
			return
		}
	}
	_, _ = io.WriteString(v.out, line)
}

// status is the present stage in one line.
func (v *view) status() string {
	v.mu.Lock()
	i := v.at
	v.mu.Unlock()
	if i == prewarmStage {
		return "warming up the connections and the server, before the clock starts"
	}
	ph := &v.phases[i]
	s := fmt.Sprintf("%s: %d", ph.Name, v.prog.Returned.Load())
	if ph.Requests > 0 {
		s += fmt.Sprintf("/%d", ph.Requests)
	}
	s += fmt.Sprintf(" requests, %.1f s", float64(v.now()-v.prog.PhaseFrom.Load())/1e9)
	if ph.Duration > 0 {
		s += fmt.Sprintf(" of %g s", ph.Duration.Seconds())
	}
	return s + ", " + v.figures(i)
}

// figures are the present stage's live figures, short enough for a narrow terminal.
func (v *view) figures(i int) string {
	l := v.live(i)
	s := fmt.Sprintf("%.4g requests/s, %d in flight, %d failed", l.Rate, v.prog.InFlight.Load(), v.prog.Failed.Load())
	if l.TTFTCount > 0 {
		s += fmt.Sprintf(", TTFT p50 %.4g ms", l.TTFTP50)
	}
	return s
}

// add draws a stage's bar.
func (v *view) add(i int) {
	if v.bars == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if i == prewarmStage {
		v.bar = v.bars.New(0, mpb.NopStyle(), mpb.AppendDecorators(decor.Name(v.prefix+"warming up the connections and the server")))
		return
	}
	v.bar = v.bars.AddBar(v.total(i),
		mpb.PrependDecorators(decor.Name(v.phases[i].Name+" "), decor.Percentage()),
		mpb.AppendDecorators(decor.Any(func(decor.Statistics) string {
			s := " " + v.figures(i)
			if v.prog.Draining.Load() {
				s += ", draining"
			}
			return s
		})))
}

// drop takes the present stage's bar away.
func (v *view) drop() {
	v.mu.Lock()
	bar := v.bar
	v.bar = nil
	v.mu.Unlock()
	if bar != nil {
		bar.Abort(true)
		bar.Wait()
	}
}

// step moves the bar on.
func (v *view) step() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.bar != nil && v.at != prewarmStage {
		v.bar.SetCurrent(v.reached(v.at))
	}
}

// total is the length of a phase's bar: requests, ms or sessions.
func (v *view) total(i int) int64 {
	ph := &v.phases[i]
	switch {
	case ph.Requests > 0:
		return ph.Requests
	case ph.Duration > 0:
		return ph.Duration.Milliseconds()
	}
	return ph.Sessions
}

// reached is how far a phase's bar is; it is never full, since a full bar is a finished one to mpb.
func (v *view) reached(i int) int64 {
	ph := &v.phases[i]
	n := v.prog.Returned.Load()
	if ph.Requests == 0 && ph.Duration > 0 {
		n = (v.now() - v.prog.PhaseFrom.Load()) / 1e6
	}
	return min(n, v.total(i)-1)
}
