package portable_test

import (
	"testing"

	"prefire/loadgen/wire"
	"prefire/loadgen/wire/fake"
	"prefire/loadgen/wire/portable"
	"prefire/loadgen/wire/wiretest"
)

func TestConformance(t *testing.T) {
	for _, kind := range wiretest.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			wiretest.Run(t, wiretest.Setup{
				Exact: true,
				New: func(t *testing.T, reply func(int, string) wiretest.Reply) *wiretest.Rig {
					clock := fake.NewClock()
					srv := wiretest.NewServer(t, kind, reply)
					return &wiretest.Rig{Transport: portable.New(portable.Options{Clock: clock}), Clock: clock, Target: srv.Target}
				},
			})
		})
	}
}

func TestHTTP(t *testing.T) {
	wiretest.RunHTTP(t, wiretest.HTTPSetup{Kinds: wiretest.Kinds(), New: func(s wiretest.Seams) wire.Transport {
		return portable.New(portable.Options{Clock: s.Clock, Resolver: s.Resolver, Dial: s.Dial})
	}})
}

func TestRaw(t *testing.T) {
	wiretest.RunRaw(t, wiretest.HTTPSetup{New: func(s wiretest.Seams) wire.Transport {
		return portable.New(portable.Options{Clock: s.Clock, Resolver: s.Resolver, Dial: s.Dial})
	}})
}

func TestChaos(t *testing.T) {
	wiretest.RunChaos(t, wiretest.HTTPSetup{Kinds: wiretest.Kinds(), New: func(s wiretest.Seams) wire.Transport {
		return portable.New(portable.Options{Clock: s.Clock, Resolver: s.Resolver, Dial: s.Dial})
	}})
}
