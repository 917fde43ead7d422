package reach

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// lateBind leaves the choice of a bound socket's port to its connect: so a port is taken for one destination, not for all.
func lateBind(_, _ string, c syscall.RawConn) error {
	var err error
	if e := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1) }); e != nil {
		return e
	}
	if err == unix.ENOPROTOOPT { // a kernel from before 4.2
		return nil
	}
	return err
}
