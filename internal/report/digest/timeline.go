package digest

// finest is the width of a cell of the first moment, as a power of 2 in ns: 1 ms. mostCells bounds the cells; where there would be more, each
// two become one.
const (
	finest    = 20
	mostCells = 256
)

// timeline counts what happens in cells of equal width over a run whose length is not known beforehand. Cells are numbered from 1970 on, so
// that the order of the records does not matter.
type timeline struct {
	shift    uint
	first    int64 // number of cells[0]
	cells    []cell
	from, to int64 // ns: the first start and the last end
}

type cell struct {
	started, finished, failed int64
	flight, output            flow
	figures                   [figures]*Sketch // of the requests that started here
}

// flow is the change of a level within a cell, such as the number of requests in flight: how much it changed in all, and the area in
// level·seconds that these changes add within the cell.
type flow struct{ step, area float64 }

// width is a cell's, in s.
func (t *timeline) width() float64 { return float64(int64(1)<<t.shift) / 1e9 }

// at is the cell of a time.
func (t *timeline) at(ns int64) *cell {
	for {
		i := ns >> t.shift
		if len(t.cells) == 0 {
			t.shift = max(t.shift, finest)
			i = ns >> t.shift
			t.first = i
		}
		low, high := min(t.first, i), max(t.first+int64(len(t.cells))-1, i)
		if high-low >= mostCells {
			t.coarsen()
			continue
		}
		if more := t.first - low; more > 0 {
			t.cells = append(make([]cell, more, mostCells), t.cells...)
			t.first = low
		}
		for t.first+int64(len(t.cells)) <= high {
			t.cells = append(t.cells, cell{})
		}
		return &t.cells[i-t.first]
	}
}

// coarsen makes one cell of each two.
func (t *timeline) coarsen() {
	half := t.width()
	first := t.first >> 1
	wide := make([]cell, 0, mostCells)
	for i := range t.cells {
		c := &t.cells[i]
		n := t.first + int64(i)
		if at := int(n>>1 - first); at == len(wide) {
			wide = append(wide, cell{})
		}
		wide[n>>1-first].take(c, n&1 == 0, half)
	}
	t.shift, t.first, t.cells = t.shift+1, first, wide
}

// take adds a cell of half the width, left or right.
func (w *cell) take(c *cell, left bool, half float64) {
	w.started, w.finished, w.failed = w.started+c.started, w.finished+c.finished, w.failed+c.failed
	w.flight.take(c.flight, left, half)
	w.output.take(c.output, left, half)
	for f, s := range c.figures {
		switch {
		case s == nil:
		case w.figures[f] == nil:
			w.figures[f] = s
		default:
			w.figures[f].Merge(s)
		}
	}
}

func (f *flow) take(o flow, left bool, half float64) {
	f.area += o.area
	if left {
		f.area += o.step * half
	}
	f.step += o.step
}

// change adds a change of a level at a time.
func (t *timeline) change(ns int64, of func(*cell) *flow, by float64) {
	c := t.at(ns)
	left := t.width() - float64(ns&(int64(1)<<t.shift-1))/1e9
	f := of(c)
	f.step += by
	f.area += by * left
}

func flight(c *cell) *flow { return &c.flight }
func output(c *cell) *flow { return &c.output }

// span widens the time that the timeline is about.
func (t *timeline) span(from, to int64) {
	if t.from == 0 || from < t.from {
		t.from = from
	}
	t.to = max(t.to, to)
}

// Bin is a part of the run.
type Bin struct {
	From, To float64 // s since the first start
	Started  int64
	// The following are averages over the bin.
	InFlight float64
	Finished float64 // answered requests a second
	Failed   float64 // requests a second that failed, were cancelled or were cut
	Output   float64 // output tokens a second, each request's spread evenly from its first token to its end
	// Figures are of the requests that started in the bin; nil where there are none.
	Figures [figures]*Sketch
}

// enough is how many requests a bin should have, for a percentile of it to mean something; with fewer bins than leastBins that gives way.
const (
	enough    = 12
	leastBins = 24
	mostBins  = 96
)

// Bins is the run in bins of equal width, of which the first and the last are cut to the time that the run took.
func (d *Digest) Bins() []Bin {
	t := d.time
	if len(t.cells) == 0 {
		return nil
	}
	// The digest keeps its own cells, and coarsen hands sketches on.
	t.cells = make([]cell, len(d.time.cells), mostCells)
	for i := range d.time.cells {
		t.cells[i] = d.time.cells[i]
		for f, s := range t.cells[i].figures {
			if s != nil {
				own := new(Sketch)
				own.Merge(s)
				t.cells[i].figures[f] = own
			}
		}
	}
	started := int64(0)
	for i := range t.cells {
		started += t.cells[i].started
	}
	for len(t.cells) > mostBins || len(t.cells) > leastBins && started/int64(len(t.cells)) < enough {
		t.coarsen()
	}
	out := make([]Bin, len(t.cells))
	var inFlight, tokens float64
	for i := range t.cells {
		c := &t.cells[i]
		from := max((t.first+int64(i))<<t.shift, t.from)
		to := min((t.first+int64(i)+1)<<t.shift, t.to)
		b := Bin{From: float64(from-t.from) / 1e9, To: float64(to-t.from) / 1e9, Started: c.started, Figures: c.figures}
		if seconds := b.To - b.From; seconds > 0 {
			// A level from before the bin lasts all of it: only the first and the last bin are shorter than a cell, and before the one and
			// after the other all levels are 0.
			b.InFlight = max(0, (inFlight*t.width()+c.flight.area)/seconds)
			b.Output = max(0, (tokens*t.width()+c.output.area)/seconds)
			b.Finished, b.Failed = float64(c.finished)/seconds, float64(c.failed)/seconds
		}
		inFlight, tokens = inFlight+c.flight.step, tokens+c.output.step
		out[i] = b
	}
	return out
}
