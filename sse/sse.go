// Package sse reads and writes server-sent event streams (the WHATWG grammar), incrementally and without allocating per event.
//
// The decoder is pushed: the reader hands it the bytes of each read and takes out the events that this read completed. So the caller
// knows, for every event, which read completed it and whether further bytes of that read followed.
package sse

import (
	"bytes"
	"fmt"
)

// Event is one event of a stream. Its slices are valid until the next call of Next, Feed or Finish.
type Event struct {
	Name []byte // the event field; nil where there was none or it was empty
	Data []byte // the data lines, joined with \n
	ID   []byte // the id field of this event; nil where there was none
	// Comment is the text of the first comment line inside this event's block, for servers that put an error's text there.
	Comment []byte
	// Cut says that the stream ended without the blank line that ends an event.
	Cut bool
}

// TooLongError says that an event is longer than the decoder's bound, in bytes. The decoder is of no use then until its Reset.
type TooLongError struct{ Max int }

func (e *TooLongError) Error() string {
	return fmt.Sprintf("an event of the stream is longer than %d bytes", e.Max)
}

// DefaultMax bounds one event where the caller gives no bound.
const DefaultMax = 64 << 20

// Decoder is an incremental decoder. The zero value is ready, with DefaultMax as its bound.
//
// Any split of a stream into reads gives the same events. Lines end at LF, CR or CRLF; a CR at the end of a read ends its line at once,
// and an LF that opens the next read is then part of that line end.
//
// In two things it gives more than the grammar. An event that has a name but no data is passed on: an event: error without data is an
// error all the same. And a line without a known field name that follows data which begins like a JSON object and has not ended like one
// is taken as the rest of a JSON string with a line feed in it, as aiperf takes it; the grammar would drop the line, and the event with it.
type Decoder struct {
	max  int
	size int    // bytes of the current event's lines
	in   []byte // unread rest of the bytes fed last
	// pend holds the bytes of a line that was not complete at the end of a read.
	pend []byte
	// The current event's fields, copied out of the lines.
	data, name, id, comment []byte
	hasData, hasName, hasID bool
	hasComment              bool
	started                 bool // the byte order mark has been dealt with
	afterCR                 bool // the last byte consumed was a CR that ended a line
	// emitted says that the buffers above belong to an event the caller holds; the next step clears them.
	emitted bool
}

// NewDecoder returns a decoder whose events may have at most max bytes, all their lines together without the line ends; 0 means DefaultMax.
func NewDecoder(max int) *Decoder { return &Decoder{max: max} }

// Reset makes d ready for a new stream and keeps its buffers and bound.
func (d *Decoder) Reset() {
	d.in = nil
	d.pend = d.pend[:0]
	d.started, d.afterCR = false, false
	d.clear()
}

func (d *Decoder) clear() {
	d.data, d.name, d.id, d.comment = d.data[:0], d.name[:0], d.id[:0], d.comment[:0]
	d.hasData, d.hasName, d.hasID, d.hasComment, d.emitted = false, false, false, false, false
	d.size = 0
}

// Feed hands d the bytes of one read. The caller takes out all events with Next before it feeds again, and leaves p unchanged until then.
func (d *Decoder) Feed(p []byte) { d.in = p }

// Rest is how many of the fed bytes the events taken so far leave over: 0 after the event that the last byte of the read completed.
func (d *Decoder) Rest() int { return len(d.in) }

// Next takes out the next event that the bytes fed so far complete. It reports false where there is none.
func (d *Decoder) Next(ev *Event) (bool, error) {
	if d.emitted {
		d.clear()
	}
	if d.single(ev) {
		return true, nil
	}
	for {
		line, ok, err := d.line()
		if err != nil || !ok {
			return false, err
		}
		if len(line) > 0 {
			d.field(line)
			continue
		}
		if !d.hasData && !d.hasName {
			d.clear()
			continue
		}
		d.emit(ev, false)
		return true, nil
	}
}

// single takes the usual event where it lies whole at the front of the input, without copying it: one data line that ends at LF, and a blank
// line that does too.
func (d *Decoder) single(ev *Event) bool {
	const name = "data:"
	between := d.started && !d.afterCR && d.size == 0 && len(d.pend) == 0 // no line of an event was read
	if !between || len(d.in) < len(name) || string(d.in[:len(name)]) != name {
		return false
	}
	end := bytes.IndexByte(d.in, '\n')
	if end < 0 || end+1 >= len(d.in) || d.in[end+1] != '\n' || end > d.bound() {
		return false
	}
	data := d.in[len(name):end]
	if bytes.IndexByte(data, '\r') >= 0 {
		return false
	}
	if len(data) > 0 && data[0] == ' ' {
		data = data[1:]
	}
	*ev = Event{Data: data}
	d.in = d.in[end+2:]
	return true
}

// Finish ends the stream: it reports an event that lacks only the blank line at its end, if there is one.
func (d *Decoder) Finish(ev *Event) bool {
	if d.emitted {
		d.clear()
	}
	if len(d.pend) > 0 {
		line := d.pend
		if !d.started {
			line = bytes.TrimPrefix(line, bom)
		}
		d.field(line)
		d.pend = d.pend[:0]
	}
	if !d.hasData && !d.hasName {
		return false
	}
	d.emit(ev, true)
	return true
}

func (d *Decoder) bound() int {
	if d.max > 0 {
		return d.max
	}
	return DefaultMax
}

func (d *Decoder) emit(ev *Event, cut bool) {
	*ev = Event{Data: d.data, Cut: cut}
	if d.hasName {
		ev.Name = d.name
	}
	if d.hasID {
		ev.ID = d.id
	}
	if d.hasComment {
		ev.Comment = d.comment
	}
	d.emitted = true
}

var bom = []byte("\xef\xbb\xbf")

// line takes the next complete line off the input, without its end.
func (d *Decoder) line() (line []byte, ok bool, err error) {
	if d.afterCR && len(d.in) > 0 {
		if d.in[0] == '\n' {
			d.in = d.in[1:]
		}
		d.afterCR = false
	}
	i := lineEnd(d.in)
	if i < 0 {
		if d.size+len(d.pend)+len(d.in) > d.bound() {
			return nil, false, &TooLongError{d.bound()}
		}
		d.pend = append(d.pend, d.in...)
		d.in = d.in[len(d.in):]
		return nil, false, nil
	}
	line = d.in[:i]
	if len(d.pend) > 0 {
		d.pend = append(d.pend, line...)
		line = d.pend
		d.pend = d.pend[:0]
	}
	if d.size += len(line); d.size > d.bound() {
		return nil, false, &TooLongError{d.bound()}
	}
	if d.in[i] == '\r' {
		d.afterCR = true
		if i+1 < len(d.in) {
			d.afterCR = false
			if d.in[i+1] == '\n' {
				i++
			}
		}
	}
	d.in = d.in[i+1:]
	if !d.started {
		d.started = true
		line = bytes.TrimPrefix(line, bom)
	}
	return line, true, nil
}

// lineEnd is the index of the first CR or LF. Two vectorised searches beat one byte loop, and a CR is looked for only before the LF.
func lineEnd(p []byte) int {
	i := bytes.IndexByte(p, '\n')
	if i < 0 {
		return bytes.IndexByte(p, '\r')
	}
	if j := bytes.IndexByte(p[:i], '\r'); j >= 0 {
		return j
	}
	return i
}

func (d *Decoder) field(line []byte) {
	name, value, _ := bytes.Cut(line, []byte{':'})
	value = bytes.TrimPrefix(value, []byte{' '})
	switch string(name) {
	case "data":
		if d.hasData {
			d.data = append(d.data, '\n')
		}
		d.data, d.hasData = append(d.data, value...), true
	case "event":
		d.name, d.hasName = append(d.name[:0], value...), len(value) > 0
	case "id":
		if bytes.IndexByte(value, 0) < 0 {
			d.id, d.hasID = append(d.id[:0], value...), true
		}
	case "retry": // how long a browser waits before it connects again
	case "": // a comment
		if !d.hasComment {
			d.comment, d.hasComment = append(d.comment, value...), true
		}
	default:
		if n := len(d.data); n > 0 && d.data[0] == '{' && d.data[n-1] != '}' {
			d.data = append(append(d.data, '\n'), line...)
		}
	}
}

// AppendEvent appends an event as a server writes it: an event line where name is not empty, a data line for each line of data, and the
// blank line. Lines of data end at LF, CR or CRLF; a decoder joins them with LF. name holds no line end.
func AppendEvent(dst []byte, name string, data []byte) []byte {
	if name != "" {
		dst = append(append(append(dst, "event: "...), name...), '\n')
	}
	for {
		i := lineEnd(data)
		if i < 0 {
			break
		}
		dst = append(append(append(dst, "data: "...), data[:i]...), '\n')
		if data[i] == '\r' && i+1 < len(data) && data[i+1] == '\n' {
			i++
		}
		data = data[i+1:]
	}
	return append(append(append(dst, "data: "...), data...), '\n', '\n')
}
