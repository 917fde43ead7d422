package metrics

// A bin is firstBin ns wide at first; the width doubles whenever the run outgrows maxBins of them.
const (
	firstBin = int64(1e6)
	maxBins  = 1 << 14
)

// bins hold step functions as averages over short equal times. A change costs the same however long it lasts: it is kept as the part of
// its own bin that it fills, and as a step that all later bins begin with.
type bins struct {
	width int64
	// part[k] is what changes within bin k add to its integral, in units times ns; step[k] is what all bins from k on have more.
	part, step [][quantities]float64
	end        int64 // of the last change
}

func newBins() *bins {
	b := &bins{width: firstBin}
	b.part, b.step = make([][quantities]float64, 0, maxBins+1), make([][quantities]float64, 0, maxBins+1)
	return b
}

// room makes bin k exist, and gives its number after all widening.
func (b *bins) room(at int64) int {
	for at/b.width+1 >= maxBins {
		b.widen()
	}
	k := int(at / b.width)
	for len(b.part) <= k+1 {
		b.part, b.step = append(b.part, [quantities]float64{}), append(b.step, [quantities]float64{})
	}
	return k
}

func (b *bins) add(q quantity, at int64, n float64) {
	k := b.room(at)
	b.part[k][q] += n * float64(int64(k+1)*b.width-at)
	b.step[k+1][q] += n
	b.end = max(b.end, at)
}

// widen makes one bin of two.
func (b *bins) widen() {
	half := float64(b.width)
	n := (len(b.part) + 1) / 2
	part, step := make([][quantities]float64, n+1, maxBins+1), make([][quantities]float64, n+1, maxBins+1)
	for k := range b.part {
		for q := range quantities {
			part[k/2][q] += b.part[k][q]
			if k%2 == 1 { // a step in the middle of a bin: half of that bin has it, and all later ones
				part[k/2][q] += b.step[k][q] * half
				step[k/2+1][q] += b.step[k][q]
			} else {
				step[k/2][q] += b.step[k][q]
			}
		}
	}
	b.part, b.step, b.width = part, step, 2*b.width
}

// stretches are the bins, each with its averages. The last one ends with the last change.
func (b *bins) stretches() []stretch {
	var out []stretch
	var level [quantities]dd
	for k := range b.part {
		s := stretch{from: int64(k) * b.width, to: min(int64(k+1)*b.width, b.end)}
		if s.from >= s.to {
			break
		}
		for q := range quantities {
			level[q] = level[q].add(b.step[k][q])
			// Past the end nothing is in flight, and what was before is spread over the time up to it.
			s.v[q] = (level[q].float()*float64(b.width) + b.part[k][q]) / float64(s.to-s.from)
		}
		out = append(out, s)
	}
	return settle(out)
}

// merge adds o, which does not change.
func (b *bins) merge(o *bins) {
	c := bins{o.width, append([][quantities]float64(nil), o.part...), append([][quantities]float64(nil), o.step...), o.end}
	for c.width < b.width {
		c.widen()
	}
	for b.width < c.width {
		b.widen()
	}
	for len(b.part) < len(c.part) {
		b.part, b.step = append(b.part, [quantities]float64{}), append(b.step, [quantities]float64{})
	}
	for k := range c.part {
		for q := range quantities {
			b.part[k][q] += c.part[k][q]
			b.step[k][q] += c.step[k][q]
		}
	}
	b.end = max(b.end, c.end)
}
