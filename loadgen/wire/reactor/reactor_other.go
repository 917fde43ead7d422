//go:build !(linux && (amd64 || arm64 || riscv64 || loong64))

package reactor

import "prefire/loadgen/wire"

// Transport does not exist on this system: New makes none.
type Transport struct{ wire.Transport }

// Available reports whether the system has what the transport needs.
func Available() bool { return false }

// New fails with ErrUnavailable.
func New(Options) (*Transport, error) { return nil, ErrUnavailable }
