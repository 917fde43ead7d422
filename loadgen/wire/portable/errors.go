package portable

import (
	"crypto/tls"
	"crypto/x509"
	"errors"

	"prefire/loadgen/wire"
	"prefire/loadgen/wire/http1"
)

func tlsError(host, port string, err error) *wire.Error {
	if v := (*tls.CertificateVerificationError)(nil); errors.As(err, &v) {
		return http1.CannotConnect("ClientConnectorCertificateError", host, port, "the certificate is not trusted: "+v.Err.Error(), err)
	}
	if h := (x509.HostnameError{}); errors.As(err, &h) {
		return http1.CannotConnect("ClientConnectorCertificateError", host, port, "the certificate is not trusted: "+h.Error(), err)
	}
	why := "TLS handshake failed: " + wire.Words(err)
	if h := (tls.RecordHeaderError{}); errors.As(err, &h) {
		why = "TLS handshake failed: the server does not speak TLS on this port"
	}
	return http1.CannotConnect("ClientConnectorSSLError", host, port, why, err)
}
