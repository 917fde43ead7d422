package dataset

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"prefire/loadgen"
	"prefire/tokenize"
)

var elsewhere = sync.OnceValue(func() tokenize.Tokenizer {
	t, err := tokenize.Open("cl100k_base")
	if err != nil {
		panic(err)
	}
	return t
})

// letters is a tokenizer that has nothing in common with the one that texts are put together with.
func letters(text []byte) int { return (len(text) + 2) / 3 }

// Where another party counts, lengths are its tokens, exactly, and it is not asked often.
func TestLengthsByAnotherCount(t *testing.T) {
	for name, count := range map[string]func([]byte) int{"cl100k_base": elsewhere().Count, "letters": letters} {
		for _, n := range []float64{40, 128, 1000} {
			var calls atomic.Int64
			o := options(n)
			o.Template, o.Variables, o.SharedSystem, o.UserContext = summarize, topics, 30, 25
			o.Count = func(_ context.Context, text []byte) (int, error) { calls.Add(1); return count(text), nil }
			s := source(t, o)
			before := calls.Load()
			const sessions = 40
			if ready, err := s.Ahead(t.Context(), profiling, sessions); ready != sessions || err != nil {
				t.Fatalf("%s: %d ahead, %v", name, ready, err)
			}
			made := calls.Load()
			starts := map[string]bool{}
			for _, session := range take(t, s, profiling, sessions) {
				m := session.Turns[0].Messages
				starts[m[1].Content] = true
				if a, b, c := count([]byte(m[0].Content)), count([]byte(m[1].Content)), count([]byte(m[2].Content)); a != 30 || b != 25 || float64(c) != n {
					t.Errorf("%s: %d, %d and %d tokens, want 30, 25 and %v", name, a, b, c, n)
				}
				all := m[0].Content + " " + m[1].Content + " " + m[2].Content
				if got := session.Turns[0].Input.N; got != int64(count([]byte(all))) {
					t.Errorf("%s: input %d, want %d", name, got, count([]byte(all)))
				}
			}
			if calls.Load() != made || len(starts) != sessions {
				t.Errorf("%s: %d counts after the prompts were made; %d of %d begin differently", name, calls.Load()-made, len(starts), sessions)
			}
			if each := (made - before) / sessions; each > 60 {
				t.Errorf("%s, %v tokens: %d counts a session", name, n, each)
			}
			take(t, s, profiling, 1) // one more than was said
		}
	}
}

// A count that cannot be had, or that nothing changes, ends the making, and says so.
func TestCountsThatFail(t *testing.T) {
	gone := errors.New("gone")
	for _, c := range []struct {
		count func(text []byte) (int, error)
		want  string
	}{
		{func([]byte) (int, error) { return 0, gone }, "gone"},
		{func([]byte) (int, error) { return 64, nil }, "no text of 100 tokens by the server's count was found in 300 tries; the nearest has 64"},
		{func([]byte) (int, error) { return 900, nil }, "the fixed words alone are 900 tokens, and the whole text is to have 100"},
		{func(text []byte) (int, error) { return 2 * letters(text), nil }, ""},
		{func(text []byte) (int, error) { return 1 + 2*letters(text), nil }, " 100 tokens"},
	} {
		o := options(100)
		o.Count = func(_ context.Context, text []byte) (int, error) { return c.count(text) }
		s, err := New(o)
		if err == nil {
			s.Close()
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}

// A failure after the start is the stream's error, also where prompts are made ahead.
func TestCountFailsLater(t *testing.T) {
	var broken atomic.Bool
	gone := errors.New("gone")
	o := options(50)
	o.Count = func(_ context.Context, text []byte) (int, error) {
		if broken.Load() {
			return 0, gone
		}
		return letters(text), nil
	}
	s := source(t, o)
	broken.Store(true)
	if n, err := s.Ahead(t.Context(), profiling, 5); n != 0 || !errors.Is(err, gone) {
		t.Errorf("%d ahead, %v", n, err)
	}
	if _, err := s.Next(t.Context(), profiling); !errors.Is(err, gone) {
		t.Errorf("got %v", err)
	}
	if _, err := s.Ahead(t.Context(), loadgen.Stream{Kind: profiling.Kind, Phase: 7}, 5); err == nil {
		t.Error("a phase that there is not was filled")
	}
}

// Close does not wait for a count that does not come.
func TestCloseEndsACount(t *testing.T) {
	var slow atomic.Bool
	begun := make(chan struct{}, countedWorkers)
	o := options(50)
	o.Count = func(ctx context.Context, text []byte) (int, error) {
		if slow.Load() {
			begun <- struct{}{}
			<-ctx.Done()
			return 0, ctx.Err()
		}
		return letters(text), nil
	}
	s := source(t, o)
	slow.Store(true)
	done := make(chan error, 1)
	go func() {
		_, err := s.Ahead(context.Background(), profiling, 1)
		done <- err
	}()
	<-begun
	s.Close()
	if err := <-done; err == nil {
		t.Error("there was a prompt without a count")
	}
}

// Without a total some prompts are made ahead, and no more than that are held.
func TestAheadOfAnEndlessPhase(t *testing.T) {
	s := source(t, options(8))
	if n, err := s.Ahead(t.Context(), profiling, 0); n != aheadPrompts || err != nil {
		t.Errorf("%d ahead, %v; want %d", n, err, aheadPrompts)
	}
	take(t, s, profiling, 3)
	st, err := s.stream(2)
	if err != nil {
		t.Fatal(err)
	}
	if <-st.turn; st.ahead != aheadPrompts || st.asked != st.head+aheadPrompts {
		t.Errorf("%d ahead, %d asked for after %d", st.ahead, st.asked, st.head)
	}
	st.turn <- struct{}{}
}

// A ratio makes lengths by the Tokenizer so much shorter, from the next prompt on, and nobody says that they are exact.
func TestScale(t *testing.T) {
	o := options(400)
	o.Template, o.Variables = summarize, topics
	s := source(t, o)
	if got := take(t, s, prewarm, 1)[0].Turns[0].Input.N; got != 400 {
		t.Errorf("%d tokens before", got)
	}
	if err := s.Scale(1.5); err != nil {
		t.Fatal(err)
	}
	for _, session := range append(take(t, s, prewarm, 3), take(t, s, profiling, 20)...) {
		if n := builtin().Count([]byte(content(session))); n != 267 || session.Turns[0].Input.Known {
			t.Errorf("%d tokens, said to be %+v", n, session.Turns[0].Input)
		}
	}
	for _, ratio := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		if s.Scale(ratio) == nil {
			t.Errorf("a ratio of %v was taken", ratio)
		}
	}
	if err := s.Scale(100); err == nil || !strings.Contains(err.Error(), "the fixed words alone are") {
		t.Errorf("4 tokens: %v", err)
	}
	o.SharedSystem = 20
	if err := source(t, o).Scale(2); err == nil || !strings.Contains(err.Error(), "cannot be fitted") {
		t.Errorf("shared words: %v", err)
	}
}
