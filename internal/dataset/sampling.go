package dataset

import (
	"fmt"
	"math/bits"
)

// Sampling is the order in which the entries of a dataset are taken.
type Sampling string

const (
	Sequential Sampling = "sequential" // in their own order, and again from the first
	Random     Sampling = "random"     // any, each as likely, again and again
	Shuffle    Sampling = "shuffle"    // all in an order drawn anew each time round
)

func (s Sampling) check() error {
	switch s {
	case "", Sequential, Random, Shuffle:
		return nil
	}
	return fmt.Errorf("sampling %q; allowed: %s, %s and %s", s, Sequential, Random, Shuffle)
}

// drawn is an entry of a stream.
type drawn struct {
	stream int
	entry  int64
}

// shuffled is what stands at place i, below n, of an order of the numbers below n that follows from the key: a Feistel network over the next
// even power of two, walked until it leads below n (Black and Rogaway 2002, cycle walking). Nothing is held of the order, so that any place
// can be asked for by itself.
func shuffled(i, n, key uint64) uint64 {
	half := (bits.Len64(n-1) + 1) / 2
	mask := uint64(1)<<half - 1
	for {
		left, right := i>>half, i&mask
		for round := range uint64(6) {
			left, right = right, left^(mix64(right+(round+1)*repeats^key)&mask)
		}
		if i = left<<half | right; i < n {
			return i
		}
	}
}

// mix64 is the finalizer of SplitMix64, which makes each bit depend on all.
func mix64(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
