package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"prefire/internal/config"
)

func configExpandCommand(p process) *cobra.Command {
	var full bool
	var index int
	var format string
	cmd := &cobra.Command{
		Use:   "expand",
		Short: "List the runs that a config file stands for, without running them",
		Long: `expand lists the variations of a sweep: the folder below the run's own that each writes to, its label and the values that it sets. With --full
each has the config that it runs with; keys that nobody set are left out there.`,
		Example: `  prefire config expand sweep.yaml
  prefire config expand sweep.yaml --index 2 --format json`,
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.BoolVarP(&full, "full", "F", false, "print each variation's config too")
	f.IntVarP(&index, "index", "i", 0, "print the variation of this number alone, counted from 0, and its config")
	f.StringVarP(&format, "format", "f", "text", "text, yaml or json")
	return oneFile(cmd, func(path string) error {
		if !slices.Contains([]string{"text", "yaml", "json"}, format) {
			return fmt.Errorf("--format: Input should be 'text', 'yaml' or 'json', got '%s'", format)
		}
		e, err := config.Expand(path, p.env, os.ReadFile)
		if err != nil {
			return refuseConfig(p, path, err)
		}
		total := len(e.Variations)
		if f.Changed("index") {
			if index < 0 || index >= total {
				fmt.Fprintf(p.stderr, "Error: --index %d out of range; sweep has %d variation(s).\n", index, total)
				return exitError(exitFailed)
			}
			e.Variations, full = e.Variations[index:index+1], true
		}
		if format == "text" {
			return expandText(p, e, total, full)
		}
		return expandData(p, e, format, full)
	})
}

// expandText prints variations a line each, with their config below where it is asked for.
func expandText(p process, e *config.Expansion, total int, full bool) error {
	var b strings.Builder
	switch {
	case len(e.Variations) < total:
		fmt.Fprintf(&b, "Sweep type: %s (showing %d of %d)\n\n", e.Type, len(e.Variations), total)
	case total == 1:
		fmt.Fprintf(&b, "Sweep type: %s (1 variation)\n\n", e.Type)
	default:
		fmt.Fprintf(&b, "Sweep type: %s (%d variations)\n\n", e.Type, total)
	}
	for _, v := range e.Variations {
		fmt.Fprintf(&b, "[%d] dir=%s  label=%s\n", v.Index, v.Dir, v.Label)
		if !full {
			continue
		}
		body, err := v.Benchmark.YAML()
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(body)) {
			b.WriteString("    " + line)
		}
		b.WriteByte('\n')
	}
	_, err := fmt.Fprint(p.stdout, b.String())
	return err
}

// expandData prints variations as YAML or JSON.
func expandData(p process, e *config.Expansion, format string, full bool) error {
	list := []any{}
	for _, v := range e.Variations {
		m := config.Map{{Key: "index", Value: int64(v.Index)}, {Key: "dir_name", Value: v.Dir}, {Key: "label", Value: v.Label}, {Key: "values", Value: v.Values}}
		if full {
			m = append(m, config.KeyValue{Key: "benchmark", Value: v.Benchmark})
		}
		list = append(list, m)
	}
	all := config.Map{{Key: "sweep_type", Value: e.Type}, {Key: "variations", Value: list}}
	var text []byte
	var err error
	if format == "yaml" {
		text, err = all.YAML()
	} else if text, err = all.MarshalJSON(); err == nil {
		var b bytes.Buffer
		err = json.Indent(&b, text, "", "  ")
		b.WriteByte('\n')
		text = b.Bytes()
	}
	if err == nil {
		_, err = p.stdout.Write(text)
	}
	return err
}
