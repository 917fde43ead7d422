package collect

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Read is what a journal held.
type Read struct {
	Lines  int64 // that were taken
	Broken int64 // that are no record, or that were not taken; they are left out
	First  int64 // number of the first of them, from 1; 0 = none
	Torn   bool  // the last line has no end, as a run that was killed leaves it; it is left out, and is not among the broken ones
}

// ReadJournal gives take each line of a journal, in its order. A line that is no record is left out, and so is one for which take returns an
// error; the error here is that the journal cannot be read.
func ReadJournal(journal io.Reader, take func(*Line) error) (r Read, err error) {
	in := bufio.NewReaderSize(journal, 1<<18)
	for n := int64(1); ; n++ {
		raw, err := in.ReadBytes('\n')
		switch {
		case errors.Is(err, io.EOF):
			r.Torn = len(raw) > 0
			return r, nil
		case err != nil:
			return r, fmt.Errorf("line %d: %w", n, err)
		}
		var l Line
		if json.Unmarshal(raw, &l) == nil && take(&l) == nil {
			r.Lines++
			continue
		}
		if r.Broken++; r.First == 0 {
			r.First = n
		}
	}
}
