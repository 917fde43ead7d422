package files

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"prefire/internal/dataset"
	"prefire/loadgen"
	"prefire/metrics"
)

// read reads a conversation's turns, each of them a request, and its own id.
func (s *Source) read(conv int) (turns []turn, id string, err error) {
	c := &s.convs[conv]
	var places []place
	if s.o.Format == RandomPool {
		// Which rows make an entry follows from the seed and its number.
		rng := rand.New(rand.NewPCG(s.o.Seed, uint64(conv)<<8|0x7d))
		for _, pool := range s.pools {
			for range max(1, s.o.Batch) {
				places = append(places, pool[rng.IntN(len(pool))])
			}
		}
	} else {
		places = s.rows[c.first : c.first+c.n]
	}
	for i, p := range places {
		data, err := s.files[p.file].part(p.at, int(p.size))
		if err != nil {
			return nil, "", err
		}
		r, fault := s.parse(data)
		if fault != nil {
			fault.File, fault.Line = s.files[p.file].path, int(p.line)
			return nil, "", fmt.Errorf("the file has changed since the run began: %w", fault)
		}
		if s.o.Format == ShareGPT {
			s.shareFits(&r)
		}
		if i == 0 {
			id = r.session
			if s.o.Format == Bailian {
				id = strconv.FormatInt(r.chat, 10)
			}
		}
		turns = append(turns, r.turns...)
	}
	if s.o.Format == RandomPool {
		for _, t := range turns[1:] {
			turns[0].contents = append(turns[0].contents, t.contents...)
		}
		turns = turns[:1]
	}
	if s.o.Format == MultiTurn {
		turns = hoist(turns)
	}
	return turns, id, nil
}

// session makes a session out of a conversation; its place in a stream is not known yet. counting is what is counted of each turn beside its
// messages.
func (s *Source) session(conv int) (_ *loadgen.Session, counting []string, err error) {
	turns, id, err := s.read(conv)
	if err != nil {
		return nil, nil, err
	}
	c := &s.convs[conv]
	rng := rand.New(rand.NewPCG(s.prompts.key, uint64(conv)<<8|0xc1))
	if c.number >= 0 {
		id = s.sessionID(int(c.number))
	}
	sess := &loadgen.Session{ID: id, Complete: s.complete(turns)}
	for i := range turns {
		t := &turns[i]
		out := loadgen.Turn{Raw: t.raw, Extra: t.extra, Tools: t.tools, MaxTokens: s.limit(t, rng)}
		s.schedule(&out, t, i)
		if t.raw != nil {
			out.Input = metrics.Known(int64(s.o.Tokenizer.Count([]byte(t.counted))))
		} else {
			if t.made {
				made, err := s.prompts.text(t, s.ownNumber(int64(c.first)+int64(i)))
				if err != nil {
					return nil, nil, err
				}
				out.Messages = []loadgen.Message{{Role: "user", Content: string(made)}}
			} else {
				out.Messages = s.messages(t)
			}
			if t.system != "" {
				out.Messages = append([]loadgen.Message{{Role: "system", Content: t.system}}, out.Messages...)
			}
			if s.o.System != "" && (i == 0 || sess.Complete) {
				if out.Messages, err = withSystem(out.Messages, s.o.System); err != nil {
					return nil, nil, err
				}
			}
			if s.o.CacheBust == dataset.NoBust { // else it is counted with its marker
				out.Input = s.count(out.Messages, t.counting)
			} else {
				out.Messages = slices.Clone(out.Messages)
				if i > 0 && !sess.Complete {
					out.Input = s.count(out.Messages, t.counting)
				}
			}
		}
		sess.Turns, counting = append(sess.Turns, out), append(counting, t.counting)
	}
	return sess, counting, nil
}

// complete says whether turns are whole conversations each: rows of one session of single_turn, messages and bodies.
func (s *Source) complete(turns []turn) bool {
	return s.o.Format == SingleTurn && len(turns) > 1 || turns[0].messages != nil || turns[0].raw != nil
}

func (s *Source) messages(t *turn) []loadgen.Message {
	if t.messages != nil {
		return t.messages
	}
	return []loadgen.Message{message(t.role, t.contents)}
}

// limit is a turn's output limit: its row's, else one drawn for the run.
func (s *Source) limit(t *turn, rng *rand.Rand) int {
	switch {
	case t.raw != nil:
		return 0
	case t.output > 0:
		if s.o.MaxOutput > 0 && s.o.Format.Trace() {
			return min(t.output, s.o.MaxOutput)
		}
		return t.output
	case s.o.Output <= 0:
		return 0
	case s.o.OutputStddev <= 0:
		return max(1, int(s.o.Output))
	}
	for {
		if x := s.o.Output + s.o.OutputStddev*rng.NormFloat64(); x >= 0 && x <= math.MaxInt32 {
			return max(1, int(math.Ceil(x)))
		}
	}
}

// schedule sets a turn's time and delay.
func (s *Source) schedule(out *loadgen.Turn, t *turn, i int) {
	if s.o.IgnoreTimes {
		return
	}
	ms := func(v float64) time.Duration { return time.Duration(v * float64(time.Millisecond)) }
	if t.hasAt {
		out.Timed, out.At = true, ms(t.at-s.zero)
	}
	if t.hasDelay && i > 0 {
		out.Delay = ms(t.delay)
		if s.o.DelayCap != nil {
			out.Delay = min(out.Delay, *s.o.DelayCap)
		}
	}
}

// sessionID is the id of the n-th conversation without one.
func (s *Source) sessionID(n int) string {
	if !s.o.RandomIDs {
		return fmt.Sprintf("session_%06d", n)
	}
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], s.o.Seed)
	binary.LittleEndian.PutUint64(key[8:], uint64(n))
	id, err := uuid.NewRandomFromReader(rand.NewChaCha8(key))
	if err != nil { // cannot be: the reader has no end
		return fmt.Sprintf("session_%06d", n)
	}
	return id.String()
}
