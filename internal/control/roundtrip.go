package control

import (
	"context"
	"net"
	"sync"
	"time"

	"prefire/loadgen/wire"
)

// Bounds of the measurement of round trips, as aiperf has them.
const (
	handshakeTimeout = 5 * time.Second
	enoughTrips      = 5               // of each server, at the end at the latest
	topUp            = 3 * time.Second // how long the end may take for that
)

// Peer is a server whose round trip is measured. URL is for files, without secrets.
type Peer struct {
	URL, Host string
	Port      int
	Addr      string // to dial
}

// Trip is one TCP handshake. Took is 0 where it failed.
type Trip struct {
	At, Took int64
	Peer     *Peer
	Err      error
}

// RoundTrips measures the network's round trip by TCP handshakes on connections of their own, while the load goes on.
type RoundTrips struct {
	clock  wire.Clock
	peers  []Peer
	cancel context.CancelFunc
	wg     sync.WaitGroup
	took   func(Trip)

	mu    sync.Mutex
	trips []Trip
}

// MeasureRoundTrips begins to measure, each peer once every interval, and tells took each trip, one at a time. Stop ends it.
func MeasureRoundTrips(clock wire.Clock, peers []Peer, interval time.Duration, took func(Trip)) *RoundTrips {
	ctx, cancel := context.WithCancel(context.Background())
	r := &RoundTrips{clock: clock, peers: peers, cancel: cancel, took: took}
	for i := range r.peers {
		r.wg.Go(func() {
			addr := r.resolve(ctx, r.peers[i].Addr)
			for at := clock.Now(); ctx.Err() == nil; at += int64(interval) {
				r.once(ctx, &r.peers[i], addr)
				at = max(at, clock.Now()-int64(interval)) // a slow handshake is not made up for
				if clock.Until(ctx, at+int64(interval)) != nil {
					return
				}
			}
		})
	}
	return r
}

// resolve looks a name up once, so that no handshake is timed with the lookup in it. A name that cannot be looked up is dialled as it is.
func (r *RoundTrips) resolve(ctx context.Context, addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	if found, err := net.DefaultResolver.LookupHost(ctx, host); err == nil && len(found) > 0 {
		return net.JoinHostPort(found[0], port)
	}
	return addr
}

func (r *RoundTrips) once(ctx context.Context, p *Peer, addr string) {
	d := net.Dialer{Timeout: handshakeTimeout}
	t := Trip{Peer: p, At: r.clock.Now()}
	c, err := d.DialContext(ctx, "tcp", addr)
	if t.Err = err; err == nil {
		t.Took = r.clock.Now() - t.At
		_ = c.Close()
	} else if ctx.Err() != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.trips = append(r.trips, t)
	r.took(t)
}

// Stop ends the measurement. A peer with few trips so far gets more first, within bounds.
func (r *RoundTrips) Stop() []Trip {
	r.cancel()
	r.wg.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), topUp)
	defer cancel()
	for i := range r.peers {
		p := &r.peers[i]
		addr := r.resolve(ctx, p.Addr)
		for range 2 * enoughTrips {
			if r.taken(p) >= enoughTrips || ctx.Err() != nil {
				break
			}
			r.once(ctx, p, addr)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.trips
}

func (r *RoundTrips) taken(p *Peer) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, t := range r.trips {
		if t.Peer == p && t.Err == nil {
			n++
		}
	}
	return n
}

// MeanTrip is the mean of the handshakes that succeeded, in ns; 0 where none did.
func MeanTrip(trips []Trip) float64 {
	sum, n := 0., 0.
	for _, t := range trips {
		if t.Err == nil {
			sum, n = sum+float64(t.Took), n+1
		}
	}
	if n == 0 {
		return 0
	}
	return sum / n
}
