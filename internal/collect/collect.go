// Package collect takes finished requests off the load engine's hands: first into the journal on disk, then through token counting, then,
// in the order in which they finished, to whoever writes and accumulates them. None of it ever holds up the load.
package collect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"sync"

	"prefire/loadgen"
	"prefire/metrics"
)

// Bounds of one batch, within one request: what is counted, kept in memory or read back from the journal at a time.
const (
	maxBatchItems = 256
	maxBatchText  = 1 << 20
)

// Journal is the file that records go to as they finish. Writes go to its end; a batch that waits for counting in too much company is
// dropped from memory and read back from here.
type Journal interface {
	io.Writer
	io.ReaderAt
}

// Options say how records are counted and where they go.
type Options struct {
	Journal Journal
	// Count counts the tokens of a text; nil where the server's counts are used.
	Count func(text []byte) int
	// Counters is how many goroutines count; at least 1.
	Counters int
	// Emit takes the counted records, one at a time, in the order in which they finished. The record is valid only during the call.
	Emit func(*metrics.Record) error
	// Answer takes the texts of each record's answer, before Emit does the record; nil = nobody wants them. They are valid only during the call.
	Answer func(r *metrics.Record, reasoning, output []byte) error
	// MaxQueued bounds the bytes that wait for counting in memory, about; past it batches wait in the journal.
	MaxQueued int
}

// Collector implements the Finished half of loadgen.Sink.
type Collector struct {
	o Options

	mu sync.Mutex
	// Each goroutine waits for its own step alone, so that a record wakes no more than it must.
	toWrite, toCount, toEmit *sync.Cond

	filled []*batch // what has finished and is not in the journal yet; the last one takes what finishes now
	queue  []*batch // journalled, in order: to be counted, then emitted
	next   int      // index into queue of the next batch to count
	queued int      // bytes of the batches in queue that are in memory
	closed bool     // nothing more will finish
	sealed bool     // nothing more will be queued
	err    error    // the first
	torn   bool     // the journal lacks records
	free   []*batch

	wg sync.WaitGroup
}

type item struct {
	record          metrics.Record
	out, reason, in [2]int // into batch.text
}

type batch struct {
	items []item
	text  []byte
	// Of a batch dropped from memory: where its lines stand in the journal.
	spilled bool
	at      int64
	size    int
	counted bool
	err     error
}

// New starts a collector. Close ends it.
func New(o Options) *Collector {
	c := &Collector{o: o}
	c.toWrite, c.toCount, c.toEmit = sync.NewCond(&c.mu), sync.NewCond(&c.mu), sync.NewCond(&c.mu)
	c.wg.Go(c.journal)
	for range max(o.Counters, 1) {
		c.wg.Go(c.count)
	}
	c.wg.Go(c.emit)
	return c
}

// Finished takes a finished request. It copies it and returns; disk and counting are other goroutines' work.
func (c *Collector) Finished(f *loadgen.Finished) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.filled)
	if n == 0 || c.filled[n-1].full() {
		c.filled = append(c.filled, c.empty())
		c.toWrite.Signal()
	}
	add(c.filled[len(c.filled)-1], &f.Record, f.Output, f.Reason, f.Input)
}

// empty is a batch to be filled; mu is held.
func (c *Collector) empty() *batch {
	n := len(c.free)
	if n == 0 {
		return new(batch)
	}
	b := c.free[n-1]
	c.free = c.free[:n-1]
	return b
}

func (b *batch) full() bool { return len(b.items) >= maxBatchItems || len(b.text) >= maxBatchText }

// add copies one request's record and texts to a batch.
func add[T []byte | string](b *batch, r *metrics.Record, output, reason, input T) {
	it := item{record: *r}
	it.out = b.keep(append(b.text, output...))
	it.reason = b.keep(append(b.text, reason...))
	it.in = b.keep(append(b.text, input...))
	b.items = append(b.items, it)
}

// keep takes the longer text and says where the new part of it stands.
func (b *batch) keep(longer []byte) [2]int {
	at := [2]int{len(b.text), len(longer)}
	b.text = longer
	return at
}

// Close waits until everything that finished is on disk, counted and emitted, and returns the first error met on the way. Records that an
// error kept from the journal are counted and emitted all the same.
func (c *Collector) Close() error {
	c.mu.Lock()
	c.closed = true
	c.toWrite.Signal()
	c.mu.Unlock()
	c.wg.Wait()
	return c.err
}

// Journalled reports whether everything that finished before Close is in the journal.
func (c *Collector) Journalled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.torn
}

// journal writes what has finished to disk, batch by batch, and queues it for counting.
func (c *Collector) journal() {
	var lines []byte
	var at int64
	fields := newFieldWriter(reflect.TypeFor[metrics.Record]())
	broken := false
	for {
		b := c.takeFilled()
		if b == nil {
			return
		}
		var err error
		if lines, err = b.append(lines[:0], fields); err == nil && !broken {
			_, err = c.o.Journal.Write(lines)
		}
		if err != nil && !broken {
			broken = true
			c.mu.Lock()
			c.torn = true
			c.mu.Unlock()
			c.fail(fmt.Errorf("the journal of finished requests cannot be written: %w", err))
		}
		b.at, b.size = at, len(lines)
		at += int64(b.size)
		c.enqueue(b, broken)
	}
}

// append appends the batch's lines.
func (b *batch) append(dst []byte, fields fieldWriter) (_ []byte, err error) {
	for i := range b.items {
		it := &b.items[i]
		dst, err = fields.appendLine(dst, &it.record, b.part(it.out), b.part(it.reason), b.part(it.in))
		if err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// takeFilled waits for something to have finished, and returns nil when nothing more will.
func (c *Collector) takeFilled() *batch {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.filled) == 0 {
		if c.closed {
			c.sealed = true
			c.toCount.Broadcast()
			c.toEmit.Signal()
			return nil
		}
		c.toWrite.Wait()
	}
	b := c.filled[0]
	c.filled = slices.Delete(c.filled, 0, 1)
	return b
}

// enqueue hands a journalled batch to the counters. Where too much waits already, only its place in the journal is kept, together with
// that of the batch before where both are short: what waits costs memory by the megabyte of journal, not by the request.
func (c *Collector) enqueue(b *batch, broken bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.queued+b.size > c.o.MaxQueued && c.queued > 0 && !broken {
		if n := len(c.queue); n > c.next && c.queue[n-1].spilled && c.queue[n-1].size+b.size <= maxBatchText {
			c.queue[n-1].size += b.size
			c.reuse(b)
			return
		}
		short := &batch{spilled: true, at: b.at, size: b.size}
		c.reuse(b)
		b = short
	} else {
		c.queued += b.size
	}
	c.queue = append(c.queue, b)
	c.toCount.Signal()
}

func (c *Collector) count() {
	for {
		b := c.takeUncounted()
		if b == nil {
			return
		}
		if b.spilled {
			b.err = c.reload(b)
		}
		if c.o.Count != nil {
			for i := range b.items {
				b.countTokens(&b.items[i], c.o.Count)
			}
		}
		c.mu.Lock()
		b.counted = true
		c.toEmit.Signal()
		c.mu.Unlock()
	}
}

func (b *batch) part(at [2]int) []byte { return b.text[at[0]:at[1]] }

// countTokens fills in the client's counts of a request's text, where it came with one, and of an answer. Reasoning is absent where there is
// none; output of an answer that has only reasoning is 0.
func (b *batch) countTokens(it *item, count func([]byte) int) {
	if in := b.part(it.in); len(in) > 0 {
		it.record.In = metrics.Known(int64(count(in)))
	}
	if it.record.Err != nil {
		return
	}
	it.record.Out = metrics.Known(int64(count(b.part(it.out))))
	if r := b.part(it.reason); len(r) > 0 {
		it.record.Reasoning = metrics.Known(int64(count(r)))
	}
}

// takeUncounted waits for a batch to be counted, and returns nil when there will be none. One that waits in the journal is left there while
// what is in memory is not emitted: a disk that stands still would else bring the whole journal into memory.
func (c *Collector) takeUncounted() *batch {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if c.next < len(c.queue) {
			b := c.queue[c.next]
			if !b.spilled || c.next == 0 || c.queued+b.size <= c.o.MaxQueued {
				if b.spilled {
					c.queued += b.size
				}
				c.next++
				return b
			}
		} else if c.sealed {
			return nil
		}
		c.toCount.Wait()
	}
}

// reload reads a batch back from the journal.
func (c *Collector) reload(b *batch) error {
	raw := make([]byte, b.size)
	if _, err := c.o.Journal.ReadAt(raw, b.at); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("the journal of finished requests cannot be read back: %w", err)
	}
	for dec := json.NewDecoder(bytes.NewReader(raw)); ; {
		var l Line
		if err := dec.Decode(&l); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("the journal of finished requests cannot be read back: %w", err)
		}
		add(b, &l.Record, l.Output, l.Reason, l.Input)
	}
}

func (c *Collector) emit() {
	for {
		b := c.oldest()
		if b == nil {
			return
		}
		if b.err != nil {
			c.fail(b.err)
		}
		for i := range b.items {
			if c.o.Answer != nil {
				it := &b.items[i]
				if err := c.o.Answer(&it.record, b.part(it.reason), b.part(it.out)); err != nil {
					c.fail(err)
				}
			}
			if err := c.o.Emit(&b.items[i].record); err != nil {
				c.fail(err)
			}
		}
		c.recycle(b)
	}
}

// oldest waits until the oldest batch is counted, and returns nil when there is none left.
func (c *Collector) oldest() *batch {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if len(c.queue) > 0 && c.queue[0].counted {
			return c.queue[0]
		}
		if len(c.queue) == 0 && c.sealed {
			return nil
		}
		c.toEmit.Wait()
	}
}

func (c *Collector) recycle(b *batch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue = slices.Delete(c.queue, 0, 1)
	c.next--
	c.queued -= b.size
	if c.next < len(c.queue) {
		c.toCount.Broadcast()
	}
	c.reuse(b)
}

// reuse keeps a batch's memory for another one; mu is held.
func (c *Collector) reuse(b *batch) {
	if len(c.free) >= 4 || cap(b.text) > 2*maxBatchText {
		return
	}
	clear(b.items)
	*b = batch{items: b.items[:0], text: b.text[:0]}
	c.free = append(c.free, b)
}

func (c *Collector) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
	}
}
