package files

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"

	"prefire/internal/dataset"
	"prefire/tokenize"
)

// open opens the file, or the files of a folder, and settles the format.
func (s *Source) open() error {
	paths := []string{s.o.Path}
	var err error
	if s.folder, err = isFolder(s.o.FS, s.o.Path); err != nil {
		return fmt.Errorf("the dataset file %s cannot be read: %w", s.o.Path, err)
	}
	if s.folder {
		if paths, err = within(s.o.FS, s.o.Path); err != nil {
			return err
		}
	}
	for _, p := range paths {
		f, err := open(s.o.FS, p)
		if err != nil {
			return fmt.Errorf("the dataset file cannot be read: %w", err)
		}
		s.files = append(s.files, f)
	}
	if s.o.Format == "" {
		if s.o.Format, err = detect(s.o.Path, s.files, s.folder); err != nil {
			return err
		}
	}
	switch {
	case !s.o.Format.Trace() && (s.o.MaxInput > 0 || s.o.MaxOutput > 0):
		return fmt.Errorf("%s: --synthesis-max-isl and --synthesis-max-osl are for traces, whose rows hold lengths, and the file is %s: drop them", s.o.Path, s.o.Format)
	case s.folder && s.o.Format == RawPayload:
		s.files = slices.DeleteFunc(s.files, func(f *file) bool {
			drop := filepath.Ext(f.path) != ".jsonl"
			if drop {
				f.close()
			}
			return drop
		})
		if len(s.files) == 0 {
			return fmt.Errorf("%s: the folder has no .jsonl files, and raw_payload takes each as one conversation", s.o.Path)
		}
	case s.folder && s.o.Format != RandomPool:
		return fmt.Errorf("%s: it is a folder, and %s is one file; folders are read as random_pool and raw_payload", s.o.Path, s.o.Format)
	}
	return nil
}

// isFolder tells a folder from a file; what is neither cannot be read in any order.
func isFolder(disk FS, path string) (bool, error) {
	f, err := disk.Open(path)
	if err != nil {
		var pathError *fs.PathError
		if errors.As(err, &pathError) {
			err = pathError.Err
		}
		return false, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return false, err
	case info.IsDir():
		return true, nil
	case !info.Mode().IsRegular():
		return false, errors.New("it is no file, and its rows cannot be read in any order: write it to a file first")
	}
	return false, nil
}

// within lists the files of a folder by name.
func within(disk FS, dir string) ([]string, error) {
	f, err := disk.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("the dataset folder cannot be read: %w", err)
	}
	defer f.Close()
	list, err := f.ReadDir(-1)
	if err != nil {
		return nil, fmt.Errorf("the dataset folder %s cannot be read: %w", dir, err)
	}
	var out []string
	for _, e := range list {
		path := filepath.Join(dir, e.Name())
		if folder, err := isFolder(disk, path); err == nil && !folder {
			out = append(out, path)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s: the dataset folder has no files", dir)
	}
	slices.Sort(out)
	return out, nil
}

// parse reads one row. Its error has no place yet.
func (s *Source) parse(data []byte) (row, *RowError) {
	if s.o.Format == BurstGPT {
		return parseBurst(data, s.columns)
	}
	o := parseObject(data, "")
	var r row
	switch s.o.Format {
	case SingleTurn:
		r = parseSingleTurn(o)
	case MultiTurn:
		r = parseMultiTurn(o)
	case RandomPool:
		r = parseRandomPool(o)
	case Mooncake:
		r = parseMooncake(o)
	case Bailian:
		r = parseBailian(o)
	case InputsJSON:
		r = parseInputs(o)
	case ShareGPT:
		r = parseShareGPT(o)
	case RawPayload:
		r = parseRaw(o)
		if o.err == nil {
			t, err := body(data)
			if err != nil {
				o.fail("", short(string(data)), "a JSON object")
			}
			r.turns[0] = t
		}
	}
	return r, o.err
}

// indexer is what is known of the rows while the file is read.
type indexer struct {
	*Source
	conv     []int32          // of each row
	byID     map[string]int32 // conversations
	kinds    []kind           // of each conversation
	unnamed  int32
	chats    []link // bailian: of each row
	sizes    map[int64]int32
	ignored  map[string]ignored
	dropped  struct{ time, input, capped, short, bad int }
	firstBad *RowError
	earliest float64
	timed    bool // a row has a time
	rowsSeen bool
	// firstTimed: the file's first row has a time.
	firstTimed bool
}

// kind is what a conversation's turns are so far: whole ones, and ones that are added to a history.
type kind struct{ messages, raw, made bool }

type link struct{ chat, parent, order int64 }

type ignored struct{ line, count int }

// index checks every row and notes where it stands.
func (s *Source) index() error {
	x := &indexer{Source: s, byID: map[string]int32{}, sizes: map[int64]int32{}, ignored: map[string]ignored{}, earliest: math.Inf(1)}
	if err := s.newPrompts(); err != nil {
		return err
	}
	for i := range s.files {
		if err := x.file(i); err != nil {
			return err
		}
	}
	if s.o.Format == Bailian {
		x.bailian()
	}
	x.group()
	if err := x.checkKinds(); err != nil {
		return err
	}
	if err := x.checkTurns(); err != nil {
		return err
	}
	x.say()
	if len(s.convs) == 0 {
		return x.empty()
	}
	if err := x.times(); err != nil {
		return err
	}
	return s.readFirst()
}

// newPrompts makes the texts of this file's ids its own: its content goes into the seed.
func (s *Source) newPrompts() error {
	h := sha256.New()
	if s.o.Format.Trace() {
		for _, f := range s.files {
			if _, err := io.Copy(h, f.reader()); err != nil {
				return fmt.Errorf("%s cannot be read: %w", f.path, err)
			}
		}
	}
	sum := h.Sum(nil)
	key := rand.NewPCG(s.o.Seed, binary.LittleEndian.Uint64(sum)).Uint64()
	fit, err := tokenize.NewCorpusFitter(s.o.Tokenizer, s.o.Corpus, key)
	if err != nil {
		return err
	}
	block := s.o.Block
	if block == 0 {
		block = 512
		if s.o.Format == Bailian {
			block = 16
		}
	}
	s.prompts = prompts{fit: fit, tok: s.o.Tokenizer, key: key, block: block}
	return nil
}

// file reads one file.
func (x *indexer) file(i int) error {
	f := x.files[i]
	if x.o.Format == RandomPool {
		x.pools = append(x.pools, nil)
	}
	switch x.o.Format {
	case InputsJSON:
		return f.elements("data", func(at int64, n int, text []byte) error {
			return x.row(i, place{at: at, size: int32(len(text)), file: int32(i)}, text, fmt.Sprintf("data[%d].", n))
		})
	case ShareGPT:
		return f.elements("", func(at int64, n int, text []byte) error {
			return x.row(i, place{at: at, size: int32(len(text)), file: int32(i)}, text, fmt.Sprintf("[%d].", n))
		})
	case BurstGPT:
		return x.burst(i)
	}
	return f.lines(func(at int64, line int, text []byte) error {
		return x.row(i, place{at: at, size: int32(len(text)), line: int32(line), file: int32(i)}, text, "")
	})
}

func (x *indexer) burst(i int) error {
	first := true
	err := csvRecords(x.files[i].reader(), func(at int64, size, line int, record []string, err error) error {
		if first && err == nil {
			first = false
			var missing []string
			if x.columns, missing = burstHeader(record); missing != nil {
				return &RowError{File: x.files[i].path, Line: line, Field: strings.Join(missing, ", "), Found: "no such column in " + strings.Join(record, ","),
					Want: "a header with " + strings.Join(burstColumns[:], ", ")}
			}
			return nil
		}
		p := place{at: at, size: int32(size), line: int32(line), file: int32(i)}
		text, e := x.files[i].part(at, size)
		if e != nil {
			return e
		}
		return x.row(i, p, text, "")
	})
	var fault *RowError
	if err != nil && !errors.As(err, &fault) {
		return fmt.Errorf("%s cannot be read: %w", x.files[i].path, err)
	}
	return err
}

// row checks a row and keeps its place. path is where it stands in a file that is one JSON value.
func (x *indexer) row(file int, p place, text []byte, path string) error {
	r, fault := x.parse(text)
	if fault == nil {
		fault = x.check(&r)
	}
	if fault == nil && x.o.Texts {
		fault = r.textsOnly()
	}
	if fault != nil {
		fault.File, fault.Line = x.files[file].path, int(p.line)
		if p.line == 0 {
			fault.Line = x.files[file].line(p.at)
		}
		fault.Field = strings.TrimSuffix(path+fault.Field, ".")
		if x.o.Format == BurstGPT { // as aiperf: a request that the trace did not get right is none
			x.dropped.bad++
			x.firstBad = cmp.Or(x.firstBad, fault)
			return nil
		}
		return fault
	}
	for _, name := range r.ignored {
		ig := x.ignored[name]
		if ig.count == 0 {
			ig.line = int(p.line)
		}
		ig.count++
		x.ignored[name] = ig
	}
	if _, twice := x.byID[r.session]; twice && x.o.Format == InputsJSON {
		return &RowError{File: x.files[file].path, Line: x.files[file].line(p.at), Field: path + "session_id", Found: fmt.Sprintf("%q a second time", r.session),
			Want: "an id of its own for every session"}
	}
	if !x.rowsSeen {
		x.rowsSeen, x.firstTimed = true, r.turns != nil && r.turns[0].hasAt
	}
	if !x.keep(&r) {
		return nil
	}
	x.measure(&r)
	if x.o.Format == RandomPool {
		x.pools[file] = append(x.pools[file], p)
		return nil
	}
	x.rows = append(x.rows, p)
	x.conv = append(x.conv, x.conversation(file, &r))
	return nil
}

// check holds hash ids against the size of the blocks.
func (x *indexer) check(r *row) *RowError {
	for i := range r.turns {
		t := &r.turns[i]
		last, fault := x.prompts.layout(t)
		if fault != nil {
			return fault
		}
		for k, id := range t.blocks {
			size := int32(x.prompts.block)
			if k == len(t.blocks)-1 {
				size = int32(last)
			}
			if had, ok := x.sizes[id]; ok && had != size {
				return &RowError{Field: fmt.Sprintf("hash_ids[%d]", k), Found: fmt.Sprintf("id %d for %d tokens, which stood for %d before", id, size, had),
					Want: "one size for an id: the trace is damaged, or its blocks have another size (--isl-block-size)"}
			}
			x.sizes[id] = size
		}
	}
	return nil
}

// keep says whether a row is played.
func (x *indexer) keep(r *row) bool {
	if x.o.Format == ShareGPT {
		if !x.shareFits(r) {
			x.dropped.short++
			return false
		}
		return true
	}
	if !x.o.Format.Trace() {
		return true
	}
	t := &r.turns[0]
	if t.hasAt && (x.o.Start != nil && t.at < *x.o.Start || x.o.End != nil && t.at > *x.o.End) {
		x.dropped.time++
		return false
	}
	if x.o.MaxInput > 0 && t.made && t.input > x.o.MaxInput {
		x.dropped.input++
		return false
	}
	if x.o.MaxOutput > 0 && t.output > x.o.MaxOutput {
		x.dropped.capped++
		t.output = x.o.MaxOutput
	}
	return true
}

// shareFits holds a conversation's lengths against the limits, and counts its answers.
func (s *Source) shareFits(r *row) bool {
	for i := range r.turns {
		t := &r.turns[i]
		in := s.o.Tokenizer.Count([]byte(t.contents[0]))
		t.output = s.o.Tokenizer.Count([]byte(t.counted))
		if in < shareLeast || in > sharePrompt || in+t.output > shareTotal || t.output < shareLeast {
			return false
		}
	}
	return len(r.turns) > 0
}

func (x *indexer) measure(r *row) {
	for i := range r.turns {
		t := &r.turns[i]
		x.longestIn, x.longestOut = max(x.longestIn, t.input), max(x.longestOut, t.output)
		if t.hasAt {
			x.timed = true
			x.earliest = min(x.earliest, t.at)
		}
	}
	x.turns += int64(len(r.turns))
}

// conversation is the number of the conversation that a row belongs to.
func (x *indexer) conversation(file int, r *row) int32 {
	id, named := r.session, r.session != ""
	switch x.o.Format {
	case Bailian:
		x.chats = append(x.chats, link{r.chat, r.parent, r.order})
		return int32(len(x.chats) - 1)
	case RawPayload:
		if x.folder { // each file is one
			id = x.files[file].path
		}
	}
	n, old := x.byID[id]
	if id == "" || !old {
		n = int32(len(x.convs))
		c := conversation{number: -1}
		if !named {
			c.number = x.unnamed
			x.unnamed++
		}
		x.convs = append(x.convs, c)
		x.kinds = append(x.kinds, kind{})
		if x.o.Format == MultiTurn {
			x.turns -= int64(len(r.turns) - len(hoist(r.turns)))
		}
		if id != "" {
			x.byID[id] = n
		}
	}
	for i := range r.turns {
		t, k := &r.turns[i], &x.kinds[n]
		switch {
		case t.messages != nil:
			k.messages = true
		case t.raw != nil:
			k.raw = true
		default:
			k.made = true
		}
	}
	return n
}

// checkKinds refuses conversations of turns that do not go together.
func (x *indexer) checkKinds() error {
	if x.o.Format != Mooncake {
		return nil
	}
	for n, k := range x.kinds {
		if k.messages && k.raw || (k.messages || k.raw) && k.made {
			c := x.convs[n]
			p := x.rows[c.first+c.n-1]
			return &RowError{File: x.files[p.file].path, Line: int(p.line), Field: "session_id", Found: "a session whose rows mix messages, payload and prompts",
				Want: "one of them for all rows of a session"}
		}
	}
	return nil
}

// checkTurns refuses conversations over several rows where the endpoint takes none.
func (x *indexer) checkTurns() error {
	if !x.o.Texts || !x.o.Format.Trace() {
		return nil
	}
	for n, c := range x.convs {
		if c.n > 1 && !(n < len(x.kinds) && x.kinds[n].raw) {
			p := x.rows[c.first+1]
			return &RowError{File: x.files[p.file].path, Line: int(p.line), Field: "session_id", Found: "a second turn of a session", Want: oneText}
		}
	}
	return nil
}

// bailian puts rows into conversations: those that follow from one another are one, in the order of their turns.
func (x *indexer) bailian() {
	byChat := make(map[int64]int32, len(x.chats))
	for i, c := range x.chats {
		byChat[c.chat] = int32(i)
	}
	x.convs = nil
	roots := map[int64]int32{}
	root := make(map[int64]int64, len(x.chats)) // of the chats seen so far
	var path []int64
	for i := range x.chats {
		at := x.chats[i].chat
		for path = path[:0]; ; {
			if known, ok := root[at]; ok {
				at = known
				break
			}
			parent := x.chats[byChat[at]].parent
			path = append(path, at)
			if _, ok := byChat[parent]; !ok || parent == -1 || slices.Contains(path, parent) {
				break
			}
			at = parent
		}
		for _, p := range path {
			root[p] = at
		}
		n, ok := roots[at]
		if !ok {
			n = int32(len(x.convs))
			roots[at] = n
			x.convs = append(x.convs, conversation{number: -1})
		}
		x.conv[i] = n
	}
}

// group brings the rows of each conversation together.
func (x *indexer) group() {
	if x.o.Format == RandomPool {
		n := x.o.Entries
		if n == 0 {
			n = 100
		}
		if slices.ContainsFunc(x.pools, func(p []place) bool { return len(p) > 0 }) {
			for i := range n {
				x.convs = append(x.convs, conversation{number: int32(i)})
			}
		}
		x.pools = slices.DeleteFunc(x.pools, func(p []place) bool { return len(p) == 0 })
		x.turns = int64(len(x.convs))
		return
	}
	for _, n := range x.conv {
		x.convs[n].n++
	}
	var first int32
	for i := range x.convs {
		x.convs[i].first, first = first, first+x.convs[i].n
		x.convs[i].n = 0
	}
	order := make([]int32, len(x.rows))
	for i := range x.rows {
		c := &x.convs[x.conv[i]]
		order[c.first+c.n] = int32(i)
		c.n++
	}
	if x.chats != nil {
		for _, c := range x.convs {
			slices.SortStableFunc(order[c.first:c.first+c.n], func(a, b int32) int { return cmp.Compare(x.chats[a].order, x.chats[b].order) })
		}
	}
	rows := make([]place, len(x.rows))
	for i, from := range order {
		rows[i] = x.rows[from]
	}
	x.rows = rows
}

// times sorts the conversations of a schedule by when they are due.
func (x *indexer) times() error {
	switch {
	case x.o.Start != nil:
		x.zero = *x.o.Start
	case x.o.FromFirst && x.timed:
		x.zero = x.earliest
	}
	if !slices.Contains(x.o.Scheduled, true) || x.o.IfTimed && !x.firstTimed {
		return nil
	}
	x.onTime = true
	if x.o.Format == RandomPool {
		return fmt.Errorf("%s: a schedule needs times, and random_pool rows have none", x.o.Path)
	}
	for i := range x.convs {
		turns, _, err := x.read(i)
		if err != nil {
			return err
		}
		if !turns[0].hasAt {
			p := x.rows[x.convs[i].first]
			line := int(p.line)
			if line == 0 {
				line = x.files[p.file].line(p.at)
			}
			return &RowError{File: x.files[p.file].path, Line: line, Field: "timestamp", Found: "none", Want: "a time for the first turn of every conversation of a schedule"}
		}
		x.convs[i].due = int64(turns[0].at * 1e6)
	}
	slices.SortStableFunc(x.convs, func(a, b conversation) int { return cmp.Compare(a.due, b.due) })
	return nil
}

// readFirst keeps what the throwaway is modelled on.
func (s *Source) readFirst() error {
	turns, _, err := s.read(0)
	if err != nil {
		return err
	}
	if s.firstRow = turns[0]; s.firstRow.raw != nil && (s.o.System != "" || s.o.CacheBust != dataset.NoBust) {
		return fmt.Errorf("%s: the rows of %s are whole requests, sent as they are: no system prompt (--system-prompt) and no marker (--cache-bust) "+
			"can be put into them; leave it out, or write it into the file", s.o.Path, s.o.Format)
	}
	return nil
}

// empty says that nothing is left to play.
func (x *indexer) empty() error {
	d := &x.dropped
	switch {
	case d.bad > 0:
		return x.firstBad
	case d.time+d.input+d.short > 0:
		return fmt.Errorf("%s: no row is left to play: %s", x.o.Path, strings.Join(x.notices, "; "))
	}
	return &RowError{File: x.o.Path, Found: "no rows", Want: fmt.Sprintf("at least one row of %s", x.o.Format)}
}

// say notes what was left out, cut and ignored.
func (x *indexer) say() {
	note := func(n int, format string, args ...any) {
		if n > 0 {
			x.notices = append(x.notices, fmt.Sprintf("%s: %d %s", x.o.Path, n, fmt.Sprintf(format, args...)))
		}
	}
	d := &x.dropped
	note(d.time, "rows are left out: they are due outside the schedule's offsets")
	note(d.input, "rows are left out: their inputs are longer than %d tokens (--synthesis-max-isl)", x.o.MaxInput)
	note(d.capped, "output lengths are cut to %d tokens (--synthesis-max-osl)", x.o.MaxOutput)
	note(d.short, "conversations are left out: without a question and its answer, or with one under %d tokens, questions over %d, or both over %d together",
		shareLeast, sharePrompt, shareTotal)
	if d.bad > 0 {
		note(d.bad, "rows are left out: they are no requests; the first is in line %d: %s: found %s", x.firstBad.Line, x.firstBad.Field, x.firstBad.Found)
	}
	var names []string
	for name := range x.ignored {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names[:min(len(names), 10)] {
		x.notices = append(x.notices, fmt.Sprintf("%s: the field %s is ignored: no %s row has it (%d rows, the first in line %d)", x.o.Path, name, x.o.Format,
			x.ignored[name].count, x.ignored[name].line))
	}
	if len(names) > 10 {
		x.notices = append(x.notices, fmt.Sprintf("%s: %d more fields are ignored", x.o.Path, len(names)-10))
	}
}
