//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package reactor_test

import (
	"fmt"
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

// each runs a suite with one loop and with three.
func each(t *testing.T, f func(t *testing.T, loops int)) {
	for _, loops := range []int{1, 3} {
		t.Run(fmt.Sprint(loops, " loops"), func(t *testing.T) { f(t, loops) })
	}
}

func TestConformance(t *testing.T) {
	each(t, func(t *testing.T, loops int) {
		wiretest.Run(t, wiretest.Setup{
			Exact: true,
			New: func(t *testing.T, reply func(int, string) wiretest.Reply) *wiretest.Rig {
				clock := fake.NewClock()
				srv := wiretest.NewServer(t, wiretest.H1, reply)
				return &wiretest.Rig{Transport: start(t, reactor.Options{Clock: clock, Loops: loops}), Clock: clock, Target: srv.Target}
			},
		})
	})
}

func suite(t *testing.T, f func(t *testing.T, s wiretest.HTTPSetup)) {
	each(t, func(t *testing.T, loops int) {
		f(t, wiretest.HTTPSetup{Kinds: []wiretest.Kind{wiretest.H1}, New: func(s wiretest.Seams) wire.Transport {
			return start(t, reactor.Options{Clock: s.Clock, Resolver: s.Resolver, Dial: s.Dial, Loops: loops})
		}})
	})
}

func TestHTTP(t *testing.T) { suite(t, wiretest.RunHTTP) }

func TestRaw(t *testing.T) { suite(t, wiretest.RunRaw) }

func TestChaos(t *testing.T) { suite(t, wiretest.RunChaos) }
