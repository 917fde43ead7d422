//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package reactor

import (
	"syscall"
	"unsafe"
)

// sender writes two pieces in one call. All it needs is in the struct, so that a write allocates nothing; it is not copied.
type sender struct {
	msg syscall.Msghdr
	iov [2]syscall.Iovec
}

func (s *sender) init() { s.msg.Iov = &s.iov[0] }

// send writes a and then b, of which either may be empty but not both, to a socket that does not block. n is how much the kernel took.
func (s *sender) send(fd int, a, b []byte) (n int, errno syscall.Errno) {
	s.msg.Iovlen = 0
	for _, p := range [2][]byte{a, b} {
		if len(p) > 0 {
			v := &s.iov[s.msg.Iovlen]
			v.Base = &p[0]
			v.SetLen(len(p))
			s.msg.Iovlen++
		}
	}
	for {
		got, _, errno := syscall.RawSyscall(syscall.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(&s.msg)),
			syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL)
		if errno == syscall.EINTR {
			continue
		}
		s.iov[0].Base, s.iov[1].Base = nil, nil
		if errno != 0 {
			return 0, errno
		}
		return int(got), 0
	}
}
