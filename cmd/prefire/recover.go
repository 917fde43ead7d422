package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"prefire/internal/collect"
	"prefire/internal/config"
	"prefire/internal/export"
	"prefire/loadgen"
)

const (
	// spillFile is what counting keeps on disk while a journal is read; salvagedInputs is the inputs.json that the killed run had begun.
	spillFile      = ".prefire_recover.jsonl"
	salvagedInputs = ".prefire_inputs.json"
)

func recoverCommand(p process) *cobra.Command {
	return &cobra.Command{
		Use:   "recover DIR",
		Short: "Make the files of a run that was killed",
		Long: `recover reads the journal that a run left in its folder where it was killed (SIGKILL, a second Ctrl-C, a machine that went down), or could
not write its files, and makes the files of the requests that had finished: all that the run was asked for. They are marked: is_complete is false,
and prefire.recovered says what was found. Requests that were in flight are in none of them. What was asked for and is not there (raw records that
were not on disk yet, the servers' metrics) is named.

A last line that was broken off is left out, and so is any line that is no record; both are said. Answers are counted with the run's own tokenizer.
The journal is removed once all its records are in the files. What a new run in the same folder found of a killed one is in its folder ` + killedFolder + `.`,
		Example: "  prefire recover results/first",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			_, err := unlessStopped(p, errors.New("stopped before the end: the journal is still there"), func() (struct{}, error) { return struct{}{}, recoverRun(p, args[0]) })
			if err != nil {
				return complain(p.stderr, err)
			}
			return nil
		},
	}
}

// recoverRun makes the files of the run that was killed in a folder.
func recoverRun(p process, dir string) error {
	journal, note, err := openKilled(dir)
	if err != nil {
		return err
	}
	defer journal.Close()
	dir, err = filepath.Abs(dir)
	if err != nil {
		return err
	}
	r := &recovery{process: p, note: &note, phases: make([]loadgen.PhaseSummary, len(note.Phases))}
	if err := r.open(dir); err != nil {
		return err
	}
	inputs, err := r.inputs()
	if err != nil {
		return errors.Join(err, r.giveUp())
	}
	read, err := collect.ReadJournal(journal, r.take)
	if err = errors.Join(err, r.b.sink.close()); err != nil {
		return errors.Join(fmt.Errorf("%s: %w", journal.Name(), err), r.giveUp())
	}
	if read.Lines == 0 {
		return errors.Join(fmt.Errorf("%s holds no finished request: the run was killed before one was, and there is nothing to recover", journal.Name()), r.giveUp())
	}
	run, err := r.export(read, inputs)
	if err != nil {
		return errors.Join(err, r.giveUp())
	}
	if err := errors.Join(export.Console(p.stdout, run, consoleWidth(p.stdout)), export.Footer(p.stdout, run)); err != nil && !errors.Is(err, syscall.EPIPE) {
		return err
	}
	if err := os.Remove(filepath.Join(dir, salvagedInputs)); err != nil && !os.IsNotExist(err) {
		return err
	}
	return errors.Join(r.giveUp(), removeHidden(dir))
}

// openKilled opens the journal in dir, which nobody writes to any more, and reads what was noted of its run.
func openKilled(dir string) (f *os.File, note runNote, err error) {
	path := filepath.Join(dir, journalFile)
	f, err = os.OpenFile(path, os.O_RDWR, 0)
	if os.IsNotExist(err) {
		if _, e := os.Stat(filepath.Join(dir, export.ReadyFile)); e == nil {
			return nil, note, fmt.Errorf("%s: the run ended in order, and its files are complete: there is nothing to recover", dir)
		}
		if killed := killedWithin(dir); len(killed) > 0 {
			return nil, note, fmt.Errorf("%s holds no journal itself, but runs in it were killed: recover their folders, %s; what a series' runs show together is not made anew, "+
				"the finished ones have their own files", dir, strings.Join(killed, ", "))
		}
		why := ""
		if records, e := filepath.Glob(filepath.Join(dir, "*.jsonl")); e == nil && len(records) > 0 {
			why = fmt.Sprintf("; records alone (%s) hold metrics, not the facts that the files are made of", filepath.Base(records[0]))
		}
		return nil, note, fmt.Errorf("%s holds no journal (%s) of a run that was killed: there is nothing to recover%s", dir, journalFile, why)
	}
	if err != nil {
		return nil, note, err
	}
	if hold(f) != nil {
		return nil, note, errors.Join(fmt.Errorf("the run that writes to %s is still going on: wait for its end, or stop it", dir), f.Close())
	}
	if note, err = readNote(dir); err != nil {
		return nil, note, errors.Join(fmt.Errorf("the journal cannot be made into files without what was noted of its run: %w", err), f.Close())
	}
	return f, note, nil
}

// killedWithin are the folders of killed runs below dir, as a series has them.
func killedWithin(dir string) (out []string) {
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Name() == journalFile && !e.IsDir() {
			out = append(out, filepath.Dir(path))
		}
		return nil // what cannot be read is passed by
	})
	return out
}

// recovery is a run that is put together from its journal.
type recovery struct {
	process
	note   *runNote
	b      *bench // of the parts that a finished run has, those that are known
	phases []loadgen.PhaseSummary
	raw    int64 // raw records that are on disk
}

// open prepares the files. What the run had begun of inputs.json is kept under another name first.
func (r *recovery) open(dir string) error {
	n := r.note
	cfg := &config.Config{Command: n.CLICommand, Tokenizer: n.Tokenizer, TokenizerRevision: n.Revision, Artifacts: n.Artifacts, RoundTrip: n.RoundTrip, Retries: n.Retries}
	for i, p := range n.Phases {
		cfg.Phases = append(cfg.Phases, config.Phase{Name: p.Name, Kind: p.Kind})
		r.phases[i].Phase = loadgen.Phase{Name: p.Name, Kind: p.Kind}
	}
	b := &bench{process: r.process, cfg: cfg, load: &load{seed: n.Seed}, clock: &realClock{epoch: time.Unix(0, n.EpochNS+1)}, options: n.Metrics,
		dir: export.Dir{FS: export.Disk{}, Path: dir, Names: export.NewNames(n.Artifacts.Prefix), KeepRaw: true}}
	r.b = b
	b.trip = &roundTrip{b: b}
	if n.Place != nil {
		b.part = &part{series: &series{id: n.Place.ID}, variation: &n.Place.Variation, trial: n.Place.Trial}
	}
	var count func([]byte) int
	if n.Counted {
		tokens, err := openTokenizer(cfg, r.env)
		if err != nil {
			return fmt.Errorf("the answers cannot be counted: %w", err)
		}
		count = tokens.Count
	}
	if _, err := os.Stat(filepath.Join(dir, salvagedInputs)); os.IsNotExist(err) { // else an earlier recovery was killed too
		for _, name := range [...]string{export.InputsFile, "." + export.InputsFile + ".tmp"} {
			if err := os.Rename(filepath.Join(dir, name), filepath.Join(dir, salvagedInputs)); err == nil {
				break
			}
		}
	}
	if err := r.beside(); err != nil {
		return err
	}
	level := n.Artifacts.Level
	if level == config.LevelRaw {
		level = config.LevelRecords // its file is the run's own
	}
	spill, err := os.Create(filepath.Join(dir, spillFile))
	if err != nil {
		return fmt.Errorf("the folder %s cannot be written: %w", dir, err)
	}
	b.sink, err = openSink(sinkOptions{
		dir: b.dir, now: newClock().Now, count: count, phases: len(n.Phases), metrics: b.options,
		records: export.RecordOptions{Defs: b.options.Table(), Phases: n.phases(), Wall: func(at int64) int64 { return b.clock.Wall(at).UnixNano() },
			Trace: n.Artifacts.Trace, Request: n.requestFields, Host: n.host},
		slice: int64(n.Artifacts.Slice), level: level, answers: n.Artifacts.Answers, retries: n.Retries > 0,
	}, spill)
	return err
}

// beside takes what the run left on disk beside its journal: round trips and raw records.
func (r *recovery) beside() error {
	dir := r.b.dir.Path
	f, err := os.Open(filepath.Join(dir, tripsFile))
	if err == nil {
		err = errors.Join(r.b.trip.read(f), f.Close())
	} else if os.IsNotExist(err) {
		err = nil
	}
	if err == nil && r.note.Artifacts.Level == config.LevelRaw {
		r.raw, err = wholeLines(filepath.Join(dir, r.b.dir.Names.Raw))
	}
	return err
}

// wholeLines takes a line that was broken off from the end of a file, and counts the others. A file that is not there has none.
func wholeLines(path string) (n int64, err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if os.IsNotExist(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, whole := int64(0), int64(0)
	for in := bufio.NewReaderSize(f, 1<<18); ; {
		part, err := in.ReadSlice('\n')
		size += int64(len(part))
		switch {
		case err == nil:
			n, whole = n+1, size
		case errors.Is(err, io.EOF):
			return n, f.Truncate(whole)
		case !errors.Is(err, bufio.ErrBufferFull):
			return n, err
		}
	}
}

// giveUp takes away what only the recovery needs.
func (r *recovery) giveUp() error {
	_ = r.b.sink.journal.Close()
	if err := os.Remove(r.b.sink.journal.Name()); !os.IsNotExist(err) {
		return err
	}
	return nil
}

// inputs puts what there is of the run's inputs.json into the new one, and returns how many requests it has.
func (r *recovery) inputs() (n int64, err error) {
	f, err := os.Open(filepath.Join(r.b.dir.Path, salvagedInputs))
	if os.IsNotExist(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	eachInput(f, func(session string, body []byte) {
		r.b.sink.inputs.add(loadgen.Stream{}, n, session, body)
		n++
	})
	return n, nil
}

// eachInput reads an inputs.json as far as it is whole.
func eachInput(in io.Reader, take func(session string, body []byte)) {
	dec := json.NewDecoder(in)
	for _, want := range [...]json.Token{json.Delim('{'), "data", json.Delim('[')} {
		if got, err := dec.Token(); err != nil || got != want {
			return
		}
	}
	for dec.More() {
		var entry struct {
			Session  string            `json:"session_id"`
			Payloads []json.RawMessage `json:"payloads"`
		}
		if dec.Decode(&entry) != nil {
			return
		}
		for _, body := range entry.Payloads {
			take(entry.Session, body)
		}
	}
}

var errNoPhase = errors.New("the record is of no phase of the run")

// take takes one record of the journal.
func (r *recovery) take(l *collect.Line) error {
	rec := &l.Record
	if rec.Phase < 0 || int(rec.Phase) >= len(r.phases) || rec.Kind != r.note.Phases[rec.Phase].Kind {
		return errNoPhase
	}
	s := &r.phases[rec.Phase]
	if s.Sent == 0 || rec.Issued < s.Start {
		s.Start = rec.Issued
	}
	s.End = max(s.End, rec.End, rec.Issued)
	s.Sent++
	switch {
	case rec.Censored:
		s.Censored++
	case rec.Cancelled:
		s.Cancelled++
	case rec.Err != nil:
		s.Failed++
	default:
		s.OK++
	}
	r.b.sink.Finished(&loadgen.Finished{Record: *rec, Output: []byte(l.Output), Reason: []byte(l.Reason), Input: []byte(l.Input)})
	return nil
}

// export writes the files.
func (r *recovery) export(read collect.Read, inputs int64) (*export.Run, error) {
	n, b := r.note, r.b
	sum := &loadgen.Summary{Stopped: true}
	for _, s := range r.phases {
		s.Stopped = true
		if sum.Phases = append(sum.Phases, s); s.Sent == 0 {
			sum.Phases = sum.Phases[:len(sum.Phases)-1] // the phases after it had not begun either
			break
		}
	}
	run, acc, err := b.results(sum)
	if err != nil {
		return nil, err
	}
	if len(n.Input) > 0 {
		run.InputConfig = n.Input
	}
	run.Incomplete = "the run was killed; these are the requests that had finished, recovered from its journal"
	more, err := b.outputFiles()
	if err != nil {
		return nil, err
	}
	cold, counts, client := acc.Cold(), acc.Counts(), acc.ClientReport()
	judged := verdicts(run.Results, nil, &client)
	recovered := export.Object{{Key: "records", Value: read.Lines}, {Key: "broken_lines", Value: read.Broken}, {Key: "last_line_broken_off", Value: read.Torn},
		{Key: "inputs", Value: inputs}, {Key: "by_version", Value: version()}}
	if n.Artifacts.Level == config.LevelRaw {
		recovered = append(recovered, export.Field{Key: "raw_records", Value: r.raw})
	}
	var place any
	if n.Place != nil {
		place = value(n.Place.Facts)
	}
	run.Prefire = export.Object{
		{Key: "version", Value: n.Version}, {Key: "recovered", Value: recovered}, {Key: "seed", Value: n.Seed}, {Key: "seed_source", Value: n.SeedSource},
		{Key: "series", Value: place}, {Key: "dialect", Value: n.Dialect}, {Key: "command", Value: n.Command}, {Key: "counts", Value: value(counts)}, {Key: "cold", Value: coldFacts(cold)},
		{Key: "sent_again", Value: b.sink.again.facts()}, {Key: "round_trip", Value: b.trip.facts()}, {Key: "statistics", Value: statisticsFacts(run)}, {Key: "client", Value: export.Object{{Key: "records", Value: value(client)}, {Key: "verdicts", Value: verdictFacts(judged)}}},
	}
	run.Screen = export.Screen{Title: n.Title, ShowTrace: n.Artifacts.ShowTrace, Limits: n.Metrics.Limits, Version: n.Version, Seed: fmt.Sprintf("%d (%s)", n.Seed, n.SeedSource), Counts: counts, Cold: cold,
		Notices: slices.Concat(r.notices(read), b.recordNotices(run.Results, counts, cold), b.trip.notices(), b.sliceNotices(), lagNotice(run.Results)), Files: b.files(run.Server, more)}
	for _, v := range judged {
		run.Screen.Client = append(run.Screen.Client, v.Verdict)
	}
	return run, b.dir.WriteRun(run, acc.Histograms())
}

func (r *recovery) notices(read collect.Read) []string {
	out := []string{fmt.Sprintf("recovered: %d finished requests were in the journal of the run, which was killed; those in flight then are in no file, and what only the "+
		"running program knew (prewarm, load, CPU) is absent", read.Lines)}
	if len(r.note.Absent) > 0 {
		out = append(out, "not recovered: "+strings.Join(r.note.Absent, "; "))
	}
	if r.note.Artifacts.Level == config.LevelRaw {
		out = append(out, fmt.Sprintf("%d raw records were on disk when the run was killed; those of the last quarter of a second may not have been", r.raw))
	}
	if read.Torn {
		out = append(out, "the journal's last line was broken off and is left out")
	}
	if read.Broken > 0 {
		out = append(out, fmt.Sprintf("%d lines of the journal are no records and are left out, the first of them line %d", read.Broken, read.First))
	}
	return out
}
