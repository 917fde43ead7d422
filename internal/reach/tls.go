package reach

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
)

// TLS is how servers prove who they are, and the client itself. Files are given as what is in them, with their names for messages.
type TLS struct {
	CAFile string
	CA     []byte // certificates in PEM that are trusted in place of the system's; nil = the system's

	CertFile, KeyFile string
	Cert, Key         []byte // PEM; a Key of nil = it is in Cert

	Insecure   bool   // servers' certificates are not verified
	ServerName string // sent as SNI, and verified, in place of the URL's host; "" = that
}

// config is nil where nothing was asked for.
func (o *TLS) config() (cfg *tls.Config, subject string, err error) {
	if o.CA == nil && o.Cert == nil && !o.Insecure && o.ServerName == "" {
		return nil, "", nil
	}
	cfg = &tls.Config{ServerName: o.ServerName, InsecureSkipVerify: o.Insecure} //nolint:gosec // where the user asks for it; the run says so
	if o.CA != nil {
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(o.CA) {
			return nil, "", fmt.Errorf("CA file %s: there is no certificate in it; it has to hold one or more in PEM, -----BEGIN CERTIFICATE-----", o.CAFile)
		}
	}
	if o.Cert == nil {
		return cfg, "", nil
	}
	key, keyFile := o.Key, o.KeyFile
	if key == nil {
		key, keyFile = o.Cert, o.CertFile
	}
	if err := plainKey(key, keyFile); err != nil {
		return nil, "", err
	}
	pair, err := tls.X509KeyPair(o.Cert, key)
	if err != nil {
		return nil, "", fmt.Errorf("client certificate %s with the key of %s: %w", o.CertFile, keyFile, err)
	}
	cfg.Certificates = []tls.Certificate{pair}
	return cfg, pair.Leaf.Subject.String(), nil
}

// plainKey refuses a file without a private key, and a key that a password protects.
func plainKey(data []byte, file string) error {
	for {
		var b *pem.Block
		if b, data = pem.Decode(data); b == nil {
			return fmt.Errorf("client key %s: there is no private key in it; it has to hold one in PEM, and --client-key names it where it is not in the certificate's file", file)
		}
		if b.Type == "ENCRYPTED PRIVATE KEY" || b.Headers["DEK-Info"] != "" {
			return fmt.Errorf("client key %s is protected by a password, which is not supported: decrypt it, as with openssl pkey -in %s -out plain.pem", file, file)
		}
		if b.Type == "PRIVATE KEY" || b.Type == "RSA PRIVATE KEY" || b.Type == "EC PRIVATE KEY" {
			return nil
		}
	}
}
