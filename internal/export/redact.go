package export

import (
	"cmp"
	"slices"
	"strings"
)

// Redacted stands in the place of a secret.
const Redacted = "<redacted>"

// SensitiveHeader reports whether a header's value is treated as a secret. It errs on the side of secrecy, by aiperf's list of fragments.
func SensitiveHeader(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc([]string{
		"auth", "token", "secret", "password", "passwd", "credential", "cookie", "apikey", "api-key", "api_key", "session", "signature",
		"sas-key", "access-key", "private-key", "subscription-key", "functions-key",
	}, func(part string) bool { return strings.Contains(name, part) })
}

// Redactor takes known secret values out of text, such as an API key that a server's error repeats. A nil one changes nothing.
type Redactor struct{ r *strings.Replacer }

// NewRedactor returns a Redactor of these values. Of one with a space in it, such as "Bearer KEY", the last word is a secret by itself.
// Values under 4 bytes are none: they would be found in ordinary words.
func NewRedactor(secrets ...string) *Redactor {
	var all []string
	for _, s := range secrets {
		all = append(all, s, s[strings.LastIndexByte(s, ' ')+1:])
	}
	// A secret that contains another must be tried first.
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	var pairs []string
	for _, s := range slices.Compact(all) {
		if len(s) >= 4 {
			pairs = append(pairs, s, Redacted)
		}
	}
	return &Redactor{strings.NewReplacer(pairs...)}
}

// String is s without the secrets.
func (r *Redactor) String(s string) string {
	if r == nil {
		return s
	}
	return r.r.Replace(s)
}
