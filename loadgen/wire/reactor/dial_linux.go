//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package reactor

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"prefire/loadgen/wire"
	"prefire/loadgen/wire/http1"
	"prefire/loadgen/wire/pooling"
	"prefire/loadgen/wire/stamp"
)

// dial makes a connection for p. Its end, good or bad, comes in a later turn.
func (l *loop) dial(p *pool) *conn {
	l.budget -= dialCost
	c := newConn(p, wire.ConnID(l.hub.lastID.Add(1)))
	host, port, err := net.SplitHostPort(p.target.Addr)
	if err == nil {
		c.host = host
		c.port, err = parsePort(port)
	}
	if err != nil {
		l.post(op{do: func() { c.dialFailed(&wire.Error{Type: "InvalidURL", Message: err.Error()}) }})
		return c
	}
	if addrs := p.target.Addrs; len(addrs) > 0 {
		c.resolved(addrs)
		return c
	}
	if a, err := netip.ParseAddr(host); err == nil {
		c.resolved([]netip.Addr{a})
		return c
	}
	var ctx context.Context
	ctx, c.stop = context.WithCancel(l.ctx)
	c.facts.DNSStart = l.now()
	l.helpers.Go(func() {
		addrs, e := pooling.Lookup(ctx, l.o.Resolver, host, port)
		end := l.now()
		l.post(op{do: func() { c.lookedUp(addrs, end, e) }})
	})
	return c
}

func parsePort(s string) (uint16, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil {
		return 0, errors.New("the port " + strconv.Quote(s) + " is not a number from 0 to 65535")
	}
	return uint16(n), nil
}

func (c *conn) lookedUp(addrs []netip.Addr, end int64, e *wire.Error) {
	if c.state == closed {
		return
	}
	c.letGo()
	c.facts.DNSEnd = end
	if e != nil {
		c.dialFailed(e)
		return
	}
	c.resolved(addrs)
}

// letGo ends the helper of a lookup or dial.
func (c *conn) letGo() {
	if c.stop != nil {
		c.stop()
		c.stop = nil
	}
}

func (c *conn) resolved(addrs []netip.Addr) {
	c.addrs = addrs
	c.facts.DialStart = c.l.now()
	dial := c.l.o.Dial
	if c.pool.target.Dial != nil {
		dial = c.pool.target.Dial
	}
	if dial == nil {
		c.connect()
		return
	}
	var ctx context.Context
	ctx, c.stop = context.WithCancel(c.l.ctx)
	c.l.helpers.Go(func() {
		fd := -1
		nc, addr, err := pooling.DialAny(ctx, dial, addrs, strconv.Itoa(int(c.port)))
		if err == nil {
			fd, err = detach(nc)
		}
		taken := c.l.post(op{do: func() {
			switch {
			case c.state == closed && err == nil:
				_ = unix.Close(fd) // nothing was sent on it
			case c.state == closed:
			case err != nil:
				c.letGo()
				c.addrs = []netip.Addr{addr}
				c.unreachable(err)
			default:
				c.letGo()
				c.fd = fd
				c.connected()
			}
		}})
		if !taken && err == nil {
			_ = unix.Close(fd)
		}
	})
}

// detach gives a descriptor of the connection's socket and closes the connection's own.
func detach(nc net.Conn) (fd int, err error) {
	defer nc.Close()
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return -1, errors.New("the dialled connection has no descriptor")
	}
	rc, err := sc.SyscallConn()
	if err != nil {
		return -1, err
	}
	var dup error
	if err := rc.Control(func(own uintptr) { fd, dup = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 0) }); err != nil {
		return -1, err
	}
	return fd, dup
}

// connect begins a connection to the next address.
func (c *conn) connect() {
	sa, family := sockaddr(c.addrs[0], c.port)
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
	if err != nil {
		c.l.post(op{do: func() { c.connectDone(os.NewSyscallError("socket", err)) }})
		return
	}
	if c.fd, c.state = fd, connecting; len(c.addrs) > 1 {
		c.l.timers.set(&c.timer, c.l.now()+int64(pooling.AddrWait))
	}
	err = unix.Connect(fd, sa)
	for err == unix.EINTR { // the attempt goes on; EALREADY and EISCONN tell how far it is
		err = unix.Connect(fd, sa)
	}
	if err == nil || err == unix.EINPROGRESS || err == unix.EALREADY || err == unix.EISCONN {
		if err = c.register(); err == nil {
			return // writable or broken comes as an event
		}
		err = os.NewSyscallError("epoll_ctl", err)
	} else {
		err = os.NewSyscallError("connect", err)
	}
	c.l.post(op{do: func() { c.connectDone(err) }})
}

func sockaddr(a netip.Addr, port uint16) (sa unix.Sockaddr, family int) {
	if a = a.Unmap(); a.Is4() {
		return &unix.SockaddrInet4{Port: int(port), Addr: a.As4()}, unix.AF_INET
	}
	s := &unix.SockaddrInet6{Port: int(port), Addr: a.As16()}
	if zone := a.Zone(); zone != "" {
		if n, err := strconv.ParseUint(zone, 10, 32); err == nil {
			s.ZoneId = uint32(n)
		} else if i, err := net.InterfaceByName(zone); err == nil {
			s.ZoneId = uint32(i.Index)
		}
	}
	return s, unix.AF_INET6
}

// register has the loop told of everything that happens to the connection from here on.
func (c *conn) register() error {
	ev := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET, Fd: int32(c.fd), Pad: int32(uint32(c.facts.ID))}
	if err := unix.EpollCtl(c.l.ep, unix.EPOLL_CTL_ADD, c.fd, &ev); err != nil {
		return err
	}
	for len(c.l.byFD) <= c.fd {
		c.l.byFD = append(c.l.byFD, nil)
	}
	c.l.byFD[c.fd] = c
	return nil
}

// connectEvent is the end of an attempt to connect.
func (c *conn) connectEvent(mask uint32) {
	if mask&(unix.EPOLLOUT|unix.EPOLLERR|unix.EPOLLHUP) == 0 {
		return
	}
	errno, err := unix.GetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && errno != 0 {
		err = os.NewSyscallError("connect", unix.Errno(errno))
	}
	c.connectDone(err)
}

// connectDone takes the outcome for one address.
func (c *conn) connectDone(err error) {
	if c.state == closed {
		return
	}
	c.l.timers.unset(&c.timer)
	if err == nil {
		c.connected()
		return
	}
	c.release()
	if len(c.addrs) > 1 {
		c.addrs = c.addrs[1:]
		c.connect()
		return
	}
	c.unreachable(&net.OpError{Op: "dial", Net: "tcp", Addr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(c.addrs[0].Unmap(), c.port)), Err: err})
}

func (c *conn) unreachable(err error) {
	c.facts.DialEnd = c.l.now()
	c.dialFailed(http1.ConnectError(c.host, strconv.Itoa(int(c.port)), c.addrs[len(c.addrs)-1], err))
}

// connected takes a connection that stands.
func (c *conn) connected() {
	l, f := c.l, &c.facts
	f.DialEnd = l.now()
	f.Protocol = "HTTP/1.1"
	f.KernelStamps = stamp.Ask(c.fd) == nil
	// Of what follows nothing can fail for a TCP socket that stands; where the socket is no such, the first write says it better.
	_ = unix.SetsockoptInt(c.fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	_ = unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1)
	_ = unix.SetsockoptInt(c.fd, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 60)
	_ = unix.SetsockoptInt(c.fd, unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 15)
	if sa, err := unix.Getsockname(c.fd); err == nil {
		f.Local = addrPort(sa)
	}
	if sa, err := unix.Getpeername(c.fd); err == nil {
		f.Remote = addrPort(sa)
	}
	if c.state != connecting { // dialled outside
		if err := c.register(); err != nil {
			c.unreachable(os.NewSyscallError("epoll_ctl", err))
			return
		}
	}
	c.state = idle
	l.hub.settle(f.ID, l)
	l.count.dialled.Add(1)
	l.count.open.Add(1)
	if !f.KernelStamps {
		l.count.plain.Add(1)
	}
	c.pool.dialled(c)
}

func addrPort(sa unix.Sockaddr) string {
	switch a := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port)).String()
	case *unix.SockaddrInet6:
		ip := netip.AddrFrom16(a.Addr)
		if a.ZoneId != 0 {
			ip = ip.WithZone(strconv.FormatUint(uint64(a.ZoneId), 10))
		}
		return netip.AddrPortFrom(ip, uint16(a.Port)).String()
	}
	return ""
}

// dialFailed ends a connection that never stood.
func (c *conn) dialFailed(e *wire.Error) {
	if c.state == closed {
		return
	}
	c.close()
	c.pool.dialFailed(c, e)
}
