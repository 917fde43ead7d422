package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"prefire/internal/export"
	"prefire/internal/procedure"
	"prefire/internal/report"
	"prefire/internal/report/chart"
)

// reportFile is the report's name in the folder that it is about.
const reportFile = "report.html"

func reportCommand(p process) *cobra.Command {
	var out string
	var plots []string
	cmd := &cobra.Command{
		Use:   "report DIR",
		Short: "Make one HTML page of results",
		Long: `report reads what a run of prefire or aiperf (0.9 to 0.13) left in a folder, or many runs in the folders below it, and writes one HTML page:
whether the numbers can be trusted first, then TTFT, ITL and prefill throughput over time and as distributions, requests in flight and
rates over time, TTFT against input length, errors, slices of time, cold and cut requests, all metrics, config and command. The page loads
nothing: it can be read without a network, sent by mail and printed. Of a folder made by prefire longcontext the scan comes first, of one made
by prefire capacity what it found: the best load and how sure it is, a table of the loads, each limit load by load, and plots over the load.

Records are read one by one, so that millions of them take no more memory than thousands; a run of more than 2,000 requests is drawn by its
percentiles over time and not request by request.

--plot writes a single plot in the place of the page. What it is called says what it is: ttft_over_time, ttft_distribution, the same with
itl and prefill (with latency, where nothing was streamed), in_flight, rate, output_rate, ttft_by_input; of a scan ttft_by_length; of a
capacity run throughput_by_load, ttft_by_load, itl_by_load, latency_by_load, and one for each further limit.`,
		Example: `  prefire report results/first
  prefire report results/longcontext/my-model -o report.html
  prefire report results/first --plot ttft_over_time.png --plot plots/in_flight.svg`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("output") && len(plots) > 0 {
				return complain(p.stderr, errors.New("-o names the page, and --plot writes plots in its place: leave one of them out"))
			}
			_, err := unlessStopped(p, errors.New("stopped before the end"), func() (struct{}, error) { return struct{}{}, makeReport(p, args[0], out, plots) })
			if err != nil {
				return complain(p.stderr, err)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVarP(&out, "output", "o", "", "file for the page (DIR/"+reportFile+")")
	f.StringArrayVar(&plots, "plot", nil, "file for a single plot, NAME.svg or NAME.png; may be given several times")
	return cmd
}

// makeReport is the report command. The names of plots are checked before anything is written.
func makeReport(p process, dir, out string, plots []string) error {
	for _, file := range plots {
		if ext := strings.TrimPrefix(filepath.Ext(file), "."); !slices.Contains(chart.Formats(), ext) {
			return fmt.Errorf("--plot %s: a plot is written as .%s", file, strings.Join(chart.Formats(), " or ."))
		}
	}
	if len(plots) == 0 {
		if out == "" {
			out = filepath.Join(dir, reportFile)
		}
		if err := writeReport(dir, out, nil); err != nil {
			return err
		}
		fmt.Fprintf(p.stdout, "Report: %s\n", out)
		return nil
	}
	r, err := readReport(dir, nil)
	if err != nil {
		return err
	}
	have := r.Plots()
	for _, file := range plots {
		if name := plotName(file); !slices.Contains(have, name) {
			return fmt.Errorf("--plot %s: %w", file, r.Plot(io.Discard, name, "svg"))
		}
	}
	for _, file := range plots {
		to := export.Dir{FS: export.Disk{}, Path: filepath.Dir(file)}
		err := to.Write(filepath.Base(file), 0o644, func(w io.Writer) error {
			return r.Plot(w, plotName(file), strings.TrimPrefix(filepath.Ext(file), "."))
		})
		if err != nil {
			return err
		}
		fmt.Fprintf(p.stdout, "Plot: %s\n", file)
	}
	return nil
}

func plotName(file string) string {
	return strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
}

// readReport reads a folder. debiased is what is known already of its runs' cold requests.
func readReport(dir string, debiased map[string]*procedure.Debiased) (*report.Report, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", dir, err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s is a file: name the folder that it is in", dir)
	}
	name := filepath.Base(dir)
	if full, err := filepath.Abs(dir); err == nil {
		name = filepath.Base(full)
	}
	r, err := report.Read(os.DirFS(dir), report.Options{Name: name, Version: version(), Debiased: debiased})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return r, nil
}

// writeReport makes the page of a folder.
func writeReport(dir, file string, debiased map[string]*procedure.Debiased) error {
	r, err := readReport(dir, debiased)
	if err != nil {
		return err
	}
	to := export.Dir{FS: export.Disk{}, Path: filepath.Dir(file)}
	return to.Write(filepath.Base(file), 0o644, r.HTML)
}
