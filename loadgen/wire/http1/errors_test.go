package http1

import (
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"

	"prefire/loadgen/wire"
)

// What ended an exchange: the answer's own error, what came of it, or, where nothing came, the write that says more than the read.
func TestFailed(t *testing.T) {
	known := &wire.Error{Type: "ValueError", Message: "x"}
	own := fmt.Errorf("write: %w", net.ErrClosed)
	for _, c := range []struct {
		came        string
		read, write error
		want        string
		lost        bool
	}{
		{"", nil, nil, "", false},
		{"", nil, syscall.EPIPE, "", false}, // the whole answer is there
		{"", known, nil, "ValueError: x", false},
		{"", io.EOF, nil, "ServerDisconnectedError: Server disconnected", true},
		{"", io.EOF, syscall.EPIPE, "ClientOSError: [Errno 32] broken pipe", true},
		{"", io.EOF, own, "ServerDisconnectedError: Server disconnected", true},
		{"", errors.New("odd"), nil, "ClientOSError: odd", false},
		{"H", HeadError{io.EOF}, syscall.EPIPE, "ServerDisconnectedError: Server disconnected within the head of its answer", false},
	} {
		var r Response
		r.Begin("POST")
		if _, _, err := r.Read([]byte(c.came), wire.Stamp{}, true, &sent{}); err != nil {
			t.Fatal(err)
		}
		e, lost := r.Failed(c.read, c.write)
		if got := ""; e != nil {
			got = e.Error()
			if got != c.want || lost != c.lost {
				t.Errorf("%q, %v, %v: %s, lost %v; want %s, %v", c.came, c.read, c.write, got, lost, c.want, c.lost)
			}
		} else if c.want != "" || lost {
			t.Errorf("%q, %v, %v: no error, lost %v; want %s", c.came, c.read, c.write, lost, c.want)
		}
	}
}
