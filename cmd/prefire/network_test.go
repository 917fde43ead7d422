package main

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"prefire/internal/config"
	"prefire/internal/endpoint"
	"prefire/internal/fakellm"
	"prefire/internal/reach"
)

// startWith runs the program with an environment of its own.
func startWith(env map[string]string, args ...string) program {
	var out, err locked
	code := run(process{args: append([]string{"prefire"}, args...), stdout: &out, stderr: &err, env: func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	}})
	return program{code, out.String(), err.String()}
}

// networkOf is prefire.network of a summary, as JSON.
func networkOf(t *testing.T, dir string) string {
	t.Helper()
	var s struct {
		Prefire struct{ Network json.RawMessage }
	}
	readJSON(t, filepath.Join(dir, "profile_export_aiperf.json"), &s)
	return string(s.Prefire.Network)
}

func portOf(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u.Port()
}

// hop is a proxy: it takes every connection and request to one server, and notes what it was asked.
type hop struct {
	l    net.Listener
	to   string
	auth string // asked of clients; "" = none

	mu    sync.Mutex
	asked []string // request lines
}

func newHop(t *testing.T, to, auth string) *hop {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &hop{l: l, to: to, auth: auth}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go h.serve(c)
		}
	}()
	return h
}

func (h *hop) addr() string { return h.l.Addr().String() }

func (h *hop) lines() []string { h.mu.Lock(); defer h.mu.Unlock(); return slices.Clone(h.asked) }

func (h *hop) serve(c net.Conn) {
	defer c.Close()
	in := bufio.NewReader(c)
	up, err := net.Dial("tcp", h.to)
	if err != nil {
		return
	}
	defer up.Close()
	answers := false
	for {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		h.mu.Lock()
		h.asked = append(h.asked, r.Method+" "+r.RequestURI)
		h.mu.Unlock()
		if h.auth != "" && r.Header.Get("Proxy-Authorization") != h.auth {
			_, _ = io.WriteString(c, "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
			return
		}
		if r.Method == http.MethodConnect {
			_, _ = io.WriteString(c, "HTTP/1.1 200 Connection established\r\n\r\n")
			go func() { _, _ = io.Copy(up, in); _ = up.(*net.TCPConn).CloseWrite() }()
			_, _ = io.Copy(c, up)
			return
		}
		if !answers {
			answers = true
			go func() { _, _ = io.Copy(c, up); _ = c.Close() }()
		}
		r.Header.Del("Proxy-Authorization")
		r.RequestURI = ""
		if err := r.Write(up); err != nil {
			return
		}
	}
}

// A server is reached under a name that resolves nowhere: by a given address, from given addresses, over either client.
func TestAddressesAreGiven(t *testing.T) {
	s := serve(t, fakellm.Options{TTFT: time.Millisecond})
	at := "llm.invalid:" + portOf(t, s.URL())
	for _, client := range []string{"reactor", "portable"} {
		dir := t.TempDir()
		must(t, profileArgs("http://"+at, dir, "--client", client, "--concurrency", "4", "--request-count", "8", "--ip-version", "4",
			"--resolve", at+":::1,127.0.0.1", "--source-address", "127.0.0.2,127.0.0.3")...)
		want := `{"ip_version":"4","source_addresses":["127.0.0.2","127.0.0.3"],"resolve":["` + at + `:::1","` + at + `:127.0.0.1"]}`
		if got := networkOf(t, dir); compact(t, got) != want {
			t.Errorf("%s: network %s, want %s", client, got, want)
		}
		if sum := readSummary(t, dir); sum.Prefire.Counts.OK != 8 || sum.Prefire.Cold.Count != 0 || sum.Prefire.Client.Transport != client {
			t.Errorf("%s: %+v", client, sum.Prefire)
		}
		from := map[string]bool{}
		for _, e := range s.Entries() {
			host, _, _ := net.SplitHostPort(e.Remote)
			from[host] = true
		}
		if len(from) != 2 || !from["127.0.0.2"] || !from["127.0.0.3"] {
			t.Errorf("%s: the server was reached from %v", client, from)
		}
	}
}

func compact(t *testing.T, s string) string {
	t.Helper()
	var v json.RawMessage
	var b strings.Builder
	if err := json.Unmarshal([]byte(s), &v); err != nil {
		t.Fatalf("%q: %v", s, err)
	}
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(b.String())
}

func TestIPv6(t *testing.T) {
	l, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Skipf("SKIP: this machine has no IPv6 loopback: %v", err)
	}
	s := newMock(t, fakellm.Options{TTFT: time.Millisecond})
	go func() { _ = s.Serve(l) }()
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	for client, url := range map[string]string{"reactor": "http://[::1]:" + port, "portable": "http://localhost:" + port} {
		dir := t.TempDir()
		p := startWith(map[string]string{"AIPERF_HTTP_IP_VERSION": "6"}, profileArgs(url, dir, "--client", client, "--request-count", "2")...)
		if strings.Contains(p.stderr, "does not resolve") && strings.Contains(url, "localhost") {
			t.Logf("this machine's localhost has no IPv6 address: %s", p.stderr)
			continue
		}
		if p.code != exitOK || compact(t, networkOf(t, dir)) != `{"ip_version":"6"}` {
			t.Errorf("%s over %s: exit %d\n%s", url, client, p.code, p.stderr)
		}
	}
	p := startWith(nil, profileArgs("http://[::1]:"+port, t.TempDir(), "--ip-version", "4", "--request-count", "2")...)
	if p.code != exitFailed || !strings.Contains(p.stderr, "is at ::1, no IPv4 address, which --ip-version asks for") {
		t.Errorf("exit %d\n%s", p.code, p.stderr)
	}
}

func TestAUnixSocketStandsForTheServer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "llm.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := newMock(t, fakellm.Options{TTFT: time.Millisecond})
	go func() { _ = s.Serve(l) }()
	dir := t.TempDir()
	must(t, profileArgs("http://model.invalid", dir, "--unix-socket", path, "--concurrency", "3", "--request-count", "9", "--wait-for-model-timeout", "20")...)
	sum := readSummary(t, dir)
	if sum.Prefire.Counts.OK != 9 || sum.Prefire.Cold.Count != 0 || sum.Prefire.Client.Transport != "portable" {
		t.Errorf("%+v", sum.Prefire)
	}
	if got := networkOf(t, dir); compact(t, got) != `{"unix_socket":"`+path+`"}` {
		t.Errorf("network %s", got)
	}
	for _, tt := range []struct{ want, flag, value string }{
		{"Cannot connect to unix socket " + path + "x ssl:default [no such file or directory]", "--unix-socket", path + "x"},
		{"over TCP alone, and http://model.invalid asks for more", "--client", "reactor"},
		{"--unix-socket and a proxy (--proxy) exclude each other", "--proxy", "http://h"},
		{"--unix-socket has no use for --source-address and --resolve", "--source-address", "127.0.0.1"},
	} {
		args := []string{"--unix-socket", path, "--request-count", "1", tt.flag, tt.value}
		if tt.flag == "--unix-socket" {
			args = args[2:]
		}
		if p := startWith(nil, profileArgs("http://model.invalid", t.TempDir(), args...)...); p.code != exitFailed || !strings.Contains(p.stderr, tt.want) {
			t.Errorf("%s %s: exit %d, want %q\n%s", tt.flag, tt.value, p.code, tt.want, p.stderr)
		}
	}
}

// Through a proxy goes what is in the clear with whole URLs, TLS and h2c by CONNECT, the waiting beside the load as well; the password nowhere else.
func TestAProxyIsInBetween(t *testing.T) {
	const user, auth = "me:SEKRET-pw", "Basic bWU6U0VLUkVULXB3"
	for _, tt := range []struct {
		name   string
		mock   fakellm.Options
		scheme string
		args   []string
		env    map[string]string // PROXY stands for the proxy's URL
		client string
		tunnel bool
	}{
		{"clear, reactor", fakellm.Options{}, "http", []string{"--proxy", "PROXY"}, nil, "reactor", false},
		{"HTTP/2", fakellm.Options{H2: true}, "https", []string{"--proxy", "PROXY", "--insecure", "--http", "2"}, nil, "portable", true},
		{"h2c", fakellm.Options{H2C: true}, "http", []string{"--proxy", "PROXY", "--http", "h2c"}, nil, "portable", true},
		{"aiperf's environment", fakellm.Options{}, "http", []string{"--client", "portable"}, map[string]string{"AIPERF_HTTP_TRUST_ENV": "1", "HTTP_PROXY": "PROXY"}, "portable", false},
		{"--proxy env", fakellm.Options{TLS: true}, "https", []string{"--proxy", "env"}, map[string]string{"https_proxy": "PROXY", "AIPERF_HTTP_SSL_VERIFY": "0"}, "portable", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.mock.TTFT = time.Millisecond
			s := serve(t, tt.mock)
			h := newHop(t, strings.TrimPrefix(strings.TrimPrefix(s.URL(), "http://"), "https://"), auth)
			proxy := "http://" + user + "@" + h.addr()
			dir := t.TempDir()
			args := profileArgs(tt.scheme+"://llm.invalid", dir, append(slices.Clone(tt.args), "--concurrency", "2", "--request-count", "6")...)
			if tt.name != "h2c" { // what is asked beside the load speaks HTTP/1.1
				args = append(args, "--wait-for-model-timeout", "20")
			}
			for i := range args {
				args[i] = strings.ReplaceAll(args[i], "PROXY", proxy)
			}
			env := map[string]string{}
			for k, v := range tt.env {
				env[k] = strings.ReplaceAll(v, "PROXY", proxy)
			}
			p := startWith(env, args...)
			if p.code != exitOK {
				t.Fatalf("exit %d\n%s", p.code, p.stderr)
			}
			sum := readSummary(t, dir)
			if sum.Prefire.Counts.OK != 6 || sum.Prefire.Cold.Count != 0 || sum.Prefire.Client.Transport != tt.client {
				t.Errorf("%+v", sum.Prefire)
			}
			if got, want := networkOf(t, dir), `"proxies":[{"url":"`+tt.scheme+`://llm.invalid","proxy":"http://`+h.addr()+`"}]`; !strings.Contains(compact(t, got), want) {
				t.Errorf("network %s, want %s in it", got, want)
			}
			if !strings.Contains(p.stderr, "is reached through the proxy http://"+h.addr()) || !strings.Contains(p.stdout, "is reached through the proxy") {
				t.Errorf("the proxy is not named\n%s%s", p.stdout, p.stderr)
			}
			for _, line := range h.lines() {
				if tt.tunnel != strings.HasPrefix(line, "CONNECT llm.invalid:") || !tt.tunnel && !strings.Contains(line, " http://llm.invalid/") {
					t.Errorf("the proxy was asked %q", line)
				}
			}
			if len(h.lines()) == 0 {
				t.Error("the proxy was not asked")
			}
			for name, text := range filesOf(t, dir) {
				if strings.Contains(text, "SEKRET") || strings.Contains(text, "bWU6U0VLUkVULXB3") {
					t.Errorf("%s holds the password", name)
				}
			}
			if strings.Contains(p.stdout+p.stderr, "SEKRET") {
				t.Errorf("the screen shows the password\n%s%s", p.stdout, p.stderr)
			}
		})
	}
}

func TestAProxyThatRefusesIsNamed(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIP: -short leaves out what the full step runs")
	}
	s := serve(t, fakellm.Options{TLS: true})
	h := newHop(t, strings.TrimPrefix(s.URL(), "https://"), "Basic other")
	for url, want := range map[string]string{
		"https://llm.invalid": "the proxy " + h.addr() + " makes no connection: answered 407 Proxy Authentication Required; give the user and the password in the proxy's URL",
		"http://llm.invalid":  "answered 407 Proxy Authentication Required",
	} {
		p := startWith(nil, profileArgs(url, t.TempDir(), "--request-count", "1", "--proxy", "http://me:SEKRET-pw@"+h.addr())...)
		if p.code != exitFailed || !strings.Contains(p.stderr, want) || strings.Contains(p.stderr, "SEKRET") {
			t.Errorf("%s: exit %d, want %q\n%s", url, p.code, want, p.stderr)
		}
	}
}

func TestAProxyIsNotUsedWhereItShouldNot(t *testing.T) {
	proxy := map[string]string{"HTTP_PROXY": "http://p:1", "NO_PROXY": ".invalid"}
	const local, named = "http://127.0.0.1:80", "http://llm.invalid:80"
	for _, tt := range []struct {
		env  map[string]string
		url  string
		args []string
		want reach.Reached
	}{
		{proxy, "http://h:80", nil, reach.Reached{}},
		{proxy, "http://h:80", []string{"--proxy", "env"}, reach.Reached{Proxy: "http://p:1"}},
		{proxy, local, []string{"--proxy", "env"}, reach.Reached{Direct: "a loopback address is reached without a proxy"}},
		{nil, "http://localhost:80", []string{"--proxy", "p:1"}, reach.Reached{Direct: "a loopback address is reached without a proxy"}},
		{nil, "http://[::1]:80", []string{"--proxy", "p:1"}, reach.Reached{Direct: "a loopback address is reached without a proxy"}},
		{proxy, named, []string{"--proxy", "env"}, reach.Reached{Direct: "its host is among those that are reached without a proxy"}},
		{proxy, named, []string{"--proxy", "u:pw@p"}, reach.Reached{Direct: "its host is among those that are reached without a proxy"}},
		{proxy, named, []string{"--proxy", "u:pw@p", "--no-proxy", "other"}, reach.Reached{Proxy: "http://p"}},
		{nil, named, []string{"--proxy", "p", "--no-proxy", "llm.invalid"}, reach.Reached{Direct: "its host is among those that are reached without a proxy"}},
		{map[string]string{"AIPERF_HTTP_TRUST_ENV": "true", "HTTPS_PROXY": "p"}, named, nil, reach.Reached{Direct: "there is no proxy for http"}},
		{map[string]string{"AIPERF_HTTP_TRUST_ENV": "true", "http_proxy": "p"}, named, nil, reach.Reached{Proxy: "http://p"}},
		{map[string]string{"AIPERF_HTTP_TRUST_ENV": "true", "http_proxy": "p"}, named, []string{"--proxy", "none"}, reach.Reached{}},
	} {
		env := func(name string) (string, bool) { v, ok := tt.env[name]; return v, ok }
		cfg, err := config.Parse(append([]string{"--model", "m", "--url", tt.url}, tt.args...), env, os.ReadFile)
		if err != nil {
			t.Fatal(err)
		}
		way, err := openWay(cfg, env)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := target(cfg, tt.url, &endpoint.Header{}, way); err != nil {
			t.Fatal(err)
		}
		tt.want.URL = tt.url
		if got := way.Reached(); len(got) != 1 || got[0] != tt.want {
			t.Errorf("%s %q with %v: %+v, want %+v", tt.url, tt.args, tt.env, got, tt.want)
		}
	}
}

// pair makes a key and a certificate that signs itself, as PEM.
func pair(t *testing.T, name string) (cert, key []byte) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour), DNSNames: []string{name},
		IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
}

// terminate is a TLS server in front of another: it asks for a client's certificate, and notes the names that are asked for.
func terminate(t *testing.T, to string, cert, key, clients []byte) (addr string, names func() []string) {
	t.Helper()
	own, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(clients)
	var mu sync.Mutex
	var asked []string
	cfg := &tls.Config{Certificates: []tls.Certificate{own}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}
	cfg.GetConfigForClient = func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, h.ServerName)
		return nil, nil
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				up, err := net.Dial("tcp", to)
				if err != nil {
					return
				}
				defer up.Close()
				go func() { _, _ = io.Copy(up, c); _ = up.(*net.TCPConn).CloseWrite() }()
				_, _ = io.Copy(c, up)
			}()
		}
	}()
	return l.Addr().String(), func() []string { mu.Lock(); defer mu.Unlock(); return slices.Compact(slices.Clone(asked)) }
}

func TestTLSAsTheUserSays(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIP: -short leaves out what the full step runs")
	}
	s := serve(t, fakellm.Options{TTFT: time.Millisecond})
	dir := t.TempDir()
	cert, key := pair(t, "llm.invalid")
	clientCert, clientKey := pair(t, "client")
	file := func(name string, parts ...[]byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, slices.Concat(parts...), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ca, both := file("ca.pem", cert), file("both.pem", clientCert, clientKey)
	only, own := file("cert.pem", clientCert), file("key.pem", clientKey)
	addr, names := terminate(t, strings.TrimPrefix(s.URL(), "http://"), cert, key, clientCert)
	at := "https://" + addr
	for _, tt := range []struct {
		args []string
		want string // of prefire.network; else of stderr
		ok   bool
	}{
		{[]string{"--ca-file", ca, "--sni", "llm.invalid", "--client-cert", both},
			`{"tls":{"certificate_verified":true,"ca_file":"` + ca + `","client_certificate":"CN=client","server_name":"llm.invalid"}}`, true},
		{[]string{"--ca-file", ca, "--sni", "llm.invalid", "--client-cert", only, "--client-key", own, "--wait-for-model-timeout", "20"},
			`{"tls":{"certificate_verified":true,"ca_file":"` + ca + `","client_certificate":"CN=client","server_name":"llm.invalid"}}`, true},
		{[]string{"--insecure", "--sni", "llm.invalid", "--client-cert", both},
			`{"tls":{"certificate_verified":false,"client_certificate":"CN=client","server_name":"llm.invalid"}}`, true},
		{[]string{"--ca-file", ca, "--sni", "llm.invalid"}, "certificate required", false},
		{[]string{"--ca-file", ca, "--client-cert", both}, "certificate is not trusted", false},
		{[]string{"--sni", "llm.invalid", "--client-cert", both}, "give its issuer's certificate with --ca-file", false},
		{[]string{"--ca-file", own}, "CA file " + own + ": there is no certificate in it", false},
		{[]string{"--client-cert", only}, "there is no private key in it", false},
		{[]string{"--ca-file", dir + "/none"}, "--ca-file: open " + dir + "/none: no such file", false},
		{[]string{"--client-cert", both, "--client-key", file("other.pem", key)}, "private key does not match public key", false},
		{[]string{"--client-cert", only, "--client-key", file("locked.pem", []byte("-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n"))},
			"is protected by a password", false},
	} {
		out := t.TempDir()
		p := startWith(nil, profileArgs(at, out, append(tt.args, "--concurrency", "2", "--request-count", "4")...)...)
		if !tt.ok {
			if p.code != exitFailed || !strings.Contains(p.stderr, tt.want) {
				t.Errorf("%q: exit %d, want %q\n%s", tt.args, p.code, tt.want, p.stderr)
			}
			continue
		}
		if p.code != exitOK {
			t.Errorf("%q: exit %d\n%s", tt.args, p.code, p.stderr)
			continue
		}
		if got := compact(t, networkOf(t, out)); got != tt.want {
			t.Errorf("%q: network %s, want %s", tt.args, got, tt.want)
		}
		loud := strings.Contains(p.stderr, "CERTIFICATE IS NOT VERIFIED") && strings.Contains(p.stdout, "CERTIFICATE IS NOT VERIFIED")
		if loud != slices.Contains(tt.args, "--insecure") {
			t.Errorf("%q: said to be insecure: %v\n%s%s", tt.args, loud, p.stdout, p.stderr)
		}
	}
	if got := names(); !slices.Contains(got, "llm.invalid") {
		t.Errorf("names asked for: %q", got)
	}
}

func TestWhatCannotBeReachedIsSaid(t *testing.T) {
	for want, args := range map[string][]string{
		"--resolve h:81 is no address that is connected to: --url has http://h:80":                          {"--url", "http://h:80", "--resolve", "h:81:127.0.0.1"},
		"AIPERF_HTTP_IP_VERSION is \"5\" in the environment: Input should be '4', '6' or 'auto'":            {"--url", "http://h:80"},
		"source address ::1 is no IPv4 address, which --ip-version asks for":                                {"--url", "http://h:80", "--source-address", "::1", "--ip-version", "4"},
		"--resolve h:80 has no IPv6 address, which --ip-version asks for":                                   {"--url", "http://h:80", "--resolve", "h:80:127.0.0.1", "--ip-version", "6"},
		"is at 127.0.0.1, and no source address is of its kind: --source-address has ::1":                   {"--url", "http://127.0.0.1:80", "--source-address", "::1", "--ip-version", "both"},
		"--resolve h:80 has no effect: http://h:80 is reached through the proxy p:1 (--proxy), which looks": {"--url", "http://h:80", "--resolve", "h:80:127.0.0.1", "--proxy", "p:1", "--ip-version", "both"},
	} {
		env := map[string]string{}
		if strings.HasPrefix(want, "AIPERF") {
			env["AIPERF_HTTP_IP_VERSION"] = "5"
		}
		p := startWith(env, append([]string{"profile", "--model", "m", "--tokenizer", "builtin", "--artifact-dir", t.TempDir(), "--request-count", "1"}, args...)...)
		if p.code != exitFailed || !strings.Contains(p.stderr, want) {
			t.Errorf("%q: exit %d, want %q\n%s", args, p.code, want, p.stderr)
		}
	}
}
