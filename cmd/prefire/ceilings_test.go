package main

import (
	"strings"
	"testing"

	"prefire/loadgen"
	"prefire/loadgen/wire"
)

// What the system cannot give is said before anything is opened.
func TestARunThatNeedsMoreThanTheSystemGivesIsRefused(t *testing.T) {
	plain := &wire.Target{Scheme: "http", Addr: "h:80"}
	for _, tt := range []struct {
		name    string
		c       ceilings
		sources int
		targets []*wire.Target
		want    string // "" = it runs
	}{
		{"nothing is known", ceilings{}, 0, []*wire.Target{plain}, ""},
		{"room for all", ceilings{files: 1040, ports: 1000}, 0, []*wire.Target{plain}, ""},
		{"files", ceilings{files: 1039, ports: 1000}, 0, []*wire.Target{plain}, "the run needs 1000 connections at once, and this process may have 1039 files open"},
		{"ports", ceilings{files: 5000, ports: 999}, 0, []*wire.Target{plain}, "the run needs 1000 connections at once to h:80, and there are 999 ports for them"},
		{"ports of two addresses", ceilings{files: 5000, ports: 500}, 2, []*wire.Target{plain}, ""},
		{"streams", ceilings{files: 120, ports: 70}, 0, []*wire.Target{{Scheme: "https", Addr: "h:443"}}, ""},
		{"HTTP/1.1 over TLS", ceilings{files: 120, ports: 70}, 0, []*wire.Target{{Scheme: "https", Addr: "h:443", Protocol: wire.HTTP1}}, "needs 1000 connections"},
		{"two servers", ceilings{files: 5000, ports: 1000}, 0, []*wire.Target{plain, {Scheme: "http", Addr: "g:80"}}, ""},
		{"one proxy before two servers", ceilings{files: 5000, ports: 1999}, 0, []*wire.Target{plain, plain}, "needs 2000 connections at once to h:80"},
		{"a socket has no port", ceilings{files: 5000, ports: 1}, 0, []*wire.Target{{Scheme: "http", Addr: "h:80", Unix: "/s"}}, ""},
	} {
		p := &loadgen.Plan{Streams: 16, Phases: []loadgen.Phase{{Concurrency: 10}, {Concurrency: 1000}}}
		for _, w := range tt.targets {
			p.Targets = append(p.Targets, loadgen.Target{Wire: w})
		}
		err := tt.c.check(p, tt.sources)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}
