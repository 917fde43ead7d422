package livemetrics

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"prefire/metrics"
)

// parsed is the text as Prometheus reads it.
func parsed(t *testing.T, r *Run) map[string]*dto.MetricFamily {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, r); err != nil {
		t.Fatal(err)
	}
	p := expfmt.NewTextParser(model.LegacyValidation)
	families, err := p.TextToMetricFamilies(&b)
	if err != nil {
		t.Fatal(err)
	}
	return families
}

func watched() metrics.Watched {
	w := metrics.Watched{Count: 10, Sum: 1234.5, P50: 100, Max: 500}
	for _, b := range Bounds() {
		n := int64(0)
		if b >= 100 {
			n = 7
		}
		if b >= 500 {
			n = 10
		}
		w.Within = append(w.Within, n)
	}
	return w
}

// The text is Prometheus', and has what the run has.
func TestWrite(t *testing.T) {
	evil := "a\"b\\c\nd{}\xff"
	profiling := Phase{Name: "profiling " + evil, Kind: "profiling", Running: true}
	profiling.Counts = metrics.Counts{Sent: 20, OK: 14, Failed: 3, Cancelled: 2, Censored: 1}
	profiling.Cold, profiling.Input, profiling.Output = 4, 14336, 448
	profiling.TTFT, profiling.ITL, profiling.Latency, profiling.ReceiveDelay, profiling.SendLate = watched(), watched(), watched(), watched(), watched()
	f := parsed(t, &Run{Version: "1.2", Model: evil, URL: "http://127.0.0.1:8000", Transport: "reactor", Phases: []Phase{{Name: "warmup", Kind: "warmup"}, profiling},
		InFlight: 12, Draining: true, Connections: 13, Dialled: 17, Cores: 2, CPU: 1.25})
	name := strings.ReplaceAll(evil, "\xff", "\uFFFD")
	value := func(family string, want ...string) float64 {
		for _, m := range f[family].GetMetric() {
			var have []string
			for _, l := range m.GetLabel() {
				have = append(have, l.GetName()+"="+l.GetValue())
			}
			if slices.Sort(have); slices.Equal(have, want) {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
		t.Errorf("there is no %s with %q in %v", family, want, f[family])
		return -1
	}
	phase := "phase=profiling " + name
	for _, c := range []struct {
		family string
		labels []string
		want   float64
	}{
		{"prefire_info", []string{"model=" + name, "transport=reactor", "url=http://127.0.0.1:8000", "version=1.2"}, 1},
		{"prefire_phase_running", []string{"kind=profiling", phase}, 1}, {"prefire_phase_running", []string{"kind=warmup", "phase=warmup"}, 0},
		{"prefire_draining", nil, 1}, {"prefire_requests_in_flight", nil, 12}, {"prefire_client_connections", nil, 13},
		{"prefire_client_connections_dialled_total", nil, 17}, {"prefire_client_cores", nil, 2}, {"prefire_client_cpu_seconds_total", nil, 1.25},
		{"prefire_requests_total", []string{"outcome=ok", phase}, 14}, {"prefire_requests_total", []string{"outcome=failed", phase}, 3},
		{"prefire_requests_total", []string{"outcome=cancelled", phase}, 2}, {"prefire_requests_total", []string{"outcome=censored", phase}, 1},
		{"prefire_cold_requests_total", []string{phase}, 4}, {"prefire_input_tokens_total", []string{phase}, 14336}, {"prefire_output_tokens_total", []string{phase}, 448},
	} {
		if got := value(c.family, c.labels...); got != c.want {
			t.Errorf("%s%q is %v, want %v", c.family, c.labels, got, c.want)
		}
	}
	for _, family := range []string{"prefire_time_to_first_token_seconds", "prefire_inter_token_latency_seconds", "prefire_request_latency_seconds",
		"prefire_client_receive_delay_seconds", "prefire_client_send_lateness_seconds"} {
		list := f[family].GetMetric()
		if len(list) != 2 || f[family].GetType() != dto.MetricType_HISTOGRAM {
			t.Fatalf("%s: %v", family, f[family])
		}
		if h := list[0].GetHistogram(); h.GetSampleCount() != 0 || h.GetSampleSum() != 0 || len(h.GetBucket()) != len(Bounds())+1 {
			t.Errorf("%s of a phase without a value: %v", family, h)
		}
		h := list[1].GetHistogram()
		if h.GetSampleCount() != 10 || h.GetSampleSum() != 1.2345 {
			t.Errorf("%s: %d values, %v s", family, h.GetSampleCount(), h.GetSampleSum())
		}
		before := uint64(0)
		for i, b := range h.GetBucket() {
			want := uint64(0)
			switch {
			case b.GetUpperBound() >= 0.5:
				want = 10
			case b.GetUpperBound() >= 0.1:
				want = 7
			}
			if b.GetCumulativeCount() != want || want < before || i < len(Bounds()) && b.GetUpperBound() != Bounds()[i]/1e3 {
				t.Errorf("%s: bucket up to %v has %d, want %d", family, b.GetUpperBound(), b.GetCumulativeCount(), want)
			}
			before = want
		}
	}
}

// What is not known is not there, and a run that has not begun has no phase.
func TestWriteOfLittle(t *testing.T) {
	f := parsed(t, &Run{CPU: -1})
	if f["prefire_client_cpu_seconds_total"] != nil || len(f["prefire_requests_total"].GetMetric()) != 0 || f["prefire_requests_in_flight"].GetMetric()[0].GetGauge().GetValue() != 0 {
		t.Errorf("%v", f)
	}
	if !slices.IsSorted(Bounds()) {
		t.Error("the bounds do not rise")
	}
}
