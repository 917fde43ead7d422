package procedure

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"prefire/metrics"
)

// recordLine is one line of profile_export.jsonl, of aiperf 0.9 to 0.13 or of prefire.
type recordLine struct {
	Metadata *struct {
		Phase     string `json:"benchmark_phase"`
		Cancelled bool   `json:"was_cancelled"`
		Start     int64  `json:"request_start_ns"`
		End       int64  `json:"request_end_ns"`
	} `json:"metadata"`
	Metrics map[string]recordMetric `json:"metrics"`
	Error   json.RawMessage         `json:"error"`
	// Prefire is there in prefire's own records.
	Prefire *struct {
		Cold []string `json:"cold"`
	} `json:"prefire"`
}

// cold reports whether the request was cold, as prefire wrote it down, or else by the signs of Debias.
func (l *recordLine) cold() bool {
	if l.Prefire != nil {
		return len(l.Prefire.Cold) > 0
	}
	s := tellCold(l.number)
	return s.cold()
}

type recordMetric struct {
	Value json.RawMessage `json:"value"`
	Unit  metrics.Unit    `json:"unit"`
}

// answered reports whether the request succeeded: only then are its times measurements.
func (l *recordLine) answered() bool {
	return !l.Metadata.Cancelled && (len(l.Error) == 0 || string(l.Error) == "null")
}

// number is a metric of the record; a time is in ms.
func (l *recordLine) number(tag string) (float64, bool) {
	m, ok := l.Metrics[tag]
	if !ok {
		return 0, false
	}
	return m.number()
}

// eachRecord calls take for each record of profiling. An error names the line; cut says that the last line was broken off, as a run that was
// killed leaves it, and is left out.
func eachRecord(records io.Reader, take func(*recordLine)) (cut bool, err error) {
	return eachLine(records, func(line []byte) error {
		var l recordLine
		if err := json.Unmarshal(line, &l); err != nil {
			return err
		}
		if l.Metadata == nil || l.Metrics == nil {
			return errHalfRecord
		}
		if measured(l.Metadata.Phase) {
			take(&l)
		}
		return nil
	})
}

// errHalfRecord is the error of a line that is JSON and no record.
var errHalfRecord = errors.New("it has no metadata or no metrics")

// measured reports whether records of a phase are part of the result; aiperf before 0.11 named none.
func measured(phase string) bool { return phase == "profiling" || phase == "" }

// eachLine calls take for each line, whose memory is used again. A line that take refuses ends the reading, unless it is the last one and was
// broken off.
func eachLine(records io.Reader, take func(line []byte) error) (cut bool, err error) {
	in := bufio.NewReaderSize(records, 1<<16)
	var long []byte // a line that the buffer does not hold
	for n := 1; ; n++ {
		line, err := in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			long = long[:0]
			for errors.Is(err, bufio.ErrBufferFull) {
				long = append(long, line...)
				line, err = in.ReadSlice('\n')
			}
			long = append(long, line...)
			line = long
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return false, fmt.Errorf("line %d: %w", n, err)
		}
		last := err != nil
		if len(line) == 0 {
			return false, nil
		}
		if err := take(line); err != nil {
			if last && !errors.Is(err, errHalfRecord) {
				return true, nil
			}
			return false, fmt.Errorf("line %d is no record: %w", n, err)
		}
		if last {
			return false, nil
		}
	}
}

// ReadLength reads what the records of a run at one input length say, and the requests of its file of censored ones.
func ReadLength(asked int, records, censored io.Reader) (Length, error) {
	l := Length{Asked: asked}
	var all []StepRequest
	_, err := eachRecord(records, func(r *recordLine) {
		if r.Metadata.Cancelled {
			return // by plan
		}
		all = append(all, StepRequest{Start: r.Metadata.Start, End: r.Metadata.End, Failed: !r.answered()})
		if !r.answered() || r.Prefire != nil && len(r.Prefire.Cold) > 0 {
			return
		}
		s := Sample{Start: r.Metadata.Start}
		s.TTFT, _ = r.number("time_to_first_token")
		s.Prefill, _ = r.number("prefill_throughput_per_user")
		s.Output, _ = r.number("output_token_throughput_per_user")
		s.Server, _ = r.number("usage_prompt_tokens")
		l.Samples = append(l.Samples, s)
	})
	if err == nil {
		err = eachCensored(censored, func(r *recordLine) {
			all = append(all, StepRequest{Start: r.Metadata.Start, End: r.Metadata.End, Censored: true})
		})
	}
	sortByStart(all)
	o := overdueOf(all)
	l.Lost, l.Overdue = lost(all), o.Count()
	return l, err
}

// eachCensored calls take for each request of profiling in a file of censored ones.
func eachCensored(censored io.Reader, take func(*recordLine)) error {
	in := json.NewDecoder(censored)
	for {
		var l recordLine
		if err := in.Decode(&l); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("a censored request cannot be read: %w", err)
		}
		if l.Metadata != nil && l.Metadata.Phase == "profiling" {
			take(&l)
		}
	}
}

// ReadStepRequests reads the requests of a run's records with the metrics asked for, and those of its file of censored ones, where there is one.
func ReadStepRequests(records, censored io.Reader, tags []string) ([]StepRequest, error) {
	var out []StepRequest
	take := func(l *recordLine, r StepRequest) {
		r.Start, r.End, r.Values = l.Metadata.Start, l.Metadata.End, make([]float64, len(tags))
		for i, tag := range tags {
			v, ok := l.number(tag)
			if r.Values[i] = v; !ok || !r.answered() {
				r.Values[i] = math.NaN()
			}
		}
		out = append(out, r)
	}
	_, err := eachRecord(records, func(l *recordLine) { take(l, StepRequest{Failed: !l.answered(), Cold: l.cold()}) })
	if err != nil || censored == nil {
		return out, err
	}
	err = eachCensored(censored, func(l *recordLine) { take(l, StepRequest{Censored: true}) })
	return out, err
}

// ReadMetrics gives every single value of the answered requests of a run's records, in the order of the file: its metric, whether the request
// was cold, and the value in the unit that it has there.
func ReadMetrics(records io.Reader, take func(tag string, cold bool, v float64)) error {
	_, err := eachRecord(records, func(l *recordLine) {
		if !l.answered() {
			return
		}
		for tag, m := range l.Metrics {
			var v float64
			if json.Unmarshal(m.Value, &v) == nil {
				take(tag, len(l.Prefire.Cold) > 0, v)
			}
		}
	})
	return err
}
