package files

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
)

// maxRow bounds one row, which is held in memory whole.
const maxRow = 256 << 20

// FS is how files and folders are reached.
type FS interface {
	// Open opens a file or a folder for reading.
	Open(path string) (File, error)
	// Temp makes a file that vanishes when it is closed.
	Temp() (Temp, error)
}

// File is an open file or folder; an *os.File is one.
type File interface {
	io.Reader
	io.ReaderAt
	io.Closer
	Stat() (fs.FileInfo, error)
	ReadDir(n int) ([]fs.DirEntry, error) // of a folder
}

// Temp is a File that can be written, at its end.
type Temp interface {
	File
	io.Writer
}

// file is an open file of a dataset.
type file struct {
	path string
	f    File // what is read: of a compressed file, its content in a file of its own
}

// open opens a file. One that ends in .gz is unpacked into a temporary file, so that rows can be read in any order.
func open(disk FS, path string) (*file, error) {
	f, err := disk.Open(path)
	if err != nil {
		return nil, err
	}
	if !strings.EqualFold(filepath.Ext(path), ".gz") {
		return &file{path: path, f: f}, nil
	}
	defer f.Close()
	unpacked, err := disk.Temp()
	if err != nil {
		return nil, fmt.Errorf("%s cannot be unpacked: %w; set TMPDIR to a folder with room", path, err)
	}
	z, err := gzip.NewReader(bufio.NewReader(f))
	if err == nil {
		_, err = io.Copy(unpacked, z)
	}
	if err != nil {
		_ = unpacked.Close()
		return nil, fmt.Errorf("%s cannot be unpacked: %w", path, err)
	}
	return &file{path: path, f: unpacked}, nil
}

func (f *file) close() { _ = f.f.Close() } // only read

func (f *file) reader() io.Reader { return io.NewSectionReader(f.f, 0, 1<<62) }

// size is the file's length in bytes.
func (f *file) size() int64 {
	info, err := f.f.Stat()
	if err != nil {
		return 0
	}
	return info.Size()
}

// part reads the bytes of one row.
func (f *file) part(at int64, size int) ([]byte, error) {
	b := make([]byte, size)
	if _, err := f.f.ReadAt(b, at); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("it has become shorter since the run began")
		}
		return nil, fmt.Errorf("%s cannot be read: %w", f.path, err)
	}
	return b, nil
}

// line is the number of the line that byte at is in.
func (f *file) line(at int64) int {
	n, r := 1, bufio.NewReader(io.NewSectionReader(f.f, 0, at))
	for {
		b, err := r.ReadSlice('\n')
		if len(b) > 0 && b[len(b)-1] == '\n' {
			n++
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return n
		}
	}
}

// lines gives each line that is not empty, without white space around it, with its place. A byte order mark at the beginning is none of its.
func (f *file) lines(each func(at int64, line int, text []byte) error) error {
	r := bufio.NewReaderSize(f.reader(), 1<<16)
	var at int64
	var long []byte
	if mark, _ := r.Peek(3); string(mark) == "\xef\xbb\xbf" {
		_, _ = r.Discard(3) // they were just seen
		at = 3
	}
	for n := 1; ; n++ {
		text, err := r.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			long = long[:0]
			for errors.Is(err, bufio.ErrBufferFull) {
				if long = append(long, text...); len(long) > maxRow {
					return &RowError{File: f.path, Line: n, Found: fmt.Sprintf("a row of over %d bytes", maxRow), Want: fmt.Sprintf("rows of at most %d bytes", maxRow)}
				}
				text, err = r.ReadSlice('\n')
			}
			long = append(long, text...)
			text = long
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("%s cannot be read: %w", f.path, err)
		}
		trimmed := bytes.TrimLeft(text, " \t\r\n\v\f")
		start := at + int64(len(text)-len(trimmed))
		if trimmed = bytes.TrimRight(trimmed, " \t\r\n\v\f"); len(trimmed) > 0 {
			if err := each(start, n, trimmed); err != nil {
				return err
			}
		}
		at += int64(len(text))
		if err != nil {
			return nil
		}
	}
}

// elements gives each element of a JSON array with its place: the array under key of the file's object, or the file itself where key is "".
func (f *file) elements(key string, each func(at int64, index int, text []byte) error) error {
	dec := json.NewDecoder(f.reader())
	fault := func(err error, want string) error {
		e := &RowError{File: f.path, Line: f.line(dec.InputOffset()), Field: key, Found: "something else", Want: want}
		var syntax *json.SyntaxError
		switch {
		case errors.As(err, &syntax):
			e.Line, e.Found = f.line(syntax.Offset), fmt.Sprintf("no valid JSON (%v)", syntax)
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			e.Line, e.Found = f.line(f.size()), "the end of the file"
		case err != nil:
			return fmt.Errorf("%s cannot be read: %w", f.path, err)
		}
		return e
	}
	want := "a JSON array"
	if key != "" {
		want = fmt.Sprintf("a JSON object with a list under %q", key)
		tok, err := dec.Token()
		if err != nil || tok != json.Delim('{') {
			return fault(err, want)
		}
		for {
			if !dec.More() {
				_, err := dec.Token()
				return fault(err, want)
			}
			name, err := dec.Token()
			if err != nil {
				return fault(err, want)
			}
			if name == key {
				break
			}
			var skipped json.RawMessage
			if err := dec.Decode(&skipped); err != nil {
				return fault(err, want)
			}
		}
	}
	tok, err := dec.Token()
	if err != nil || tok != json.Delim('[') {
		return fault(err, want)
	}
	for i := 0; dec.More(); i++ {
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return fault(err, want)
		}
		if err := each(dec.InputOffset()-int64(len(raw)), i, raw); err != nil {
			return err
		}
	}
	if _, err := dec.Token(); err != nil { // the array's end; what follows it in the object is nobody's
		return fault(err, want)
	}
	return nil
}
