package dataset

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"

	"prefire/loadgen"
	"prefire/metrics"
	"prefire/tokenize"
)

// window is how many tokens after the template's fixed words must differ between prompts: one block of a prefix cache.
const window = 16

// prompt is one session made ahead, or why it could not be made.
type prompt struct {
	session *loadgen.Session
	err     error
	number  uint64 // what its opening spells
	words   int    // words of the opening within the window
	again   bool   // a later use of an entry
}

// maker makes prompts; one goroutine uses it. A prompt follows from the seed, the stream and the entry alone.
type maker struct {
	s      *Source
	pcg    *rand.PCG
	rng    *rand.Rand
	choice []int
	prefix []byte
	buf    []byte
	ids    []int32
}

func (s *Source) newMaker() *maker {
	pcg := rand.NewPCG(0, 0)
	return &maker{s: s, pcg: pcg, rng: rand.New(pcg), choice: make([]int, len(s.o.Variables))}
}

// make makes the index-th session of a stream.
func (m *maker) make(stream int, index int64) prompt {
	s := m.s
	entry := index
	if s.o.Entries > 0 {
		entry = index % int64(s.o.Entries)
	}
	m.pcg.Seed(s.keys[stream], uint64(entry))
	for i, v := range s.o.Variables {
		m.choice[i] = m.rng.IntN(len(v.Values))
	}
	var suffix []byte
	var from int
	m.prefix, suffix, from = s.frame.fill(m.choice, m.prefix)

	// Streams share out the numbers, so that no two prompts of the run have the same one.
	number := uint64(entry)*uint64(len(s.keys)) + uint64(stream)
	n, words, err := m.fit(m.prefix, suffix, number)
	if err != nil {
		return prompt{err: s.explain(err, m.choice)}
	}
	p := prompt{number: number, again: entry != index, words: m.within(from, words)}
	turn := loadgen.Turn{
		Messages:   []loadgen.Message{{Role: "user", Content: string(m.buf)}},
		Input:      metrics.Known(int64(n)),
		PromptHash: m.hash(m.buf[from:]),
	}
	if s.o.Output.Mean > 0 {
		turn.MaxTokens = m.draw(s.o.Output, 1)
	}
	p.session = &loadgen.Session{Index: index, ID: m.id(stream, entry), Turns: []loadgen.Turn{turn}}
	return p
}

// fit makes m.buf a text of a drawn length and gives the length, and how many words of the opening it has. With a deviation, a length that the fixed words leave no room for
// is drawn again.
func (m *maker) fit(prefix, suffix []byte, number uint64) (n, words int, err error) {
	if m.s.o.Input.Stddev == 0 {
		return m.fitTo(prefix, suffix, m.s.o.Input.fixed(), number)
	}
	m.buf = append(append(m.buf[:0], prefix...), suffix...)
	least := max(1, m.s.o.Tokenizer.Count(m.buf))
	for tries := 0; ; tries++ {
		n, words, err = m.fitTo(prefix, suffix, m.draw(m.s.o.Input, least), number)
		var unfit *tokenize.UnfitError
		if !errors.As(err, &unfit) || tries == 100 {
			return n, words, err
		}
	}
}

func (m *maker) fitTo(prefix, suffix []byte, n int, number uint64) (length, words int, err error) {
	m.buf, words, err = m.s.fit.FitNumbered(m.buf[:0], prefix, suffix, n, number, m.rng)
	return n, words, err
}

// draw draws a length of at least least tokens.
func (m *maker) draw(l Length, least int) int {
	if l.Stddev == 0 {
		return max(least, l.fixed())
	}
	for range 1000 {
		x := l.Mean + l.Stddev*m.rng.NormFloat64()
		if x < 0 || x > math.MaxInt32 {
			continue
		}
		if n := max(1, int(math.Ceil(x))); n >= least {
			return n
		}
	}
	return least
}

// within is how many of the first words of the generated text, which follows m.prefix, lie within the window that begins at m.buf[from].
func (m *maker) within(from, words int) int {
	for ; words > 0; words-- {
		end := len(m.prefix)
		for range words {
			end += bytes.IndexFunc(m.buf[end:], isLetter)
			end += wordLength(m.buf[end:])
		}
		if m.s.o.Tokenizer.Count(m.buf[from:end]) <= window {
			break
		}
	}
	return words
}

// isLetter reports whether r may stand in a generated word.
func isLetter(r rune) bool { return r|0x20 >= 'a' && r|0x20 <= 'z' }

func wordLength(text []byte) int {
	for i, c := range text {
		if !isLetter(rune(c)) {
			return i
		}
	}
	return len(text)
}

// hash hashes the first tokens of text, never to 0. So many bytes are enough for any text that is not made of very long tokens.
func (m *maker) hash(text []byte) uint64 {
	const enough = 16 * window
	m.ids = m.s.o.Tokenizer.Append(m.ids[:0], text[:min(len(text), enough)])
	h := fnv.New64a()
	var b [4]byte
	for _, id := range m.ids[:min(len(m.ids), window)] {
		binary.LittleEndian.PutUint32(b[:], uint32(id))
		h.Write(b[:])
	}
	return max(h.Sum64(), 1)
}

// id is the session's id: the first profiling phase has aiperf's own, other streams name themselves in it, so that no two sessions of a run
// share one. Later uses of an entry have its id again, as in aiperf.
func (m *maker) id(stream int, entry int64) string {
	switch {
	case m.s.o.RandomIDs:
		var b [16]byte
		binary.BigEndian.PutUint64(b[:8], m.rng.Uint64())
		binary.BigEndian.PutUint64(b[8:], m.rng.Uint64())
		b[6] = b[6]&0x0f | 0x40 // version 4
		b[8] = b[8]&0x3f | 0x80 // variant of RFC 9562
		return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
	case stream == 0:
		return fmt.Sprintf("session_prewarm_%06d", entry)
	case stream == m.s.plain:
		return fmt.Sprintf("session_%06d", entry)
	}
	return fmt.Sprintf("session_%d_%06d", stream-1, entry)
}
