package main

import (
	"context"

	"prefire/internal/dataset"
	"prefire/loadgen"
	"prefire/metrics"
	"prefire/tokenize"
)

// makePrompts makes n prompts as a run does, and keeps none.
func makePrompts(ctx context.Context, n, isl int) error {
	tokens, err := tokenize.Open("builtin")
	if err != nil {
		return err
	}
	s, err := dataset.New(dataset.Options{Seed: 1, Tokenizer: tokens, Input: dataset.Length{Mean: float64(isl)}, Output: dataset.Length{Mean: 1},
		Phases: []metrics.Kind{metrics.Profiling}})
	if err != nil {
		return err
	}
	defer s.Close()
	for range n {
		if _, err := s.Next(ctx, loadgen.Stream{Kind: metrics.Profiling}); err != nil {
			return err
		}
	}
	return nil
}
