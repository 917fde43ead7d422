package main

import (
	"os"
	"time"

	"prefire/internal/report/dashboard"
)

// interrupt takes a Ctrl-C that came as a key.
func (b *bench) interrupt() {
	select {
	case b.typed <- os.Interrupt:
	default: // the run has been asked twice to end
	}
}

// screen gives the dashboard's view of the run. What it returns is for one goroutine.
func (b *bench) screen() func() dashboard.State {
	load := machineLoad{now: b.clock.Now}
	return func() dashboard.State {
		s := dashboard.State{Title: b.cfg.Models[0] + " at " + b.load.plan.Targets[0].URL, At: float64(b.clock.Now()) / 1e9, Phases: len(b.cfg.Phases),
			InFlight: b.prog.InFlight.Load(), Client: dashboard.Client{Share: -1, Machine: -1}}
		health := b.state()
		s.Client.Transport, s.Client.Connections = health.Client, health.Open
		if u := load.read(); u.wall > 0 {
			s.Client.Cores = u.cores
			if u.cpu.ok {
				s.Client.Share = u.ofCores(u.cpu.v)
			}
			if u.busy.ok {
				s.Client.Machine = u.ofCores(u.busy.v)
			}
		}
		i := int(b.prog.Phase.Load())
		from := b.prog.PhaseFrom.Load()
		if i < 0 || from == 0 {
			return s
		}
		ph := &b.cfg.Phases[i]
		s.Phase, s.Index, s.Asked, s.Requests, s.Seconds = ph.Name, i+1, ph.Concurrency, ph.Requests, ph.Duration.Seconds()
		s.Elapsed = float64(b.clock.Now()-from) / 1e9
		s.Returned, s.Draining = b.prog.Returned.Load(), b.prog.Draining.Load()
		acc := b.sink.byPhase[i]
		s.Snapshot, s.Errors = acc.Snapshot(nil), acc.Errors()
		return s
	}
}

// machineLoad is what the client and its machine did over the last seconds.
type machineLoad struct {
	now  func() int64
	from machine
	last used
}

// read gives the load of the last stretch of a second or more; the zero used before there is one.
func (l *machineLoad) read() used {
	at := l.now()
	if l.from.at != 0 && at-l.from.at < int64(time.Second) {
		return l.last
	}
	m := readMachine(at)
	if l.from.at != 0 {
		l.last = m.since(l.from)
	}
	l.from = m
	return l.last
}
