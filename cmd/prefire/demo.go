package main

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"prefire/internal/config"
	"prefire/internal/fakellm"
	"prefire/metrics"
	"prefire/tokenize"
)

//go:embed demo.yaml
var demoConfig string

const (
	demoModel  = "demo/mock-model"
	demoOutput = 128 // as demo.yaml says
	// demoMargin is what a total must leave beside input and output.
	demoMargin = 16
	// demoShortest leaves room for the template's words, a value and some text.
	demoShortest = 32
)

func demoCommand(p process) *cobra.Command {
	var dir string
	var lengths []int
	var page bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run the long-context prefill test on the built-in server, in seconds",
		Long: `Starts the built-in server inside, runs the long-context prefill test against it at each input length, and prints what it found and where
the files are. The server takes 20 ms and 20 µs for each prompt token to the first output token, and 2 ms for each further one.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := demo(p, dir, lengths, page); err != nil {
				return complain(p.stderr, err)
			}
			return nil
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVar(&dir, "artifact-dir", filepath.Join("results", "longcontext"), "folder for the files; each length gets its own below it")
	cmd.Flags().IntSliceVar(&lengths, "isl", []int{512, 1024, 2048, 4096}, "input lengths, in tokens")
	cmd.Flags().BoolVar(&page, "report", false, "make report.html in the folder, as prefire report does")
	return cmd
}

func demo(p process, dir string, lengths []int, page bool) error {
	for _, isl := range lengths {
		if isl < demoShortest || isl > fakellm.DefaultMaxModelLen-demoOutput {
			return fmt.Errorf("--isl: %d tokens; a length may be %d (the template's words and a value) to %d (the server's context less %d for the answer)",
				isl, demoShortest, fakellm.DefaultMaxModelLen-demoOutput, demoOutput)
		}
	}
	tokens, err := tokenize.Open("builtin")
	if err != nil {
		return err
	}
	server, err := fakellm.New(fakellm.Options{
		Clock: newClock(), Counter: tokens, Models: []string{demoModel},
		TTFT: 20 * time.Millisecond, PrefillPerToken: 20 * time.Microsecond, ITL: 2 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if err := server.Start(ctx, "127.0.0.1:0"); err != nil {
		return err
	}
	defer func() { _ = server.Close() }()
	dir = filepath.Join(dir, strings.NewReplacer("/", "_", ".", "_").Replace(demoModel))
	fmt.Fprintf(p.stdout, "Long-context prefill test against the built-in server at %s, 10 sessions for 2 s at each input length.\n", server.URL())
	s := &scan{process: p, dir: dir, lengths: slices.Sorted(slices.Values(lengths)), report: page}
	configs := map[int]*config.Config{}
	for _, isl := range s.lengths {
		if configs[isl], err = demoLength(p, server.URL(), s.folder(isl), isl); err != nil {
			return err
		}
	}
	return s.end(s.run(func(isl int) (*config.Config, string) { return configs[isl], "prefire demo --isl " + strconv.Itoa(isl) }))
}

// demoLength is the config for one input length, as the sed loop over such a file makes it.
func demoLength(p process, url, dir string, isl int) (*config.Config, error) {
	text := strings.NewReplacer("URL", url, "TOTAL", strconv.Itoa(isl+demoOutput+demoMargin), "INPUT", strconv.Itoa(isl)).Replace(demoConfig)
	const file = "demo.yaml"
	read := func(name string) ([]byte, error) {
		if name == file {
			return []byte(text), nil
		}
		return nil, os.ErrNotExist
	}
	cfg, err := config.Parse([]string{"--config", file, "--concurrency", "10", "--ui", "none", "--no-gpu-telemetry", "--no-server-metrics", "--artifact-dir", dir},
		p.env, read)
	if err != nil {
		return nil, err
	}
	cfg.Notices = nil // the demo says itself what it runs
	return cfg, nil
}

func find(rs []metrics.Result, tag string) *metrics.Result {
	for i := range rs {
		if rs[i].Def.Tag == tag {
			return &rs[i]
		}
	}
	return nil
}

func avg(m *metrics.Result) float64 { return m.Avg }

// cell formats a metric's figure; a metric that is missing is a dash, not 0.
func cell(m *metrics.Result, format string, of func(*metrics.Result) float64) string {
	if m == nil {
		return "-"
	}
	return fmt.Sprintf(format, of(m))
}
