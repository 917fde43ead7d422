package bench

import (
	"fmt"
	"strings"
)

// Machine is where the tables were made.
type Machine struct {
	Kernel, CPU     string
	Cores           int
	MemoryGiB       float64
	Go              string
	Date            string
	Command         string
	ClientCPUs      string // as taskset has them; "" = all
	ServerCPUs      string
	Versions        map[string]string // of the tools
	RealTime        bool              // the timer loop had real-time priority
	StallLimit      float64           // ms
	ToolsInOrder    []string
	RoundsKept      int
	RoundsThrown    int
	ThrownBecause   []string
	ControlPerChunk Spread
}

// Heading is the paragraph above the tables.
func (m *Machine) Heading() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Machine: %s, %d cores, %.0f GiB, Linux %s, %s; %s.\n\n", m.CPU, m.Cores, m.MemoryGiB, m.Kernel, m.Go, m.Date)
	fmt.Fprintf(&b, "Command: `%s`.\n\n", m.Command)
	var names []string
	for _, t := range m.ToolsInOrder {
		names = append(names, t+" "+m.Versions[t])
	}
	fmt.Fprintf(&b, "Tools: %s. All of them ran on %s, the server on %s.\n\n", strings.Join(names, ", "), cpus(m.ClientCPUs), cpus(m.ServerCPUs))
	fmt.Fprintf(&b, "%d rounds kept, %d thrown away for stalls of over %.0f ms", m.RoundsKept, m.RoundsThrown, m.StallLimit)
	if len(m.ThrownBecause) > 0 {
		fmt.Fprintf(&b, " (%s)", strings.Join(m.ThrownBecause, "; "))
	}
	b.WriteString(".")
	if m.ControlPerChunk.N > 0 {
		fmt.Fprintf(&b, " The bare loop beside them took %.2f µs CPU a chunk (%.2f to %.2f).", m.ControlPerChunk.Median, m.ControlPerChunk.Min, m.ControlPerChunk.Max)
	}
	if !m.RealTime {
		b.WriteString(" The timer loop had no real-time priority: stalls were looked for in the controls alone.")
	}
	b.WriteString("\n")
	return b.String()
}

func cpus(list string) string {
	if list == "" {
		return "all cores"
	}
	return "cores " + list
}

// Markdown is a row's table: medians, with the least and the greatest where there was more than one round.
func Markdown(row *Row, tools []Tool, cells [][]Cell) string {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n`--rows %s`\n\n| |", row.Title, row.Name)
	for _, f := range row.Figures {
		fmt.Fprintf(&b, " %s |", f.Name)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(row.Figures)) + "\n")
	for i, t := range tools {
		fmt.Fprintf(&b, "| %s |", t.Name)
		none := true
		for k := range row.Figures {
			none = none && cells[i][k].N == 0
		}
		if none && len(cells[i]) > 0 {
			fmt.Fprintf(&b, " %s |%s\n", oneLine(cells[i][0].Missing), strings.Repeat(" |", len(row.Figures)-1))
			continue
		}
		for k, f := range row.Figures {
			fmt.Fprintf(&b, " %s |", cells[i][k].text(f.Format))
		}
		b.WriteString("\n")
	}
	return b.String()
}

func (c Cell) text(format string) string {
	if c.N == 0 {
		return "-"
	}
	middle := fmt.Sprintf(format, c.Median)
	low, high := fmt.Sprintf(format, c.Min), fmt.Sprintf(format, c.Max)
	if low == high {
		return middle
	}
	return fmt.Sprintf("%s (%s to %s)", middle, low, high)
}

// oneLine keeps a tool's words within a table's cell.
func oneLine(s string) string {
	s = strings.NewReplacer("\n", " ", "|", "/").Replace(s)
	if r := []rune(s); len(r) > 200 {
		s = string(r[:200]) + "…"
	}
	return s
}

// Marks in a document, between which Insert puts the tables.
const (
	BeginMark = "<!-- tables of go run ./cmd/bench: begin -->"
	EndMark   = "<!-- tables of go run ./cmd/bench: end -->"
)

// Insert replaces what a document has between the marks; false where it lacks them.
func Insert(document, tables string) (string, bool) {
	before, rest, ok := strings.Cut(document, BeginMark)
	if !ok {
		return document, false
	}
	_, after, ok := strings.Cut(rest, EndMark)
	if !ok {
		return document, false
	}
	return before + BeginMark + "\n\n" + strings.TrimSpace(tables) + "\n\n" + EndMark + after, true
}
