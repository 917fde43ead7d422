package collect

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"prefire/metrics"
)

func TestAJournalIsReadAsFarAsItIsWhole(t *testing.T) {
	w := newFieldWriter(reflect.TypeFor[metrics.Record]())
	line := func(seq int64) string {
		raw, err := w.appendLine(nil, &metrics.Record{Seq: seq, Start: 5}, []byte("out"), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	whole := line(1) + line(2)
	for _, tt := range []struct {
		name, text string
		want       Read
		seqs       []int64
	}{
		{"empty", "", Read{}, nil},
		{"whole", whole, Read{Lines: 2}, []int64{1, 2}},
		{"torn", whole[:len(whole)-9], Read{Lines: 1, Torn: true}, []int64{1}},
		{"torn before its line end", whole[:len(whole)-1], Read{Lines: 1, Torn: true}, []int64{1}},
		{"torn at a line", line(1), Read{Lines: 1}, []int64{1}},
		{"rubbish between", line(1) + "\x00\x00\n{\n" + line(2), Read{Lines: 2, Broken: 2, First: 2}, []int64{1, 2}},
		{"not taken", line(1) + line(99), Read{Lines: 1, Broken: 1, First: 2}, []int64{1}},
	} {
		var seqs []int64
		got, err := ReadJournal(strings.NewReader(tt.text), func(l *Line) error {
			if l.Record.Seq == 99 {
				return errors.New("no")
			}
			if l.Record.Start != 5 || l.Output != "out" {
				t.Errorf("%s: %+v", tt.name, l)
			}
			seqs = append(seqs, l.Record.Seq)
			return nil
		})
		if err != nil || got != tt.want || !reflect.DeepEqual(seqs, tt.seqs) {
			t.Errorf("%s: %+v of %v, %v; want %+v of %v", tt.name, got, seqs, err, tt.want, tt.seqs)
		}
	}
	for i := range whole { // wherever it is cut, what is whole is there
		n := strings.Count(whole[:i], "\n")
		got, err := ReadJournal(strings.NewReader(whole[:i]), func(*Line) error { return nil })
		if err != nil || got != (Read{Lines: int64(n), Torn: !strings.HasSuffix(whole[:i], "\n") && i > 0}) {
			t.Fatalf("cut at %d: %+v, %v", i, got, err)
		}
	}
}
