package main

import (
	"runtime"
	"runtime/metrics"
	"time"

	"prefire/internal/export"
)

// machine is a reading of what the client and its machine have done so far. What the system does not tell is absent.
type machine struct {
	at      int64 // run time, ns
	cpu     reading[time.Duration]
	waited  reading[time.Duration] // of the process's threads, ready to run and without a core
	busy    reading[time.Duration] // of all cores, whoever ran
	cores   int
	cycles  uint64  // of the garbage collector
	stopped float64 // seconds in which it stopped the program
}

// reading is a value that may be absent.
type reading[T any] struct {
	v  T
	ok bool
}

// read takes a reading of this moment.
func readMachine(at int64) machine {
	m := machine{at: at, cores: runtime.NumCPU()}
	m.cpu, m.waited, m.busy = systemTimes()
	samples := []metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}, {Name: "/sched/pauses/total/gc:seconds"}}
	metrics.Read(samples)
	if samples[0].Value.Kind() == metrics.KindUint64 {
		m.cycles = samples[0].Value.Uint64()
	}
	if samples[1].Value.Kind() == metrics.KindFloat64Histogram {
		m.stopped = total(samples[1].Value.Float64Histogram())
	}
	return m
}

// total is the sum of a histogram's values, each taken as its bucket's lower end, which is finite.
func total(h *metrics.Float64Histogram) float64 {
	sum := 0.
	for i, n := range h.Counts {
		if lower := h.Buckets[i]; n > 0 && lower > 0 {
			sum += float64(n) * lower
		}
	}
	return sum
}

// used is what lay between two readings.
type used struct {
	wall              time.Duration
	cpu, waited, busy reading[time.Duration]
	cores             int
	cycles            uint64
	stopped           float64
}

func (m machine) since(from machine) used {
	minus := func(a, b reading[time.Duration]) reading[time.Duration] {
		return reading[time.Duration]{a.v - b.v, a.ok && b.ok && a.v >= b.v}
	}
	return used{time.Duration(m.at - from.at), minus(m.cpu, from.cpu), minus(m.waited, from.waited), minus(m.busy, from.busy), m.cores,
		m.cycles - from.cycles, m.stopped - from.stopped}
}

// add joins the use of two stretches of time.
func (u used) add(o used) used {
	plus := func(a, b reading[time.Duration]) reading[time.Duration] {
		return reading[time.Duration]{a.v + b.v, a.ok && b.ok}
	}
	if u.wall == 0 {
		return o
	}
	return used{u.wall + o.wall, plus(u.cpu, o.cpu), plus(u.waited, o.waited), plus(u.busy, o.busy), o.cores, u.cycles + o.cycles, u.stopped + o.stopped}
}

// ofCores is a time as a share of all the cores' time, from 0 to 1.
func (u used) ofCores(d time.Duration) float64 {
	return min(1, float64(d)/(float64(u.wall)*float64(u.cores)))
}

// facts are the figures for the summary.
func (u used) facts() export.Object {
	o := export.Object{{Key: "cores", Value: u.cores}}
	if u.wall <= 0 {
		return o
	}
	if u.cpu.ok {
		o = append(o, export.Field{Key: "process_cpu_seconds", Value: u.cpu.v.Seconds()},
			export.Field{Key: "process_share_of_cores", Value: u.ofCores(u.cpu.v)})
	}
	if u.busy.ok {
		o = append(o, export.Field{Key: "machine_share_of_cores", Value: u.ofCores(u.busy.v)})
	}
	if u.waited.ok {
		o = append(o, export.Field{Key: "run_queue_wait_seconds", Value: u.waited.v.Seconds()})
	}
	return append(o, export.Field{Key: "gc_cycles", Value: u.cycles}, export.Field{Key: "gc_pause_seconds", Value: u.stopped})
}
