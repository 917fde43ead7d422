package sweep

import (
	"encoding/json"
	"reflect"
	"testing"
)

func TestASettingReadsBack(t *testing.T) {
	for _, v := range []any{nil, true, int64(0), int64(-1 << 62), 0.0, 10.0, 0.1, 1e300, -2.5e-9, "", "10", "<a\u2028\n", []any{}, []any{int64(1), 1.0, "x", []any{nil}}, Map{},
		Map{{"z", int64(1)}, {"a", Map{{"b", []any{2.0}}}}}} {
		want := Variation{Index: 3, Label: "x", Values: []Setting{{"phases.profiling.rate", v, 2}}}
		raw, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got Variation
		if err := json.Unmarshal(raw, &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %#v, %v; want %#v", raw, got, err, want)
		}
	}
}
