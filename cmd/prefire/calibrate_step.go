package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"slices"
	"time"

	"prefire/metrics"
)

// The load of a calibration: each stream gets one token every 20 ms. Answers are of unequal length, so that streams which begin at once have
// their later first tokens at times of their own. They are not short: an answer's last token shares its read with the end of the stream more
// often than not, so that its time is known to one gap, and with 74 gaps on average that keeps the limit of ITL.
const (
	calibrationTokens = 50 // a second and stream
	calibrationITL    = time.Second / calibrationTokens
	calibrationTTFT   = 100 * time.Millisecond
	calibrationJitter = 0.1 // the streams do not march in step
	calibrationISL    = 128
	calibrationOSL    = 75
	calibrationOSLStd = 25
	calibrationAnswer = calibrationTTFT + (calibrationOSL-1)*calibrationITL // of the mean length
	// calibrationEdge is what is left out of a step at its start, when all streams begin at once, and at its end, where requests are cut.
	calibrationEdge = calibrationAnswer + 100*time.Millisecond
	// windowsOfStep is how many windows the rest is judged in, each by itself.
	windowsOfStep = 6
	// windowsHeld is the share of them that must keep the limits: a stall of the machine spoils one, too many streams spoil all.
	windowsHeld = 0.75
	// windowAnswers is how many first tokens a window must expect before it is judged for having none.
	windowAnswers = 5
	// deliveredShare of the asked tokens a second must come, or the streams were not what the figure says.
	deliveredShare = 0.95
	// sendLateShare is how late the p99 of sends may be, as a share of the average request latency: so much of a slot's time stands empty.
	sendLateShare = 0.02
)

// A limit is what a number of streams may break.
type limit string

const (
	limitTTFT    limit = "TTFT bound"
	limitITL     limit = "ITL bound"
	limitGaps    limit = "gaps within one read"
	limitSend    limit = "send lateness"
	limitReceive limit = "receive delay"
	limitRate    limit = "token rate"
	limitErrors  limit = "failed requests"
	limitEmpty   limit = "no answers"
)

// stepRecord is what a step reads of a line of profile_export.jsonl.
type stepRecord struct {
	Metadata struct {
		Start int64 `json:"request_start_ns"`
	} `json:"metadata"`
	Metrics struct {
		TTFT    stepValue `json:"time_to_first_token"`
		ITL     stepValue `json:"inter_token_latency"`
		Latency stepValue `json:"request_latency"`
		Tokens  stepValue `json:"output_sequence_length"`
	} `json:"metrics"`
	Error   json.RawMessage `json:"error"`
	Prefire struct {
		TTFTSlack int64 `json:"ttft_slack_us"`
		LastSlack int64 `json:"last_slack_us"`
		Late      int64 `json:"late_us"`
		SendLate  int64 `json:"send_late_us"`
		Chunks    int64 `json:"chunks"`
		Shared    int64 `json:"shared_reads"`
	} `json:"prefire"`
}

type stepValue struct {
	Value float64 `json:"value"` // ms, or a count
}

// window gathers what happened in one part of a step. Times are in ms.
type window struct {
	ttft, ttftSlack, itl, itlSlack, latency, sendLate, late *metrics.Series

	gaps, shared, failed int64
}

func newWindow() *window {
	s := func() *metrics.Series {
		return metrics.NewSeries(metrics.SeriesOptions{Unit: metrics.Milliseconds, Cap: math.MaxInt})
	}
	return &window{ttft: s(), ttftSlack: s(), itl: s(), itlSlack: s(), latency: s(), sendLate: s(), late: s()}
}

// first takes a request whose first token came in this window.
func (w *window) first(r *stepRecord) {
	m, p := &r.Metrics, &r.Prefire
	w.sendLate.Add(float64(p.SendLate) / 1e3)
	w.ttft.Add(m.TTFT.Value)
	w.latency.Add(m.Latency.Value)
	w.ttftSlack.Add(float64(p.TTFTSlack) / 1e3)
	w.late.Add(float64(p.Late) / 1e3)
}

// gapsOf takes a request whose ITL belongs to this window.
func (w *window) gapsOf(r *stepRecord) {
	m, p := &r.Metrics, &r.Prefire
	w.itl.Add(m.ITL.Value)
	w.itlSlack.Add(float64(max(p.TTFTSlack, p.LastSlack)) / 1e3 / (m.Tokens.Value - 1))
	w.gaps += max(0, p.Chunks-1)
	w.shared += p.Shared
}

// windows deals a step's records out. length is the step's.
func windows(records []stepRecord, length time.Duration) []*window {
	all := make([]*window, windowsOfStep)
	for i := range all {
		all[i] = newWindow()
	}
	if len(records) == 0 {
		return all
	}
	begin := slices.MinFunc(records, func(a, b stepRecord) int { return cmp.Compare(a.Metadata.Start, b.Metadata.Start) }).Metadata.Start
	from, whole := float64(calibrationEdge), float64(length-2*calibrationEdge)
	at := func(r *stepRecord, ms float64) *window {
		since := float64(r.Metadata.Start-begin) + ms*1e6
		if n := int(math.Floor((since - from) / whole * windowsOfStep)); n >= 0 && n < windowsOfStep {
			return all[n]
		}
		return nil
	}
	for i := range records {
		r := &records[i]
		m, p := &r.Metrics, &r.Prefire
		if len(r.Error) > 0 {
			if w := at(r, 0); w != nil {
				w.failed++
			}
			continue
		}
		if m.TTFT.Value == 0 {
			continue // cold: its times are no measurement
		}
		if w := at(r, m.TTFT.Value); w != nil {
			w.first(r)
		}
		// A request's ITL rests on its first and its last token. It belongs to the window of the worse one: a stall of the machine then
		// spoils the window that it was in, and no other.
		worse := m.Latency.Value
		if p.TTFTSlack > p.LastSlack {
			worse = m.TTFT.Value
		}
		if w := at(r, worse); w != nil && m.ITL.Value > 0 && m.Tokens.Value > 1 {
			w.gapsOf(r)
		}
	}
	return all
}

// figures are a window's, or the middle ones of several; times in ms.
type figures struct {
	TTFTBound float64 `json:"ttft_bound_p99_ms"`
	ITLBound  float64 `json:"itl_bound_p99_ms"`
	GapsLost  float64 `json:"gaps_in_one_read_share"`
	SendLate  float64 `json:"send_lateness_p99_ms"`
	Receive   float64 `json:"receive_delay_p99_ms"`
	Rate      float64 `json:"tokens_per_second_per_stream"`
}

// judge gives a window's figures and the limits it breaks. The limits are those of the verdicts. few says that the step has too few streams
// for a first token in every window: what is missing is then not judged.
func (w *window) judge(few bool) (f figures, broken []limit) {
	switch {
	case w.failed > 0:
		return f, []limit{limitErrors}
	case !few && (w.ttft.Count() == 0 || w.itl.Count() == 0):
		return f, []limit{limitEmpty}
	}
	mean := func(s *metrics.Series) float64 { return s.Sum() / float64(s.Count()) }
	p99 := func(s *metrics.Series) float64 { v, _ := s.Quantile(99); return v }
	check := func(l limit, fits bool) {
		if !fits {
			broken = append(broken, l)
		}
	}
	if w.ttft.Count() > 0 {
		f.TTFTBound, f.SendLate, f.Receive = p99(w.ttftSlack), p99(w.sendLate), p99(w.late)
		check(limitTTFT, f.TTFTBound <= ttftLimit(mean(w.ttft)))
		check(limitSend, f.SendLate <= sendLateShare*mean(w.latency))
		// A token that lies in the kernel for longer than a gap shares its read with the next one.
		check(limitReceive, f.Receive <= ms(int64(calibrationITL)))
	}
	if w.itl.Count() > 0 {
		f.ITLBound, f.GapsLost, f.Rate = p99(w.itlSlack), float64(w.shared)/float64(max(1, w.gaps)), 1000/mean(w.itl)
		check(limitITL, itlFits(mean(w.itlSlack), f.ITLBound, mean(w.itl)))
		check(limitGaps, f.GapsLost <= gapsLostShare)
		check(limitRate, f.Rate >= deliveredShare*calibrationTokens)
	}
	return f, broken
}

// nothing says that there is nothing in the window to judge.
func (w *window) nothing() bool { return w.failed == 0 && w.ttft.Count() == 0 && w.itl.Count() == 0 }

// step is what came of one number of streams.
type step struct {
	Streams int     `json:"streams"`
	Held    bool    `json:"held"`
	Windows int     `json:"windows"`
	Fit     int     `json:"windows_held"`
	Limits  []limit `json:"limits_broken,omitempty"` // those that its windows broke, the commonest first; only where it did not hold
	Error   string  `json:"error,omitempty"`
	Figures figures `json:"figures"` // the middle ones of its windows
	// Client and Machine are shares of the cores' time; absent where the system does not tell.
	Client  *float64 `json:"process_share_of_cores,omitempty"`
	Machine *float64 `json:"machine_share_of_cores,omitempty"`
}

// readStep reads a step's records from its profile_export.jsonl. Where no request has ended there is no file.
func readStep(path string) (records []stepRecord, err error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer closeInto(&err, file)
	for d := json.NewDecoder(bufio.NewReader(file)); ; {
		var r stepRecord
		if err := d.Decode(&r); err == io.EOF {
			return records, nil
		} else if err != nil {
			return nil, fmt.Errorf("a record of the calibration cannot be read: %w", err)
		}
		records = append(records, r)
	}
}

// judgeStep judges a step of so many streams by its records. length is the step's.
func judgeStep(streams int, records []stepRecord, length time.Duration) step {
	s := step{Streams: streams}
	var all []figures
	broken := map[limit]int{}
	expected := float64(streams) * float64(length-2*calibrationEdge) / windowsOfStep / float64(calibrationAnswer)
	few := expected < windowAnswers
	for _, w := range windows(records, length) {
		if few && w.nothing() {
			continue
		}
		f, limits := w.judge(few)
		s.Windows++
		if len(limits) == 0 {
			s.Fit++
		}
		for _, l := range limits {
			broken[l]++
		}
		if f != (figures{}) {
			all = append(all, f)
		}
	}
	s.Figures = middle(all)
	s.Held = s.Windows > 0 && float64(s.Fit) >= windowsHeld*float64(s.Windows)
	if !s.Held {
		s.Limits = slices.Sorted(maps.Keys(broken))
		slices.SortStableFunc(s.Limits, func(a, b limit) int { return broken[b] - broken[a] })
	}
	return s
}

// middle takes the median of each figure.
func middle(all []figures) figures {
	median := func(of func(*figures) float64) float64 {
		if len(all) == 0 {
			return 0
		}
		v := make([]float64, len(all))
		for i := range all {
			v[i] = of(&all[i])
		}
		slices.Sort(v)
		return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
	}
	return figures{
		TTFTBound: median(func(f *figures) float64 { return f.TTFTBound }), ITLBound: median(func(f *figures) float64 { return f.ITLBound }),
		GapsLost: median(func(f *figures) float64 { return f.GapsLost }), SendLate: median(func(f *figures) float64 { return f.SendLate }),
		Receive: median(func(f *figures) float64 { return f.Receive }), Rate: median(func(f *figures) float64 { return f.Rate }),
	}
}
