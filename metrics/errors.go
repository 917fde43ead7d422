package metrics

import "fmt"

// MaxErrors bounds how many different errors a run tells apart.
const MaxErrors = 1000

// ErrorCount is one kind of error and how often it came. Error is the first one seen of the kind.
type ErrorCount struct {
	Error Error
	Count int64
}

type errorKind struct {
	code          int
	kind, message string
}

// errorGroups counts errors by (code, type, message), in first-seen order.
type errorGroups struct {
	at    map[errorKind]int
	list  []ErrorCount
	other int64 // of kinds past the bound
}

func (g *errorGroups) add(e *Error, n int64) {
	k := errorKind{e.Code, e.Type, e.Message}
	i, ok := g.at[k]
	if !ok {
		if len(g.list) == MaxErrors {
			g.other += n
			return
		}
		if g.at == nil {
			g.at = map[errorKind]int{}
		}
		i = len(g.list)
		g.at[k] = i
		g.list = append(g.list, ErrorCount{Error: *e})
	}
	g.list[i].Count += n
}

func (g *errorGroups) merge(o *errorGroups) {
	for _, e := range o.list {
		g.add(&e.Error, e.Count)
	}
	g.other += o.other
}

func (g *errorGroups) counts() []ErrorCount {
	out := append([]ErrorCount(nil), g.list...)
	if g.other > 0 {
		out = append(out, ErrorCount{Count: g.other, Error: Error{Type: "OtherErrors", Message: fmt.Sprintf(
			"Errors that are none of the first %d different ones, counted together", MaxErrors)}})
	}
	return out
}
