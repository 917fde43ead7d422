package export

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"prefire/metrics"
)

// Hlog writes profile_export.hlog: an HdrHistogram log, format 1.3, with one interval from start to end for each metric, tagged with the
// metric's name. A comment a metric says how to read its values.
//
// The interval lines are written here and not by the library's log writer, whose column of the largest value is always divided by
// 1,000,000: here it is in the metric's display unit.
func Hlog(w io.Writer, hs []metrics.Histogram, start, end time.Time) error {
	log := hdrhistogram.NewHistogramLogWriter(w)
	if err := log.OutputLogFormatVersion(); err != nil {
		return err
	}
	for _, h := range hs {
		if err := log.OutputComment(fmt.Sprintf("[%s: a recorded value is %s times the value in %s; Interval_Max is in %s]", h.Def.Tag,
			strconv.FormatFloat(h.Scale, 'f', -1, 64), h.Def.Unit, h.Def.Display)); err != nil {
			return err
		}
	}
	if err := log.OutputStartTime(start.UnixMilli()); err != nil {
		return err
	}
	if err := log.OutputLegend(); err != nil {
		return err
	}
	for _, h := range hs {
		payload, err := h.Hist.EncodeV2()
		if err != nil {
			return fmt.Errorf("the histogram of %s cannot be encoded: %w", h.Def.Tag, err)
		}
		from, to := float64(start.UnixMilli())/1e3, float64(end.UnixMilli())/1e3
		top := float64(h.Hist.Max()) / h.Scale * h.Def.Factor()
		if _, err := fmt.Fprintf(w, "Tag=%s,%.3f,%.3f,%.3f,%s\n", h.Def.Tag, from, to-from, top, payload); err != nil {
			return err
		}
	}
	return nil
}
