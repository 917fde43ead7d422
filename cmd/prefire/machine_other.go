//go:build !linux

package main

import "time"

// systemTimes knows nothing where there is no /proc.
func systemTimes() (cpu, waited, busy, stolen reading[time.Duration]) {
	return cpu, waited, busy, stolen
}
