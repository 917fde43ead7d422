// Package dataset makes the prompts of a run. Its synthetic source fills a template with generated text to an exact number of tokens, makes
// no prompt twice unless asked to, and gives the same prompts for the same seed whatever the number of cores.
package dataset

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"

	"prefire/loadgen"
	"prefire/metrics"
	"prefire/tokenize"
)

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
	// Count, where it is set, counts in the Tokenizer's place what lengths are held to: the tokens of another tokenizer, such as a server's.
	// The Tokenizer is then what texts are put together with. Count is called from several goroutines at once; its ctx ends with Close.
	Count func(ctx context.Context, text []byte) (int, error)
	// Input is the length of the whole user message, the template's words included.
	Input Length
	// Output is the limit asked of the server; a mean of 0 asks for none.
	Output Length
	// Mix, where it is not empty, stands in place of Input and Output: each turn draws one of these pairs.
	Mix []Share
	// Batch is how many texts a user message has, each of the input length; 0 and 1 = one, as plain content.
	Batch int
	// Corpus is what the text is made of.
	Corpus tokenize.Corpus
	// Entries is how many prompts a stream has before it begins again with its first; 0 = it never does.
	Entries int
	// Sampling is the order in which the entries are taken; "" = Sequential.
	Sampling Sampling
	// Repeat is the share of sessions, 0 to below 1, that are an earlier one of their stream again; not beside Entries.
	Repeat float64
	// System is a system message of every session, word for word. SharedSystem, in its stead, is the length of one that is made.
	System       string
	SharedSystem int
	// UserContext is the length of a message of the user's own that goes before each session's first turn, different in each.
	UserContext int
	// PrefixPool is how many texts of PrefixLength tokens there are, one of which, drawn, begins each session's first turn: the turn is so
	// much longer than the input length.
	PrefixPool, PrefixLength int
	// Turns is how many turns a session has; not given = 1. Delay is the think time before each but the first, in ms, times DelayRatio.
	Turns, Delay Length
	DelayRatio   float64
	CacheBust    CacheBust
	// Template is the text around {{name}}; "" = generated text alone. Generated text stands after the last variable's value; where there is
	// no variable, after the words.
	Template  string
	Variables []Variable
	// Phases are the kinds of the run's phases, in order: every phase has a stream of prompts of its own, and so has the prewarm.
	Phases []metrics.Kind
}

// Stats says how many of the prompts handed out were new, and how many repeat an earlier one of the run as a prefix cache sees it: in the
// first 16 tokens after the fixed words.
type Stats struct {
	Distinct, Repeated int64
	// Tokens of all first turns, and how many of them an earlier one began with because the run asked for that: repeats, a shared system
	// prompt, prefixes of the pool.
	Tokens, Shared int64
}

// Source is the synthetic dataset; it implements [loadgen.Source], without end. Close ends its goroutines.
type Source struct {
	o        Options
	fit      *tokenize.Fitter
	frame    *template
	keys     []uint64 // seed of each stream, by its number
	plain    int      // number of the stream whose sessions have the plain ids
	mix      []Share
	repeat   int64         // share of repeats, in millionths
	system   string        // the shared system prompt that was made
	pool     []string      // prefixes
	common   int64         // tokens of a system message, which all sessions share
	overhead atomic.Int64  // tokens that the server's chat template adds
	ratio    atomic.Uint64 // of Scale, its bits; 0 = lengths are the Tokenizer's
	closed   chan struct{}
	ctx      context.Context // of what Options.Count does; until Close
	cancel   context.CancelFunc
	end      sync.Once
	workers  sync.WaitGroup

	mu      sync.Mutex
	streams []*stream // by number; nil until asked for
	stats   Stats
	drawn   map[drawn]struct{}  // entries that random draws have had
	seen    map[uint64]struct{} // windows that are too short to be distinct by construction
	sent    [2]sent             // of the sessions that are measured, or whose marker does not tell them from those; of the others
}

// sent is what the sessions handed out have begun with.
type sent struct {
	any  bool
	pool []bool // prefixes
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
	fit, err := tokenize.NewCorpusFitter(o.Tokenizer, o.Corpus, child(0))
	if err != nil {
		return nil, err
	}
	s := &Source{
		o: o, fit: fit, frame: frame, closed: make(chan struct{}), seen: map[uint64]struct{}{}, drawn: map[drawn]struct{}{},
		keys: make([]uint64, 1+len(o.Phases)), streams: make([]*stream, 1+len(o.Phases)),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	for i := range s.keys {
		s.keys[i] = child(1 + i)
	}
	for i, kind := range o.Phases {
		if kind == metrics.Profiling {
			s.plain = 1 + i
			break
		}
	}
	s.mix, s.repeat = o.mix(), int64(math.Round(o.Repeat*million))
	err = s.makeShared()
	if err == nil {
		err = s.tryFit(0)
	}
	if err != nil {
		s.cancel()
		return nil, err
	}
	return s, nil
}

// makeShared makes the texts that sessions share.
func (s *Source) makeShared() error {
	rng := rand.New(rand.NewPCG(s.keys[0], repeats))
	m := s.newMaker()
	if s.o.SharedSystem > 0 {
		text, _, err := m.fitNumbered(nil, nil, nil, s.o.SharedSystem, 0, rng)
		if err != nil {
			return fmt.Errorf("a shared system prompt of %d tokens cannot be made: %w", s.o.SharedSystem, err)
		}
		s.system, s.common = string(text), int64(s.o.SharedSystem)
	}
	if s.o.System != "" {
		n, err := m.count([]byte(s.o.System))
		if err != nil {
			return err
		}
		s.common = int64(n)
	}
	for i := range s.o.PrefixPool {
		text, _, err := m.fitNumbered(nil, nil, nil, s.o.PrefixLength, uint64(1+i), rng)
		if err != nil {
			return fmt.Errorf("a prefix prompt of %d tokens cannot be made: %w", s.o.PrefixLength, err)
		}
		s.pool = append(s.pool, string(text))
	}
	for i := range s.sent {
		s.sent[i].pool = make([]bool, len(s.pool))
	}
	return nil
}

// hasSystem reports whether sessions begin with a system message.
func (s *Source) hasSystem() bool { return s.o.System != "" || s.o.SharedSystem > 0 }

// warms reports whether a stream is not measured.
func (s *Source) warms(stream int) bool { return stream == 0 || s.o.Phases[stream-1] == metrics.Warmup }

// CountTemplate makes the input length count the tokens that the server's chat template adds to a request: from now on the first turn of
// every session is so much shorter, and its [loadgen.Turn.Input] is the whole. An error says that the length leaves no room for them.
func (s *Source) CountTemplate(tokens int) error {
	if tokens < 0 {
		return fmt.Errorf("a chat template of %d tokens: it cannot be counted in", tokens)
	}
	if err := s.tryFit(tokens); err != nil {
		return err
	}
	s.overhead.Store(int64(tokens))
	return nil
}

// Scale makes lengths those of another tokenizer by its count of one text: it has ratio tokens, above 0, for each of the Tokenizer's. From now
// on a text that is to have n tokens has n/ratio by the Tokenizer, and [loadgen.Turn.Input] is absent: nobody has counted it.
func (s *Source) Scale(ratio float64) error {
	switch {
	case !(ratio > 0) || math.IsInf(ratio, 1):
		return fmt.Errorf("%v tokens for each of %s's: lengths cannot be fitted to them", ratio, s.o.Tokenizer.Name())
	case s.o.SharedSystem > 0 || s.o.PrefixPool > 0:
		return errors.New("a shared system prompt and prefixes of a pool are made before the server's count of a prompt is known, and cannot be fitted to it")
	}
	s.ratio.Store(math.Float64bits(ratio))
	return s.tryFit(int(s.overhead.Load()))
}

func (s *Source) scale() float64 { return math.Float64frombits(s.ratio.Load()) }

func (o *Options) check() error {
	percent := 0.0
	for _, l := range o.mix() {
		if err := errors.Join(l.Input.check("input", 1), l.Output.check("output", 0)); err != nil {
			return err
		}
		percent += l.Percent
	}
	if math.Abs(percent-100) > 1 {
		return fmt.Errorf("the shares of the lengths add up to %v %%; they must be 100", percent)
	}
	if err := errors.Join(o.Turns.check("session's", 0), o.Delay.check("delay's", 0)); err != nil {
		return err
	}
	if o.Entries < 0 {
		return fmt.Errorf("%d dataset entries; allowed: 0 (no prompt is used twice) and more", o.Entries)
	}
	if err := o.Sampling.check(); err != nil {
		return err
	}
	if !(o.Repeat >= 0 && o.Repeat < 1) || o.Repeat > 0 && o.Entries > 0 {
		return fmt.Errorf("a share of %v of repeats with %d entries; allowed: 0 to below 1, and not beside a number of entries", o.Repeat, o.Entries)
	}
	return nil
}

// tryFit fits the template, with the marker where there is one, and with every combination of values, or with the longest ones where there are
// very many, to the shortest lengths that are sure to come. What lies far past the fixed words behaves as what lies a little past them.
func (s *Source) tryFit(overhead int) error {
	const little = 64
	m := s.newMaker()
	mark := s.longestMarker()
	combinations := s.frame.combinations(s.o.Tokenizer)
	if s.o.Count != nil {
		combinations = combinations[:1] // counting takes long; the Tokenizer's longest stands for all
	}
	for _, c := range combinations {
		prefix, suffix, _ := s.frame.fill(c.choice, []byte(mark.Before))
		suffix = append(suffix, mark.After...)
		for i := range s.mix {
			l := s.mix[i].Input
			n := l.fixed()
			if l.High > 0 {
				n = l.Low
			}
			if n-overhead < 1 {
				return s.explain(errors.New("no token is left for the text"), l, c.choice, overhead)
			}
			size := n - overhead
			if s.o.Count == nil && m.ratio == 0 {
				size = min(size, c.fixed+little)
			}
			if _, _, err := m.fitNumbered(m.buf[:0], prefix, suffix, size, 0, m.rng); err != nil {
				return s.explain(err, l, c.choice, overhead)
			}
		}
	}
	return nil
}

// explain adds to an error of fitting what was to be fitted.
func (s *Source) explain(err error, l Length, choice []int, overhead int) error {
	length := strconv.FormatFloat(l.Mean, 'f', -1, 64)
	if l.High > 0 {
		length = fmt.Sprintf("%d to %d", l.Low, l.High)
	}
	of := s.o.Tokenizer.Name()
	if s.o.Count != nil {
		of = "by the server's count"
	}
	if overhead > 0 {
		of += fmt.Sprintf(", %d of them the chat template's", overhead)
	}
	if s.longestMarker() != (Marker{}) {
		of += ", with a marker against the cache"
	}
	return fmt.Errorf("a prompt of %s input tokens (%s) cannot be made from the template %q%s: %w", length, of, s.frame.text,
		s.frame.describe(choice), err)
}

// Next makes the next session of a stream: one turn with one user message. The stream must be one of Options.Phases, or have phase -1.
func (s *Source) Next(ctx context.Context, which loadgen.Stream) (*loadgen.Session, error) {
	number, err := s.number(which)
	if err != nil {
		return nil, err
	}
	t, err := s.stream(number)
	if err != nil {
		return nil, err
	}
	for {
		p, err := t.next(ctx)
		if err != nil {
			return nil, err
		}
		if p.overhead != int(s.overhead.Load()) || p.ratio != s.scale() {
			continue // made ahead, before the template was counted or the lengths were scaled
		}
		s.count(p)
		return p.session, nil
	}
}

// number is that of a phase's stream.
func (s *Source) number(which loadgen.Stream) (int, error) {
	switch {
	case which.Phase < 0:
		return 0, nil
	case which.Phase >= len(s.o.Phases) || s.o.Phases[which.Phase] != which.Kind:
		return 0, fmt.Errorf("dataset: phase %d of kind %s is not one of the %d phases it was made for", which.Phase, which.Kind, len(s.o.Phases))
	}
	return 1 + which.Phase, nil
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
	if p.random {
		entry := drawn{p.stream, p.entry}
		_, p.again = s.drawn[entry]
		s.drawn[entry] = struct{}{}
	}
	s.share(p)
	repeated := false
	switch {
	case s.cut().renews():
	case p.again:
		repeated = true
	case p.words >= sure:
		repeated = p.number >= s.fit.Distinct(p.words)
	default:
		_, repeated = s.seen[p.window]
		s.seen[p.window] = struct{}{}
	}
	if repeated {
		s.stats.Repeated++
	} else {
		s.stats.Distinct++
	}
}

// share books how much of a session's first turn was sent before, to the few tokens of a marker; s.mu is held.
func (s *Source) share(p prompt) {
	input := p.session.Turns[0].Input.N
	s.stats.Tokens += input
	before := &s.sent[0]
	if p.warms && (s.o.CacheBust == BustIsolateWarmupSystem || s.o.CacheBust == BustIsolateWarmupOnFirst) {
		before = &s.sent[1]
	}
	common, shared, pooled := int64(0), int64(0), int64(0)
	if before.any {
		common = s.common
		if p.pool >= 0 && before.pool[p.pool] && s.o.UserContext == 0 {
			pooled = int64(s.o.PrefixLength)
		}
	}
	switch c := s.cut(); {
	case c == beforeSystem:
	case c == afterSystem, c == beforeFirst && !p.again:
		shared = common
	case c == beforeFirst:
		shared = common + int64(s.o.UserContext)
	case p.again:
		shared = input
	default:
		shared = common + pooled
	}
	before.any = true
	if p.pool >= 0 {
		before.pool[p.pool] = true
	}
	s.stats.Shared += shared
}

// middle is the mean length of a session's texts, for how many may be made ahead.
func (s *Source) middle() float64 {
	mean := float64(s.common) + float64(s.o.UserContext+s.o.PrefixLength)
	for i := range s.mix {
		mean += s.mix[i].Input.middle() * s.mix[i].Percent / 100 * float64(max(1, s.o.Batch)) * max(1, s.o.Turns.middle())
	}
	return mean
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
		s.cancel()
	})
	s.workers.Wait()
}
