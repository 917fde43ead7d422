package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// systemTimes reads the process's CPU time, the time its threads waited for a core, and the time that all cores were busy or stolen.
func systemTimes() (cpu, waited, busy, stolen reading[time.Duration]) {
	var r unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &r) == nil {
		cpu = reading[time.Duration]{time.Duration(r.Utime.Nano() + r.Stime.Nano()), true}
	}
	busy, stolen = coresBusy("/proc/stat")
	return cpu, threadWaits("/proc/self/task"), busy, stolen
}

// threadWaits adds up the second figure of every thread's schedstat: ns spent ready to run, without a core.
func threadWaits(dir string) (sum reading[time.Duration]) {
	files, err := filepath.Glob(filepath.Join(dir, "*", "schedstat"))
	if err != nil {
		return sum
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			continue // the thread has ended
		}
		fields := bytes.Fields(text)
		if len(fields) < 2 {
			return reading[time.Duration]{}
		}
		ns, err := strconv.ParseInt(string(fields[1]), 10, 64)
		if err != nil {
			return reading[time.Duration]{}
		}
		sum = reading[time.Duration]{sum.v + time.Duration(ns), true}
	}
	return sum
}

// userHZ is the unit of /proc/stat: 100 on every Linux that Go runs on.
const userHZ = 100

// coresBusy adds up user, nice, system, irq, softirq and steal of /proc/stat's first line; steal is given apart as well.
func coresBusy(file string) (sum, stolen reading[time.Duration]) {
	text, err := os.ReadFile(file)
	if err != nil {
		return sum, stolen
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	fields := bytes.Fields(line)
	if len(fields) < 9 || string(fields[0]) != "cpu" {
		return sum, stolen
	}
	for _, i := range []int{1, 2, 3, 6, 7, 8} {
		ticks, err := strconv.ParseInt(string(fields[i]), 10, 64)
		if err != nil {
			return reading[time.Duration]{}, reading[time.Duration]{}
		}
		stolen = reading[time.Duration]{time.Duration(ticks) * time.Second / userHZ, true}
		sum = reading[time.Duration]{sum.v + stolen.v, true}
	}
	return sum, stolen
}
