package dataset

import "fmt"

// CacheBust says where a marker goes that no other session has, so that the server's prefix cache ends there; the names are aiperf's. Where
// there is no system message, the first turn takes the marker meant for it.
type CacheBust string

const (
	NoBust                   CacheBust = ""
	BustSystemPrefix         CacheBust = "system_prefix"
	BustSystemSuffix         CacheBust = "system_suffix"
	BustFirstTurnPrefix      CacheBust = "first_turn_prefix"
	BustFirstTurnSuffix      CacheBust = "first_turn_suffix"
	BustIsolateWarmupSystem  CacheBust = "warmup_isolation_system"
	BustIsolateWarmupOnFirst CacheBust = "warmup_isolation_first_turn"
)

// isolationMarker is what keeps a warm-up's prompts apart from those that are measured.
const isolationMarker = "[warmup]\n\n"

// marker is what stands before and after a text; at most one of both is not empty.
type marker struct{ before, after string }

// markers draws a session's markers for its system message and its first turn.
func (m *maker) markers(stream int) (system, first marker) {
	var mark marker
	onSystem := false
	switch b := m.s.o.CacheBust; b {
	case NoBust:
		return
	case BustIsolateWarmupSystem, BustIsolateWarmupOnFirst:
		if !m.s.warms(stream) {
			return
		}
		mark.before, onSystem = isolationMarker, b == BustIsolateWarmupSystem
	case BustSystemPrefix, BustFirstTurnPrefix:
		mark.before, onSystem = fmt.Sprintf("[rid:%012x]\n\n", m.rng.Uint64()>>16), b == BustSystemPrefix
	default:
		mark.after, onSystem = fmt.Sprintf("\n\n[rid:%012x]", m.rng.Uint64()>>16), b == BustSystemSuffix
	}
	if onSystem && m.s.hasSystem() {
		return mark, marker{}
	}
	return marker{}, mark
}
