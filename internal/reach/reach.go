// Package reach says how servers are reached: by which addresses and from which, through which socket or proxy, and with which TLS. It fills
// in the targets of the load's transports, and makes the client of what is asked beside the load, so that both go the same way.
package reach

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/net/http/httpproxy"

	"prefire/loadgen/wire"
	"prefire/loadgen/wire/pooling"
)

// Fixed is a name whose addresses are given.
type Fixed struct {
	Host  string
	Port  string
	Addrs []netip.Addr
}

// Proxies say which proxy a URL is asked for through. An empty URL is none.
type Proxies struct {
	HTTP, HTTPS string // for http and https URLs; http://[USER:PASSWORD@]HOST:PORT, the scheme may be left out
	Except      string // hosts that are reached without one, in the form of NO_PROXY
	From        string // who said so, for messages: a flag, or the environment
}

// Options say how to reach servers. The zero value is the system's way.
type Options struct {
	IPVersion string // "4" or "6"; "" = both
	Sources   []netip.Addr
	Fixed     []Fixed
	Unix      string // path of a socket that stands for every server; "" = none
	Proxies   Proxies
	TLS       TLS
}

// Way is how the servers of a run are reached.
type Way struct {
	o       Options
	tls     *tls.Config // nil = the system's certificates
	cert    string      // the client certificate's subject; "" = none is sent
	proxy   func(*url.URL) (*url.URL, error)
	used    []bool // of o.Fixed: a target has its name
	turn    atomic.Uint64
	reached []Reached
}

// Reached is how one target is reached, for the result.
type Reached struct {
	URL string
	// Proxy is the one in between, its password left out; "" = none. Where one was asked for and is not used, Direct says why.
	Proxy, Direct string
}

// New checks what was asked for.
func New(o Options) (*Way, error) {
	w := &Way{o: o, used: make([]bool, len(o.Fixed))}
	var err error
	if w.tls, w.cert, err = o.TLS.config(); err != nil {
		return nil, err
	}
	for _, a := range o.Sources {
		if !o.family(a) {
			return nil, fmt.Errorf("source address %s is no IPv%s address, which --ip-version asks for", a, o.IPVersion)
		}
	}
	for _, f := range o.Fixed {
		if !slices.ContainsFunc(f.Addrs, o.family) {
			return nil, fmt.Errorf("--resolve %s:%s has no IPv%s address, which --ip-version asks for", f.Host, f.Port, o.IPVersion)
		}
	}
	if p := &o.Proxies; p.HTTP != "" || p.HTTPS != "" {
		for _, address := range [...]string{p.HTTP, p.HTTPS} {
			if err := checkProxy(address, p.From); err != nil {
				return nil, err
			}
		}
		if o.Unix != "" {
			return nil, fmt.Errorf("--unix-socket and a proxy (%s) exclude each other: drop one of them", p.From)
		}
		w.proxy = (&httpproxy.Config{HTTPProxy: p.HTTP, HTTPSProxy: p.HTTPS, NoProxy: p.Except}).ProxyFunc()
	}
	if o.Unix != "" && len(o.Sources)+len(o.Fixed) > 0 {
		return nil, errors.New("--unix-socket has no use for --source-address and --resolve: drop them, or the socket")
	}
	return w, nil
}

// family reports whether an address is of the version asked for.
func (o *Options) family(a netip.Addr) bool {
	return o.IPVersion == "" || a.Unmap().Is4() == (o.IPVersion == "4")
}

// checkProxy reports what is wrong with a proxy's address, without showing it.
func checkProxy(address, from string) error {
	if address == "" {
		return nil
	}
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Hostname() == "":
		return fmt.Errorf("the proxy's address (%s) cannot be read: give it as http://[USER:PASSWORD@]HOST:PORT", from)
	case u.Scheme != "http":
		return fmt.Errorf("the proxy %s (%s) is of the kind %s, which is not supported: give one that is spoken to in the clear, http://HOST:PORT",
			u.Host, from, u.Scheme)
	}
	return nil
}

// Target fills in how t is reached: Scheme, Host, Addr and Protocol are set. address is its URL, for messages.
func (w *Way) Target(t *wire.Target, address string) error {
	host, port, err := net.SplitHostPort(t.Addr)
	if err != nil {
		return err
	}
	r := Reached{URL: address}
	t.Unix = w.o.Unix
	if t.Scheme == "https" {
		t.TLS = w.tls
	}
	if len(w.o.Sources) > 0 {
		t.Dial = w.dial
	}
	for i, f := range w.o.Fixed {
		if strings.EqualFold(f.Host, host) && f.Port == port {
			w.used[i] = true
			t.Addrs = f.Addrs
		}
	}
	if literal, err := netip.ParseAddr(host); err == nil && len(t.Addrs) == 0 && w.o.Unix == "" {
		t.Addrs = []netip.Addr{literal}
	}
	if len(t.Addrs) > 0 {
		given := t.Addrs
		if t.Addrs = only(given, w.o.family); len(t.Addrs) == 0 {
			return fmt.Errorf("%s is at %s, no IPv%s address, which --ip-version asks for", address, given[0], w.o.IPVersion)
		}
		if len(w.o.Sources) > 0 && !slices.ContainsFunc(t.Addrs, func(a netip.Addr) bool { return len(w.from(a)) > 0 }) {
			return fmt.Errorf("%s is at %s, and no source address is of its kind: --source-address has %s", address, t.Addrs[0], w.o.Sources[0])
		}
	}
	if w.proxy != nil {
		if err := w.through(t, &r, host, port); err != nil {
			return err
		}
	}
	if !slices.Contains(w.reached, r) {
		w.reached = append(w.reached, r)
	}
	return nil
}

func only(list []netip.Addr, ok func(netip.Addr) bool) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(list), func(a netip.Addr) bool { return !ok(a) })
}

// through puts the proxy between, where there is one for t.
func (w *Way) through(t *wire.Target, r *Reached, host, port string) error {
	u := &url.URL{Scheme: t.Scheme, Host: net.JoinHostPort(host, port)}
	proxy, err := w.proxy(u)
	if err != nil {
		return fmt.Errorf("the proxy's address (%s) cannot be read: give it as http://[USER:PASSWORD@]HOST:PORT", w.o.Proxies.From)
	}
	if proxy == nil {
		switch {
		case loopback(host):
			r.Direct = "a loopback address is reached without a proxy"
		case map[string]string{"http": w.o.Proxies.HTTP, "https": w.o.Proxies.HTTPS}[t.Scheme] == "":
			r.Direct = "there is no proxy for " + t.Scheme
		default:
			r.Direct = "its host is among those that are reached without a proxy"
		}
		return nil
	}
	if len(t.Addrs) > 0 && slices.ContainsFunc(w.o.Fixed, func(f Fixed) bool { return strings.EqualFold(f.Host, host) && f.Port == port }) {
		return fmt.Errorf("--resolve %s:%s has no effect: %s is reached through the proxy %s (%s), which looks the name up itself; drop one of them",
			host, port, r.URL, proxy.Host, w.o.Proxies.From)
	}
	r.Proxy = (&url.URL{Scheme: proxy.Scheme, Host: proxy.Host}).String()
	t.Addrs, t.Addr = nil, proxy.Host
	if proxy.Port() == "" {
		t.Addr = net.JoinHostPort(proxy.Hostname(), "80")
	}
	for i, f := range w.o.Fixed {
		if strings.EqualFold(net.JoinHostPort(f.Host, f.Port), t.Addr) {
			w.used[i] = true
			t.Addrs = only(f.Addrs, w.o.family)
		}
	}
	tunnel := t.Scheme == "https" || t.Protocol == wire.H2C
	if !tunnel {
		t.Absolute = true
		if auth := authorization(proxy); auth != "" {
			t.Header = append(slices.Clone(t.Header), wire.Field{Name: "Proxy-Authorization", Value: auth})
		}
		return nil
	}
	c := &connector{proxy: proxy, to: net.JoinHostPort(host, port), dial: w.dial}
	t.Dial = c.connect
	if t.Scheme == "https" && (t.TLS == nil || t.TLS.ServerName == "") { // the transport would take the proxy's name
		t.TLS = t.TLS.Clone()
		if t.TLS == nil {
			t.TLS = new(tls.Config)
		}
		t.TLS.ServerName = host
	}
	return nil
}

func loopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && a.IsLoopback()
}

// Unused is a name of Options.Fixed that no target has, as HOST:PORT; "" = all are in use.
func (w *Way) Unused() string {
	if i := slices.Index(w.used, false); i >= 0 {
		return net.JoinHostPort(w.o.Fixed[i].Host, w.o.Fixed[i].Port)
	}
	return ""
}

// Reached is how the targets so far are reached.
func (w *Way) Reached() []Reached { return w.reached }

// IPVersion is the one that connections are of; "" = both.
func (w *Way) IPVersion() string { return w.o.IPVersion }

// Certificate is the subject of the client certificate that is sent where a server asks for one; "" = none.
func (w *Way) Certificate() string { return w.cert }

// Resolver is the system's, for addresses of the version asked for.
func (w *Way) Resolver() pooling.Resolver {
	if w.o.IPVersion == "" {
		return net.DefaultResolver
	}
	return resolver{"ip" + w.o.IPVersion}
}

// resolver looks names up for addresses of one version.
type resolver struct{ network string }

func (r resolver) LookupNetIP(ctx context.Context, _, host string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, r.network, host)
}

// from are the source addresses from which a server at a can be reached.
func (w *Way) from(a netip.Addr) []netip.Addr {
	return only(w.o.Sources, func(s netip.Addr) bool { return s.Unmap().Is4() == a.Unmap().Is4() })
}

// dial connects to ip:port from the source address whose turn it is.
func (w *Way) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	if to, err := netip.ParseAddrPort(addr); err == nil && len(w.o.Sources) > 0 {
		own := w.from(to.Addr())
		if len(own) == 0 {
			return nil, fmt.Errorf("no source address is of the kind of %s", to.Addr())
		}
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(own[w.turn.Add(1)%uint64(len(own))], 0))
		d.Control = lateBind
	}
	return d.DialContext(ctx, network, addr)
}

// Client is for what is asked beside the load: each request has a connection of its own.
func (w *Way) Client() http.RoundTripper {
	t := &http.Transport{DisableKeepAlives: true, TLSClientConfig: w.tls, DialContext: w.dialName}
	if w.proxy != nil {
		t.Proxy = func(r *http.Request) (*url.URL, error) { return w.proxy(r.URL) }
	}
	return t
}

// dialName connects to a host:port as the load's connections do.
func (w *Way) dialName(ctx context.Context, _, addr string) (net.Conn, error) {
	if w.o.Unix != "" {
		var d net.Dialer
		return d.DialContext(ctx, "unix", w.o.Unix)
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	addrs, err := w.addrs(ctx, host, port)
	if err != nil {
		return nil, err
	}
	nc, _, err := pooling.DialAny(ctx, w.dial, addrs, port)
	return nc, err
}

func (w *Way) addrs(ctx context.Context, host, port string) ([]netip.Addr, error) {
	for _, f := range w.o.Fixed {
		if strings.EqualFold(f.Host, host) && f.Port == port {
			return only(f.Addrs, w.o.family), nil
		}
	}
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, nil
	}
	addrs, e := pooling.Lookup(ctx, w.Resolver(), host, port)
	if e != nil {
		return nil, errors.New(e.Message)
	}
	return addrs, nil
}
