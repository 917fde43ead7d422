package config

import (
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"strings"
	"time"

	"prefire/internal/sweep"
	"prefire/metrics"
)

// Plan is all runs that a command line and its config file ask for: one, or those of a sweep, of repeats, or of both.
type Plan struct {
	Steps  []Step // the sweep's variations; one, sweep.Base, where nothing is swept
	Kind   string // grid | zip | scenarios; "" = nothing is swept
	Layout sweep.Layout
	// Seed is the one that the user gave; nil = none.
	Seed *uint64
	// Consistent: the user asks for the same prompts in every repeat, as aiperf sends them; otherwise each repeat draws prompts of its own.
	Consistent bool
	FixedSeed  bool // where no seed is given, it is aiperf's, AIPerfSeed, and not drawn
	SameSeed   bool // all variations draw from one seed
	WarmupOnce bool // only the first repeat of a variation has warm-up phases
	// Cooldown is the time between two repeats, SweepCooldown that between two variations.
	Cooldown, SweepCooldown time.Duration
	Confidence              float64 // level of the intervals
	Convergence             *sweep.Convergence
	Limits                  []sweep.Limit
	NoTable                 bool // the sweep's table is not shown
}

// AIPerfSeed is the seed of aiperf's sweeps and repeats where none is given.
const AIPerfSeed = 42

// Step is one variation of a plan with its config.
type Step struct {
	sweep.Variation
	Config *Config
}

// Dir is the folder below which the folders of all runs are, named after the first variation where no flag names it.
func (p *Plan) Dir() string { return p.Steps[0].Config.Artifacts.Dir }

// ParsePlan reads the arguments of the profile command, and the config file that they name. It returns ErrHelp where help is asked for, and an
// *Error that says what is wrong otherwise.
func ParsePlan(args []string, env func(string) (string, bool), read func(path string) ([]byte, error)) (*Plan, error) {
	p, _, err := parsePlan(args, env, read, nil)
	return p, err
}

// parsePlan also says where the sweep or the repeats were asked for.
func parsePlan(args []string, env func(string) (string, bool), read func(path string) ([]byte, error), change func(*draft) error) (*Plan, string, error) {
	all, err := parseArgs(Flags(), args)
	if err != nil {
		return nil, "", err
	}
	x := &expander{all: all, env: env, read: read, change: change, command: CommandLine("aiperf", "profile", args)}
	if path, _, ok := all.last("config_file"); ok {
		if x.src, err = load(path, env, read); err != nil {
			return nil, "", err
		}
	}
	p, err := x.plan()
	return p, x.series.from, err
}

func load(path string, env func(string) (string, bool), read func(string) ([]byte, error)) (*source, error) {
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
	return readSource(path, data, env)
}

// expander turns flags and a file into a plan.
type expander struct {
	all     *flags
	src     *source // nil = no file
	env     func(string) (string, bool)
	read    func(string) ([]byte, error)
	change  func(*draft) error
	command string
	series  seriesDraft
	// lint: what aiperf finds once it runs alone becomes warnings.
	lint     bool
	warnings []string
}

// inspect is the plan of a file alone, without any flag, as far as it can be told without running it.
func inspect(path string, env func(string) (string, bool), read func(string) ([]byte, error)) (*Plan, *expander, error) {
	_, all := bind(Flags())
	src, err := load(path, env, read)
	if err != nil {
		return nil, nil, err
	}
	x := &expander{all: all, src: src, read: read, lint: true}
	p, err := x.plan()
	return p, x, err
}

// variant is one variation before its config is resolved: a tree of the file, and flags, each with what the variation sets in it.
type variant struct {
	sweep.Variation
	root *node
	all  *flags
}

func (x *expander) plan() (*Plan, error) {
	root := (*node)(nil)
	if x.src != nil {
		root = x.src.root
		if err := x.src.readSeries(&x.series); err != nil {
			return nil, err
		}
	}
	notices, err := x.all.applySeries(&x.series, x.src != nil)
	if err != nil {
		return nil, err
	}
	x.all.notices = append(x.all.notices, notices...)
	variants, err := x.variants(root)
	if err != nil {
		return nil, err
	}
	p := x.series.resolve()
	said := map[string]bool{}
	for i := range variants {
		v := &variants[i]
		c, err := x.config(v)
		if err != nil {
			return nil, x.inVariation(v, err)
		}
		if g := p.Convergence; g != nil && g.Mode == "distribution" && c.Artifacts.Level == LevelSummary {
			return nil, &Error{Title: titleConfig, Msg: "--convergence-mode distribution compares the records of the runs, which --export-level summary leaves out. " +
				"Drop one of them, or use ci_width or cv."}
		}
		c.Notices = slices.DeleteFunc(c.Notices, func(n string) bool { seen := said[n]; said[n] = true; return seen })
		p.Steps = append(p.Steps, Step{Variation: v.Variation, Config: c})
	}
	if x.series.variants != nil {
		if err := x.nameVariants(p); err != nil {
			return nil, err
		}
	}
	p.Seed = p.Steps[0].Config.Seed
	return p, x.distinct(p)
}

// config resolves one variation.
func (x *expander) config(v *variant) (*Config, error) {
	d := &draft{}
	if v.root != nil {
		var err error
		if d, err = x.src.decode(v.root); err != nil {
			return nil, err
		}
	}
	if err := v.all.apply(d); err != nil {
		return nil, err
	}
	if x.change != nil {
		if err := x.change(d); err != nil {
			return nil, err
		}
	}
	d.lint = x.lint
	if err := d.read(x.read); err != nil {
		return nil, err
	}
	if !x.lint {
		if err := d.endpoint.readKey(x.env, x.read); err != nil {
			return nil, err
		}
	}
	c, err := d.resolve()
	if err != nil {
		return nil, err
	}
	for _, w := range d.warnings {
		if !slices.Contains(x.warnings, w) {
			x.warnings = append(x.warnings, w)
		}
	}
	c.Command = x.command
	return c, nil
}

// inVariation adds to an error which variation of a sweep it is in.
func (x *expander) inVariation(v *variant, err error) error {
	var e *Error
	if x.series.kind == "" || !errors.As(err, &e) {
		return err
	}
	return &Error{Title: e.Title, Msg: fmt.Sprintf("%s\nIn variation %d of the sweep: %s.", e.Msg, v.Index, v.Label)}
}

// distinct refuses variations that would write to one folder, and those whose values change nothing.
func (x *expander) distinct(p *Plan) error {
	refuse := func(format string, args ...any) error {
		return &Error{Title: titleConfig, Msg: fmt.Sprintf(format, args...)}
	}
	folders := map[string]int{}
	for i := range p.Steps {
		name := strings.ToLower(p.Steps[i].Folder()) // as file systems that know no case have it
		if j, ok := folders[name]; ok {
			return refuse("%s: variations %d and %d of the sweep have the same folder, %s: give each value once, and each run a name of its own.",
				x.series.from, j, i, p.Steps[i].Folder())
		}
		folders[name] = i
	}
	if p.Kind == "" || p.Kind == "scenarios" { // two runs of the same settings can be what somebody wants
		return nil
	}
	plain := func(c *Config) Config {
		o := *c
		o.Input, o.Notices, o.Artifacts = nil, nil, Artifacts{}
		return o
	}
	for i := 1; i < len(p.Steps); i++ {
		if reflect.DeepEqual(plain(p.Steps[0].Config), plain(p.Steps[i].Config)) {
			return refuse("%s: variations 0 and %d of the sweep are the same run: %s changes nothing. Does a flag of the command line set it?", x.series.from, i, p.Steps[i].Label)
		}
	}
	return nil
}

// ForRun is the config of one run of a series: with its folder, and without warm-up phases where it has none.
func (c *Config) ForRun(dir string, warmup bool) *Config {
	out := *c
	out.Artifacts.Dir = dir
	out.Input = slices.Clone(c.Input)
	for i, kv := range out.Input {
		switch v := kv.Value.(type) {
		case Map:
			out.Input[i].Value = slices.Clone(v)
		case []any:
			if kv.Key == "phases" && !warmup {
				out.Input[i].Value = slices.DeleteFunc(slices.Clone(v), func(p any) bool {
					m, ok := p.(Map)
					kind, _ := m.Get("kind")
					return ok && kind == metrics.Warmup.String()
				})
			}
		}
	}
	if !warmup {
		out.Phases = slices.DeleteFunc(slices.Clone(c.Phases), func(p Phase) bool { return p.Kind == metrics.Warmup })
		out.Phases[0].Load.Seamless = false // there is nothing before it
	}
	return &out
}
