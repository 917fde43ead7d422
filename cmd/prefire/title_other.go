//go:build !linux

package main

// hideArgs: the arguments of a process cannot be overwritten here.
func hideArgs([]string) func([]string) { return nil }
