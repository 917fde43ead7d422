package dataset

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"time"
	"unicode"

	"prefire/loadgen"
	"prefire/metrics"
	"prefire/tokenize"
)

// window is how many tokens after the fixed words must differ between prompts: one block of a prefix cache.
const window = 16

// prompt is one session made ahead, or why it could not be made.
type prompt struct {
	session  *loadgen.Session
	err      error
	overhead int     // of the chat template, as it was when the prompt was made
	ratio    float64 // of Source.Scale, likewise
	number   uint64  // what its opening spells
	words    int     // words of the opening within the window
	window   uint64  // a hash of the window, where these words are too few to tell whether it is new
	again    bool    // a later use of an entry
	random   bool    // whether it is one shows when it is handed out
	stream   int
	entry    int64
	pool     int  // which prefix of the pool it begins with; -1 = none
	warms    bool // it is not measured
}

// maker makes prompts; one goroutine uses it. A prompt follows from the seed, the stream and the entry alone, its marker from its place in the
// stream too.
type maker struct {
	s      *Source
	fitter *tokenize.Fitter
	judge  *judge  // where lengths are another party's count, else nil
	ratio  float64 // of Source.Scale
	pcg    *rand.PCG
	rng    *rand.Rand
	choice []int
	prefix []byte
	buf    []byte
	all    []byte
	ids    []int32
}

func (s *Source) newMaker() *maker {
	pcg := rand.NewPCG(0, 0)
	m := &maker{s: s, ratio: s.scale(), fitter: s.fit, pcg: pcg, rng: rand.New(pcg), choice: make([]int, len(s.o.Variables))}
	if s.o.Count != nil {
		m.judge = &judge{s: s}
		m.fitter = s.fit.CountedBy(m.judge)
	}
	return m
}

// make makes the index-th session of a stream.
func (m *maker) make(stream int, index int64) prompt {
	s := m.s
	entry, again := m.entry(stream, index)
	m.pcg.Seed(s.keys[stream], uint64(entry))
	m.ratio = s.scale()
	p := prompt{again: again, random: s.o.Entries > 0 && s.o.Sampling == Random, stream: stream, entry: entry, overhead: int(s.overhead.Load()), ratio: m.ratio, pool: -1, warms: s.warms(stream)}
	p.session = &loadgen.Session{Index: index}
	turns := 1
	if s.o.Turns.given() {
		turns = s.o.Turns.draw(m.rng, 1)
	}
	for i := range turns {
		turn, err := m.turn(&p, stream, entry, i)
		if err != nil {
			return prompt{err: err, overhead: p.overhead, ratio: p.ratio}
		}
		p.session.Turns = append(p.session.Turns, turn)
	}
	p.session.ID = m.id(stream, entry)
	return p
}

// entry is which prompt of its stream the index-th session has, and whether that was used before.
func (m *maker) entry(stream int, index int64) (entry int64, again bool) {
	switch {
	case m.s.o.Entries > 0:
		n, key := int64(m.s.o.Entries), m.s.keys[stream]^order
		switch m.s.o.Sampling {
		case Random:
			m.pcg.Seed(key, uint64(index))
			return m.rng.Int64N(n), false
		case Shuffle:
			return int64(shuffled(uint64(index%n), uint64(n), key+uint64(index/n))), index >= n
		}
		entry = index % n
		return entry, entry != index
	case m.s.repeat > 0:
		// Repeats are spread evenly: after i sessions there are i times the share of them.
		before := index * m.s.repeat / million
		fresh := index - before
		if (index+1)*m.s.repeat/million > before && fresh > 0 {
			m.pcg.Seed(m.s.keys[stream]^repeats, uint64(index))
			return m.rng.Int64N(fresh), true
		}
		return fresh, false
	}
	return index, false
}

const (
	million = 1_000_000
	repeats = 0x9e3779b97f4a7c15 // sets the draws of repeats apart from those of prompts
	marks   = 0xd1b54a32d192ed03 // and those of markers
	order   = 0xaef17502108ef2d9 // and those of the order of entries
)

// turn makes the i-th turn of a session.
func (m *maker) turn(p *prompt, stream int, entry int64, i int) (loadgen.Turn, error) {
	s := m.s
	lengths := pick(s.mix, m.rng)
	// Streams share out the numbers, and so do the texts of a session, so that no two of the run have the same one. What follows an answer is
	// new by that.
	number := uint64(entry)*uint64(len(s.keys)) + uint64(stream)
	if i > 0 {
		number = m.rng.Uint64N(s.fit.Distinct(tokenize.OpeningWords))
	}
	var turn loadgen.Turn
	var first Marker
	if i == 0 {
		var err error
		if first, err = m.preface(&turn, stream, p.session.Index, number); err != nil {
			return turn, err
		}
		if s.o.UserContext > 0 { // the first text that is the session's own
			p.number, p.words = number, tokenize.OpeningWords
		}
	} else if s.o.Delay.given() {
		turn.Delay = time.Duration(float64(s.o.Delay.draw(m.rng, 1)) * s.o.DelayRatio * float64(time.Millisecond))
	}
	batch := max(1, s.o.Batch)
	texts := make([]string, batch)
	tokens := 0
	for j := range texts {
		overhead := 0
		if i == 0 && j == 0 {
			overhead = p.overhead
		}
		from, words, n, err := m.text(p, lengths, number*uint64(batch)+uint64(j), overhead, first, i == 0)
		if err != nil {
			return turn, err
		}
		texts[j], tokens = string(m.buf), n
		if i == 0 && j == 0 && p.words == 0 {
			p.number, p.words = number*uint64(batch), m.within(from, words)
			if p.words < sure {
				p.window = m.hash(m.buf[from:])
			}
		}
	}
	message := loadgen.Message{Role: "user", Content: texts[0]}
	if batch > 1 {
		message = loadgen.Message{Role: "user", Content: strings.Join(texts, " "), Texts: texts}
	}
	turn.Messages = append(turn.Messages, message)
	if len(turn.Messages) > 1 || batch > 1 {
		m.all = m.all[:0]
		for k := range turn.Messages {
			if k > 0 {
				m.all = append(m.all, ' ')
			}
			m.all = append(m.all, turn.Messages[k].Content...)
		}
		var err error
		if tokens, err = m.count(m.all); err != nil {
			return turn, err
		}
		if i == 0 {
			tokens += p.overhead
		}
	}
	if m.ratio == 0 {
		turn.Input = metrics.Known(int64(tokens))
	}
	if lengths.Output.given() {
		turn.MaxTokens = lengths.Output.draw(m.rng, 1)
	}
	return turn, nil
}

// preface puts what goes before a session's first user message into turn: system message and user context. It gives the marker of the first
// user message.
func (m *maker) preface(turn *loadgen.Turn, stream int, index int64, number uint64) (Marker, error) {
	s := m.s
	system, first := s.markers(stream, index)
	switch {
	case s.o.System != "":
		turn.Messages = append(turn.Messages, loadgen.Message{Role: "system", Content: system.Before + s.o.System + system.After})
	case s.o.SharedSystem > 0:
		text := s.system
		if system != (Marker{}) {
			made, _, err := m.fitNumbered(nil, []byte(system.Before), []byte(system.After), s.o.SharedSystem, 0, rand.New(rand.NewPCG(s.keys[0], repeats)))
			if err != nil {
				return first, fmt.Errorf("a shared system prompt of %d tokens with its marker cannot be made: %w", s.o.SharedSystem, err)
			}
			text = string(made)
		}
		turn.Messages = append(turn.Messages, loadgen.Message{Role: "system", Content: text})
	}
	if s.o.UserContext > 0 {
		made, _, err := m.fitNumbered(nil, nil, nil, s.o.UserContext, number, m.rng)
		if err != nil {
			return first, fmt.Errorf("a user context of %d tokens cannot be made: %w", s.o.UserContext, err)
		}
		turn.Messages = append(turn.Messages, loadgen.Message{Role: "user", Content: string(made)})
	}
	return first, nil
}

// text makes m.buf a user message: marker, prefix of the pool, template and generated text. from is where its fixed words end, words how
// many of the opening's it has, n its tokens with the chat template's share.
func (m *maker) text(p *prompt, lengths *Share, number uint64, overhead int, mark Marker, opens bool) (from, words, n int, err error) {
	s := m.s
	for i, v := range s.o.Variables {
		m.choice[i] = m.rng.IntN(len(v.Values))
	}
	m.prefix = append(m.prefix[:0], mark.Before...)
	extra := 0
	if opens && len(s.pool) > 0 {
		p.pool = m.rng.IntN(len(s.pool))
		m.prefix = append(m.prefix, s.pool[p.pool]...)
		if s.frame.words[0] != "" {
			m.prefix = append(m.prefix, ' ')
		}
		extra = s.o.PrefixLength
	}
	var suffix []byte
	m.prefix, suffix, from = s.frame.fill(m.choice, m.prefix)
	suffix = append(suffix, mark.After...)
	n, words, err = m.fit(lengths.Input, m.prefix, suffix, number, extra, overhead)
	if err != nil {
		err = s.explain(err, lengths.Input, m.choice, overhead)
	}
	return from, words, n, err
}

// fit makes m.buf a text of a drawn length, and extra tokens more; the chat template's share is in it. It gives the length, and how many
// words of the opening the text has. With a deviation, a length that the fixed words leave no room for is drawn again.
func (m *maker) fit(l Length, prefix, suffix []byte, number uint64, extra, overhead int) (n, words int, err error) {
	least := 1 + max(0, overhead-extra)
	if l.varies() {
		m.buf = append(append(m.buf[:0], prefix...), suffix...)
		fixed, err := m.count(m.buf)
		if err != nil {
			return 0, 0, err
		}
		least = max(least, fixed+overhead-extra)
	}
	for tries := 0; ; tries++ {
		n = l.draw(m.rng, least) + extra
		m.buf, words, err = m.fitNumbered(m.buf[:0], prefix, suffix, n-overhead, number, m.rng)
		var unfit *tokenize.UnfitError
		if !l.varies() || !errors.As(err, &unfit) || tries == 100 {
			return n, words, err
		}
	}
}

// within is how many of the first words of the generated text, which follows m.prefix, lie within the window that begins at m.buf[from].
func (m *maker) within(from, words int) int {
	for ; words > 0; words-- {
		end := len(m.prefix)
		for range words {
			end += max(0, bytes.IndexFunc(m.buf[end:], isLetter))
			end += wordLength(m.buf[end:])
		}
		if m.s.o.Tokenizer.Count(m.buf[from:end]) <= window {
			break
		}
	}
	return words
}

// isLetter reports whether r may stand in a generated word.
func isLetter(r rune) bool { return unicode.IsLetter(r) || unicode.IsMark(r) }

func wordLength(text []byte) int {
	if end := bytes.IndexFunc(text, func(r rune) bool { return !isLetter(r) }); end >= 0 {
		return end
	}
	return len(text)
}

// hash hashes the first tokens of text. So many bytes are enough for any text that is not made of very long tokens.
func (m *maker) hash(text []byte) uint64 {
	const enough = 16 * window
	m.ids = m.s.o.Tokenizer.Append(m.ids[:0], text[:min(len(text), enough)])
	h := fnv.New64a()
	var b [4]byte
	for _, id := range m.ids[:min(len(m.ids), window)] {
		binary.LittleEndian.PutUint32(b[:], uint32(id))
		h.Write(b[:])
	}
	return h.Sum64()
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
