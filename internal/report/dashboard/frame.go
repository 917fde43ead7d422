package dashboard

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"

	"github.com/charmbracelet/x/ansi"

	"prefire/metrics"
)

// style is how a part of a line looks, as the parameters of a terminal's SGR sequence.
type style string

const (
	plain  style = ""
	strong style = "1"
	faint  style = "2"
	good   style = "32"
	bad    style = "31;1"
	mind   style = "33"
	curve  style = "36"
)

type span struct {
	text string
	as   style
}

type line []span

// block is a group of lines that belong together. Where there is no room, those of the highest rank go first.
type block struct {
	rank  int
	lines []line
	// list: lines may be taken off its end before it goes.
	list bool
}

// frame draws a state into width and height cells. Lines are cut, and blocks left out, so that nothing ever wraps or scrolls.
func frame(s *State, h *history, messages []string, width, height int) []line {
	if width < 1 || height < 1 {
		return nil
	}
	blocks := []block{
		{rank: 0, lines: head(s, width)},
		{rank: 1, lines: []line{counts(s)}},
		{rank: 3, lines: rates(s, h, width)},
		{rank: 2, lines: latencies(s, h, width)},
		{rank: 4, lines: client(s)},
		{rank: 5, lines: errorLines(s), list: true},
		{rank: 6, lines: messageLines(messages), list: true},
		{rank: 7, lines: []line{{{"Ctrl-C stops: requests in flight may finish; a second one quits at once", faint}}}},
	}
	blocks = slices.DeleteFunc(blocks, func(b block) bool { return len(b.lines) == 0 })
	fit(&blocks, height)
	// Blank lines between the blocks are for where there is room.
	airy := lines(blocks)+len(blocks)-1 <= height
	var out []line
	for i, b := range blocks {
		if airy && i > 0 {
			out = append(out, nil)
		}
		out = append(out, b.lines...)
	}
	for i := range out {
		out[i] = cut(out[i], width)
	}
	return out
}

func lines(blocks []block) int {
	n := 0
	for _, b := range blocks {
		n += len(b.lines)
	}
	return n
}

// fit takes lines off lists, and then blocks away, until the rest fits.
func fit(blocks *[]block, height int) {
	for lines(*blocks) > height {
		i := 0
		for j := range *blocks {
			if (*blocks)[j].rank > (*blocks)[i].rank {
				i = j
			}
		}
		b := &(*blocks)[i]
		over := lines(*blocks) - height
		switch {
		case (b.list || b.rank == 0) && len(b.lines) > over:
			b.lines = b.lines[:len(b.lines)-over]
		case b.rank == 0:
			b.lines = b.lines[:height]
		default:
			*blocks = slices.Delete(*blocks, i, i+1)
		}
	}
}

// cut shortens a line to a width in cells.
func cut(l line, width int) line {
	var out line
	for _, s := range l {
		w := ansi.StringWidth(s.text)
		if w > width {
			s.text = ansi.Truncate(s.text, width, "…")
			return append(out, s)
		}
		width -= w
		out = append(out, s)
	}
	return out
}

func head(s *State, width int) []line {
	title := line{{"prefire ", strong}, {clean(s.Title), plain}}
	if s.Phase == "" {
		return []line{title, {{"warming up the connections and the server, before the clock starts", mind}, {"  " + clock(s.At), faint}}}
	}
	name := clean(s.Phase)
	if s.Phases > 1 {
		name += fmt.Sprintf(" %d/%d", s.Index, s.Phases)
	}
	share, told := -1., clock(s.Elapsed)
	switch {
	case s.Requests > 0:
		share = float64(s.Returned) / float64(s.Requests)
		told = fmt.Sprintf("%d/%d, ", s.Returned, s.Requests) + told
	case s.Seconds > 0:
		share = s.Elapsed / s.Seconds
		told += " of " + clock(s.Seconds)
	}
	if share > 0.02 && share < 1 && !s.Draining && width >= 60 {
		told += ", " + clock(s.Elapsed*(1-share)/share) + " left"
	}
	if s.Draining {
		told += ", draining"
	}
	progress := line{{name + " ", strong}}
	if share >= 0 {
		share = min(share, 1)
		room := min(40, width-ansi.StringWidth(name)-len(told)-8)
		if room >= 8 {
			full := int(share * float64(room))
			progress = append(progress, span{strings.Repeat("█", full), good}, span{strings.Repeat("░", room-full), faint})
		}
		progress = append(progress, span{fmt.Sprintf(" %3.0f %% ", math.Floor(100*share)), plain})
	}
	return []line{title, append(progress, span{told, plain})}
}

func counts(s *State) line {
	l := line{{"sent ", faint}, {fmt.Sprint(s.Returned + s.InFlight), plain}, {"  ok ", faint}, {fmt.Sprint(s.OK), good}}
	how := plain
	if s.Failed > 0 {
		how = bad
	}
	l = append(l, span{"  failed ", faint}, span{fmt.Sprint(s.Failed), how})
	if s.Cancelled > 0 {
		l = append(l, span{"  cancelled ", faint}, span{fmt.Sprint(s.Cancelled), plain})
	}
	if s.Cold > 0 {
		l = append(l, span{"  cold ", faint}, span{fmt.Sprint(s.Cold), mind})
	}
	return l
}

// row is a figure with a curve.
func row(name, value, asked string, points []float64, width int) line {
	text := fmt.Sprintf("%-14s%9s %-10s", name, value, asked)
	l := line{{text[:14], faint}, {text[14:], plain}}
	if room := width - len(text) - 1; room >= 8 {
		l = append(l, span{" " + spark(points, room), curve})
	}
	return l
}

func rates(s *State, h *history, width int) []line {
	if s.Phase == "" {
		return nil
	}
	asked := ""
	if s.Asked > 0 {
		asked = fmt.Sprintf("of %d", s.Asked)
	}
	now := func(v float64) string {
		if len(h.list) == 0 {
			return "–"
		}
		return figure(v)
	}
	out := []line{
		row("in flight", fmt.Sprint(s.InFlight), asked, h.curve(func(x *sample) float64 { return x.inFlight }), width),
		row("requests/s", now(h.now.requests), "", h.curve(func(x *sample) float64 { return x.requests }), width),
	}
	if s.Input > 0 {
		out = append(out, row("input tok/s", now(h.now.input), "", h.curve(func(x *sample) float64 { return x.input }), width))
	}
	if s.Output > 0 {
		out = append(out, row("output tok/s", now(h.now.output), "", h.curve(func(x *sample) float64 { return x.output }), width))
	}
	return out
}

func latencies(s *State, h *history, width int) []line {
	if s.Latency.Count == 0 {
		return nil
	}
	wide := width >= 46
	heads := line{{fmt.Sprintf("%-10s%8s", "ms", "p50"), faint}}
	if wide {
		heads[0].text += fmt.Sprintf("%9s%9s%9s", "p90", "p99", "max")
	} else {
		heads[0].text += fmt.Sprintf("%9s", "p99")
	}
	room := width - ansi.StringWidth(heads[0].text) - 2
	if room >= 8 {
		what := "average of each second"
		if len(what) > room {
			what = "average"
		}
		heads[0].text += "  " + what
	}
	out := []line{heads}
	for _, f := range [...]struct {
		name string
		w    *metrics.Watched
		of   func(*sample) float64
	}{{"TTFT", &s.TTFT, func(x *sample) float64 { return x.ttft }}, {"ITL", &s.ITL, func(x *sample) float64 { return x.itl }},
		{"latency", &s.Latency, func(x *sample) float64 { return x.latency }}} {
		if f.w.Count == 0 {
			continue
		}
		text := fmt.Sprintf("%8s", figure(f.w.P50))
		if wide {
			text += fmt.Sprintf("%9s%9s%9s", figure(f.w.P90), figure(f.w.P99), figure(f.w.Max))
		} else {
			text += fmt.Sprintf("%9s", figure(f.w.P99))
		}
		l := line{{fmt.Sprintf("%-10s", f.name), strong}, {text, plain}}
		if room >= 8 {
			l = append(l, span{"  " + spark(h.curve(f.of), room), curve})
		}
		out = append(out, l)
	}
	return out
}

// late is from when on the client's own delays are marked, in ms at p99.
const late = 1

func client(s *State) []line {
	l := line{{"client ", faint}, {cmp.Or(s.Client.Transport, "–"), plain}}
	add := func(name, value string, how style) {
		l = append(l, span{"  " + name + " ", faint}, span{value, how})
	}
	if s.Client.Share >= 0 && s.Client.Cores > 0 {
		add("CPU", fmt.Sprintf("%.0f %% of %d cores", 100*s.Client.Share, s.Client.Cores), plain)
	}
	if s.Client.Machine >= 0 {
		how := plain
		if s.Client.Machine > 0.9 {
			how = mind
		}
		add("machine", fmt.Sprintf("%.0f %%", 100*s.Client.Machine), how)
	}
	if s.Client.Connections > 0 {
		add("connections", fmt.Sprint(s.Client.Connections), plain)
	}
	out := []line{l}
	if w := &s.ReceiveDelay; w.Count > 0 {
		l = line{{"      ", plain}}
		for _, d := range [...]struct {
			name string
			w    *metrics.Watched
		}{{"read late p99", w}, {"sent late p99", &s.SendLate}} {
			if d.w.Count > 0 {
				how := plain
				if d.w.P99 > late {
					how = mind
				}
				add(d.name, figure(d.w.P99)+" ms", how)
			}
		}
		out = append(out, l)
	}
	return out
}

// mostErrors is how many kinds of errors are shown.
const mostErrors = 8

func errorLines(s *State) []line {
	list := slices.Clone(s.Errors)
	slices.SortStableFunc(list, func(a, b metrics.ErrorCount) int { return cmp.Compare(b.Count, a.Count) })
	var out []line
	for i, e := range list {
		if i == mostErrors {
			break
		}
		what := clean(e.Error.Type)
		if e.Error.Code != 0 {
			what = fmt.Sprint(e.Error.Code) + " " + what
		}
		out = append(out, line{{fmt.Sprintf("%7d × ", e.Count), bad}, {strings.TrimSpace(what) + ": ", plain}, {clean(e.Error.Message), faint}})
	}
	return out
}

// mostMessages is how many of the program's last messages are shown.
const mostMessages = 6

func messageLines(messages []string) []line {
	var out []line
	for _, m := range slices.Backward(messages) {
		if len(out) == mostMessages {
			break
		}
		out = append(out, line{{clean(m), plain}})
	}
	return out // the newest first, so that it stays where there is little room
}

// clean makes a text from elsewhere fit for a terminal: one line, nothing that a terminal obeys.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case !unicode.IsPrint(r):
			return -1
		}
		return r
	}, s)
}

// spark draws the last points as a small curve over 0, right-aligned.
func spark(points []float64, width int) string {
	if len(points) > width {
		points = points[len(points)-width:]
	}
	top := 0.
	for _, v := range points {
		if !math.IsNaN(v) {
			top = max(top, v)
		}
	}
	bars := []rune("▁▂▃▄▅▆▇█")
	var b strings.Builder
	b.WriteString(strings.Repeat(" ", width-len(points)))
	for _, v := range points {
		switch {
		case math.IsNaN(v):
			b.WriteByte(' ')
		case top == 0:
			b.WriteRune(bars[0])
		default:
			b.WriteRune(bars[max(0, min(int(v/top*float64(len(bars))), len(bars)-1))])
		}
	}
	return b.String()
}

// figure writes a number in at most 7 letters.
func figure(v float64) string {
	switch {
	case v >= 1e7:
		return fmt.Sprintf("%.3gM", v/1e6)
	case v >= 1e5:
		return fmt.Sprintf("%.0fk", v/1e3)
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// clock writes seconds as 0:05 or 1:02:03.
func clock(s float64) string {
	n := int64(max(s, 0))
	if n >= 3600 {
		return fmt.Sprintf("%d:%02d:%02d", n/3600, n/60%60, n%60)
	}
	return fmt.Sprintf("%d:%02d", n/60, n%60)
}

// text is a frame as a terminal takes it.
func text(f []line) string {
	var b strings.Builder
	for i, l := range f {
		if i > 0 {
			b.WriteByte('\n')
		}
		for _, s := range l {
			if s.as == plain {
				b.WriteString(s.text)
				continue
			}
			fmt.Fprintf(&b, "\x1b[%sm%s\x1b[m", s.as, s.text)
		}
	}
	return b.String()
}
