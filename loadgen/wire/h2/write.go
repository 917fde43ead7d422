package h2

import (
	"fmt"
	"slices"
	"time"

	"golang.org/x/net/http2"

	"prefire/loadgen/wire"
)

// sliceSize bounds the body bytes of one stream in one write, so that a long prompt does not hold up the others.
const sliceSize = 64 << 10

// outbox holds what is to be sent beside requests.
type outbox struct {
	acks    int // of SETTINGS
	pings   [][8]byte
	resets  []reset
	updates []update
	bye     *goodbye
}

type reset struct {
	id   uint32
	code http2.ErrCode
}

type update struct{ id, by uint32 }

type goodbye struct {
	code   http2.ErrCode
	text   string
	killer *time.Timer
}

// preface puts the connection's first bytes into the batch.
func (c *Conn) preface() {
	c.batch.WriteString(http2.ClientPreface)
	must(c.framer.WriteSettings(
		http2.Setting{ID: http2.SettingEnablePush, Val: 0},
		http2.Setting{ID: http2.SettingInitialWindowSize, Val: streamWindow},
		http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: maxHeaderList},
	))
	must(c.framer.WriteWindowUpdate(0, connWindow-initialWindow))
}

// write is the writer goroutine.
func (c *Conn) write() {
	defer close(c.writerDone)
	_, err := c.nc.Write(c.batch.Bytes())
	for err == nil {
		st, acked, bye := c.compose()
		if c.batch.Len() == 0 {
			select {
			case <-c.wake:
			case <-c.gone:
				return
			}
			continue
		}
		_, err = c.nc.Write(c.batch.Bytes())
		if bye != nil {
			// The error of a farewell changes nothing.
			_ = c.nc.Close()
			bye.killer.Stop()
			return
		}
		if err == nil {
			c.wrote(st, acked)
		}
	}
	// The reader may still find what the server said before it hung up.
	c.retire(fmt.Errorf("writing to the server: %w", err))
	c.nc.Abort()
}

// compose fills the batch with what is due: control frames, and either a new request or the next slice of a body. It returns the stream
// that has bytes in the batch, how many SETTINGS it acknowledges, and the last words if they are in it.
func (c *Conn) compose() (st *stream, acks int, bye *goodbye) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.batch.Reset()
	o := &c.out
	acks = o.acks
	for range o.acks {
		must(c.framer.WriteSettingsAck())
	}
	for _, p := range o.pings {
		must(c.framer.WritePing(true, p))
	}
	for _, r := range o.resets {
		must(c.framer.WriteRSTStream(r.id, r.code))
	}
	for _, u := range o.updates {
		must(c.framer.WriteWindowUpdate(u.id, u.by))
	}
	o.acks, o.pings, o.resets, o.updates = 0, o.pings[:0], o.resets[:0], o.updates[:0]
	if o.bye != nil {
		must(c.framer.WriteGoAway(0, o.bye.code, []byte(o.bye.text)))
		return nil, acks, o.bye
	}
	if st = c.open(); st == nil {
		st = c.nextSlice()
	}
	if st != nil {
		st.writing = true
		frames := c.frames.Load()
		st.began = c.o.Clock.Now()
		if st.firstWrite == 0 {
			st.frames, st.firstWrite = frames, st.began
		}
	}
	return st, acks, nil
}

// open puts the HEADERS of the next new request, and the beginning of its body, into the batch.
func (c *Conn) open() *stream {
	if len(c.opening) == 0 {
		return nil
	}
	st := c.opening[0]
	if len(c.streams) >= int(c.peerMax) {
		// The server lowered its limit after the request was taken.
		st.held = true
		return nil
	}
	c.opening = slices.Delete(c.opening, 0, 1)
	if st.held {
		st.call.Facts.Queued += c.o.Clock.Now() - st.asked
	}
	st.id, st.window = c.nextID, c.peerWindow
	c.nextID += 2
	c.streams[st.id] = st
	st.closing = len(st.body) == 0
	c.encode(st, st.closing)
	c.slice(st)
	if len(st.body) > 0 {
		c.sending = append(c.sending, st)
	}
	return st
}

// nextSlice puts a slice of the body whose turn it is into the batch.
func (c *Conn) nextSlice() *stream {
	if c.window <= 0 {
		return nil
	}
	i := slices.IndexFunc(c.sending, func(st *stream) bool { return st.window > 0 })
	if i < 0 {
		return nil
	}
	st := c.sending[i]
	c.sending = slices.Delete(c.sending, i, i+1)
	c.slice(st)
	if len(st.body) > 0 {
		c.sending = append(c.sending, st)
	}
	return st
}

// slice puts up to sliceSize bytes of st's body into the batch, within both windows.
func (c *Conn) slice(st *stream) {
	for room := int64(sliceSize); room > 0 && len(st.body) > 0; {
		n := min(room, int64(len(st.body)), c.window, st.window, int64(c.peerFrame))
		if n <= 0 {
			return
		}
		st.closing = n == int64(len(st.body))
		must(c.framer.WriteData(st.id, st.closing, st.body[:n]))
		st.body = st.body[n:]
		st.sent += n
		c.window -= n
		st.window -= n
		room -= n
	}
}

// wrote records that the batch is with the kernel.
func (c *Conn) wrote(st *stream, acks int) {
	c.mu.Lock()
	if acks > 0 && !c.acked {
		c.acked = true
		close(c.ready)
	}
	exhausted := c.nextID > lastID
	var done *result
	if st != nil {
		st.writing = false
		st.lastWrite = c.o.Clock.Now()
		done = st.done
		if st.closing && done == nil && c.streams[st.id] == st && st.call.CancelAfter > 0 {
			st.after = time.AfterFunc(st.call.CancelAfter, func() { st.cancel(wire.ByPlan) })
		}
	}
	c.mu.Unlock()
	if done != nil {
		st.finish(*done)
	}
	if exhausted {
		c.retire(errExhausted)
	}
}

// forget takes st out of the tables, and resets it where the server may think it open.
func (c *Conn) forget(st *stream, code http2.ErrCode) {
	if st.id == 0 {
		c.opening = slices.DeleteFunc(c.opening, func(x *stream) bool { return x == st })
		return
	}
	delete(c.streams, st.id)
	c.sending = slices.DeleteFunc(c.sending, func(x *stream) bool { return x == st })
	st.body = nil
	if code != http2.ErrCodeNo {
		c.out.resets = append(c.out.resets, reset{st.id, code})
	}
	c.poke()
}
