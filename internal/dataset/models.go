package dataset

import (
	"context"
	"math/rand/v2"
	"slices"

	"prefire/loadgen"
)

// Choice is how the sessions of a run are shared out among several models.
type Choice struct {
	Models  []string
	Random  bool      // drawn, all alike where there are no weights; else each model in turn
	Weights []float64 // of Models
	Seed    uint64
}

// Models gives every session of a source its model. A session's model depends on its stream, its number and the seed alone, and is that of
// all its turns, whose history is in that model's cache. The prewarm's throwaways have none.
func Models(src loadgen.Source, c Choice) loadgen.Source { return &models{src, c} }

type models struct {
	src loadgen.Source
	c   Choice
}

func (m *models) Next(ctx context.Context, s loadgen.Stream) (*loadgen.Session, error) {
	sess, err := m.src.Next(ctx, s)
	if err != nil || s.Phase < 0 {
		return sess, err
	}
	model := m.c.Models[m.c.pick(s.Phase, sess.Index)]
	sess.Turns = slices.Clone(sess.Turns)
	for i := range sess.Turns {
		sess.Turns[i].Model = model
	}
	return sess, nil
}

// pick is the index of a session's model.
func (c *Choice) pick(phase int, session int64) int {
	if !c.Random {
		return int(session % int64(len(c.Models)))
	}
	rng := rand.New(rand.NewPCG(c.Seed^modelDraws, uint64(phase)<<48^uint64(session)))
	if c.Weights == nil {
		return rng.IntN(len(c.Models))
	}
	sum := 0.0
	for _, w := range c.Weights {
		sum += w
	}
	at := rng.Float64() * sum
	for i, w := range c.Weights {
		if at -= w; at < 0 {
			return i
		}
	}
	return len(c.Models) - 1
}

// modelDraws sets the draws of models apart from all others of a seed.
const modelDraws = 0x6d6f64656c733f5b
