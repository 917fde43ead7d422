package hf

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"unicode"
	"unicode/utf8"

	"prefire/tokenize/internal/scan"
)

// normalizer appends src, which is not empty, to dst in another spelling. src and dst do not overlap. One that drops the beginning of the
// text says so in s.dropped.
type normalizer interface {
	apply(dst, src []byte, s *scratch) []byte
}

// normalize runs all normalizers over text.
func (t *Tokenizer) normalize(s *scratch, text []byte) []byte {
	s.dropped = false
	for i, n := range t.normalizers {
		if len(text) == 0 {
			break
		}
		buffer := &s.normal[i%2]
		*buffer = n.apply((*buffer)[:0], text, s)
		text = *buffer
	}
	return text
}

type prepend []byte

func (p prepend) apply(dst, src []byte, _ *scratch) []byte { return append(append(dst, p...), src...) }

type replace struct{ old, new []byte }

func (r replace) apply(dst, src []byte, _ *scratch) []byte { return replaceAll(dst, src, r.old, r.new) }

// squeeze writes every run of two spaces or more as new.
type squeeze []byte

func (q squeeze) apply(dst, src []byte, _ *scratch) []byte {
	for len(src) > 0 {
		i := bytes.Index(src, []byte("  "))
		if i < 0 {
			break
		}
		dst = append(append(dst, src[:i]...), q...)
		src = bytes.TrimLeft(src[i:], " ")
	}
	return append(dst, src...)
}

type strip struct {
	classes     *scan.Classes
	left, right bool
}

func (n strip) apply(dst, src []byte, s *scratch) []byte {
	if n.left {
		from := spaceBehind(n.classes, src, 0)
		s.dropped = s.dropped || from > 0
		src = src[from:]
	}
	if n.right {
		src = src[:spaceBefore(n.classes, src, len(src))]
	}
	return append(dst, src...)
}

// each writes every character anew; one that becomes none is dropped.
type each func(dst []byte, r rune) []byte

func (f each) apply(dst, src []byte, s *scratch) []byte {
	start := len(dst)
	for i := 0; i < len(src); {
		r, n := utf8.DecodeRune(src[i:])
		i += n
		dst = f(dst, r)
		s.dropped = s.dropped || len(dst) == start
	}
	return dst
}

func lower(dst []byte, r rune) []byte {
	switch {
	case r < utf8.RuneSelf:
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return append(dst, byte(r))
	case r == 'İ':
		return append(dst, "i\u0307"...)
	// Pairs of Unicode 16 and 17, whose tables tokenizers has.
	case r == 0x1C89, r == 0xA7CC, r == 0xA7CE, r == 0xA7D2, r == 0xA7D4, r == 0xA7DA:
		return utf8.AppendRune(dst, r+1)
	case r == 0xA7CB:
		return utf8.AppendRune(dst, 0x264)
	case r == 0xA7DC:
		return utf8.AppendRune(dst, 0x19B)
	case r >= 0x10D50 && r <= 0x10D65:
		return utf8.AppendRune(dst, r+0x20)
	case r >= 0x16EA0 && r <= 0x16EB8:
		return utf8.AppendRune(dst, r+0x1B)
	}
	return utf8.AppendRune(dst, unicode.ToLower(r))
}

// nmt is the clean-up of SentencePiece's rules for translation.
func nmt(dst []byte, r rune) []byte {
	switch {
	case r >= 1 && r <= 8, r == 0xB, r >= 0xE && r <= 0x1F, r == 0x7F, r == 0x8F, r == 0x9F:
		return dst
	case r == '\t', r == '\n', r == '\f', r == '\r', r == 0x1680, r >= 0x200B && r <= 0x200F, r == 0x2028, r == 0x2029, r == block, r == 0xFEFF,
		r == utf8.RuneError:
		return append(dst, ' ')
	}
	return utf8.AppendRune(dst, r)
}

// bertClean drops control characters and makes all white space plain.
func bertClean(k *scan.Classes) each {
	return func(dst []byte, r rune) []byte {
		switch {
		case r == '\t', r == '\n', r == '\r':
			return append(dst, ' ')
		case r == 0, r == utf8.RuneError, k.Control(r):
			return dst
		case k.Space(r):
			return append(dst, ' ')
		}
		return utf8.AppendRune(dst, r)
	}
}

// bertChinese puts spaces around ideographs.
func bertChinese(dst []byte, r rune) []byte {
	switch {
	case r >= 0x4E00 && r <= 0x9FFF, r >= 0x3400 && r <= 0x4DBF, r >= 0x20000 && r <= 0x2A6DF, r >= 0x2A700 && r <= 0x2B81F,
		r >= 0x2B920 && r <= 0x2CEAF, r >= 0xF900 && r <= 0xFAFF, r >= 0x2F800 && r <= 0x2FA1F:
		return append(utf8.AppendRune(append(dst, ' '), r), ' ')
	}
	return utf8.AppendRune(dst, r)
}

// without drops the characters that are what says.
func without(what func(rune) bool) each {
	return func(dst []byte, r rune) []byte {
		if what(r) {
			return dst
		}
		return utf8.AppendRune(dst, r)
	}
}

// charsmap is SentencePiece's compiled table of replacements: a double-array trie over UTF-8, and the replacements, each ended by a 0.
type charsmap struct {
	units []uint32
	texts []byte
	plain bool // it leaves printable ASCII as it is
}

var errCharsmap = errors.New("is no compiled table of replacements (base64 of a trie and its texts)")

func newCharsmap(encoded string) (*charsmap, error) {
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || len(raw) < 4 {
		return nil, errCharsmap
	}
	size := binary.LittleEndian.Uint32(raw)
	raw = raw[4:]
	if size%4 != 0 || size == 0 || uint64(size) > uint64(len(raw)) {
		return nil, errCharsmap
	}
	m := &charsmap{units: make([]uint32, size/4), texts: raw[size:]}
	for i := range m.units {
		m.units[i] = binary.LittleEndian.Uint32(raw[4*i:])
	}
	m.plain = true
	for c := byte(' '); c < 0x7F; c++ {
		if _, ok := m.find([]byte{c}); ok {
			m.plain = false
		}
	}
	return m, nil
}

func (m *charsmap) apply(dst, src []byte, s *scratch) []byte {
	if m.plain && isPrintable(src) {
		return append(dst, src...)
	}
	s.graphemes.SetText(src)
	for s.graphemes.Next() {
		g := s.graphemes.Value()
		if len(g) < 6 {
			if text, ok := m.find(g); ok {
				dst = append(dst, text...)
				continue
			}
		}
		for len(g) > 0 {
			_, n := utf8.DecodeRune(g)
			if text, ok := m.find(g[:n]); ok {
				dst = append(dst, text...)
			} else {
				dst = append(dst, g[:n]...)
			}
			g = g[n:]
		}
	}
	return dst
}

// isPrintable reports that every byte is printable ASCII, and so a grapheme of its own.
func isPrintable(text []byte) bool {
	for _, c := range text {
		if c < ' ' || c >= 0x7F {
			return false
		}
	}
	return true
}

// find is the replacement for the shortest beginning of key that has one.
func (m *charsmap) find(key []byte) ([]byte, bool) {
	at := offset(m.units[0])
	for _, c := range key {
		if c == 0 {
			break
		}
		at ^= uint32(c)
		if uint64(at) >= uint64(len(m.units)) {
			break
		}
		unit := m.units[at]
		if unit&(1<<31|0xFF) != uint32(c) {
			break
		}
		if at ^= offset(unit); unit>>8&1 == 1 {
			if uint64(at) >= uint64(len(m.units)) {
				break
			}
			from := m.units[at] & (1<<31 - 1)
			if uint64(from) >= uint64(len(m.texts)) {
				return nil, true
			}
			text := m.texts[from:]
			if end := bytes.IndexByte(text, 0); end >= 0 {
				text = text[:end]
			}
			return text, true
		}
	}
	return nil, false
}

func offset(unit uint32) uint32 { return unit >> 10 << (unit & (1 << 9) >> 6) }
