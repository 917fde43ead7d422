package dataset

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"prefire/loadgen"
)

const (
	// Making a prompt whose length another party counts is waiting for the most part: more are made at once than there are cores, and more
	// are held, since they are to be ready before the load.
	countedWorkers = 8
	countedBytes   = 64 << 20
	countedPrompts = 4096
	// countsPerText bounds how often one text is counted; some ten times are the rule.
	countsPerText = 300
)

// judge counts by [Options.Count] for a fitter, which knows of no errors: after one, every text is too long. One goroutine uses it.
type judge struct {
	s               *Source
	err             error // of the text that is being made
	left            int   // counts of it
	target, nearest int   // tokens
}

// begin begins a text.
func (j *judge) begin(target int) {
	j.err, j.left, j.target, j.nearest = nil, countsPerText, target, math.MaxInt32
}

// Count implements [tokenize.Counter].
func (j *judge) Count(text []byte) int {
	if j.left == 0 && j.err == nil {
		j.err = fmt.Errorf("no text of %d tokens by the server's count was found in %d tries; the nearest has %d", j.target, countsPerText, j.nearest)
	}
	if j.err != nil {
		return math.MaxInt32
	}
	j.left--
	n, err := j.s.o.Count(j.s.ctx, text)
	if err != nil {
		j.err = err
		return math.MaxInt32
	}
	if max(n-j.target, j.target-n) < max(j.nearest-j.target, j.target-j.nearest) {
		j.nearest = n
	}
	return n
}

// fitNumbered is [tokenize.Fitter.FitNumbered] of n tokens as they are counted here, into m.buf or another text.
func (m *maker) fitNumbered(dst, prefix, suffix []byte, n int, number uint64, rng *rand.Rand) (text []byte, words int, err error) {
	if m.judge == nil {
		if m.ratio > 0 {
			n = max(1, int(math.Round(float64(n)/m.ratio)))
		}
		return m.fitter.FitNumbered(dst, prefix, suffix, n, number, rng)
	}
	m.judge.begin(n)
	text, words, err = m.fitter.FitNumbered(dst, prefix, suffix, n, number, rng)
	if m.judge.err != nil {
		err = m.judge.err
	}
	return text, words, err
}

// count counts a text as lengths are counted.
func (m *maker) count(text []byte) (int, error) {
	if m.judge == nil {
		n := m.s.o.Tokenizer.Count(text)
		if m.ratio > 0 {
			n = int(math.Ceil(float64(n) * m.ratio))
		}
		return n, nil
	}
	return m.s.o.Count(m.s.ctx, text)
}

// Ahead makes the first prompts of a phase before they are needed: as many as total, the number of sessions that it will have, and of those no
// more than are held; some where total is 0, which is not known. Past total, a prompt is made when it is asked for. It gives how many are
// ready. A prompt that cannot be made is an error.
func (s *Source) Ahead(ctx context.Context, which loadgen.Stream, total int64) (int, error) {
	number, err := s.number(which)
	if err != nil {
		return 0, err
	}
	t, err := s.stream(number)
	if err != nil {
		return 0, err
	}
	return t.fill(ctx, total)
}
