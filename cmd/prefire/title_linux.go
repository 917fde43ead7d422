package main

import (
	"strings"
	"unsafe"
)

// hideArgs returns what overwrites secrets among argv, which are os.Args as the process was given them: Go's strings of them lie in the memory that
// /proc/PID/cmdline shows, so what else reads the arguments must have copies.
func hideArgs(argv []string) func(secrets []string) {
	return func(secrets []string) {
		for _, arg := range argv {
			for _, s := range secrets {
				for at := 0; len(s) >= 4; {
					i := strings.Index(arg[at:], s)
					if i < 0 {
						break
					}
					at += i
					for p := unsafe.Slice(unsafe.StringData(arg), len(arg))[at : at+len(s)]; len(p) > 0; p = p[1:] {
						p[0] = 'x'
					}
				}
			}
		}
	}
}
