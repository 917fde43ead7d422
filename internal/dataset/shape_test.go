package dataset

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"prefire/loadgen"
	"prefire/metrics"
	"prefire/tokenize"
)

func count(text string) int { return builtin().Count([]byte(text)) }

func roles(t loadgen.Turn) string {
	var out []string
	for _, m := range t.Messages {
		out = append(out, m.Role)
	}
	return strings.Join(out, " ")
}

// joined is a turn's text as it is counted: one space between messages.
func joined(t loadgen.Turn) string {
	var out []string
	for _, m := range t.Messages {
		out = append(out, m.Content)
	}
	return strings.Join(out, " ")
}

// Every corpus meets every length exactly, and no two texts have the same first 16 tokens.
func TestCorpora(t *testing.T) {
	for _, c := range []struct {
		corpus tokenize.Corpus
		looks  string
	}{{tokenize.Prose, `^[A-Z][a-z]+( [a-z]+)+`}, {tokenize.Code, `(?s)^# [A-Z][a-z]+ .*\n.*(def| = )`}, {tokenize.Random, `^\pL+( \pL+)+`}} {
		for _, n := range []float64{1, 2, 16, 128, 512, 1024, 4096, 100_000} {
			if testing.Short() && n > 4096 {
				continue
			}
			o := options(n)
			o.Corpus = c.corpus
			s, err := New(o)
			if err != nil {
				t.Fatalf("corpus %d, %v tokens: %v", c.corpus, n, err)
			}
			seen := map[string]string{}
			sessions := take(t, s, profiling, min(50, 1+int(100_000/n)))
			for _, session := range sessions {
				if got := count(content(session)); got != int(n) {
					t.Errorf("corpus %d: %d tokens, want %v", c.corpus, got, n)
				}
				if n >= 128 && !regexp.MustCompile(c.looks).MatchString(content(session)) {
					t.Errorf("corpus %d: %q", c.corpus, content(session)[:100])
				}
			}
			if r := blocks(t, sessions, "", seen); n >= 16 && r != 0 {
				t.Errorf("corpus %d: %d of %d repeat", c.corpus, r, len(sessions))
			}
			s.Close()
		}
	}
}

func TestMixAndRanges(t *testing.T) {
	o := options(1)
	o.Mix = []Share{{25, Length{Mean: 100}, Length{Mean: 10}}, {75, Length{Low: 200, High: 209}, Length{Low: 20, High: 21}}}
	short, lengths := 0, map[int64]int{}
	const n = 2000
	for _, session := range take(t, source(t, o), profiling, n) {
		turn := session.Turns[0]
		if int64(count(content(session))) != turn.Input.N {
			t.Errorf("%d tokens, said to be %d", count(content(session)), turn.Input.N)
		}
		lengths[turn.Input.N]++
		if turn.Input.N == 100 {
			short++
			if turn.MaxTokens != 10 {
				t.Errorf("100 tokens with %d output tokens", turn.MaxTokens)
			}
		} else if turn.MaxTokens != 20 && turn.MaxTokens != 21 {
			t.Errorf("%d tokens with %d output tokens", turn.Input.N, turn.MaxTokens)
		}
	}
	if math.Abs(float64(short)/n-0.25) > 0.04 || len(lengths) != 11 {
		t.Errorf("%d of %d are short; lengths %v", short, n, lengths)
	}
	for l := int64(200); l <= 209; l++ {
		if k := lengths[l]; k < 100 || k > 200 {
			t.Errorf("%d prompts of %d tokens", k, l)
		}
	}
}

func TestMixErrors(t *testing.T) {
	for _, c := range []struct {
		change func(*Options)
		want   string
	}{
		{func(o *Options) { o.Mix = []Share{{50, Length{Mean: 9}, Length{}}} }, "the shares of the lengths add up to 50 %; they must be 100"},
		{func(o *Options) { o.Input = Length{Low: 0, High: 4} }, "the input length is between 0 and 4 tokens; allowed: a range from 1 on, to 2147483647"},
		{func(o *Options) { o.Repeat = 1 }, "a share of 1 of repeats with 0 entries; allowed: 0 to below 1, and not beside a number of entries"},
		{func(o *Options) { o.Repeat, o.Entries = 0.5, 3 }, "a share of 0.5 of repeats with 3 entries; allowed: 0 to below 1, and not beside a number of entries"},
	} {
		o := options(64)
		c.change(&o)
		if _, err := New(o); err == nil || err.Error() != c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

func TestPreface(t *testing.T) {
	o := options(128)
	o.SharedSystem, o.UserContext = 100, 50
	sessions := take(t, source(t, o), profiling, 40)
	contexts := map[string]bool{}
	for _, session := range sessions {
		turn := session.Turns[0]
		if roles(turn) != "system user user" || turn.Messages[0].Content != sessions[0].Turns[0].Messages[0].Content {
			t.Fatalf("%s: %q", roles(turn), turn.Messages[0].Content)
		}
		for i, want := range []int{100, 50, 128} {
			if got := count(turn.Messages[i].Content); got != want {
				t.Errorf("message %d has %d tokens, want %d", i, got, want)
			}
		}
		if got := int64(count(joined(turn))); turn.Input != metrics.Known(got) {
			t.Errorf("input %v, want %d", turn.Input, got)
		}
		contexts[turn.Messages[1].Content] = true
	}
	if len(contexts) != 40 {
		t.Errorf("%d contexts in 40 sessions", len(contexts))
	}
	o = options(128)
	o.System = "Be brief."
	if turn := take(t, source(t, o), profiling, 1)[0].Turns[0]; roles(turn) != "system user" || turn.Messages[0].Content != "Be brief." ||
		count(turn.Messages[1].Content) != 128 || turn.Input.N != int64(count(joined(turn))) {
		t.Errorf("%+v", turn)
	}
}

func TestPrefixPool(t *testing.T) {
	o := options(60)
	o.PrefixPool, o.PrefixLength = 3, 40
	o.Template, o.Variables = summarize, topics
	s := source(t, o)
	pool := map[string]int{}
	rest := map[string]bool{}
	for _, session := range take(t, s, profiling, 300) {
		if n := count(content(session)); n != 100 || session.Turns[0].Input.N != 100 {
			t.Fatalf("%d tokens, said %d, want 100", n, session.Turns[0].Input.N)
		}
		before, after, _ := strings.Cut(content(session), " Summarize")
		pool[before]++
		rest[after] = true
	}
	for text, n := range pool {
		if count(text) != 40 || n < 60 {
			t.Errorf("prefix %q of %d tokens, used %d times", text, count(text), n)
		}
	}
	if len(pool) != 3 || len(rest) != 300 {
		t.Errorf("%d prefixes, %d texts behind them", len(pool), len(rest))
	}
	if got, want := s.Stats(), (Stats{Distinct: 300, Tokens: 30_000, Shared: 297 * 40}); got != want {
		t.Errorf("stats %+v, want %+v", got, want)
	}
}

func TestTurns(t *testing.T) {
	o := options(40)
	o.PrefixPool, o.PrefixLength, o.SharedSystem = 1, 20, 30
	o.Turns, o.Delay, o.DelayRatio = Length{Mean: 4, Stddev: 2}, Length{Mean: 100, Stddev: 20}, 0.5
	turns, delays := map[int]int{}, map[time.Duration]bool{}
	for _, session := range take(t, source(t, o), profiling, 400) {
		turns[len(session.Turns)]++
		for i, turn := range session.Turns {
			want, n := "user", 40
			if i == 0 {
				want, n = "system user", 60
			}
			if roles(turn) != want || count(turn.Messages[len(turn.Messages)-1].Content) != n {
				t.Fatalf("turn %d: %s, %d tokens", i, roles(turn), count(turn.Messages[len(turn.Messages)-1].Content))
			}
			if (turn.Delay > 0) != (i > 0) || turn.Delay > 100*time.Millisecond {
				t.Errorf("turn %d waits %v", i, turn.Delay)
			}
			delays[turn.Delay] = true
		}
	}
	if len(turns) < 8 || turns[1] == 0 || turns[4]+turns[5] < 100 || len(delays) < 50 {
		t.Errorf("turns %v, %d delays", turns, len(delays))
	}
}

func TestBatch(t *testing.T) {
	o := options(30)
	o.Batch = 3
	seen := map[string]bool{}
	for _, session := range take(t, source(t, o), profiling, 50) {
		turn := session.Turns[0]
		texts := turn.Messages[0].Texts
		if turn.Messages[0].Role != "user" || turn.Messages[0].JSON != nil || len(texts) != 3 {
			t.Fatalf("%+v", turn.Messages[0])
		}
		for _, text := range texts {
			if count(text) != 30 || seen[text] {
				t.Errorf("text %q", text)
			}
			seen[text] = true
		}
		if all := strings.Join(texts, " "); turn.Messages[0].Content != all || turn.Input.N != int64(count(all)) {
			t.Errorf("content %q, input %v", turn.Messages[0].Content, turn.Input)
		}
	}
}

// A share of repeats comes out as asked, also by the first 16 tokens.
func TestRepeatShare(t *testing.T) {
	for _, share := range []float64{0.1, 0.5, 0.9} {
		o := options(64)
		o.Repeat = share
		s := source(t, o)
		windows := map[string]bool{}
		repeats := 0
		const n = 1000
		for _, session := range take(t, s, profiling, n) {
			w := fmt.Sprint(builtin().Append(nil, []byte(content(session)))[:window])
			if windows[w] {
				repeats++
			}
			windows[w] = true
		}
		want := int(n * share)
		if repeats != want {
			t.Errorf("share %v: %d of %d repeat, want %d", share, repeats, n, want)
		}
		if got, stats := s.Stats(), (Stats{Distinct: int64(n - want), Repeated: int64(want), Tokens: 64 * n, Shared: 64 * int64(want)}); got != stats {
			t.Errorf("stats %+v, want %+v", got, stats)
		}
	}
}

func TestCacheBust(t *testing.T) {
	const rid = `\[rid:[0-9a-f]{12}\]`
	for _, c := range []struct {
		bust           CacheBust
		system         string
		shared         int
		inSystem, user string // patterns; "" = no marker
		which          loadgen.Stream
	}{
		{BustSystemPrefix, "Be brief.", 0, `^` + rid + "\n\nBe brief\\.$", "", profiling},
		{BustSystemSuffix, "", 60, `\.` + "\n\n" + rid + `$`, "", profiling},
		{BustSystemPrefix, "", 60, `^` + rid + "\n\n[A-Z]", "", profiling},
		{BustSystemPrefix, "", 0, "", `^` + rid + "\n\n[A-Z]", profiling},
		{BustFirstTurnPrefix, "Be brief.", 0, "", `^` + rid + "\n\n[A-Z]", profiling},
		{BustFirstTurnSuffix, "", 0, "", "\n\n" + rid + `$`, profiling},
		{BustIsolateWarmupSystem, "Be brief.", 0, `^\[warmup\]` + "\n\nBe brief", "", warmup},
		{BustIsolateWarmupOnFirst, "", 0, "", `^\[warmup\]` + "\n\n[A-Z]", warmup},
		{BustIsolateWarmupOnFirst, "", 0, "", `^[A-Z]`, profiling},
	} {
		o := options(80)
		o.CacheBust, o.System, o.SharedSystem = c.bust, c.system, c.shared
		var marks []string
		for _, session := range take(t, source(t, o), c.which, 20) {
			messages := session.Turns[0].Messages
			user := messages[len(messages)-1].Content
			if count(user) != 80 {
				t.Errorf("%s: %d tokens", c.bust, count(user))
			}
			if c.user != "" && !regexp.MustCompile(c.user).MatchString(user) || c.user == "" && strings.Contains(user, "[") {
				t.Errorf("%s: user message %q", c.bust, user)
			}
			if c.inSystem != "" && !regexp.MustCompile(c.inSystem).MatchString(messages[0].Content) {
				t.Errorf("%s: system message %q", c.bust, messages[0].Content)
			}
			if c.shared > 0 && count(messages[0].Content) != c.shared {
				t.Errorf("%s: system message of %d tokens", c.bust, count(messages[0].Content))
			}
			marks = append(marks, regexp.MustCompile(rid).FindString(messages[0].Content))
		}
		slices.Sort(marks)
		if marks[0] != "" && len(slices.Compact(marks)) != 20 {
			t.Errorf("%s: markers repeat", c.bust)
		}
	}
}

// An entry that is sent again has a new marker, and counts as a repeat only where a prefix cache would know it.
func TestCacheBustOfRepeats(t *testing.T) {
	const (
		sessions, entries = 40, 10
		whole             = -1
	)
	for _, c := range []struct {
		bust     CacheBust
		system   int // tokens of a shared system prompt
		repeated int64
		fresh    int64 // tokens that a session with an entry of its own shares with those before it
		again    int64 // and one that sends an entry again
	}{
		{NoBust, 30, 30, 30, whole},
		{BustSystemPrefix, 30, 0, 0, 0},
		{BustSystemSuffix, 30, 0, 30, 30},
		{BustFirstTurnPrefix, 30, 0, 30, 30},
		{BustFirstTurnPrefix, 0, 0, 0, 0},
		{BustFirstTurnSuffix, 30, 30, 30, whole},
		{BustSystemSuffix, 0, 30, 0, whole},
		{BustIsolateWarmupSystem, 30, 30, 30, whole},
	} {
		o := options(80)
		o.CacheBust, o.SharedSystem, o.Entries = c.bust, c.system, entries
		s := source(t, o)
		marks := map[string]bool{}
		var tokens, shared int64
		for i, session := range take(t, s, profiling, sessions) {
			input := session.Turns[0].Input.N
			tokens += input
			switch {
			case i >= entries && c.again == whole:
				shared += input
			case i >= entries:
				shared += c.again
			case i > 0:
				shared += c.fresh
			}
			for _, m := range session.Turns[0].Messages {
				if mark := regexp.MustCompile(`\[rid:[0-9a-f]{12}\]`).FindString(m.Content); mark != "" {
					if marks[mark] {
						t.Errorf("%s: the marker %s comes twice", c.bust, mark)
					}
					marks[mark] = true
				}
			}
		}
		if want := (Stats{Distinct: sessions - c.repeated, Repeated: c.repeated, Tokens: tokens, Shared: shared}); s.Stats() != want {
			t.Errorf("%s, a system prompt of %d: %+v, want %+v", c.bust, c.system, s.Stats(), want)
		}
		marked := sessions
		if c.bust == NoBust || c.bust == BustIsolateWarmupSystem {
			marked = 0
		}
		if len(marks) != marked {
			t.Errorf("%s: %d markers, want %d", c.bust, len(marks), marked)
		}
	}
}

// A warm-up that is marked shares nothing with what is measured, and all the same its own sessions share with each other.
func TestMarkedWarmupSharesWithItself(t *testing.T) {
	o := options(80)
	o.CacheBust, o.System = BustIsolateWarmupSystem, "Be brief, and say nothing that was not asked for."
	s := source(t, o)
	common := int64(count(o.System))
	take(t, s, warmup, 3)
	if got, want := s.Stats().Shared, 2*common; got != want {
		t.Errorf("the warm-up shares %d tokens, want %d", got, want)
	}
	take(t, s, profiling, 1)
	if got, want := s.Stats().Shared, 2*common; got != want {
		t.Errorf("after the first measured session %d tokens, want %d", got, want)
	}
	take(t, s, profiling, 1)
	if got, want := s.Stats().Shared, 3*common; got != want {
		t.Errorf("after the second %d tokens, want %d", got, want)
	}
}

// Lengths that leave no room for the marker are refused before anything is sent, however rarely they would come.
func TestNoRoomForTheMarker(t *testing.T) {
	o := options(0)
	o.CacheBust = BustFirstTurnPrefix
	o.Mix = []Share{{Percent: 99, Input: Length{Mean: 100}}, {Percent: 1, Input: Length{Mean: 5}}}
	_, err := New(o)
	if want := `a prompt of 5 input tokens (o200k_base, with a marker against the cache) cannot be made from the template "": `; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %s…", err, want)
	}
	o.CacheBust = NoBust
	source(t, o)
}

// Once the template is counted, every first turn is so much shorter, and what was made before is not handed out.
func TestCountTemplate(t *testing.T) {
	o := options(128)
	o.Turns = Length{Mean: 2}
	s := source(t, o)
	take(t, s, prewarm, 3)
	if err := s.CountTemplate(11); err != nil {
		t.Fatal(err)
	}
	for _, which := range []loadgen.Stream{prewarm, profiling} {
		for _, session := range take(t, s, which, 20) {
			for i, want := range []int{117, 128} {
				turn := session.Turns[i]
				if got := count(turn.Messages[0].Content); got != want || turn.Input.N != 128 {
					t.Errorf("turn %d: %d tokens, said %d, want %d", i, got, turn.Input.N, want)
				}
			}
		}
	}
	o = options(20)
	o.Template, o.Variables = summarize, topics
	err := source(t, o).CountTemplate(15)
	want := `a prompt of 20 input tokens (o200k_base, 15 of them the chat template's) cannot be made from the template "` + summarize + `" with text = `
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v, want %s…", err, want)
	}
	if err := source(t, options(20)).CountTemplate(-1); err == nil || err.Error() != "a chat template of -1 tokens: it cannot be counted in" {
		t.Errorf("got %v", err)
	}
}

// All of it at once follows from the seed.
func TestShapesFollowTheSeed(t *testing.T) {
	o := options(90)
	o.Seed, o.PrefixPool, o.PrefixLength, o.UserContext, o.Repeat, o.Batch = 5, 4, 30, 20, 0.3, 2
	o.Turns, o.Delay, o.DelayRatio = Length{Mean: 3, Stddev: 1}, Length{Mean: 10}, 1
	list := func() string {
		return fmt.Sprintf("%q", func() (out []string) {
			for _, s := range take(t, source(t, o), profiling, 100) {
				out = append(out, fmt.Sprintf("%+v", *s))
			}
			return out
		}())
	}
	if first, second := list(), list(); first != second {
		t.Error("the same seed gives two lists")
	}
}
