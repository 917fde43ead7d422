package chart

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
)

// The plot in units of its own; the page scales it to the room there is.
const (
	width, height = 480, 270
	left, right   = 56, 16
	top, bottom   = 14, 48
	letter        = 7.6 // of a label, on average, where the page is narrow and its style sheet makes them larger
)

// SVG is the plot as an SVG element whose ids start with prefix. It holds no colours: the page's style sheet has them, by the classes of the
// tones.
func (c *Chart) SVG(prefix string) string {
	var b strings.Builder
	id := prefix + c.Name
	fmt.Fprintf(&b, `<svg id="%s" viewBox="0 0 %d %d" role="img" aria-labelledby="%s-title %s-desc">`, id, width, height, id, id)
	fmt.Fprintf(&b, `<title id="%s-title">%s</title><desc id="%s-desc">%s</desc>`, id, html.EscapeString(c.Title), id, html.EscapeString(c.Text))
	fmt.Fprintf(&b, `<clipPath id="%s-clip"><rect x="%d" y="%d" width="%d" height="%d"/></clipPath>`, id, left-3, top-4, width-left-right+7, height-top-bottom+7)
	c.axes(&b)
	fmt.Fprintf(&b, `<g clip-path="url(#%s-clip)">`, id)
	for i := range c.Layers {
		c.layer(&b, &c.Layers[i])
	}
	b.WriteString(`</g>`)
	c.markLabels(&b)
	b.WriteString(`</svg>`)
	return b.String()
}

func (c *Chart) px(v float64) float64 { return left + c.X.place(v)*(width-left-right) }

func (c *Chart) py(v float64) float64 { return height - bottom - c.Y.place(v)*(height-top-bottom) }

func (c *Chart) axes(b *strings.Builder) {
	for _, t := range c.Y.ticks(5) {
		y := coord(c.py(t.at))
		fmt.Fprintf(b, `<path class="grid" d="M%d %sH%d"/><text class="tick" x="%d" y="%s" dy="4" text-anchor="end">%s</text>`,
			left, y, width-right, left-6, y, html.EscapeString(t.label))
	}
	for _, t := range c.xTicks() {
		x := c.px(t.at)
		anchor := "middle"
		if x+float64(len(t.label))*letter/2 > width {
			anchor = "end"
			x = width - 1
		}
		fmt.Fprintf(b, `<path class="grid" d="M%s %dv4"/><text class="tick" x="%s" y="%d" text-anchor="%s">%s</text>`,
			coord(c.px(t.at)), height-bottom, coord(x), height-bottom+17, anchor, html.EscapeString(t.label))
	}
	fmt.Fprintf(b, `<path class="axis" d="M%d %dV%dH%d"/>`, left, top, height-bottom, width-right)
	fmt.Fprintf(b, `<text class="label" x="%d" y="%d" text-anchor="middle">%s</text>`, (left+width-right)/2, height-8, html.EscapeString(c.X.Label))
	fmt.Fprintf(b, `<text class="label" transform="translate(11 %d) rotate(-90)" text-anchor="middle">%s</text>`, (top+height-bottom)/2, html.EscapeString(c.Y.Label))
}

// xTicks are as many as their labels leave room for.
func (c *Chart) xTicks() []tick {
	for n := 7; ; n-- {
		ts := c.X.ticks(n)
		fits := true
		for i := 1; i < len(ts); i++ {
			room := c.px(ts[i].at) - c.px(ts[i-1].at)
			fits = fits && room >= float64(len(ts[i].label)+len(ts[i-1].label))*letter/2+8
		}
		if fits || n == 1 {
			return ts
		}
	}
}

func (c *Chart) layer(b *strings.Builder, l *Layer) {
	class := string(l.Tone)
	if l.Dashed {
		class += " dashed"
	}
	switch l.Kind {
	case Line:
		fmt.Fprintf(b, `<path class="line %s" d="%s"/>`, class, c.path(l.Points))
	case Dots:
		if l.Large {
			class += " large"
		}
		fmt.Fprintf(b, `<path class="dots %s" d="`, class)
		for _, p := range l.Points {
			if !broken(p) {
				fmt.Fprintf(b, "M%s %sh0", coord(c.px(p.X)), coord(c.py(p.Y)))
			}
		}
		b.WriteString(`"/>`)
	case Mark:
		for _, p := range l.Points {
			fmt.Fprintf(b, `<path class="line %s" d="M%s %dV%d"/>`, class, coord(c.px(p.X)), height-bottom, top)
		}
	default:
		if l.Kind == Bars {
			class = "bars " + class
		}
		fmt.Fprintf(b, `<path class="fill %s" d="`, class)
		for _, shape := range c.shapes(l) {
			b.WriteString(c.path(shape) + "z")
		}
		b.WriteString(`"/>`)
	}
}

// markLabels writes the names of the marks beside them, one below the other so that none lies over another.
func (c *Chart) markLabels(b *strings.Builder) {
	row := 0
	for i := range c.Layers {
		l := &c.Layers[i]
		if l.Kind != Mark || l.Name == "" {
			continue
		}
		for _, p := range l.Points {
			x, anchor := c.px(p.X)+4, "start"
			if x+float64(len(l.Name))*letter > width-right {
				x, anchor = c.px(p.X)-4, "end"
			}
			fmt.Fprintf(b, `<text class="mark %s" x="%s" y="%d" text-anchor="%s">%s</text>`, l.Tone, coord(x), top+8+row*15, anchor, html.EscapeString(l.Name))
			row++
		}
	}
}

// path is a line through points; a point without neighbours is a dot, where the line has round ends.
func (c *Chart) path(points []Point) string {
	var b strings.Builder
	for _, run := range runs(points) {
		for i, p := range run {
			op := byte('L')
			if i == 0 {
				op = 'M'
			}
			b.WriteByte(op)
			b.WriteString(coord(c.px(p.X)))
			b.WriteByte(' ')
			b.WriteString(coord(c.py(p.Y)))
		}
		if len(run) == 1 {
			b.WriteString("h0")
		}
	}
	return b.String()
}

// runs are the parts of a line between its breaks.
func runs(points []Point) [][]Point {
	var out [][]Point
	open := false
	for i, p := range points {
		switch {
		case broken(p):
			open = false
		case !open:
			out, open = append(out, points[i:i+1:i+1]), true
		default:
			last := len(out) - 1
			out[last] = points[i-len(out[last]) : i+1]
		}
	}
	return out
}

func broken(p Point) bool {
	return math.IsNaN(p.X) || math.IsNaN(p.Y) || math.IsInf(p.X, 0) || math.IsInf(p.Y, 0)
}

// coord is a coordinate to a tenth.
func coord(v float64) string {
	return strconv.FormatFloat(math.Round(min(max(v, -1e4), 1e4)*10)/10, 'f', -1, 64)
}
