//go:build !(linux && (amd64 || arm64 || riscv64 || loong64))

package stamp

import "net"

// raw is empty where there are no kernel stamps: reads go through the connection, and are stamped after them.
type raw struct{ ok bool }

func (*raw) open(*Conn, *net.TCPConn) {}

func (*raw) read([]byte) (int, error) { return 0, net.ErrClosed }

func (*raw) readable() bool { return false }
