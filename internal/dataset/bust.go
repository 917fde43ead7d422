package dataset

import (
	"fmt"
	"math/rand/v2"
)

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

// Marker is what stands before and after a text; at most one of both is not empty.
type Marker struct{ Before, After string }

// Around puts the marker around a text.
func (m Marker) Around(text string) string { return m.Before + text + m.After }

// Markers gives the markers for a session's system message and for its first turn. id draws the session's own number, below 1<<48; warms
// says that the session is not measured, hasSystem that it has a system message.
func (b CacheBust) Markers(id func() uint64, warms, hasSystem bool) (system, first Marker) {
	var mark Marker
	onSystem := false
	switch b {
	case NoBust:
		return
	case BustIsolateWarmupSystem, BustIsolateWarmupOnFirst:
		if !warms {
			return
		}
		mark.Before, onSystem = isolationMarker, b == BustIsolateWarmupSystem
	case BustSystemPrefix, BustFirstTurnPrefix:
		mark.Before, onSystem = fmt.Sprintf("[rid:%012x]\n\n", id()), b == BustSystemPrefix
	default:
		mark.After, onSystem = fmt.Sprintf("\n\n[rid:%012x]", id()), b == BustSystemSuffix
	}
	if onSystem && hasSystem {
		return mark, Marker{}
	}
	return Marker{}, mark
}

// Renews reports whether a session that is sent again is new to a prefix cache from its first token on.
func (b CacheBust) Renews(hasSystem bool) bool {
	return b == BustSystemPrefix || b == BustFirstTurnPrefix && !hasSystem
}

// markers gives the markers of a stream's index-th session. A session that sends an entry again has a marker of its own.
func (s *Source) markers(stream int, index int64) (system, first Marker) {
	id := func() uint64 { return rand.NewPCG(s.keys[stream]^marks, uint64(index)).Uint64() >> 16 }
	return s.o.CacheBust.Markers(id, s.warms(stream), s.hasSystem())
}

// longestMarker is one of the longest markers that a first turn may have. The tokens of a marker's digits vary a little.
func (s *Source) longestMarker() Marker {
	var longest Marker
	most := 0
	for i := range int64(32) {
		_, first := s.markers(0, i) // the prewarm's stream has each kind
		if n := s.o.Tokenizer.Count([]byte(first.Around(""))); n > most {
			longest, most = first, n
		}
	}
	return longest
}

// cut is what a prefix cache may know of a session whose marker no other session has: what stands before the marker.
type cut uint8

const (
	nowhere      cut = iota // there is no such marker
	beforeSystem            // nothing
	afterSystem             // the system message
	beforeFirst             // the system message and, of an entry that is sent again, the user context
	afterFirst              // all but the marker
)

func (s *Source) cut() cut {
	onSystem := s.hasSystem()
	switch s.o.CacheBust {
	case BustSystemPrefix:
		if onSystem {
			return beforeSystem
		}
		return beforeFirst
	case BustSystemSuffix:
		if onSystem {
			return afterSystem
		}
		return afterFirst
	case BustFirstTurnPrefix:
		return beforeFirst
	case BustFirstTurnSuffix:
		return afterFirst
	}
	return nowhere
}

// renews reports whether a text that is sent again is new to a prefix cache, since a new marker stands before it.
func (c cut) renews() bool { return c == beforeSystem || c == afterSystem || c == beforeFirst }
