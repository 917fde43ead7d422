package control

import (
	"errors"
	"net"
	"testing"
	"time"

	"prefire/loadgen/wire/fake"
)

func TestRoundTrips(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan int)
	go func() {
		n := 0
		for {
			c, err := l.Accept()
			if err != nil {
				accepted <- n
				return
			}
			n++
			_ = c.Close()
		}
	}()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = gone.Close()
	peers := []Peer{{URL: "there", Addr: l.Addr().String()}, {URL: "gone", Addr: gone.Addr().String()}}
	r := MeasureRoundTrips(fake.NewClock(), peers, time.Hour)
	trips := r.Stop()
	_ = l.Close()
	n := <-accepted
	took, failed, sum := 0, 0, 0.
	for _, trip := range trips {
		switch {
		case trip.Peer.URL == "there" && trip.Err == nil && trip.Took > 0 && trip.At > 0:
			took++
			sum += float64(trip.Took)
		case trip.Peer.URL == "gone" && trip.Err != nil && trip.Took == 0:
			failed++
		default:
			t.Errorf("%+v of %s", trip, trip.Peer.URL)
		}
	}
	if took != enoughTrips || n < took || failed < 1 || failed > 2*enoughTrips+1 {
		t.Errorf("%d handshakes, of which the server knows %d, and %d failures", took, n, failed)
	}
	if got := MeanTrip(trips); got != sum/float64(took) {
		t.Errorf("a mean of %v, want %v", got, sum/float64(took))
	}
	if got := MeanTrip([]Trip{{Err: errors.New("no")}}); got != 0 {
		t.Errorf("a mean of %v of nothing", got)
	}
}
