//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package reactor

import (
	"context"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"prefire/loadgen/wire"
	"prefire/loadgen/wire/fake"
	"prefire/loadgen/wire/stamp"
	"prefire/loadgen/wire/wiretest"
)

const streams = 256

// tcpPairs are connections over loopback: the client's descriptors, which do not block, and the server's.
func tcpPairs(b *testing.B) (client, server []int) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	take := func(c net.Conn, err error) int {
		if err != nil {
			b.Fatal(err)
		}
		fd, err := detach(c)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { unix.Close(fd) })
		return fd
	}
	for range streams {
		client = append(client, take(net.Dial("tcp", l.Addr().String())))
		server = append(server, take(l.Accept()))
	}
	for _, fd := range client {
		if err := stamp.Ask(fd); err != nil {
			b.Fatal(err)
		}
	}
	return client, server
}

// cpu is the CPU time of the thread, in ns.
func cpu(b *testing.B) int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		b.Fatal(err)
	}
	return ts.Nano()
}

// BenchmarkChunks is what one chunk of one of 256 streams that have one to read costs: for the loop, and for a bare one, the control, that
// does no more than epoll_wait and recvmsg. The writing is not counted.
func BenchmarkChunks(b *testing.B) {
	chunk := []byte(wiretest.Chunk(wiretest.Event("c:" + strings.Repeat("x", 200))))
	measure := func(b *testing.B, server []int, read func() int) {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		used := int64(0)
		b.ReportAllocs()
		for b.Loop() {
			for _, fd := range server {
				if _, err := unix.Write(fd, chunk); err != nil {
					b.Fatal(err)
				}
			}
			before := cpu(b)
			for n := 0; n < len(server); {
				n += read()
			}
			used += cpu(b) - before
		}
		b.ReportMetric(float64(used)/float64(b.N*len(server)), "cpu-ns/chunk")
	}
	b.Run("control", func(b *testing.B) {
		client, server := tcpPairs(b)
		ep, err := unix.EpollCreate1(0)
		if err != nil {
			b.Fatal(err)
		}
		defer unix.Close(ep)
		for _, fd := range client {
			ev := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: int32(fd)}
			if err := unix.EpollCtl(ep, unix.EPOLL_CTL_ADD, fd, &ev); err != nil {
				b.Fatal(err)
			}
		}
		var events [batch]unix.EpollEvent
		var msg syscall.Msghdr
		var iov syscall.Iovec
		var ctl [8]uint64
		buf := make([]byte, readSize)
		iov.Base, iov.Len, msg.Iov, msg.Iovlen = &buf[0], uint64(len(buf)), &iov, 1
		measure(b, server, func() int {
			n, _, _ := syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, uintptr(ep), uintptr(unsafe.Pointer(&events[0])), batch, 0, 0, 0)
			for _, ev := range events[:n] {
				msg.Control = (*byte)(unsafe.Pointer(&ctl[0]))
				msg.SetControllen(64)
				got, _, errno := syscall.RawSyscall(syscall.SYS_RECVMSG, uintptr(ev.Fd), uintptr(unsafe.Pointer(&msg)), syscall.MSG_DONTWAIT)
				if errno != 0 || int(got) != len(chunk) {
					b.Fatal(got, errno)
				}
			}
			return int(n)
		})
	})
	b.Run("loop", func(b *testing.B) {
		client, server := tcpPairs(b)
		h := newHub(Options{Clock: fake.NewClock(), Resolver: names(func(context.Context, string) ([]netip.Addr, error) { return nil, nil })})
		l, err := newLoop(h, 0)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { l.stop(); l.closeAll() })
		h.list.Store(&[]*loop{l})
		target := &wire.Target{Scheme: "http", Host: "a.test", Addr: "a.test:1", Path: "/"}
		var calls []*wire.Call
		reads := func() (n int) {
			for _, c := range calls {
				n += len(c.Chunks)
				c.Chunks = c.Chunks[:0] // memory for them all is not what is measured
			}
			return n
		}
		p := l.pool(target)
		for i, fd := range client {
			c := newConn(p, wire.ConnID(i+1))
			c.state, c.fresh = idle, false
			if c.fd, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0); err != nil {
				b.Fatal(err)
			}
			if err := c.register(); err != nil {
				b.Fatal(err)
			}
			p.conns[c.facts.ID] = c
			p.addReady(c)
			b.Cleanup(c.close)
		}
		for range client {
			call := &wire.Call{Target: target, Body: []byte("{}"), Parser: wiretest.Parser{}}
			calls = append(calls, call)
			l.flight.Add(1)
			l.post(op{kind: opStart, call: call, gen: call.Begin(l.now())})
		}
		for l.flight.Load() > 0 && len(l.active) < streams {
			l.turn()
		}
		for _, fd := range server {
			drain(b, fd)
			say(b, fd, wiretest.StreamHead+string(chunk))
		}
		for n := 0; n < streams; n += reads() {
			l.turn()
		}
		measure(b, server, func() int {
			l.turn()
			return reads()
		})
	})
}
