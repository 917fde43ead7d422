//go:build !linux

// Command bench needs Linux: it reads /proc, and its control loop is epoll.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "bench: Linux only")
	os.Exit(1)
}
