//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package reactor

import "time"

// When a loop is too much for one.
const (
	loadWindow   = 100 * time.Millisecond
	loadFull     = 0.85 // of a window
	loadWindows  = 3    // full ones in a row
	minImbalance = 8    // requests in flight by which loops may differ
)

// load is how much of its time a loop works. What it waits, for the network or for a processor, is not work.
type load struct {
	from   int64 // begin of the window
	parked int64 // waited in it
	full   int   // windows in a row
}

// turn ends a turn, and reports whether one loop is not enough.
func (m *load) turn(now int64) bool {
	took := now - m.from
	if took < int64(loadWindow) {
		return false
	}
	if float64(took-m.parked) >= loadFull*float64(took) {
		m.full++
	} else {
		m.full = 0
	}
	m.from, m.parked = now, 0
	if m.full < loadWindows {
		return false
	}
	m.full = 0
	return true
}
