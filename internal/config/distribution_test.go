package config

import (
	"reflect"
	"strings"
	"testing"
)

func TestDistributions(t *testing.T) {
	f := func(v float64) *float64 { return &v }
	for _, c := range []struct {
		yaml string
		want Length
		echo string
	}{
		{"{mean: 512, median: 400}", Length{Mean: 512, Shape: &LengthShape{Median: 400}}, `{"mean":512.0,"median":400.0}`},
		{"{type: lognormal, mean: 512, median: 400, min: 10}", Length{Mean: 512, Shape: &LengthShape{Median: 400, Min: f(10)}}, `{"min":10.0,"mean":512.0,"median":400.0}`},
		{"{mean: 100, stddev: 50, max: 120}", Length{Mean: 100, Stddev: 50, Shape: &LengthShape{Max: f(120)}}, `{"max":120.0,"mean":100.0,"stddev":50.0}`},
		{"{peaks: [{mean: 100, stddev: 20, weight: 60}, {mean: 300, median: 200, weight: 40}]}", Length{Mean: 180, Shape: &LengthShape{Parts: []LengthPart{
			{60, Length{Mean: 100, Stddev: 20}}, {40, Length{Mean: 300, Shape: &LengthShape{Median: 200}}}}}},
			`{"peaks":[{"distribution":{"mean":100.0,"stddev":20.0},"weight":60.0},{"distribution":{"mean":300.0,"median":200.0},"weight":40.0}]}`},
		{"{peaks: [{value: 8}, {mean: 10}]}", Length{Mean: 9, Shape: &LengthShape{Parts: []LengthPart{{1, Length{Mean: 8}}, {1, Length{Mean: 10}}}}},
			`{"peaks":[{"distribution":{"value":8.0},"weight":1.0},{"distribution":{"mean":10.0},"weight":1.0}]}`},
		{"{points: [{value: 128, weight: 3}, {value: 512}], max: 500}", Length{Mean: 224, Shape: &LengthShape{Max: f(500), Parts: []LengthPart{
			{3, Length{Mean: 128}}, {1, Length{Mean: 512}}}}}, `{"max":500.0,"points":[{"value":128.0,"weight":3.0},{"value":512.0}]}`},
		{"{type: normal, mean: 7}", Length{Mean: 7}, `{"mean":7.0}`},
	} {
		yaml := strings.Replace(minimal("phases: {type: concurrency, requests: 1}"), "{isl: 8}", "{isl: "+c.yaml+", turn_delay: "+c.yaml+"}", 1)
		got := mustParse(t, yaml)
		if !reflect.DeepEqual(got.Dataset.Input, c.want) || !reflect.DeepEqual(got.Dataset.Delay, c.want) {
			t.Errorf("%s: %+v and %+v, want %+v", c.yaml, got.Dataset.Input, got.Dataset.Delay, c.want)
		}
		b, err := got.Input.MarshalJSON()
		if err != nil || !strings.Contains(string(b), `"isl":`+c.echo) || !strings.Contains(string(b), `"turn_delay":`+c.echo) {
			t.Errorf("%s: %s (%v), want %s in it twice", c.yaml, b, err, c.echo)
		}
		if got := mustParse(t, yaml, "--isl", "9").Dataset.Input; got.Mean != 9 || got.Shape != nil {
			t.Errorf("%s and --isl 9: %+v", c.yaml, got)
		}
	}
	for _, c := range []struct{ yaml, want string }{
		{"{median: 3}", "isl.mean: Field required: a median stands beside a mean."},
		{"{mean: 3, median: 4}", "isl: Log-normal median (4.0) must be <= mean (3.0)."},
		{"{mean: 3, median: 2, stddev: 1}", "isl.stddev: a length with median has no stddev."},
		{"{value: 3, mean: 2}", "isl.mean: a length with value has no mean."},
		{"{stddev: 2}", "isl.mean: Field required."},
		{"{peaks: [{mean: 3}]}", "isl.peaks: List should have at least 2 items after validation, not 1."},
		{"{peaks: 3}", "isl.peaks: Input should be a valid list; found 3"},
		{"{peaks: [{mean: 3}, 4]}", "isl.peaks[1]: Input should be a valid dictionary; found 4"},
		{"{peaks: [{mean: 3, weight: 0}, {mean: 4, weight: 0}]}", "isl.peaks: all weights are 0."},
		{"{peaks: [{mean: 3, weight: -1}, {mean: 4}]}", "isl.peaks[0].weight: Input should be greater than or equal to 0"},
		{"{points: []}", "isl.points: List should have at least 1 items after validation, not 0."},
		{"{points: [{weight: 3}]}", "isl.points[0].value: Field required."},
		{"{points: [{value: 3, mean: 2}]}", "isl.points[0].mean: Extra inputs are not permitted"},
		{"{mean: 3, min: 5, max: 4}", "isl: Distribution bounds invalid: min=5.0 > max=4.0; swap them or remove one."},
		{"{mean: 3, type: empirical}", "isl.type: its keys make it normal; found 'empirical'"},
		{"{mean: 3, max: .inf}", "isl.max: Input should be a valid number"},
	} {
		yaml := strings.Replace(minimal("phases: {type: concurrency, requests: 1}"), "{isl: 8}", "{isl: "+c.yaml+"}", 1)
		if got := message(t, yaml); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s\nwant %s", c.yaml, got, c.want)
		}
	}
}
