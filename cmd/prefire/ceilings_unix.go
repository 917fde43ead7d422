//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// readCeilings asks the system. Go has raised the soft limit on files to the hard one when it started.
func readCeilings() (l ceilings) {
	var r unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &r) == nil {
		l.files = int(min(r.Cur, math.MaxInt32)) //nolint:gosec // bounded
	}
	if text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		var low, high int
		if n, _ := fmt.Sscan(string(text), &low, &high); n == 2 && high >= low {
			l.ports = high - low + 1
		}
	}
	return l
}
