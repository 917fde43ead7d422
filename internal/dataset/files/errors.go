package files

import (
	"fmt"
	"strings"
)

// RowError is a row of a dataset file that cannot be used.
type RowError struct {
	File  string
	Line  int    // from 1; 0 = the file as a whole
	Field string // its path within the row; "" = the row as a whole
	Found string
	Want  string // what is allowed, or what to do
}

func (e *RowError) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d", e.Line)
	}
	b.WriteString(": ")
	if e.Field != "" {
		b.WriteString(e.Field + ": ")
	}
	fmt.Fprintf(&b, "found %s; allowed: %s", e.Found, e.Want)
	return b.String()
}

// short is a value as a message shows it.
func short(raw string) string {
	const most = 60
	if len(raw) <= most {
		return raw
	}
	return strings.ToValidUTF8(raw[:most], "") + "..."
}
