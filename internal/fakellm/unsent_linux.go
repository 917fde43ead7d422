package fakellm

import (
	"net"

	"golang.org/x/sys/unix"
)

// unsent reports whether TCP has not yet sent all it was given: its window is full, of which small segments each take a whole one.
func unsent(nc net.Conn) bool {
	tcp, ok := nc.(*net.TCPConn)
	if !ok {
		return false
	}
	rc, err := tcp.SyscallConn()
	if err != nil {
		return false
	}
	n := 0
	// An error means that the connection is closed, and nothing will be sent any more.
	_ = rc.Control(func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), unix.SIOCOUTQNSD) })
	return err == nil && n > 0
}
