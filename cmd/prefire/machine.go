package main

import (
	"math"
	"runtime"
	"runtime/metrics"
	"time"

	"prefire/internal/export"
)

// machine is a reading of what the client and its machine have done so far. What the system does not tell is absent.
type machine struct {
	at     int64 // run time, ns
	cpu    reading[time.Duration]
	waited reading[time.Duration] // of the process's threads, ready to run and without a core
	busy   reading[time.Duration] // of all cores, whoever ran
	stolen reading[time.Duration] // of busy, what the machine's host took for others
	cores  int
	cycles uint64                    // of the garbage collector
	pauses *metrics.Float64Histogram // of the program by it, in s; nil = not told
}

// reading is a value that may be absent.
type reading[T any] struct {
	v  T
	ok bool
}

// read takes a reading of this moment.
func readMachine(at int64) machine {
	m := machine{at: at, cores: runtime.NumCPU()}
	m.cpu, m.waited, m.busy, m.stolen = systemTimes()
	samples := []metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}, {Name: "/sched/pauses/total/gc:seconds"}}
	metrics.Read(samples)
	if samples[0].Value.Kind() == metrics.KindUint64 {
		m.cycles = samples[0].Value.Uint64()
	}
	if samples[1].Value.Kind() == metrics.KindFloat64Histogram {
		m.pauses = samples[1].Value.Float64Histogram()
	}
	return m
}

// pausesSince is the sum of the pauses between two readings, each taken as its bucket's lower end, which is finite, and the longest, as its
// bucket's upper end where that is finite. Both are in s.
func (m machine) pausesSince(from machine) (sum, longest float64) {
	if m.pauses == nil || from.pauses == nil {
		return 0, 0
	}
	for i, n := range m.pauses.Counts {
		if n -= from.pauses.Counts[i]; n == 0 {
			continue
		}
		lower, upper := max(m.pauses.Buckets[i], 0), m.pauses.Buckets[i+1]
		if math.IsInf(upper, 1) {
			upper = lower
		}
		sum, longest = sum+float64(n)*lower, upper
	}
	return sum, longest
}

// leastWall is how long a run must have taken for its share of the machine to mean something: the machine counts in steps of 10 ms.
const leastWall = time.Second

// used is what lay between two readings.
type used struct {
	wall                      time.Duration
	cpu, waited, busy, stolen reading[time.Duration]
	cores                     int
	cycles                    uint64
	stopped, longest          float64 // s in which the garbage collector stopped the program, in all and at once
}

func (m machine) since(from machine) used {
	minus := func(a, b reading[time.Duration]) reading[time.Duration] {
		return reading[time.Duration]{a.v - b.v, a.ok && b.ok && a.v >= b.v}
	}
	u := used{wall: time.Duration(m.at - from.at), cpu: minus(m.cpu, from.cpu), waited: minus(m.waited, from.waited), busy: minus(m.busy, from.busy),
		stolen: minus(m.stolen, from.stolen), cores: m.cores, cycles: m.cycles - from.cycles}
	u.stopped, u.longest = m.pausesSince(from)
	return u
}

// add joins the use of two stretches of time.
func (u used) add(o used) used {
	plus := func(a, b reading[time.Duration]) reading[time.Duration] {
		return reading[time.Duration]{a.v + b.v, a.ok && b.ok}
	}
	if u.wall == 0 {
		return o
	}
	return used{u.wall + o.wall, plus(u.cpu, o.cpu), plus(u.waited, o.waited), plus(u.busy, o.busy), plus(u.stolen, o.stolen), o.cores,
		u.cycles + o.cycles, u.stopped + o.stopped, max(u.longest, o.longest)}
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
	if u.stolen.ok {
		o = append(o, export.Field{Key: "stolen_share_of_cores", Value: u.ofCores(u.stolen.v)})
	}
	if u.waited.ok {
		o = append(o, export.Field{Key: "run_queue_wait_seconds", Value: u.waited.v.Seconds()})
	}
	return append(o, export.Field{Key: "gc_cycles", Value: u.cycles}, export.Field{Key: "gc_pause_seconds", Value: u.stopped},
		export.Field{Key: "gc_pause_max_seconds", Value: u.longest})
}
