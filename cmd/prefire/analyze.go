package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"prefire/internal/dataset/files"
)

// analyzeTraceCommand takes its arguments as aiperf does: each by its place or by its name.
func analyzeTraceCommand(p process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "analyze-trace INPUT-FILE [BLOCK-SIZE] [OUTPUT-FILE]",
		Short: "Say what a Mooncake trace holds: input and output lengths, shared prefixes, theoretical cache hit rates",
		Args:  cobra.MaximumNArgs(3),
	}
	input := cmd.Flags().String("input-file", "", "Mooncake trace, one JSON object a line; .gz is unpacked")
	block := cmd.Flags().Int("block-size", 512, "tokens that one hash id stands for")
	output := cmd.Flags().String("output-file", "", "write the report as JSON to this file too")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		for i, to := range []string{"input-file", "block-size", "output-file"} {
			if i >= len(args) {
				break
			}
			if cmd.Flags().Changed(to) {
				return fmt.Errorf("--%s is given twice: by its name and as %q", to, args[i])
			}
			if err := cmd.Flags().Set(to, args[i]); err != nil {
				return fmt.Errorf("%s %q: allowed: a whole number above 0", to, args[i])
			}
		}
		switch {
		case *input == "":
			return fmt.Errorf("the trace is missing: give its file, for example %s analyze-trace trace.jsonl", p.name())
		case *block < 1:
			return fmt.Errorf("block-size %s: allowed: a whole number above 0", strconv.Itoa(*block))
		}
		return analyzeTrace(p, *input, *block, *output)
	}
	return cmd
}

func analyzeTrace(p process, input string, block int, output string) error {
	a, err := unlessStopped(p, errors.New("stopped before the end"), func() (*files.Analysis, error) { return files.Analyze(disk{}, input, block) })
	if code := exitError(0); errors.As(err, &code) {
		return err
	}
	if err == nil {
		_, err = fmt.Fprint(p.stdout, a.Text())
	}
	if err == nil && output != "" {
		if err = os.MkdirAll(filepath.Dir(output), 0o755); err == nil {
			err = os.WriteFile(output, a.JSON(), 0o644)
		}
		if err == nil {
			_, err = fmt.Fprintf(p.stdout, "Analysis report saved to %s\n", output)
		}
	}
	if err != nil {
		fmt.Fprintf(p.stderr, "Error: %v\n", err)
		return exitError(exitFailed)
	}
	return nil
}
