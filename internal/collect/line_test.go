package collect

import (
	"encoding/json"
	"reflect"
	"testing"

	"prefire/metrics"
)

// set gives v and everything in it a value that is not zero, another one for each n.
func set(t *testing.T, v reflect.Value, n *int) {
	t.Helper()
	*n++
	switch k := v.Kind(); {
	case k == reflect.Bool:
		v.SetBool(true)
	case k >= reflect.Int && k <= reflect.Int64:
		v.SetInt(int64(*n % 100))
	case k >= reflect.Uint && k <= reflect.Uint64:
		v.SetUint(uint64(*n % 100))
	case k == reflect.Float64:
		v.SetFloat(float64(*n) / 8)
	case k == reflect.String:
		v.SetString("s\n\"<&>\u2028é" + string(rune('a'+*n%26)))
	case k == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		set(t, v.Index(0), n)
		set(t, v.Index(1), n)
	case k == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		set(t, v.Elem(), n)
	case k == reflect.Struct:
		for i := range v.NumField() {
			set(t, v.Field(i), n)
		}
	default:
		t.Fatalf("a record holds a %s, which this test cannot fill in", v.Type())
	}
}

// What is written of a record reads back as the record, whichever of its fields are there.
func TestLinesReadBack(t *testing.T) {
	w := newFieldWriter(reflect.TypeFor[metrics.Record]())
	var records []metrics.Record
	full, n := metrics.Record{}, 0
	set(t, reflect.ValueOf(&full).Elem(), &n)
	records = append(records, metrics.Record{}, full)
	for i := range reflect.TypeFor[metrics.Record]().NumField() {
		with, without := metrics.Record{}, full
		set(t, reflect.ValueOf(&with).Elem().Field(i), &n)
		reflect.ValueOf(&without).Elem().Field(i).SetZero()
		records = append(records, with, without)
	}
	for _, r := range records {
		for _, want := range []Line{{Record: r}, {Record: r, Output: "a \"b\"\n<c>\x01é"}, {Record: r, Reason: "why"}, {r, "x", "y", "z"}} {
			raw, err := w.appendLine(nil, &want.Record, []byte(want.Output), []byte(want.Reason), []byte(want.Input))
			if err != nil {
				t.Fatal(err)
			}
			var got Line
			if err := json.Unmarshal(raw, &got); err != nil {
				t.Fatalf("%v in %s", err, raw)
			}
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("%s\nreads back as %+v\nwant %+v", raw, got, want)
			}
			if raw[len(raw)-1] != '\n' {
				t.Fatalf("%s does not end its line", raw)
			}
		}
	}
}

func answered() *metrics.Record {
	r := &metrics.Record{Seq: 7, ConversationID: "s", RequestID: "r", CorrelationID: "c", Start: 1e9, First: 2e9, Last: 3e9, End: 3e9,
		Gaps: make([]metrics.Gap, 127), Chunks: 128, In: metrics.Known(512), HTTP: metrics.HTTP{Status: 200, Local: "127.0.0.1:1"}}
	for i := range r.Gaps {
		r.Gaps[i] = metrics.Gap(20_000_000 + i)
	}
	return r
}

func TestALineAllocatesNothing(t *testing.T) {
	w, r, text := newFieldWriter(reflect.TypeFor[metrics.Record]()), answered(), []byte("some words")
	buf := make([]byte, 0, 16<<10)
	if n := testing.AllocsPerRun(100, func() { buf, _ = w.appendLine(buf[:0], r, text, nil, nil) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkLine(b *testing.B) {
	w, r, text := newFieldWriter(reflect.TypeFor[metrics.Record]()), answered(), make([]byte, 700)
	for i := range text {
		text[i] = 'a'
	}
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf, _ = w.appendLine(buf[:0], r, text, nil, nil)
	}
}
