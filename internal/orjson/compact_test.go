package orjson

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
)

func TestCompact(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{` { "a" : [ 1 , 2.50 , 1e5 ] , "b" : null } `, `{"a":[1,2.50,1e5],"b":null}`},
		{`"a b\/\u0041\n\u00e9\u2028"`, "\"a b/A\\né\u2028\""},
		{`"\ud83d\ude00 \ud83d"`, "\"😀 \uFFFD\""},
		{`"\\\""`, `"\\\""`},
	} {
		if got, err := Compact([]byte(c.in)); err != nil || string(got) != c.want {
			t.Errorf("%s: %s, %v; want %s", c.in, got, err, c.want)
		}
	}
	for _, in := range []string{"", "{", `{"a":1}}`, "nan"} {
		if got, err := Compact([]byte(in)); err == nil {
			t.Errorf("%q gives %s", in, got)
		}
	}
}

func FuzzCompact(f *testing.F) {
	for _, s := range []string{`{"a": "\u00e9\ud800", "b": [1, 2]}`, `"\\"`, "\"\xff\"", " 1 "} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		out, err := Compact(in)
		if (err == nil) != json.Valid(in) {
			t.Fatalf("%q: %v", in, err)
		}
		if err != nil {
			return
		}
		var a, b any
		if json.Unmarshal(in, &a) != nil || json.Unmarshal(out, &b) != nil {
			return // a number out of range
		}
		again, _ := Compact(out)
		if !reflect.DeepEqual(a, b) || !bytes.Equal(again, out) {
			t.Fatalf("%q became %q, then %q", in, out, again)
		}
	})
}
