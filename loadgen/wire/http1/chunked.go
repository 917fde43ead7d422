// Package http1 is what every client of HTTP/1.1 here shares: the head of a request, the reading of an answer, and what an answer that was
// not read is called. It works on bytes alone; connections belong to the transports.
package http1

import (
	"errors"
	"fmt"

	"prefire/loadgen/wire"
)

// Chunked reads the framing of a chunked body (RFC 9112, 7.1), push-fed, over any split into reads. The zero value
// begins a body.
type Chunked struct {
	state  chunkState
	left   uint64 // of the chunk's data
	digits int
	line   int // bytes of the size line or of the trailers so far
	cr     bool
	bare   bool // the trailer line at hand is empty so far
}

type chunkState uint8

const (
	inSize  chunkState = iota
	inBlank            // behind the size: blanks
	inExt              // an extension
	inData
	inEnd // the line end behind the data
	inTrailer
)

// Sink takes an answer; wire.Call is one.
type Sink interface {
	// Field takes a header field of the final response, before its Head.
	Field(name, value []byte)
	Head(status int, reason, contentType string, s wire.Stamp)
	Data(p []byte, s wire.Stamp, last bool) error
}

const maxChunkLine = 16 << 10 // a size line, and all trailers together

// How a body can end before its end.
var (
	ErrShortChunks = errors.New("the connection was closed before the last chunk")
	ErrShortBody   = errors.New("the connection was closed before all of Content-Length had come")
)

// FramingError is a chunked body that does not follow the rules.
type FramingError struct{ what string }

func (e *FramingError) Error() string { return "the chunked body is malformed: " + e.what }

// Read takes the bytes of one raw read and hands the body bytes in them to the sink; drained says that the raw read holds no more. The
// bytes of a chunk count as last of their read where nothing but the chunk's own line end follows: it is part of the chunk. used is how
// much was taken, all of p unless the body has ended.
func (d *Chunked) Read(p []byte, s wire.Stamp, drained bool, to Sink) (used int, done bool, err error) {
	var held []byte // body bytes found last; handed on when it is known what follows them
	end := 0        // where they end in p
	for used < len(p) && !done {
		if d.state == inData {
			n := int(min(d.left, uint64(len(p)-used)))
			if len(held) > 0 {
				if err := to.Data(held, s, false); err != nil {
					return used, false, err
				}
			}
			held = p[used : used+n]
			used += n
			end = used
			if d.left -= uint64(n); d.left == 0 {
				d.state = inEnd
			}
			continue
		}
		if done, err = d.framing(p[used]); err != nil {
			break
		}
		used++
	}
	if len(held) > 0 {
		rest := p[end:]
		last := drained && (len(rest) == 0 || string(rest) == "\r" || string(rest) == "\r\n")
		if err := to.Data(held, s, last); err != nil {
			return used, false, err
		}
	}
	return used, done, err
}

// framing takes one byte that is not data.
func (d *Chunked) framing(b byte) (done bool, err error) {
	if d.line++; d.line > maxChunkLine {
		return false, &FramingError{"a line of it is too long"}
	}
	if d.cr && b != '\n' {
		return false, &FramingError{fmt.Sprintf("CR is followed by %q", b)}
	}
	switch d.state {
	case inSize:
		if v, ok := hex(b); ok {
			if d.digits++; d.digits > 15 {
				return false, &FramingError{"a chunk's size has more than 15 digits"}
			}
			d.left = d.left<<4 | v
			return false, nil
		}
		if d.digits == 0 || (b != '\r' && b != ';' && b != ' ' && b != '\t') {
			return false, &FramingError{fmt.Sprintf("%q stands where a chunk's size must", b)}
		}
		d.after(b)
	case inBlank:
		if b != '\r' && b != ';' && b != ' ' && b != '\t' {
			return false, &FramingError{fmt.Sprintf("%q stands behind a chunk's size", b)}
		}
		d.after(b)
	case inExt:
		switch {
		case b == '\r':
			d.cr = true
		case b != '\n':
		case !d.cr:
			return false, &FramingError{"a size line ends without CR"}
		case d.left == 0:
			*d = Chunked{state: inTrailer, bare: true}
		default:
			*d = Chunked{state: inData, left: d.left}
		}
	case inEnd:
		switch {
		case b == '\r' && !d.cr:
			d.cr = true
		case b == '\n' && d.cr:
			*d = Chunked{}
		default:
			return false, &FramingError{"a chunk is longer than its size says"}
		}
	case inTrailer:
		switch b {
		case '\r':
		case '\n': // a trailer line may end in LF alone (RFC 9112, 2.2); a chunk's own lines may not
			if d.bare {
				return true, nil
			}
			d.bare = true
		default:
			d.bare = false
		}
	}
	return false, nil
}

// after takes a byte that may follow the size.
func (d *Chunked) after(b byte) {
	d.cr = b == '\r'
	if d.state = inBlank; b == ';' || d.cr {
		d.state = inExt
	}
}

func hex(b byte) (uint64, bool) {
	switch {
	case b >= '0' && b <= '9':
		return uint64(b - '0'), true
	case b >= 'a' && b <= 'f':
		return uint64(b-'a') + 10, true
	case b >= 'A' && b <= 'F':
		return uint64(b-'A') + 10, true
	}
	return 0, false
}
