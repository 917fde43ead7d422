package config

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
)

// Parse reads the arguments of the profile command, and the config file that they name, into a resolved config. It returns ErrHelp where
// help is asked for, and an *Error that says what is wrong otherwise.
func Parse(args []string, env func(string) (string, bool), read func(path string) ([]byte, error)) (*Config, error) {
	return parse(args, env, read, nil)
}

// ParseLength is Parse for one step of a scan over input lengths: every prompt has isl tokens in place of the length that args or file give,
// and a max_total_tokens of the file follows. What would give prompts other lengths all the same is refused.
func ParseLength(args []string, env func(string) (string, bool), read func(path string) ([]byte, error), isl int) (*Config, error) {
	return parse(args, env, read, func(d *draft) error {
		ds := &d.dataset
		if err := ds.scannable(); err != nil {
			return err
		}
		ds.isl = lengthDraft{mean: given(float64(isl), "--isl"), fixed: true}
		if ds.maxTotal.ok {
			ds.maxTotal.v = int64(isl) + int64(math.Ceil(ds.osl.mean.v)) + olderPadding
		}
		return nil
	})
}

// scannable refuses a dataset whose prompts would not have the lengths of a scan.
func (ds *datasetDraft) scannable() error {
	for _, g := range []struct {
		ok         bool
		from, what string
	}{
		{ds.isFile, ds.fromFile.path.from, "the prompts of a file have lengths of their own"},
		{ds.prompts.mix.ok, ds.prompts.mix.from, "a mix has lengths of its own"},
		{ds.prompts.ratio.ok, ds.prompts.ratio.from, "a range spreads the lengths"},
		{ds.isl.stddev.v > 0, ds.isl.stddev.from, "a standard deviation spreads the input length"},
	} {
		if g.ok {
			return &Error{Title: titleConfig, Msg: fmt.Sprintf("%s: a scan holds input lengths against each other, each of them fixed, and %s: leave it out.",
				g.from, g.what)}
		}
	}
	return nil
}

func parse(args []string, env func(string) (string, bool), read func(path string) ([]byte, error), change func(*draft) error) (*Config, error) {
	all, err := parseArgs(Flags(), args)
	if err != nil {
		return nil, err
	}
	d := &draft{}
	if path, _, ok := all.last("config_file"); ok {
		if d, err = load(path, env, read); err != nil {
			return nil, err
		}
	}
	if err := all.apply(d); err != nil {
		return nil, err
	}
	if change != nil {
		if err := change(d); err != nil {
			return nil, err
		}
	}
	if err := d.read(read); err != nil {
		return nil, err
	}
	if err := d.endpoint.readKey(env, read); err != nil {
		return nil, err
	}
	c, err := d.resolve()
	if err != nil {
		return nil, err
	}
	c.Command = CommandLine("aiperf", "profile", args)
	return c, nil
}

// read reads the files that flags and config file name, but for the dataset's.
func (d *draft) read(read func(string) ([]byte, error)) error {
	for _, p := range d.phases {
		if err := p.readSeries(read); err != nil {
			return err
		}
	}
	return d.dataset.prompts.readSystem(read)
}

func load(path string, env func(string) (string, bool), read func(string) ([]byte, error)) (*draft, error) {
	data, err := read(path)
	var reason *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &Error{Title: titleConfig, Msg: "Configuration file not found: " + path + "\nFile: " + path}
	case errors.As(err, &reason):
		return nil, &Error{Title: titleConfig, Msg: "Configuration file cannot be read: " + reason.Err.Error() + "\nFile: " + path}
	case err != nil:
		return nil, &Error{Title: titleConfig, Msg: "Configuration file cannot be read: " + err.Error() + "\nFile: " + path}
	}
	return decodeFile(path, data, env)
}
