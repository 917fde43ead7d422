package fakellm

import "syscall"

// stampEarly asks for arrival stamps on the listening socket, whose connections inherit it: a request that is there before its connection
// has been accepted has a stamp too. The kernel begins to stamp some time after the first socket of the machine asks for it. An error is
// no loss: connections ask again.
func stampEarly(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_TIMESTAMPNS, 1) })
}
