package export

import (
	"strings"
	"unicode"
)

// column is a table's column; cells are aligned to the right unless left is set.
type column struct {
	header string
	left   bool
}

// table is a table in the look of rich's HEAVY_HEAD box, laid out by rich's rules: columns as wide as their widest line, and where that is
// too wide for the screen the widest columns shrink first and their text wraps at words.
type table struct {
	title   string
	columns []column
	rows    [][]string
}

// render appends the table, one line each with its end, for a screen of width cells.
func (t *table) render(dst []byte, width int) []byte {
	widths := t.widths(width)
	total := len(widths) + 1
	for _, w := range widths {
		total += w
	}
	for _, line := range wrap(t.title, total) {
		dst = append(append(dst, center(line, total, " ")...), '\n')
	}
	header := make([]string, len(t.columns))
	for i, c := range t.columns {
		header[i] = c.header
	}
	dst = rule(dst, widths, "┏", "━", "┳", "┓")
	dst = t.row(dst, widths, header, "┃")
	dst = rule(dst, widths, "┡", "━", "╇", "┩")
	for _, r := range t.rows {
		dst = t.row(dst, widths, r, "│")
	}
	return rule(dst, widths, "└", "─", "┴", "┘")
}

func rule(dst []byte, widths []int, left, line, cross, right string) []byte {
	for i, w := range widths {
		if i > 0 {
			left = cross
		}
		dst = append(append(dst, left...), strings.Repeat(line, w)...)
	}
	return append(append(dst, right...), '\n')
}

func (t *table) row(dst []byte, widths []int, cells []string, bar string) []byte {
	lines, height := make([][]string, len(cells)), 1
	for i, c := range cells {
		lines[i] = wrap(c, widths[i]-2)
		height = max(height, len(lines[i]))
	}
	for y := range height {
		for i := range cells {
			line := ""
			if y < len(lines[i]) {
				line = lines[i][y]
			}
			if !t.columns[i].left {
				line = strings.TrimRightFunc(line, unicode.IsSpace)
			}
			pad := strings.Repeat(" ", max(widths[i]-2-cellLen(line), 0))
			dst = append(append(dst, bar...), ' ')
			if t.columns[i].left {
				dst = append(append(dst, line...), pad...)
			} else {
				dst = append(append(dst, pad...), line...)
			}
			dst = append(dst, ' ')
		}
		dst = append(append(dst, bar...), '\n')
	}
	return dst
}

// widths are the columns' widths with one cell of padding on each side.
func (t *table) widths(screen int) []int {
	widths := make([]int, len(t.columns))
	for i, c := range t.columns {
		w := widest(c.header)
		for _, r := range t.rows {
			w = max(w, widest(r[i]))
		}
		widths[i] = w + 2
	}
	return shrink(widths, screen-len(widths)-1)
}

// shrink takes cells from the widest columns, down to the next widest, until all fit into room. No column goes below 3 cells.
func shrink(widths []int, room int) []int {
	for {
		total, top, next, n := 0, 0, 0, 0
		for _, w := range widths {
			total += w
			switch {
			case w > top:
				top, next, n = w, top, 1
			case w == top:
				n++
			case w > next:
				next = w
			}
		}
		excess := total - room
		if excess <= 0 || top <= 3 {
			return widths
		}
		step := min(excess, n*(top-max(next, 3)))
		for i, w := range widths {
			if w == top {
				// Rounded to even, as rich shares out a rest.
				part := halfEven(step, n)
				widths[i], step, n = w-part, step-part, n-1
			}
		}
	}
}

// halfEven is a/b rounded to the nearest whole number, halves to the even one.
func halfEven(a, b int) int {
	q, r := a/b, a%b
	if 2*r > b || 2*r == b && q%2 == 1 {
		q++
	}
	return q
}

func widest(s string) int {
	w := 0
	for line := range strings.SplitSeq(s, "\n") {
		w = max(w, cellLen(line))
	}
	return w
}

// wrap breaks s at line ends and then at words into lines of at most width cells; a word that is wider is broken anywhere. The space after
// a word stays on its line.
func wrap(s string, width int) []string {
	var out []string
	for line := range strings.SplitSeq(s, "\n") {
		out = append(out, wrapLine(line, max(width, 1))...)
	}
	return out
}

func wrapLine(s string, width int) []string {
	var out []string
	start, used := 0, 0 // the current line's first byte, and its cells
	for at := 0; at < len(s); {
		end := wordEnd(s, at)
		word := s[at:end]
		bare := cellLen(strings.TrimRightFunc(word, unicode.IsSpace))
		switch {
		case used+bare <= width:
			used += cellLen(word)
		case bare > width:
			if at > start {
				out, start = append(out, s[start:at]), at
			}
			used = 0
			for i, r := range word {
				if c := runeCells(r); used+c > width {
					out, start, used = append(out, s[start:at+i]), at+i, c
				} else {
					used += c
				}
			}
		default:
			out, start, used = append(out, s[start:at]), at, cellLen(word)
		}
		at = end
	}
	out = append(out, s[start:])
	for i, line := range out {
		// Space that hangs over the edge is not shown.
		for cellLen(line) > width {
			cut := strings.TrimSuffix(line, " ")
			if cut == line {
				break
			}
			line = cut
		}
		out[i] = line
	}
	return out
}

// wordEnd is the end of the word that starts at or after at, the space behind it included.
func wordEnd(s string, at int) int {
	seen := false
	for i, r := range s[at:] {
		if !unicode.IsSpace(r) {
			if seen && i > 0 {
				if before := s[at+i-1]; before == ' ' {
					return at + i
				}
			}
			seen = true
		}
	}
	return len(s)
}

func center(s string, width int, fill string) string {
	rest := max(width-cellLen(s), 0)
	return strings.Repeat(fill, rest/2) + s + strings.Repeat(fill, rest-rest/2)
}

// panel appends a box in rich's ROUNDED look around lines of text, as wide as its widest line with two cells of padding at each side.
func panel(dst []byte, title string, lines []string, width int) []byte {
	inner := cellLen(title) + 4
	for _, line := range lines {
		inner = max(inner, cellLen(line)+4)
	}
	inner = min(inner, width-2)
	dst = append(dst, "╭─"...)
	dst = append(append(dst, center(" "+title+" ", inner-2, "─")...), "─╮\n"...)
	for _, line := range lines {
		for _, part := range wrap(line, inner-4) {
			dst = append(append(append(dst, "│  "...), part...), strings.Repeat(" ", max(inner-4-cellLen(part), 0))...)
			dst = append(dst, "  │\n"...)
		}
	}
	return append(append(append(dst, "╰"...), strings.Repeat("─", inner)...), "╯\n"...)
}

// cellLen is how many cells of a terminal s takes.
func cellLen(s string) int {
	n := 0
	for _, r := range s {
		n += runeCells(r)
	}
	return n
}

// runeCells is 0 for marks and controls, 2 for the wide blocks of East Asian scripts and pictographs, else 1.
func runeCells(r rune) int {
	switch {
	case r >= ' ' && r < 0x7f:
		return 1
	case r < ' ' || r >= 0x7f && r < 0xa0, unicode.In(r, unicode.Mn, unicode.Me), r >= 0x200b && r <= 0x200f, r == 0xfeff:
		return 0
	case r >= 0x1100 && r <= 0x115f, r >= 0x2e80 && r <= 0x303e, r >= 0x3041 && r <= 0xa4cf, r >= 0xa960 && r <= 0xa97c,
		r >= 0xac00 && r <= 0xd7a3, r >= 0xf900 && r <= 0xfaff, r >= 0xfe30 && r <= 0xfe6f, r >= 0xff01 && r <= 0xff60,
		r >= 0xffe0 && r <= 0xffe6, r >= 0x1f300 && r <= 0x1f64f, r >= 0x1f680 && r <= 0x1f6ff, r >= 0x1f900 && r <= 0x1f9ff,
		r >= 0x20000 && r <= 0x3fffd:
		return 2
	}
	return 1
}
