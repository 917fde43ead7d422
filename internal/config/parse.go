package config

import (
	"fmt"
	"math"
)

// read reads the files that flags and config file name, but for the dataset's.
func (d *draft) read(read func(string) ([]byte, error)) error {
	for _, p := range d.phases {
		if err := p.readSeries(read); err != nil {
			return err
		}
	}
	return d.dataset.prompts.readSystem(read)
}

// Parse is ParsePlan for one run: what asks for more is refused.
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
	p, from, err := parsePlan(args, env, read, change)
	if err != nil {
		return nil, err
	}
	if p.Layout.Many() {
		return nil, &Error{Title: titleConfig, Msg: from + ": sweeps and repeats belong to prefire profile; this command makes its runs itself: leave it out."}
	}
	return p.Steps[0].Config, nil
}
