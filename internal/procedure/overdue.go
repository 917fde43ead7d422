package procedure

// Overdue finds the requests that were cut while they ran (by the end of the grace, or by the user) after they had run for longer than any
// answered request of their run took. Those hang, as far as the run can tell, and count as failed ones do. One that was cut sooner says nothing of
// the server: a run by time that allows no grace cuts as many as are in flight.
type Overdue struct {
	longest int64
	cut     []int64
}

// Answered adds a request that was answered after so many ns.
func (o *Overdue) Answered(took int64) { o.longest = max(o.longest, took) }

// Cut adds a request that was cut after so many ns.
func (o *Overdue) Cut(ran int64) { o.cut = append(o.cut, ran) }

// Is reports whether a request that was cut after so many ns is overdue.
func (o *Overdue) Is(ran int64) bool { return ran > o.longest }

// Count is how many are.
func (o *Overdue) Count() (n int) {
	for _, ran := range o.cut {
		if o.Is(ran) {
			n++
		}
	}
	return n
}

// overdueOf are those of a run's requests.
func overdueOf(rs []StepRequest) (o Overdue) {
	for i := range rs {
		switch r := &rs[i]; {
		case r.answered():
			o.Answered(r.End - r.Start)
		case r.Censored:
			o.Cut(r.End - r.Start)
		}
	}
	return o
}

// lost is 1 for each request that failed or is overdue and 0 for each that was answered, in the order of rs; what was cut sooner is left out, since
// what would have become of it is not known.
func lost(rs []StepRequest) (out []float64) {
	o := overdueOf(rs)
	for i := range rs {
		if r := &rs[i]; !r.Censored || o.Is(r.End-r.Start) {
			out = append(out, indicator(r.Failed || r.Censored))
		}
	}
	return out
}
