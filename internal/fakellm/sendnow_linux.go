//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package fakellm

import (
	"net"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sender writes to a socket of Go's poller without parking the goroutine and without the ways of net and os: one system call a write, and
// one that asks whether TCP holds some of it back.
type sender struct {
	rc   syscall.RawConn
	send func(fd uintptr) // s.attempt, bound once
	p    []byte
	n    int
	held bool
	err  error
}

// newSender is nil where nc is not a socket that it can write to.
func newSender(nc net.Conn) *sender {
	tcp, ok := nc.(*net.TCPConn)
	if !ok {
		return nil
	}
	rc, err := tcp.SyscallConn()
	if err != nil {
		return nil
	}
	s := &sender{rc: rc}
	s.send = s.attempt
	return s
}

// now writes as much of p as the kernel takes at once, and reports whether TCP has not sent all of it. That the kernel takes less is no
// error.
func (s *sender) now(p []byte) (n int, held bool, err error) {
	s.p, s.n, s.held, s.err = p, 0, false, nil
	err = s.rc.Control(s.send)
	s.p = nil
	if err == nil {
		err = s.err
	}
	return s.n, s.held, err
}

// attempt uses raw system calls, which do not tell Go's scheduler: neither of them waits.
func (s *sender) attempt(fd uintptr) {
	for {
		n, _, errno := syscall.RawSyscall6(syscall.SYS_SENDTO, fd, uintptr(unsafe.Pointer(&s.p[0])), uintptr(len(s.p)),
			syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL, 0, 0)
		switch errno {
		case syscall.EINTR:
			continue
		case 0:
			s.n = int(n)
		case syscall.EAGAIN:
		default:
			s.err = errno
			return
		}
		break
	}
	var left int32
	_, _, errno := syscall.RawSyscall(syscall.SYS_IOCTL, fd, unix.SIOCOUTQNSD, uintptr(unsafe.Pointer(&left)))
	s.held = errno == 0 && left > 0
}
