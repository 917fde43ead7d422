package servermetrics

import (
	"maps"
	"slices"
	"sync"

	"prefire/metrics"
)

// Role says what a reading is for.
type Role uint8

const (
	// Tick is a reading on the clock: a sample of every gauge.
	Tick Role = iota
	// Edge is a reading right before a phase or right after it. Its gauges are of a server that is idle, and count where a phase has no other.
	Edge
	// Late is a reading some time after the last phase, for what the server counts late. It adds to totals, and not to the time they are over.
	Late
)

// Book holds the readings of one endpoint, folded phase by phase as they come: its memory does not grow with the run, but for the values of
// gauges, which are kept up to a bound. It is safe for concurrent use.
type Book struct {
	url string

	mu     sync.Mutex
	last   map[string]*point
	phases map[int]*window
	open   []int // phases that run now
	ended  []int // phases that ended last, whose late counts are still to come
	info   Info
	phase  map[int]*Info
}

// point is a series in one reading.
type point struct {
	at int64
	s  *Sample
}

// window is what one phase has seen.
type window struct {
	before map[string]*point // as it stood when the phase began
	series map[string]*rise
}

// NewBook returns an empty book for the endpoint at url.
func NewBook(url string) *Book {
	return &Book{url: url, last: map[string]*point{}, phases: map[int]*window{}, phase: map[int]*Info{}}
}

// URL is the endpoint's address.
func (b *Book) URL() string { return b.url }

// Begin opens a phase: what was read last is what it starts from.
func (b *Book) Begin(phase int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.phases[phase] = &window{before: maps.Clone(b.last), series: map[string]*rise{}}
	b.phase[phase] = &Info{}
	b.open, b.ended = append(b.open, phase), nil
}

// End closes a phase; the reading after it is to be there already.
func (b *Book) End(phase int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(b.open, phase); i >= 0 {
		b.open = slices.Delete(b.open, i, i+1)
		b.ended = append(b.ended, phase)
	}
}

// Add takes one reading: at is when its first byte came, took how long it was under way, in ns of the run. same says that its text is that of
// the reading before.
func (b *Book) Add(at, took int64, list []Sample, same bool, role Role) {
	b.mu.Lock()
	defer b.mu.Unlock()
	into := b.open
	if role == Late && len(b.open) == 0 {
		into = b.ended
	}
	b.info.add(at, took, same)
	for _, phase := range into {
		b.phase[phase].add(at, took, same)
	}
	for i := range list {
		p := &point{at, &list[i]}
		for _, phase := range into {
			b.phases[phase].add(p, role)
		}
		b.last[p.s.key] = p
	}
}

func (w *window) add(p *point, role Role) {
	r := w.series[p.s.key]
	if r == nil {
		r = newRise(p.s, w.before[p.s.key])
		w.series[p.s.key] = r
	}
	r.add(p, role)
}

// maxGauge bounds the values kept of one gauge; past it its percentiles come from a histogram of three digits.
const maxGauge = 50_000

// rise is one series over a phase.
type rise struct {
	s            *Sample // the last one
	ticks, edges *metrics.Series
	prev         *point // the reading before; nil = there was none yet
	from, to     int64  // what the rate is over
	total        float64
	count        float64
	buckets      []Bucket  // the rise of each
	learned      []learned // of each bucket's values
	broken       bool      // the buckets changed, or fell: nothing can be said of them
}

func newRise(s *Sample, before *point) *rise {
	r := &rise{s: s}
	if s.Kind == Gauge || s.Kind == Unknown {
		o := metrics.SeriesOptions{Unit: metrics.Ratio, Cap: maxGauge}
		r.ticks, r.edges = metrics.NewSeries(o), metrics.NewSeries(o)
		return r
	}
	if before != nil {
		r.start(before)
	}
	return r
}

func (r *rise) start(p *point) {
	r.prev, r.from, r.to = p, p.at, p.at
	if d := p.s.Hist; d != nil {
		r.buckets = slices.Clone(d.Buckets)
		for i := range r.buckets {
			r.buckets[i].Count = 0
		}
		r.learned = make([]learned, len(r.buckets))
	}
}

func (r *rise) add(p *point, role Role) {
	r.s = p.s
	switch {
	case r.ticks != nil && role == Tick:
		r.ticks.Add(p.s.Value)
		return
	case r.ticks != nil:
		if role == Edge {
			r.edges.Add(p.s.Value)
		}
		return
	case r.prev == nil: // what a series had counted before it was first seen is not known
		r.start(p)
		return
	}
	if p.s.Hist != nil {
		r.addHistogram(p.s.Hist)
	} else {
		r.total += since(r.prev.s.Value, p.s.Value)
	}
	r.prev = p
	if role != Late {
		r.to = p.at
	}
}

// since is how much a counter has risen: where it fell, the server began anew.
func since(before, now float64) float64 {
	if now < before {
		return now
	}
	return now - before
}

func (r *rise) addHistogram(d *Distribution) {
	old := r.prev.s.Hist
	same := len(d.Buckets) == len(r.buckets) && len(old.Buckets) == len(d.Buckets)
	for i := range d.Buckets {
		same = same && d.Buckets[i].Bound == r.buckets[i].Bound
	}
	restarted := d.Count < old.Count
	sum, count := d.Sum-old.Sum, d.Count-old.Count
	if restarted {
		sum, count = d.Sum, d.Count
	}
	r.total, r.count = r.total+sum, r.count+count
	if !same {
		r.broken = true
		return
	}
	only, several, below := -1, false, 0.0
	for i := range d.Buckets {
		up := d.Buckets[i].Count
		if !restarted {
			up -= old.Buckets[i].Count
		}
		if up < 0 {
			r.broken = true
			return
		}
		r.buckets[i].Count += up
		if up-below > 0 {
			several = only >= 0
			only = i
		}
		below = max(below, up)
	}
	if count > 0 && only >= 0 && !several {
		r.learned[only].add(sum/count, count)
	}
}

// merge adds what o saw in another phase of the same series.
func (r *rise) merge(o *rise) {
	r.s = o.s
	if r.ticks != nil {
		r.ticks.Merge(o.ticks)
		r.edges.Merge(o.edges)
		return
	}
	r.total, r.count, r.to = r.total+o.total, r.count+o.count, r.to+o.to-o.from
	r.broken = r.broken || o.broken || len(r.buckets) != len(o.buckets)
	for i := range r.buckets {
		if r.broken {
			return
		}
		r.buckets[i].Count += o.buckets[i].Count
		r.learned[i].merge(o.learned[i])
	}
}

func (r *rise) clone() *rise {
	c := *r
	if r.ticks != nil {
		c.ticks, c.edges = r.ticks.Clone(), r.edges.Clone()
	}
	c.buckets, c.learned = slices.Clone(r.buckets), slices.Clone(r.learned)
	return &c
}

// Info is how an endpoint was read. Times are ns of the run; 0 = none.
type Info struct {
	Fetches                 int
	FirstFetch, LastFetch   int64
	took                    int64
	Updates                 int // readings that differ from the one before
	FirstUpdate, LastUpdate int64
	gaps                    *metrics.Series // between updates, ns
}

func (i *Info) add(at, took int64, same bool) {
	if i.Fetches == 0 {
		i.FirstFetch = at
	}
	i.Fetches++
	i.LastFetch = at
	i.took += took
	if same {
		return
	}
	if i.Updates == 0 {
		i.FirstUpdate = at
		i.gaps = metrics.NewSeries(metrics.SeriesOptions{Unit: metrics.Nanoseconds, Cap: maxGauge})
	} else {
		i.gaps.Add(float64(at - i.LastUpdate))
	}
	i.Updates++
	i.LastUpdate = at
}

// FetchLatency is how long a reading took on average, in ns.
func (i *Info) FetchLatency() float64 {
	if i.Fetches == 0 {
		return 0
	}
	return float64(i.took) / float64(i.Fetches)
}

// UpdateInterval is the mean and the median time between updates, in ns; false where there were fewer than two.
func (i *Info) UpdateInterval() (mean, median float64, ok bool) {
	if i.Updates < 2 {
		return 0, 0, false
	}
	median, _ = i.gaps.Quantile(50)
	return float64(i.LastUpdate-i.FirstUpdate) / float64(i.Updates-1), median, true
}
