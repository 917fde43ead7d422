package config

import (
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// Network says how the servers are reached. The zero value is the system's way.
type Network struct {
	IPVersion         string // 4 | 6 | both; "" = not given
	Sources           []netip.Addr
	Resolve           []Resolve
	UnixSocket        string
	Proxy             string // an address, env for what the environment says, none; "" = not given
	NoProxy           string // hosts that are reached without it; "" = not given
	CAFile            string
	CertFile, KeyFile string
	Insecure          bool
	SNI               string
}

// Resolve gives the addresses of one HOST:PORT.
type Resolve struct {
	Host, Port string
	Addrs      []netip.Addr
}

// Values of Network.Proxy that are no address.
const (
	ProxyNone = "none"
	ProxyEnv  = "env"
)

func ipVersions() []string { return []string{"4", "6", "both"} }

func networkKeys() keys {
	return keys{known: []string{"ca_file", "client_cert", "client_key", "insecure", "sni", "ip_version", "unix_socket", "proxy", "no_proxy", "source_addresses",
		"resolve"}}
}

// networkDraft is what was given of the network.
type networkDraft struct {
	ca, cert, key, sni, version, unix, proxy, noProxy opt[string]
	insecure                                          opt[bool]
	sources, resolve                                  opt[[]string]
}

// networkFlags are the flags of the network.
func networkFlags() []Flag {
	text := func(field, name, help string) Flag {
		return Flag{Field: field, Names: []string{name}, Group: gNetwork, Kind: Text, Help: help}
	}
	list := func(field, name, help string) Flag {
		f := text(field, name, help)
		f.Several, f.Repeat = true, true
		return f
	}
	return []Flag{
		text("ca_file", "--ca-file", "File of certificates (PEM) that are trusted, in place of the system's."),
		text("client_cert", "--client-cert", "File of the certificate (PEM) that is sent where the server asks for one; its key too, without --client-key."),
		text("client_key", "--client-key", "File of the client certificate's private key (PEM, without a password)."),
		{Field: "insecure", Names: []string{"--insecure"}, Group: gNetwork, Kind: Bool, Default: "false",
			Help: "Do not verify the server's certificate. The result says so."},
		text("sni", "--sni", "Name of the server in the TLS handshake, which its certificate must have, in place of the URL's host."),
		{Field: "ip_version", Names: []string{"--ip-version"}, Group: gNetwork, Kind: Enum, Choices: ipVersions(), Default: "both",
			Help: "IP version of the connections. both: what the name has, in the resolver's order."},
		text("unix_socket", "--unix-socket", "Path of a unix socket that every connection goes to; --url still names host and path. There are no kernel stamps there."),
		text("proxy", "--proxy", "Proxy for all servers but loopback ones: http://[USER:PASSWORD@]HOST:PORT; asked by CONNECT for https, with whole URLs for http. env: what "+
			"HTTP_PROXY, HTTPS_PROXY and NO_PROXY say. none: no proxy. Not given: none, unless AIPERF_HTTP_TRUST_ENV is true."),
		text("no_proxy", "--no-proxy", "Hosts that are reached without the proxy, in NO_PROXY's form. Not given: NO_PROXY."),
		list("source_addresses", "--source-address", "Own addresses that connections are made from, in turn; several words or a list with commas. Each gives as many more "+
			"ports for one server."),
		list("resolve", "--resolve", "HOST:PORT:ADDRESS: connect to ADDRESS for that host and port of --url (or of the proxy); several addresses with commas between."),
	}
}

// network puts the flags over what the file says.
func (all *flags) network(n *networkDraft) {
	for field, o := range map[string]*opt[string]{"ca_file": &n.ca, "client_cert": &n.cert, "client_key": &n.key, "sni": &n.sni, "unix_socket": &n.unix,
		"proxy": &n.proxy, "no_proxy": &n.noProxy} {
		replace(o, all.text(field))
	}
	replace(&n.version, all.choice("ip_version"))
	replace(&n.insecure, all.truth("insecure"))
	if s := all.byField["source_addresses"]; s.given != "" {
		var items []string
		for _, v := range s.values {
			items = append(items, listItems(v)...)
		}
		n.sources = given(items, s.given)
	}
	if s := all.byField["resolve"]; s.given != "" {
		n.resolve = given(s.values, s.given)
	}
}

// network reads the mapping of an endpoint.
func (s *section) network() (n networkDraft) {
	v, where, ok := s.value("network")
	if !ok {
		return n
	}
	m := s.section(v, where, networkKeys())
	if v.shape != isMap {
		return n
	}
	n = networkDraft{ca: m.text("ca_file"), cert: m.text("client_cert"), key: m.text("client_key"), sni: m.text("sni"), unix: m.text("unix_socket"),
		noProxy: m.text("no_proxy"), insecure: m.truth("insecure")}
	if e, where, ok := m.value("proxy"); ok {
		if text, isText := e.text(); isText {
			n.proxy = given(text, s.place(e.line, e.col, where))
		} else { // what was found may hold a password
			s.fail(e.line, e.col, where, "Input should be a valid string: http://HOST:PORT, env or none.")
		}
	}
	if e, where, ok := m.value("ip_version"); ok && e.shape == isInt {
		v, valid := choose(strconv.FormatInt(e.i, 10), ipVersions())
		if !valid {
			m.bad(e, where, "Input should be "+oneOf(ipVersions()))
		}
		n.version = given(v, s.place(e.line, e.col, where))
	} else {
		n.version = m.choice("ip_version", ipVersions(), nil)
	}
	n.sources, n.resolve = m.texts("source_addresses"), m.texts("resolve")
	return n
}

// resolveNetwork checks each value, and those that belong together.
func (r *decoder) resolveNetwork(d *networkDraft) Network {
	n := Network{IPVersion: d.version.v, UnixSocket: d.unix.v, Proxy: d.proxy.v, NoProxy: d.noProxy.v, CAFile: d.ca.v, CertFile: d.cert.v, KeyFile: d.key.v,
		Insecure: d.insecure.v, SNI: d.sni.v}
	for _, o := range []opt[string]{d.ca, d.cert, d.key, d.sni, d.unix, d.proxy} {
		if o.ok && strings.TrimSpace(o.v) == "" {
			r.problem(o.from, "its value is empty.")
		}
	}
	for _, item := range d.sources.v {
		a, err := netip.ParseAddr(strings.Trim(item, "[]"))
		if err != nil || a.IsUnspecified() || a.IsMulticast() {
			r.problem(d.sources.from, "'%s' is no address of this machine: an IPv4 or IPv6 address is expected, such as 192.0.2.7.", item)
			continue
		}
		n.Sources = append(n.Sources, a)
	}
	for _, item := range d.resolve.v {
		rule, what := parseResolve(item)
		if what != "" {
			r.problem(d.resolve.from, "'%s' %s; HOST:PORT:ADDRESS is expected, such as llm.example:443:192.0.2.7, with commas between several addresses.", item, what)
			continue
		}
		n.Resolve = append(n.Resolve, rule)
	}
	if n.KeyFile != "" && n.CertFile == "" {
		r.problem(d.key.from, "a client key needs its certificate: give --client-cert as well.")
	}
	switch what := proxyFault(n.Proxy); {
	case d.proxy.ok && what != "":
		r.problem(d.proxy.from, "%s", what)
	case d.noProxy.ok && (n.Proxy == ProxyNone || n.Proxy == ""):
		r.problem(d.noProxy.from, "there is no proxy that hosts could be kept from: give --proxy as well.")
	}
	return n
}

// parseResolve reads HOST:PORT:ADDRESS[,ADDRESS...]; an IPv6 address may stand in brackets.
func parseResolve(s string) (rule Resolve, fault string) {
	host, rest, ok := strings.Cut(s, ":")
	port, list, ok2 := strings.Cut(rest, ":")
	if !ok || !ok2 || host == "" {
		return rule, "has not the three parts"
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return rule, fmt.Sprintf("has the port '%s', which is not from 1 to 65535", port)
	}
	rule = Resolve{Host: host, Port: port}
	for item := range strings.SplitSeq(list, ",") {
		item = strings.TrimSpace(item)
		a, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(item, "["), "]"))
		if err != nil {
			return rule, fmt.Sprintf("has '%s' in the place of an IP address", item)
		}
		rule.Addrs = append(rule.Addrs, a)
	}
	return rule, ""
}

// proxyFault says why a proxy's address cannot be used; it does not show it, for a password may stand in it.
func proxyFault(s string) string {
	if s == ProxyNone || s == ProxyEnv {
		return ""
	}
	const allowed = "http://[USER:PASSWORD@]HOST:PORT is expected, or env, or none."
	if !strings.Contains(s, "://") {
		s = "http://" + s
	}
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Hostname() == "" || strings.ContainsFunc(s, isSpace):
		return "the proxy's address cannot be read: " + allowed
	case u.Scheme != "http":
		return fmt.Sprintf("a proxy of the kind %s is not supported: %s", pyString(u.Scheme), allowed)
	case u.Path != "" && u.Path != "/" || u.RawQuery != "":
		return "the proxy's address has a path or a query: " + allowed
	}
	return ""
}
