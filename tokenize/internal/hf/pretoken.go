package hf

import (
	"bytes"
	"unicode/utf8"

	"prefire/tokenize/internal/scan"
)

// stage is one step of the pre-tokenizer: it cuts a piece, which is not empty, and hands the parts to the stage after it.
type stage interface {
	cut(t *Tokenizer, s *scratch, number int, piece []byte, first bool)
}

// pre runs the stages from number on, and the model behind the last.
func (t *Tokenizer) pre(s *scratch, number int, piece []byte, first bool) {
	switch {
	case len(piece) == 0:
	case number < len(t.stages):
		t.stages[number].cut(t, s, number, piece, first)
	default:
		t.model.encode(s, piece)
	}
}

// behavior says what becomes of the matches of a pattern.
type behavior int

const (
	isolated           behavior = iota // a piece each
	removed                            // left out
	contiguous                         // neighbours are one piece
	mergedWithPrevious                 // of the piece before
	mergedWithNext                     // of the piece behind
)

var behaviors = map[string]behavior{
	"Isolated": isolated, "Removed": removed, "Contiguous": contiguous, "MergedWithPrevious": mergedWithPrevious, "MergedWithNext": mergedWithNext,
}

// pattern cuts at the matches of a scanner, or of a literal text.
type pattern struct {
	match    scan.Matcher
	literal  []byte
	behavior behavior
	invert   bool // matches and what lies between change places
	words    bool // it cuts text into words: see scan.ForRegexp
}

// span is the end of the run that begins at text[at]: of a match, or of what lies before the next match, whose end is then known already.
func (p *pattern) span(k *scan.Classes, text []byte, at int, known *int) (end int, match bool) {
	if *known > at {
		end, *known = *known, 0
		return end, true
	}
	if p.match == nil {
		i := bytes.Index(text[at:], p.literal)
		switch {
		case i < 0:
			return len(text), false
		case i == 0:
			return at + len(p.literal), true
		}
		*known = at + i + len(p.literal)
		return at + i, false
	}
	if end = p.match(k, text, at); end > at {
		return end, true
	}
	for i := at; ; {
		_, n := utf8.DecodeRune(text[i:])
		if i += n; i >= len(text) {
			return i, false
		}
		if end = p.match(k, text, i); end > i {
			*known = end
			return i, false
		}
	}
}

func (p *pattern) cut(t *Tokenizer, s *scratch, number int, piece []byte, first bool) {
	known := 0
	// A run waits until it is clear that the next one does not join it.
	from, waiting, before := 0, false, false
	for at := 0; at < len(piece); {
		end, match := p.span(t.classes, piece, at, &known)
		match = match != p.invert
		join := false
		switch p.behavior {
		case removed:
			if match {
				if waiting {
					t.pre(s, number+1, piece[from:at], first && from == 0)
				}
				from, at, waiting = end, end, false
				continue
			}
		case contiguous:
			join = waiting && match == before
		case mergedWithPrevious:
			join = waiting && match && !before
		case mergedWithNext:
			join = waiting && before && !match
		}
		if waiting && !join {
			t.pre(s, number+1, piece[from:at], first && from == 0)
			from = at
		}
		if !waiting {
			from = at
		}
		waiting, before, at = true, match, end
	}
	if waiting {
		t.pre(s, number+1, piece[from:], first && from == 0)
	}
}

// prefixSpace is ByteLevel's add_prefix_space.
type prefixSpace struct{}

func (prefixSpace) cut(t *Tokenizer, s *scratch, number int, piece []byte, first bool) {
	if piece[0] != ' ' {
		buffer := append(append(s.buffers[number][:0], ' '), piece...)
		s.buffers[number] = buffer
		piece = buffer
	}
	t.pre(s, number+1, piece, first)
}

// metaspace writes spaces as another character, may put one in front, and may cut before each.
type metaspace struct {
	replacement []byte
	always      bool // in front of every piece that does not begin with one
	begin       bool // in front of the text
	split       bool
}

func (m *metaspace) cut(t *Tokenizer, s *scratch, number int, piece []byte, first bool) {
	buffer := s.buffers[number][:0]
	if !bytes.HasPrefix(piece, m.replacement) && piece[0] != ' ' && (m.always || m.begin && first) {
		buffer = append(buffer, m.replacement...)
	}
	buffer = replaceAll(buffer, piece, space, m.replacement)
	s.buffers[number] = buffer
	if !m.split {
		t.pre(s, number+1, buffer, first)
		return
	}
	for from := 0; from < len(buffer); {
		end := len(buffer)
		// Past the character that begins the piece, whichever it is.
		if i := bytes.Index(buffer[from+1:], m.replacement); i >= 0 {
			end = from + 1 + i
		}
		t.pre(s, number+1, buffer[from:end], first && from == 0)
		from = end
	}
}

var space = []byte(" ")

// replaceAll appends text to dst with every old in it written as new.
func replaceAll(dst, text, old, new []byte) []byte {
	for {
		i := bytes.Index(text, old)
		if i < 0 {
			return append(dst, text...)
		}
		dst = append(append(dst, text[:i]...), new...)
		text = text[i+len(old):]
	}
}
