package wiretest_test

import (
	"testing"

	"prefire/loadgen/wire"
	"prefire/loadgen/wire/wiretest"
)

// The suites are no better than the parser that reads their toy answers.
func TestTheToyAnswersMeanWhatTheySay(t *testing.T) {
	for _, c := range []struct {
		name, data string
		class      wire.Class
		want       wire.Delta
	}{
		{"", "c:say", wire.Content, wire.Delta{Content: []byte("say")}},
		{"", "r:think|c:say", wire.Content, wire.Delta{Reasoning: []byte("think"), Content: []byte("say")}},
		{"", "r:think|f:stop", wire.Reasoning, wire.Delta{Reasoning: []byte("think"), Finish: []byte("stop")}},
		{"", "t:call", wire.Tool, wire.Delta{Tool: []byte("call")}},
		{"", "f:length|u:7", wire.Finish, wire.Delta{Finish: []byte("length"), Usage: []byte("7")}},
		{"", "u:7", wire.UsageOnly, wire.Delta{Usage: []byte("7")}},
		{"", "", wire.Other, wire.Delta{}},
		{"", "c:", wire.Other, wire.Delta{}},
		{"", "e:broken", wire.Fault, wire.Delta{Message: []byte("broken")}},
		{"Error", "anything", wire.Fault, wire.Delta{Message: []byte("anything")}},
		{"", "what", wire.Malformed, wire.Delta{}},
	} {
		var d wire.Delta
		class := wiretest.Parser{}.Event([]byte(c.name), []byte(c.data), &d)
		same := string(d.Content) == string(c.want.Content) && string(d.Reasoning) == string(c.want.Reasoning) && string(d.Tool) == string(c.want.Tool) &&
			string(d.Finish) == string(c.want.Finish) && string(d.Usage) == string(c.want.Usage) && string(d.Message) == string(c.want.Message)
		if class != c.class || !same {
			t.Errorf("%q %q is %d %+v, want %d %+v", c.name, c.data, class, d, c.class, c.want)
		}
	}
}
