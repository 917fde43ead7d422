package endpoint

import (
	"encoding/binary"
	"testing"
)

func TestPlainStopsAtTheFirstSpecialByte(t *testing.T) {
	var b [8]byte
	for at := range b {
		for c := range 256 {
			for _, other := range []byte{0x20, 'a', 0x7f, 0x80, 0xff} {
				for i := range b {
					b[i] = other
				}
				b[at] = byte(c)
				want := 8
				if special[byte(c)] {
					want = at
				}
				if got := plain(binary.LittleEndian.Uint64(b[:])); got != want {
					t.Fatalf("% x: %d, want %d", b, got, want)
				}
				// What lies above the first special byte must not matter.
				for i := at + 1; want < 8 && i < 8; i++ {
					b[i] = '"'
				}
				if got := plain(binary.LittleEndian.Uint64(b[:])); got != want {
					t.Fatalf("% x: %d, want %d", b, got, want)
				}
			}
		}
	}
}
