package tokenize

import (
	"fmt"
	"slices"

	"prefire/tokenize/internal/vocab"
)

// decoder gives the bytes of a token, or an error for an id it does not have.
type decoder interface {
	Decode(ids []uint) (string, error)
}

// ranked reads ids from 0 up to the first one that source does not have; those of special tokens, which may lie between, are left out. Ids
// must be the ranks of a byte-pair encoding, so all single bytes must be there.
func ranked(source decoder, specials []special) (*vocab.Table, error) {
	v := vocab.New(1<<17, 1<<20)
	one := make([]uint, 1)
	for ; ; one[0]++ {
		if slices.ContainsFunc(specials, func(s special) bool { return uint(s.id) == one[0] }) {
			continue
		}
		token, err := source.Decode(one)
		if err != nil {
			break
		}
		if !v.Add([]byte(token), int32(one[0])) {
			return nil, fmt.Errorf("its vocabulary holds the token %q twice", token)
		}
	}
	for c := range 256 {
		if v.Find([]byte{byte(c)}, 0, 1) == vocab.None {
			return nil, fmt.Errorf("its vocabulary lacks the byte %#02x", c)
		}
	}
	return v, nil
}
