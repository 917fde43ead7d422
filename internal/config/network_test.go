package config

import (
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestTheNetworkIsReadFromFlagsAndFile(t *testing.T) {
	addr := netip.MustParseAddr
	phase := "phases: {type: concurrency, requests: 1}"
	yaml := func(keys string) string {
		return strings.Replace(minimal(phase), "{url: h}", "{url: h, network: {"+keys+"}}", 1)
	}
	for _, tt := range []struct {
		name, yaml string
		args       []string
		want       Network
	}{
		{"nothing", "", nil, Network{}},
		{"flags", "", []string{"--ca-file", "ca.pem", "--client-cert", "c.pem", "--client-key", "k.pem", "--insecure", "--sni", "x", "--ip-version", "6",
			"--proxy", "u:pw@proxy:3128", "--no-proxy", "a,.b", "--source-address", "::1", "fe80::1%eth0", "--resolve", "h:80:[::2],::3", "--resolve", "g:443:1.2.3.4"},
			Network{CAFile: "ca.pem", CertFile: "c.pem", KeyFile: "k.pem", Insecure: true, SNI: "x", IPVersion: "6", Proxy: "u:pw@proxy:3128", NoProxy: "a,.b",
				Sources: []netip.Addr{addr("::1"), addr("fe80::1%eth0")},
				Resolve: []Resolve{{"h", "80", []netip.Addr{addr("::2"), addr("::3")}}, {"g", "443", []netip.Addr{addr("1.2.3.4")}}}}},
		{"a list of addresses", "", []string{"--source-address=127.0.0.1, 127.0.0.2"}, Network{Sources: []netip.Addr{addr("127.0.0.1"), addr("127.0.0.2")}}},
		{"a file", yaml("ca_file: a, clientCert: b, insecure: true, sni: s, ip_version: 4, unix_socket: /s, proxy: env, source_addresses: [127.0.0.1], resolve: 'h:1:::1'"), nil,
			Network{CAFile: "a", CertFile: "b", Insecure: true, SNI: "s", IPVersion: "4", UnixSocket: "/s", Proxy: "env",
				Sources: []netip.Addr{addr("127.0.0.1")}, Resolve: []Resolve{{"h", "1", []netip.Addr{addr("::1")}}}}},
		{"flags over a file", yaml("sni: s, ip_version: both, proxy: 'http://p', insecure: true"), []string{"--sni", "t", "--proxy", "none", "--insecure=false"},
			Network{SNI: "t", IPVersion: "both", Proxy: "none"}},
	} {
		args := tt.args
		if tt.yaml == "" {
			args = append([]string{"-m", "m"}, args...)
		}
		if got := mustParse(t, tt.yaml, args...).Endpoint.Network; !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s:\ngot  %+v\nwant %+v", tt.name, got, tt.want)
		}
	}
}

func TestWhatIsWrongWithTheNetworkIsNamed(t *testing.T) {
	phase := "phases: {type: concurrency, requests: 1}"
	yaml := func(keys string) string {
		return strings.Replace(minimal(phase), "{url: h}", "{url: h, network: "+keys+"}", 1)
	}
	for _, tt := range []struct {
		yaml string
		args []string
		want string
	}{
		{"", []string{"--ip-version", "5"}, "--ip-version: Input should be '4', '6' or 'both', got '5'."},
		{"", []string{"--source-address", "localhost"}, "--source-address: 'localhost' is no address of this machine"},
		{"", []string{"--source-address", "0.0.0.0"}, "--source-address: '0.0.0.0' is no address of this machine"},
		{"", []string{"--resolve", "h:80"}, "--resolve: 'h:80' has not the three parts; HOST:PORT:ADDRESS is expected"},
		{"", []string{"--resolve", "h:0:1.2.3.4"}, "--resolve: 'h:0:1.2.3.4' has the port '0'"},
		{"", []string{"--resolve", "h:80:g"}, "--resolve: 'h:80:g' has 'g' in the place of an IP address"},
		{"", []string{"--client-key", "k"}, "--client-key: a client key needs its certificate: give --client-cert"},
		{"", []string{"--no-proxy", "h"}, "--no-proxy: there is no proxy that hosts could be kept from"},
		{"", []string{"--proxy", "socks5://u:SEKRET@h"}, "--proxy: a proxy of the kind 'socks5' is not supported"},
		{"", []string{"--proxy", "http://u:SEKRET@h/path"}, "--proxy: the proxy's address has a path or a query"},
		{"", []string{"--proxy", "http://u:SEK RET@"}, "--proxy: the proxy's address cannot be read"},
		{"", []string{"--ca-file", ""}, "--ca-file: its value is empty."},
		{"", []string{"--api-key", "env:MISSING"}, "--api-key: the environment has no 'MISSING'"},
		{"", []string{"--api-key", "file:missing"}, "--api-key: the file of the API key cannot be read: open missing"},
		{yaml("[1]"), nil, "network: Input should be a valid dictionary"},
		{yaml("{sn: x}"), nil, "network.sn: Extra inputs are not permitted: unknown key 'sn' (did you mean 'sni'?)"},
		{yaml("{ip_version: 5}"), nil, "network.ip_version: Input should be '4', '6' or 'both'"},
		{yaml("{proxy: {SEKRET: 1}}"), nil, "network.proxy: Input should be a valid string"},
		{yaml("{resolve: [x]}"), nil, "network.resolve: 'x' has not the three parts"},
	} {
		args := tt.args
		if tt.yaml == "" {
			args = append([]string{"-m", "m"}, args...)
		}
		if got := message(t, tt.yaml, args...); !strings.Contains(got, tt.want) || strings.Contains(got, "SEKRET") {
			t.Errorf("%q %s: %q, want %q and no secret in it", tt.args, tt.yaml, got, tt.want)
		}
	}
}

func TestAnAPIKeyComesFromTheEnvironmentOrAFile(t *testing.T) {
	env := func(name string) (string, bool) { return "from the environment", name == "KEY" }
	read := files(map[string]string{"key.txt": "from a file\n", "run.yaml": strings.Replace(minimal("phases: {type: concurrency, requests: 1}"), "{url: h}",
		"{url: h, api_key: 'env:KEY'}", 1)})
	for want, args := range map[string][]string{
		"from the environment": {"-m", "m", "--api-key", "env:KEY"}, "from a file": {"-m", "m", "--api-key=file:key.txt"}, "plain": {"-m", "m", "--api-key", "plain"},
	} {
		c, err := Parse(args, env, read)
		if err != nil || c.Endpoint.APIKey != want || strings.Contains(c.Command, want) {
			t.Errorf("%q: %+v, %v", args, c, err)
		}
	}
	if c, err := Parse([]string{"-f", "run.yaml"}, env, read); err != nil || c.Endpoint.APIKey != "from the environment" {
		t.Errorf("in a file: %+v, %v", c, err)
	}
}

func TestSecretsAreAllThatIsNamedLikeOne(t *testing.T) {
	c := mustParse(t, "", "-m", "m", "--api-key", "the-key", "--header", "X-Auth:in-header", "--header", "X-Plain:plain", "--proxy", "http://me:p%40ss@proxy:1",
		"--url", "http://h?key=in%20query&a=b", "--custom-endpoint", "/x?sig=in-path", "--extra-inputs", `{"token":"in-body","a":[{"secret":7}],"b":"plain"}`)
	got := c.Secrets()
	slices.Sort(got)
	if want := []string{"7", "in query", "in%20query", "in-body", "in-header", "in-path", "in-path", "p%40ss", "p@ss", "the-key"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, s := range got {
		if len(s) > 1 && strings.Contains(c.Command, s) {
			t.Errorf("%s shows %s", c.Command, s)
		}
	}
}
