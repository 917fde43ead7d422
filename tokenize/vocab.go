package tokenize

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"math/bits"
)

// none is what a look-up gives for bytes that are no token.
const none = int32(-1)

// decoder gives the bytes of a token, or an error for an id it does not have.
type decoder interface {
	Decode(ids []uint) (string, error)
}

// vocabulary maps tokens to ids and back: an open-addressing table beside one arena. Slots hold the beginning of their token, so that a
// look-up reads the arena for tokens past 8 bytes alone.
type vocabulary struct {
	arena []byte
	ends  []uint32 // ends[id] is the end of the token in arena; it begins where the one before ends
	slots []slot   // a power of two, at most half full
	seed  maphash.Seed
	long  int // length of the longest token
}

type slot struct {
	key  uint64 // the first 8 bytes, little-endian; the rest 0
	size int32  // length of the token; 0 = free
	id   int32
}

// newVocabulary reads ids from 0 up to the first one that source does not have. Ids must be the ranks of a byte-pair encoding, so all
// single bytes must be there.
func newVocabulary(source decoder) (*vocabulary, error) {
	v := &vocabulary{seed: maphash.MakeSeed()}
	one := make([]uint, 1)
	for ; ; one[0]++ {
		token, err := source.Decode(one)
		if err != nil {
			break
		}
		v.arena = append(v.arena, token...)
		v.ends = append(v.ends, uint32(len(v.arena)))
		v.long = max(v.long, len(token))
	}
	size := 1
	for size < 2*len(v.ends) {
		size *= 2
	}
	v.slots = make([]slot, size)
	for id := range v.ends {
		token := v.token(int32(id))
		if v.find(token, 0, len(token)) != none {
			return nil, fmt.Errorf("its vocabulary holds the token %q twice", token)
		}
		k := key(token, 0, len(token))
		i := v.home(k, token, 0, len(token))
		for v.slots[i].size != 0 {
			i = (i + 1) & (size - 1)
		}
		v.slots[i] = slot{key: k, size: int32(len(token)), id: int32(id)}
	}
	for c := range 256 {
		if v.find([]byte{byte(c)}, 0, 1) == none {
			return nil, fmt.Errorf("its vocabulary lacks the byte %#02x", c)
		}
	}
	return v, nil
}

func (v *vocabulary) len() int { return len(v.ends) }

func (v *vocabulary) token(id int32) []byte {
	from := uint32(0)
	if id > 0 {
		from = v.ends[id-1]
	}
	return v.arena[from:v.ends[id]]
}

// find is the id of the token text[at:end], or none.
func (v *vocabulary) find(text []byte, at, end int) int32 {
	n := end - at
	if n > v.long {
		return none
	}
	k := key(text, at, end)
	for i := v.home(k, text, at, end); ; i = (i + 1) & (len(v.slots) - 1) {
		s := &v.slots[i]
		if s.size == 0 {
			return none
		}
		if s.key == k && int(s.size) == n && (n <= 8 || string(v.token(s.id)) == string(text[at:end])) {
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
func (v *vocabulary) home(k uint64, text []byte, at, end int) int {
	n := end - at
	if n > 8 {
		return int(maphash.Bytes(v.seed, text[at:end])) & (len(v.slots) - 1)
	}
	high, low := bits.Mul64(k^0x9e3779b97f4a7c15, 0xd6e8feb86659fd93^uint64(n)<<56)
	return int(high^low) & (len(v.slots) - 1)
}
