package config

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"unicode"
)

func isSpace(r rune) bool { return unicode.IsSpace(r) }

// withScheme puts http:// before an address without a scheme. What has the form of another kind of URI is left as it is.
func withScheme(s string) string {
	if strings.Contains(s, "://") {
		return s
	}
	scheme, _, ok := strings.Cut(s, ":")
	if ok {
		switch strings.ToLower(scheme) {
		case "data", "file", "ftp", "ftps", "gopher", "javascript", "ldap", "ldaps", "mailto", "sftp", "ssh", "tel", "vbscript", "ws", "wss":
			return s
		}
	}
	return "http://" + s
}

// urlFault says why an address cannot be used, in aiperf's words where it has them. Credentials in it are not shown.
func urlFault(s string) string {
	shown := pyString(redactURL(s))
	if s != strings.TrimSpace(s) {
		return fmt.Sprintf("URL %s has leading or trailing whitespace. Strip whitespace before passing the URL.", shown)
	}
	if strings.ContainsFunc(s, isSpace) {
		return fmt.Sprintf("URL %s contains whitespace. URLs must not contain spaces, tabs, or newlines.", shown)
	}
	u, err := url.Parse(s)
	switch {
	case err != nil && strings.Contains(err.Error(), "port"):
		return fmt.Sprintf("URL %s has an invalid port. Ports must be integers in the range 1..65535.", shown)
	case err != nil:
		return fmt.Sprintf("URL %s cannot be read. Expected 'http://host:port' or 'https://host:port'.", shown)
	case u.Scheme == "" || u.Hostname() == "":
		return fmt.Sprintf("URL %s is missing scheme or host. Expected 'http://host:port' or 'https://host:port'.", shown)
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Sprintf("URL %s has unsupported scheme %s. Expected 'http' or 'https'.", shown, pyString(u.Scheme))
	}
	if p := u.Port(); p != "" {
		if n, err := strconv.Atoi(p); err != nil || n < 1 || n > 65535 {
			return fmt.Sprintf("URL %s has an invalid port. Ports must be integers in the range 1..65535.", shown)
		}
	}
	return ""
}

// EndpointURL joins a base address and an endpoint's path as aiperf does: a base that already ends with the path keeps it, and a base that
// ends in /v1 does not get a second one. The base's query stays. The base has a scheme.
func EndpointURL(base, path string) (*url.URL, error) {
	if what := urlFault(base); what != "" {
		return nil, complaint(what)
	}
	u, err := url.Parse(base)
	if err != nil {
		return nil, complain("URL %s: %v.", redactURL(base), err)
	}
	head := strings.TrimRight(u.EscapedPath(), "/")
	path, query, hasQuery := strings.Cut(path, "?")
	tail := strings.TrimLeft(path, "/")
	switch {
	case tail == "" || strings.HasSuffix(head, "/"+tail):
	case strings.HasSuffix(head, "/v1") && strings.HasPrefix(tail, "v1/"):
		head += strings.TrimPrefix(tail, "v1")
	default:
		head += "/" + tail
	}
	if head == "" {
		head = "/"
	}
	if u.Path, err = url.PathUnescape(head); err != nil {
		return nil, complain("the endpoint's path %s has a malformed %% sequence.", pyString(path))
	}
	u.RawPath = head
	if hasQuery {
		u.RawQuery = strings.Trim(u.RawQuery+"&"+query, "&")
	}
	return u, nil
}
