package reach

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"

	"prefire/loadgen/wire/http1"
)

// maxProxyAnswer bounds the head of a proxy's answer to CONNECT, in bytes.
const maxProxyAnswer = 64 << 10

// authorization is what a proxy is told of the user; "" = nothing.
func authorization(proxy *url.URL) string {
	if proxy.User == nil {
		return ""
	}
	password, _ := proxy.User.Password()
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(proxy.User.Username()+":"+password))
}

// connector makes connections to one host through a proxy, by CONNECT.
type connector struct {
	proxy *url.URL
	to    string // host:port
	dial  func(ctx context.Context, network, addr string) (net.Conn, error)
}

// connect dials the proxy at addr and has it connect.
func (c *connector) connect(ctx context.Context, network, addr string) (net.Conn, error) {
	nc, err := c.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	release := context.AfterFunc(ctx, func() { _ = nc.Close() })
	err = c.ask(nc)
	if !release() {
		err = ctx.Err() // it closed the connection
	}
	if err != nil {
		_ = nc.Close()
		return nil, err
	}
	return nc, nil
}

// ask has the proxy connect, and reads its answer and no more.
func (c *connector) ask(nc net.Conn) error {
	req := "CONNECT " + c.to + " HTTP/1.1\r\nHost: " + c.to + "\r\n"
	if auth := authorization(c.proxy); auth != "" {
		req += "Proxy-Authorization: " + auth + "\r\n"
	}
	if _, err := io.WriteString(nc, req+"\r\n"); err != nil {
		return err
	}
	in := bufio.NewReader(io.LimitReader(nc, maxProxyAnswer))
	resp, err := http.ReadResponse(in, &http.Request{Method: http.MethodConnect})
	if err != nil {
		return c.failed("its answer cannot be read: "+err.Error(), "")
	}
	_ = resp.Body.Close() // an answer to CONNECT has none
	switch {
	case resp.StatusCode == http.StatusProxyAuthRequired:
		return c.failed(said(resp), "give the user and the password in the proxy's URL, http://USER:PASSWORD@HOST:PORT")
	case resp.StatusCode/100 != 2:
		return c.failed(said(resp), "")
	case in.Buffered() > 0:
		return c.failed("it sent more than its answer", "")
	}
	return nil
}

func said(resp *http.Response) string {
	return fmt.Sprintf("answered %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
}

func (c *connector) failed(said, hint string) error {
	return &http1.ProxyError{Proxy: c.proxy.Host, Said: said, Hint: hint}
}
