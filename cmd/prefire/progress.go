package main

import (
	"fmt"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"prefire/loadgen"
	"prefire/metrics"
)

// view shows a run while it goes on: a bar on a terminal, a line every few seconds elsewhere, nothing where the user wants none.
type view struct {
	quit chan struct{}
	done sync.WaitGroup
}

const (
	redraw    = 100 * time.Millisecond
	plainLine = 5 * time.Second
)

// watch starts the view that the config asks for.
func (b *bench) watch() *view {
	v := &view{quit: make(chan struct{})}
	switch {
	case b.ui == "none":
	case terminal(b.stderr):
		v.done.Go(func() { b.bars(v.quit) })
	default:
		v.done.Go(func() { b.lines(v.quit) })
	}
	return v
}

func (v *view) stop() {
	close(v.quit)
	v.done.Wait()
}

// lines writes a plain line every few seconds.
func (b *bench) lines(quit <-chan struct{}) {
	tick := time.NewTicker(plainLine)
	defer tick.Stop()
	for {
		select {
		case <-quit:
			return
		case <-tick.C:
			fmt.Fprintf(b.stderr, "%s: %s\n", b.name(), b.status())
		}
	}
}

// status is the run in one line.
func (b *bench) status() string {
	i := int(b.prog.Phase.Load())
	if i < 0 {
		return "warming up the connections and the server, before the clock starts"
	}
	ph := &b.cfg.Phases[i]
	elapsed := float64(b.clock.Now()-b.prog.PhaseFrom.Load()) / 1e9
	s := fmt.Sprintf("%s: %d", ph.Name, b.prog.Returned.Load())
	if ph.Requests > 0 {
		s += fmt.Sprintf("/%d", ph.Requests)
	}
	s += fmt.Sprintf(" requests, %.1f s", elapsed)
	if ph.Duration > 0 {
		s += fmt.Sprintf(" of %g s", ph.Duration.Seconds())
	}
	return s + ", " + liveText(b.sink.byPhase[i].Live(), b.prog)
}

func liveText(l metrics.Live, p *loadgen.Progress) string {
	s := fmt.Sprintf("%.2f requests/s, %d in flight, %d failed", l.Rate, p.InFlight.Load(), p.Failed.Load())
	if l.TTFTCount > 0 {
		s += fmt.Sprintf(", TTFT avg %.1f p50 %.1f ms", l.TTFTAvg, l.TTFTP50)
	}
	if p.Draining.Load() {
		s += ", draining"
	}
	return s
}

// bars draws one bar a phase.
func (b *bench) bars(quit <-chan struct{}) {
	bars := mpb.New(mpb.WithOutput(b.stderr), mpb.WithRefreshRate(redraw), mpb.WithWidth(40))
	current, at := (*mpb.Bar)(nil), -2
	tick := time.NewTicker(redraw)
	defer tick.Stop()
	for {
		i := int(b.prog.Phase.Load())
		if i != at {
			if current != nil {
				current.SetCurrent(b.total(at))
				current.SetTotal(-1, true)
			}
			current, at = b.bar(bars, i), i
		}
		if i >= 0 {
			current.SetCurrent(b.reached(i))
		}
		select {
		case <-quit:
			current.Abort(false)
			bars.Wait()
			return
		case <-tick.C:
		}
	}
}

func (b *bench) bar(bars *mpb.Progress, i int) *mpb.Bar {
	name := "prewarm"
	if i >= 0 {
		name = b.cfg.Phases[i].Name
	}
	return bars.AddBar(b.total(i),
		mpb.PrependDecorators(decor.Name(name, decor.WCSyncSpaceR), decor.Percentage(decor.WCSyncSpace)),
		mpb.AppendDecorators(decor.Any(func(decor.Statistics) string {
			if i < 0 {
				return "warming up"
			}
			return fmt.Sprintf("%d done, %s", b.prog.Returned.Load(), liveText(b.sink.byPhase[i].Live(), b.prog))
		})))
}

// total is the length of a phase's bar: requests, sessions or ms.
func (b *bench) total(i int) int64 {
	if i < 0 {
		return 1
	}
	ph := &b.cfg.Phases[i]
	switch {
	case ph.Requests > 0:
		return ph.Requests
	case ph.Duration > 0:
		return ph.Duration.Milliseconds()
	}
	return ph.Sessions
}

func (b *bench) reached(i int) int64 {
	ph := &b.cfg.Phases[i]
	if ph.Requests == 0 && ph.Duration > 0 {
		return min((b.clock.Now()-b.prog.PhaseFrom.Load())/1e6, b.total(i)-1)
	}
	return min(b.prog.Returned.Load(), b.total(i))
}
