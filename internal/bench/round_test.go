package bench

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

func ms(v float64) *float64 { return &v }

func TestARoundWhoseControlStallsIsThrownAway(t *testing.T) {
	for _, c := range []struct {
		round Round
		want  string
	}{
		{Round{Before: Control{StallMax: 30}, After: Control{StallMax: 1}, Runs: []Run{{Tool: "prefire", Stall: ms(30), First: 1}, {Tool: "aiperf", First: 1}}}, ""},
		{Round{Before: Control{StallMax: 31}}, "the machine stood still for 31 ms in the control before it"},
		{Round{After: Control{StallMax: 300}}, "the machine stood still for 300 ms in the control after it"},
		{Round{Runs: []Run{{Tool: "prefire", Stall: ms(3), First: 1}, {Tool: "aiperf", Stall: ms(45), First: 1}}, After: Control{StallMax: 80}},
			"the machine stood still for 45 ms beside aiperf"},
		{Round{Runs: []Run{{Tool: "prefire", Stall: ms(200)}}}, ""}, // CPU time is read off it, and no other
	} {
		c.round.Judge(StallLimit)
		if c.round.Thrown != c.want {
			t.Errorf("%q, want %q", c.round.Thrown, c.want)
		}
	}
}

func TestToolsTakeTurnsAtBeingFirst(t *testing.T) {
	if a, b, c := Order(3, 1), Order(3, 2), Order(3, 3); !slices.Equal(a, []int{0, 1, 2}) || !slices.Equal(b, []int{2, 1, 0}) || !slices.Equal(c, a) {
		t.Errorf("%v, %v, %v", a, b, c)
	}
}

// rowNamed is one of the rows that people measure.
func rowNamed(t *testing.T, name string) Row {
	t.Helper()
	rows := Rows(DefaultSizes())
	i := slices.IndexFunc(rows, func(r Row) bool { return r.Name == name })
	if i < 0 {
		t.Fatalf("no row %s", name)
	}
	return rows[i]
}

func TestTheFiguresOfARow(t *testing.T) {
	compared := &Comparison{Matched: 10, Held: 7, TTFT: Errors{Count: 10, Avg: 1, P99: 2, Max: 3, Stated: true, Exact: 9, Outside: 1, Apart: 8, ExactApart: 6}, ITL: Errors{Count: 10, Avg: 4, P99: 5, Max: 6, Stated: true}}
	unstated := &Comparison{Matched: 8, TTFT: Errors{Count: 8, Avg: 1, P99: 2, Max: 3}, ITL: Errors{Count: 8, Avg: 4, P99: 5, Max: 6}}
	for _, c := range []struct {
		row  string
		runs []Run
		want []string
	}{
		{"request", []Run{{CPU: 0.7, OK: 1000, PeakRSS: 40}, {CPU: 1.6, OK: 4000, PeakRSS: 50}}, []string{"0.300", "0.400", "50"}},
		{"chunk-1000", []Run{{CPU: 1, OK: 1000, Tokens: 64, PeakRSS: 40}, {CPU: 1.64, OK: 1000, Tokens: 192}}, []string{"5.00", "40"}},
		{"start", []Run{{First: 0.123}}, []string{"0.123", "-"}},
		{"truth-200", []Run{{Comparison: compared}}, []string{"1.000", "2.000", "3.000", "90.00", "75.00", "1", "4.0000", "5.0000", "6.0000", "0", "10", "7"}},
		{"truth-200", []Run{{Comparison: unstated}}, []string{"1.000", "2.000", "3.000", "-", "-", "-", "4.0000", "5.0000", "6.0000", "-", "8", "0"}},
		{"prompts", []Run{{Prompts: 1000, Wall: 0.5, CPU: 0.8, PeakRSS: 99}}, []string{"2000", "0.800", "50", "99"}},
	} {
		row := rowNamed(t, c.row)
		tools := []Tool{{Name: "x"}}
		for i := range c.runs {
			c.runs[i].Tool = "x"
		}
		cells := Summarize(&row, tools, []Round{{Row: c.row, Runs: c.runs}})
		var got []string
		for k, f := range row.Figures {
			got = append(got, cells[0][k].text(f.Format))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.row, got, c.want)
		}
	}
}

func TestOnlyKeptRoundsCount(t *testing.T) {
	row := rowNamed(t, "start")
	tools := []Tool{{Name: "prefire", Kind: Prefire}, {Name: "aiperf", Kind: AIPerf}, {Name: "broken"}, {Name: "absent"}}
	round := func(thrown string, prefire, aiperf float64) Round {
		return Round{Row: "start", Thrown: thrown, Runs: []Run{{Tool: "prefire", First: prefire}, {Tool: "aiperf", First: aiperf}, {Tool: "broken", Error: "exit status 1:\na | b"}}}
	}
	cells := Summarize(&row, tools, []Round{round("", 0.2, 7), round("a stall", 99, 99), round("", 0.3, 8), round("", 0.1, 6), {Row: "prompts", Runs: []Run{{Tool: "prefire", First: 55}}}})
	if got, want := cells[0][0].Spread, (Spread{0.2, 0.1, 0.3, 3}); got != want {
		t.Errorf("prefire %+v, want %+v", got, want)
	}
	if got, want := cells[1][0].Spread, (Spread{7, 6, 8, 3}); got != want {
		t.Errorf("aiperf %+v, want %+v", got, want)
	}
	const want = `### Start to the first inference at the server

` + "`--rows start`" + `

| | start to first request, s | peak memory, MiB |
|---|---|---|
| prefire | 0.200 (0.100 to 0.300) | - |
| aiperf | 7.000 (6.000 to 8.000) | - |
| broken | exit status 1: a / b | |
| absent | not run | |
`
	if got := Markdown(&row, tools, cells); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	none := Summarize(&row, tools[:1], []Round{round("a stall", 1, 1)})
	if got := Markdown(&row, tools[:1], none); !strings.Contains(got, "| prefire | no round was kept | |") {
		t.Errorf("without a round:\n%s", got)
	}
}

func TestToolsAreToldTheSame(t *testing.T) {
	s := Scenario{Concurrency: 1000, Requests: 3000, PeerRequests: 1000, PeerConcurrency: 1000, ISL: 128, OSL: 64, ServerCounts: true, Protocol: "h2", Log: true}
	prefire, aiperf := Tool{Kind: Prefire, Client: "portable"}, Tool{Kind: AIPerf, TokenizerCache: "/t"}
	vllm := Tool{Kind: VLLMBench}
	common := []string{"profile", "--model", "bench", "--url", "u", "--endpoint-type", "chat", "--streaming", "--tokenizer", "builtin", "--ui", "none", "--isl", "128",
		"--osl", "64", "--concurrency", "1000", "--request-count", "3000", "--no-gpu-telemetry", "--no-server-metrics", "--artifact-dir", "d", "--use-server-token-count"}
	args, env := prefire.Command(&s, "u", "d")
	if want := append(slices.Clone(common), "--client", "portable", "--http", "2"); !slices.Equal(args, want) || !slices.Equal(env, []string{"AIPERF_HTTP_SSL_VERIFY=false", "PREFIRE_CALIBRATION=none"}) {
		t.Errorf("prefire %q %q", args, env)
	}
	s.Protocol = "http"
	common[slices.Index(common, "3000")] = "1000"
	if args, env := aiperf.Command(&s, "u", "d"); !slices.Equal(args, common) || !slices.Equal(env, []string{"TIKTOKEN_CACHE_DIR=/t"}) {
		t.Errorf("aiperf %q %q", args, env)
	}
	if args, _ := vllm.Command(&s, "u", "d"); !reflect.DeepEqual(args, strings.Fields("--backend openai-chat --base-url u --model bench --tokenizer r50k_base --dataset-name random "+
		"--random-input-len 128 --random-output-len 64 --num-prompts 3000 --max-concurrency 1000 --ignore-eos --disable-tqdm --save-result --save-detailed "+
		"--result-dir d --result-filename result.json --request-id-prefix bench-")) {
		t.Errorf("vllm-bench %q", args)
	}
	big, h2 := s, s
	big.Concurrency, h2.Protocol = 5000, "h2"
	for _, c := range []struct {
		tool Tool
		s    Scenario
		want string
	}{
		{prefire, h2, ""}, {aiperf, s, ""}, {aiperf, big, "not run at 5000 in flight"}, {aiperf, h2, "it has no HTTP/2"}, {vllm, big, ""},
		{Tool{Kind: Prefire, Client: "reactor"}, h2, "the reactor speaks HTTP/1.1 in the clear alone"},
	} {
		if got := c.tool.Supports(&c.s); got != c.want {
			t.Errorf("%s, %s at %d: %q, want %q", c.tool.Kind, c.s.Protocol, c.s.Concurrency, got, c.want)
		}
	}
}

func TestTablesTakeTheirPlaceInADocument(t *testing.T) {
	const document = "a\n" + BeginMark + "\nold\n" + EndMark + "\nb\n"
	once, ok := Insert(document, "\nnew\n")
	if want := "a\n" + BeginMark + "\n\nnew\n\n" + EndMark + "\nb\n"; !ok || once != want {
		t.Errorf("%q, want %q", once, want)
	}
	if twice, _ := Insert(once, "new"); twice != once {
		t.Errorf("a second time it became %q", twice)
	}
	for _, without := range []string{"a", BeginMark, EndMark + BeginMark} {
		if got, ok := Insert(without, "new"); ok || got != without {
			t.Errorf("%q became %q", without, got)
		}
	}
}
