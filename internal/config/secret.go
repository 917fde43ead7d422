package config

import (
	"fmt"
	"net/url"
	"strings"
)

// Forms of an API key that is not on the command line, where every process of the machine could read it.
const (
	keyFromEnv  = "env:"
	keyFromFile = "file:"
)

// readKey takes the API key from where it says that it is.
func (e *endpointDraft) readKey(env func(string) (string, bool), read func(string) ([]byte, error)) error {
	bad := func(format string, args ...any) error {
		return &Error{Title: titleConfig, Msg: e.apiKey.from + ": " + fmt.Sprintf(format, args...)}
	}
	if name, ok := strings.CutPrefix(e.apiKey.v, keyFromEnv); ok {
		key, set := env(name)
		if !set || key == "" {
			return bad("the environment has no %s that the API key could be taken from (env:%s).", pyString(name), name)
		}
		e.apiKey.v = key
	}
	if path, ok := strings.CutPrefix(e.apiKey.v, keyFromFile); ok {
		data, err := read(path)
		if err != nil {
			return bad("the file of the API key cannot be read: %v", err)
		}
		if e.apiKey.v = strings.TrimSpace(string(data)); e.apiKey.v == "" {
			return bad("the file of the API key, %s, is empty.", path)
		}
	}
	return nil
}

// Secrets are the values that must not reach a file, the screen, or the process's title: the key, what headers, addresses and the bodies'
// extra fields hold under names of credentials, and the proxy's password.
func (c *Config) Secrets() []string {
	e := &c.Endpoint
	out := []string{e.APIKey}
	for _, h := range e.Headers {
		if sensitiveHeader(h.Key) {
			out = append(out, fmt.Sprint(h.Value))
		}
	}
	for _, address := range append([]string{e.Path, e.Network.Proxy}, e.URLs...) {
		out = append(out, secretsOf(address)...)
	}
	return secretFields(out, e.Extra)
}

// SecretBodies reports whether the bodies of requests hold secrets.
func (e *Endpoint) SecretBodies() bool { return len(secretFields(nil, e.Extra)) > 0 }

// secretsOf are the password and the secret query parameters of an address, as they are written and as they read.
func secretsOf(address string) (out []string) {
	if !strings.Contains(address, "://") && !strings.HasPrefix(address, "/") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil
	}
	if u.User != nil {
		password, _ := u.User.Password()
		_, written, _ := strings.Cut(u.User.String(), ":")
		out = append(out, password, written)
	}
	for item := range strings.SplitSeq(u.RawQuery, "&") {
		name, value, _ := strings.Cut(item, "=")
		if plain, err := url.QueryUnescape(name); err == nil {
			name = plain
		}
		if sensitiveParam(name) {
			out = append(out, value)
			if plain, err := url.QueryUnescape(value); err == nil {
				out = append(out, plain)
			}
		}
	}
	return out
}

// secretFields appends the texts that stand under names of credentials, at any depth.
func secretFields(out []string, m Map) []string {
	for _, kv := range m {
		if sensitiveParam(kv.Key) {
			text := fmt.Sprint(kv.Value)
			out = append(out, text)
			if written, err := kv.JSON(); err == nil && strings.Trim(string(written), `"`) != text {
				out = append(out, strings.Trim(string(written), `"`))
			}
		} else {
			out = secretItems(out, kv.Value)
		}
	}
	return out
}

func secretItems(out []string, v any) []string {
	switch v := v.(type) {
	case Map:
		return secretFields(out, v)
	case []any:
		for _, item := range v {
			out = secretItems(out, item)
		}
	}
	return out
}
