package bench

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"prefire/internal/fakellm"
)

// Measured is what a load generator reports of one request. Times are ns.
type Measured struct {
	ID   string
	TTFT float64 // NaN where it has none
	ITL  float64 // the request's mean; NaN where it has none
	// Stated: it states how far its times may be off. Start is then the wall time of the request's start in ns since 1970, TTFTBound how
	// much lower the true TTFT may be, ITLBound how far the mean ITL may be off either way.
	Stated              bool
	Start               int64
	TTFTBound, ITLBound float64
}

// Truth is what the server knows of one request: the time to first token and the mean time between tokens, each between two bounds, since a
// token reached the client between the times before and after the server's write. Times are ns; First and its bounds are ns since 1970.
type Truth struct {
	TTFTLow, TTFTHigh   float64
	FirstLow, FirstHigh int64
	ITLLow, ITLHigh     float64 // NaN for an answer of one chunk
	Chunks              int     // that carried text
	// Held says that TCP held back the first or the last write, so that it reached the client some unknown time after: a bound is infinite.
	Held bool
	// Multiplexed says that other requests share the connection: the server may have read several at once, and then its stamp is that of the
	// last, so that it is not known when this one arrived.
	Multiplexed bool
	// Apart says that the server wrote the second chunk Separate or more after the first: what a server writes together no client can tell apart.
	Apart bool
}

// Separate is how far apart two writes are that a client can be asked to tell apart, in ns.
const Separate = 500_000

// TruthOf takes the truth out of the log's entry of a streamed answer; false where it has no text.
func TruthOf(e *fakellm.Entry) (t Truth, ok bool) {
	var first, last fakellm.Write
	for _, w := range e.Writes {
		// The last step's token comes with the finish reason.
		if w.Kind != fakellm.WriteContent && w.Kind != fakellm.WriteFinish {
			continue
		}
		switch t.Chunks {
		case 0:
			first, t.Apart = w, true
		case 1:
			t.Apart = w.BeforeNS-first.AfterNS >= Separate
		}
		last = w
		t.Chunks++
	}
	if t.Chunks == 0 {
		return t, false
	}
	t.FirstLow, t.FirstHigh = first.BeforeNS, first.AfterNS
	t.TTFTLow, t.TTFTHigh = float64(first.BeforeNS-e.ArrivedNS), float64(first.AfterNS-e.ArrivedNS)
	t.ITLLow, t.ITLHigh = math.NaN(), math.NaN()
	if t.Chunks > 1 {
		n := float64(t.Chunks - 1)
		t.ITLLow, t.ITLHigh = float64(last.BeforeNS-first.AfterNS)/n, float64(last.AfterNS-first.BeforeNS)/n
	}
	if first.Held {
		t.FirstHigh, t.TTFTHigh = math.MaxInt64, math.Inf(1)
		if t.Chunks > 1 {
			t.ITLLow = math.Inf(-1)
		}
	}
	if last.Held && t.Chunks > 1 {
		t.ITLHigh = math.Inf(1)
	}
	t.Held, t.Multiplexed = first.Held || last.Held, strings.HasPrefix(e.Protocol, "HTTP/2")
	return t, true
}

// Distance is how far v lies outside [low, high], negative below; 0 within.
func Distance(v, low, high float64) float64 {
	switch {
	case v < low:
		return v - low
	case v > high:
		return v - high
	}
	return 0
}

// Grain is what two clocks' anchors and times that went through ms as decimals may make of an exact time, in ns.
const Grain = 5000

// outsideTTFT reports whether the first token's true arrival lies outside of what m states.
func outsideTTFT(m *Measured, t *Truth) bool {
	at := float64(m.Start) + m.TTFT
	return at < float64(t.FirstLow)-Grain || at-m.TTFTBound > float64(t.FirstHigh)+Grain
}

// errorOfTTFT is how far a TTFT is off, in ns. It counts from the request's arrival, so that a late start is an error too; on a shared
// connection, where that is not known, from the start that m states, if it does.
func errorOfTTFT(m *Measured, t *Truth) float64 {
	if t.Multiplexed && m.Stated {
		return Distance(float64(m.Start)+m.TTFT, float64(t.FirstLow), float64(t.FirstHigh))
	}
	return Distance(m.TTFT, t.TTFTLow, t.TTFTHigh)
}

func outsideITL(m *Measured, t *Truth) bool {
	return math.Abs(Distance(m.ITL, t.ITLLow, t.ITLHigh)) > m.ITLBound+Grain/float64(t.Chunks-1)
}

// Errors are the sizes of the errors of many requests, in ms; Mean keeps the sign.
type Errors struct {
	Count int     `json:"count"`
	Mean  float64 `json:"mean_signed_ms"`
	Avg   float64 `json:"avg_ms"`
	P99   float64 `json:"p99_ms"`
	Max   float64 `json:"max_ms"`
	// Exact is how many requests state no uncertainty at all, Outside how many were off by more than they state; both only where bounds are
	// stated.
	Stated  bool `json:"states_bounds"`
	Exact   int  `json:"exact"`
	Outside int  `json:"outside_bound"`
	// Apart is how many of the requests had their first two chunks written apart, ExactApart how many of those state no uncertainty.
	Apart      int `json:"apart"`
	ExactApart int `json:"exact_apart"`
}

// Comparison is a run held against the server's log.
type Comparison struct {
	Matched int `json:"matched"`
	// Unmatched requests are not in the log, or there more than once.
	Unmatched int `json:"unmatched"`
	// Held requests had a write that TCP held back: their errors are against the times before it alone.
	Held int    `json:"held"`
	TTFT Errors `json:"ttft"`
	ITL  Errors `json:"itl"`
}

// Compare holds every request against the log's entry of the same X-Request-ID.
func Compare(measured []Measured, log map[string]Truth) Comparison {
	var c Comparison
	var ttft, itl gathered
	for i := range measured {
		m := &measured[i]
		t, ok := log[m.ID]
		if !ok {
			c.Unmatched++
			continue
		}
		c.Matched++
		if t.Held {
			c.Held++
		}
		if !math.IsNaN(m.TTFT) {
			ttft.add(errorOfTTFT(m, &t), m.Stated, m.TTFTBound == 0, m.Stated && outsideTTFT(m, &t), t.Apart)
		}
		if !math.IsNaN(m.ITL) && t.Chunks > 1 {
			itl.add(Distance(m.ITL, t.ITLLow, t.ITLHigh), m.Stated, m.ITLBound == 0, m.Stated && outsideITL(m, &t), t.Apart)
		}
	}
	c.TTFT, c.ITL = ttft.errors(), itl.errors()
	return c
}

// gathered are errors in ns.
type gathered struct {
	signed         float64
	sizes          []float64
	stated         bool
	exact, outside int

	apart, exactApart int
}

func (g *gathered) add(err float64, stated, exact, outside, apart bool) {
	g.signed += err
	g.sizes = append(g.sizes, math.Abs(err))
	g.stated = g.stated || stated
	if stated && exact {
		g.exact++
	}
	if outside {
		g.outside++
	}
	if apart {
		g.apart++
		if stated && exact {
			g.exactApart++
		}
	}
}

func (g *gathered) errors() Errors {
	n := len(g.sizes)
	if n == 0 {
		return Errors{}
	}
	sum := 0.
	for _, v := range g.sizes {
		sum += v
	}
	const ms = 1e6
	return Errors{Count: n, Mean: g.signed / float64(n) / ms, Avg: sum / float64(n) / ms, P99: Percentile(g.sizes, 99) / ms,
		Max: Percentile(g.sizes, 100) / ms, Stated: g.stated, Exact: g.exact, Outside: g.outside, Apart: g.apart, ExactApart: g.exactApart}
}

// ReadLog reads the log of prefire mock: the truth of each streamed answer that has an X-Request-ID of its own, and the time at which the
// first inference arrived, in ns since 1970; 0 where there was none.
func ReadLog(r io.Reader) (log map[string]Truth, first int64, err error) {
	log = map[string]Truth{}
	seen := map[string]bool{}
	err = lines(r, func(line []byte) error {
		var e fakellm.Entry
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("the server's log: %w", err)
		}
		if e.Method == "POST" && (first == 0 || e.ArrivedNS < first) {
			first = e.ArrivedNS
		}
		if e.XRequestID == "" {
			return nil
		}
		if seen[e.XRequestID] {
			delete(log, e.XRequestID)
			return nil
		}
		seen[e.XRequestID] = true
		if t, ok := TruthOf(&e); ok {
			log[e.XRequestID] = t
		}
		return nil
	})
	return log, first, err
}

func lines(r io.Reader, each func(line []byte) error) error {
	for b := bufio.NewReaderSize(r, 1<<20); ; {
		line, err := b.ReadBytes('\n')
		if len(line) > 1 {
			if err := each(line); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
