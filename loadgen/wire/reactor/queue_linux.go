//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package reactor

// queue holds the connections that a later turn goes on with, the first first.
type queue struct {
	list []*conn
	head int
}

func (q *queue) len() int { return len(q.list) - q.head }

func (q *queue) push(c *conn) {
	if q.head > len(q.list)/2 { // so that it stays as long as what is in it
		n := copy(q.list, q.list[q.head:])
		clear(q.list[n:])
		q.list, q.head = q.list[:n], 0
	}
	q.list = append(q.list, c)
}

func (q *queue) pop() *conn {
	c := q.list[q.head]
	q.list[q.head] = nil
	q.head++
	return c
}
