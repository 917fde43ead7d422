package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"prefire/internal/config"
	"prefire/internal/export"
	"prefire/internal/procedure"
	"prefire/internal/report"
)

const longContextHelp = `longcontext runs the long-context prefill test: prefire profile once for each input length, all else as the flags and the config file say, and
holds the lengths against each other. It takes every flag of prefire profile, and

  --isl N,N,...       the input lengths, in tokens (512,1024,2048,4096); two at least
  --baseline FILE|N   a longcontext.json of an earlier scan, or a prefill throughput in tokens/sec/user, to compare with
  --artifact-dir DIR  folder for the files (results/longcontext/MODEL); each length gets its own below it, islN

A max_total_tokens of the config file follows the length; what gives prompts other lengths (a file, a mix, a spread) is refused. The verdict
is in DIR/longcontext.json, a plot of TTFT in DIR/longcontext.svg. It rests on intervals from the records, which all together miss a true
value in 1 scan of 100:

`

func longContextCommand(p process) *cobra.Command {
	help := longContextHelp
	for _, r := range procedure.Rules() {
		help += "  " + r[1] + "\n"
	}
	help += `
healthy where every interval keeps its limit; unhealthy from the first length where a whole interval breaks one; undecided where an interval
straddles its limit, with the number of requests that would decide it. A length at which no request was answered ends the scan; it is in the
table and in the verdict. The exit code says whether the runs worked, not what they found.`
	return &cobra.Command{
		Use:                "longcontext --isl N,N,... FLAGS",
		Short:              "Find where prefill stops scaling with the input length",
		Long:               help,
		DisableFlagParsing: true, // as profile
		Example: `  prefire longcontext --config run.yaml --isl 512,1024,2048,4096 --concurrency 10 --api-key "$API_KEY"
  prefire longcontext --model my-model --url http://127.0.0.1:8000 --streaming --tokenizer builtin --isl 1024,4096,16384 --osl 64 --concurrency 2 --request-count 60`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if slices.Contains(args, "--help") || slices.Contains(args, "-h") {
				return cmd.Help()
			}
			if err := longContext(p, args); err != nil {
				return complain(p.stderr, err)
			}
			return nil
		},
	}
}

// longContext is one scan: all lengths are checked before the first one runs.
func longContext(p process, args []string) error {
	isl, rest, err := takeFlag(args, flagNames("--isl"))
	if err != nil {
		return err
	}
	given, rest, err := takeFlag(rest, []string{"--baseline"})
	if err != nil {
		return err
	}
	folder, rest, err := takeFlag(rest, flagNames("--artifact-dir"))
	if err != nil {
		return err
	}
	lengths, err := scanLengths(isl)
	if err != nil {
		return err
	}
	base, err := readBaseline(given)
	if err != nil {
		return err
	}
	s := &scan{process: p, lengths: lengths, baseline: base}
	configs := make([]*config.Config, len(lengths))
	for i, n := range lengths {
		configs[i], err = unlessStopped(p, errStopped, func() (*config.Config, error) { return config.ParseLength(rest, p.env, os.ReadFile, n) })
		if err != nil {
			return err
		}
	}
	if !configs[0].Endpoint.Streaming {
		return errors.New("longcontext measures TTFT, which needs --streaming (endpoint.streaming: true in the config file)")
	}
	if configs[0].Artifacts.Level == config.LevelSummary {
		return errors.New("longcontext judges by the single requests, which --export-level summary does not keep: leave it out, or give records")
	}
	switch len(folder) {
	case 0:
		s.dir = filepath.Join("results", "longcontext", strings.NewReplacer("/", "_", ".", "_").Replace(configs[0].Models[0]))
	case 1:
		s.dir = folder[0]
	default:
		return fmt.Errorf("--artifact-dir is given %d times", len(folder))
	}
	for i, cfg := range configs {
		cfg.Artifacts.Dir = s.folder(lengths[i])
		s.report, cfg.Report = cfg.Report, false // the scan has one for all lengths
		cfg.Command = config.CommandLine("prefire", "longcontext", args)
		if cfg.Seed != nil {
			// Every length draws prompts of its own: with one seed, the server's prefix cache would know those of the length before.
			own := rand.NewPCG(*cfg.Seed, uint64(lengths[i])).Uint64() >> 11
			cfg.Seed = &own
		}
		if i > 0 {
			cfg.Notices = nil // they are the first length's
		}
	}
	err = s.run(func(isl int) (*config.Config, string) {
		cfg := configs[slices.Index(lengths, isl)]
		return cfg, cfg.Command
	})
	return s.end(err)
}

// flagNames are all names of the flag that has this one.
func flagNames(name string) []string {
	for _, f := range config.Flags() {
		if slices.Contains(f.Names, name) {
			return f.Names
		}
	}
	return []string{name}
}

// takeFlag takes a flag out of args, under any of its names, with every word up to the next flag.
func takeFlag(args, names []string) (values, rest []string, err error) {
	for i := 0; i < len(args); i++ {
		name, value, tied := strings.Cut(args[i], "=")
		if !slices.Contains(names, strings.ReplaceAll(name, "_", "-")) {
			rest = append(rest, args[i])
			continue
		}
		if tied {
			values = append(values, value)
			continue
		}
		from := len(values)
		for i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
			i++
			values = append(values, args[i])
		}
		if len(values) == from {
			return nil, nil, fmt.Errorf("%s needs a value", name)
		}
	}
	return values, rest, nil
}

// scanLengths reads --isl.
func scanLengths(given []string) ([]int, error) {
	if len(given) == 0 {
		return []int{512, 1024, 2048, 4096}, nil
	}
	var out []int
	for _, word := range given {
		for part := range strings.SplitSeq(word, ",") {
			n, err := strconv.Atoi(strings.TrimSpace(part))
			if err != nil || n < 1 {
				return nil, fmt.Errorf("--isl: %q is no input length; give whole numbers of tokens, as in --isl 512,1024,2048", part)
			}
			if slices.Contains(out, n) {
				return nil, fmt.Errorf("--isl: %d is given twice", n)
			}
			out = append(out, n)
		}
	}
	if len(out) < 2 {
		return nil, errors.New("--isl: a scan needs two input lengths at least; for one, run prefire profile")
	}
	slices.Sort(out)
	return out, nil
}

// baseline is what a scan is compared with.
type baseline struct {
	from string // the file, or what was stated
	// prefill is tokens/sec/user by input length; of 0 for all lengths where one figure was stated.
	prefill map[int]float64
}

func (b *baseline) at(isl int) (float64, bool) {
	if b == nil {
		return 0, false
	}
	if v, ok := b.prefill[0]; ok {
		return v, true
	}
	v, ok := b.prefill[isl]
	return v, ok
}

func readBaseline(given []string) (*baseline, error) {
	if len(given) == 0 {
		return nil, nil
	}
	if len(given) > 1 {
		return nil, fmt.Errorf("--baseline is given %d times", len(given))
	}
	if v, err := strconv.ParseFloat(given[0], 64); err == nil {
		if !(v > 0) || v > 1e12 {
			return nil, fmt.Errorf("--baseline: %s is no prefill throughput in tokens/sec/user", given[0])
		}
		return &baseline{given[0] + " tokens/sec/user", map[int]float64{0: v}}, nil
	}
	data, err := os.ReadFile(given[0])
	if err != nil {
		return nil, fmt.Errorf("--baseline: %s is no number, and no file that can be read: %w", given[0], err)
	}
	var old struct {
		Lengths []struct {
			Asked   int      `json:"isl"`
			Prefill *float64 `json:"prefill_throughput_per_user_avg"`
		} `json:"lengths"`
	}
	if err := json.Unmarshal(data, &old); err != nil || len(old.Lengths) == 0 {
		return nil, fmt.Errorf("--baseline: %s is no longcontext.json: it has no lengths", given[0])
	}
	b := &baseline{given[0], map[int]float64{}}
	for _, l := range old.Lengths {
		if l.Prefill != nil {
			b.prefill[l.Asked] = *l.Prefill
		}
	}
	return b, nil
}

// scan is a run for each input length, and what they say together.
type scan struct {
	process
	dir      string
	lengths  []int // rising
	baseline *baseline
	report   bool
	runs     []*export.Run      // of the lengths that ended
	samples  []procedure.Length // likewise
	notes    lengthNotes
}

func (s *scan) folder(isl int) string { return filepath.Join(s.dir, "isl"+strconv.Itoa(isl)) }

// run runs the lengths one after another. Ctrl-C ends the scan at the length that it hit, which is not part of the result; a length at which
// nothing was answered, or whose run ended before its time, ends it too and is.
func (s *scan) run(step func(isl int) (cfg *config.Config, command string)) error {
	for _, isl := range s.lengths {
		cfg, command := step(isl)
		out, err := benchmark(s.process, cfg, command)
		stopped := errors.Is(err, errStopped)
		if err != nil && !stopped {
			return err
		}
		if stopped || out.run.WasCancelled {
			fmt.Fprintf(s.stdout, "Stopped at %d tokens: that length is not in the table.\n", isl)
			if !stopped {
				return out.end(s.stderr)
			}
			return nil
		}
		if err := s.take(isl, cfg, out); err != nil {
			return errors.Join(err, out.failed)
		}
		if err := out.end(s.stderr); err != nil {
			return err
		}
	}
	return nil
}

// take adds a length's run.
func (s *scan) take(isl int, cfg *config.Config, out *outcome) error {
	records, censored, err := openRecords(s.folder(isl), export.NewNames(cfg.Artifacts.Prefix))
	if err != nil {
		return err
	}
	l, err := procedure.ReadLength(isl, records, censored)
	if err != nil {
		return fmt.Errorf("%s: %w", s.folder(isl), err)
	}
	s.runs, s.samples = append(s.runs, out.run), append(s.samples, l)
	s.notes.add(isl, out)
	if why := unmeasured(out.run); why != "" {
		fmt.Fprintf(s.stdout, "  %d tokens: not measured: %s\n", isl, why)
		fmt.Fprintf(s.stderr, "%s: at %d tokens %s\n", s.name(), isl, why)
		return nil
	}
	fmt.Fprintf(s.stdout, "  %d tokens: %d requests\n", isl, out.run.Screen.Counts.OK)
	return nil
}

// end concludes from the lengths that ran, also where failed ended the scan before its time.
func (s *scan) end(failed error) error {
	if failed != nil {
		failed = complain(s.stderr, failed)
	}
	if len(s.runs) == 0 {
		return cmp.Or(failed, error(exitError(exitFailed)))
	}
	return cmp.Or(s.conclude(), failed)
}

// conclude prints the table and the verdict, and writes both.
func (s *scan) conclude() error {
	v := procedure.JudgeLongContext(s.samples)
	fmt.Fprintln(s.stdout)
	if err := s.table(v); err != nil {
		return err
	}
	if lines := s.notes.lines(); len(lines) > 0 {
		fmt.Fprintf(s.stdout, "\n%s\n", strings.Join(lines, "\n"))
	}
	fmt.Fprintf(s.stdout, "\n%s\n", verdictText(v))
	out := export.Dir{FS: export.Disk{}, Path: s.dir}
	var result bytes.Buffer
	if err := export.Document(&result, s.document(v)); err != nil {
		return err
	}
	if err := out.Write("longcontext.json", 0o644, func(w io.Writer) error { _, err := w.Write(result.Bytes()); return err }); err != nil {
		return err
	}
	if slices.ContainsFunc(s.runs, func(r *export.Run) bool { return find(r.Results, "time_to_first_token") != nil }) {
		if err := out.Write("longcontext.svg", 0o644, func(w io.Writer) error { return report.LongContextSVG(w, result.Bytes()) }); err != nil {
			return err
		}
	}
	fmt.Fprintf(s.stdout, "\nThe scan: %s and %s\nEach length's files, as aiperf writes them, with prefire's own facts under the key \"prefire\" of profile_export_aiperf.json:\n",
		filepath.Join(s.dir, "longcontext.json"), filepath.Join(s.dir, "longcontext.svg"))
	for _, isl := range s.lengths[:len(s.runs)] {
		fmt.Fprintf(s.stdout, "  %s\n", s.folder(isl))
	}
	if !s.report {
		return nil
	}
	page := filepath.Join(s.dir, reportFile)
	if err := writeReport(s.dir, page, nil); err != nil {
		return fmt.Errorf("the report could not be made: %w", err)
	}
	fmt.Fprintf(s.stdout, "Report: %s\n", page)
	return nil
}
