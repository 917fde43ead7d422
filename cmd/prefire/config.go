package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"prefire/internal/config"
	"prefire/internal/config/templates"
	"prefire/internal/endpoint"
	"prefire/metrics"
)

// exitUsage is the exit code of aiperf's config commands for what cannot be asked of them.
const exitUsage = 2

func configCommand(p process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Make, check and unfold config files",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(configValidateCommand(p), configInitCommand(p), configExpandCommand(p))
	return cmd
}

// oneFile makes a command take its config file by its place or as --config-file, as aiperf's do.
func oneFile(cmd *cobra.Command, run func(path string) error) *cobra.Command {
	path := cmd.Flags().String("config-file", "", "config file; the same as giving it without the flag")
	cmd.Use += " FILE"
	cmd.Args = cobra.MaximumNArgs(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) == 1 && *path != "":
			return fmt.Errorf("the config file is given twice: %q and --config-file %q", args[0], *path)
		case len(args) == 1:
			*path = args[0]
		case *path == "":
			fmt.Fprintf(cmd.ErrOrStderr(), "Command \"config %s\" parameter --config-file requires an argument.\n", cmd.Name())
			return exitError(exitFailed)
		}
		return run(*path)
	}
	return cmd
}

func configValidateCommand(p process) *cobra.Command {
	return oneFile(&cobra.Command{
		Use:   "validate",
		Short: "Say whether a config file can be run, without running it",
		Long: `validate reads a config file as the profile command does. Exit code 0: it can be run; warnings are on stderr. Exit code 1: it cannot, and all
that is wrong is on stderr, each with its line and key.`,
		Example: "  prefire config validate run.yaml",
	}, func(path string) error { return validateConfig(p, path) })
}

func validateConfig(p process, path string) error {
	v, err := config.Validate(path, p.env, os.ReadFile)
	if err != nil {
		return refuseConfig(p, path, err)
	}
	for _, n := range v.Notices {
		fmt.Fprintf(p.stderr, "Note: %s\n", n)
	}
	for _, cfg := range v.Configs {
		// Whether a file has a schedule is not known before it is read.
		kind := endpoint.Type(cfg.Endpoint.Type)
		o := metrics.Options{Streaming: cfg.Endpoint.Streaming, NoTokens: !kind.HasTokens(), ServerCounts: cfg.Endpoint.ServerCounts,
			Scheduled: true, OpenLoop: true, Network: cfg.RoundTrip.Adjusts()}
		if err := applicable(cfg, o.Table()); err != nil && !slices.Contains(v.Warnings, err.Error()) {
			v.Warnings = append(v.Warnings, err.Error())
		}
	}
	for _, w := range v.Warnings {
		fmt.Fprintf(p.stderr, "Warning: %s\n", w)
	}
	with := ""
	switch n := len(v.Warnings); {
	case n == 1:
		with = " with 1 warning"
	case n > 1:
		with = fmt.Sprintf(" with %d warnings", n)
	}
	_, err = fmt.Fprintf(p.stdout, "Configuration valid%s: %s\n", with, path)
	return err
}

// refuseConfig prints what is wrong with a config file, in aiperf's form.
func refuseConfig(p process, path string, err error) error {
	msg := strings.TrimRight(err.Error(), "\n")
	if e := (*config.Error)(nil); errors.As(err, &e) && e.Invalid {
		msg = "Configuration validation failed: " + msg
	}
	if place := "File: " + path; !strings.HasSuffix(msg, place) {
		msg += "\n" + place
	}
	fmt.Fprintf(p.stderr, "Error: %s\n", msg)
	return exitError(exitFailed)
}

func configInitCommand(p process) *cobra.Command {
	var o struct {
		template, search, category, model, url, output string
		list, verbose                                  bool
	}
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Write a config file from a template, or list the templates",
		Example: `  prefire config init --list
  prefire config init --template latency_test --model my-model --url http://127.0.0.1:8000 --output run.yaml`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVarP(&o.template, "template", "t", "", "template to write, for example minimal")
	f.BoolVarP(&o.list, "list", "l", false, "list the templates")
	f.StringVarP(&o.search, "search", "s", "", "list the templates that have this word")
	f.StringVarP(&o.category, "category", "c", "", "list the templates of this category alone; with --list")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "list tags and difficulty too")
	f.StringVarP(&o.model, "model", "m", "", "model to put into the template")
	f.StringVarP(&o.url, "url", "u", "", "server's address to put into the template")
	f.StringVarP(&o.output, "output", "o", "", "file to write, in place of stdout")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case o.list:
			found := templates.In(o.category)
			if len(found) == 0 {
				_, err := fmt.Fprintf(p.stdout, "No templates in category '%s'.\n", o.category)
				return err
			}
			if err := listTemplates(p, found, o.verbose); err != nil {
				return err
			}
			_, err := fmt.Fprintf(p.stdout, "Use '%s config init --template <name>' to generate a template.\n", p.name())
			return err
		case cmd.Flags().Changed("search"):
			found := templates.Search(o.search)
			if len(found) == 0 {
				_, err := fmt.Fprintf(p.stdout, "No templates match '%s'.\nRun '%s config init --list' to see all templates.\n", o.search, p.name())
				return err
			}
			return listTemplates(p, found, o.verbose)
		case o.template == "":
			fmt.Fprintf(p.stderr, "Specify a template with --template, or run '%s config init --list' to see what is available.\n", p.name())
			return exitError(exitUsage)
		}
		text, ok := templates.Text(o.template, o.model, o.url)
		if !ok {
			fmt.Fprintf(p.stderr, "Error: Unknown template '%s'. Available templates: %s\n", o.template, strings.Join(templates.Names(), ", "))
			return exitError(exitFailed)
		}
		if o.output == "" {
			_, err := fmt.Fprint(p.stdout, text)
			return err
		}
		if err := os.MkdirAll(filepath.Dir(o.output), 0o755); err != nil {
			return fmt.Errorf("--output: %w", err)
		}
		if err := os.WriteFile(o.output, []byte(text), 0o644); err != nil {
			return fmt.Errorf("--output: %w", err)
		}
		_, err := fmt.Fprintf(p.stdout, "Wrote %s template to %s\n", o.template, o.output)
		return err
	}
	return cmd
}

// listTemplates prints templates below their categories.
func listTemplates(p process, list []templates.Info, verbose bool) error {
	var b strings.Builder
	for _, category := range templates.Categories() {
		first := true
		for _, i := range list {
			if i.Category != category {
				continue
			}
			if first {
				fmt.Fprintf(&b, "%s\n", category)
				first = false
			}
			fmt.Fprintf(&b, "  %-25s %s\n", i.Name, i.Title)
			text := i.Description
			if verbose {
				text += fmt.Sprintf(" (%s; %s)", i.Difficulty, strings.Join(i.Tags, ", "))
			}
			for _, line := range config.Wrap(text, 80-6) {
				fmt.Fprintf(&b, "      %s\n", line)
			}
		}
		if !first {
			b.WriteByte('\n')
		}
	}
	_, err := fmt.Fprint(p.stdout, b.String())
	return err
}
