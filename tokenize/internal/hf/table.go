package hf

import "math/bits"

// table maps 64-bit keys to 64-bit values: open addressing, at most half full. It is filled first and only read from then on.
type table struct {
	slots []cell
	held  int
}

type cell struct {
	key   uint64 // plus one; 0 = free
	value uint64
}

func newTable(n int) *table {
	size := 16
	for size < 2*n {
		size *= 2
	}
	return &table{slots: make([]cell, size)}
}

// set enters value under key, which is below the largest number, in place of what was there.
func (t *table) set(key, value uint64) {
	if 2*(t.held+1) > len(t.slots) {
		old := t.slots
		t.slots, t.held = make([]cell, 2*len(old)), 0
		for _, c := range old {
			if c.key != 0 {
				t.set(c.key-1, c.value)
			}
		}
	}
	i := t.home(key)
	for t.slots[i].key != 0 && t.slots[i].key != key+1 {
		i = (i + 1) & (len(t.slots) - 1)
	}
	if t.slots[i].key == 0 {
		t.held++
	}
	t.slots[i] = cell{key + 1, value}
}

func (t *table) get(key uint64) (uint64, bool) {
	for i := t.home(key); ; i = (i + 1) & (len(t.slots) - 1) {
		switch c := &t.slots[i]; c.key {
		case key + 1:
			return c.value, true
		case 0:
			return 0, false
		}
	}
}

func (t *table) home(key uint64) int {
	high, low := bits.Mul64(key^0x9e3779b97f4a7c15, 0xd6e8feb86659fd93)
	return int(high^low) & (len(t.slots) - 1)
}

// trie finds the strings that a text begins with. Its edges are in one table, so that a walk allocates nothing.
type trie struct {
	edges *table
	ends  []int32 // by node: what was added under the string that ends there, or -1
	first [256]bool
}

func newTrie(n int) *trie { return &trie{edges: newTable(n), ends: []int32{-1}} }

func (t *trie) add(s []byte, what int32) {
	node := uint64(0)
	for _, c := range s {
		next, ok := t.edges.get(node<<8 | uint64(c))
		if !ok {
			next = uint64(len(t.ends))
			t.ends = append(t.ends, -1)
			t.edges.set(node<<8|uint64(c), next)
		}
		node = next
	}
	t.ends[node] = what
	t.first[s[0]] = true
}

// longest is what was added under the longest string that text[at:] begins with, and its end; -1 where there is none.
func (t *trie) longest(text []byte, at int) (what int32, end int) {
	what = -1
	node := uint64(0)
	for i := at; i < len(text); i++ {
		next, ok := t.edges.get(node<<8 | uint64(text[i]))
		if !ok {
			break
		}
		node = next
		if t.ends[node] >= 0 {
			what, end = t.ends[node], i+1
		}
	}
	return what, end
}
