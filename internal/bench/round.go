package bench

import (
	"fmt"
	"time"
)

// ControlOptions are those of the bare loop: so many connections over the loopback, a chunk of Size bytes on each once every Gap, for Length.
type ControlOptions struct {
	Connections int
	Gap, Length time.Duration
	Size        int
}

// StallLimit is how late a timer loop may be, in ms, before its round is thrown away: above what a scheduler that has idle cores makes of a
// sleep, below what spoils a comparison of times.
const StallLimit = 30.0

// Control is what the bare loop and its timer loop saw, with no tool beside them.
type Control struct {
	CPUPerChunk float64 `json:"cpu_microseconds_a_chunk"`
	Chunks      int     `json:"chunks"`
	StallMax    float64 `json:"stall_max_ms"`
}

// Round is one round of a row: the controls before and after, and the runs between.
type Round struct {
	Row    string  `json:"row"`
	Number int     `json:"round"` // from 1
	Before Control `json:"control_before"`
	After  Control `json:"control_after"`
	Runs   []Run   `json:"runs"`
	Thrown string  `json:"thrown_away,omitempty"` // why
}

// Judge throws the round away where the machine stood still for more than limit ms: in a control, or, by a loop with real-time priority,
// beside a run whose times are compared. CPU time and memory do not grow while a machine stands still.
func (r *Round) Judge(limit float64) {
	stalled := func(ms float64, where string) {
		if r.Thrown == "" && ms > limit {
			r.Thrown = fmt.Sprintf("the machine stood still for %.0f ms %s", ms, where)
		}
	}
	stalled(r.Before.StallMax, "in the control before it")
	for i := range r.Runs {
		if s := r.Runs[i].Stall; s != nil && r.Runs[i].First > 0 {
			stalled(*s, "beside "+r.Runs[i].Tool)
		}
	}
	stalled(r.After.StallMax, "in the control after it")
}

// Order is the order of n tools in a round, from 1: each round runs them the other way round, so that none is always first.
func Order(n, round int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
		if round%2 == 0 {
			order[i] = n - 1 - i
		}
	}
	return order
}

// Cell is one figure of one tool over all rounds that were kept.
type Cell struct {
	Spread
	Missing string // why there is none
}

// Summarize gives the cells of a row: one line for each tool, one cell for each figure.
func Summarize(row *Row, tools []Tool, rounds []Round) [][]Cell {
	out := make([][]Cell, len(tools))
	for i := range tools {
		out[i] = make([]Cell, len(row.Figures))
		for k := range row.Figures {
			var values []float64
			missing := "no round was kept"
			for j := range rounds {
				if rounds[j].Row != row.Name || rounds[j].Thrown != "" {
					continue
				}
				runs, why := runsOf(row, &tools[i], &rounds[j])
				if why != "" {
					missing = why
					continue
				}
				missing = "-"
				values = append(values, row.Figures[k].Of(runs))
			}
			out[i][k] = Cell{SpreadOf(values), missing}
		}
	}
	return out
}

// runsOf are a tool's runs in a round, one for each scenario; why says what is wrong with them.
func runsOf(row *Row, t *Tool, r *Round) (runs []Run, why string) {
	for i := range r.Runs {
		if r.Runs[i].Tool == t.Name {
			runs = append(runs, r.Runs[i])
			if e := r.Runs[i].Error; e != "" {
				return nil, e
			}
		}
	}
	if len(runs) != max(1, len(row.Scenarios)) {
		for i := range row.Scenarios {
			if why := t.Supports(&row.Scenarios[i]); why != "" {
				return nil, why
			}
		}
		return nil, "not run"
	}
	return runs, ""
}
