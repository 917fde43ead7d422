//go:build !linux

package fakellm

import "syscall"

// stampEarly does nothing where there are no arrival stamps.
func stampEarly(_, _ string, _ syscall.RawConn) error { return nil }
