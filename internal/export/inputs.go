package export

import (
	"bytes"
	"io"

	"prefire/internal/orjson"
)

// InputsLimit is where inputs.json is cut by default.
const InputsLimit = 256 << 20

// Inputs writes inputs.json as requests are issued: aiperf's {"data":[{"session_id","payloads":[…]}]}, indented. Past its limit it only
// counts, and its end carries the mark. It is for one goroutine at a time.
type Inputs struct {
	w       io.Writer
	limit   int64
	buf     []byte
	size    int64
	written int64
	left    int64
	err     error
}

// NewInputs returns a writer that stops after limit bytes, the end not counted; 0 means InputsLimit. The file is valid after Close.
func NewInputs(w io.Writer, limit int64) *Inputs {
	if limit <= 0 {
		limit = InputsLimit
	}
	return &Inputs{w: w, limit: limit, buf: []byte("{\n  \"data\": [")}
}

// Add writes one session with its payloads, the request bodies in order. Each must be one valid JSON value, which is not checked: the file
// is as valid as they are. Once a session does not fit, all
// later ones are left out too, so that the file holds the run's beginning.
func (in *Inputs) Add(sessionID string, payloads ...[]byte) error {
	if in.err != nil {
		return in.err
	}
	if in.left > 0 {
		in.left++
		return nil
	}
	at := len(in.buf)
	b := in.buf
	if in.written > 0 {
		b = append(b, ',')
	}
	b = orjson.AppendString(append(newline(append(newline(b, 2), '{'), 3), `"session_id": `...), sessionID)
	b = append(newline(append(b, ','), 3), `"payloads": [`...)
	for i, p := range payloads {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendIndented(newline(b, 4), bytes.TrimSpace(p), 4)
	}
	if len(payloads) > 0 {
		b = newline(b, 3)
	}
	in.buf = append(newline(append(b, ']'), 2), '}')
	if in.size+int64(len(in.buf)) > in.limit {
		in.buf, in.left = in.buf[:at], 1
		return nil
	}
	in.written++
	if len(in.buf) >= 64<<10 {
		in.flush()
	}
	return in.err
}

func (in *Inputs) flush() {
	if in.err == nil && len(in.buf) > 0 {
		_, in.err = in.w.Write(in.buf)
		in.size += int64(len(in.buf))
		in.buf = in.buf[:0]
	}
}

// LeaveOut counts n sessions that the caller did not add, since the file was full.
func (in *Inputs) LeaveOut(n int64) { in.left += n }

// Close ends the file. It does not close the writer beneath.
func (in *Inputs) Close() error {
	if in.written > 0 {
		in.buf = newline(in.buf, 1)
	}
	in.buf = append(in.buf, ']')
	if in.left > 0 {
		mark, err := appendObject(nil, "", Object{{"sessions_written", in.written}, {"sessions_left_out", in.left}, {"limit_bytes", in.limit}}, 1)
		if err != nil {
			return err
		}
		in.buf = append(append(in.buf, ",\n  \"prefire_truncated\": "...), mark...)
	}
	in.buf = append(in.buf, "\n}"...)
	in.flush()
	return in.err
}

// Truncated is how many sessions the limit left out.
func (in *Inputs) Truncated() int64 { return in.left }
