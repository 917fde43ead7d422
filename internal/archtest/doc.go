// Package archtest holds what the code's shape must keep to, as tests: which package may import which, what is touched in cmd alone, and
// which modules the project depends on.
package archtest
