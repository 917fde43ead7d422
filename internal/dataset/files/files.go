// Package files plays datasets from files: prompts, conversations, whole request bodies, and traces of which only the lengths are known. A file
// is checked row by row before any load starts; of its rows only the places are kept, so that memory does not grow with what they hold.
package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"prefire/internal/dataset"
	"prefire/loadgen"
	"prefire/metrics"
	"prefire/tokenize"
)

// Format is the kind of a file.
type Format string

// The formats, under aiperf's names. ShareGPT is prefire's own: aiperf reads such files from the network alone.
const (
	SingleTurn Format = "single_turn"
	MultiTurn  Format = "multi_turn"
	RandomPool Format = "random_pool"
	Mooncake   Format = "mooncake_trace"
	Bailian    Format = "bailian_trace"
	BurstGPT   Format = "burst_gpt_trace"
	RawPayload Format = "raw_payload"
	InputsJSON Format = "inputs_json"
	ShareGPT   Format = "sharegpt"
)

// Formats lists what [Open] reads.
func Formats() []Format {
	return []Format{SingleTurn, MultiTurn, RandomPool, Mooncake, Bailian, BurstGPT, RawPayload, InputsJSON, ShareGPT}
}

// Trace says that rows hold lengths and times in place of texts: their options apply to these formats alone.
func (f Format) Trace() bool { return f == Mooncake || f == Bailian || f == BurstGPT }

// Sampling is the order in which conversations are taken.
type Sampling = dataset.Sampling

const (
	Sequential = dataset.Sequential
	Random     = dataset.Random
	Shuffle    = dataset.Shuffle
)

// Options say what is read and how it is played.
type Options struct {
	FS     FS
	Path   string // of a file or a folder
	Format Format // "" = found out
	Seed   uint64
	// RandomIDs: sessions without an id of the file's get UUIDs drawn by the seed, instead of session_000000 and so on.
	RandomIDs bool
	Tokenizer tokenize.Tokenizer
	Sampling  Sampling // "" = sequential
	Entries   int      // random_pool: how many conversations are drawn from the pools; 0 = 100
	// Output is the limit asked of the server for rows without one; 0 = none. Stddev as in the synthetic dataset.
	Output, OutputStddev float64
	// Scheduled says of each phase of the run whether it plays the file on its schedule: once, in the order of the times of the conversations'
	// first turns, and its stream has an end. The other phases go on where the one before stopped, without an end. IfTimed: there is a
	// schedule only where the file's first row has a time.
	Scheduled []bool
	IfTimed   bool
	// Texts: the endpoint takes texts alone: conversations of one turn, no messages with roles. Whole bodies are sent as they are all the same.
	Texts bool
	// FromFirst counts times from the first row's; Start and End keep the rows of a trace that are due within them, in ms of the file's own
	// time, and times count from Start where it is given.
	FromFirst  bool
	Start, End *float64
	// IgnoreTimes drops the rows' times and delays.
	IgnoreTimes bool
	// DelayCap bounds a turn's delay.
	DelayCap *time.Duration
	// Of a trace: the tokens of a block (0 = the format's own, 512 and for bailian_trace 16), rows with longer inputs are left out, and
	// longer outputs are cut; 0 = no limit.
	Block, MaxInput, MaxOutput int
	// Corpus is the kind of text that the prompts of a trace are made of.
	Corpus tokenize.Corpus
	// Batch is how many rows of each pool of random_pool one request has; 0 = 1.
	Batch int
	// System goes before every conversation: in its system message, before the file's own, or in one of its own.
	System string
	// CacheBust puts a marker into every session that no other session has. Neither it nor System is for rows that are whole bodies.
	CacheBust dataset.CacheBust
}

// Stats says how many of the conversations' turns handed out were new, and how many had been before in this run.
type Stats struct{ Distinct, Repeated int64 }

// Source is a dataset from a file; it implements [loadgen.Source]. Close ends it.
type Source struct {
	o       Options
	files   []*file
	folder  bool
	pools   [][]place // random_pool: the rows of each file
	rows    []place   // otherwise, conversation by conversation
	convs   []conversation
	columns [len(burstColumns)]int
	prompts prompts
	notices []string
	zero    float64 // ms of the file's own time that its times count from
	turns   int64

	longestIn, longestOut int
	firstRow              turn // of the first conversation, for the throwaway

	onTime bool     // there is a schedule
	queues []*queue // by phase; those without a schedule share one
	done   context.Context
	end    context.CancelFunc
	makers sync.WaitGroup

	mu    sync.Mutex
	given []int64  // sessions handed out, by phase
	seen  []uint64 // a bit for each conversation handed out
	stats Stats
}

var _ loadgen.Source = (*Source)(nil)

// place is where a row stands.
type place struct {
	at   int64
	size int32
	line int32 // 0 = to be counted
	file int32
}

// conversation is rows[first:first+n].
type conversation struct {
	first, n int32
	number   int32 // of those without an id of their own; -1 = it has one
	due      int64 // ns of its first turn; on a schedule alone
}

// Open reads and checks a file or a folder. Its errors name file, line and field.
func Open(o Options) (*Source, error) {
	if o.Sampling == "" {
		o.Sampling = Sequential
	}
	s := &Source{o: o}
	s.done, s.end = context.WithCancel(context.Background())
	err := s.open()
	if err == nil {
		err = s.index()
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	s.seen, s.given = make([]uint64, (len(s.convs)+63)/64), make([]int64, len(o.Scheduled))
	shared := newQueue(s, s.sampler())
	for i, scheduled := range o.Scheduled {
		q := shared
		if scheduled && s.onTime {
			q = newQueue(s, s.inOrder())
			q.drawn = int64(i+1) << 40
		}
		s.queues = append(s.queues, q)
	}
	return s, nil
}

// Format is the file's format, given or found out.
func (s *Source) Format() Format { return s.o.Format }

// Conversations is how many the file has, after what was left out; of random_pool, how many are drawn.
func (s *Source) Conversations() int { return len(s.convs) }

// Turns is how many turns all conversations have.
func (s *Source) Turns() int64 { return s.turns }

// OnSchedule says whether phases play the file on its schedule.
func (s *Source) OnSchedule() bool { return s.onTime }

// Longest is the longest input and output of the file as far as its rows give them, in tokens; 0 = not given.
func (s *Source) Longest() (input, output int) { return s.longestIn, s.longestOut }

// Notices are what a user should know of the file: what was left out, cut or ignored.
func (s *Source) Notices() []string { return s.notices }

// Stats counts what was handed out so far, the throwaway left out.
func (s *Source) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

// Close ends what is made ahead, and closes the files. Next fails from then on.
func (s *Source) Close() {
	s.mu.Lock()
	s.end()
	s.mu.Unlock()
	s.makers.Wait()
	for _, f := range s.files {
		f.close()
	}
	s.files = nil
}

// ErrClosed is what Next gives after Close.
var ErrClosed = errors.New("dataset: closed")

// Next makes the next session. The prewarm's throwaway is a conversation of its own, so that none of the file is in the server's cache before
// its turn; where rows are whole bodies it is the file's last.
func (s *Source) Next(ctx context.Context, which loadgen.Stream) (*loadgen.Session, error) {
	if which.Phase < 0 {
		return s.throwaway()
	}
	if which.Phase >= len(s.queues) {
		return nil, fmt.Errorf("dataset: phase %d is not one of the %d phases it was made for", which.Phase, len(s.queues))
	}
	b, err := s.queues[which.Phase].next(ctx)
	if err != nil {
		return nil, err
	}
	if s.o.CacheBust != dataset.NoBust {
		if err := s.mark(&b, which.Kind == metrics.Warmup, b.number); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b.session.Index = s.given[which.Phase]
	s.given[which.Phase]++
	turns := int64(len(b.session.Turns))
	if bit := uint64(1) << (b.conv % 64); s.seen[b.conv/64]&bit == 0 || s.o.CacheBust.Renews(b.hasSystem()) {
		s.seen[b.conv/64] |= bit
		s.stats.Distinct += turns
	} else {
		s.stats.Repeated += turns
	}
	return b.session, nil
}

// sampler draws conversations without an end.
func (s *Source) sampler() func() (int, bool) {
	n := len(s.convs)
	rng := rand.New(rand.NewPCG(s.o.Seed, 0x5a))
	switch s.o.Sampling {
	case Random:
		return func() (int, bool) { return rng.IntN(n), true }
	case Shuffle:
		order, at := make([]int32, n), n
		for i := range order {
			order[i] = int32(i)
		}
		return func() (int, bool) {
			if at == n {
				rng.Shuffle(n, func(i, j int) { order[i], order[j] = order[j], order[i] })
				at = 0
			}
			at++
			return int(order[at-1]), true
		}
	}
	i := -1
	return func() (int, bool) { i = (i + 1) % n; return i, true }
}

// inOrder gives each conversation once.
func (s *Source) inOrder() func() (int, bool) {
	i := -1
	return func() (int, bool) { i++; return i, i < len(s.convs) }
}

// queue makes sessions ahead of need and hands them out in order.
type queue struct {
	s     *Source
	draw  func() (conv int, ok bool)
	turn  chan struct{} // held by the caller whose session is next
	ahead []chan built
	depth int // sessions made ahead: one more with every session taken
	ended bool
	drawn int64 // the number of the next session
}

type built struct {
	session  *loadgen.Session
	counting []string // of each turn, what is counted beside its messages
	number   int64    // no other session of the source has it
	conv     int
	err      error
}

func (b *built) hasSystem() bool {
	m := b.session.Turns[0].Messages
	return len(m) > 0 && m[0].Role == "system"
}

func newQueue(s *Source, draw func() (int, bool)) *queue {
	return &queue{s: s, draw: draw, turn: make(chan struct{}, 1), depth: 1}
}

func (q *queue) next(ctx context.Context) (built, error) {
	select {
	case <-q.s.done.Done():
		return built{}, ErrClosed
	case <-ctx.Done():
		return built{}, ctx.Err()
	case q.turn <- struct{}{}:
	}
	defer func() { <-q.turn }()
	if q.s.done.Err() != nil {
		return built{}, ErrClosed
	}
	q.fill()
	if len(q.ahead) == 0 {
		return built{}, io.EOF
	}
	select {
	case <-q.s.done.Done():
		return built{}, ErrClosed
	case <-ctx.Done():
		return built{}, ctx.Err()
	case b := <-q.ahead[0]:
		q.ahead = q.ahead[1:]
		if b.err != nil {
			return built{}, b.err
		}
		q.depth = min(q.depth+1, 4*runtime.GOMAXPROCS(0))
		q.fill()
		return b, nil
	}
}

// fill begins the sessions that there is room for; none once the source is closed, which waits for them.
func (q *queue) fill() {
	q.s.mu.Lock()
	defer q.s.mu.Unlock()
	for len(q.ahead) < q.depth && !q.ended && q.s.done.Err() == nil {
		conv, ok := q.draw()
		if !ok {
			q.ended = true
			return
		}
		c := make(chan built, 1)
		q.ahead = append(q.ahead, c)
		number := q.drawn
		q.drawn++
		q.s.makers.Go(func() {
			session, counting, err := q.s.session(conv)
			c <- built{session, counting, number, conv, err}
		})
	}
}

// throwaway is the prewarm's conversation.
func (s *Source) throwaway() (*loadgen.Session, error) {
	if s.firstRow.raw != nil {
		last, _, err := s.session(len(s.convs) - 1)
		if err != nil {
			return nil, err
		}
		turn := last.Turns[0]
		turn.Timed = false
		return &loadgen.Session{ID: "session_prewarm_000000", Turns: []loadgen.Turn{turn}, Complete: true}, nil
	}
	length := s.firstRow.input
	if !s.firstRow.made {
		m := s.messages(&s.firstRow)
		length = max(1, s.o.Tokenizer.Count([]byte(m[len(m)-1].Content)))
	}
	text, err := s.prompts.text(&turn{made: true, input: length}, s.ownNumber(-1))
	if err != nil {
		return nil, err
	}
	turn := loadgen.Turn{Messages: []loadgen.Message{{Role: "user", Content: string(text)}}, MaxTokens: s.firstRow.output,
		Input: metrics.Known(int64(length))}
	if s.o.System != "" {
		if turn.Messages, err = withSystem(turn.Messages, s.o.System); err != nil {
			return nil, err
		}
		turn.Input = s.count(turn.Messages, "")
	}
	return &loadgen.Session{ID: "session_prewarm_000000", Turns: []loadgen.Turn{turn}}, nil
}

// ownNumber tells texts that are nobody else's from those of hash ids, which their ids number.
func (s *Source) ownNumber(i int64) uint64 {
	return s.prompts.fit.Distinct(tokenize.OpeningWords)/2 + uint64(i+1)
}
