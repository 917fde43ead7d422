package loadgen

import (
	"container/heap"
	"runtime"
	"strconv"
)

// pace sends the arrivals of a paced phase. The schedule depends on nothing but the seed: what the server or this machine does makes a
// request late, and never moves the times of those after it.
//
// A turn of a started session that is due takes the next arrival, and leaves a new session for the one after. A new session that finds no
// place is dropped; the session itself is kept for the next arrival, so that sessions keep their numbers.
//
// What was due before the time was up is sent, even where that comes a little late.
func (ph *phase) pace() {
	defer ph.paceEnds()
	arrivals := newProcess(&ph.Arrivals, ph.plan.Seed, ph.index)
	var next *worker // has the next session and its request ready
	defer func() { dismiss(next) }()
	turns := 0
	for {
		at := ph.start + arrivals.next()
		if next == nil {
			next, turns = ph.nextReady("")
		}
		ahead := ph.Clock.Now() < at
		sent := ph.Clock.Until(ph.issue, min(at, ph.timeUp())) == nil && ph.issue.Err() == nil
		if sent && at >= ph.timeUp() {
			ph.endSending()
			return
		}
		switch w := (*worker)(nil); {
		case !sent:
		case ph.takeDue(&w):
			sent = ph.continues(w, at)
		case next == nil:
			ph.ledger.unused()
		case !ph.slots.try():
			ph.ledger.drop(at)
		case !ph.run.prefill.try():
			ph.slots.release()
			ph.ledger.drop(at)
		default:
			if sent = ph.starts(next, turns, at); sent {
				next = nil
			}
		}
		if !sent {
			for end := ph.cutOff(); at < end; at = ph.start + arrivals.next() {
				ph.ledger.missed(at)
			}
			return
		}
		ph.ledger.arrival(at, ahead)
		runtime.Gosched() // the session that was woken goes first; waking the next one would push it to the end of the line
	}
}

// cutOff is when the time of sending ran out; 0 where the plan's number of requests or sessions was reached, and nothing more was due.
func (ph *phase) cutOff() int64 {
	ph.mu.Lock()
	defer ph.mu.Unlock()
	if ph.closed || ph.Requests > 0 && ph.sent >= ph.Requests {
		return 0
	}
	return min(ph.sendEnd, ph.timeUp())
}

// replay sends each session at its first turn's time. Where places are missing it waits, and those after it are late.
func (ph *phase) replay() {
	defer ph.paceEnds()
	for {
		a, ok := ph.drawn("")
		if !ok {
			return
		}
		w := ph.assign(a)
		at := ph.start
		if first := &a.sess.Turns[0]; first.Timed {
			at += int64(first.At)
		}
		if !ph.startsAt(w, a.turns, at) {
			return
		}
	}
}

// startsAt starts a session at its time, or once there are places for it.
func (ph *phase) startsAt(w *worker, turns int, at int64) bool {
	ahead := ph.Clock.Now() < at
	if ph.Clock.Until(ph.issue, at) != nil || ph.issue.Err() != nil || !ph.startsWithPlaces(w, turns, at) {
		dismiss(w)
		if at < ph.cutOff() {
			ph.ledger.missed(at)
		}
		return false
	}
	ph.ledger.arrival(at, ahead)
	return true
}

// startsWithPlaces waits for a session's places, and starts it.
func (ph *phase) startsWithPlaces(w *worker, turns int, at int64) bool {
	if ph.slots.acquire(ph.issue) != nil {
		return false
	}
	if ph.run.prefill.acquire(ph.issue) != nil {
		ph.slots.release()
		return false
	}
	return ph.starts(w, turns, at)
}

// starts gives a session that is ready its permit; its places are taken.
func (ph *phase) starts(w *worker, turns int, at int64) bool {
	p, ok := ph.open(turns)
	if !ok {
		ph.run.prefill.release()
		ph.slots.release()
		return false
	}
	p.at = at
	w.permits <- p
	return true
}

// continues gives a turn that is due its permit. Where it finds no place among those without a first token it waits for one, and is late.
func (ph *phase) continues(w *worker, at int64) bool {
	if !ph.run.prefill.try() {
		w.permits <- permit{late: true, at: at}
		return true
	}
	p, ok := ph.another()
	if !ok {
		ph.run.prefill.release()
	}
	p.at = at
	w.permits <- p
	return ok
}

// dismiss sends a session away that will not be started. w may be nil.
func dismiss(w *worker) {
	if w != nil {
		w.permits <- permit{refused: true}
	}
}

// drawn draws the next session whole.
func (ph *phase) drawn(id string) (a assignment, ok bool) {
	a.id = id
	if a.sess, ok = ph.draw(); ok {
		a.turns = len(a.sess.Turns)
	}
	return a, ok
}

// nextReady draws the next session and gives it to a worker, which makes its request ready. It is nil where no session may start.
func (ph *phase) nextReady(id string) (*worker, int) {
	a, ok := ph.drawn(id)
	if !ok {
		return nil, 0
	}
	return ph.assign(a), a.turns
}

// assign gives a session to an idle worker, or to a new one.
func (ph *phase) assign(a assignment) *worker {
	ph.mu.Lock()
	var w *worker
	if n := len(ph.idle); n > 0 {
		w, ph.idle = ph.idle[n-1], ph.idle[:n-1]
	}
	ph.mu.Unlock()
	if w == nil {
		w = ph.newWorker()
		ph.working.Go(w.serve)
	}
	w.sessions <- a
	return w
}

// join puts a worker whose next turn is due in line for an arrival. It reports false where no more come.
func (ph *phase) join(w *worker) bool {
	ph.mu.Lock()
	defer ph.mu.Unlock()
	if ph.paceOver {
		return false
	}
	ph.due = append(ph.due, w)
	return true
}

// takeDue takes the worker whose turn has been due for longest. It reports false where there is none.
func (ph *phase) takeDue(w **worker) bool {
	ph.mu.Lock()
	defer ph.mu.Unlock()
	if len(ph.due) == 0 {
		return false
	}
	*w, ph.due = ph.due[0], ph.due[1:]
	return true
}

// paceEnds sends everyone home: no arrival comes any more. Sessions that send by a clock of their own go on.
func (ph *phase) paceEnds() {
	ph.mu.Lock()
	defer ph.mu.Unlock()
	ph.paceOver = true
	for _, w := range ph.due {
		dismiss(w)
	}
	ph.due = nil
	for _, w := range ph.workers {
		close(w.sessions)
	}
}

// userGap is the time between a user's turns, in ns.
func (ph *phase) userGap() int64 {
	return int64(float64(ph.Arrivals.Users) / ph.Arrivals.Rate * 1e9)
}

// users sends the sessions of a phase of users. Each user's turns have a fixed gap; at the start the users stand at different points of
// their sessions, as if they had been there before. When a user should be done another takes its place, whether or not it is done.
func (ph *phase) users() {
	defer ph.paceEnds()
	line := ph.firstUsers()
	id := ph.Arrivals.Users + 1 // of the next user; the first fresh one has taken it
	for line.Len() > 0 {
		u := heap.Pop(&line).(user)
		if u.id == 0 {
			id++
			u.id = id
		}
		a, ok := ph.drawn(strconv.Itoa(u.id))
		if !ok {
			return
		}
		if u.turns > 0 {
			a.turns = min(a.turns, u.turns)
		}
		after := u.at + int64(a.turns)*ph.userGap()
		if !ph.startsAt(ph.assign(a), a.turns, ph.start+u.at) {
			return
		}
		heap.Push(&line, user{at: after})
	}
}

// user is a user who is to begin.
type user struct {
	at    int64 // from the phase's start
	turns int   // how many of its session it still sends; 0 = all
	id    int   // 0 = the next
}

// firstUsers are those of the start, as aiperf's user-centric mode spreads them: by their age, counted in gaps, each at a place of its own in
// the first gap. The one whose session is over by then is replaced by a fresh one, who is the first to send.
func (ph *phase) firstUsers() userLine {
	n := ph.Arrivals.Users
	life := max(1, ph.Arrivals.Turns-1)
	step := 0
	if gcd(n, life) > 1 {
		step = spread(n)
	}
	var line userLine
	for i := range n {
		age := (n - i) * life
		left := life - age/n
		if left <= 0 {
			continue
		}
		place := age % n
		if step > 0 {
			place = i * step % n
		}
		line = append(line, user{at: ph.stagger(n - place), turns: left, id: i + 1})
	}
	line = append(line, user{id: n + 1})
	heap.Init(&line)
	return line
}

// stagger is the time of the n-th place in a gap, in ns.
func (ph *phase) stagger(n int) int64 { return int64(float64(n) / ph.Arrivals.Rate * 1e9) }

// spread is the smallest step above 1 that visits all of 0 to n-1; 1 where there is none.
func spread(n int) int {
	for s := 2; s < n; s++ {
		if gcd(n, s) == 1 {
			return s
		}
	}
	return 1
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// userLine is a heap of users by the time at which they begin; of two at one time the one with the lower number is first.
type userLine []user

func (l userLine) Len() int { return len(l) }
func (l userLine) Less(i, j int) bool {
	return l[i].at < l[j].at || l[i].at == l[j].at && l[i].id < l[j].id
}
func (l userLine) Swap(i, j int) { l[i], l[j] = l[j], l[i] }
func (l *userLine) Push(x any)   { *l = append(*l, x.(user)) }
func (l *userLine) Pop() any {
	old := *l
	u := old[len(old)-1]
	*l = old[:len(old)-1]
	return u
}
