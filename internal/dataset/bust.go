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

// marker is what stands before and after a text; at most one of both is not empty.
type marker struct{ before, after string }

// markers gives the markers of a stream's index-th session, for its system message and for its first turn. A session that sends an entry
// again has a marker of its own.
func (s *Source) markers(stream int, index int64) (system, first marker) {
	id := func() uint64 { return rand.NewPCG(s.keys[stream]^marks, uint64(index)).Uint64() >> 16 }
	var mark marker
	onSystem := false
	switch b := s.o.CacheBust; b {
	case NoBust:
		return
	case BustIsolateWarmupSystem, BustIsolateWarmupOnFirst:
		if !s.warms(stream) {
			return
		}
		mark.before, onSystem = isolationMarker, b == BustIsolateWarmupSystem
	case BustSystemPrefix, BustFirstTurnPrefix:
		mark.before, onSystem = fmt.Sprintf("[rid:%012x]\n\n", id()), b == BustSystemPrefix
	default:
		mark.after, onSystem = fmt.Sprintf("\n\n[rid:%012x]", id()), b == BustSystemSuffix
	}
	if onSystem && s.hasSystem() {
		return mark, marker{}
	}
	return marker{}, mark
}

// longestMarker is one of the longest markers that a first turn may have. The tokens of a marker's digits vary a little.
func (s *Source) longestMarker() marker {
	var longest marker
	most := 0
	for i := range int64(32) {
		_, first := s.markers(0, i) // the prewarm's stream has each kind
		if n := s.o.Tokenizer.Count([]byte(first.before + first.after)); n > most {
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
