package h2

import (
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/net/http2"

	"prefire/loadgen/wire"
)

// violation is a breach of the protocol by the server that ends the connection.
type violation struct {
	code http2.ErrCode
	text string
}

func (v *violation) Error() string {
	return fmt.Sprintf("the server broke HTTP/2 (%v): %s", v.code, v.text)
}

func breach(code http2.ErrCode, format string, args ...any) error {
	return &violation{code, fmt.Sprintf(format, args...)}
}

// errNotHTTP2 is the answer of a server that speaks HTTP/1.1 where HTTP/2 was expected.
var errNotHTTP2 = errors.New("the server answered in HTTP/1.1 to HTTP/2 with prior knowledge: set the protocol to HTTP/1.1")

// goAwayError is why a connection takes no more requests after GOAWAY.
type goAwayError struct {
	code http2.ErrCode
	text string
}

func (e *goAwayError) Error() string {
	s := fmt.Sprintf("the server sent GOAWAY (%v)", e.code)
	if e.text != "" {
		s += ": " + e.text
	}
	return s
}

// answerError is a request that ended before its answer did. aiperf's types tell what was missing: the head or the rest of the body.
func answerError(headed bool, cause, text string) *wire.Error {
	if headed {
		return &wire.Error{Type: "ClientPayloadError", Message: wire.Bound("Response payload is not completed: " + text),
			Cause: cause, Chain: []string{"ClientPayloadError", cause}}
	}
	return &wire.Error{Type: "ServerDisconnectedError", Message: wire.Bound("Server disconnected: " + text),
		Cause: cause, Chain: []string{"ServerDisconnectedError", cause}}
}

// lostError is a request whose connection ended.
func lostError(headed bool, err error) *wire.Error {
	var v *violation
	switch {
	case errors.Is(err, errClosed):
		return &wire.Error{Type: "ClientConnectionError", Message: errClosed.Error()}
	case errors.As(err, &v):
		return answerError(headed, "ProtocolError", err.Error())
	case errors.Is(err, io.EOF):
		return answerError(headed, "EOF", "the server closed the connection")
	}
	return answerError(headed, "ConnectionError", wire.Words(err))
}

// malformed is an answer that is not HTTP.
func malformed(text string) *wire.Error {
	return &wire.Error{Type: "ClientResponseError", Message: wire.Bound("the answer breaks HTTP/2: " + text), Cause: "StreamError",
		Chain: []string{"ClientResponseError", "StreamError"}}
}

// silentError is why a connection is given up on which a request timed out while nothing at all came.
func silentError(after time.Duration) error {
	return fmt.Errorf("nothing came on the HTTP/2 connection for the %v of a request's timeout", after)
}
