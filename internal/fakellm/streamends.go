package fakellm

import (
	"bytes"
	"encoding/binary"
	"slices"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"prefire/loadgen/wire"
)

// streamEnds follows the client's side of an HTTP/2 connection and notes for each request, by its X-Request-ID, the arrival of the frame
// that ended it. net/http runs a request's handler some time after that frame was read, and does not say which frame it was.
// On HTTP/1.1 it does nothing.
type streamEnds struct {
	state  scan
	buf    []byte // the part of the preface, of a frame's head or of a header block that has come so far
	head   http2.FrameHeader
	left   int    // payload bytes of the current frame to come
	block  []byte // header block of the current stream
	ending bool   // its HEADERS frame had END_STREAM
	ids    map[uint32]string
	ends   map[string][]streamEnd
	dec    *hpack.Decoder
}

// streamEnd is the arrival of the frame that ended a stream's request.
type streamEnd struct {
	stream uint32
	at     wire.Stamp
}

type scan uint8

const (
	inPreface scan = iota
	inHead
	inPayload
	notHTTP2
)

const frameHeadSize = 9

// maxBlock bounds a header block, as net/http bounds it.
const maxBlock = 1 << 20

func (e *streamEnds) feed(p []byte, st wire.Stamp) {
	for len(p) > 0 {
		switch e.state {
		case notHTTP2:
			return
		case inPreface:
			n := min(len(http2.ClientPreface)-len(e.buf), len(p))
			e.buf = append(e.buf, p[:n]...)
			p = p[n:]
			if !bytes.HasPrefix([]byte(http2.ClientPreface), e.buf) {
				e.give()
				return
			}
			if len(e.buf) == len(http2.ClientPreface) {
				e.state, e.buf = inHead, e.buf[:0]
				e.ids, e.ends = make(map[uint32]string), make(map[string][]streamEnd)
				e.dec = hpack.NewDecoder(4096, nil)
			}
		case inHead:
			n := min(frameHeadSize-len(e.buf), len(p))
			e.buf = append(e.buf, p[:n]...)
			p = p[n:]
			if len(e.buf) < frameHeadSize {
				return
			}
			e.head = http2.FrameHeader{
				Length:   uint32(e.buf[0])<<16 | uint32(e.buf[1])<<8 | uint32(e.buf[2]),
				Type:     http2.FrameType(e.buf[3]),
				Flags:    http2.Flags(e.buf[4]),
				StreamID: binary.BigEndian.Uint32(e.buf[5:]) & (1<<31 - 1),
			}
			e.buf, e.left, e.state = e.buf[:0], int(e.head.Length), inPayload
			if e.left == 0 {
				e.frame(st)
			}
		case inPayload:
			n := min(e.left, len(p))
			if e.head.Type == http2.FrameHeaders || e.head.Type == http2.FrameContinuation {
				e.buf = append(e.buf, p[:n]...)
			}
			p, e.left = p[n:], e.left-n
			if len(e.buf)+len(e.block) > maxBlock {
				e.give()
				return
			}
			if e.left == 0 {
				e.frame(st)
			}
		}
	}
}

// give ends the following: the connection is not HTTP/2, or not in a way that can be followed.
func (e *streamEnds) give() { *e = streamEnds{state: notHTTP2} }

// frame takes a frame that is complete; e.buf holds its payload where it is part of a header block.
func (e *streamEnds) frame(st wire.Stamp) {
	e.state = inHead
	payload := e.buf
	e.buf = e.buf[:0]
	switch e.head.Type {
	case http2.FrameHeaders:
		if e.head.Flags.Has(http2.FlagHeadersPadded) {
			if len(payload) == 0 || int(payload[0]) >= len(payload) {
				e.give()
				return
			}
			payload = payload[1 : len(payload)-int(payload[0])]
		}
		if e.head.Flags.Has(http2.FlagHeadersPriority) {
			payload = payload[min(5, len(payload)):]
		}
		e.block = append(e.block[:0], payload...)
		e.ending = e.head.Flags.Has(http2.FlagHeadersEndStream)
	case http2.FrameContinuation:
		e.block = append(e.block, payload...)
	case http2.FrameData:
		if e.head.Flags.Has(http2.FlagDataEndStream) {
			e.end(e.head.StreamID, st)
		}
		return
	case http2.FrameRSTStream:
		delete(e.ids, e.head.StreamID)
		return
	default:
		return
	}
	// END_HEADERS is the same bit on HEADERS and on CONTINUATION.
	if !e.head.Flags.Has(http2.FlagHeadersEndHeaders) {
		return
	}
	fields, err := e.dec.DecodeFull(e.block)
	e.block = e.block[:0]
	if err != nil {
		e.give()
		return
	}
	// A block on a stream that is known already is a trailer.
	if i := slices.IndexFunc(fields, func(f hpack.HeaderField) bool { return f.Name == "x-request-id" }); i >= 0 {
		e.ids[e.head.StreamID] = fields[i].Value
	}
	if e.ending {
		e.end(e.head.StreamID, st)
	}
}

func (e *streamEnds) end(stream uint32, st wire.Stamp) {
	if id, ok := e.ids[stream]; ok {
		delete(e.ids, stream)
		e.ends[id] = append(e.ends[id], streamEnd{stream, st})
	}
}

// take takes out the arrival of the request with this X-Request-ID.
func (e *streamEnds) take(id string) (streamEnd, bool) {
	q := e.ends[id]
	if len(q) == 0 {
		return streamEnd{}, false
	}
	if len(q) == 1 {
		delete(e.ends, id)
	} else {
		e.ends[id] = q[1:]
	}
	return q[0], true
}
