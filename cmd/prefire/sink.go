package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"prefire/internal/collect"
	"prefire/internal/config"
	"prefire/internal/endpoint"
	"prefire/internal/export"
	"prefire/internal/procedure"
	"prefire/loadgen"
	"prefire/metrics"
)

// journalFile holds every finished request until the run's files are complete.
const journalFile = ".prefire_journal.jsonl"

const (
	// queuedForCounting bounds what waits for token counting in memory.
	queuedForCounting = 16 << 20
	// flushEvery bounds how old a line of profile_export.jsonl may be before it is on disk, in ns.
	flushEvery = 250_000_000
)

// sink takes what the engine sends and what comes back: to the journal and inputs.json at once, then counted to the record files and the
// accumulators.
type sink struct {
	dir     export.Dir
	now     func() int64
	secrets *export.Redactor
	// hideBodies: request bodies hold secrets, which inputs.json does not.
	hideBodies bool
	counted    bool // answers are counted here
	server     bool // all token counts are the server's
	collector  *collect.Collector
	journal    *os.File
	inputs     *inputsFile
	broken     []string // after close: the files that are not whole

	// Only the collector's emitting goroutine uses these until close.
	encoder  *export.RecordEncoder
	records  *export.Appended
	censored *export.Appended
	line     []byte
	flushed  int64
	byPhase  []*metrics.Accumulator
	gap      promptGap
	again    sentAgain
	odd      oddAnswers
	overdue  procedure.Overdue
	slices   *metrics.Slices // nil = none
	answers  *answersFile    // nil = none

	raw    *rawFile              // nil = none
	traced bool                  // records hold the exchange
	tell   func(*metrics.Record) // is told of each record; nil = nobody
	// misjudged are the answers whose first chunk cannot hold as many tokens as the server said.
	misjudged int64
}

type sinkOptions struct {
	dir     export.Dir
	now     func() int64
	secrets *export.Redactor
	count   func([]byte) int // nil: answers have the server's counts
	phases  int
	metrics metrics.Options
	records export.RecordOptions
	note    runNote
	// hideBodies: request bodies hold secrets.
	hideBodies bool
	slice      int64 // width in ns; 0 = no slices
	level      string
	answers    bool
	retries    bool // what is answered 429 is sent again
}

// claim makes the run's folder and its journal, empty, and holds the journal for this run: two runs at once in one folder would take each
// other's files away.
func claim(dir string) (*os.File, error) {
	err := os.MkdirAll(dir, 0o755)
	if err != nil {
		return nil, fmt.Errorf("the artifact folder %s cannot be made: %w; choose another with --artifact-dir", dir, err)
	}
	f, err := os.OpenFile(filepath.Join(dir, journalFile), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("the artifact folder %s cannot be written: %w; choose another with --artifact-dir", dir, err)
	}
	if err := hold(f); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("another run is writing to the artifact folder %s: choose another with --artifact-dir, or wait for its end", dir)
	}
	if f, err = setAside(dir, f); err == nil {
		err = errors.Join(f.Truncate(0), export.Disk{}.Remove(filepath.Join(dir, tripsFile)))
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("the artifact folder %s cannot be written: %w; choose another with --artifact-dir", dir, err)
	}
	return f, nil
}

// newSink prepares the run's folder and opens the files that grow with the run.
func newSink(o sinkOptions) (*sink, error) {
	journal, err := claim(o.dir.Path)
	if err != nil {
		return nil, err
	}
	if err := o.note.write(o.dir); err != nil {
		_ = journal.Close()
		return nil, err
	}
	// A page about an earlier run would be read as this one's.
	if err := os.Remove(filepath.Join(o.dir.Path, reportFile)); err != nil && !os.IsNotExist(err) {
		_ = journal.Close()
		return nil, fmt.Errorf("%w; choose another folder with --artifact-dir", err)
	}
	s, err := openSink(o, journal)
	if err != nil {
		return nil, errors.Join(err, os.Remove(filepath.Join(o.dir.Path, noteFile)))
	}
	return s, nil
}

// openSink is newSink over a journal that is there already, which it closes where it fails.
func openSink(o sinkOptions, journal *os.File) (*sink, error) {
	err := o.dir.Prepare()
	if err == nil {
		err = o.dir.FS.Remove(filepath.Join(o.dir.Path, reportFile)) // an earlier run's
	}
	if err != nil {
		_ = journal.Close()
		return nil, err
	}
	s := &sink{dir: o.dir, now: o.now, secrets: o.secrets, hideBodies: o.hideBodies, counted: o.count != nil, server: o.metrics.ServerCounts, journal: journal, traced: o.records.Trace, encoder: export.NewRecordEncoder(o.records),
		records: o.dir.Append(o.dir.Names.Records), censored: o.dir.Append(o.dir.Names.Censored)}
	if o.retries {
		s.again.watch(o.metrics)
	}
	for range o.phases {
		s.byPhase = append(s.byPhase, metrics.NewAccumulator(o.metrics))
	}
	stream, err := o.dir.Stream(export.InputsFile)
	if err != nil {
		_ = s.journal.Close()
		return nil, err
	}
	s.inputs = newInputs(stream)
	c := collect.Options{Journal: s.journal, Count: o.count, Counters: max(1, runtime.GOMAXPROCS(0)/2), Emit: s.emit, MaxQueued: queuedForCounting}
	if o.level == config.LevelSummary {
		s.records, s.censored = nil, nil
	}
	if o.level == config.LevelRaw {
		s.raw = &rawFile{out: o.dir.Append(o.dir.Names.Raw), encoder: export.NewRecordEncoder(o.records), now: o.now}
	}
	if o.slice > 0 {
		s.slices = metrics.NewSlices(o.metrics, o.slice)
	}
	if o.answers {
		out, err := o.dir.Stream(export.AnswersFile)
		if err != nil {
			return nil, errors.Join(err, s.inputs.close(), s.journal.Close())
		}
		s.answers = &answersFile{export.NewAnswers(out, o.records), out}
		c.Answer = s.answer
	}
	s.collector = collect.New(c)
	return s, nil
}

// Issued implements loadgen.Sink.
func (s *sink) Issued(st loadgen.Stream, seq int64, sess *loadgen.Session, body []byte) {
	if s.hideBodies {
		body = []byte(s.secrets.String(string(body)))
	}
	s.inputs.add(st, seq, sess.ID, body)
}

// Finished implements loadgen.Sink. What the server said may repeat a secret; nothing of it reaches the disk.
func (s *sink) Finished(f *loadgen.Finished) {
	if e := f.Record.Err; e != nil {
		e.Type, e.Message = s.secrets.String(e.Type), s.secrets.String(e.Message) // a type may be the server's reason phrase
		f.Record.HTTP.Reason = s.secrets.String(f.Record.HTTP.Reason)
		f.Record.ContextOverflow = endpoint.IsContextOverflow(e.Message)
	}
	hideReply(f.Record.Exchange, s.secrets)
	s.raw.add(f)
	if !s.traced {
		f.Record.Exchange = nil
	}
	s.collector.Finished(f)
}

// answer takes the text of one answer at a time, before emit does the record.
func (s *sink) answer(r *metrics.Record, reasoning, output []byte) error {
	s.serverCounts(r)
	return s.answers.Add(r, reasoning, output)
}

// serverCounts puts the server's counts in the place of the client's, or beside them.
func (s *sink) serverCounts(r *metrics.Record) {
	switch {
	case s.server:
		r.UseServerCounts()
	case !s.counted:
		r.AddServerCounts()
	}
}

// emit takes the counted records one at a time.
func (s *sink) emit(r *metrics.Record) error {
	s.gap.add(r)
	s.again.add(r)
	s.odd.add(r)
	s.timeCut(r)
	s.serverCounts(r)
	if _, ok := r.FirstChunk(); !ok && r.Valid() {
		s.misjudged++
	}
	if s.tell != nil {
		s.tell(r)
	}
	s.byPhase[r.Phase].Add(r)
	if s.slices != nil && r.Kind == metrics.Profiling {
		s.slices.Add(r)
	}
	if s.records == nil {
		return nil
	}
	out := s.records
	if r.Censored {
		out, s.line = s.censored, s.encoder.AppendCensored(s.line[:0], r)
	} else {
		s.line = s.encoder.Append(s.line[:0], r)
	}
	if _, err := out.Write(s.line); err != nil {
		return err
	}
	if now := s.now(); now-s.flushed > flushEvery {
		s.flushed = now
		return s.flush()
	}
	return nil
}

// timeCut takes how long a measured request took, or had run when it was cut.
func (s *sink) timeCut(r *metrics.Record) {
	switch {
	case r.Kind != metrics.Profiling:
	case r.Censored:
		s.overdue.Cut(cmp.Or(r.CancelledAt, r.End) - cmp.Or(r.Start, r.Ready, r.Issued))
	case r.Valid():
		s.overdue.Answered(r.End - r.Start)
	}
}

func (s *sink) flush() error {
	return errors.Join(s.records.Flush(), s.censored.Flush())
}

// close waits until everything is counted and written, and notes which files are not whole.
func (s *sink) close() error {
	emitted := s.collector.Close()
	var all []error
	n := s.dir.Names
	for _, f := range [...]struct {
		name  string
		close func() error
	}{{n.Records, s.records.Close}, {n.Censored, s.censored.Close}, {export.InputsFile, s.inputs.close}, {export.AnswersFile, s.answers.close}, {n.Raw, s.raw.close}} {
		if err := f.close(); err != nil {
			s.broken, all = append(s.broken, f.name), append(all, err)
		}
	}
	if emitted != nil && len(s.broken) == 0 {
		s.broken = append(s.broken, n.Records)
	}
	return errors.Join(emitted, errors.Join(all...))
}

// kept closes the journal and reports whether all that finished can be read from it.
func (s *sink) kept() bool {
	err := s.journal.Close()
	_, gone := os.Stat(s.journal.Name())
	return s.collector.Journalled() && err == nil && gone == nil
}

// abandon takes away all that a run without a request has begun.
func (s *sink) abandon() error {
	err := errors.Join(s.forget(), os.Remove(filepath.Join(s.dir.Path, export.InputsFile)))
	if s.answers != nil {
		err = errors.Join(err, os.Remove(filepath.Join(s.dir.Path, export.AnswersFile)))
	}
	return err
}

// forget takes away the journal, once all it holds is in the run's files, and what was noted of the run for it.
func (s *sink) forget() error {
	return errors.Join(s.journal.Close(), removeHidden(s.dir.Path))
}
