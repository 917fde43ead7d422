package http1

import (
	"testing"

	"prefire/loadgen/wire"
)

func TestTheRequestLineHasTheWholeURLForAProxy(t *testing.T) {
	for absolute, want := range map[bool]string{
		false: "GET /x?y=1 HTTP/1.1\r\nHost: h:81\r\nA: b\r\n\r\n", true: "GET http://h:81/x?y=1 HTTP/1.1\r\nHost: h:81\r\nA: b\r\n\r\n",
	} {
		got, err := AppendHead(nil, &wire.Target{Scheme: "http", Host: "h:81", Addr: "proxy:1", Absolute: absolute}, "GET", "/x?y=1", []wire.Field{{Name: "A", Value: "b"}}, 0)
		if err != nil || string(got) != want {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
}
