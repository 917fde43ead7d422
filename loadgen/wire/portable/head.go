package portable

import (
	"fmt"
	"net/textproto"
	"strconv"
	"strings"
)

// appendHead appends the head of a request: Host first, the fields as they are named and in the order given, Content-Length last. Fields of
// one name are all sent: which of them counts is for the caller to decide.
func appendHead(dst []byte, o *outgoing) ([]byte, error) {
	if strings.ContainsAny(o.path, " \r\n\x00") || o.path == "" {
		return dst, fmt.Errorf("the path %q cannot stand in a request line", o.path)
	}
	host := o.target.Host
	n := len(o.target.Header)
	field := func(i int) (name, value string) {
		if i < n {
			return o.target.Header[i].Name, o.target.Header[i].Value
		}
		return o.header[i-n].Name, o.header[i-n].Value
	}
	total := n + len(o.header)
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
	dst = append(dst, o.method...)
	dst = append(dst, ' ')
	dst = append(dst, o.path...)
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
	if len(o.body) > 0 || o.method != "GET" {
		dst = append(dst, "Content-Length: "...)
		dst = strconv.AppendInt(dst, int64(len(o.body)), 10)
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
