package http1

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"syscall"

	"prefire/loadgen/wire"
)

// The types are those of aiohttp, which aiperf writes into its files; the words in brackets are for people.

// CannotConnect is the error of a connection that could not be made; kind is its type, why the words for people.
func CannotConnect(kind, host, port, why string, err error) *wire.Error {
	return &wire.Error{
		Type:    kind,
		Message: wire.Bound(fmt.Sprintf("Cannot connect to host %s:%s ssl:default [%s]", host, port, why)),
		Cause:   fmt.Sprintf("%T", root(err)),
		Chain:   chain(kind, err),
	}
}

// DNSError is a name that was not resolved.
func DNSError(host, port string, err error) *wire.Error {
	why := err.Error()
	if d := (*net.DNSError)(nil); errors.As(err, &d) {
		why = d.Err
	}
	return CannotConnect("ClientConnectorDNSError", host, port, fmt.Sprintf("the name %s does not resolve: %s", host, why), err)
}

// ConnectError is a dial that failed; addr is the address tried last.
func ConnectError(host, port string, addr netip.Addr, err error) *wire.Error {
	if p := (*ProxyError)(nil); errors.As(err, &p) {
		return CannotConnect("ClientHttpProxyError", host, port, p.Error(), err)
	}
	return CannotConnect("ClientConnectorError", host, port,
		fmt.Sprintf("Connect call failed ('%s', %s): %s%s", addr.Unmap(), port, root(err), wayOut(err)), err)
}

// wayOut says what is to be done where this machine has no more to give; "" = nothing.
func wayOut(err error) string {
	switch {
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return "; the ports of this machine for connections to that address are used up, or a source address is not its own: keep connections open, " +
			"lower --concurrency, or give more own addresses with --source-address"
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return "; no more files can be opened: raise the limit (ulimit -n), or lower --concurrency"
	}
	return ""
}

// UnixError is a socket in the file system that could not be dialled.
func UnixError(path string, err error) *wire.Error {
	return &wire.Error{
		Type: "UnixClientConnectorError", Message: wire.Bound(fmt.Sprintf("Cannot connect to unix socket %s ssl:default [%s]", path, root(err))),
		Cause: fmt.Sprintf("%T", root(err)), Chain: chain("UnixClientConnectorError", err),
	}
}

// ProxyError is a proxy that was reached and makes no connection.
type ProxyError struct {
	Proxy string // its address, without what it was told of the user
	Said  string // its answer
	Hint  string // what to do; "" = nothing more
}

func (e *ProxyError) Error() string {
	s := fmt.Sprintf("the proxy %s makes no connection: %s", e.Proxy, e.Said)
	if e.Hint != "" {
		s += "; " + e.Hint
	}
	return s
}

// HeadError is an answer whose head came in part or makes no sense.
type HeadError struct{ Err error }

func (e HeadError) Error() string { return e.Err.Error() }
func (e HeadError) Unwrap() error { return e.Err }

// LostBefore is the error of a request whose connection ended before a byte of the answer. lost: the other side ended it.
func LostBefore(err error) (e *wire.Error, lost bool) {
	var errno syscall.Errno
	switch {
	case errors.Is(err, io.EOF):
		return &wire.Error{Type: "ServerDisconnectedError", Message: "Server disconnected"}, true
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		errors.As(err, &errno)
		return &wire.Error{Type: "ClientOSError", Message: fmt.Sprintf("[Errno %d] %s", int(errno), errno), Cause: "syscall.Errno",
			Chain: []string{"ClientOSError", "syscall.Errno"}}, true
	}
	return &wire.Error{Type: "ClientOSError", Message: wire.Bound(wire.Words(err)), Cause: fmt.Sprintf("%T", root(err)),
		Chain: chain("ClientOSError", err)}, false
}

// LostWithin is the error of an answer that stopped after its first byte.
func LostWithin(err error) *wire.Error {
	var known *wire.Error
	if errors.As(err, &known) {
		return known
	}
	if h := (HeadError{}); errors.As(err, &h) {
		if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
			return &wire.Error{Type: "ServerDisconnectedError", Message: "Server disconnected within the head of its answer"}
		}
		return &wire.Error{Code: 400, Type: "ClientResponseError", Message: wire.Bound("the answer's head cannot be read: " + h.Error())}
	}
	e := &wire.Error{Type: "ClientPayloadError", Message: wire.Bound("Response payload is not completed: " + root(err).Error())}
	var framing *FramingError
	switch {
	case errors.Is(err, ErrShortBody):
		e.Cause = "ContentLengthError"
	case errors.Is(err, ErrShortChunks), errors.As(err, &framing):
		e.Cause = "TransferEncodingError"
	default:
		e.Cause = fmt.Sprintf("%T", root(err))
	}
	e.Chain = []string{e.Type, e.Cause}
	return e
}

// root is the innermost error of a chain.
func root(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}

// chain lists the types from the outermost, named first, to the root.
func chain(first string, err error) []string {
	out := []string{first}
	for ; err != nil; err = errors.Unwrap(err) {
		out = append(out, fmt.Sprintf("%T", err))
	}
	return out
}
