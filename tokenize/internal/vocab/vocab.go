// Package vocab holds the tokens of a vocabulary: an open-addressing table beside one arena.
package vocab

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
)

// None is what a look-up gives for bytes that are no token.
const None = int32(-1)

// Table maps tokens to ids and back. Slots hold the beginning of their token, so that a look-up reads the arena for tokens past 8 bytes
// alone. It is filled by Add and only read from then on.
type Table struct {
	arena []byte
	spans []span // by id
	slots []slot // a power of two, at most half full
	held  int    // slots in use
	seed  maphash.Seed
	long  int // length of the longest token
}

// span is where a token lies in the arena; a size of 0 is an id without a token.
type span struct{ from, size uint32 }

type slot struct {
	key  uint64 // the first 8 bytes, little-endian; the rest 0
	size int32  // length of the token; 0 = free
	id   int32
}

// New makes an empty table with room for tokens of bytes bytes together; with more it grows.
func New(tokens, bytes int) *Table {
	size := 16
	for size < 2*tokens {
		size *= 2
	}
	return &Table{seed: maphash.MakeSeed(), slots: make([]slot, size), arena: make([]byte, 0, bytes), spans: make([]span, 0, tokens)}
}

// Add enters token, which is not empty, under id. It says false, and changes nothing, where the table holds the token already or the id has
// another.
func (t *Table) Add(token []byte, id int32) bool {
	if len(token) == 0 || id < 0 || t.Find(token, 0, len(token)) != None || int(id) < len(t.spans) && t.spans[id].size != 0 {
		return false
	}
	if 2*(t.held+1) > len(t.slots) {
		t.grow()
	}
	for int(id) >= len(t.spans) {
		t.spans = append(t.spans, span{})
	}
	t.spans[id] = span{uint32(len(t.arena)), uint32(len(token))}
	t.arena = append(t.arena, token...)
	t.long = max(t.long, len(token))
	t.place(token, id)
	return true
}

func (t *Table) place(token []byte, id int32) {
	k := key(token, 0, len(token))
	i := t.home(k, token, 0, len(token))
	for t.slots[i].size != 0 {
		i = (i + 1) & (len(t.slots) - 1)
	}
	t.slots[i] = slot{key: k, size: int32(len(token)), id: id}
	t.held++
}

func (t *Table) grow() {
	old := t.slots
	t.slots, t.held = make([]slot, 2*len(old)), 0
	for _, s := range old {
		if s.size != 0 {
			t.place(t.Token(s.id), s.id)
		}
	}
}

// Len is the highest id plus one.
func (t *Table) Len() int { return len(t.spans) }

// Token is the token of id, which is at least 0; empty where there is none.
func (t *Table) Token(id int32) []byte {
	if int(id) >= len(t.spans) {
		return nil
	}
	s := t.spans[id]
	return t.arena[s.from : s.from+s.size]
}

// Find is the id of the token text[at:end], or None.
func (t *Table) Find(text []byte, at, end int) int32 {
	n := end - at
	if n > t.long {
		return None
	}
	k := key(text, at, end)
	for i := t.home(k, text, at, end); ; i = (i + 1) & (len(t.slots) - 1) {
		s := &t.slots[i]
		if s.size == 0 {
			return None
		}
		if s.key == k && int(s.size) == n && (n <= 8 || string(t.Token(s.id)) == string(text[at:end])) {
			return s.id
		}
	}
}

// key is the first 8 bytes of text[at:end].
func key(text []byte, at, end int) uint64 {
	n := end - at
	if at+8 <= len(text) {
		k := binary.LittleEndian.Uint64(text[at:])
		if n < 8 {
			k &= 1<<(8*n) - 1
		}
		return k
	}
	k := uint64(0)
	for i := range min(n, 8) {
		k |= uint64(text[at+i]) << (8 * i)
	}
	return k
}

// home is the slot where the search for text[at:end], whose key is k, begins.
func (t *Table) home(k uint64, text []byte, at, end int) int {
	n := end - at
	if n > 8 {
		return int(maphash.Bytes(t.seed, text[at:end])) & (len(t.slots) - 1)
	}
	high, low := bits.Mul64(k^0x9e3779b97f4a7c15, 0xd6e8feb86659fd93^uint64(n)<<56)
	return int(high^low) & (len(t.slots) - 1)
}
