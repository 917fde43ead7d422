package bench

import (
	"fmt"
	"math"
	"time"
)

// Run is one run of one tool.
type Run struct {
	Row      string   `json:"row"`
	Round    int      `json:"round"` // from 1
	Tool     string   `json:"tool"`
	Scenario string   `json:"scenario"`
	Command  string   `json:"command"`
	Env      []string `json:"environment,omitempty"`

	Tokens  int     `json:"tokens_a_request"` // asked
	OK      int     `json:"ok"`
	Failed  int     `json:"failed"`
	CPU     float64 `json:"cpu_seconds"` // of the process and all its children
	Wall    float64 `json:"wall_seconds"`
	Began   int64   `json:"began_ns"`     // the process's start, since 1970
	PeakRSS float64 `json:"peak_rss_mib"` // VmHWM, summed over the process tree
	// First is how long after the process's start the server had its first inference.
	First      float64     `json:"first_request_seconds,omitempty"`
	Comparison *Comparison `json:"against_the_log,omitempty"`
	Prompts    int         `json:"prompts,omitempty"`
	// Stall is how late a real-time timer loop beside the run was at worst, in ms; absent without the right to real time.
	Stall *float64 `json:"stall_max_ms,omitempty"`
	Error string   `json:"error,omitempty"`
}

// Figure is one column of a row's table.
type Figure struct {
	Name   string // with its unit
	Format string
	// Of takes the figure out of one round's runs of one tool, one for each of the row's scenarios; NaN where it has none.
	Of func(runs []Run) float64
}

// Row is one table: what is run, and what is read off.
type Row struct {
	Name      string // as --rows has it
	Title     string
	Scenarios []Scenario
	Prompts   int // a row of prompts made: how many, of ISL tokens each; no server
	ISL       int
	Figures   []Figure
}

// Sizes scale the rows, so that a test can run them in seconds.
type Sizes struct {
	Requests int // of the instant server's large run
	Prompts  int
	Scale    float64 // of all concurrencies and request counts
}

// DefaultSizes are those of docs/performance.md.
func DefaultSizes() Sizes { return Sizes{Requests: 4000, Prompts: 20000, Scale: 1} }

// Control is the bare loop's load beside these sizes: that of the row chunk-1000, with chunks as long as vLLM's.
func (z *Sizes) Control() ControlOptions {
	return ControlOptions{Connections: max(10, int(1000*z.Scale)), Gap: 20 * time.Millisecond, Size: 260,
		Length: max(300*time.Millisecond, time.Duration(min(1, z.Scale)*float64(1500*time.Millisecond)))}
}

// Rows are all rows, in the order of the tables.
func Rows(z Sizes) []Row {
	scaled := func(n int) int { return max(1, int(math.Round(float64(n)*z.Scale))) }
	var rows []Row
	for _, counts := range []bool{false, true} {
		name, title := "request", "CPU a request: 512 in, 128 streamed, 100 in flight, instant server, with client token counts"
		if counts {
			name, title = "request-uncounted", "CPU a request: 512 in, 128 streamed, 100 in flight, instant server, without client token counts"
		}
		small := Scenario{Name: "small", Concurrency: scaled(100), Requests: scaled(z.Requests / 4), PeerRequests: scaled(100), ISL: 512, OSL: 128,
			ServerCounts: counts, Protocol: "http"}
		large := small
		large.Name, large.Requests, large.PeerRequests = "large", scaled(z.Requests), scaled(400)
		rows = append(rows, Row{Name: name, Title: title, Scenarios: []Scenario{small, large}, Figures: []Figure{
			{"CPU a request, ms (slope)", "%.3f", func(r []Run) float64 {
				return 1e3 * Slope(r[0].CPU, r[1].CPU, float64(r[0].OK), float64(r[1].OK))
			}},
			{"CPU a request, ms (start-up counted in)", "%.3f", func(r []Run) float64 { return 1e3 * r[1].CPU / float64(r[1].OK) }},
			peak(1),
		}})
	}
	for _, c := range []struct {
		name, protocol string
		in             int
		ttft, itl      time.Duration
	}{
		{"chunk-1000", "http", 1000, 200 * time.Millisecond, 20 * time.Millisecond},
		{"chunk-1000-tls", "tls", 1000, 200 * time.Millisecond, 20 * time.Millisecond},
		{"chunk-5000", "http", 5000, 500 * time.Millisecond, 100 * time.Millisecond},
	} {
		short := Scenario{Name: "64 tokens", Concurrency: scaled(c.in), Requests: scaled(c.in), PeerConcurrency: scaled(1000), ISL: 32, OSL: 64,
			TTFT: c.ttft, ITL: c.itl, ServerCounts: true, Protocol: c.protocol}
		long := short
		long.Name, long.OSL = "192 tokens", 192
		rows = append(rows, Row{Name: c.name, Title: fmt.Sprintf("CPU a chunk: %d streams paced at %v, %s, slope between 64 and 192 output tokens", c.in, c.itl, over(c.protocol)),
			Scenarios: []Scenario{short, long}, Figures: []Figure{
				{"CPU a chunk, µs", "%.2f", func(r []Run) float64 {
					return 1e6 * Slope(r[0].CPU, r[1].CPU, float64(r[0].OK*r[0].Tokens), float64(r[1].OK*r[1].Tokens))
				}},
				peak(0),
			}})
	}
	rows = append(rows, Row{Name: "start", Title: "Start to the first inference at the server",
		Scenarios: []Scenario{{Name: "start", Concurrency: scaled(10), Requests: scaled(10), ISL: 512, OSL: 8, Protocol: "http", Log: true}},
		Figures:   []Figure{{"start to first request, s", "%.3f", func(r []Run) float64 { return nonzero(r[0].First) }}, peak(0)}})
	for _, c := range []struct {
		name, protocol string
		in, requests   int
		ttft, itl      time.Duration
	}{
		{"truth-200", "http", 200, 1000, 200 * time.Millisecond, 20 * time.Millisecond},
		{"truth-200-tls", "tls", 200, 1000, 200 * time.Millisecond, 20 * time.Millisecond},
		{"truth-200-h2", "h2", 200, 1000, 200 * time.Millisecond, 20 * time.Millisecond},
		{"truth-200-fast", "http", 200, 2000, 200 * time.Millisecond, 2 * time.Millisecond},
		{"truth-1000", "http", 1000, 3000, 200 * time.Millisecond, 20 * time.Millisecond},
		{"truth-1000-tls", "tls", 1000, 3000, 200 * time.Millisecond, 20 * time.Millisecond},
		{"truth-1000-h2", "h2", 1000, 3000, 200 * time.Millisecond, 20 * time.Millisecond},
		{"truth-5000", "http", 5000, 10000, 500 * time.Millisecond, 100 * time.Millisecond},
	} {
		rows = append(rows, Row{Name: c.name,
			Title: fmt.Sprintf("TTFT and ITL against the server's log: %d in flight, TTFT %v, ITL %v, %s", c.in, c.ttft, c.itl, over(c.protocol)),
			Scenarios: []Scenario{{Name: "truth", Concurrency: scaled(c.in), Requests: scaled(c.requests), PeerRequests: scaled(max(c.in, 500)), PeerConcurrency: scaled(1000),
				ISL: 128, OSL: 64, TTFT: c.ttft, ITL: c.itl, Protocol: c.protocol, Log: true}},
			Figures: []Figure{
				truth("TTFT error, ms avg", "%.3f", func(c *Comparison) float64 { return c.TTFT.Avg }),
				truth("p99", "%.3f", func(c *Comparison) float64 { return c.TTFT.P99 }),
				truth("max", "%.3f", func(c *Comparison) float64 { return c.TTFT.Max }),
				truth("exact, %", "%.2f", func(c *Comparison) float64 {
					return stated(&c.TTFT, 100*float64(c.TTFT.Exact)/float64(c.TTFT.Count))
				}),
				truth("exact of those apart, %", "%.2f", func(c *Comparison) float64 {
					return stated(&c.TTFT, 100*float64(c.TTFT.ExactApart)/float64(c.TTFT.Apart))
				}),
				truth("outside its bound", "%.0f", func(c *Comparison) float64 { return stated(&c.TTFT, float64(c.TTFT.Outside)) }),
				truth("ITL error, ms avg", "%.4f", func(c *Comparison) float64 { return c.ITL.Avg }),
				truth("p99", "%.4f", func(c *Comparison) float64 { return c.ITL.P99 }),
				truth("max", "%.4f", func(c *Comparison) float64 { return c.ITL.Max }),
				truth("outside its bound", "%.0f", func(c *Comparison) float64 { return stated(&c.ITL, float64(c.ITL.Outside)) }),
				truth("requests", "%.0f", func(c *Comparison) float64 { return float64(c.Matched) }),
				truth("held by TCP", "%.0f", func(c *Comparison) float64 { return float64(c.Held) }),
			}})
	}
	return append(rows, Row{Name: "prompts", Title: "Making prompts of 8,192 tokens, exact", Prompts: max(1, int(float64(z.Prompts)*z.Scale)), ISL: 8192,
		Figures: []Figure{
			{"prompts a second", "%.0f", func(r []Run) float64 { return float64(r[0].Prompts) / r[0].Wall }},
			{"CPU a prompt, ms", "%.3f", func(r []Run) float64 { return 1e3 * r[0].CPU / float64(r[0].Prompts) }},
			{"100,000 prompts, s", "%.0f", func(r []Run) float64 { return 1e5 * r[0].Wall / float64(r[0].Prompts) }},
			peak(0),
		}})
}

func over(protocol string) string {
	switch protocol {
	case "tls":
		return "over TLS"
	case "h2":
		return "over HTTP/2"
	}
	return "in the clear"
}

// peak is the peak memory of one of a round's runs.
func peak(run int) Figure {
	return Figure{"peak memory, MiB", "%.0f", func(r []Run) float64 { return nonzero(r[run].PeakRSS) }}
}

// nonzero is v, or NaN for the 0 of what was not measured.
func nonzero(v float64) float64 {
	if v == 0 {
		return math.NaN()
	}
	return v
}

func truth(name, format string, of func(*Comparison) float64) Figure {
	return Figure{name, format, func(r []Run) float64 {
		if c := r[0].Comparison; c != nil && c.TTFT.Count > 0 {
			return of(c)
		}
		return math.NaN()
	}}
}

// stated is v where the tool states bounds.
func stated(e *Errors, v float64) float64 {
	if !e.Stated {
		return math.NaN()
	}
	return v
}
