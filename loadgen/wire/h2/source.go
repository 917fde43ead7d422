package h2

import "prefire/loadgen/wire"

// source is a buffered reader that knows which raw read brought the bytes it gives out: it reads only when it holds nothing, so all it
// holds came from its last read.
type source struct {
	r     Stream
	buf   [32 << 10]byte
	held  []byte // the unread rest of buf
	stamp wire.Stamp
	all   bool  // no more of the raw read behind stamp is to come
	err   error // of the connection; the Framer has errors of its own that look like it
}

// fill makes s hold at least one byte.
func (s *source) fill() error {
	for len(s.held) == 0 {
		if s.err != nil {
			return s.err
		}
		n, err := s.r.Read(s.buf[:])
		s.held, s.err = s.buf[:n], err
		if n > 0 {
			s.stamp, s.all = s.r.Last(), s.r.Drained()
		}
	}
	return nil
}

// Read implements io.Reader for the Framer.
func (s *source) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if err := s.fill(); err != nil {
		return 0, err
	}
	n := copy(p, s.held)
	s.held = s.held[n:]
	return n, nil
}

// next takes up to max bytes, all of one raw read; they are valid until the next call. last says that the raw read holds no more.
func (s *source) next(max int) (p []byte, last bool, err error) {
	if err := s.fill(); err != nil {
		return nil, false, err
	}
	n := min(max, len(s.held))
	p, s.held = s.held[:n], s.held[n:]
	return p, len(s.held) == 0 && s.all, nil
}
