package fakellm

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// FaultHeader is the request header that names a fault, where Options.FaultHeader allows it.
const FaultHeader = "X-Prefire-Fault"

// Fault is something that the server does wrong to a share of its requests, or of its connections.
type Fault struct {
	kind *faultKind
	spec string  // as given, without the share
	how  string  // the first argument
	num  float64 // how, where it is a number
	dur  time.Duration

	share float64 // of the requests
	at    int     // content chunks before it
	after int     // requests before it that it leaves alone
	times int     // how often one and the same request is harmed; 0 = always
	path  string  // of the requests; "" = inference
	retry string  // Retry-After
	field string  // of reasoning
}

// faultKind is a row of the table of faults.
type faultKind struct {
	name  string
	arg   argKind
	how   string   // the first argument where none is given; of a numArg or durArg as it is written
	words []string // that a wordArg may be
	keys  string   // further keys it takes, separated by spaces
	doc   string
	needs protocols
	// answer takes the place of the usual answer, script changes a stream, conn harms a connection when it is accepted; one of them is set.
	answer func(x *exchange)
	script func(f *Fault, s *script)
	conn   func(c *conn) (goOn bool)
}

type argKind uint8

const (
	noArg argKind = iota
	wordArg
	numArg
	durArg
)

// protocols says over which versions of HTTP a fault can be had.
type protocols uint8

const (
	anyProtocol protocols = iota
	onlyHTTP1
	onlyHTTP2
	onlyTLS
)

// Faults lists all faults, one a line.
func Faults() string {
	var b strings.Builder
	for _, k := range faultKinds() {
		name := k.name
		switch {
		case len(k.words) > 0:
			name += "=" + strings.Join(k.words, "|")
		case k.arg == numArg:
			name += "=NUMBER"
		case k.arg == durArg:
			name += "=TIME"
		}
		for key := range strings.FieldsSeq(k.keys) {
			name += "," + key + "="
		}
		doc := k.doc
		if k.how != "" {
			doc += " (default " + k.how + ")"
		}
		if note := [...]string{"", "HTTP/1.1", "HTTP/2", "TLS"}[k.needs]; note != "" {
			doc += "; " + note + " only"
		}
		fmt.Fprintf(&b, "%s\n    %s\n", name, doc)
	}
	return b.String()
}

// ParseFault reads NAME[=ARGUMENT[,KEY=VALUE...]][:SHARE]. Every fault takes the keys after (requests that it leaves alone before), times (how
// often one and the same request is harmed) and path (of the requests it harms; inference where it is not given), but those of connections,
// which take after alone.
func ParseFault(text string) (Fault, error) {
	f := Fault{share: 1, at: -1}
	spec := text
	if i := strings.LastIndexByte(text, ':'); i >= 0 {
		v, err := strconv.ParseFloat(text[i+1:], 64)
		if err != nil || !(v > 0 && v <= 1) {
			return f, fmt.Errorf("fault %q: the share is %q; it must be a fraction above 0 and at most 1", text, text[i+1:])
		}
		spec, f.share = text[:i], v
	}
	f.spec = spec
	name, args, given := strings.Cut(spec, "=")
	if i := strings.IndexByte(name, ','); i >= 0 { // keys without a first argument
		name, args, given = name[:i], spec[i+1:], true
	}
	kinds := faultKinds()
	i := slices.IndexFunc(kinds, func(k faultKind) bool { return k.name == name })
	if i < 0 {
		return f, fmt.Errorf("fault %q: there is no fault %q; --fault list names them all", text, name)
	}
	f.kind, f.how = &kinds[i], kinds[i].how
	for n, part := range strings.Split(args, ",") {
		key, value, isKey := strings.Cut(part, "=")
		switch {
		case !given:
			continue
		case isKey:
			if err := f.set(key, value); err != nil {
				return f, fmt.Errorf("fault %q: %w", text, err)
			}
		case n == 0 && f.kind.arg != noArg:
			f.how = part
		default:
			return f, fmt.Errorf("fault %q: %q has no place in it", text, part)
		}
	}
	if err := f.readHow(); err != nil {
		return f, fmt.Errorf("fault %q: %w", text, err)
	}
	return f, nil
}

func (f *Fault) readHow() (err error) {
	switch f.kind.arg {
	case wordArg:
		if !slices.Contains(f.kind.words, f.how) {
			return fmt.Errorf("%q is none of %s", f.how, strings.Join(f.kind.words, ", "))
		}
	case numArg:
		if f.num, err = strconv.ParseFloat(f.how, 64); err != nil || !(f.num >= 0 && f.num <= 1<<30) {
			return fmt.Errorf("%q is no number from 0 on", f.how)
		}
	case durArg:
		if f.dur, err = time.ParseDuration(f.how); err != nil || f.dur < 0 {
			return fmt.Errorf("%q is no time; allowed: 20ms, 1.5s, 2m", f.how)
		}
	}
	if f.kind.name == "status" || f.kind.name == "refuse-stream-options" || f.kind.name == "redirect" {
		if f.num < 200 || f.num > 599 || f.num != float64(int(f.num)) {
			return fmt.Errorf("%q is no status from 200 to 599", f.how)
		}
	}
	return nil
}

func (f *Fault) set(key, value string) error {
	keys := "after times path " + f.kind.keys
	if f.kind.conn != nil {
		keys = "after"
	}
	if !slices.Contains(strings.Fields(keys), key) {
		return fmt.Errorf("it has no key %q; it takes %s", key, strings.Join(strings.Fields(keys), ", "))
	}
	switch key {
	case "path":
		f.path = value
		return nil
	case "retry-after":
		f.retry = value
		return nil
	case "field":
		f.field = value
		if !slices.Contains([]string{"reasoning", "reasoning_content", "reasoning_details"}, value) {
			return fmt.Errorf("field is %q; it must be reasoning, reasoning_content or reasoning_details", value)
		}
		return nil
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 0 {
		return fmt.Errorf("%s is %q; it must be a whole number from 0", key, value)
	}
	switch key {
	case "at":
		f.at = n
	case "after":
		f.after = n
	case "times":
		f.times = n
	}
	return nil
}

// faults choose what is done to whom. A request's draw depends on the seed and its body alone, so that it meets the same fault again where
// it is sent again; a connection's on the seed and its number.
type faults struct {
	list     []Fault
	seed     uint64
	byHeader bool

	mu    sync.Mutex
	seen  []int            // requests, or connections, that each fault could have had
	tries []map[uint64]int // how often each request has met it, where that is bounded
}

func newFaults(o *Options) (*faults, error) {
	fs := &faults{list: o.Faults, seed: o.Seed, byHeader: o.FaultHeader, seen: make([]int, len(o.Faults)), tries: make([]map[uint64]int, len(o.Faults))}
	sums := map[string]float64{} // shares of one path, and of connections, are parts of one whole
	for i := range o.Faults {
		f := &o.Faults[i]
		if err := f.possible(o); err != nil {
			return nil, err
		}
		where := "path " + f.path
		if f.kind.conn != nil {
			where = "connections"
		}
		if sums[where] += f.share; sums[where] > 1+1e-9 {
			return nil, fmt.Errorf("the shares of the faults add up to %v; together they must be 1 at most", sums[where])
		}
		fs.tries[i] = map[uint64]int{}
	}
	return fs, nil
}

// possible reports a fault that this server can never do.
func (f *Fault) possible(o *Options) error {
	h2, tls := o.H2 || o.H2C, o.TLS || o.H2
	switch {
	case f.kind.needs == onlyHTTP2 && !h2:
		return fmt.Errorf("fault %s needs HTTP/2: --h2 or --h2c", f.kind.name)
	case f.kind.needs == onlyTLS && !tls:
		return fmt.Errorf("fault %s needs TLS: --tls or --h2", f.kind.name)
	}
	return nil
}

// request draws the fault of one request; nil = none.
func (fs *faults) request(x *exchange) *Fault {
	inference := x.r.Method == http.MethodPost && strings.HasPrefix(x.r.URL.Path, "/v1/")
	if fs.byHeader {
		if text := x.r.Header.Get(FaultHeader); text != "" && inference {
			f, err := ParseFault(text)
			if err == nil && f.kind.conn != nil {
				err = errors.New("a connection's fault cannot be asked for by a request")
			}
			if err != nil {
				x.answer(http.StatusBadRequest, appendJSON(nil, map[string]string{"detail": err.Error()}))
				return nil
			}
			return fs.limited(&f, x)
		}
	}
	h := fnv.New64a()
	_, _ = h.Write(x.body)
	body := h.Sum64()
	draw := rand.New(rand.NewPCG(fs.seed^0x5fa7, body)).Float64()
	return fs.choose(draw, body, func(f *Fault) bool {
		return f.kind.conn == nil && (f.path == x.r.URL.Path || f.path == "" && inference)
	})
}

// limited keeps the times of a fault that was asked for by its header.
func (fs *faults) limited(f *Fault, x *exchange) *Fault {
	if f.times == 0 {
		return f
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if len(fs.tries) == len(fs.list) {
		fs.tries = append(fs.tries, map[uint64]int{})
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(f.spec + "\x00"))
	_, _ = h.Write(x.body)
	met := fs.tries[len(fs.list)]
	if met[h.Sum64()]++; met[h.Sum64()] > f.times {
		return nil
	}
	return f
}

// connection draws the fault of one connection; nil = none.
func (fs *faults) connection(id int64) *Fault {
	draw := rand.New(rand.NewPCG(fs.seed^0xc0ec, uint64(id))).Float64()
	return fs.choose(draw, uint64(id), func(f *Fault) bool { return f.kind.conn != nil })
}

func (fs *faults) choose(draw float64, who uint64, fits func(*Fault) bool) *Fault {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	from := 0.
	var chosen *Fault
	for i := range fs.list {
		f := &fs.list[i]
		if !fits(f) {
			continue
		}
		fs.seen[i]++
		if hit := draw >= from && draw < from+f.share; hit && fs.seen[i] > f.after {
			chosen = f
			if f.times > 0 {
				if fs.tries[i][who]++; fs.tries[i][who] > f.times {
					chosen = nil
				}
			}
		}
		from += f.share
	}
	return chosen
}
