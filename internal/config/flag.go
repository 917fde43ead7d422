package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Kind is what a flag's value is.
type Kind uint8

const (
	Text     Kind = iota
	Bool          // bare, or --flag=true|false
	Int           // a whole number
	Number        // a number
	Duration      // seconds, or with a unit s, m or h
	Enum          // one of Choices, whatever its case, - and _ alike
	Pairs         // key:value with typed values
	Headers       // Name:value
)

// Status is what becomes of a flag.
type Status uint8

const (
	Supported Status = iota
	Notice           // accepted; it means nothing here, and a line says so
	Refused          // an error that names it and says why
)

// Flag is one row of the table that parsing, help and completion come from.
type Flag struct {
	Field    string   // aiperf's name of the setting
	Names    []string // with dashes; the last long one is the one used in messages
	Negative []string // names that set a Bool to false
	Group    string
	Kind     Kind
	Several  bool // takes all words up to the next flag
	Repeat   bool // may be given again
	Sweep    bool // aiperf takes a comma list here, as a sweep
	Inf      bool // a Duration may be inf
	Choices  []string
	Usable   []string // those of Choices that this version supports; nil = all
	Bound    *Bound
	Default  string
	Help     string
	Status   Status
	Reason   string   // of a Notice or Refused flag
	Same     []string // values of a Refused flag that ask for what prefire does anyway, and are accepted
}

// maxSessions bounds the sessions in flight: each is a connection or a stream, and a machine has no more ports than that by far.
const maxSessions = 1_000_000

// maxSeconds bounds durations: a time.Duration ends at 292 years.
const maxSeconds = 1e9

// maxStatsInterval is aiperf's, in s.
const maxStatsInterval = 1000

// Bound is the range of a number.
type Bound struct {
	Low  float64
	Open bool // Low itself is outside
	High float64
}

func atLeast(low float64) *Bound       { return &Bound{Low: low, High: math.Inf(1)} }
func above(low float64) *Bound         { return &Bound{Low: low, Open: true, High: math.Inf(1)} }
func between(low, high float64) *Bound { return &Bound{Low: low, High: high} }

// check reports what is wrong with v in the words that aiperf uses; "" = nothing.
func (b *Bound) check(v float64) string {
	switch {
	case b == nil:
		return ""
	case math.IsNaN(v):
		return "Input should be a finite number"
	case b.Open && v <= b.Low:
		return fmt.Sprintf("Input should be greater than %s", plain(b.Low))
	case v < b.Low:
		return fmt.Sprintf("Input should be greater than or equal to %s", plain(b.Low))
	case v > b.High:
		return fmt.Sprintf("Input should be less than or equal to %s", plain(b.High))
	}
	return ""
}

// plain writes a number without an exponent.
func plain(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// Name is the flag as messages name it.
func (f *Flag) Name() string {
	for _, name := range slices.Backward(f.Names) {
		if strings.HasPrefix(name, "--") {
			return name
		}
	}
	return f.Names[0]
}

func idle(field, group, reason string, names ...string) Flag {
	return Flag{Field: field, Group: group, Names: names, Status: Notice, Reason: reason}
}

func refused(field, group, reason string, names ...string) Flag {
	return Flag{Field: field, Group: group, Names: names, Status: Refused, Reason: reason}
}

func (f Flag) boolean() Flag                  { f.Kind = Bool; return f }
func (f Flag) words() Flag                    { f.Several, f.Repeat = true, true; return f }
func (f Flag) negative(names ...string) Flag  { f.Negative = names; return f }
func (f Flag) same(values ...string) Flag     { f.Same = values; return f }
func (f Flag) choices(choices ...string) Flag { f.Kind, f.Choices = Enum, choices; return f }

// fold makes spellings equal that aiperf takes for the same: case, and - for _.
func fold(s string) string { return strings.ReplaceAll(strings.ToLower(s), "-", "_") }

// choose finds s among choices, whatever its spelling.
func choose(s string, choices []string) (string, bool) {
	for _, c := range choices {
		if fold(c) == fold(s) {
			return c, true
		}
	}
	return "", false
}

// oneOf lists choices as aiperf does in "Input should be 'a', 'b' or 'c'".
func oneOf(choices []string) string {
	q := make([]string, len(choices))
	for i, c := range choices {
		q[i] = "'" + c + "'"
	}
	if len(q) == 1 {
		return q[0]
	}
	return strings.Join(q[:len(q)-1], ", ") + " or " + q[len(q)-1]
}

// nearest is the candidate that s is most likely a misspelling of, "" where none is close: about a third of its letters may differ.
func nearest(s string, candidates []string) string {
	best, bestD := "", (len(s)+1)/3+1
	for _, c := range candidates {
		if d := distance(fold(s), fold(c), bestD); d < bestD {
			best, bestD = c, d
		}
	}
	return best
}

// distance is the Levenshtein distance of a and b, or limit where it is no less.
func distance(a, b string, limit int) int {
	if abs := len(a) - len(b); abs >= limit || -abs >= limit {
		return limit
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diag := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diag
			if a[i] != b[j] {
				cost++
			}
			diag = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return min(row[len(b)], limit)
}
