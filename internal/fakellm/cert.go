package fakellm

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

type certificate struct {
	chain tls.Certificate
	leaf  *x509.Certificate
	pem   []byte
}

// makeCertificates makes the server's own certificate, and those of faults that have one.
func (s *Server) makeCertificates() (err error) {
	if !s.o.TLS {
		return nil
	}
	now := s.clock.Wall(s.clock.Now())
	if s.cert, err = newCertificate(now, true); err != nil {
		return err
	}
	for i := range s.o.Faults {
		switch s.o.Faults[i].kind.name {
		case "tls-expired":
			s.expired, err = newCertificate(now.AddDate(-2, 0, 0), true)
		case "tls-unknown":
			s.unknown, err = newCertificate(now, true)
		case "tls-name":
			s.stranger, err = newCertificate(now, false)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// newCertificate makes a certificate that signs itself, for this machine's loopback names or for a host elsewhere. It holds for a year from
// now.
func newCertificate(now time.Time, ours bool) (*certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("cannot make a key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("cannot make a serial number: %w", err)
	}
	t := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: "prefire mock"},
		NotBefore:             now.Add(-24 * time.Hour),
		NotAfter:              now.Add(24 * 365 * time.Hour),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		IsCA:                  true,
		DNSNames:              []string{"localhost"},
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	if !ours {
		t.DNSNames, t.IPAddresses = []string{"elsewhere.example"}, nil
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("cannot make a certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("cannot read the certificate back: %w", err)
	}
	return &certificate{
		chain: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf},
		leaf:  leaf,
		pem:   pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
	}, nil
}
