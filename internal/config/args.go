package config

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// ErrHelp says that help was asked for.
var ErrHelp = errors.New("help requested")

// setting is one flag of a command line, with what was given for it.
type setting struct {
	flag   *Flag
	given  string // the name it was given under, "" = not given
	values []string
}

// flags is a parsed command line.
type flags struct {
	byField map[string]*setting
	order   []*setting // as given
	notices []string
}

// name is a setting under one of its names: a pflag.Value.
type name struct {
	*setting
	all     *flags
	as      string
	negates bool
}

func (n *name) String() string { return "" }
func (n *name) Type() string   { return "value" }

// Set takes a value. Its error is complete: parse shows it without pflag's words around it.
func (n *name) Set(value string) error {
	f := n.flag
	if n.given != "" && !f.Repeat {
		return complain("Parameter %s specified multiple times.%s", n.as, also(n.given, n.as))
	}
	if n.negates {
		on, ok := boolean(value)
		if !ok {
			return complain("%s: Input should be a valid boolean, got '%s'.", n.as, value)
		}
		value = "true"
		if on {
			value = "false"
		}
	}
	if err := f.check(n.as, value); err != nil {
		return err
	}
	if n.given == "" {
		n.given = n.as
		n.all.order = append(n.all.order, n.setting)
	}
	n.values = append(n.values, value)
	return nil
}

func also(first, second string) string {
	if first == second {
		return ""
	}
	return fmt.Sprintf(" %s is another name of it.", first)
}

// bind makes a pflag.FlagSet of the table. Every name is a flag of its own, so that messages have the name that was given.
func bind(table []Flag) (*pflag.FlagSet, *flags) {
	fs := pflag.NewFlagSet("profile", pflag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	fs.SetNormalizeFunc(func(_ *pflag.FlagSet, s string) pflag.NormalizedName {
		return pflag.NormalizedName(strings.ReplaceAll(s, "_", "-"))
	})
	all := &flags{byField: map[string]*setting{}}
	for i := range table {
		f := &table[i]
		s := &setting{flag: f}
		all.byField[f.Field] = s
		add := func(spelled string, negates bool) {
			v := &name{setting: s, all: all, as: spelled, negates: negates}
			p := &pflag.Flag{Name: strings.TrimLeft(spelled, "-"), Usage: f.Help, Value: v}
			if len(spelled) == 2 {
				p.Name, p.Shorthand = f.shortKey(), spelled[1:]
			}
			if f.Kind == Bool {
				p.NoOptDefVal = "true"
			}
			fs.AddFlag(p)
		}
		for _, spelled := range f.Names {
			if spelled != "-vv" {
				add(spelled, false)
			}
		}
		for _, spelled := range f.Negative {
			add(spelled, true)
		}
	}
	return fs, all
}

// shortKey is the long name under which pflag holds a shorthand of its own value; it cannot be typed by accident.
func (f *Flag) shortKey() string { return "short " + f.Field }

// parseArgs reads the arguments of the profile command.
func parseArgs(table []Flag, args []string) (*flags, error) {
	if len(args) == 0 {
		return nil, &Error{Title: titleParse, Msg: `Command "profile" parameter --cli-config requires an argument.` +
			"\nGive at least a model, for example: profile --model NAME --url http://localhost:8000; --help lists all flags."}
	}
	fs, all := bind(table)
	words, err := spread(table, args)
	if err != nil {
		return nil, err
	}
	if err := fs.Parse(words); err != nil {
		return nil, parseError(table, err)
	}
	if rest := fs.Args(); len(rest) > 0 {
		q := make([]string, len(rest))
		for i, r := range rest {
			q[i] = pyString(r)
		}
		msg := fmt.Sprintf("Unused Tokens: [%s].\nThe profile command has flags only, each with - before it.", strings.Join(q, ", "))
		if _, ok := boolean(rest[0]); ok {
			msg += " A switch takes its value after =, as in --streaming=false."
		}
		return nil, &Error{Title: titleParse, Msg: msg}
	}
	return all, all.judge()
}

// judge refuses all flags that are not supported, together, and notes those that mean nothing here.
func (all *flags) judge() error {
	var refused []string
	for _, s := range all.order {
		f := s.flag
		value := s.values[len(s.values)-1]
		switch f.Status {
		case Notice:
			all.notices = append(all.notices, fmt.Sprintf("%s has no effect: %s.", s.given, f.Reason))
		case Refused:
			if f.changesNothing(value) {
				continue
			}
			refused = append(refused, fmt.Sprintf("%s: %s.", s.given, f.Reason))
		}
	}
	if len(refused) == 0 {
		return nil
	}
	return &Error{Title: titleParse, Msg: strings.Join(refused, "\n")}
}

// changesNothing reports whether value asks a Refused flag for what prefire does anyway. A switch is off by default unless Same says true.
func (f *Flag) changesNothing(value string) bool {
	if f.Kind == Bool {
		on, _ := boolean(value)
		return on == slices.Contains(f.Same, "true")
	}
	_, ok := choose(value, f.Same)
	return ok
}

// parseError turns pflag's errors into aiperf's words.
func parseError(table []Flag, err error) error {
	var unknown *pflag.NotExistError
	var missing *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return ErrHelp
	case errors.As(err, &unknown):
		given := "--" + unknown.GetSpecifiedName()
		if unknown.GetSpecifiedShortnames() != "" {
			given = "-" + unknown.GetSpecifiedName()
		}
		msg := fmt.Sprintf("Unknown option: %s.", given)
		if near := suggest(table, given); near != "" {
			msg += fmt.Sprintf(" Did you mean %s?", near)
		}
		return &Error{Title: titleParse, Msg: msg}
	case errors.As(err, &missing):
		given := missing.GetSpecifiedName()
		if missing.GetSpecifiedShortnames() != "" {
			return missingValue("-" + given)
		}
		return missingValue("--" + given)
	case errors.As(err, &invalid):
		return &Error{Title: titleParse, Msg: invalid.Unwrap().Error()}
	}
	return &Error{Title: titleParse, Msg: err.Error()}
}

func missingValue(given string) error {
	return &Error{Title: titleParse, Msg: fmt.Sprintf("Command \"profile\" parameter %s requires an argument.\n"+
		"A value that begins with - is given as %s=VALUE.", given, given)}
}

// suggest is the flag that given is most likely a misspelling of: one that it negates, extends or cuts short, else the nearest.
func suggest(table []Flag, given string) string {
	var names []string
	for i := range table {
		names = append(append(names, table[i].Names...), table[i].Negative...)
	}
	if positive, ok := strings.CutPrefix(given, "--no-"); ok && slices.Contains(names, "--"+positive) {
		return "--" + positive
	}
	if len(given) < 4 {
		return ""
	}
	return nearest(given, names)
}

// spread rewrites a command line for pflag: a flag that takes several words gets each under its own name, a value is tied to its flag,
// and a flag that needs a value and is followed by another flag is an error.
func spread(table []Flag, args []string) ([]string, error) {
	known := map[string]*Flag{}
	for i := range table {
		for _, n := range table[i].Names {
			known[n] = &table[i]
		}
		for _, n := range table[i].Negative {
			known[n] = &table[i]
		}
	}
	isFlag := func(s string) bool {
		_, short := known[prefix(s, 2)]
		return strings.HasPrefix(s, "--") || short || s == "-h"
	}
	var out []string
	for i := 0; i < len(args); {
		arg := args[i]
		i++
		spelled, value, tied := strings.Cut(arg, "=")
		if strings.HasPrefix(spelled, "--") {
			spelled = strings.ReplaceAll(spelled, "_", "-")
		} else if len(spelled) > 2 && spelled != "-vv" && known[prefix(arg, 2)] != nil && known[prefix(arg, 2)].Kind != Bool {
			spelled, value, tied = arg[:2], arg[2:], true
		}
		f := known[spelled]
		if spelled == "-vv" {
			out = append(out, "--extra-verbose")
			continue
		}
		if f == nil || f.Kind == Bool {
			out = append(out, arg)
			continue
		}
		if !tied {
			if i == len(args) || isFlag(args[i]) {
				return nil, missingValue(spelled)
			}
			value = args[i]
			i++
		}
		out = tie(out, spelled, value)
		for f.Several && i < len(args) && !strings.HasPrefix(args[i], "-") {
			out = tie(out, spelled, args[i])
			i++
		}
	}
	return out, nil
}

// tie appends a flag and its value so that pflag takes the value whatever it begins with.
func tie(out []string, spelled, value string) []string {
	if strings.HasPrefix(spelled, "--") {
		return append(out, spelled+"="+value)
	}
	return append(out, spelled, value)
}

func prefix(s string, n int) string { return s[:min(n, len(s))] }
