package config

import "strings"

// Verdict is what is to be said of a config file that can be run.
type Verdict struct {
	Warnings []string  // what makes a run fail or measure less than it says
	Notices  []string  // as a run with the file prints them
	Configs  []*Config // one for each run
}

// Validate reads a config file as the profile command does, without any flag. Its error is an *Error that says all that is wrong.
func Validate(path string, env func(string) (string, bool), read func(string) ([]byte, error)) (*Verdict, error) {
	p, x, err := inspect(path, env, read)
	if err != nil {
		return nil, err
	}
	v := &Verdict{Warnings: x.warnings}
	for i := range p.Steps {
		v.Configs = append(v.Configs, p.Steps[i].Config)
		v.Notices = append(v.Notices, p.Steps[i].Config.Notices...)
	}
	return v, nil
}

// warnOrRefuse is a problem of a run that aiperf finds once it runs alone: a file with it is valid.
func (r *decoder) warnOrRefuse(d *draft, place, what string) {
	if d.lint {
		d.warnings = append(d.warnings, place+": "+strings.TrimSuffix(what, "."))
		return
	}
	r.problem(place, "%s", what)
}
