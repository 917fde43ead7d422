package http1

import (
	"bufio"
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"prefire/loadgen/wire"
)

// sent is what a sink was given.
type sent struct {
	body []byte
	last bool
}

func (s *sent) Field(_, _ []byte) {}

func (s *sent) Head(int, string, string, wire.Stamp) {}
func (s *sent) Data(p []byte, _ wire.Stamp, last bool) error {
	s.body, s.last = append(s.body, p...), last
	return nil
}

// Any split of a chunked body gives the same bytes and the same verdict, and those that net/http's reader gives where it takes the body.
func FuzzChunked(f *testing.F) {
	f.Add([]byte("5\r\nhello\r\n0\r\n\r\n"), uint8(3))
	f.Add([]byte("A;x=y\r\n0123456789\r\n1 \r\nz\r\n000\r\nX: y\r\n\r\nrest"), uint8(1))
	f.Add([]byte("zz\r\n"), uint8(2))
	f.Fuzz(func(t *testing.T, p []byte, step uint8) {
		read := func(step int) (body string, done bool, used int, fault string) {
			var d Chunked
			var to sent
			for part := range slices.Chunk(p, max(step, 1)) {
				n, end, err := d.Read(part, wire.Stamp{}, true, &to)
				if used += n; err != nil {
					return string(to.body), false, used, err.Error()
				}
				if done = end; done {
					break
				}
			}
			return string(to.body), done, used, ""
		}
		wantBody, wantDone, wantUsed, wantFault := read(len(p))
		body, done, used, fault := read(int(step))
		if body != wantBody || done != wantDone || used != wantUsed || fault != wantFault {
			t.Errorf("in steps of %d: %q %v %d %q, whole: %q %v %d %q", step, body, done, used, fault, wantBody, wantDone, wantUsed, wantFault)
		}
		head := fmt.Sprintf("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%s", p)
		resp, err := http.ReadResponse(bufio.NewReader(strings.NewReader(head)), nil)
		if err != nil {
			t.Fatal(err)
		}
		var oracle bytes.Buffer
		if _, err := oracle.ReadFrom(resp.Body); err == nil && (!wantDone || oracle.String() != wantBody) {
			t.Errorf("net/http reads %q, here %q, done %v, %s", oracle.String(), wantBody, wantDone, wantFault)
		}
	})
}
