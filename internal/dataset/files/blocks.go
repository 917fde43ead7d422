package files

import (
	"fmt"
	"math/rand/v2"

	"prefire/tokenize"
)

// prompts makes the texts of rows that give a length in place of a text.
type prompts struct {
	fit   *tokenize.Fitter
	tok   tokenize.Tokenizer
	key   uint64 // of this file in this run: an id stands for the same text in one file only
	block int    // tokens
}

// layout says how long the last of a row's blocks is.
func (p *prompts) layout(t *turn) (last int, err *RowError) {
	m := len(t.blocks)
	if m == 0 || m*p.block <= t.input {
		return p.block, nil
	}
	if last = t.input - (m-1)*p.block; last <= 0 {
		return 0, &RowError{
			Field: "hash_ids", Found: fmt.Sprintf("%d ids beside an input_length of %d", m, t.input),
			Want: fmt.Sprintf("at most %d ids of %d tokens each (--isl-block-size sets the size of a block)", (t.input+p.block-1)/p.block, p.block),
		}
	}
	return last, nil
}

// text makes the prompt of a turn: a block of text for each hash id, the same for the same id, then text of its own up to the length. Blocks
// begin with a space and a word and end with a mark, so that their tokens add up; the whole is counted all the same, and where the tokenizer
// joins across blocks its end is fitted again.
func (p *prompts) text(t *turn, number uint64) ([]byte, error) {
	rng := func(id uint64, kind uint64) *rand.Rand { return rand.New(rand.NewPCG(p.key^kind<<56, id)) }
	last, fault := p.layout(t)
	if fault != nil {
		return nil, fault
	}
	var out []byte
	before := 0 // where the last block begins
	for i, id := range t.blocks {
		n := p.block
		if i == len(t.blocks)-1 {
			n = last
		}
		before = len(out)
		joint := ""
		if i > 0 {
			joint = "."
		}
		// The first block of a prompt has no space before it; every other one follows a mark.
		b, _, err := p.fit.FitNumbered(nil, []byte(joint), nil, n+len(joint), uint64(id), rng(uint64(id), 1))
		if err != nil {
			return nil, p.explain(t, err)
		}
		out = append(out, b[len(joint):]...)
	}
	if t.input > len(t.blocks)*p.block || len(t.blocks) == 0 {
		before = len(out)
	} else if p.tok.Count(out) == t.input {
		return out, nil
	}
	b, _, err := p.fit.FitNumbered(nil, out[:before], nil, t.input, number, rng(number, 2))
	if err != nil {
		return nil, p.explain(t, err)
	}
	return b, nil
}

func (p *prompts) explain(t *turn, err error) error {
	return fmt.Errorf("a prompt of %d tokens (%s) in %d blocks of %d cannot be made: %w", t.input, p.tok.Name(), len(t.blocks), p.block, err)
}
