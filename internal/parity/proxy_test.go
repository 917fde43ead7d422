package parity

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// proxy hands connections on to a server and keeps every byte that the client sends, so that a request is seen as it was on the wire.
type proxy struct {
	listener net.Listener
	backend  string

	mu    sync.Mutex
	sent  []*bytes.Buffer // by connection
	conns []net.Conn
	wg    sync.WaitGroup
}

func newProxy(t *testing.T, backend string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, backend: backend}
	p.wg.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

func (p *proxy) url() string { return "http://" + p.listener.Addr().String() }

func (p *proxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.mu.Unlock()
	p.wg.Wait()
}

func (p *proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.wg.Go(func() { p.serve(c) })
	}
}

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.backend)
	if err != nil {
		return
	}
	defer server.Close()
	b := new(bytes.Buffer)
	p.mu.Lock()
	p.conns = append(p.conns, client, server)
	p.sent = append(p.sent, b)
	p.mu.Unlock()
	p.wg.Go(func() {
		_, _ = io.Copy(client, server)
		_ = client.Close()
	})
	_, _ = io.Copy(io.MultiWriter(&guarded{p, b}, server), client)
}

// guarded is a buffer that is written while it may be taken.
type guarded struct {
	p *proxy
	b *bytes.Buffer
}

func (g *guarded) Write(b []byte) (int, error) {
	g.p.mu.Lock()
	defer g.p.mu.Unlock()
	return g.b.Write(b)
}

// take returns the requests since the last take. The client must have ended.
func (p *proxy) take() ([]request, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []request
	for _, b := range p.sent {
		list, err := parseRequests(b.Bytes())
		if err != nil {
			return nil, err
		}
		out = append(out, list...)
	}
	p.sent = nil
	return out, nil
}

// request is one request as it was on the wire.
type request struct {
	line   string
	names  []string
	header map[string]string // by the name as sent
	body   []byte
}

func parseRequests(b []byte) ([]request, error) {
	var out []request
	for r := bufio.NewReader(bytes.NewReader(b)); ; {
		line, err := r.ReadString('\n')
		if err == io.EOF && line == "" {
			return out, nil
		}
		q := request{line: strings.TrimRight(line, "\r\n"), header: map[string]string{}}
		length := 0
		for err == nil {
			if line, err = r.ReadString('\n'); strings.TrimRight(line, "\r\n") == "" {
				break
			}
			name, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ": ")
			if !ok {
				return out, fmt.Errorf("header line %q", line)
			}
			q.names = append(q.names, name)
			q.header[name] = value
			if strings.EqualFold(name, "content-length") {
				if length, err = strconv.Atoi(value); err != nil {
					return out, err
				}
			}
		}
		q.body = make([]byte, length)
		if err == nil {
			_, err = io.ReadFull(r, q.body)
		}
		if err != nil {
			return out, nil // cut by the client
		}
		out = append(out, q)
	}
}

func (q *request) id() string {
	for name, v := range q.header {
		if strings.EqualFold(name, "x-request-id") {
			return v
		}
	}
	return ""
}
