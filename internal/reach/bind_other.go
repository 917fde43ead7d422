//go:build !linux

package reach

import "syscall"

// lateBind leaves the choice of the port to the system.
func lateBind(_, _ string, _ syscall.RawConn) error { return nil }
