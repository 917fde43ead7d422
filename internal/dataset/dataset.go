// Package dataset makes the prompts of a run. Its synthetic source fills a template with generated text to an exact number of tokens, makes
// no prompt twice unless asked to, and gives the same prompts for the same seed whatever the number of cores.
package dataset

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"

	"prefire/loadgen"
	"prefire/metrics"
	"prefire/tokenize"
)

// Length is a distribution of token counts: normal, drawn again below 0, rounded up, 1 at least. Without a deviation it is the mean,
// rounded half to even.
type Length struct{ Mean, Stddev float64 }

// Variable is a variable of the template with the values it is drawn from, each as likely.
type Variable struct {
	Name   string
	Values []string
}

// Options is what a synthetic source makes prompts from.
type Options struct {
	Seed      uint64
	RandomIDs bool // session ids are UUIDs drawn by the seed, instead of session_000000 and so on
	Tokenizer tokenize.Tokenizer
	// Input is the length of the whole user message, the template's words included.
	Input Length
	// Output is the limit asked of the server; a mean of 0 asks for none.
	Output Length
	// Entries is how many prompts a stream has before it begins again with its first; 0 = it never does.
	Entries int
	// Template is the text around {{name}}; "" = generated text alone. Generated text stands after the last variable's value; where there is
	// no variable, after the words.
	Template  string
	Variables []Variable
	// Phases are the kinds of the run's phases, in order: every phase has a stream of prompts of its own, and so has the prewarm.
	Phases []metrics.Kind
}

// Stats says how many of the prompts handed out were new, and how many repeat an earlier one of the run as a prefix cache sees it: in the
// first 16 tokens after the template's fixed words.
type Stats struct{ Distinct, Repeated int64 }

// Source is the synthetic dataset; it implements [loadgen.Source], without end. Close ends its goroutines.
type Source struct {
	o       Options
	fit     *tokenize.Fitter
	frame   *template
	keys    []uint64 // seed of each stream, by its number
	plain   int      // number of the stream whose sessions have the plain ids
	closed  chan struct{}
	end     sync.Once
	workers sync.WaitGroup

	mu      sync.Mutex
	streams []*stream // by number; nil until asked for
	stats   Stats
	seen    map[uint64]struct{} // windows that are too short to be distinct by construction
}

var _ loadgen.Source = (*Source)(nil)

// New checks o and makes a source. A template that does not fit its variables or the input length is an error here, before any prompt
// is asked for.
func New(o Options) (*Source, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	frame, err := parseTemplate(o.Template, o.Variables)
	if err != nil {
		return nil, err
	}
	// One child seed for the openings, which all streams share, and one for each stream.
	child := func(i int) uint64 { return rand.NewPCG(o.Seed, uint64(i)).Uint64() }
	fit, err := tokenize.NewFitter(o.Tokenizer, child(0))
	if err != nil {
		return nil, err
	}
	s := &Source{
		o: o, fit: fit, frame: frame, closed: make(chan struct{}), seen: map[uint64]struct{}{},
		keys: make([]uint64, 1+len(o.Phases)), streams: make([]*stream, 1+len(o.Phases)),
	}
	for i := range s.keys {
		s.keys[i] = child(1 + i)
	}
	for i, kind := range o.Phases {
		if kind == metrics.Profiling {
			s.plain = 1 + i
			break
		}
	}
	if err := s.tryFit(); err != nil {
		return nil, err
	}
	return s, nil
}

func (o *Options) check() error {
	for _, l := range []struct {
		name string
		Length
		least float64
	}{{"input", o.Input, 1}, {"output", o.Output, 0}} {
		if !(l.Mean >= l.least) || l.Mean > math.MaxInt32 {
			return fmt.Errorf("the mean %s length is %v tokens; allowed: %v to %d", l.name, l.Mean, l.least, math.MaxInt32)
		}
		if !(l.Stddev >= 0) || l.Stddev > math.MaxInt32 {
			return fmt.Errorf("the standard deviation of the %s length is %v tokens; allowed: 0 to %d", l.name, l.Stddev, math.MaxInt32)
		}
	}
	if o.Entries < 0 {
		return fmt.Errorf("%d dataset entries; allowed: 0 (no prompt is used twice) and more", o.Entries)
	}
	return nil
}

// tryFit fits the template with every combination of values, or with the longest ones where there are very many, to the mean length. What
// lies far past the fixed words behaves as what lies a little past them.
func (s *Source) tryFit() error {
	const little = 64
	m := s.newMaker()
	for _, c := range s.frame.combinations(s.o.Tokenizer) {
		prefix, suffix, _ := s.frame.fill(c.choice, nil)
		if _, _, err := m.fitTo(prefix, suffix, min(s.o.Input.fixed(), c.fixed+little), 0); err != nil {
			return s.explain(err, c.choice)
		}
	}
	return nil
}

// explain adds to an error of fitting what was to be fitted.
func (s *Source) explain(err error, choice []int) error {
	return fmt.Errorf("a prompt of %v input tokens (%s) cannot be made from the template %q%s: %w", s.o.Input.Mean, s.o.Tokenizer.Name(),
		s.frame.text, s.frame.describe(choice), err)
}

// fixed is the length without its deviation.
func (l Length) fixed() int { return max(1, int(math.RoundToEven(l.Mean))) }

// Next makes the next session of a stream: one turn with one user message. The stream must be one of Options.Phases, or have phase -1.
func (s *Source) Next(ctx context.Context, which loadgen.Stream) (*loadgen.Session, error) {
	number := 0
	if which.Phase >= 0 {
		if which.Phase >= len(s.o.Phases) || s.o.Phases[which.Phase] != which.Kind {
			return nil, fmt.Errorf("dataset: phase %d of kind %s is not one of the %d phases it was made for", which.Phase, which.Kind, len(s.o.Phases))
		}
		number = 1 + which.Phase
	}
	t, err := s.stream(number)
	if err != nil {
		return nil, err
	}
	p, err := t.next(ctx)
	if err != nil {
		return nil, err
	}
	s.count(p)
	return p.session, nil
}

func (s *Source) stream(number int) (*stream, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.closed:
		return nil, ErrClosed
	default:
	}
	if s.streams[number] == nil {
		s.streams[number] = newStream(s, number, runtime.GOMAXPROCS(0))
	}
	return s.streams[number], nil
}

// sure is from how many words of an opening on its number alone decides whether the window is new: three of them tell over 100 million
// prompts apart. Windows with fewer are remembered, and there cannot be many different ones.
const sure = 3

func (s *Source) count(p prompt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	repeated := p.again
	switch {
	case repeated:
	case p.words >= sure:
		repeated = p.number >= s.fit.Distinct(p.words)
	default:
		hash := p.session.Turns[0].PromptHash
		_, repeated = s.seen[hash]
		s.seen[hash] = struct{}{}
	}
	if repeated {
		s.stats.Repeated++
	} else {
		s.stats.Distinct++
	}
}

// Stats counts the prompts handed out so far, of all streams.
func (s *Source) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

// Close ends the goroutines that make prompts ahead, and waits for them. Next fails from then on.
func (s *Source) Close() {
	s.end.Do(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		close(s.closed)
	})
	s.workers.Wait()
}
