package files

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// detect finds a file's format by its first row, as aiperf does: the field type where it names one, else the only format that the row is of.
func detect(path string, files []*file, folder bool) (Format, error) {
	if folder {
		return detectFolder(path, files)
	}
	first, err := files[0].firstLine()
	if err != nil {
		return "", err
	}
	if first == nil {
		return "", &RowError{File: path, Found: "an empty file", Want: "at least one row"}
	}
	var o map[string]json.RawMessage
	if json.Unmarshal(first, &o) != nil || o == nil {
		return detectWhole(path, files[0], first)
	}
	var named string
	if json.Unmarshal(o["type"], &named) == nil && slices.Contains(Formats(), Format(named)) {
		return Format(named), nil
	}
	var found []Format
	for _, f := range [...]Format{Bailian, Mooncake, RawPayload, InputsJSON, MultiTurn, SingleTurn} {
		if fits(f, first) {
			found = append(found, f)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		// What is wrong with the row is said by the format that it looks like.
		if f := likely(o); f != "" {
			return f, nil
		}
		return "", unknownFormat(path, first)
	}
	return "", fmt.Errorf("%s:1: the row can be read as %s and as %s, which send different requests: say which with --custom-dataset-type", path, found[0], found[1])
}

// likely is the format whose fields a row has.
func likely(o map[string]json.RawMessage) Format {
	for _, l := range [...]struct {
		f      Format
		fields []string
	}{
		{Bailian, []string{"chat_id", "parent_chat_id"}}, {MultiTurn, []string{"turns"}}, {Mooncake, []string{"input_length", "text_input", "hash_ids", "payload"}},
		{SingleTurn, append([]string{"text", "texts"}, media[:]...)}, {InputsJSON, []string{"data"}},
	} {
		if slices.ContainsFunc(l.fields, func(name string) bool { return o[name] != nil }) {
			return l.f
		}
	}
	return ""
}

// fits says whether a row is of a format.
func fits(f Format, first []byte) bool {
	if f == InputsJSON {
		var whole struct {
			Data []struct{ Payloads []json.RawMessage }
		}
		return json.Unmarshal(first, &whole) == nil && len(whole.Data) > 0 && whole.Data[0].Payloads != nil
	}
	s := Source{o: Options{Format: f}}
	if _, fault := s.parse(first); fault != nil {
		return false
	}
	var o map[string]json.RawMessage
	_ = json.Unmarshal(first, &o) // it was parsed
	return f != RawPayload || o["conversation_id"] == nil && !strings.HasPrefix(string(o["data"]), "[")
}

// detectWhole finds the format of a file whose first line is no JSON object: one JSON value over many lines, or CSV.
func detectWhole(path string, f *file, first []byte) (Format, error) {
	errFound := errors.New("found")
	is := func(key, field string) bool {
		return errors.Is(f.elements(key, func(_ int64, _ int, text []byte) error {
			var o map[string]json.RawMessage
			if json.Unmarshal(text, &o) == nil && strings.HasPrefix(string(o[field]), "[") {
				return errFound
			}
			return errors.New("another")
		}), errFound)
	}
	switch {
	case first[0] == '{' && is("data", "payloads"):
		return InputsJSON, nil
	case first[0] == '[' && is("", "conversations"):
		return ShareGPT, nil
	}
	var missing []string
	err := csvRecords(f.reader(), func(_ int64, _, _ int, record []string, err error) error {
		if err == nil {
			_, missing = burstHeader(record)
		}
		return errors.Join(errFound, err)
	})
	if errors.Is(err, errFound) && missing == nil && strings.Contains(string(first), burstColumns[0]) {
		return BurstGPT, nil
	}
	if first[0] == '{' {
		if o := parseObject(first, ""); o.err != nil { // a row that is cut short, most likely
			o.err.File, o.err.Line = path, 1
			return "", o.err
		}
	}
	return "", unknownFormat(path, first)
}

// detectFolder finds the format of a folder by the first rows of its files.
func detectFolder(path string, files []*file) (Format, error) {
	pool, raw := true, false
	var first []byte
	for _, f := range files {
		line, err := f.firstLine()
		if err != nil {
			return "", err
		}
		if line == nil {
			continue
		}
		if first == nil {
			first = line
		}
		pool = pool && fits(RandomPool, line)
		raw = raw || filepath.Ext(f.path) == ".jsonl" && fits(RawPayload, line)
	}
	switch {
	case first == nil:
		return "", &RowError{File: path, Found: "a folder of empty files", Want: "at least one row"}
	case pool && !raw:
		return RandomPool, nil
	case raw && !pool:
		return RawPayload, nil
	}
	return "", unknownFormat(path, first)
}

func unknownFormat(path string, first []byte) error {
	return fmt.Errorf("%s:1: the row is of none of the formats that prefire knows: %s; say which with --custom-dataset-type, and what is wrong with it is said then", path,
		short(string(first)))
}

// firstLine is the first line that is not empty; nil where there is none.
func (f *file) firstLine() ([]byte, error) {
	var first []byte
	stop := errors.New("stop")
	err := f.lines(func(_ int64, _ int, text []byte) error {
		first = slices.Clone(text)
		return stop
	})
	if errors.Is(err, stop) {
		err = nil
	}
	return first, err
}
