package files

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"prefire/internal/dataset"
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

var (
	prewarm   = loadgen.Stream{Kind: metrics.Warmup, Phase: -1}
	warmup    = loadgen.Stream{Kind: metrics.Warmup, Phase: 0}
	profiling = loadgen.Stream{Kind: metrics.Profiling, Phase: 1}
)

// disk is the real one.
type disk struct{}

func (disk) Open(path string) (File, error) { return os.Open(path) }

func (disk) Temp() (Temp, error) {
	f, err := os.CreateTemp("", "files-test-*")
	return temp{f}, err
}

type temp struct{ *os.File }

func (f temp) Close() error { return errors.Join(f.File.Close(), os.Remove(f.Name())) }

// write makes a folder with one file and returns the file's path.
func write(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func options(path string) Options {
	return Options{FS: disk{}, Path: path, Seed: 7, Tokenizer: builtin(), Scheduled: []bool{false, false}}
}

func source(t testing.TB, o Options) *Source {
	t.Helper()
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// take takes n sessions, or all until the end where n is 0.
func take(t testing.TB, s *Source, which loadgen.Stream, n int) []*loadgen.Session {
	t.Helper()
	var out []*loadgen.Session
	for n == 0 || len(out) < n {
		session, err := s.Next(context.Background(), which)
		if n == 0 && errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, session)
	}
	return out
}

func user(content string) []loadgen.Message {
	return []loadgen.Message{{Role: "user", Content: content}}
}

func known(text string) metrics.Count { return metrics.Known(int64(builtin().Count([]byte(text)))) }

func TestRowsBecomeSessions(t *testing.T) {
	ms := time.Millisecond
	for _, c := range []struct {
		name string
		file string
		text string
		o    Options
		want []loadgen.Session
	}{
		{"single_turn", "a.jsonl", `{"text":"What is AI?","output_length":64,"extra":{"temperature":0,"stop":["é"]}}

 {"texts":["one","two"],"role":"system","timestamp":5.5}
{"texts":[{"name":"query","contents":["q"]}]}
{"text":"","texts":["t"]}`, Options{}, []loadgen.Session{
			{ID: "session_000000", Turns: []loadgen.Turn{{Messages: user("What is AI?"), MaxTokens: 64, Input: known("What is AI?"),
				Extra: []loadgen.Field{{Key: "temperature", JSON: []byte("0")}, {Key: "stop", JSON: []byte(`["é"]`)}}}}},
			{ID: "session_000001", Turns: []loadgen.Turn{{Messages: []loadgen.Message{{Role: "system", Content: "one two",
				Texts: []string{"one", "two"}}}, Input: known("one two"),
				Timed: true, At: 5500 * time.Microsecond}}},
			{ID: "session_000002", Turns: []loadgen.Turn{{Messages: user("q"), Input: known("q")}}},
			{ID: "session_000003", Turns: []loadgen.Turn{{Messages: user("t"), Input: known("t")}}},
		}},
		{"single_turn rows of one session are whole each", "a.jsonl", `{"text":"a","session_id":"s"}
{"text":"b"}
{"text":"c","session_id":"s","delay":20}`, Options{Output: 9}, []loadgen.Session{
			{ID: "s", Complete: true, Turns: []loadgen.Turn{{Messages: user("a"), MaxTokens: 9, Input: known("a")},
				{Messages: user("c"), MaxTokens: 9, Input: known("c"), Delay: 20 * ms}}},
			{ID: "session_000000", Turns: []loadgen.Turn{{Messages: user("b"), MaxTokens: 9, Input: known("b")}}},
		}},
		{"multi_turn", "a.jsonl", `{"session_id":"s1","turns":[{"role":"system","text":"be nice"},{"text":"Hi"},{"text":"More","delay":1000}]}
{"turns":[{"role":"system","text":"alone"}]}
{"turns":[{"role":"system","text":"x"},{"role":"system","text":"y"},{"text":"z"}]}`, Options{DelayCap: ptr(300 * ms)}, []loadgen.Session{
			{ID: "s1", Turns: []loadgen.Turn{{Messages: append([]loadgen.Message{{Role: "system", Content: "be nice"}}, user("Hi")...), Input: known("be nice Hi")},
				{Messages: user("More"), Input: known("More"), Delay: 300 * ms}}},
			{ID: "session_000000", Turns: []loadgen.Turn{{Messages: []loadgen.Message{{Role: "system", Content: "alone"}}, Input: known("alone")}}},
			{ID: "session_000001", Turns: []loadgen.Turn{{Messages: []loadgen.Message{{Role: "system", Content: "x"}}, Input: known("x")},
				{Messages: []loadgen.Message{{Role: "system", Content: "y"}}, Input: known("y")}, {Messages: user("z"), Input: known("z")}}},
		}},
		{"mooncake_trace", "a.jsonl", `{"timestamp":1000,"text_input":"Hello world","output_length":0}
{"messages":[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{}"}}]}],"tools":[{"type":"function","function":{"name":"g"}}],"session_id":"m"}
{"payload":{"prompt": "Hello","max_tokens":50},"output_length":4}`, Options{Format: Mooncake}, []loadgen.Session{
			{ID: "session_000000", Turns: []loadgen.Turn{{Messages: user("Hello world"), MaxTokens: 1, Input: known("Hello world"), Timed: true, At: time.Second}}},
			{ID: "m", Complete: true, Turns: []loadgen.Turn{{Messages: []loadgen.Message{{Role: "user", Content: "a", JSON: []byte(`{"role":"user","content":"a"}`)},
				{Role: "assistant", Content: "f {}", JSON: []byte(`{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{}"}}]}`)}},
				Tools: []byte(`[{"type":"function","function":{"name":"g"}}]`), Input: known("a f {} g")}}},
			{ID: "session_000001", Complete: true, Turns: []loadgen.Turn{{Raw: []byte(`{"prompt":"Hello","max_tokens":50}`), Input: known("Hello")}}},
		}},
		{"raw_payload", "a.jsonl", `{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}], "max_tokens": 5}`,
			Options{Format: RawPayload, Output: 9}, []loadgen.Session{
				{ID: "session_000000", Complete: true, Turns: []loadgen.Turn{{
					Raw:   []byte(`{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}],"max_tokens":5}`),
					Input: known("a b")}}},
			}},
		{"inputs_json", "inputs.json", `{
  "x": [1, 2],
  "data": [
    {"session_id": "s", "payloads": [{"messages": [{"role": "user", "content": "a"}]}, {"prompt": "b"}]}
  ]
}`, Options{}, []loadgen.Session{
			{ID: "s", Complete: true, Turns: []loadgen.Turn{{Raw: []byte(`{"messages":[{"role":"user","content":"a"}]}`), Input: known("a")},
				{Raw: []byte(`{"prompt":"b"}`), Input: known("b")}}},
		}},
		{"sharegpt", "s.json", `[{"id":"1","conversations":[{"from":"human","value":"one two three four"},{"from":"gpt","value":"five six seven eight nine"},
 {"from":"human","value":"a b c d e f"},{"from":"gpt","value":"g h i j"}]},
 {"conversations":[{"from":"human","value":"too short"},{"from":"gpt","value":"five six seven eight nine"}]}]`, Options{}, []loadgen.Session{
			{ID: "session_000000", Turns: []loadgen.Turn{{Messages: user("one two three four"), Input: known("one two three four"), MaxTokens: 5},
				{Messages: user("a b c d e f"), Input: known("a b c d e f"), MaxTokens: 4}}},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := options(write(t, c.file, c.text))
			o.Format, o.Output, o.DelayCap = c.o.Format, c.o.Output, c.o.DelayCap
			s := source(t, o)
			if s.Conversations() != len(c.want) {
				t.Fatalf("%d conversations, want %d", s.Conversations(), len(c.want))
			}
			for i, got := range take(t, s, profiling, len(c.want)) {
				c.want[i].Index = int64(i)
				if !reflect.DeepEqual(*got, c.want[i]) {
					t.Errorf("session %d is\n%s, want\n%s", i, show(got), show(&c.want[i]))
				}
			}
		})
	}
}

func ptr[T any](v T) *T { return &v }

func show(s *loadgen.Session) string {
	b, err := json.Marshal(s)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func TestFormatsAreFoundOut(t *testing.T) {
	for _, c := range []struct {
		file, text string
		want       Format
	}{
		{"a.jsonl", `{"text":"a"}`, SingleTurn},
		{"a.jsonl", "\n\n" + `{"turns":[{"text":"a"}]}`, MultiTurn},
		{"a.jsonl", `{"type":"random_pool","text":"a"}`, RandomPool},
		{"a.jsonl", `{"input_length":5}`, Mooncake},
		{"a.jsonl", `{"chat_id":1,"timestamp":0.5,"input_length":5,"output_length":1,"type":"text"}`, Bailian},
		{"a.csv", "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,472,18,490,Conversation log\n", BurstGPT},
		{"a.json", `{"data":[{"session_id":"a","payloads":[{}]}]}`, InputsJSON},
		{"a.json", "[\n{\"conversations\":[{\"from\":\"human\",\"value\":\"a b c d\"},{\"from\":\"gpt\",\"value\":\"a b c d\"}]}]", ShareGPT},
	} {
		if got := source(t, options(write(t, c.file, c.text))).Format(); got != c.want {
			t.Errorf("%s is read as %s, want %s", c.text, got, c.want)
		}
	}
	// A list of messages is a whole request, or what a request is made of.
	_, err := Open(options(write(t, "a.jsonl", `{"messages":[{"role":"user","content":"a"}]}`)))
	if err == nil || !strings.Contains(err.Error(), "mooncake_trace and as raw_payload") {
		t.Errorf("messages: %v", err)
	}
}

// Each input has exactly its tokens; rows that share ids share text, and no more than that.
func TestTracesHaveExactLengthsAndShareWhatTheirIDsShare(t *testing.T) {
	path := write(t, "a.jsonl", `{"input_length":64,"hash_ids":[1,2,3,4],"output_length":3}
{"input_length":57,"hash_ids":[1,2,3,9]}
{"input_length":100,"hash_ids":[1,2]}
{"input_length":100}
{"input_length":100}
{"input_length":1}
{"input_length":0}
{"input_length":1025,"hash_ids":[-7]}
`)
	o := options(path)
	o.Block = 16
	s := source(t, o)
	sessions := take(t, s, profiling, 8)
	var texts []string
	for i, want := range []int{64, 57, 100, 100, 100, 1, 1, 1025} {
		turn := sessions[i].Turns[0]
		text := turn.Messages[0].Content
		if n := builtin().Count([]byte(text)); n != want || turn.Input != metrics.Known(int64(want)) {
			t.Errorf("row %d has %d tokens and says %v, want %d", i, n, turn.Input, want)
		}
		texts = append(texts, text)
	}
	shared := func(a, b int) int {
		x, y := builtin().Append(nil, []byte(texts[a])), builtin().Append(nil, []byte(texts[b]))
		n := 0
		for n < min(len(x), len(y)) && x[n] == y[n] {
			n++
		}
		return n
	}
	for _, c := range []struct{ a, b, blocks int }{{0, 1, 3}, {0, 2, 2}, {1, 2, 2}, {0, 3, 0}, {3, 4, 0}, {0, 7, 0}} {
		if n := shared(c.a, c.b); n < 16*c.blocks || n >= 16*(c.blocks+1) {
			t.Errorf("rows %d and %d share %d tokens, want %d blocks of 16 and no more", c.a, c.b, n, c.blocks)
		}
	}
	again := take(t, source(t, o), profiling, 8)
	for i := range again {
		if !reflect.DeepEqual(again[i], sessions[i]) {
			t.Errorf("the same seed makes row %d\n%s, then\n%s", i, show(sessions[i]), show(again[i]))
		}
	}
	o.Seed++
	if other := take(t, source(t, o), profiling, 1)[0]; other.Turns[0].Messages[0].Content == texts[0] {
		t.Error("another seed makes the same text")
	}
}

func TestBailianRowsFollowTheirParents(t *testing.T) {
	row := func(chat, parent, turn int) string {
		return fmt.Sprintf(`{"chat_id":%d,"parent_chat_id":%d,"timestamp":%d.5,"input_length":20,"output_length":2,"type":"text","turn":%d,"hash_ids":[%d,%d]}`+"\n",
			chat, parent, chat, turn, chat, chat+100)
	}
	path := write(t, "a.jsonl", row(1, -1, 1)+row(3, 2, 3)+row(2, 1, 2)+row(9, -1, 1)+row(20, 77, 4)+row(21, 20, 5)+row(5, 6, 1)+row(6, 5, 2))
	var got [][]string
	for _, s := range take(t, source(t, options(path)), profiling, 4) {
		line := []string{s.ID}
		for _, turn := range s.Turns {
			line = append(line, turn.At.String())
		}
		got = append(got, line)
	}
	want := [][]string{{"1", "1.5s", "2.5s", "3.5s"}, {"9", "9.5s"}, {"20", "20.5s", "21.5s"}, {"5", "5.5s", "6.5s"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("conversations %v, want %v", got, want)
	}
}

func TestBurstRowsThatAreNoRequestsAreLeftOutAndSaid(t *testing.T) {
	path := write(t, "a.csv", "Timestamp,Model,Request tokens,Response tokens\n5,x,472,18\n6,x,,18\n7.5,\"a\nb\",20,0\n")
	s := source(t, options(path))
	sessions := take(t, s, profiling, 2)
	for i, want := range []loadgen.Turn{{At: 5 * time.Second, MaxTokens: 18, Input: metrics.Known(472)}, {At: 7500 * time.Millisecond, MaxTokens: 1, Input: metrics.Known(20)}} {
		got := sessions[i].Turns[0]
		if got.At != want.At || got.MaxTokens != want.MaxTokens || got.Input != want.Input || !got.Timed {
			t.Errorf("row %d is %+v", i, got)
		}
	}
	want := []string{path + `: 1 rows are left out: they are no requests; the first is in line 3: Request tokens: found ""`}
	if s.Conversations() != 2 || !slices.Equal(s.Notices(), want) {
		t.Errorf("%d conversations, notices %q, want %q", s.Conversations(), s.Notices(), want)
	}
}

func TestSampling(t *testing.T) {
	var rows strings.Builder
	for i := range 10 {
		fmt.Fprintf(&rows, `{"text":"t%d"}`+"\n", i)
	}
	path := write(t, "a.jsonl", rows.String())
	texts := func(how Sampling, which loadgen.Stream, n int) (out []string, s *Source) {
		o := options(path)
		o.Sampling = how
		s = source(t, o)
		for i, session := range take(t, s, which, n) {
			if session.Index != int64(i) {
				t.Errorf("session %d has the index %d", i, session.Index)
			}
			out = append(out, session.Turns[0].Messages[0].Content)
		}
		return out, s
	}
	seq, s := texts(Sequential, warmup, 3)
	for i, session := range take(t, s, profiling, 9) {
		if session.Index != int64(i) {
			t.Errorf("session %d of the second phase has the index %d", i, session.Index)
		}
		seq = append(seq, session.Turns[0].Messages[0].Content)
	}
	if want := strings.Fields("t0 t1 t2 t3 t4 t5 t6 t7 t8 t9 t0 t1"); !slices.Equal(seq, want) {
		t.Errorf("sequential: %v, want %v: profiling goes on where the warm-up stopped", seq, want)
	}
	if got, want := s.Stats(), (Stats{Distinct: 10, Repeated: 2}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	all := slices.Clone(seq[:10])
	shuffled, _ := texts(Shuffle, profiling, 30)
	for i := 0; i < 30; i += 10 {
		round := slices.Sorted(slices.Values(shuffled[i : i+10]))
		if !slices.Equal(round, all) || slices.Equal(shuffled[i:i+10], all) {
			t.Errorf("round %d of shuffle is %v", i/10, shuffled[i:i+10])
		}
	}
	random, _ := texts(Random, profiling, 1000)
	count := map[string]int{}
	for _, text := range random {
		count[text]++
	}
	for _, text := range all {
		if count[text] < 60 || count[text] > 140 {
			t.Errorf("random: %s was drawn %d times of 1000", text, count[text])
		}
	}
	if again, _ := texts(Random, profiling, 1000); !slices.Equal(again, random) {
		t.Error("the same seed draws others")
	}
}

func TestAScheduleIsPlayedOnceInTheOrderOfItsTimes(t *testing.T) {
	path := write(t, "a.jsonl", `{"timestamp":3000,"text_input":"c"}
{"timestamp":1000,"text_input":"a","session_id":"s"}
{"timestamp":2000,"text_input":"b"}
{"timestamp":4000,"text_input":"a2","session_id":"s"}
`)
	play := func(edit func(*Options)) (out []string) {
		o := options(path)
		o.Scheduled = []bool{false, true, true}
		edit(&o)
		s := source(t, o)
		first := take(t, s, profiling, 0)
		// Another phase plays it anew, and a warm-up without a schedule has no end.
		if again := take(t, s, loadgen.Stream{Kind: metrics.Profiling, Phase: 2}, 0); !reflect.DeepEqual(again, first) {
			t.Errorf("the second phase plays %d sessions, the first %d", len(again), len(first))
		}
		take(t, s, warmup, 9)
		for _, session := range first {
			for _, turn := range session.Turns {
				out = append(out, fmt.Sprint(turn.Messages[0].Content, turn.At))
			}
		}
		return out
	}
	for _, c := range []struct {
		name string
		edit func(*Options)
		want string
	}{
		{"as it is", func(*Options) {}, "a1s a24s b2s c3s"},
		{"from the first", func(o *Options) { o.FromFirst = true }, "a0s a23s b1s c2s"},
		{"from an offset", func(o *Options) { o.Start = ptr(2000.0) }, "b0s c1s a22s"},
		{"to an offset", func(o *Options) { o.End = ptr(2000.0) }, "a1s b2s"},
	} {
		if got := strings.Join(play(c.edit), " "); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	o := options(write(t, "a.jsonl", `{"timestamp":1,"text":"a"}`+"\n"+`{"text":"b"}`))
	o.Scheduled[1] = true
	if _, err := Open(o); err == nil || !strings.Contains(err.Error(), "a.jsonl:2: timestamp: found none") {
		t.Errorf("a row without a time: %v", err)
	}
	// A system message is no turn of its own: the schedule, the throwaway and the number of turns go by the requests.
	o = options(write(t, "a.jsonl", `{"turns":[{"role":"system","text":"be nice"},{"text":"one two three","timestamp":2000},{"text":"b"}]}
{"turns":[{"text":"c","timestamp":1000}]}`))
	o.Scheduled[1] = true
	s := source(t, o)
	var got []string
	for _, session := range take(t, s, profiling, 0) {
		for _, turn := range session.Turns {
			for _, m := range turn.Messages {
				got = append(got, m.Role+" "+m.Content)
			}
		}
	}
	if want := []string{"user c", "system be nice", "user one two three", "user b"}; !slices.Equal(got, want) || s.Turns() != 3 {
		t.Errorf("%q in %d turns, want %q", got, s.Turns(), want)
	}
	o.Scheduled[1] = false
	s = source(t, o)
	if s.Turns() != 3 {
		t.Errorf("%d turns without a schedule, want 3", s.Turns())
	}
	if first := take(t, s, prewarm, 1)[0].Turns[0]; first.Input != known("one two three") {
		t.Errorf("the throwaway has %+v tokens", first.Input)
	}
	for text, want := range map[string]bool{`{"timestamp":0,"input_length":1}`: true, `{"input_length":1}` + "\n" + `{"timestamp":0,"input_length":1}`: false} {
		o := options(write(t, "a.jsonl", text))
		o.Scheduled[1], o.IfTimed = true, true
		if got := source(t, o).OnSchedule(); got != want {
			t.Errorf("%s: on a schedule: %t, want %t", text, got, want)
		}
	}
}

func TestFolders(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"queries.jsonl": `{"text":"q1"}` + "\n" + `{"text":"q2"}`, "passages.jsonl": `{"texts":["p1","p2"]}`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o := options(dir)
	o.Entries = 40
	s := source(t, o)
	seen := map[string]int{}
	for _, session := range take(t, s, profiling, 80) {
		seen[session.Turns[0].Messages[0].Content]++
	}
	if s.Format() != RandomPool || len(seen) != 2 || seen["p1 p2 q1"]+seen["p1 p2 q2"] != 80 || seen["p1 p2 q1"]%2 != 0 {
		t.Errorf("%s: %v", s.Format(), seen)
	}
	dir = t.TempDir()
	body := func(text string) string { return `{"messages":[{"role":"user","content":"` + text + `"}]}` + "\n" }
	for name, text := range map[string]string{"b.jsonl": body("b1"), "a.jsonl": body("a1") + "\n" + body("a2"), "notes.txt": "x"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o = options(dir)
	o.Format = RawPayload
	var got []string
	for _, session := range take(t, source(t, o), profiling, 2) {
		for _, turn := range session.Turns {
			got = append(got, session.ID+string(turn.Raw))
		}
	}
	want := []string{"session_000000" + strings.TrimSpace(body("a1")), "session_000000" + strings.TrimSpace(body("a2")), "session_000001" + strings.TrimSpace(body("b1"))}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestCompressedFilesAreReadAndNothingIsLeftBehind(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(`{"text":"packed"}`)); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	s, err := Open(options(write(t, "a.jsonl.gz", b.String())))
	if err != nil {
		t.Fatal(err)
	}
	if got := take(t, s, profiling, 1)[0].Turns[0].Messages[0].Content; got != "packed" {
		t.Errorf("got %q", got)
	}
	s.Close()
	if _, err := Open(options(write(t, "b.jsonl.gz", b.String()[:20]))); err == nil || !strings.Contains(err.Error(), "b.jsonl.gz cannot be unpacked") {
		t.Errorf("a file that is cut: %v", err)
	}
	left, err := os.ReadDir(tmp)
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// The throwaway must not put a prompt of the run into the server's cache; only where rows are whole bodies it is one of them.
func TestTheThrowawayIsNoneOfTheFilesPrompts(t *testing.T) {
	s := source(t, options(write(t, "a.jsonl", `{"text":"one two three","output_length":4}`)))
	turn := take(t, s, prewarm, 1)[0].Turns[0]
	if turn.Messages[0].Content == "one two three" || turn.Input != known("one two three") || turn.MaxTokens != 4 {
		t.Errorf("the throwaway is %+v", turn)
	}
	o := options(write(t, "a.jsonl", `{"messages":[1]}`+"\n"+`{"messages":[2]}`))
	o.Format = RawPayload
	s = source(t, o)
	if turn = take(t, s, prewarm, 1)[0].Turns[0]; string(turn.Raw) != `{"messages":[2]}` {
		t.Errorf("the throwaway is %s", turn.Raw)
	}
	if s.Stats() != (Stats{}) {
		t.Errorf("the throwaway counts: %+v", s.Stats())
	}
}

func TestFiltersOfTraces(t *testing.T) {
	path := write(t, "a.jsonl", `{"input_length":10,"output_length":5,"typo":1}`+"\n"+`{"input_length":11,"output_length":50}`+"\n"+`{"input_length":9}`)
	o := options(path)
	o.MaxInput, o.MaxOutput, o.Output = 10, 7, 6
	s := source(t, o)
	var got [][2]int64
	for _, session := range take(t, s, profiling, 2) {
		got = append(got, [2]int64{session.Turns[0].Input.N, int64(session.Turns[0].MaxTokens)})
	}
	if want := [][2]int64{{10, 5}, {9, 6}}; s.Conversations() != 2 || !reflect.DeepEqual(got, want) {
		t.Errorf("%d conversations, %v, want %v", s.Conversations(), got, want)
	}
	want := []string{path + ": 1 rows are left out: their inputs are longer than 10 tokens (--synthesis-max-isl)",
		path + ": the field typo is ignored: no mooncake_trace row has it (1 rows, the first in line 1)"}
	if !slices.Equal(s.Notices(), want) {
		t.Errorf("notices %q, want %q", s.Notices(), want)
	}
	o.MaxInput = 3
	if _, err := Open(o); err == nil || !strings.Contains(err.Error(), "no row is left to play: "+path+": 3 rows are left out") {
		t.Errorf("all rows left out: %v", err)
	}
}

// Of 100,000 rows nothing but their places is kept: the file is 8 times what may stay in memory.
func TestManyRowsInFlatMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIP: 100,000 rows are read without -short only")
	}
	const rows = 100_000
	path := filepath.Join(t.TempDir(), "a.jsonl")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	pad := strings.Repeat("word ", 150)
	for i := range rows {
		if _, err := fmt.Fprintf(f, `{"text":"row %d %s","session_id":null,"output_length":1}`+"\n", i, pad); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	builtin()
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	o := options(path)
	o.Tokenizer = instant{builtin()}
	s := source(t, o)
	var most uint64
	for i := range rows {
		session, err := s.Next(t.Context(), profiling)
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("row %d word", i); !strings.HasPrefix(session.Turns[0].Messages[0].Content, want) {
			t.Fatalf("session %d begins %.20q", i, session.Turns[0].Messages[0].Content)
		}
		if i%25_000 == 24_999 {
			most = max(most, heap()-min(heap(), before))
		}
	}
	if most > 10<<20 {
		t.Errorf("%d MiB live, want at most 10", most>>20)
	}
	if got := s.Stats(); got != (Stats{Distinct: rows}) {
		t.Errorf("%+v", got)
	}
}

// instant counts nothing, where only memory is looked at.
type instant struct{ tokenize.Tokenizer }

func (i instant) Count(text []byte) int {
	if len(text) > 500 {
		return len(text)
	}
	return i.Tokenizer.Count(text)
}

func TestAClosedSourceGivesNothing(t *testing.T) {
	s := source(t, options(write(t, "a.jsonl", `{"text":"a"}`)))
	take(t, s, profiling, 3)
	s.Close()
	if _, err := s.Next(t.Context(), profiling); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
}

// A system prompt of the run goes before every conversation, and into the file's own system message where there is one; markers of cache
// busting are one's own. What is counted is what is sent.
func TestSystemPromptsAndMarkers(t *testing.T) {
	const rid = `\[rid:[0-9a-f]{12}\]`
	file := `{"session_id":"s1","turns":[{"role":"system","text":"File."},{"text":"Hi"},{"text":"More"}]}
{"session_id":"s2","turns":[{"text":"Ho"},{"texts":["a","b"]}]}`
	for _, c := range []struct {
		name   string
		bust   dataset.CacheBust
		system string
		want   [2]string // the first turn's messages of both, as a regular expression
	}{
		{"a system prompt", "", "Run.", [2]string{"system:Run.\n\nFile.|user:Hi", "system:Run.|user:Ho"}},
		{"before the system message", dataset.BustSystemPrefix, "", [2]string{"system:" + rid + "\n\nFile.|user:Hi", "user:" + rid + "\n\nHo"}},
		{"behind it", dataset.BustSystemSuffix, "Run.", [2]string{"system:Run.\n\nFile.\n\n" + rid + "|user:Hi", "system:Run.\n\n" + rid + "|user:Ho"}},
		{"before the first turn", dataset.BustFirstTurnPrefix, "", [2]string{"system:File.|user:" + rid + "\n\nHi", "user:" + rid + "\n\nHo"}},
		{"behind it", dataset.BustFirstTurnSuffix, "", [2]string{"system:File.|user:Hi\n\n" + rid, "user:Ho\n\n" + rid}},
		{"the warm-up's", dataset.BustIsolateWarmupOnFirst, "", [2]string{"system:File.|user:Hi", "user:Ho"}},
	} {
		o := options(write(t, "a.jsonl", file))
		o.System, o.CacheBust = c.system, c.bust
		s := source(t, o)
		seen := map[string]bool{}
		for i, sess := range take(t, s, profiling, 4) {
			var all []string
			text := ""
			for _, m := range sess.Turns[0].Messages {
				all = append(all, m.Role+":"+m.Content)
				text += " " + m.Content
			}
			got := strings.Join(all, "|")
			if want := "^" + strings.NewReplacer("|", `\|`, ".", `\.`).Replace(c.want[i%2]) + "$"; !regexp.MustCompile(want).MatchString(got) {
				t.Errorf("%s: %q, want %q", c.name, got, want)
			}
			if sess.Turns[0].Input != known(text[1:]) || len(sess.Turns[1].Messages) != 1 || sess.Turns[1].Input != known(sess.Turns[1].Messages[0].Content) {
				t.Errorf("%s: %v tokens of %q, %v of the second turn's %q", c.name, sess.Turns[0].Input, text, sess.Turns[1].Input, sess.Turns[1].Messages)
			}
			if mark := regexp.MustCompile(rid).FindString(got); mark != "" && seen[mark] {
				t.Errorf("%s: the marker %s comes twice", c.name, mark)
			} else {
				seen[mark] = true
			}
		}
		if first := take(t, s, warmup, 1)[0].Turns[0]; c.bust == dataset.BustIsolateWarmupOnFirst && !strings.HasPrefix(first.Messages[len(first.Messages)-1].Content, "[warmup]\n\n") {
			t.Errorf("%s: %q", c.name, first.Messages)
		}
		if c.bust == dataset.BustSystemPrefix && s.Stats() != (Stats{Distinct: 10}) {
			t.Errorf("%s: %+v, want 10 distinct: no prefix cache knows any", c.name, s.Stats())
		}
	}
	o := options(write(t, "a.jsonl", `{"messages":[{"role":"user","content":"x"}]}`))
	o.Format, o.System = RawPayload, "Run."
	if _, err := Open(o); err == nil || !strings.Contains(err.Error(), "whole requests, sent as they are: no system prompt") {
		t.Errorf("a system prompt for whole bodies: %v", err)
	}
}

// Messages that come as JSON keep all but their text.
func TestMarkersInMessagesOfParts(t *testing.T) {
	for _, c := range []struct{ json, content, before, after, want, text string }{
		{`{"role":"user","content":"a","name":"n"}`, "a", "m\n\n", "", `{"role":"user","content":"m\n\na","name":"n"}`, "m\n\na"},
		{`{"content":[{"type":"text","text":"a"},{"type":"image_url"}],"role":"user"}`, "a", "m\n\n", "",
			`{"content":[{"type":"text","text":"m"},{"type":"text","text":"a"},{"type":"image_url"}],"role":"user"}`, "m a"},
		{`{"content":[ {"type":"text","text":"a"} ]}`, "a", "", "\n\nm", `{"content":[{"type":"text","text":"a"},{"type":"text","text":"m"}]}`, "a m"},
		{`{"content":[]}`, "", "", "\n\nm", `{"content":[{"type":"text","text":"m"}]}`, "m"},
	} {
		got, err := edit(loadgen.Message{Role: "user", Content: c.content, JSON: []byte(c.json)}, dataset.Marker{Before: c.before, After: c.after})
		if err != nil || string(got.JSON) != c.want || got.Content != c.text {
			t.Errorf("%s: %s, %q (%v); want %s, %q", c.json, got.JSON, got.Content, err, c.want, c.text)
		}
	}
	texts := loadgen.Message{Role: "user", Content: "a b", Texts: []string{"a", "b"}}
	got, err := edit(texts, dataset.Marker{Before: "m "})
	if err != nil || got.Content != "m a b" || !slices.Equal(got.Texts, []string{"m a", "b"}) || !slices.Equal(texts.Texts, []string{"a", "b"}) {
		t.Errorf("%+v became %+v (%v)", texts, got, err)
	}
	for _, bad := range []string{`{"content":null}`, `{"role":"user"}`} {
		if m, err := edit(loadgen.Message{JSON: []byte(bad)}, dataset.Marker{Before: "m"}); err == nil {
			t.Errorf("%s became %s", bad, m.JSON)
		}
	}
}

func TestBatchesAndCorpora(t *testing.T) {
	o := options(write(t, "a.jsonl", `{"text":"a"}
{"text":"b"}`))
	o.Format, o.Batch, o.Entries = RandomPool, 3, 20
	seen := map[string]bool{}
	for _, s := range take(t, source(t, o), profiling, 20) {
		texts := strings.Fields(s.Turns[0].Messages[0].Content)
		if len(texts) != 3 || s.Turns[0].Input != known(strings.Join(texts, " ")) {
			t.Errorf("%q, %v tokens", texts, s.Turns[0].Input)
		}
		seen[strings.Join(texts, "")] = true
	}
	if len(seen) < 4 {
		t.Errorf("20 draws of 3 of 2 rows gave %v", seen)
	}
	trace := write(t, "t.jsonl", `{"input_length":900,"output_length":4,"hash_ids":[1,2]}`)
	var texts [2]string
	for i, corpus := range []tokenize.Corpus{tokenize.Prose, tokenize.Code} {
		o := options(trace)
		o.Format, o.Corpus = Mooncake, corpus
		turn := take(t, source(t, o), profiling, 1)[0].Turns[0]
		if texts[i] = turn.Messages[0].Content; turn.Input.N != 900 || builtin().Count([]byte(texts[i])) != 900 {
			t.Errorf("corpus %v: %d tokens, want 900", corpus, turn.Input.N)
		}
	}
	if code := strings.Count(texts[1], "\n"); code < 10 || strings.Count(texts[0], "\n") >= code {
		t.Errorf("the code of a trace has %d lines, its prose %d", code, strings.Count(texts[0], "\n"))
	}
}
