//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package reactor

import "container/heap"

// timer calls fire on the loop at its time.
type timer struct {
	at   int64
	rank int // in the heap, from 1; 0 = not set
	fire func()
}

// timers is a heap by time.
type timers []*timer

func (h timers) Len() int           { return len(h) }
func (h timers) Less(i, j int) bool { return h[i].at < h[j].at }

func (h timers) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].rank, h[j].rank = i+1, j+1
}

func (h *timers) Push(x any) {
	t := x.(*timer)
	*h = append(*h, t)
	t.rank = len(*h)
}

func (h *timers) Pop() any {
	old := *h
	t := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	t.rank = 0
	return t
}

// set has t fire at the time given, in the place of any time before.
func (h *timers) set(t *timer, at int64) {
	h.unset(t)
	t.at = at
	heap.Push(h, t)
}

func (h *timers) unset(t *timer) {
	if t.rank > 0 {
		heap.Remove(h, t.rank-1)
	}
}

// next is the earliest time; 0 = none.
func (h timers) next() int64 {
	if len(h) == 0 {
		return 0
	}
	return h[0].at
}

// due takes out one timer whose time has come; nil = none.
func (h *timers) due(now int64) *timer {
	if len(*h) == 0 || (*h)[0].at > now {
		return nil
	}
	return heap.Pop(h).(*timer)
}
