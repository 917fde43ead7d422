//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package main

// readCeilings: they are not known here.
func readCeilings() ceilings { return ceilings{} }
