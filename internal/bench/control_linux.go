package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"prefire/loadgen/wire"
	"prefire/loadgen/wire/stamp"
)

// RunControl reads paced chunks by epoll and recvmsg with kernel stamps on one thread and does nothing else with them: what any client must
// spend at least. Beside it runs the timer loop.
func RunControl(ctx context.Context, clock wire.Clock, o ControlOptions) (c Control, err error) {
	senders, receivers, closeAll, err := pairs(o.Connections)
	defer closeAll()
	if err != nil {
		return c, fmt.Errorf("control: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, o.Length+10*time.Second)
	defer cancel()
	watch := WatchStalls(ctx, clock, false)
	sent := make(chan int, 1)
	end := clock.Now() + int64(o.Length)
	go func() { sent <- send(ctx, clock, senders, o, end) }()
	read := make(chan received, 1)
	stop := make(chan struct{})
	go func() { read <- receive(clock, receivers, o.Size, stop) }()
	n := <-sent
	close(stop)
	r := <-read
	c.StallMax, _ = watch.Stop()
	if r.err != nil {
		return c, fmt.Errorf("control: %w", r.err)
	}
	if n == 0 || r.chunks == 0 {
		return c, errors.New("control: nothing was read")
	}
	c.Chunks, c.CPUPerChunk = r.chunks, float64(r.cpu.Nanoseconds())/1e3/float64(r.chunks)
	return c, nil
}

// pairs makes n connections over the loopback. closeAll closes what was opened, after an error too.
func pairs(n int) (senders, receivers []int, closeAll func(), err error) {
	var open []int
	closeAll = func() {
		for _, fd := range open {
			_ = unix.Close(fd)
		}
	}
	socket := func() (int, error) {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err == nil {
			open = append(open, fd)
		}
		return fd, err
	}
	listener, err := socket()
	if err != nil {
		return nil, nil, closeAll, err
	}
	if err = unix.Bind(listener, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err == nil {
		err = unix.Listen(listener, 128)
	}
	if err != nil {
		return nil, nil, closeAll, err
	}
	address, err := unix.Getsockname(listener)
	if err != nil {
		return nil, nil, closeAll, err
	}
	for range n {
		fd, err := socket()
		if err != nil {
			return nil, nil, closeAll, err
		}
		if err := unix.Connect(fd, address); err != nil {
			return nil, nil, closeAll, err
		}
		other, _, err := unix.Accept4(listener, unix.SOCK_CLOEXEC)
		if err != nil {
			return nil, nil, closeAll, err
		}
		open = append(open, other)
		if err := errors.Join(unix.SetNonblock(fd, true), stamp.Ask(fd), unix.SetsockoptInt(other, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)); err != nil {
			return nil, nil, closeAll, err
		}
		senders, receivers = append(senders, other), append(receivers, fd)
	}
	return senders, receivers, closeAll, nil
}

// send writes a chunk on every connection in each gap, spread over it, until end. It returns the number written.
func send(ctx context.Context, clock wire.Clock, fds []int, o ControlOptions, end int64) (n int) {
	chunk := make([]byte, o.Size)
	const slices = 20 // of a gap
	for from := clock.Now(); ; from += int64(o.Gap) {
		for i := range slices {
			at := from + int64(o.Gap)*int64(i)/slices
			if at >= end || clock.Until(ctx, at) != nil {
				return n
			}
			for _, fd := range fds[len(fds)*i/slices : len(fds)*(i+1)/slices] {
				if _, err := unix.Write(fd, chunk); err != nil {
					return n
				}
				n++
			}
		}
	}
}

type received struct {
	chunks int
	cpu    time.Duration
	err    error
}

// receive reads until stop is closed, and adds up what the thread spent.
func receive(clock wire.Clock, fds []int, size int, stop <-chan struct{}) (r received) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	poll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return received{err: err}
	}
	defer func() { _ = unix.Close(poll) }()
	for _, fd := range fds {
		if err := unix.EpollCtl(poll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}); err != nil {
			return received{err: err}
		}
	}
	var rx stamp.Receiver
	rx.Init(clock)
	buffer := make([]byte, 16<<10)
	events := make([]unix.EpollEvent, 128)
	before, err := threadTime()
	if err != nil {
		return received{err: err}
	}
	total := 0
	for {
		select {
		case <-stop:
			after, err := threadTime()
			return received{chunks: total / size, cpu: after - before, err: err}
		default:
		}
		n, err := unix.EpollWait(poll, events, 50)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return received{err: err}
		}
		for i := range max(n, 0) {
			got, _, _, errno := rx.Recv(uintptr(events[i].Fd), buffer)
			if errno != 0 && errno != unix.EAGAIN {
				return received{err: errno}
			}
			total += got
		}
	}
}

// threadTime is the CPU time of the calling thread.
func threadTime() (time.Duration, error) {
	var r unix.Rusage
	err := unix.Getrusage(unix.RUSAGE_THREAD, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano()), err
}

// Stalls is a timer loop that notes how late it wakes.
type Stalls struct {
	stop chan struct{}
	done chan struct{}
	max  int64
	real bool
}

// stallStep is how long the timer loop sleeps.
const stallStep = 2 * time.Millisecond

// WatchStalls starts a timer loop on a thread of its own. With realTime it asks for the least real-time priority, so that programs which
// use all cores do not hold it up, and only a machine that stands still does.
func WatchStalls(ctx context.Context, clock wire.Clock, realTime bool) *Stalls {
	s := &Stalls{stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(s.done)
		// A thread with real-time priority is not given back: it ends with this goroutine.
		runtime.LockOSThread()
		if realTime {
			attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}
			s.real = unix.SchedSetAttr(0, &attr, 0) == nil
		} else {
			defer runtime.UnlockOSThread()
		}
		step := unix.NsecToTimespec(int64(stallStep))
		for {
			select {
			case <-s.stop:
				return
			case <-ctx.Done():
				return
			default:
			}
			before := clock.Now()
			_ = unix.Nanosleep(&step, nil) // a signal ends it early, which is no lateness
			s.max = max(s.max, clock.Now()-before-int64(stallStep))
		}
	}()
	return s
}

// Stop ends the loop. It returns how late it woke at worst, in ms, and whether it had real-time priority.
func (s *Stalls) Stop() (late float64, realTime bool) {
	close(s.stop)
	<-s.done
	return float64(s.max) / 1e6, s.real
}
