package reach

import (
	"net/netip"
	"strings"
	"testing"

	"prefire/loadgen/wire"
)

// A proxy is used where it is for the scheme and the host is not excepted, and never for loopback; what is said of it has no password.
func TestProxiesByTarget(t *testing.T) {
	o := Options{Proxies: Proxies{HTTP: "http://user:secret@proxy.test:3128", HTTPS: "proxy.test:3129", Except: "near.test,.inner.test", From: "--proxy"}}
	for _, c := range []struct{ scheme, addr, proxy, direct string }{
		{"http", "far.test:80", "proxy.test:3128", ""},
		{"https", "far.test:443", "proxy.test:3129", ""},
		{"http", "near.test:80", "", "reached without a proxy"},
		{"https", "a.inner.test:443", "", "reached without a proxy"},
		{"http", "127.0.0.1:8000", "", "loopback"},
		{"http", "[::1]:8000", "", "loopback"},
		{"http", "localhost:8000", "", "loopback"},
	} {
		w, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		target := &wire.Target{Scheme: c.scheme, Host: c.addr, Addr: c.addr, Path: "/v1"}
		if err := w.Target(target, c.scheme+"://"+c.addr); err != nil {
			t.Errorf("%s://%s: %v", c.scheme, c.addr, err)
			continue
		}
		r := w.Reached()[0]
		if !strings.Contains(r.Proxy, c.proxy) || (r.Proxy == "") != (c.proxy == "") || (r.Direct == "") != (c.direct == "") || !strings.Contains(strings.ToLower(r.Direct), c.direct) {
			t.Errorf("%s://%s: through %q, direct for %q; want %q, %q", c.scheme, c.addr, r.Proxy, r.Direct, c.proxy, c.direct)
		}
		if strings.Contains(r.Proxy, "secret") {
			t.Errorf("the proxy's password is shown: %s", r.Proxy)
		}
	}
}

// What excludes each other is refused before anything is dialled.
func TestWaysThatCannotBe(t *testing.T) {
	v4, v6 := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{IPVersion: "6", Sources: []netip.Addr{v4}}, "source address 192.0.2.1 is no IPv6 address"},
		{Options{IPVersion: "4", Fixed: []Fixed{{"h", "80", []netip.Addr{v6}}}}, "--resolve h:80 has no IPv4 address"},
		{Options{Unix: "/s", Proxies: Proxies{HTTP: "http://p:1", From: "--proxy"}}, "--unix-socket and a proxy (--proxy) exclude each other"},
		{Options{Unix: "/s", Sources: []netip.Addr{v4}}, "--unix-socket has no use for --source-address"},
		{Options{Proxies: Proxies{HTTP: "socks5://user:secret@p:1", From: "HTTP_PROXY"}}, "HTTP_PROXY"},
	} {
		_, err := New(c.o)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
	if _, err := New(Options{IPVersion: "4", Sources: []netip.Addr{v4}, Fixed: []Fixed{{"h", "80", []netip.Addr{v6, v4}}}}); err != nil {
		t.Error(err)
	}
}
