package sweep

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// Seeds says which seed each run of a series draws from.
type Seeds struct {
	Base uint64
	// Same: all variations have the base's seed; otherwise each has the base + its index.
	Same bool
	// Vary: each repeat has a seed of its own, from a hash of the base, the variation's label and the repeat, as aiperf's
	// --vary-seed-per-trial has it.
	Vary bool
}

// Of is the seed of one run.
func (s Seeds) Of(v *Variation, trial int) uint64 {
	switch {
	case s.Vary:
		label := v.Label
		if s.Same {
			label = Base().Label
		}
		sum := sha256.Sum256(fmt.Appendf(nil, "%d:variation:%s:trial:%d", s.Base, label, trial))
		return binary.BigEndian.Uint64(sum[:]) &^ (1 << 63)
	case s.Same:
		return s.Base
	}
	return s.Base + uint64(v.Index)
}
