// Command prefire is a load generator for LLM endpoints that speak the OpenAI API: the commands, config files and result files of NVIDIA
// aiperf, with numbers that can be trusted.
package main

import (
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	signal.Ignore(syscall.SIGPIPE) // whoever reads the screen may leave; the measurement goes on
	if _, given := os.LookupEnv("GOGC"); !given {
		// Little of the heap holds pointers, so that a collection is cheap; with Go's own 100, half the memory of thousands of streams is
		// what they have thrown away.
		debug.SetGCPercent(50)
	}
	args := make([]string, len(os.Args))
	for i, a := range os.Args {
		args[i] = strings.Clone(a)
	}
	os.Exit(run(process{
		args: args, hide: hideArgs(os.Args[1:]), env: os.LookupEnv, environ: os.Environ(), stdout: os.Stdout, stderr: os.Stderr, signals: signals, exit: os.Exit,
		cacheDir: os.UserCacheDir, executable: os.Executable,
	}))
}
