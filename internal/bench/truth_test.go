package bench

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"prefire/internal/fakellm"
)

// entry is an answer whose request arrived at 1,000,000 and whose three tokens were written at the times given, in µs after that, each write
// taking 10 µs.
func entry(id string, at ...int64) fakellm.Entry {
	e := fakellm.Entry{XRequestID: id, Method: "POST", ArrivedNS: 1_000_000, Writes: []fakellm.Write{{Kind: fakellm.WriteHead}, {Kind: fakellm.WriteRole}}}
	for i, us := range at {
		kind := fakellm.WriteContent
		if i == len(at)-1 {
			kind = fakellm.WriteFinish
		}
		e.Writes = append(e.Writes, fakellm.Write{Kind: kind, BeforeNS: 1_000_000 + us*1000, AfterNS: 1_000_000 + us*1000 + 10_000})
	}
	e.Writes = append(e.Writes, fakellm.Write{Kind: fakellm.WriteUsage, BeforeNS: 9e9}, fakellm.Write{Kind: fakellm.WriteDone, BeforeNS: 9e9})
	return e
}

func TestTheTruthOfAnEntry(t *testing.T) {
	e := entry("a", 5000, 6000, 9000)
	got, ok := TruthOf(&e)
	want := Truth{TTFTLow: 5_000_000, TTFTHigh: 5_010_000, FirstLow: 6_000_000, FirstHigh: 6_010_000, ITLLow: 1_995_000, ITLHigh: 2_005_000, Chunks: 3, Apart: true}
	if !ok || got != want {
		t.Errorf("%+v (%v), want %+v", got, ok, want)
	}
	e = entry("a", 5000)
	if got, ok := TruthOf(&e); !ok || got.Chunks != 1 || !math.IsNaN(got.ITLLow) || !math.IsNaN(got.ITLHigh) || got.TTFTHigh != 5_010_000 {
		t.Errorf("one chunk: %+v (%v)", got, ok)
	}
	// Chunks that the server wrote together cannot be told apart by anyone; what TCP held back has no upper bound.
	e = entry("a", 5000, 5100, 9000)
	if got, _ := TruthOf(&e); got.Apart {
		t.Errorf("90 µs between two writes: %+v", got)
	}
	e.Writes[2].Held = true
	if got, _ := TruthOf(&e); !got.Held || got.TTFTLow != 5_000_000 || !math.IsInf(got.TTFTHigh, 1) || !math.IsInf(got.ITLLow, -1) || got.ITLHigh != 2_005_000 {
		t.Errorf("the first write held: %+v", got)
	}
	e.Writes[2].Held, e.Writes[4].Held = false, true
	if got, _ := TruthOf(&e); !got.Held || got.TTFTHigh != 5_010_000 || got.ITLLow != 1_995_000 || !math.IsInf(got.ITLHigh, 1) {
		t.Errorf("the last write held: %+v", got)
	}
	e = entry("a")
	if got, ok := TruthOf(&e); ok {
		t.Errorf("an answer without text has the truth %+v", got)
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct{ v, want float64 }{{9, -1}, {10, 0}, {15, 0}, {20, 0}, {23, 3}} {
		if got := Distance(c.v, 10, 20); got != c.want {
			t.Errorf("%v from [10, 20]: %v, want %v", c.v, got, c.want)
		}
	}
}

func TestCompare(t *testing.T) {
	e := entry("a", 5000, 6000, 9000)
	truth, _ := TruthOf(&e)
	log := map[string]Truth{"a": truth, "b": truth, "c": truth, "d": truth}
	const start = 990_000 // the request left 10 µs before it arrived
	c := Compare([]Measured{
		// Exact: the first token arrived at 6,005,000.
		{ID: "a", Stated: true, Start: start, TTFT: 5_015_000, ITL: 2_000_000},
		// Read 2 ms late, and says that it may be 2 ms less; its ITL is 1 ms off where it says 1.
		{ID: "b", Stated: true, Start: start, TTFT: 7_015_000, TTFTBound: 2_000_000, ITL: 3_000_000, ITLBound: 1_000_000},
		// 3 ms late where it says 1, and 2 ms off in ITL where it says none.
		{ID: "c", Stated: true, Start: start, TTFT: 8_015_000, TTFTBound: 1_000_000, ITL: 5_000},
		// Before the server wrote it; no ITL.
		{ID: "d", Stated: true, Start: start, TTFT: 4_010_000, ITL: math.NaN()},
		{ID: "nowhere", TTFT: 1},
	}, log)
	if c.Matched != 4 || c.Unmatched != 1 {
		t.Errorf("%d matched, %d not; want 4 and 1", c.Matched, c.Unmatched)
	}
	// Distances from [5,000,000; 5,010,000]: 5,000, 2,005,000, 3,005,000, -990,000.
	want := Errors{Count: 4, Mean: 1.00625, Avg: 1.50125, P99: 2.975, Max: 3.005, Stated: true, Exact: 2, Outside: 2}
	if g := c.TTFT; g.Count != want.Count || !same(g.Mean, want.Mean) || !same(g.Avg, want.Avg) || !same(g.P99, want.P99) || !same(g.Max, want.Max) ||
		g.Exact != want.Exact || g.Outside != want.Outside || !g.Stated {
		t.Errorf("TTFT %+v, want %+v", g, want)
	}
	// From [1,995,000; 2,005,000]: 0, 995,000, -1,990,000.
	want = Errors{Count: 3, Mean: -0.995 / 3, Avg: 2.985 / 3, Max: 1.99, Exact: 2, Outside: 1}
	if g := c.ITL; g.Count != want.Count || !same(g.Mean, want.Mean) || !same(g.Avg, want.Avg) || !same(g.Max, want.Max) || g.Exact != want.Exact || g.Outside != want.Outside {
		t.Errorf("ITL %+v, want %+v", g, want)
	}
	if g := c.TTFT; c.Held != 0 || g.Apart != 4 || g.ExactApart != 2 {
		t.Errorf("%d held; %d of 4 apart, %d of them exact; want 0, 4, 2", c.Held, g.Apart, g.ExactApart)
	}
	late := truth
	late.Held, late.TTFTHigh, late.FirstHigh, late.ITLHigh = true, math.Inf(1), math.MaxInt64, math.Inf(1)
	h := Compare([]Measured{{ID: "a", Stated: true, Start: start, TTFT: 9_000_000, ITL: 9_000_000}, {ID: "a", Stated: true, Start: start, TTFT: 4_000_000, ITL: 1_000}},
		map[string]Truth{"a": late})
	if h.Held != 2 || h.TTFT.Outside != 1 || h.ITL.Outside != 1 || h.TTFT.Max != 1 || h.ITL.Max != 1.994 {
		t.Errorf("held back: %+v; want only what lies before the write outside", h)
	}
	// On a shared connection the server does not know when a request came: the error is that of the first token's arrival.
	shared := truth
	shared.Multiplexed, shared.TTFTLow, shared.TTFTHigh = true, 0, 1
	h = Compare([]Measured{{ID: "a", Stated: true, Start: start, TTFT: 5_015_000, ITL: 2_000_000}, {ID: "a", Stated: true, Start: start, TTFT: 6_020_000, ITL: 2_000_000}},
		map[string]Truth{"a": shared})
	if h.TTFT.Count != 2 || h.TTFT.Max != 1 || h.TTFT.Avg != 0.5 {
		t.Errorf("a shared connection: %+v, want errors of 0 and 1 ms", h.TTFT)
	}
	// A tool that states nothing is not outside of anything.
	c = Compare([]Measured{{ID: "a", TTFT: 99_000_000, ITL: 99_000_000}}, log)
	if c.TTFT.Stated || c.TTFT.Outside != 0 || c.TTFT.Exact != 0 || c.ITL.Outside != 0 || !same(c.TTFT.Max, 93.99) {
		t.Errorf("without bounds: %+v", c)
	}
}

func TestTheLogIsReadByRequestID(t *testing.T) {
	var text strings.Builder
	for _, e := range []fakellm.Entry{
		{Method: "GET", ArrivedNS: 5}, entry("a", 1, 2), entry("twice", 1, 2), entry("twice", 1, 2), entry("twice", 1, 2), {Method: "POST", ArrivedNS: 700_000}, entry("empty"),
	} {
		line, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(append(line, '\n'))
	}
	log, first, err := ReadLog(strings.NewReader(text.String()))
	if err != nil || len(log) != 1 || log["a"].Chunks != 2 || first != 700_000 {
		t.Errorf("%+v, first at %d, %v; want one entry of two chunks and the first inference at 700000", log, first, err)
	}
	if _, _, err := ReadLog(strings.NewReader("{\n")); err == nil {
		t.Error("half a line is read without an error")
	}
}
