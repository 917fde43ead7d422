package http1

import (
	"fmt"
	"net/textproto"
	"strconv"
	"strings"

	"prefire/loadgen/wire"
)

// AppendHead appends the head of a request with a body of the given length: Host first, the target's fields and then header, as they are
// named and in the order given, Content-Length last. The request line has the whole URL where the target asks for it. Fields of one name are all sent: which of them counts is for the caller to decide. An
// error names the path or field that cannot be sent.
func AppendHead(dst []byte, target *wire.Target, method, path string, header []wire.Field, body int) ([]byte, error) {
	if strings.ContainsAny(path, " \r\n\x00") || path == "" {
		return dst, fmt.Errorf("the path %q cannot stand in a request line", path)
	}
	host := target.Host
	n := len(target.Header)
	field := func(i int) (name, value string) {
		if i < n {
			return target.Header[i].Name, target.Header[i].Value
		}
		return header[i-n].Name, header[i-n].Value
	}
	total := n + len(header)
	for i := range total {
		name, value := field(i)
		if !validName(name) {
			return dst, fmt.Errorf("%q is not a header name", name)
		}
		if strings.ContainsAny(value, "\r\n\x00") {
			return dst, fmt.Errorf("the value of header %s has a line break or a NUL in it", name)
		}
		if strings.EqualFold(name, "Host") {
			host = value
		}
	}
	dst = append(dst, method...)
	dst = append(dst, ' ')
	if target.Absolute {
		dst = append(append(append(dst, target.Scheme...), "://"...), target.Host...)
	}
	dst = append(dst, path...)
	dst = append(dst, " HTTP/1.1\r\nHost: "...)
	dst = append(dst, host...)
	dst = append(dst, "\r\n"...)
	for i := range total {
		name, value := field(i)
		if ownField(name) {
			continue
		}
		dst = append(dst, name...)
		dst = append(dst, ": "...)
		dst = append(dst, value...)
		dst = append(dst, "\r\n"...)
	}
	if body > 0 || method != "GET" {
		dst = append(dst, "Content-Length: "...)
		dst = strconv.AppendInt(dst, int64(body), 10)
		dst = append(dst, "\r\n"...)
	}
	return append(dst, "\r\n"...), nil
}

// ownField says that a field is the transport's to write.
func ownField(name string) bool {
	switch textproto.CanonicalMIMEHeaderKey(name) {
	case "Host", "Content-Length", "Transfer-Encoding", "Connection":
		return true
	}
	return false
}

func validName(name string) bool {
	for i := range len(name) {
		c := name[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte("()<>@,;:\\\"/[]?={}", c) >= 0 {
			return false
		}
	}
	return name != ""
}
