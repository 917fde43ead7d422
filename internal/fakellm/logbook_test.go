package fakellm

import (
	"encoding/json"
	"testing"
)

func TestAnEntryIsWrittenAsEncodingJSONWritesIt(t *testing.T) {
	for name, writes := range map[string][]Write{
		"no writes":    nil,
		"none":         {},
		"one":          {{Kind: WriteAnswer, DueNS: 1796097600123456789, BeforeNS: 1796097600123456790, AfterNS: -1}},
		"several":      {{Kind: WriteHead, DueNS: 1, BeforeNS: 2, AfterNS: 3, Held: true}, {Kind: WriteContent}, {Kind: WriteDone, AfterNS: 9}},
		"of each kind": {{Kind: WriteRole}, {Kind: WriteFinish}, {Kind: WriteUsage}, {Kind: WriteError}, {Kind: WriteComment}},
	} {
		e := Entry{XRequestID: "<a&b\u2028>\"", Path: "/v1", Status: 200, TTFTNS: 7, Fault: "cut", Writes: writes}
		want, err := json.Marshal(&e)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := e.appendJSON([]byte("x")); err != nil || string(got) != "x"+string(want) {
			t.Errorf("%s: %s, %v, want %s", name, got, err, want)
		}
	}
}
