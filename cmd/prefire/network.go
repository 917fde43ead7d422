package main

import (
	"fmt"
	"os"
	"strings"

	"prefire/internal/config"
	"prefire/internal/endpoint"
	"prefire/internal/export"
	"prefire/internal/reach"
	"prefire/loadgen"
)

// aiperf's settings in the environment that say how servers are reached.
const (
	verifyEnv    = "AIPERF_HTTP_SSL_VERIFY"
	trustEnv     = "AIPERF_HTTP_TRUST_ENV"
	ipVersionEnv = "AIPERF_HTTP_IP_VERSION"
)

// truth reads a switch of aiperf's in the environment; given is false where it is not set.
func truth(env func(string) (string, bool), name string) (on, given bool, err error) {
	v, ok := env(name)
	if !ok || v == "" {
		return false, false, nil
	}
	switch strings.ToLower(v) {
	case "1", "true", "t", "yes", "y", "on":
		return true, true, nil
	case "0", "false", "f", "no", "n", "off":
		return false, true, nil
	}
	return false, false, fmt.Errorf("%s is %q in the environment: Input should be a valid boolean, true or false", name, v)
}

// openWay makes the way to the servers of a config. Flags and file stand above the environment.
func openWay(cfg *config.Config, env func(string) (string, bool)) (*reach.Way, error) {
	n := &cfg.Endpoint.Network
	o := reach.Options{IPVersion: n.IPVersion, Sources: n.Sources, Unix: n.UnixSocket, TLS: reach.TLS{Insecure: n.Insecure, ServerName: n.SNI}}
	for _, r := range n.Resolve {
		o.Fixed = append(o.Fixed, reach.Fixed(r))
	}
	if o.IPVersion == "" {
		v, given := env(ipVersionEnv)
		switch {
		case !given || v == "" || v == "auto":
		case v == "4" || v == "6":
			o.IPVersion = v
		default:
			return nil, fmt.Errorf("%s is %q in the environment: Input should be '4', '6' or 'auto'", ipVersionEnv, v)
		}
	} else if o.IPVersion == "both" {
		o.IPVersion = ""
	}
	verify, given, err := truth(env, verifyEnv)
	if err != nil {
		return nil, err
	}
	if given && !verify && n.CAFile == "" {
		o.TLS.Insecure = true
	}
	for _, f := range [...]struct {
		flag, path string
		name       *string
		data       *[]byte
	}{
		{"--ca-file", n.CAFile, &o.TLS.CAFile, &o.TLS.CA}, {"--client-cert", n.CertFile, &o.TLS.CertFile, &o.TLS.Cert}, {"--client-key", n.KeyFile, &o.TLS.KeyFile, &o.TLS.Key},
	} {
		if f.path == "" {
			continue
		}
		data, err := os.ReadFile(f.path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.flag, err)
		}
		*f.name, *f.data = f.path, data
	}
	if o.Proxies, err = proxies(n, env); err != nil {
		return nil, err
	}
	return reach.New(o)
}

// proxies are those that a flag or the file names, or the environment, where it is asked.
func proxies(n *config.Network, env func(string) (string, bool)) (p reach.Proxies, err error) {
	first := func(names ...string) string {
		for _, name := range names {
			if v, ok := env(name); ok && v != "" {
				return v
			}
		}
		return ""
	}
	p.Except = n.NoProxy
	if p.Except == "" {
		p.Except = first("NO_PROXY", "no_proxy")
	}
	trusted, _, err := truth(env, trustEnv)
	switch {
	case err != nil:
		return p, err
	case n.Proxy == config.ProxyEnv:
		p.From = "--proxy env"
	case n.Proxy == config.ProxyNone, n.Proxy == "" && !trusted:
		return reach.Proxies{}, nil
	case n.Proxy == "":
		p.From = trustEnv
	default:
		p.HTTP, p.HTTPS, p.From = n.Proxy, n.Proxy, "--proxy"
		return p, nil
	}
	p.HTTP, p.HTTPS = first("HTTP_PROXY", "http_proxy"), first("HTTPS_PROXY", "https_proxy")
	return p, nil
}

// wayNotices are what a user must know of the way before the load.
func wayNotices(cfg *config.Config, way *reach.Way, targets []loadgen.Target) []string {
	var out []string
	for i := range targets {
		if t := &targets[i]; t.Wire.TLS != nil && t.Wire.TLS.InsecureSkipVerify {
			why := "--insecure"
			if !cfg.Endpoint.Network.Insecure {
				why = verifyEnv
			}
			out = append(out, fmt.Sprintf("%s: ITS CERTIFICATE IS NOT VERIFIED (%s): whoever is in between can read and answer in its place", t.URL, why))
		}
	}
	for _, r := range way.Reached() {
		switch {
		case r.Proxy != "":
			out = append(out, fmt.Sprintf("%s is reached through the proxy %s, whose time is in every figure", r.URL, r.Proxy))
		case r.Direct != "":
			out = append(out, fmt.Sprintf("%s is reached without the proxy: %s", r.URL, r.Direct))
		}
	}
	return out
}

// networkNotices are those of them that a reader of the result must know.
func (b *bench) networkNotices() []string { return wayNotices(b.cfg, b.load.way, b.load.plan.Targets) }

// networkFacts are what became of the switches of the network; nil where none was used.
func (b *bench) networkFacts() any {
	n := &b.cfg.Endpoint.Network
	var o export.Object
	add := func(key string, value any) { o = append(o, export.Field{Key: key, Value: value}) }
	if v := b.load.way.IPVersion(); v != "" {
		add("ip_version", v)
	}
	if n.UnixSocket != "" {
		add("unix_socket", n.UnixSocket)
	}
	if len(n.Sources) > 0 {
		var list []string
		for _, a := range n.Sources {
			list = append(list, a.String())
		}
		add("source_addresses", list)
	}
	var fixed []string
	for _, r := range n.Resolve {
		for _, a := range r.Addrs {
			fixed = append(fixed, r.Host+":"+r.Port+":"+a.String())
		}
	}
	if len(fixed) > 0 {
		add("resolve", fixed)
	}
	var proxied []any
	for _, r := range b.load.way.Reached() {
		switch {
		case r.Proxy != "":
			proxied = append(proxied, export.Object{{Key: "url", Value: r.URL}, {Key: "proxy", Value: r.Proxy}})
		case r.Direct != "":
			proxied = append(proxied, export.Object{{Key: "url", Value: r.URL}, {Key: "no_proxy", Value: r.Direct}})
		}
	}
	if len(proxied) > 0 {
		add("proxies", proxied)
	}
	for i := range b.load.plan.Targets {
		c := b.load.plan.Targets[i].Wire.TLS
		if b.load.plan.Targets[i].Wire.Scheme != "https" || c == nil {
			continue
		}
		tls := export.Object{{Key: "certificate_verified", Value: !c.InsecureSkipVerify}}
		for _, f := range [...]struct{ key, value string }{{"ca_file", n.CAFile}, {"client_certificate", b.load.way.Certificate()}, {"server_name", n.SNI}} {
			if f.value != "" {
				tls = append(tls, export.Field{Key: f.key, Value: f.value})
			}
		}
		add("tls", tls)
		break
	}
	if len(o) == 0 {
		return nil
	}
	return o
}

// sessionCopy is a setting of aiperf's by which a header field holds the session's id, beside the one of --session-header.
type sessionCopy struct {
	setting, field string
	byDefault      bool
}

// copySettings are in the order in which aiperf sends their fields.
func copySettings() []sessionCopy {
	return []sessionCopy{
		{"AIPERF_HTTP_X_SESSION_ID_FROM_CORRELATION_ID", "X-Session-ID", false},
		{"AIPERF_HTTP_X_SESSION_AFFINITY_FROM_CORRELATION_ID", endpoint.SessionAffinity, true},
		{"AIPERF_HTTP_X_SMG_ROUTING_KEY_FROM_CORRELATION_ID", "X-SMG-Routing-Key", false},
		{"AIPERF_HTTP_X_DYNAMO_SESSION_ID_FROM_CORRELATION_ID", "X-Dynamo-Session-ID", false},
	}
}

// sessionCopies are the fields that the environment asks for; not nil.
func sessionCopies(env func(string) (string, bool)) ([]string, error) {
	fields := []string{}
	for _, c := range copySettings() {
		on, given, err := truth(env, c.setting)
		if err != nil {
			return nil, err
		}
		if on || !given && c.byDefault {
			fields = append(fields, c.field)
		}
	}
	return fields, nil
}

// readSettings are the settings of aiperf's in the environment that are read.
func readSettings() []string {
	names := []string{verifyEnv, trustEnv, ipVersionEnv, usageDiffEnv, oslShareEnv, oslTokensEnv}
	for _, c := range copySettings() {
		names = append(names, c.setting)
	}
	return names
}
