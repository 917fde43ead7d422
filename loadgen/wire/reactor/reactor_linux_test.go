//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package reactor_test

import (
	"testing"

	"prefire/loadgen/wire"
	"prefire/loadgen/wire/fake"
	"prefire/loadgen/wire/reactor"
	"prefire/loadgen/wire/wiretest"
)

func start(t *testing.T, o reactor.Options) wire.Transport {
	t.Helper()
	tr, err := reactor.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func TestConformance(t *testing.T) {
	wiretest.Run(t, wiretest.Setup{
		Exact: true,
		New: func(t *testing.T, reply func(int, string) wiretest.Reply) *wiretest.Rig {
			clock := fake.NewClock()
			srv := wiretest.NewServer(t, wiretest.H1, reply)
			return &wiretest.Rig{Transport: start(t, reactor.Options{Clock: clock}), Clock: clock, Target: srv.Target}
		},
	})
}

func setup(t *testing.T) wiretest.HTTPSetup {
	return wiretest.HTTPSetup{Kinds: []wiretest.Kind{wiretest.H1}, New: func(s wiretest.Seams) wire.Transport {
		return start(t, reactor.Options{Clock: s.Clock, Resolver: s.Resolver, Dial: s.Dial})
	}}
}

func TestHTTP(t *testing.T) { wiretest.RunHTTP(t, setup(t)) }

func TestRaw(t *testing.T) { wiretest.RunRaw(t, setup(t)) }

func TestChaos(t *testing.T) { wiretest.RunChaos(t, setup(t)) }
