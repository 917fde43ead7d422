package wiretest

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"prefire/loadgen/wire"
	"prefire/loadgen/wire/fake"
	"prefire/loadgen/wire/stamp"
)

// Peer is one connection of a server whose every byte the test writes.
type Peer struct {
	*net.TCPConn
	N  int // number of the connection, from 0
	br *bufio.Reader
}

// Request reads the next request; nil where the client has left.
func (p *Peer) Request() *http.Request {
	r, err := http.ReadRequest(p.br)
	if err != nil {
		return nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil
	}
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	return r
}

// Head reads the head of the next request and leaves the body where it is.
func (p *Peer) Head() *http.Request {
	r, err := http.ReadRequest(p.br)
	if err != nil {
		return nil
	}
	return r
}

// Say writes. An error is the client's leaving, which the test sees at the client.
func (p *Peer) Say(s string) { io.WriteString(p, s) }

// Reset closes with a reset in the place of a proper end.
func (p *Peer) Reset() { _ = p.SetLinger(0); p.Close() }

// NewPeer starts a raw server; each connection gets a goroutine, and is closed after serve.
func NewPeer(t *testing.T, serve func(p *Peer)) *wire.Target {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for n := 0; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				p := &Peer{TCPConn: c.(*net.TCPConn), N: n, br: bufio.NewReader(c)}
				defer p.Close()
				serve(p)
			}()
		}
	}()
	addr := l.Addr().String()
	return &wire.Target{Scheme: "http", Host: addr, Addr: addr, Path: "/v1/chat/completions"}
}

// Chunk is s as one chunk of a chunked body.
func Chunk(s string) string {
	const hex = "0123456789abcdef"
	var size string
	for n := len(s); ; n >>= 4 {
		size = hex[n&15:n&15+1] + size
		if n < 16 {
			break
		}
	}
	return size + "\r\n" + s + "\r\n"
}

// StreamHead begins a chunked event stream.
const StreamHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

// KernelStamps waits until the system stamps what arrives, and has it go on until the test's end: Linux begins some time after the first
// socket asks for stamps, and ends with the last.
func KernelStamps(t *testing.T) {
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer echo.Close()
	out, err := net.Dial("tcp", echo.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { out.Close() })
	in, err := echo.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close() })
	c := stamp.New(in, fake.NewClock())
	b := make([]byte, 8)
	for end := time.Now().Add(Patience); c.KernelStamps() && time.Now().Before(end); {
		if _, err := out.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(b); err != nil {
			t.Fatal(err)
		}
		if c.Last().Kernel {
			return
		}
	}
	if c.KernelStamps() {
		t.Fatal("the system takes the option and gives no stamps")
	}
}
