package export

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

func FuzzIndented(f *testing.F) {
	for _, s := range []string{`{}`, `[]`, `{"a":[1,{"b":"x\"y\\"},[]],"c":{}}`, ` [ 1 , "a\\" , "\u003c\/" ] `, `"x"`, `-1.5e3`, `{"a":`, `]]`, `"\`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		out := appendIndented(nil, []byte(s), 0) // must not panic, whatever it is
		if !json.Valid([]byte(s)) {
			return
		}
		value := func(b []byte) any {
			d := json.NewDecoder(bytes.NewReader(b))
			d.UseNumber()
			var v any
			if err := d.Decode(&v); err != nil {
				t.Fatalf("%q: %v", b, err)
			}
			return v
		}
		if got, want := value(out), value([]byte(s)); !reflect.DeepEqual(got, want) {
			t.Fatalf("%q became %q", s, out)
		}
		if again := appendIndented(nil, out, 0); !bytes.Equal(again, out) {
			t.Fatalf("a second time: %q became %q", out, again)
		}
		if !strings.Contains(s, `\`) {
			var want bytes.Buffer
			if err := json.Indent(&want, bytes.TrimSpace([]byte(s)), "", "  "); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(out, want.Bytes()) {
				t.Fatalf("got %q\nwant %q", out, want.Bytes())
			}
		}
	})
}

func TestFloatsReadBackAsTheyWere(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		v := math.Float64frombits(rnd.Uint64())
		if !finite(v) {
			continue
		}
		s := string(appendFloat(nil, v))
		back, err := strconv.ParseFloat(s, 64)
		if err != nil || back != v {
			t.Fatalf("%v was written %s", v, s)
		}
		if !strings.ContainsAny(s, ".e") || !json.Valid([]byte(s)) {
			t.Fatalf("%s is not a JSON float", s)
		}
	}
}

func TestGrouping(t *testing.T) {
	for v, want := range map[float64]string{0: "0.00", 999.994: "999.99", 999.995: "1,000.00", 1234567.891: "1,234,567.89", -1234.5: "-1,234.50",
		-999: "-999.00", 1e9: "1,000,000,000.00", 0.005: "0.01", 0.125: "0.12"} {
		if got := grouped(v); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1000: "-1,000", -100: "-100", 1234567: "1,234,567"} {
		if got := groupedInt(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

type marshaler func() ([]byte, error)

func (m marshaler) MarshalJSON() ([]byte, error) { return m() }

func TestObject(t *testing.T) {
	o := Object{
		{"b", true}, {"f", false}, {"s", "x<y>"}, {"i", 1}, {"i64", int64(-2)}, {"u", uint64(math.MaxUint64)}, {"x", 1.0},
		{"gone", nil}, {"nan", math.NaN()}, {"inf", math.Inf(1)},
		{"o", Object{{"only", nil}}}, {"a", []any{1.5, nil, math.Inf(-1), Object{{"k", "v"}}}}, {"e", []string{}}, {"os", []Object{{}}},
		{"raw", json.RawMessage(`{"\u003ca>":[1,2.50]}`)}, {"st", struct {
			A float64 `json:"a"`
			B string  `json:"b,omitempty"`
		}{A: 2}},
		{"m", marshaler(func() ([]byte, error) { return []byte("[ ]"), nil })},
	}
	got, err := appendObject(nil, "o", o, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := `{
  "b": true,
  "f": false,
  "s": "x<y>",
  "i": 1,
  "i64": -2,
  "u": 18446744073709551615,
  "x": 1.0,
  "o": {},
  "a": [
    1.5,
    null,
    null,
    {
      "k": "v"
    }
  ],
  "e": [],
  "os": [
    {}
  ],
  "raw": {
    "<a>": [
      1,
      2.50
    ]
  },
  "st": {
    "a": 2
  },
  "m": []
}`
	same(t, "object", got, []byte(want))
}

func TestObjectErrorsNameTheKey(t *testing.T) {
	for _, c := range []struct {
		v    any
		want string
	}{
		{func() {}, "top.a.b cannot be written as JSON: json: unsupported type: func()"},
		{marshaler(func() ([]byte, error) { return nil, errors.New("no luck") }),
			"top.a.b cannot be written as JSON: json: error calling MarshalJSON for type export.marshaler: no luck"},
		{json.RawMessage(`{"x":`), "top.a.b cannot be written as JSON: json: error calling MarshalJSON for type json.RawMessage: unexpected end of JSON input"},
		{struct{ F float64 }{math.NaN()}, "top.a.b cannot be written as JSON: json: unsupported value: NaN"},
	} {
		_, err := appendObject(nil, "top", Object{{"a", Object{{"b", c.v}}}}, 0)
		if err == nil || err.Error() != c.want {
			t.Errorf("error %v, want %s", err, c.want)
		}
	}
}
