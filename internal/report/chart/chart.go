// Package chart draws one plot in two ways: as SVG to stand in an HTML page, whose style sheet gives the colours, and through gonum/plot as a
// file of its own.
package chart

import "math"

// Chart is one plot.
type Chart struct {
	Name   string // of lower case, digits and underscores
	Title  string
	Text   string // what the plot shows, for those who cannot see it
	X, Y   Axis
	Layers []Layer // drawn in this order
}

// Axis is one axis. Log axes hold values above 0 alone; what is below Min is drawn at Min.
type Axis struct {
	Label    string
	Min, Max float64
	Log      bool
	Clock    bool     // values are s, written as times
	Names    []string // what stands at 1, 2, 3, …; nil = numbers
}

// Kind is how a layer is drawn.
type Kind int

const (
	Line Kind = iota
	Band      // between Points' Y and To
	Area      // from the axis up to Points
	Dots
	Bars // from Points' X to To, Points' Y high
	Mark // a vertical line at each X
)

// Tone is what a layer's colour stands for; the colours are the style sheet's.
type Tone string

const (
	Main   Tone = "main"
	Second Tone = "second"
	Bad    Tone = "bad"
	Quiet  Tone = "quiet"
)

// Point is a point of the plot. NaN breaks a line.
type Point struct{ X, Y float64 }

// Layer is one series of a plot.
type Layer struct {
	Name   string // in the key; "" = not there
	Kind   Kind
	Tone   Tone
	Dashed bool
	Large  bool // of Dots: few of them, each to be seen
	Points []Point
	To     []float64 // of a Band the lower ends, of Bars the right ones
}

// Span widens the axis to hold a value; the first one sets it.
func (a *Axis) Span(v float64) {
	if math.IsNaN(v) || math.IsInf(v, 0) || a.Log && v <= 0 {
		return
	}
	if a.Min == 0 && a.Max == 0 {
		a.Min, a.Max = v, v
	}
	a.Min, a.Max = min(a.Min, v), max(a.Max, v)
}

// Settle makes an axis of what it spans: from 0 where it is not a log axis and zero asks for it, with some room above.
func (a *Axis) Settle(zero bool) {
	if a.Log {
		if a.Max <= 0 {
			a.Min, a.Max = 0.1, 10
		}
		room := math.Pow(a.Max/a.Min, 0.04)
		room = max(room, 1.02)
		a.Min, a.Max = a.Min/room, a.Max*room
		return
	}
	if zero {
		a.Min = min(a.Min, 0)
	}
	if a.Max <= a.Min {
		a.Max = a.Min + max(1, math.Abs(a.Min)*0.1)
	}
	if !a.Clock {
		a.Max += (a.Max - a.Min) * 0.06
	}
}

// place is where a value lies, from 0 at Min to 1 at Max.
func (a *Axis) place(v float64) float64 {
	if a.Log {
		return math.Log(max(v, a.Min)/a.Min) / math.Log(a.Max/a.Min)
	}
	return (v - a.Min) / (a.Max - a.Min)
}
