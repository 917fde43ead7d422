package main

import (
	"fmt"

	"prefire/loadgen"
)

// ownFiles is how many descriptors the program has beside its connections, about: files, timers, epoll.
const ownFiles = 40

// ceilings are the system's on what a run can open; 0 = not known.
type ceilings struct {
	files int // descriptors of the process
	ports int // ports for connections from one address to one other
}

// check refuses a plan that needs more connections at once than the system gives, before any is open.
func (l ceilings) check(p *loadgen.Plan, sources int) error {
	all := 0
	to := map[string]int{}
	for i := range p.Targets {
		t := p.Targets[i].Wire
		n := p.Connections(t)
		all += n
		if t.Unix != "" {
			continue
		}
		if to[t.Addr] += n; l.ports > 0 && to[t.Addr] > l.ports*max(sources, 1) {
			return fmt.Errorf("the run needs %d connections at once to %s, and there are %d ports for them (ip_local_port_range): lower --concurrency, give more own "+
				"addresses with --source-address, or widen the range with sysctl net.ipv4.ip_local_port_range=\"1024 65535\"", to[t.Addr], t.Addr, l.ports*max(sources, 1))
		}
	}
	if l.files > 0 && all+ownFiles > l.files {
		return fmt.Errorf("the run needs %d connections at once, and this process may have %d files open, of which it needs about %d itself: raise the limit "+
			"(ulimit -n %d), or lower --concurrency", all, l.files, ownFiles, all+2*ownFiles)
	}
	return nil
}
