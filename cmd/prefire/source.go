package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"time"

	"prefire/internal/config"
	"prefire/internal/dataset"
	"prefire/internal/dataset/files"
	"prefire/loadgen"
	"prefire/metrics"
)

// source is where a run's prompts come from.
type source interface {
	loadgen.Source
	Stats() dataset.Stats
	Close()
}

// lengths are a run's longest prompt by the client's count and its longest output limit, in tokens, 0 = not known, the turns of an average
// session, and whether the prompts come with a schedule.
type lengths struct {
	input, output int
	turns         int
	onSchedule    bool
}

// wholeTurns is a mean number of turns as aiperf rounds it: to the nearest whole one, a half to the even.
func wholeTurns(mean float64) int { return max(1, int(math.RoundToEven(mean))) }

// openSource makes what the config asks for.
func (l *load) openSource(cfg *config.Config) (lengths, error) {
	if cfg.Dataset.File != nil {
		return l.openFile(cfg)
	}
	o := l.promptOptions(cfg)
	var counter *tokenCounter
	if l.server != nil {
		counter = l.server.counter
	}
	if counter != nil {
		o.Count = counter.count
	}
	s, err := dataset.New(o)
	if err != nil {
		if counter != nil {
			counter.close()
		}
		return lengths{}, err
	}
	l.source = s
	if l.server != nil {
		l.server.source = s
	}
	if counter != nil {
		l.source, l.server.before = countedSource{s, counter}, counter.calls.Load()
	}
	l.template = template{counted: cfg.CountTemplate, count: s.CountTemplate}
	return longest(&cfg.Dataset), nil
}

// fileSource counts as the synthetic source does.
type fileSource struct{ *files.Source }

func (s fileSource) Stats() dataset.Stats {
	st := s.Source.Stats()
	return dataset.Stats{Distinct: st.Distinct, Repeated: st.Repeated}
}

func (l *load) openFile(cfg *config.Config) (lengths, error) {
	f := cfg.Dataset.File
	var from files.FS = disk{}
	if f.Records != nil {
		from = inline{rows: f.Records}
	}
	o := files.Options{
		FS: from, Path: f.Path, Format: files.Format(f.Format), Seed: l.seed, RandomIDs: !l.seedGave, Tokenizer: l.tokens, Sampling: files.Sampling(f.Sampling),
		Entries: f.Entries, Output: cfg.Dataset.Output.Mean, OutputStddev: cfg.Dataset.Output.Stddev, IfTimed: f.Schedule.IfTimed,
		FromFirst: f.Schedule.FromFirst, Start: f.Schedule.Start, End: f.Schedule.End, IgnoreTimes: f.IgnoreTimes && !f.Schedule.On,
		DelayCap: f.DelayCap, Block: f.Block, MaxInput: f.MaxInput, MaxOutput: f.MaxOutput, Texts: !l.kind.Converses(),
		Corpus: corpus(cfg.Dataset.Corpus), Batch: cfg.Dataset.Batch, System: cfg.Dataset.System, CacheBust: dataset.CacheBust(cfg.Dataset.CacheBust),
	}
	for _, ph := range cfg.Phases {
		o.Scheduled = append(o.Scheduled, ph.Kind == metrics.Profiling && (f.Schedule.On || f.Schedule.IfTimed))
	}
	s, err := files.Open(o)
	if err != nil {
		return lengths{}, err
	}
	l.source = fileSource{s}
	l.notices = append(append(l.notices, s.Notices()...), unused(&cfg.Dataset, s.Format())...)
	switch {
	case s.OnSchedule():
		cfg.Follow(s.Turns())
	case cfg.DefaultStop && (f.Schedule.On || f.Schedule.IfTimed):
		l.notices = append(l.notices, config.NoStop)
	}
	input, output := s.Longest()
	return lengths{input: input, output: max(output, int(cfg.Dataset.Output.Mean)), onSchedule: s.OnSchedule(),
		turns: wholeTurns(float64(s.Turns()) / float64(max(1, s.Conversations())))}, nil
}

// unused says what was given of a dataset that a file of this format has no use for.
func unused(ds *config.Dataset, f files.Format) []string {
	var out []string
	say := func(what string, of ...files.Format) {
		out = append(out, fmt.Sprintf("%s has no effect: the file is %s, and it is for %v", what, f, of))
	}
	if ds.Entries > 0 && f != files.RandomPool {
		say("a number of dataset entries (--num-dataset-entries)", files.RandomPool)
	}
	if ds.Corpus != "" && !f.Trace() {
		say("a kind of text (--prompt-corpus)", files.Mooncake, files.Bailian, files.BurstGPT)
	}
	if ds.File.Block > 0 && f != files.Mooncake && f != files.Bailian {
		say("a block size (--isl-block-size)", files.Mooncake, files.Bailian)
	}
	if ds.Output.Mean > 0 && (f == files.RawPayload || f == files.InputsJSON) {
		out = append(out, fmt.Sprintf("an output length (--osl) has no effect: the rows of %s are whole requests, sent as they are", f))
	}
	return out
}

// replay makes a phase play its prompts' own schedule to the end: no number of requests bounds it, and a number of sessions at once only where
// one was given, which makes what is beyond it late.
func replay(ph *loadgen.Phase, capped bool) {
	ph.Arrivals = loadgen.Arrivals{Mode: loadgen.Scheduled}
	ph.Requests, ph.Sessions = 0, 0
	if !capped {
		ph.Concurrency = 0
	}
}

// disk is the file system that datasets are read from.
type disk struct{}

func (disk) Open(path string) (files.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// inline is a file system with one file: the rows that a config file holds.
type inline struct {
	disk
	rows []byte
}

func (d inline) Open(string) (files.File, error) {
	return rowsFile{bytes.NewReader(d.rows)}, nil
}

// rowsFile is that file, and what is known of it.
type rowsFile struct{ *bytes.Reader }

func (rowsFile) Close() error                       { return nil }
func (f rowsFile) Stat() (fs.FileInfo, error)       { return f, nil }
func (rowsFile) ReadDir(int) ([]fs.DirEntry, error) { return nil, errors.ErrUnsupported }
func (rowsFile) Name() string                       { return "records" }
func (rowsFile) Mode() fs.FileMode                  { return 0o400 }
func (rowsFile) ModTime() time.Time                 { return time.Time{} }
func (rowsFile) IsDir() bool                        { return false }
func (rowsFile) Sys() any                           { return nil }

func (disk) Temp() (files.Temp, error) {
	f, err := os.CreateTemp("", "prefire-dataset-*")
	if err != nil {
		return nil, err
	}
	// Where a file can lose its name while it is open, nothing is left of a run that is ended at once.
	return temp{f, os.Remove(f.Name()) != nil}, nil
}

type temp struct {
	*os.File
	named bool
}

func (f temp) Close() error {
	err := f.File.Close()
	if f.named {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
}
