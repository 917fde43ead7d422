//go:build race

package parity

const race = true
