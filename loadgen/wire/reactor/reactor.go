// Package reactor is the transport for HTTP/1.1 in the clear on Linux: one goroutine, the loop, waits on all connections with epoll and drains those
// that are ready, so that a chunk of an answer wakes no goroutine of its own, and a request in flight costs no stack and no buffer.
//
// Everything a loop has, it has alone: connections, pools, timers, requests. Other goroutines hand it what they want done in one list, and
// wake it only where it sleeps. So nothing on the path of a chunk is locked, and loops share nothing but counts of their ready connections, by
// which a request finds the loop that has one for it. Where one loop is busy all the time a second is added, and connections move to it when
// their next request begins.
//
// Connections are registered once, edge-triggered: no epoll_ctl follows whatever a connection does, and one that has been drained is not
// looked at again. What edge triggering asks for in return, that nothing readable or writable is left behind, the loop's list of
// connections to go on with does.
package reactor

import (
	"context"
	"errors"
	"fmt"
	"net"

	"prefire/loadgen/wire"
	"prefire/loadgen/wire/pooling"
)

// Resolver looks names up; *net.Resolver is one.
type Resolver = pooling.Resolver

// Options are what a Transport needs. Clock must be set; its Now must run as CLOCK_MONOTONIC does for requests to time out in time.
type Options struct {
	Clock    wire.Clock
	Resolver Resolver // nil = the system's
	// Dial makes TCP connections in a goroutine of its own, for tests that delay or hold a dial. nil = the loop connects itself.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Loops is how many there are from the beginning, 0 = 1. Another is added whenever one was busy for 0.3 s, up to Loops or one less than
	// the processors that Go uses.
	Loops int
}

// ErrUnavailable is the error of New on systems other than Linux on amd64, arm64, riscv64 and loong64.
var ErrUnavailable = errors.New("the reactor client needs Linux on amd64, arm64, riscv64 or loong64; use --client portable")

// Serves reports whether the transport speaks to target: HTTP/1.1 in the clear, over TCP.
func Serves(target *wire.Target) bool {
	return target.Scheme == "http" && target.Unix == "" && (target.Protocol == wire.Auto || target.Protocol == wire.HTTP1)
}

func notServed(target *wire.Target) *wire.Error {
	return &wire.Error{Type: "ValueError", Message: fmt.Sprintf(
		"the reactor client speaks HTTP/1.1 in the clear over TCP only, and %s://%s is to be spoken to otherwise: use --client portable",
		target.Scheme, target.Host)}
}

var errClosed = errors.New("the transport is closed")

func closedError() *wire.Error {
	return &wire.Error{Type: "ClientConnectionError", Message: errClosed.Error()}
}
