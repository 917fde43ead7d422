package chart

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// tick is a labelled place of an axis.
type tick struct {
	at    float64
	label string
}

// ticks are about n places with round values.
func (a *Axis) ticks(n int) []tick {
	switch {
	case len(a.Names) > 0:
		out := make([]tick, len(a.Names))
		for i, name := range a.Names {
			out[i] = tick{float64(i + 1), name}
		}
		return out
	case a.Clock:
		return a.clockTicks(n)
	case a.Log && a.Max/a.Min >= 8:
		return a.logTicks(n)
	}
	return a.evenTicks(n)
}

func (a *Axis) evenTicks(n int) []tick {
	step := roundStep((a.Max - a.Min) / float64(n))
	var out []tick
	for i := math.Ceil(a.Min/step - 1e-9); i*step <= a.Max*(1+1e-12); i++ {
		out = append(out, tick{i * step, Short(i * step)})
	}
	return out
}

// roundStep is the next step of 1, 2 or 5 times a power of 10 that is not below raw.
func roundStep(raw float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(raw)))
	for _, f := range [...]float64{1, 2, 5} {
		if unit*f >= raw*(1-1e-9) {
			return unit * f
		}
	}
	return unit * 10
}

func (a *Axis) logTicks(n int) []tick {
	decades := math.Log10(a.Max / a.Min)
	factors := []float64{1}
	if decades*3 <= float64(n)+1 {
		factors = []float64{1, 2, 5}
	}
	skip := max(1, int(math.Ceil(decades/float64(n))))
	var out []tick
	for e := int(math.Floor(math.Log10(a.Min))); e <= int(math.Ceil(math.Log10(a.Max))); e++ {
		if e%skip != 0 {
			continue
		}
		for _, f := range factors {
			// From the text, so that 0.2 is 0.2.
			v, _ := strconv.ParseFloat(fmt.Sprintf("%ge%d", f, e), 64)
			if v >= a.Min && v <= a.Max {
				out = append(out, tick{v, Short(v)})
			}
		}
	}
	return out
}

func (a *Axis) clockTicks(n int) []tick {
	raw := (a.Max - a.Min) / float64(n)
	step := roundStep(raw)
	for _, s := range [...]float64{5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400} {
		if raw >= 2 && s >= raw {
			step = s
			break
		}
	}
	var out []tick
	for i := math.Ceil(a.Min/step - 1e-9); i*step <= a.Max*(1+1e-12); i++ {
		out = append(out, tick{i * step, a.clock(i * step)})
	}
	return out
}

// clock writes a time of the axis: 12 s, or 2:30 in minutes, or 1:05:00 in hours, by what the axis reaches.
func (a *Axis) clock(v float64) string {
	whole := int64(math.Round(v))
	switch {
	case a.Max < 180:
		return Short(v) + " s"
	case a.Max < 2*3600:
		return fmt.Sprintf("%d:%02d", whole/60, whole%60)
	}
	return fmt.Sprintf("%d:%02d:%02d", whole/3600, whole/60%60, whole%60)
}

// Short writes a figure in at most 4 digits: 0.0123, 4.567, 12.3k.
func Short(v float64) string {
	for _, u := range [...]struct {
		from   float64
		suffix string
	}{{1e9, "G"}, {1e6, "M"}, {1e4, "k"}} {
		if math.Abs(v) >= u.from*(1-1e-9) {
			unit := u.from
			if u.suffix == "k" {
				unit = 1e3
			}
			return digits(v/unit, 3) + u.suffix
		}
	}
	return digits(v, 4)
}

func digits(v float64, n int) string {
	if v == 0 || math.Abs(v) < 1e-9 {
		return "0"
	}
	s := strconv.FormatFloat(v, 'g', n, 64)
	if f, err := strconv.ParseFloat(s, 64); err == nil && math.Abs(f) >= 1e-4 {
		s = strconv.FormatFloat(f, 'f', -1, 64)
	}
	return strings.Replace(s, "e-0", "e-", 1)
}
