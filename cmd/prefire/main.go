// Command prefire is a load generator for LLM endpoints that speak the OpenAI API: the commands, config files and result files of NVIDIA
// aiperf, with numbers that can be trusted.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	signal.Ignore(syscall.SIGPIPE) // whoever reads the screen may leave; the measurement goes on
	os.Exit(run(process{
		args: os.Args, env: os.LookupEnv, environ: os.Environ(), stdout: os.Stdout, stderr: os.Stderr, signals: signals, exit: os.Exit,
		cacheDir: os.UserCacheDir, executable: os.Executable,
	}))
}
