package dataset

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"prefire/loadgen"
	"prefire/metrics"
	"prefire/tokenize"
)

var builtin = sync.OnceValue(func() tokenize.Tokenizer {
	t, err := tokenize.Open("builtin")
	if err != nil {
		panic(err)
	}
	return t
})

const summarize = "Summarize the following text concisely: {{text}}"

var topics = []Variable{{Name: "text", Values: []string{
	"artificial intelligence", "quantum computing", "blockchain technology", "climate change", "machine learning", "renewable energy",
}}}

var (
	prewarm   = loadgen.Stream{Kind: metrics.Warmup, Phase: -1}
	warmup    = loadgen.Stream{Kind: metrics.Warmup, Phase: 0}
	profiling = loadgen.Stream{Kind: metrics.Profiling, Phase: 1}
)

// options are those of a run with a warm-up and one profiling phase.
func options(input float64) Options {
	return Options{Seed: 7, Tokenizer: builtin(), Input: Length{Mean: input}, Phases: []metrics.Kind{metrics.Warmup, metrics.Profiling}}
}

func source(t testing.TB, o Options) *Source {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func take(t testing.TB, s *Source, which loadgen.Stream, n int) []*loadgen.Session {
	t.Helper()
	var out []*loadgen.Session
	for range n {
		session, err := s.Next(context.Background(), which)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, session)
	}
	return out
}

func content(s *loadgen.Session) string { return s.Turns[0].Messages[0].Content }

func TestExactLengths(t *testing.T) {
	templates := []struct {
		text      string
		variables []Variable
	}{
		{"", nil}, {summarize, topics}, {"{{ text }}", topics}, {"Read this.\n\n{{text}}\n\nNow answer:", topics}, {"Fixed words", nil},
		{"Say {{a}} to {{b}}, then {{a}}!", []Variable{{"a", []string{"yes", "no"}}, {"b", []string{"me", "everyone here"}}}},
	}
	for _, tm := range templates {
		for _, n := range []int{1, 2, 16, 128, 512, 1024, 4096, 100_000} {
			count := min(20, 1+40_000/n)
			if n == 100_000 && len(tm.variables) == 2 {
				continue
			}
			o := options(float64(n))
			o.Template, o.Variables = tm.text, tm.variables
			o.Output.Mean = 128
			s, err := New(o)
			var short *tokenize.TooShortError
			if n <= 16 && tm.text != "" && errors.As(err, &short) && short.Fixed > n {
				continue
			}
			if err != nil {
				t.Fatalf("%q, %d tokens: %v", tm.text, n, err)
			}
			for _, session := range take(t, s, profiling, count) {
				turn := session.Turns[0]
				if len(session.Turns) != 1 || len(turn.Messages) != 1 || turn.Messages[0].Role != "user" || turn.MaxTokens != 128 ||
					turn.Input != metrics.Known(int64(n)) || turn.Delay != 0 {
					t.Errorf("session %+v", session)
				}
				if got := builtin().Count([]byte(content(session))); got != n {
					t.Errorf("%q: %d tokens, want %d", content(session), got, n)
				}
			}
			s.Close()
		}
	}
}

func TestTemplatePlaces(t *testing.T) {
	topic := `(artificial intelligence|quantum computing|blockchain technology|climate change|machine learning|renewable energy)`
	generated := ` [A-Z][a-z]+ [a-z ,.A-Z]+\.`
	for _, c := range []struct {
		template  string
		variables []Variable
		want      string
	}{
		{summarize, topics, `Summarize the following text concisely: ` + topic + generated},
		{"A {{ text }} B", topics, `A ` + topic + generated + ` B`},
		{"A {{x}} B {{text}} C {{x}}.", append([]Variable{{"x", []string{"one", "two"}}}, topics...),
			`A (one B ` + topic + ` C one|two B ` + topic + ` C two)` + generated + `\.`},
		{"Only words", nil, `Only words` + generated},
		{"Only words:\n", nil, `Only words:\n` + generated[1:]},
		{"", nil, generated[1:]},
	} {
		o := options(64)
		o.Template, o.Variables = c.template, c.variables
		pattern := regexp.MustCompile(`^` + c.want + `$`)
		for _, session := range take(t, source(t, o), profiling, 20) {
			if !pattern.MatchString(content(session)) {
				t.Errorf("template %q gives %q", c.template, content(session))
			}
		}
	}
}

func TestAllValuesAreDrawn(t *testing.T) {
	o := options(32)
	o.Template, o.Variables = summarize, topics
	seen := map[string]int{}
	for _, session := range take(t, source(t, o), profiling, 600) {
		for _, v := range topics[0].Values {
			if strings.Contains(content(session), ": "+v+" ") {
				seen[v]++
			}
		}
	}
	for _, v := range topics[0].Values {
		if seen[v] < 60 || seen[v] > 140 {
			t.Errorf("%q was drawn %d times of 600", v, seen[v])
		}
	}
}

// blocks holds the first 16 tokens after the fixed words of every prompt.
func blocks(t testing.TB, sessions []*loadgen.Session, after string, into map[string]string) (repeats int) {
	t.Helper()
	for _, session := range sessions {
		rest, ok := strings.CutPrefix(content(session), after)
		if !ok {
			t.Fatalf("%q does not begin with %q", content(session), after)
		}
		ids := builtin().Append(nil, []byte(rest))
		block := fmt.Sprint(ids[:min(16, len(ids))])
		if _, ok := into[block]; ok {
			repeats++
		}
		into[block] = session.ID
	}
	return repeats
}

func TestNoPromptRepeats(t *testing.T) {
	for _, n := range []float64{24} {
		o := options(n)
		o.Template, o.Variables = summarize, topics
		s := source(t, o)
		seen := map[string]string{}
		total := 0
		for _, c := range []struct {
			which loadgen.Stream
			n     int
		}{{prewarm, 500}, {warmup, 2000}, {profiling, 20_000}} {
			sessions := take(t, s, c.which, c.n)
			total += c.n
			if r := blocks(t, sessions, "Summarize the following text concisely: ", seen); r != 0 {
				t.Errorf("%d prompts of %v repeat", r, c.which)
			}
		}
		if got, want := s.Stats(), (Stats{Distinct: int64(total), Tokens: 24 * int64(total)}); got != want {
			t.Errorf("stats %+v, want %+v", got, want)
		}
	}
}

// What cannot be distinct is counted, by the blocks that a cache would see.
func TestRepeatsAreCounted(t *testing.T) {
	long := "a value of many words that leaves the first block of tokens no room for anything else at all"
	for _, c := range []struct {
		name, template string
		variables      []Variable
		input          float64
		entries        int
		take           int
		after          string
		some           bool // some repeat
	}{
		{"one token", "", nil, 1, 0, 2000, "", true},
		{"two tokens", "", nil, 2, 0, 3000, "", false},
		{"a value that fills the block", "On {{x}}", []Variable{{"x", []string{long, "short"}}}, 64, 0, 300, "On ", true},
		{"no room at all", "Fixed words", nil, 2, 0, 50, "Fixed words", true},
		{"entries", "", nil, 32, 30, 100, "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := options(c.input)
			o.Template, o.Variables, o.Entries = c.template, c.variables, c.entries
			s := source(t, o)
			seen := map[string]string{}
			repeats := 0
			for _, which := range []loadgen.Stream{warmup, profiling} {
				repeats += blocks(t, take(t, s, which, c.take), c.after, seen)
			}
			want := Stats{Distinct: int64(2*c.take - repeats), Repeated: int64(repeats), Tokens: int64(2*c.take) * int64(c.input)}
			if c.entries > 0 {
				want.Shared = 2 * int64(c.take-c.entries) * int64(c.input)
			}
			if got := s.Stats(); got != want || (repeats > 0) != c.some {
				t.Errorf("stats %+v, want %+v", got, want)
			}
		})
	}
}

func TestEntriesRepeatInOrder(t *testing.T) {
	o := options(32)
	o.Entries = 7
	sessions := take(t, source(t, o), profiling, 20)
	for i, session := range sessions {
		if session.Index != int64(i) || session.ID != fmt.Sprintf("session_%06d", i%7) || content(session) != content(sessions[i%7]) {
			t.Errorf("session %d is %d, %s, %q", i, session.Index, session.ID, content(session))
		}
	}
	// More entries than are asked for change nothing.
	o.Entries = 0
	if got := contents(take(t, source(t, o), profiling, 7)); !slices.Equal(got, contents(sessions[:7])) {
		t.Error("the first entries are not the first prompts without a number of entries")
	}
}

func contents(sessions []*loadgen.Session) []string {
	var out []string
	for _, s := range sessions {
		out = append(out, content(s)+fmt.Sprint(s.ID, s.Index, s.Turns[0].MaxTokens))
	}
	return out
}

// A seed gives one list, whatever the number of cores and the order in which streams are asked.
func TestSeed(t *testing.T) {
	o := options(300)
	o.Input.Stddev, o.Output = 100, Length{Mean: 100, Stddev: 30}
	o.Template, o.Variables = summarize, topics
	list := func(o Options, first, second loadgen.Stream) []string {
		s, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		a := contents(take(t, s, first, 300))
		b := contents(take(t, s, second, 300))
		if first == profiling {
			return append(a, b...)
		}
		return append(b, a...)
	}
	want := list(o, profiling, warmup)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, cores := range []int{1, 2, 8} {
		runtime.GOMAXPROCS(cores)
		if !slices.Equal(list(o, warmup, profiling), want) {
			t.Errorf("%d cores give other prompts", cores)
		}
	}
	other := o
	other.Seed = 8
	for i, c := range list(other, profiling, warmup) {
		if c == want[i] {
			t.Errorf("prompt %d is the same with two seeds", i)
		}
	}
}

// The list of a seed is part of what a result says of itself: it stays what it is.
func TestGoldenPrompts(t *testing.T) {
	o := options(24)
	o.Template, o.Variables = summarize, topics
	s := source(t, o)
	var got []string
	for _, which := range []loadgen.Stream{prewarm, warmup, profiling, profiling} {
		session := take(t, s, which, 1)[0]
		got = append(got, session.ID+": "+content(session))
	}
	want := []string{
		"session_prewarm_000000: Summarize the following text concisely: climate change Perfect meters recovered mobile goats, whereas its baker " +
			"composed her.",
		"session_0_000000: Summarize the following text concisely: quantum computing Early markers released dual figures behind neither moderate " +
			"exam. Happy.",
		"session_000000: Summarize the following text concisely: climate change Wild notebooks kept separate jars temporarily. Indeed, five blue.",
		"session_000001: Summarize the following text concisely: artificial intelligence Visual forms awarded excellent clocks along every " +
			"fortunate member throughout my.",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestConcurrentNextLosesNothing(t *testing.T) {
	o := options(40)
	s := source(t, o)
	var mu sync.Mutex
	got := map[int64]string{}
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 100 {
				session, err := s.Next(context.Background(), profiling)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				got[session.Index] = content(session)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	want := take(t, source(t, o), profiling, 1600)
	if len(got) != 1600 {
		t.Fatalf("%d different sessions, want 1600", len(got))
	}
	for i, session := range want {
		if got[int64(i)] != content(session) {
			t.Errorf("session %d differs", i)
		}
	}
}

func TestIDs(t *testing.T) {
	s := source(t, options(20))
	for which, want := range map[loadgen.Stream]string{prewarm: "session_prewarm_000000", warmup: "session_0_000000", profiling: "session_000000"} {
		if got := take(t, s, which, 1)[0].ID; got != want {
			t.Errorf("the first session of %v is %s, want %s", which, got, want)
		}
	}
	o := options(20)
	o.RandomIDs = true
	form := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	seen := map[string]bool{}
	s = source(t, o)
	for _, session := range append(take(t, s, profiling, 200), take(t, s, warmup, 200)...) {
		if !form.MatchString(session.ID) || seen[session.ID] {
			t.Errorf("id %s", session.ID)
		}
		seen[session.ID] = true
	}
}

func TestLengths(t *testing.T) {
	stats := func(values []float64) (mean, std, least float64) {
		least = math.Inf(1)
		for _, v := range values {
			mean += v / float64(len(values))
			least = min(least, v)
		}
		for _, v := range values {
			std += (v - mean) * (v - mean) / float64(len(values))
		}
		return mean, math.Sqrt(std), least
	}
	for _, c := range []struct {
		l               Length
		least           int
		mean, std, min  float64
		meanTol, stdTol float64
	}{
		{Length{Mean: 512, Stddev: 0}, 1, 512, 0, 512, 1e-6, 1e-6},
		{Length{Mean: 512.5, Stddev: 0}, 1, 512, 0, 512, 1e-6, 1e-6},
		{Length{Mean: 0.5, Stddev: 0}, 1, 1, 0, 1, 1e-6, 1e-6},
		{Length{Mean: 512, Stddev: 50}, 1, 512.5, 50, 300, 2, 2},
		// aiperf's 20/50 has a mean of 50: the normal distribution above 0, rounded up.
		{Length{Mean: 20, Stddev: 50}, 1, 48.5, 32, 1, 2, 3},
		{Length{Mean: 100, Stddev: 50}, 80, 127.5, 32, 80, 2, 3},
	} {
		m := source(t, options(32)).newMaker()
		m.pcg.Seed(1, 2)
		var values []float64
		for range 20_000 {
			values = append(values, float64(c.l.draw(m.rng, c.least)))
		}
		mean, std, least := stats(values)
		if math.Abs(mean-c.mean) > c.meanTol || math.Abs(std-c.std) > c.stdTol || (c.min == 1 || c.std == 0 || c.least > 1) && least != c.min {
			t.Errorf("%+v from %d: mean %.1f, std %.1f, least %v; want %v, %v, %v", c.l, c.least, mean, std, least, c.mean, c.std, c.min)
		}
	}
}

// With a deviation every prompt still has its own exact length, at least the fixed words'.
func TestDrawnLengthsAreExact(t *testing.T) {
	o := options(20)
	o.Input.Stddev = 12
	o.Template, o.Variables = summarize, topics
	lengths := map[int64]int{}
	for _, session := range take(t, source(t, o), profiling, 500) {
		n := session.Turns[0].Input.N
		if got := builtin().Count([]byte(content(session))); int64(got) != n {
			t.Errorf("%q: %d tokens, said to be %d", content(session), got, n)
		}
		lengths[n]++
	}
	if len(lengths) < 20 {
		t.Errorf("only %d different lengths", len(lengths))
	}
}

func TestNewErrors(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Options)
		want   string
	}{
		{"too short", func(o *Options) { o.Input.Mean = 5; o.Template, o.Variables = summarize, topics },
			`a prompt of 5 input tokens (o200k_base) cannot be made from the template "Summarize the following text concisely: {{text}}" with text = ` +
				`"artificial intelligence": the fixed words alone are 12 tokens, and the whole text is to have 5`},
		{"unknown variable", func(o *Options) { o.Template, o.Variables = "About {{ topic }}", topics },
			`the prompt template "About {{ topic }}" does not go with its variables: it uses {{topic}}, which has no values; the variable "text" is ` +
				`not in it (variables with values: text)`},
		{"no variables", func(o *Options) { o.Template = "{{text}} and {{text}}" },
			`the prompt template "{{text}} and {{text}}" does not go with its variables: it uses {{text}}, which has no values (variables with ` +
				`values: none)`},
		{"unused variable", func(o *Options) { o.Variables = topics },
			`the prompt template "" does not go with its variables: the variable "text" is not in it (variables with values: text)`},
		{"no values", func(o *Options) { o.Template, o.Variables = summarize, []Variable{{Name: "text"}} },
			`the template variable "text" has no values; give it at least one`},
		{"twice", func(o *Options) { o.Template, o.Variables = summarize, append(topics, topics...) },
			`the template variable "text" is defined twice`},
		{"open braces", func(o *Options) { o.Template, o.Variables = "On {{text}} {{text", topics },
			`the prompt template "On {{text}} {{text" has {{ without }} at byte 12`},
		{"no input", func(o *Options) { o.Input.Mean = 0 }, `the mean input length is 0 tokens; allowed: 1 to 2147483647`},
		{"NaN", func(o *Options) { o.Input.Mean = math.NaN() }, `the mean input length is NaN tokens; allowed: 1 to 2147483647`},
		{"negative output", func(o *Options) { o.Output.Mean = -1 }, `the mean output length is -1 tokens; allowed: 0 to 2147483647`},
		{"negative deviation", func(o *Options) { o.Input.Stddev = -1 },
			`the standard deviation of the input length is -1 tokens; allowed: 0 to 2147483647`},
		{"negative entries", func(o *Options) { o.Entries = -1 }, `-1 dataset entries; allowed: 0 (no prompt is used twice) and more`},
	} {
		o := options(100)
		c.change(&o)
		if _, err := New(o); err == nil || err.Error() != c.want {
			t.Errorf("%s: %v\nwant %s", c.name, err, c.want)
		}
	}
}

func TestManyCombinations(t *testing.T) {
	var o Options
	values := []string{"one", "two words", "a rather long value of nine words in all", "three"}
	o = options(40)
	for i := range 8 { // 65,536 combinations
		name := fmt.Sprintf("v%d", i)
		o.Template += " {{" + name + "}}"
		o.Variables = append(o.Variables, Variable{name, values})
	}
	_, err := New(o)
	var short *tokenize.TooShortError
	if !errors.As(err, &short) || short.Fixed != 72 || short.Target != 40 {
		t.Errorf("%v, want the longest values' count", err)
	}
}

func TestNextErrors(t *testing.T) {
	s := source(t, options(20))
	for which, want := range map[loadgen.Stream]string{
		{Kind: metrics.Profiling, Phase: 2}: "dataset: phase 2 of kind profiling is not one of the 2 phases it was made for",
		{Kind: metrics.Profiling, Phase: 0}: "dataset: phase 0 of kind profiling is not one of the 2 phases it was made for",
	} {
		if _, err := s.Next(context.Background(), which); err == nil || err.Error() != want {
			t.Errorf("%v: %v, want %s", which, err, want)
		}
	}
	take(t, s, profiling, 3)
	s.Close()
	s.Close()
	if _, err := s.Next(context.Background(), profiling); err != ErrClosed {
		t.Errorf("after Close: %v", err)
	}
}

// A caller that gives up does not take a prompt with it.
func TestCancelledNext(t *testing.T) {
	s := source(t, options(20))
	take(t, s, profiling, 1)
	stream, err := s.stream(2)
	if err != nil {
		t.Fatal(err)
	}
	<-stream.turn // another caller is being served
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := s.Next(ctx, profiling); err != context.Canceled {
		t.Errorf("got %v", err)
	}
	stream.turn <- struct{}{}
	if got := take(t, s, profiling, 1)[0].Index; got != 1 {
		t.Errorf("the next session is %d, want 1", got)
	}
}

// Close ends a wait, whatever it is for.
func TestCloseWakesCallers(t *testing.T) {
	s := source(t, options(20))
	take(t, s, profiling, 1)
	stream, err := s.stream(2)
	if err != nil {
		t.Fatal(err)
	}
	<-stream.turn // as if another caller were being served
	done := make(chan error)
	go func() {
		_, err := stream.next(context.Background())
		done <- err
	}()
	s.Close()
	if err := <-done; err != ErrClosed {
		t.Errorf("got %v", err)
	}
}

// A stream of which few prompts are taken makes few.
func TestAheadGrowsWithUse(t *testing.T) {
	s := source(t, options(20))
	take(t, s, prewarm, 1)
	stream, err := s.stream(0)
	if err != nil {
		t.Fatal(err)
	}
	<-stream.turn
	if stream.ahead != 2 || cap(stream.room) != aheadPrompts {
		t.Errorf("%d prompts ahead of at most %d, want 2 of %d", stream.ahead, cap(stream.room), aheadPrompts)
	}
	stream.turn <- struct{}{}
	take(t, s, prewarm, 1000)
	if <-stream.turn; stream.ahead != aheadPrompts {
		t.Errorf("%d prompts ahead, want %d", stream.ahead, aheadPrompts)
	}
	stream.turn <- struct{}{}
	if got, want := len(newStream(s, 1, 2).ring), aheadPrompts; got != want {
		t.Errorf("a ring of %d for short prompts, want %d", got, want)
	}
	long := source(t, options(100_000))
	if got, want := len(newStream(long, 1, 2).ring), aheadBytes/600_000; got != want {
		t.Errorf("a ring of %d for prompts of 100,000 tokens, want %d", got, want)
	}
}

func FuzzTemplate(f *testing.F) {
	f.Add("Summarize: {{text}}", "text", "climate", 40)
	f.Add("{{ a }}b{{a}}", "a", "", 12)
	f.Add("}}{{", "a", "{{a}}", 3)
	f.Fuzz(func(t *testing.T, text, name, value string, n int) {
		if n < 1 || n > 200 || len(text)+len(value) > 300 {
			return
		}
		o := options(float64(n))
		o.Template, o.Variables = text, []Variable{{name, []string{value}}}
		s, err := New(o)
		if err != nil {
			return
		}
		defer s.Close()
		for _, session := range take(t, s, profiling, 3) {
			if got := builtin().Count([]byte(content(session))); got != n {
				t.Fatalf("%q has %d tokens, want %d", content(session), got, n)
			}
		}
	})
}

func BenchmarkNext(b *testing.B) {
	for _, n := range []float64{512, 8192} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			o := options(n)
			o.Seed = rand.Uint64()
			o.Template, o.Variables = summarize, topics
			s := source(b, o)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Next(context.Background(), profiling); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "prompts/s")
		})
	}
}
