// Package pooling is what every pool of connections here does alike: its bounds, which requests are cold, which are sent again, which idle
// connections are probed again and how many are dialled. It holds no connection: those, and the way to them, are the transports'.
package pooling

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"

	"prefire/loadgen/wire"
	"prefire/loadgen/wire/http1"
)

// Bounds of what a pool does on its own.
const (
	OpenAtOnce = 64                     // connections that Open, or the keeper, makes ready at the same time
	IdleProbe  = 3 * time.Second        // what has been idle this long is probed again; vLLM's front closes after 5 s
	KeepEvery  = 500 * time.Millisecond // how often the keeper looks
	RedialWait = 2 * time.Second        // pause in keeping a target's connections ready after a dial that failed
	ProbeLimit = 30 * time.Second       // for one background probe
	OpenLimit  = time.Minute            // for one connection of Open: name, dial, handshake and probe
	AddrWait   = 3 * time.Second        // for one address of a name where there are others to try
	LookupWait = 30 * time.Second       // for the addresses of a name
	// EarlyWait is how long a write may go on after the whole answer has come: a server can answer before it has read the request, and
	// then read no more.
	EarlyWait = 250 * time.Millisecond
	// IdleRace is how soon after its first write a request must lose its connection to count as caught by an idle close. A request that
	// the server has held for longer was being worked on, and its loss is a failure.
	IdleRace = time.Second
)

// Upkeep is what one pool may spend on connections that nobody may need.
type Upkeep struct {
	Kept   int // connections that the plan's sessions need, spares not counted
	busy   int // connections in use
	peak   int // the most at once
	credit int // for spares, in hundredths of a probe
}

// One probe or dial of a spare is paid by 20 requests; credit from busier times is bounded.
const (
	spareCost   = 100
	perRequest  = 5
	creditLimit = OpenAtOnce * spareCost
)

// Take books a request that uses n more connections: 0 where it shares one.
func (u *Upkeep) Take(n int) {
	u.busy += n
	u.peak = max(u.peak, u.busy)
	u.credit = min(u.credit+perRequest, creditLimit)
}

// Give books the end of a use.
func (u *Upkeep) Give(n int) { u.busy -= n }

// Needed is how many idle connections are more than spares: with those in use, as many as the plan's sessions or the busiest moment took.
func (u *Upkeep) Needed() int { return max(u.Kept, u.peak) - u.busy }

// Spare pays for as many of n probes or dials of spares as there is credit for.
func (u *Upkeep) Spare(n int) int {
	n = min(n, u.credit/spareCost)
	u.credit -= n * spareCost
	return n
}

// Dials is how many of n missing connections to dial now, where have are idle or in the making.
func (u *Upkeep) Dials(n, have int) int {
	needed := min(max(u.Needed()-have, 0), n)
	return needed + u.Spare(n-needed)
}

// Hold says whether a connection is some session's own.
type Hold uint8

const (
	Shared   Hold = iota // no session's
	Held                 // it waits for its session's next call
	Released             // its session has ended while it was probed
)

// Missing is how many connections to dial where keep are to be had, there are have (in use and dialled ones counted), and own of those
// that are being made ready are nobody's yet.
func Missing(have, keep, own int) int { return max(min(keep-have, OpenAtOnce-own), 0) }

// Keep goes through the idle connections, from the one used least lately, and says what becomes of each: those in again are to be probed,
// the others stay idle. lastUsed is when one was used last; beyond is how many there are beyond those to keep, which are left to the server's
// idle limit; room is how many may be probed now; u has the say over spares, which are those used least lately.
func Keep[C any](idle []C, lastUsed func(C) int64, now int64, beyond, room int, u *Upkeep) (stay, again []C) {
	stay = idle[:0]
	spares := len(idle) - max(u.Needed(), 0)
	for i, c := range idle {
		long := time.Duration(now-lastUsed(c)) >= IdleProbe
		switch {
		case long && beyond > 0:
			beyond--
			stay = append(stay, c)
		case long && room > 0 && (i >= spares || u.Spare(1) == 1):
			room--
			again = append(again, c)
		default:
			stay = append(stay, c)
		}
	}
	clear(idle[len(stay):])
	return stay, again
}

// Attempts is the way of one request through a pool. The zero value is a request that has no connection yet.
type Attempts struct {
	Cold   wire.Cold // known before it has a connection
	Queued bool      // it waited in a queue of our own making
	again  bool
}

// Unused is the coldness of a ready connection that has been used so often.
func Unused(uses uint32) wire.Cold {
	if uses == 0 {
		return wire.FirstUse
	}
	return 0
}

// Assign writes down which connection c's request goes out on, in which use of it; cold is what the connection adds. A call that asked for
// a connection of its own is not cold for having dialled it.
func (a *Attempts) Assign(c *wire.Call, now int64, conn wire.ConnFacts, use uint32, cold wire.Cold) {
	f := &c.Facts
	f.Reused = cold&wire.Dialled == 0
	if c.Lease == wire.Single {
		cold &^= wire.Dialled
	}
	a.Cold |= cold
	f.Acquired, f.Conn, f.ConnUse, f.Cold = now, conn, use, a.Cold
	if a.Queued {
		f.Queued = now - f.Ready
	}
}

// Caught reports whether a request whose connection the other side ended before a byte of the answer was caught by an idle close: then it
// can be sent again. One that was not written yet can have been caught by nothing else.
func Caught(f *wire.Facts, now int64) bool {
	return f.ConnUse > 1 && (f.FirstWrite == 0 || now-f.FirstWrite < int64(IdleRace))
}

// Again makes c ready to be sent once more, which happens once.
func (a *Attempts) Again(c *wire.Call) bool {
	if a.again {
		return false
	}
	a.again = true
	a.Cold |= wire.Resent
	f := &c.Facts
	f.Attempts, f.Cold, f.FirstWrite, f.LastWrite, f.Sent = 2, a.Cold, 0, 0, 0
	c.Restart()
	return true
}

// Written settles when the last byte of a request was the kernel's, after its answer has come: no later than the answer's head where there
// was one write, however late that returned.
func Written(f *wire.Facts, writes int) {
	if writes == 1 && f.LastWrite != 0 && f.HeadAt != 0 {
		f.LastWrite = min(f.LastWrite, f.HeadAt)
	}
}

// Line is the method and the path of a call.
func Line(c *wire.Call) (method, path string) {
	if method = c.Method; method == "" {
		method = "POST"
	}
	if path = c.Path; path == "" {
		path = c.Target.Path
	}
	return method, path
}

// Resolver looks names up; *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Lookup is the addresses of a name, in the resolver's order. A resolver that gives no answer is waited for no longer than LookupWait.
func Lookup(ctx context.Context, r Resolver, host, port string) ([]netip.Addr, *wire.Error) {
	limited, cancel := context.WithTimeout(ctx, LookupWait)
	defer cancel()
	addrs, err := r.LookupNetIP(limited, "ip", host)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		err = &net.DNSError{Err: fmt.Sprintf("no answer from the resolver within %v", LookupWait), Name: host, IsTimeout: true}
	}
	if err == nil && len(addrs) == 0 {
		err = &net.DNSError{Err: "no addresses", Name: host, IsNotFound: true}
	}
	if err != nil {
		return nil, http1.DNSError(host, port, err)
	}
	return addrs, nil
}

// DialAny tries the addresses in order. last is the one that the connection, or the error, is of.
func DialAny(ctx context.Context, dial func(ctx context.Context, network, addr string) (net.Conn, error), addrs []netip.Addr, port string) (
	nc net.Conn, last netip.Addr, err error) {
	for i, a := range addrs {
		limit, cancel := ctx, context.CancelFunc(func() {})
		if i < len(addrs)-1 {
			limit, cancel = context.WithTimeout(ctx, AddrWait)
		}
		nc, err = dial(limit, "tcp", net.JoinHostPort(a.Unmap().String(), port))
		cancel()
		if last = a; err == nil || ctx.Err() != nil {
			break
		}
	}
	return nc, last, err
}
