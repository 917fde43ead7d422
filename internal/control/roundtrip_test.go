package control

import (
	"errors"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"prefire/loadgen/wire/fake"
)

func TestRoundTrips(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	// The system finishes handshakes before they are accepted: a listener that closes at once would forget the last of them. They are
	// accepted in their order, up to one that says it is the last.
	accepted := make(chan int)
	go func() {
		for n := 0; ; n++ {
			c, err := l.Accept()
			if err != nil {
				t.Error(err)
				accepted <- n
				return
			}
			said, _ := io.ReadAll(c)
			_ = c.Close()
			if string(said) == "the last" {
				accepted <- n
				return
			}
		}
	}()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = gone.Close()
	peers := []Peer{{URL: "there", Addr: l.Addr().String()}, {URL: "gone", Addr: gone.Addr().String()}}
	var told []Trip
	r := MeasureRoundTrips(fake.NewClock(), peers, time.Hour, func(t Trip) { told = append(told, t) })
	trips := r.Stop()
	if !slices.Equal(told, trips) {
		t.Errorf("told %v, want %v", told, trips)
	}
	last, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := last.Write([]byte("the last")); err != nil {
		t.Fatal(err)
	}
	_ = last.Close()
	n := <-accepted
	_ = l.Close()
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
