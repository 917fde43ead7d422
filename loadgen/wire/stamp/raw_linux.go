//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package stamp

import (
	"io"
	"net"
	"os"
	"syscall"
	"unsafe"

	"prefire/loadgen/wire"
)

// Receiver reads non-blocking sockets by recvmsg and takes the kernel's arrival stamp from the control message. Everything a read needs is
// in the struct, so that a read allocates nothing. One thread or goroutine uses it at a time, for any number of sockets, and it is not
// copied.
type Receiver struct {
	clock wire.Clock
	msg   syscall.Msghdr
	iov   syscall.Iovec
	ctl   [controlSize / 8]uint64 // words, for their alignment

	// offset is CLOCK_REALTIME minus the run's clock. It is moved, at each bracket, just as far as that demands: so it follows steps and
	// slewing of the wall clock, and one slow bracket cannot spoil it.
	offset  int64
	checked int64 // when it was last held against a bracket; 0 = never
}

// checkEvery is how long an offset holds: the wall clock is slewed by 500 ppm at most (adjtimex(2)), 0.1 µs in this time. A step shows in
// stamps outside their request's bounds, whether it comes between two brackets or between an arrival and its read.
const checkEvery = 200_000 // ns

// controlSize has room for the one control message asked for: a header of 16 bytes and a timespec of two 64-bit words.
const controlSize = 64

// Init makes r ready to stamp by clock.
func (r *Receiver) Init(clock wire.Clock) {
	r.clock = clock
	r.msg.Iov, r.msg.Iovlen = &r.iov, 1
}

// Ask has the kernel stamp what arrives at a socket. The error is the system's refusal.
func Ask(fd int) error {
	// SO_TIMESTAMPNS has 64-bit times on the 64-bit systems that this file is for.
	return syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_TIMESTAMPNS, 1)
}

// Recv is one read into p, which has room for at least a byte. before is the time right before it: a read that found the socket empty, or
// did not fill p, left it empty at some time after that. s has the arrival of what was read, and the time after the read as both where the
// kernel gave none; its Empty and Read are the caller's to fill in. n is 0 without an error at the end of the stream.
func (r *Receiver) Recv(fd uintptr, p []byte) (n int, before int64, s wire.Stamp, errno syscall.Errno) {
	r.iov.Base = &p[0]
	r.iov.SetLen(len(p))
	for {
		r.msg.Control = (*byte)(unsafe.Pointer(&r.ctl[0]))
		r.msg.SetControllen(controlSize)
		before = r.clock.Now()
		var got uintptr
		got, _, errno = syscall.RawSyscall(syscall.SYS_RECVMSG, fd, uintptr(unsafe.Pointer(&r.msg)), syscall.MSG_DONTWAIT)
		if errno == syscall.EINTR {
			continue
		}
		r.iov.Base = nil
		if errno != 0 {
			return 0, before, s, errno
		}
		if n = int(got); n > 0 {
			s = r.stamp()
		}
		return n, before, s, 0
	}
}

// stamp is the stamp of the read just done.
func (r *Receiver) stamp() wire.Stamp {
	wall, ok := r.kernelTime()
	if !ok {
		now := r.clock.Now()
		return wire.Stamp{At: now, User: now}
	}
	user := r.clock.Now()
	if r.checked == 0 || user-r.checked >= checkEvery {
		r.check()
		r.checked = user
	}
	return wire.Stamp{At: wall - r.offset, User: user, Kernel: true}
}

// check moves the offset as far as it must be.
func (r *Receiver) check() {
	low, high := r.bracket()
	if r.checked == 0 {
		// The first bracket must be narrow: one that was interrupted would put the offset anywhere inside it.
		for i := 0; i < 8 && high-low > 2000; i++ {
			if l, h := r.bracket(); h-l < high-low {
				low, high = l, h
			}
		}
		r.offset = (low + high) / 2
	}
	r.offset = min(max(r.offset, low), high)
}

// bracket reads the wall clock between two readings of the run's clock: CLOCK_REALTIME minus the run's clock is in [low, high].
func (r *Receiver) bracket() (low, high int64) {
	var ts syscall.Timespec
	before := r.clock.Now()
	// It cannot fail: the clock and the address are valid.
	_, _, _ = syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, 0, uintptr(unsafe.Pointer(&ts)), 0)
	after := r.clock.Now()
	wall := ts.Nano()
	return wall - after, wall - before
}

// kernelTime walks the control messages for the arrival stamp, in ns of CLOCK_REALTIME.
func (r *Receiver) kernelTime() (int64, bool) {
	const head = syscall.SizeofCmsghdr
	for b := unsafe.Slice((*byte)(unsafe.Pointer(&r.ctl[0])), controlSize)[:r.msg.Controllen]; len(b) >= head; {
		h := (*syscall.Cmsghdr)(unsafe.Pointer(&b[0]))
		size := int(h.Len)
		if size < head || size > len(b) {
			return 0, false
		}
		if h.Level == syscall.SOL_SOCKET && h.Type == syscall.SCM_TIMESTAMPNS && size >= head+16 {
			ts := (*syscall.Timespec)(unsafe.Pointer(&b[head]))
			return ts.Nano(), true
		}
		b = b[min(len(b), (size+7)&^7):]
	}
	return 0, false
}

// raw reads a TCP socket that belongs to Go's poller.
type raw struct {
	ok   bool
	c    *Conn
	rc   syscall.RawConn
	recv func(fd uintptr) bool // r.attempt, bound once
	rx   Receiver
	p    []byte
	n    int
	err  syscall.Errno
}

// open asks for stamps; ok stays false where the system refuses.
func (r *raw) open(c *Conn, tcp *net.TCPConn) {
	rc, err := tcp.SyscallConn()
	if err != nil {
		return
	}
	var set error
	err = rc.Control(func(fd uintptr) { set = Ask(int(fd)) })
	if err != nil || set != nil {
		return
	}
	r.c, r.rc, r.ok = c, rc, true
	r.recv = r.attempt
	r.rx.Init(c.clock)
}

// read is net.Conn's Read: RawConn.Read parks the goroutine in Go's poller until there is something, and honours deadlines and Close.
func (r *raw) read(p []byte) (int, error) {
	r.p = p
	err := r.rc.Read(r.recv)
	r.p = nil
	switch {
	case err != nil:
		return 0, err
	case r.err != 0:
		return 0, &net.OpError{Op: "read", Net: "tcp", Source: r.c.LocalAddr(), Addr: r.c.RemoteAddr(), Err: os.NewSyscallError("recvmsg", r.err)}
	case r.n == 0:
		return 0, io.EOF
	}
	return r.n, nil
}

// attempt is one read; false means that the connection is empty and the poller shall wait.
func (r *raw) attempt(fd uintptr) bool {
	n, before, s, errno := r.rx.Recv(fd, r.p)
	if errno == syscall.EAGAIN {
		r.c.empty = before
		return false
	}
	r.n, r.err = n, errno
	if n > 0 {
		r.c.took(n, len(r.p), before, s)
	}
	return true
}

// readable reports that a read would bring bytes, the end, or an error at once.
func (r *raw) readable() bool {
	yes := false
	err := r.rc.Control(func(fd uintptr) {
		var b [1]byte
		for {
			_, _, errno := syscall.RawSyscall6(syscall.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(&b[0])), 1,
				syscall.MSG_PEEK|syscall.MSG_DONTWAIT, 0, 0)
			if errno == syscall.EINTR {
				continue
			}
			yes = errno != syscall.EAGAIN
			return
		}
	})
	return yes || err != nil
}
