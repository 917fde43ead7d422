package dataset

import (
	"slices"
	"testing"
)

// Any order is one of all entries, and those of two keys are not the same.
func TestAnOrderHasEachEntryOnce(t *testing.T) {
	for _, n := range []uint64{1, 2, 3, 4, 5, 16, 17, 100, 1023, 1025} {
		var before []uint64
		for key := range uint64(4) {
			var got []uint64
			for i := range n {
				got = append(got, shuffled(i, n, key))
			}
			if n >= 16 && slices.Equal(got, before) {
				t.Errorf("%d entries: the orders of key %d and of the one before it are the same", n, key)
			}
			before = slices.Clone(got)
			slices.Sort(got)
			for i, entry := range got {
				if entry != uint64(i) {
					t.Fatalf("%d entries, key %d: %v", n, key, got)
				}
			}
		}
	}
}

// The first place of an order is any entry, about as often as another.
func TestAnOrderPrefersNoEntry(t *testing.T) {
	var count [10]int
	for key := range uint64(10_000) {
		count[shuffled(0, 10, key*0x9e3779b97f4a7c15)]++
	}
	for entry, n := range count {
		if n < 800 || n > 1200 { // six standard deviations and more
			t.Errorf("entry %d came first %d times of 10,000", entry, n)
		}
	}
}

func TestEntriesAreTakenInTheOrderAskedFor(t *testing.T) {
	const entries, sessions = 7, 70
	for _, how := range []Sampling{"", Sequential, Shuffle, Random} {
		run := func() (ids []string, stats Stats) {
			o := options(24)
			o.Entries, o.Sampling = entries, how
			s := source(t, o)
			for _, session := range take(t, s, profiling, sessions) {
				ids = append(ids, session.ID)
			}
			return ids, s.Stats()
		}
		ids, stats := run()
		if again, _ := run(); !slices.Equal(ids, again) {
			t.Errorf("%q: the same seed gave another order\n%v\n%v", how, ids, again)
		}
		distinct := slices.Compact(slices.Sorted(slices.Values(ids)))
		if stats.Distinct != int64(len(distinct)) || stats.Repeated != sessions-stats.Distinct {
			t.Errorf("%q: %+v, but %d different sessions of %d", how, stats, len(distinct), sessions)
		}
		rounds := map[string]bool{}
		each := true
		for round := range slices.Chunk(ids, entries) {
			rounds[round[0]+round[1]+round[2]] = true
			sorted := slices.Sorted(slices.Values(round))
			each = each && slices.Equal(sorted, distinct)
		}
		if each != (how != Random) || (len(rounds) == 1) != (how == "" || how == Sequential) {
			t.Errorf("%q: each entry once a round %v, %d different rounds of 10:\n%v", how, each, len(rounds), ids)
		}
	}
	if _, err := New(Options{Tokenizer: builtin(), Input: Length{Mean: 24}, Sampling: "any"}); err == nil ||
		err.Error() != `sampling "any"; allowed: sequential, random and shuffle` {
		t.Errorf("an unknown sampling: %v", err)
	}
}
