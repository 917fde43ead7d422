package main

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"prefire/internal/config"
	"prefire/internal/export"
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
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run the long-context prefill test on the built-in server, in seconds",
		Long: `Starts the built-in server inside, runs the long-context prefill test against it at each input length, and prints what it found and where
the files are. The server takes 20 ms and 20 µs for each prompt token to the first output token, and 2 ms for each further one.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := demo(p, dir, lengths); err != nil {
				return complain(p.stderr, err)
			}
			return nil
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVar(&dir, "artifact-dir", filepath.Join("results", "longcontext"), "folder for the files; each length gets its own below it")
	cmd.Flags().IntSliceVar(&lengths, "isl", []int{512, 1024, 2048, 4096}, "input lengths, in tokens")
	return cmd
}

func demo(p process, dir string, lengths []int) error {
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
	var runs []*export.Run
	for _, isl := range lengths {
		out, err := demoLength(p, server.URL(), filepath.Join(dir, "isl"+strconv.Itoa(isl)), isl)
		if err != nil {
			return err
		}
		if err := out.end(p.stderr); err != nil {
			return err
		}
		if out.run.WasCancelled {
			fmt.Fprintf(p.stdout, "Stopped at %d tokens: that length is not in the table.\n", isl)
			break
		}
		runs = append(runs, out.run)
		fmt.Fprintf(p.stdout, "  %d tokens: %d requests\n", isl, out.run.Screen.Counts.OK)
	}
	if len(runs) == 0 {
		return exitError(exitFailed)
	}
	fmt.Fprintln(p.stdout)
	if err := lengthTable(p, lengths, runs); err != nil {
		return err
	}
	fmt.Fprintf(p.stdout, "\nEach length's files, as aiperf writes them, with prefire's own facts under the key \"prefire\" of profile_export_aiperf.json:\n")
	for _, isl := range lengths[:len(runs)] {
		fmt.Fprintf(p.stdout, "  %s\n", filepath.Join(dir, "isl"+strconv.Itoa(isl)))
	}
	return nil
}

// demoLength runs the config at one input length, as the sed loop over such a file does.
func demoLength(p process, url, dir string, isl int) (*outcome, error) {
	text := strings.NewReplacer("URL", url, "TOTAL", strconv.Itoa(isl+demoOutput+demoMargin), "INPUT", strconv.Itoa(isl)).Replace(demoConfig)
	const file = "demo.yaml"
	read := func(name string) ([]byte, error) {
		if name == file {
			return []byte(text), nil
		}
		return nil, os.ErrNotExist
	}
	args := []string{"--config", file, "--concurrency", "10", "--ui", "none", "--no-gpu-telemetry", "--no-server-metrics", "--artifact-dir", dir}
	cfg, err := config.Parse(args, p.env, read)
	if err != nil {
		return nil, err
	}
	cfg.Notices = nil // the demo says itself what it runs
	return benchmark(p, cfg, args)
}

// lengthTable prints one row for each input length.
func lengthTable(p process, lengths []int, runs []*export.Run) error {
	w := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "ISL\treached\tprefill\tper 1,000\tTTFT avg\tp99\toutput\tmeasured\tcold\t")
	fmt.Fprintln(w, "tokens\ttokens\ttok/s/user\ts\tms\tms\ttok/s/user\trequests\tout\t")
	for i, r := range runs {
		prefill := find(r.Results, "prefill_throughput_per_user")
		ttft := find(r.Results, "time_to_first_token")
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t\n", lengths[i],
			cell(find(r.Results, "input_sequence_length"), "%.0f", avg), cell(prefill, "%.0f", avg),
			cell(prefill, "%.3f", func(m *metrics.Result) float64 { return 1000 / m.Avg }),
			cell(ttft, "%.2f", avg), cell(ttft, "%.2f", func(m *metrics.Result) float64 { return m.P[len(m.P)-1] }),
			cell(find(r.Results, "output_token_throughput_per_user"), "%.1f", avg),
			cell(ttft, "%.0f", func(m *metrics.Result) float64 { return float64(m.Count) }), r.Screen.Cold.Count)
	}
	return w.Flush()
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
