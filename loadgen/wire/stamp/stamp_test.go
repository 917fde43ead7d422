package stamp_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

	"prefire/loadgen/wire"
	"prefire/loadgen/wire/fake"
	"prefire/loadgen/wire/stamp"
	"prefire/loadgen/wire/wiretest"
)

// pair is a loopback connection; in is the stamped end.
func pair(t *testing.T) (in *stamp.Conn, out *net.TCPConn, clock *fake.Clock) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	o, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	a, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	clock = fake.NewClock()
	in, out = stamp.New(a, clock), o.(*net.TCPConn)
	t.Cleanup(func() { in.Close(); out.Close() })
	return in, out, clock
}

func say(t *testing.T, c net.Conn, s string) {
	t.Helper()
	if _, err := io.WriteString(c, s); err != nil {
		t.Fatal(err)
	}
}

// The stamp is the arrival, not the reading: bytes are read long after they came.
func TestStampIsTheArrival(t *testing.T) {
	in, out, clock := pair(t)
	if !in.KernelStamps() {
		t.Skip("SKIP: no kernel stamps on this system")
	}
	wiretest.KernelStamps(t)
	b := make([]byte, 100)
	for range 20 {
		before := clock.Now()
		say(t, out, "x")
		after := clock.Now()
		if err := clock.Until(context.Background(), after+int64(3*time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if n, err := in.Read(b); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		s := in.Last()
		if !s.Kernel || s.At < before || s.At > after || s.User < after+int64(3*time.Millisecond) {
			t.Errorf("written in [%d, %d], stamped %+v", before, after, s)
		}
	}
}

// A read that fills its buffer says nothing of emptiness; one that does not, and an empty connection, move the bound up.
func TestEmpty(t *testing.T) {
	in, out, clock := pair(t)
	read := func(n int) {
		t.Helper()
		if got, err := in.Read(make([]byte, n)); err != nil || got == 0 {
			t.Fatal(got, err)
		}
	}
	say(t, out, "abcd")
	read(2)
	if s := in.Last(); in.Drained() || s.Read != 1 {
		t.Errorf("after a full read: drained %v, %+v", in.Drained(), s)
	}
	first := in.Last().Empty
	read(2)
	if s := in.Last(); in.Drained() || s.Empty != first {
		t.Errorf("after a second full read: drained %v, %+v, empty before %d", in.Drained(), s, first)
	}
	say(t, out, "ef")
	before := clock.Now()
	read(10)
	if s := in.Last(); !in.Drained() || s.Empty != first || s.Read != 3 {
		t.Errorf("after a read with room: drained %v, %+v", in.Drained(), s)
	}
	after := clock.Now()
	say(t, out, "g")
	read(10)
	if s := in.Last(); s.Empty < before || s.Empty > after {
		t.Errorf("Empty = %d, want the time before the read that emptied, in [%d, %d]", s.Empty, before, after)
	}
	if !in.KernelStamps() {
		return
	}
	// A reader that waits sees the connection empty.
	before = clock.Now()
	got := make(chan struct{})
	go func() { read(10); close(got) }()
	for range 3 {
		_ = clock.Until(context.Background(), clock.Now()+int64(2*time.Millisecond))
	}
	say(t, out, "h")
	<-got
	if s := in.Last(); s.Empty < before || s.Empty > s.User {
		t.Errorf("after waiting: %+v, began to wait after %d", s, before)
	}
}

// Stamps stand in the order of their reads. One that shows that the wall clock was set spoils none that follow.
func TestOrder(t *testing.T) {
	const ms = int64(time.Millisecond)
	last := int64(0)
	for i, c := range []struct {
		at, user   int64
		kernel     bool
		want, last int64
	}{
		{100 * ms, 101 * ms, true, 100 * ms, 100 * ms},
		{100*ms - 300, 102 * ms, true, 100 * ms, 100 * ms}, // the conversion moved
		{90 * ms, 102 * ms, true, 100 * ms, 100 * ms},      // bytes that waited for lost ones
		{3700 * ms, 103 * ms, true, 3700 * ms, 100 * ms},   // the clock was set forward, between the arrival and its read
		{104 * ms, 105 * ms, true, 104 * ms, 104 * ms},
		{110 * ms, 110 * ms, false, 110 * ms, 104 * ms}, // without a stamp of the kernel's, late by what it is late
		{109 * ms, 111 * ms, true, 109 * ms, 109 * ms},
	} {
		s := wire.Stamp{At: c.at, User: c.user, Kernel: c.kernel}
		if last = stamp.Order(&s, last); s.At != c.want || last != c.last {
			t.Errorf("read %d: stamped %d, the next held against %d; want %d, %d", i, s.At, last, c.want, c.last)
		}
	}
}

func TestConnStaysAConn(t *testing.T) {
	in, out, clock := pair(t)
	if n, err := in.Read(nil); n != 0 || err != nil {
		t.Errorf("Read(nil) = %d, %v", n, err)
	}
	in.SetReadDeadline(clock.Wall(clock.Now() + 1e6))
	if _, err := in.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("at the deadline: %v", err)
	}
	in.SetReadDeadline(time.Time{})
	var fail error
	var wg sync.WaitGroup
	wg.Go(func() { _, fail = in.Read(make([]byte, 1)) })
	out.CloseWrite()
	if wg.Wait(); fail != io.EOF {
		t.Errorf("at the end: %v", fail)
	}
	if in.KernelStamps() && !in.Stale() {
		t.Error("a connection at its end is not stale")
	}
	in, out, _ = pair(t)
	if in.Stale() {
		t.Error("a quiet connection is stale")
	}
	out.SetLinger(0)
	out.Close()
	if _, err := in.Read(make([]byte, 1)); err == nil || err == io.EOF {
		t.Errorf("after a reset: %v", err)
	}
	in, _, _ = pair(t)
	wg.Go(func() { _, fail = in.Read(make([]byte, 1)) })
	in.Close()
	if wg.Wait(); !errors.Is(fail, net.ErrClosed) {
		t.Errorf("after Close: %v", fail)
	}
}

func TestWriteStamps(t *testing.T) {
	in, out, clock := pair(t)
	go io.Copy(io.Discard, out)
	if in.FirstWrite() != 0 || in.LastWrite() != 0 {
		t.Error("stamps before a write")
	}
	in.Mark()
	t0 := clock.Now()
	say(t, in, "a")
	t1 := clock.Now()
	say(t, in, "b")
	t2 := clock.Now()
	if f, l := in.FirstWrite(), in.LastWrite(); f < t0 || f > t1 || l < t1 || l > t2 {
		t.Errorf("first %d, last %d, between %d %d %d", f, l, t0, t1, t2)
	}
	in.Mark()
	say(t, in, "c")
	if f := in.FirstWrite(); f < t2 {
		t.Errorf("first write %d after Mark at %d", f, t2)
	}
}

func TestReadAllocatesNothing(t *testing.T) {
	in, out, _ := pair(t)
	one, b := []byte("x"), make([]byte, 100)
	if n := testing.AllocsPerRun(100, func() {
		out.Write(one)
		in.Read(b)
	}); n != 0 {
		t.Errorf("%v allocations a read", n)
	}
}

// Over TLS, Drained is true exactly when the last record of a raw read has been taken, and all its bytes have one stamp.
func TestTLS(t *testing.T) {
	srv := httptest.NewUnstartedServer(nil)
	srv.StartTLS()
	cert := srv.TLS.Certificates[0]
	srv.Close()
	in, out, _ := pair(t)
	under := &tap{TCPConn: out}
	server := tls.Server(under, &tls.Config{Certificates: []tls.Certificate{cert}})
	c := stamp.Client(in, &tls.Config{InsecureSkipVerify: true})
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := server.Handshake(); err != nil {
			t.Error(err)
		}
	})
	if err := c.HandshakeContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	say(t, server, "warm") // behind the session tickets
	b := make([]byte, 100)
	if n, err := c.Read(b); err != nil || string(b[:n]) != "warm" {
		t.Fatal(string(b[:n]), err)
	}
	// Three records leave in one write, so that they come in one read.
	records := gather(t, server, under, "one", "two", "three")
	if _, err := out.Write(records); err != nil {
		t.Fatal(err)
	}
	var reads []uint64
	for _, want := range []string{"one", "two", "three"} {
		n, err := c.Read(b)
		if err != nil || string(b[:n]) != want {
			t.Fatalf("%q, %v", b[:n], err)
		}
		if last := want == "three"; c.Drained() != last {
			t.Errorf("after %q Drained = %v", want, c.Drained())
		}
		reads = append(reads, c.Last().Read)
	}
	if reads[0] != reads[1] || reads[1] != reads[2] {
		t.Errorf("the records came in reads %v", reads)
	}
	say(t, server, "four")
	if n, err := c.Read(b[:2]); n != 2 || err != nil || c.Drained() {
		t.Errorf("half a record: %d, %v, drained %v", n, err, c.Drained())
	}
	if n, err := c.Read(b[:100]); n != 2 || err != nil || !c.Drained() {
		t.Errorf("its rest: %d, %v, drained %v", n, err, c.Drained())
	}
	// A record in two pieces.
	records = gather(t, server, under, "five", "six")
	out.Write(records[:len(records)-3])
	if n, err := c.Read(b); string(b[:n]) != "five" || err != nil || c.Drained() {
		t.Errorf("%q, %v, drained %v with half a record behind it", b[:n], err, c.Drained())
	}
	out.Write(records[len(records)-3:])
	if n, err := c.Read(b); string(b[:n]) != "six" || err != nil || !c.Drained() {
		t.Errorf("%q, %v, drained %v", b[:n], err, c.Drained())
	}
	big := bytes.Repeat([]byte("0123456789"), 30_000)
	wg.Go(func() { server.Write(big) })
	got := make([]byte, len(big))
	if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, big) {
		t.Errorf("a long answer: %v", err)
	}
	wg.Wait()
}

// tap keeps what is written while it holds.
type tap struct {
	*net.TCPConn
	hold bool
	kept []byte
}

func (t *tap) Write(p []byte) (int, error) {
	if !t.hold {
		return t.TCPConn.Write(p)
	}
	t.kept = append(t.kept, p...)
	return len(p), nil
}

// gather is the records that server would write for each text.
func gather(t *testing.T, server *tls.Conn, w *tap, texts ...string) []byte {
	t.Helper()
	w.hold, w.kept = true, nil
	for _, text := range texts {
		say(t, server, text)
	}
	w.hold = false
	return w.kept
}
