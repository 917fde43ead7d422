//go:build !race

package parity

const race = false
