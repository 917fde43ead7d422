package fakellm

import (
	"time"

	"golang.org/x/sys/unix"
)

// nap is a wait of one thread in the kernel, which others can end. A wait in Go's poller costs more, for its end has Go wake further threads
// to look for work.
type nap struct{ fd int }

// newNap is nil where the system has no descriptor left.
func newNap() *nap {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil
	}
	return &nap{fd}
}

// take waits for d, or less.
func (n *nap) take(d time.Duration) {
	ts := unix.NsecToTimespec(max(0, int64(d)))
	fds := [1]unix.PollFd{{Fd: int32(n.fd), Events: unix.POLLIN}}
	// An error is that of an interruption: the nap is over early.
	if ready, _ := unix.Ppoll(fds[:], &ts, nil); ready > 0 {
		var count [8]byte
		_, _ = unix.Read(n.fd, count[:]) // there is something to read
	}
}

// end ends the nap that is being taken, or the next one.
func (n *nap) end() {
	one := [8]byte{1}
	_, _ = unix.Write(n.fd, one[:]) // it fails only where the counter is full, which ends the nap as well
}

func (n *nap) close() { _ = unix.Close(n.fd) } // nothing was written that could be lost
