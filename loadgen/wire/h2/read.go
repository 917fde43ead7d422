package h2

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"golang.org/x/net/http2"

	"prefire/loadgen/wire"
)

// errExhausted says that a connection has used up its stream numbers.
var errExhausted = errors.New("the HTTP/2 connection has used up its stream numbers")

// read is the reader goroutine: it ends the connection when it ends.
func (c *Conn) read() {
	defer close(c.closed)
	err := c.frameLoop()
	var v *violation
	if errors.As(err, &v) {
		c.bye(v.code, v.text)
	} else {
		c.nc.Abort()
	}
	c.retire(err)
	c.abandon(err)
	// The writer has nothing to wait for any more, but last words it may have.
	if v == nil {
		close(c.gone)
	}
	<-c.writerDone
	c.nc.Abort()
	c.mu.Lock()
	c.ended = true
	if c.out.bye != nil {
		c.out.bye.killer.Stop()
	}
	c.mu.Unlock()
	if c.o.Closed != nil {
		c.o.Closed(c)
	}
}

// frameLoop reads frames until the connection ends, and says why it did.
func (c *Conn) frameLoop() error {
	for first := true; ; first = false {
		fh, err := c.in.ReadFrameHeader()
		if first && err != nil && fh.Type == 'P' && fh.Length == 'H'<<16|'T'<<8|'T' {
			return errNotHTTP2
		}
		if err != nil {
			return c.readError(err)
		}
		c.frames.Add(1)
		if first && (fh.Type != http2.FrameSettings || fh.Flags.Has(http2.FlagSettingsAck)) {
			return breach(http2.ErrCodeProtocol, "its first frame is %v, and must be SETTINGS", fh.Type)
		}
		if fh.Type == http2.FrameData {
			err = c.data(fh)
		} else {
			err = c.frame(fh)
		}
		if err != nil {
			return err
		}
	}
}

// readError tells the end of the connection from a breach of the protocol.
func (c *Conn) readError(err error) error {
	var ce http2.ConnectionError
	switch {
	case errors.As(err, &ce):
		if detail := c.in.ErrorDetail(); detail != nil {
			return breach(http2.ErrCode(ce), "%v", detail)
		}
		return breach(http2.ErrCode(ce), "a frame of the wrong size, value or stream")
	case errors.Is(err, http2.ErrFrameTooLarge):
		return breach(http2.ErrCodeFrameSize, "a frame is longer than the %d bytes allowed", maxFrame)
	case c.src.err == nil:
		// The Framer found a frame too short for what it must hold.
		return breach(http2.ErrCodeFrameSize, "a frame is too short for its kind")
	}
	return c.src.err
}

// frame reads and handles a frame that is not DATA.
func (c *Conn) frame(fh http2.FrameHeader) error {
	f, err := c.in.ReadFrameForHeader(fh)
	if se := (http2.StreamError{}); errors.As(err, &se) {
		if fh.Type == http2.FrameHeaders && se.Cause == nil {
			// The header block was not decoded, so the compression state is lost.
			return breach(http2.ErrCodeProtocol, "HEADERS with more padding than frame")
		}
		text := fmt.Sprintf("%v on a %v frame", se.Code, fh.Type)
		if se.Cause != nil {
			text = se.Cause.Error()
		}
		return c.fault(fh.Type, se, text)
	}
	if err != nil {
		return c.readError(err)
	}
	switch f := f.(type) {
	case *http2.MetaHeadersFrame:
		return c.headers(f)
	case *http2.SettingsFrame:
		return c.setSettings(f)
	case *http2.WindowUpdateFrame:
		return c.windowUpdate(f)
	case *http2.RSTStreamFrame:
		return c.reset(f)
	case *http2.GoAwayFrame:
		c.goAwayed(f)
	case *http2.PingFrame:
		return c.ping(f)
	case *http2.PushPromiseFrame:
		return breach(http2.ErrCodeProtocol, "PUSH_PROMISE, which SETTINGS forbid")
	}
	// PRIORITY and unknown frames mean nothing to a client.
	return nil
}

// lookup finds a stream by its number. It is nil where the stream is over here but may not be for the server; a stream that was never
// opened is a breach.
func (c *Conn) lookup(id uint32, frame http2.FrameType) (*stream, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id%2 == 0 || id >= c.nextID {
		return nil, breach(http2.ErrCodeProtocol, "%v on stream %d, which was not opened", frame, id)
	}
	st := c.streams[id]
	if st != nil && st.done != nil {
		// The answer is complete, and the call is the writer's to end.
		return nil, nil
	}
	return st, nil
}

// data reads a DATA frame, piece by piece as the raw reads bring it, so that each event has the stamp of the read that completed it.
func (c *Conn) data(fh http2.FrameHeader) error {
	st, err := c.lookup(fh.StreamID, fh.Type)
	if err != nil {
		return err
	}
	if c.recvWindow -= int64(fh.Length); c.recvWindow < 0 {
		return breach(http2.ErrCodeFlowControl, "more DATA than the connection's window of %d bytes", connWindow)
	}
	rest, pad := int(fh.Length), 0
	if fh.Flags.Has(http2.FlagDataPadded) {
		if rest == 0 {
			return breach(http2.ErrCodeFrameSize, "padded DATA without the length of its padding")
		}
		p, _, err := c.src.next(1)
		if err != nil {
			return err
		}
		rest, pad = rest-1, int(p[0])
		if rest -= pad; rest < 0 {
			return breach(http2.ErrCodeProtocol, "DATA with more padding than frame")
		}
	}
	if st != nil {
		if st.credit -= int64(fh.Length); st.credit < 0 {
			st.fail(http2.ErrCodeFlowControl, answerError(true, "StreamError",
				fmt.Sprintf("the server sent more than the stream's window of %d bytes", streamWindow)), c.src.stamp)
			st = nil
		} else if !st.headed {
			st.fail(http2.ErrCodeProtocol, malformed("DATA before the head"), c.src.stamp)
			st = nil
		}
	}
	for rest > 0 {
		p, last, err := c.src.next(rest)
		if err != nil {
			return err
		}
		rest -= len(p)
		if st == nil {
			continue
		}
		if err := st.take(p, c.src.stamp, last); err != nil {
			st.fail(http2.ErrCodeCancel, asWireError(err), c.src.stamp)
			st = nil
		}
	}
	for pad > 0 {
		p, _, err := c.src.next(pad)
		if err != nil {
			return err
		}
		pad -= len(p)
	}
	ended := fh.Flags.Has(http2.FlagDataEndStream)
	c.refill(st, ended)
	switch {
	case st == nil:
	case ended:
		st.complete(c.src.stamp)
	default:
		st.await()
	}
	return nil
}

// refill opens the receive windows again once half of one is used up: what has been read has been consumed.
func (c *Conn) refill(st *stream, ended bool) {
	conn := int64(connWindow) - c.recvWindow
	own := int64(0)
	if st != nil && !ended {
		own = streamWindow - st.credit
	}
	if conn < connWindow/2 && own < streamWindow/2 {
		return
	}
	c.mu.Lock()
	if conn >= connWindow/2 {
		c.out.updates = append(c.out.updates, update{0, uint32(conn)})
		c.recvWindow = connWindow
	}
	if own >= streamWindow/2 && c.streams[st.id] == st {
		c.out.updates = append(c.out.updates, update{st.id, uint32(own)})
		st.credit = streamWindow
	}
	c.mu.Unlock()
	c.poke()
}

// headers handles a whole header block: an interim or final head, or trailers.
func (c *Conn) headers(f *http2.MetaHeadersFrame) error {
	st, err := c.lookup(f.StreamID, http2.FrameHeaders)
	if err != nil || st == nil {
		return err
	}
	s, end := c.src.stamp, f.StreamEnded()
	if f.Truncated {
		st.fail(http2.ErrCodeCancel, malformed(fmt.Sprintf("its header fields are longer than %d bytes", maxHeaderList)), s)
		return nil
	}
	if st.headed {
		if !end || len(f.PseudoFields()) > 0 {
			st.fail(http2.ErrCodeProtocol, malformed("a second head, or trailers that do not end the stream"), s)
			return nil
		}
		st.complete(s)
		return nil
	}
	a, wrong := readAnswer(f)
	switch {
	case wrong == "" && a.status < 200 && end:
		wrong = "an interim answer that ends the stream"
	case wrong == "" && a.status == 101:
		wrong = "the status 101, which HTTP/2 does not have"
	}
	if wrong != "" {
		st.fail(http2.ErrCodeProtocol, malformed(wrong), s)
		return nil
	}
	if a.status < 200 {
		return nil
	}
	c.mu.Lock()
	firstWrite := st.firstWrite
	c.mu.Unlock()
	st.feed.Lock()
	if !st.over {
		st.headed, st.want = true, a.length
		if st.call.Watch {
			for _, h := range f.RegularFields() {
				st.call.Field([]byte(h.Name), []byte(h.Value))
			}
		}
		f := &st.call.Facts
		f.FirstWrite, f.Encoding, f.RetryAfter = firstWrite, a.encoding, a.retryAfter
		st.call.Head(a.status, "", a.contentType, s)
	}
	st.release()
	if end {
		st.complete(s)
	}
	return nil
}

// fault handles a frame that is wrong for its stream alone.
func (c *Conn) fault(frame http2.FrameType, se http2.StreamError, text string) error {
	st, err := c.lookup(se.StreamID, frame)
	if st != nil {
		st.fail(se.Code, malformed(text), c.src.stamp)
	}
	return err
}

// fail ends the call with an error and resets the stream.
func (st *stream) fail(code http2.ErrCode, err *wire.Error, s wire.Stamp) {
	st.finish(result{Outcome: Outcome{Stamp: s, Err: err}, reset: code})
}

func asWireError(err error) *wire.Error {
	if we := (*wire.Error)(nil); errors.As(err, &we) {
		return we
	}
	return &wire.Error{Type: "ClientPayloadError", Message: wire.Bound(err.Error())}
}

// setSettings takes the server's settings, now binding for the writer, and has them acknowledged.
func (c *Conn) setSettings(f *http2.SettingsFrame) error {
	if f.IsAck() {
		return nil
	}
	c.mu.Lock()
	before := c.limitLocked()
	err := f.ForeachSetting(c.setting)
	if c.settings == 0 {
		c.settings = c.src.stamp.At
	}
	if err == nil {
		if c.out.acks++; c.out.acks > maxPings {
			err = breach(http2.ErrCodeEnhanceYourCalm, "over %d SETTINGS frames wait for their acknowledgement", maxPings)
		}
	}
	more := c.limitLocked() > before
	c.mu.Unlock()
	c.poke()
	if more && err == nil && c.o.Room != nil {
		c.o.Room(c)
	}
	return err
}

func (c *Conn) setting(s http2.Setting) error {
	var ce http2.ConnectionError
	if errors.As(s.Valid(), &ce) {
		return breach(http2.ErrCode(ce), "the setting %v", s)
	}
	switch s.ID {
	case http2.SettingHeaderTableSize:
		c.enc.SetMaxDynamicTableSize(s.Val)
	case http2.SettingEnablePush:
		if s.Val != 0 {
			return breach(http2.ErrCodeProtocol, "the setting %v, which is a client's", s)
		}
	case http2.SettingMaxConcurrentStreams:
		c.peerMax = s.Val
	case http2.SettingMaxFrameSize:
		c.peerFrame = s.Val
	case http2.SettingInitialWindowSize:
		delta := int64(s.Val) - c.peerWindow
		c.peerWindow = int64(s.Val)
		for id, st := range c.streams {
			if st.window += delta; st.window > maxWindow {
				return breach(http2.ErrCodeFlowControl, "%v takes the window of stream %d past 2^31-1", s, id)
			}
		}
	}
	return nil
}

func (c *Conn) windowUpdate(f *http2.WindowUpdateFrame) error {
	if f.StreamID == 0 {
		c.mu.Lock()
		c.window += int64(f.Increment)
		tooWide := c.window > maxWindow
		c.mu.Unlock()
		c.poke()
		if tooWide {
			return breach(http2.ErrCodeFlowControl, "WINDOW_UPDATE takes the connection's window past 2^31-1")
		}
		return nil
	}
	st, err := c.lookup(f.StreamID, http2.FrameWindowUpdate)
	if err != nil || st == nil {
		return err
	}
	c.mu.Lock()
	st.window += int64(f.Increment)
	tooWide := st.window > maxWindow
	c.mu.Unlock()
	c.poke()
	if tooWide {
		st.fail(http2.ErrCodeFlowControl, malformed("WINDOW_UPDATE takes the stream's window past 2^31-1"), c.src.stamp)
	}
	return nil
}

// reset handles RST_STREAM.
func (c *Conn) reset(f *http2.RSTStreamFrame) error {
	st, err := c.lookup(f.StreamID, http2.FrameRSTStream)
	if err != nil || st == nil {
		return err
	}
	r := result{Outcome: Outcome{
		Stamp: c.src.stamp,
		Err:   answerError(st.headed, "StreamReset", fmt.Sprintf("the server reset the stream (%v)", f.ErrCode)),
	}}
	if f.ErrCode == http2.ErrCodeRefusedStream && !st.headed {
		r.Verdict = Refused
	}
	st.finish(r)
	return nil
}

// goAwayed handles GOAWAY: what the server will not process can be sent elsewhere, the rest goes on.
func (c *Conn) goAwayed(f *http2.GoAwayFrame) {
	why := &goAwayError{f.ErrCode, strings.ToValidUTF8(string(f.DebugData()[:min(len(f.DebugData()), 200)]), "\uFFFD")}
	s := c.src.stamp
	c.mu.Lock()
	c.goAway = min(c.goAway, f.LastStreamID)
	c.mu.Unlock()
	c.retire(why)
	c.mu.Lock()
	refused := slices.Clone(c.opening)
	for id, st := range c.streams {
		if id > c.goAway {
			refused = append(refused, st)
		}
	}
	c.mu.Unlock()
	for _, st := range refused {
		st.finish(result{Outcome: Outcome{Verdict: Refused, Stamp: s, Err: answerError(st.headed, "GoAway", why.Error())}})
	}
}

func (c *Conn) ping(f *http2.PingFrame) error {
	if f.IsAck() {
		return nil
	}
	c.mu.Lock()
	c.out.pings = append(c.out.pings, f.Data)
	tooMany := len(c.out.pings) > maxPings
	c.mu.Unlock()
	c.poke()
	if tooMany {
		return breach(http2.ErrCodeEnhanceYourCalm, "over %d PINGs wait for their answer", maxPings)
	}
	return nil
}

// abandon ends all calls of a connection that is lost.
func (c *Conn) abandon(err error) {
	now := c.o.Clock.Now()
	s := wire.Stamp{At: now, User: now}
	c.mu.Lock()
	if errors.Is(err, net.ErrClosed) {
		// It was closed on this side, and why says more.
		err = c.down
	}
	all := slices.Clone(c.opening)
	for _, st := range c.streams {
		all = append(all, st)
	}
	c.mu.Unlock()
	frames := c.frames.Load()
	var v *violation
	broken, closed := errors.As(err, &v), errors.Is(err, errClosed)
	for _, st := range all {
		r := result{Outcome: Outcome{Stamp: s, Err: lostError(st.headed, err)}}
		c.mu.Lock()
		switch {
		case closed:
		case st.id == 0:
			r.Verdict = Refused
		case !broken && st.frames == frames:
			r.Verdict = Dropped
		}
		c.mu.Unlock()
		st.finish(r)
	}
}
