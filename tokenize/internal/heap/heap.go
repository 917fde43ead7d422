// Package heap is a heap of numbers, without the interface values of container/heap: merging long pieces spends its time here.
package heap

// Min holds numbers; the least one comes out first.
type Min []uint64

// Push enters v and adds the levels walked to work.
func (h *Min) Push(v uint64, work *int) {
	s := append(*h, v)
	at := len(s) - 1
	for at > 0 {
		*work++
		up := (at - 1) / 2
		if s[up] <= v {
			break
		}
		s[at] = s[up]
		at = up
	}
	s[at] = v
	*h = s
}

// Pop takes the least number out of a heap that is not empty, and adds the levels walked to work.
func (h *Min) Pop(work *int) uint64 {
	s := *h
	top, last := s[0], s[len(s)-1]
	s = s[:len(s)-1]
	*h = s
	n := len(s)
	if n == 0 {
		return top
	}
	at := 0
	for {
		*work++
		down := 2*at + 1
		if down >= n {
			break
		}
		if down+1 < n && s[down+1] < s[down] {
			down++
		}
		if last <= s[down] {
			break
		}
		s[at] = s[down]
		at = down
	}
	s[at] = last
	return top
}
