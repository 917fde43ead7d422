package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// process is everything the program takes from its surroundings.
type process struct {
	args    []string // args[0] is what the program is called
	env     func(string) (string, bool)
	environ []string // NAME=value, all of env
	stdout  io.Writer
	stderr  io.Writer
	signals <-chan os.Signal
	exit    func(code int) // at once, without an orderly end
	// hide overwrites secrets among the arguments that other processes can read; nil where that cannot be done.
	hide func(secrets []string)
	// cacheDir is the user's folder for what programs keep between runs, executable the path of this binary; nil where there is none.
	cacheDir, executable func() (string, error)
}

// name is what the binary is called: prefire, or aiperf where it takes that program's place.
func (p process) name() string {
	return strings.TrimSuffix(filepath.Base(p.args[0]), ".exe")
}

// hideSecrets takes secrets out of what other processes can read of this one.
func (p process) hideSecrets(secrets ...string) {
	if p.hide != nil {
		p.hide(secrets)
	}
}

// terminal reports whether w is a terminal.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Exit codes, as aiperf's.
const (
	exitOK         = 0
	exitFailed     = 1
	exitKilled     = 137 // a second Ctrl-C
	exitTerminated = 143 // SIGTERM
)

// exitError ends the program with a code; what is to be said has been said.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// run is the program: it returns the exit code.
func run(p process) int {
	root := &cobra.Command{
		Use:   p.name(),
		Short: "Load generator for LLM endpoints that speak the OpenAI API",
		Long: `prefire measures LLM endpoints that speak the OpenAI API (vLLM first): TTFT, prefill throughput, inter-token latency.
It takes the commands, config files and result files of NVIDIA aiperf 0.13.0, warms up before the clock starts, and says how far each
number can be trusted.`,
		Example: `  prefire demo
  prefire profile --model my-model --url http://127.0.0.1:8000 --streaming --tokenizer builtin --isl 1024 --osl 128 --concurrency 10 --request-count 100
  prefire profile --config run.yaml --api-key "$API_KEY" --artifact-dir results
  prefire mock --ttft 185ms --itl 5ms`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	root.SetArgs(p.args[1:])
	var version, install bool
	root.Flags().BoolVar(&version, "version", false, "print the version and exit")
	root.Flags().BoolVar(&install, "install-completion", false, "say how the completion of commands and flags is installed")
	root.PreRunE = func(*cobra.Command, []string) error {
		if install {
			fmt.Fprint(p.stderr, howToComplete(p.name()))
			return exitError(exitFailed)
		}
		if version {
			printVersion(p)
			return exitError(exitOK)
		}
		return nil
	}
	root.AddCommand(profileCommand(p), mockCommand(p), demoCommand(p), calibrateCommand(p), longContextCommand(p), debiasCommand(p), reportCommand(p), analyzeTraceCommand(p), configCommand(p))
	root.AddCommand(capacityCommand(p), compareCommand(p), recoverCommand(p))
	cmd, err := root.ExecuteContextC(context.Background())
	var code exitError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &code):
		return int(code)
	default:
		if word := p.args[1:]; cmd == root && len(word) > 0 && !strings.HasPrefix(word[0], "-") { // whatever flags stand behind it
			err = fmt.Errorf("unknown command %q", word[0])
			if near := root.SuggestionsFor(word[0]); len(near) > 0 {
				err = fmt.Errorf("%w. Did you mean %s?", err, strings.Join(near, " or "))
			}
		}
		fmt.Fprintf(p.stderr, "%s: %v\nSee '%s --help'.\n", p.name(), err, cmd.CommandPath())
		return exitFailed
	}
}

// howToComplete stands in for aiperf's --install-completion, which writes into the user's start-up files.
func howToComplete(name string) string {
	return fmt.Sprintf(`--install-completion: prefire changes no start-up file of a shell. Put one of these into yours:
  bash  source <(%[1]s completion bash)
  zsh   source <(%[1]s completion zsh)
  fish  %[1]s completion fish | source
`, name)
}

// unlessStopped is what f gives, or stopped where Ctrl-C comes before it: for what has no end of its own to wait for. f is then left behind,
// to end with the program.
func unlessStopped[T any](p process, stopped error, f func() (T, error)) (v T, err error) {
	type result struct {
		v   T
		err error
	}
	done := make(chan result, 1)
	go func() {
		v, err := f()
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.v, r.err
	case s := <-p.signals:
		if s == syscall.SIGTERM {
			return v, exitError(exitTerminated)
		}
		return v, stopped
	}
}

// version is the program's own, from the build.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	v := strings.TrimPrefix(info.Main.Version, "v")
	if v == "" || v == "(devel)" {
		v = "devel"
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && len(s.Value) >= 12 {
				v += "+" + s.Value[:12]
			}
		}
	}
	return v
}

// printVersion prints the program's version; under aiperf's name, the version of aiperf that it stands for, which scripts check.
func printVersion(p process) {
	if p.name() == "aiperf" {
		fmt.Fprintln(p.stdout, aiperfVersion)
		fmt.Fprintf(p.stderr, "(prefire %s in the place of aiperf)\n", version())
		return
	}
	fmt.Fprintf(p.stdout, "prefire %s\n", version())
}
