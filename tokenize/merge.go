package tokenize

import (
	"prefire/tokenize/internal/heap"
	"prefire/tokenize/internal/vocab"
)

// short is the longest piece that is merged by scanning for the lowest rank; past it a heap is faster.
const short = 64

// merger holds the working memory of merging pieces; one goroutine uses it at a time.
type merger struct {
	parts []part
	ids   []int32
	heap  heap.Min
	work  int // pairs looked up and heap levels walked, over the merger's life
}

// part is a run of bytes that has become one token.
type part struct {
	start, end int32
	id         int32 // its token
	rank       int32 // the token it and the next part would make; vocab.None if none
	prev, next int32 // neighbours while a heap is used; -1 = none
}

// merge gives the ids of a piece: of all neighbouring parts that would make a token, those of the lowest rank are joined, the leftmost
// first, until there are none. The result is valid until the next call.
func (m *merger) merge(v *vocab.Table, piece []byte) []int32 {
	m.parts = m.parts[:0]
	for i := range piece {
		m.parts = append(m.parts, part{
			start: int32(i), end: int32(i + 1), id: v.Find(piece, i, i+1), rank: vocab.None, prev: int32(i - 1), next: int32(i + 1),
		})
	}
	m.parts[len(piece)-1].next = -1
	for i := range len(piece) - 1 {
		m.parts[i].rank = m.rank(v, piece, i, i+1)
	}
	m.ids = m.ids[:0]
	if len(piece) <= short {
		m.scan(v, piece)
	} else {
		m.queue(v, piece)
	}
	return m.ids
}

// rank is the token that the parts i and j make together, or vocab.None.
func (m *merger) rank(v *vocab.Table, piece []byte, i, j int) int32 {
	m.work++
	return v.Find(piece, int(m.parts[i].start), int(m.parts[j].end))
}

func (m *merger) scan(v *vocab.Table, piece []byte) {
	for {
		lowest, at := vocab.None, 0
		for i := range m.parts {
			if r := m.parts[i].rank; r != vocab.None && (lowest == vocab.None || r < lowest) {
				lowest, at = r, i
			}
		}
		if lowest == vocab.None {
			break
		}
		m.parts[at].id, m.parts[at].end = lowest, m.parts[at+1].end
		m.parts = append(m.parts[:at+1], m.parts[at+2:]...)
		m.parts[at].rank = vocab.None
		if at+1 < len(m.parts) {
			m.parts[at].rank = m.rank(v, piece, at, at+1)
		}
		if at > 0 {
			m.parts[at-1].rank = m.rank(v, piece, at-1, at)
		}
	}
	for i := range m.parts {
		m.ids = append(m.ids, m.parts[i].id)
	}
}

// queue merges with a heap of rank and left part, in that order. An entry is stale if its part has another rank by now: a pair that grows
// can never come back to the same bytes.
func (m *merger) queue(v *vocab.Table, piece []byte) {
	m.heap = m.heap[:0]
	for i := range m.parts {
		m.push(i)
	}
	for len(m.heap) > 0 {
		top := m.heap.Pop(&m.work)
		i := int(uint32(top))
		if p := &m.parts[i]; p.rank == vocab.None || p.rank != int32(top>>32) {
			continue
		}
		p := &m.parts[i]
		gone := &m.parts[p.next]
		p.id, p.end, p.next = p.rank, gone.end, gone.next
		gone.rank = vocab.None
		p.rank = vocab.None
		if p.next >= 0 {
			m.parts[p.next].prev = int32(i)
			p.rank = m.rank(v, piece, i, int(p.next))
			m.push(i)
		}
		if p.prev >= 0 {
			before := int(p.prev)
			m.parts[before].rank = m.rank(v, piece, before, i)
			m.push(before)
		}
	}
	for i := int32(0); i >= 0; i = m.parts[i].next {
		m.ids = append(m.ids, m.parts[i].id)
	}
}

// push enters the pair that begins at part i, if it makes a token.
func (m *merger) push(i int) {
	if m.parts[i].rank != vocab.None {
		m.heap.Push(uint64(m.parts[i].rank)<<32|uint64(i), &m.work)
	}
}
