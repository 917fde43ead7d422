package loadgen_test

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"prefire/internal/fakellm"
	"prefire/loadgen"
	"prefire/loadgen/script"
	"prefire/loadgen/wire/fake"
	"prefire/loadgen/wire/portable"
	"prefire/metrics"
	"prefire/tokenize"
)

// exampleServer stands in the place of yours: four requests at once, 20 ms to the first token, 2 ms to each further one.
func exampleServer(ctx context.Context) (*fakellm.Server, error) {
	tokens, err := tokenize.Open("builtin")
	if err != nil {
		return nil, err
	}
	s, err := fakellm.New(fakellm.Options{Clock: fake.NewClock(), Counter: tokens, TTFT: 20 * time.Millisecond, ITL: 2 * time.Millisecond, Slots: 4})
	if err != nil {
		return nil, err
	}
	return s, s.Start(ctx, "127.0.0.1:0")
}

// A capacity run in Go: the same load at rising numbers of sessions, and what became of it. The clock is package time's; one with finer waits
// matters for rates alone.
func Example() {
	ctx := context.Background()
	server, err := exampleServer(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = server.Close() }()
	clock := fake.NewClock()
	transport := portable.New(portable.Options{Clock: clock})
	defer func() { _ = transport.Close(ctx) }()
	options := script.Options{
		URL: server.URL(), Model: "my-model", MaxTokens: 8, Clock: clock, Transport: transport,
		Prompt: func(phase string, i int64) (string, error) {
			return fmt.Sprintf("%s, question %d: why?", phase, i), nil
		},
	}
	for _, sessions := range []int{1, 4, 16} {
		result, err := script.Run(ctx, options, loadgen.Phase{
			Name: fmt.Sprintf("%d sessions", sessions), Kind: metrics.Profiling, Concurrency: sessions, Requests: 32, Grace: -1,
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		phase := &result.Phases[0]
		ttft, _ := phase.Find("time_to_first_token")
		tokens, _ := phase.Find("output_sequence_length")
		fmt.Printf("%s: %d of %d answered with %v tokens each, none in less than 20 ms: %v\n",
			phase.Phase.Name, phase.OK, phase.Sent, tokens.Avg, ttft.Min >= 20)
	}
	// Output:
	// 1 sessions: 32 of 32 answered with 8 tokens each, none in less than 20 ms: true
	// 4 sessions: 32 of 32 answered with 8 tokens each, none in less than 20 ms: true
	// 16 sessions: 32 of 32 answered with 8 tokens each, none in less than 20 ms: true
}

// Two phases: what warms the server up is counted apart from what is measured, and a list of prompts ends the run.
func ExampleRun() {
	ctx := context.Background()
	server, err := exampleServer(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = server.Close() }()
	clock := fake.NewClock()
	transport := portable.New(portable.Options{Clock: clock})
	defer func() { _ = transport.Close(ctx) }()
	questions := []string{"What is a prefix cache?", "Who schedules the batches?", "Where does the time go?"}
	var asked atomic.Int64
	result, err := script.Run(ctx, script.Options{
		URL: server.URL(), Model: "my-model", MaxTokens: 4, Clock: clock, Transport: transport,
		Prompt: func(phase string, i int64) (string, error) {
			if phase != "questions" {
				return fmt.Sprintf("%s %d", phase, i), nil
			}
			if i == int64(len(questions)) {
				return "", io.EOF
			}
			asked.Add(1)
			return questions[i], nil
		},
	},
		loadgen.Phase{Name: "warm-up", Kind: metrics.Warmup, Concurrency: 2, Requests: 4, Grace: -1},
		loadgen.Phase{Name: "questions", Kind: metrics.Profiling, Concurrency: 2, Requests: 100, Grace: -1},
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	for i := range result.Phases {
		p := &result.Phases[i]
		tokens, _ := p.Find("total_output_tokens")
		fmt.Printf("%s: %d answered, %v tokens\n", p.Phase.Name, p.OK, tokens.Avg)
	}
	fmt.Println(asked.Load(), "questions asked; proven warm:", result.Summary.Prewarm.Targets[0].Proven)
	// Output:
	// warm-up: 4 answered, 16 tokens
	// questions: 3 answered, 12 tokens
	// 3 questions asked; proven warm: true
}
