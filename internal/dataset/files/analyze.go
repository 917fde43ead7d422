package files

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Analysis is what a Mooncake trace holds, as aiperf analyze-trace reckons it. Lengths are tokens, rates lie between 0 and 1. A statistic is
// nil where there are no values.
type Analysis struct {
	Requests       int
	UniquePrefixes int // different sequences of hash ids that a row begins with, whole rows included
	PrefixGroups   int // first hash ids that several rows have
	// HitRate is the mean share of a row's hash ids before the first that no earlier row has: hits in a cache without a limit.
	HitRate float64
	// PrefixReuse is the share of rows' prefixes that occur more than once.
	PrefixReuse float64
	Input       *Stats7 // input_length, 0 for rows without one
	Output      *Stats7
	// Context is the tokens in blocks that other rows have in the same place, Unique the rest of the input.
	Context, Unique *Stats7
	Hits            *Stats7 // of each row with hash ids
	TotalIn         int64
	TotalOut        int64
}

// Stats7 are seven statistics of a row of values: the deviation with ddof 0, percentiles linear between order statistics.
type Stats7 struct{ Mean, StdDev, Min, P25, Median, P75, Max float64 }

// Analyze reads a Mooncake trace whose blocks have so many tokens.
func Analyze(disk FS, path string, block int) (*Analysis, error) {
	f, err := open(disk, path)
	if err != nil {
		return nil, fmt.Errorf("the trace cannot be read: %w", err)
	}
	defer f.close()
	t := newTally()
	err = f.lines(func(_ int64, line int, text []byte) error {
		o := parseObject(text, "")
		in, _ := o.length("input_length", 0)
		out, _ := o.length("output_length", 0)
		var row turn
		o.hashIDs(&row)
		if o.err != nil {
			o.err.File, o.err.Line = path, line
			return o.err
		}
		t.row(in, out, row.blocks)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return t.analysis(block), nil
}

// tally is what is counted while a trace is read.
type tally struct {
	in, out []float64
	ids     [][]int64
	seen    map[int64]struct{}
	hits    []float64
	tree    map[edge]int32 // the node that an id leads to from a node; 0 is the root
	through []int64        // rows that pass a node
	places  map[edge]int64 // rows with an id in a place
	firsts  map[int64]int
}

type edge struct {
	from int32
	id   int64
}

func newTally() *tally {
	return &tally{seen: map[int64]struct{}{}, tree: map[edge]int32{}, through: make([]int64, 1), places: map[edge]int64{}, firsts: map[int64]int{}}
}

func (t *tally) row(in, out int, ids []int64) {
	t.in, t.out, t.ids = append(t.in, float64(in)), append(t.out, float64(out)), append(t.ids, ids)
	if len(ids) == 0 {
		return
	}
	t.firsts[ids[0]]++
	known := slices.IndexFunc(ids, func(id int64) bool { _, ok := t.seen[id]; return !ok })
	if known < 0 {
		known = len(ids)
	}
	t.hits = append(t.hits, float64(known)/float64(len(ids)))
	var node int32
	for place, id := range ids {
		t.seen[id] = struct{}{}
		t.places[edge{int32(place), id}]++
		next, ok := t.tree[edge{node, id}]
		if !ok {
			next = int32(len(t.through))
			t.tree[edge{node, id}] = next
			t.through = append(t.through, 0)
		}
		t.through[next]++
		node = next
	}
}

func (t *tally) analysis(block int) *Analysis {
	a := &Analysis{Requests: len(t.in), UniquePrefixes: len(t.through) - 1}
	for _, n := range t.firsts {
		if n > 1 {
			a.PrefixGroups++
		}
	}
	var all, again int64
	for _, n := range t.through {
		all += n
		if n > 1 {
			again += n
		}
	}
	if all > 0 {
		a.PrefixReuse = float64(again) / float64(all)
	}
	context, unique := make([]float64, len(t.in)), make([]float64, len(t.in))
	for i, ids := range t.ids {
		shared := 0
		for place, id := range ids {
			if t.places[edge{int32(place), id}] > 1 {
				shared++
			}
		}
		context[i] = float64(shared * block)
		if shared == len(ids) && shared > 0 {
			context[i] = t.in[i]
		}
		unique[i] = t.in[i] - context[i]
		a.TotalIn += int64(t.in[i])
		a.TotalOut += int64(t.out[i])
	}
	a.Input, a.Output, a.Context, a.Unique, a.Hits = stats(t.in), stats(t.out), stats(context), stats(unique), stats(t.hits)
	if a.Hits != nil {
		a.HitRate = a.Hits.Mean
	}
	return a
}

func stats(v []float64) *Stats7 {
	if len(v) == 0 {
		return nil
	}
	sorted := slices.Sorted(slices.Values(v))
	mean := sum(v, func(x float64) float64 { return x }) / float64(len(v))
	at := func(q float64) float64 {
		place := q * float64(len(sorted)-1)
		low := int(place)
		if low+1 >= len(sorted) {
			return sorted[low]
		}
		return sorted[low] + (sorted[low+1]-sorted[low])*(place-float64(low))
	}
	return &Stats7{
		Mean: mean, StdDev: math.Sqrt(sum(v, func(x float64) float64 { return (x - mean) * (x - mean) }) / float64(len(v))),
		Min: sorted[0], P25: at(0.25), Median: at(0.5), P75: at(0.75), Max: sorted[len(sorted)-1],
	}
}

// sum adds up with the error of each step carried along (Neumaier).
func sum(v []float64, of func(float64) float64) float64 {
	var s, lost float64
	for _, x := range v {
		x = of(x)
		next := s + x
		if math.Abs(s) >= math.Abs(x) {
			lost += (s - next) + x
		} else {
			lost += (x - next) + s
		}
		s = next
	}
	return s + lost
}

// JSON is the report as aiperf writes it.
func (a *Analysis) JSON() []byte {
	var b strings.Builder
	field := func(indent, name, value, end string) { fmt.Fprintf(&b, "%s%q: %s%s\n", indent, name, value, end) }
	b.WriteString("{\n")
	average := func(total int64) string {
		return decimal(float64(total) / float64(max(a.Requests, 1)))
	}
	limits := func(s *Stats7) (low, high string) {
		if s == nil {
			return "0", "0"
		}
		return strconv.FormatFloat(s.Min, 'f', 0, 64), strconv.FormatFloat(s.Max, 'f', 0, 64)
	}
	minIn, maxIn := limits(a.Input)
	minOut, maxOut := limits(a.Output)
	for _, f := range [...][2]string{
		{"total_requests", strconv.Itoa(a.Requests)}, {"unique_prefixes", strconv.Itoa(a.UniquePrefixes)},
		{"num_prefix_groups", strconv.Itoa(a.PrefixGroups)}, {"cache_hit_rate", decimal(a.HitRate)},
		{"min_isl", minIn}, {"max_isl", maxIn}, {"avg_isl", average(a.TotalIn)},
		{"min_osl", minOut}, {"max_osl", maxOut}, {"avg_osl", average(a.TotalOut)},
		{"prefix_reuse_ratio", decimal(a.PrefixReuse)},
	} {
		field("  ", f[0], f[1], ",")
	}
	series := [...]struct {
		name string
		s    *Stats7
	}{
		{"isl_stats", a.Input}, {"osl_stats", a.Output}, {"context_length_stats", a.Context}, {"unique_prompt_length_stats", a.Unique},
		{"hit_rate_stats", a.Hits},
	}
	for i, f := range series {
		end := ","
		if i == len(series)-1 {
			end = ""
		}
		if f.s == nil {
			field("  ", f.name, "null", end)
			continue
		}
		fmt.Fprintf(&b, "  %q: {\n", f.name)
		names := [...]string{"mean", "std_dev", "min", "p25", "median", "p75", "max"}
		for k, v := range f.s.all() {
			comma := ","
			if k == len(names)-1 {
				comma = ""
			}
			field("    ", names[k], decimal(v), comma)
		}
		fmt.Fprintf(&b, "  }%s\n", end)
	}
	b.WriteString("}")
	return []byte(b.String())
}

func (s *Stats7) all() [7]float64 {
	return [7]float64{s.Mean, s.StdDev, s.Min, s.P25, s.Median, s.P75, s.Max}
}

// decimal is a number with a decimal point.
func decimal(v float64) string {
	if v != 0 && (math.Abs(v) < 1e-5 || math.Abs(v) >= 1e16) {
		return strconv.FormatFloat(v, 'e', -1, 64)
	}
	text := strconv.FormatFloat(v, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

// Text is the report as aiperf prints it.
func (a *Analysis) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nTrace Analysis Report\nTotal requests:   %s\nUnique prefixes:  %s\nPrefix groups:    %s\n\n",
		grouped(strconv.Itoa(a.Requests)), grouped(strconv.Itoa(a.UniquePrefixes)), grouped(strconv.Itoa(a.PrefixGroups)))
	rows := [][]string{{"Metric", "Mean", "Std Dev", "Min", "P25", "Median", "P75", "Max"}}
	for _, f := range [...]struct {
		name string
		s    *Stats7
	}{
		{"Input Length", a.Input}, {"Context Length", a.Context}, {"Unique Prompt Length", a.Unique}, {"Output Length", a.Output},
		{"Theoretical Hit Rates", a.Hits},
	} {
		row := []string{f.name}
		if f.s == nil {
			row = append(row, slices.Repeat([]string{"N/A"}, 7)...)
		} else {
			for _, v := range f.s.all() {
				row = append(row, grouped(strconv.FormatFloat(v, 'f', 2, 64)))
			}
		}
		rows = append(rows, row)
	}
	width := make([]int, len(rows[0]))
	total := 1
	for i := range width {
		for _, row := range rows {
			width[i] = max(width[i], len(row[i]))
		}
		total += width[i] + 3
	}
	line := func(left, middle, cross, right string) {
		for i, w := range width {
			b.WriteString(left + strings.Repeat(middle, w+2))
			left = cross
			if i == len(width)-1 {
				b.WriteString(right + "\n")
			}
		}
	}
	const title = "Trace Statistics"
	before := (total - len(title)) / 2
	b.WriteString(strings.Repeat(" ", before) + title + strings.Repeat(" ", total-len(title)-before) + "\n")
	line("┏", "━", "┳", "┓")
	for i, row := range rows {
		bar := "│"
		if i == 0 {
			bar = "┃"
		}
		for k, cell := range row {
			fmt.Fprintf(&b, "%s %*s ", bar, width[k], cell)
		}
		b.WriteString(bar + "\n")
		if i == 0 {
			line("┡", "━", "╇", "┩")
		}
	}
	line("└", "─", "┴", "┘")
	b.WriteString("\n")
	return b.String()
}

// grouped puts commas between thousands.
func grouped(number string) string {
	whole, fraction, point := strings.Cut(number, ".")
	sign := ""
	if rest, negative := strings.CutPrefix(whole, "-"); negative {
		sign, whole = "-", rest
	}
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if point {
		whole += "." + fraction
	}
	return sign + whole
}
