package config

import "math"

// seriesFlags ask for more than one run: repeats and sweeps.
func seriesFlags() []Flag {
	return []Flag{
		{Field: "num_profile_runs", Names: []string{"--num-profile-runs"}, Group: gMultiRun, Kind: Int, Bound: between(1, maxRuns), Default: "1",
			Help: "Run so many times, in one process, and write means with confidence intervals over the runs. Each repeat draws prompts of its own, unless " +
				"--set-consistent-seed asks for the same ones, which a prefix cache knows from the second run on."},
		{Field: "profile_run_cooldown_seconds", Names: []string{"--profile-run-cooldown-seconds"}, Group: gMultiRun, Kind: Duration,
			Bound: between(0, 86400), Default: "0", Help: "Wait between repeats. Seconds, or with a unit."},
		{Field: "confidence_level", Names: []string{"--confidence-level"}, Group: gMultiRun, Kind: Number,
			Bound: &Bound{Low: 0, Open: true, High: math.Nextafter(1, 0)}, Default: "0.95", Help: "Level of the confidence intervals, above 0 and below 1."},
		{Field: "profile_run_disable_warmup_after_first", Names: []string{"--profile-run-disable-warmup-after-first"},
			Negative: []string{"--no-profile-run-disable-warmup-after-first"}, Group: gMultiRun, Kind: Bool, Default: "true",
			Help: "Only the first repeat has warm-up phases. The prewarm, which opens connections, comes before every run."},
		{Field: "set_consistent_seed", Names: []string{"--set-consistent-seed"}, Negative: []string{"--no-set-consistent-seed"}, Group: gMultiRun, Kind: Bool,
			Help: "Send the same prompts in every repeat, from seed 42 where none is given, as aiperf does unless told otherwise. A server's prefix cache may " +
				"answer them from the second repeat on."},
		{Field: "vary_seed_per_trial", Names: []string{"--vary-seed-per-trial"}, Negative: []string{"--no-vary-seed-per-trial"}, Group: gMultiRun, Kind: Bool,
			Default: "true", Help: "Each repeat draws prompts of its own. Under --set-consistent-seed: not, unless this flag says so."},
		{Field: "convergence_metric", Names: []string{"--convergence-metric"}, Group: gMultiRun, Kind: Text,
			Help: "Stop repeating before --num-profile-runs is reached, once this metric is steady; for example request_latency."},
		{Field: "convergence_stat", Names: []string{"--convergence-stat"}, Group: gMultiRun, Kind: Enum, Choices: convergenceStats(), Default: "avg",
			Help: "Figure of the metric that must be steady."},
		{Field: "convergence_threshold", Names: []string{"--convergence-threshold"}, Group: gMultiRun, Kind: Number,
			Bound: &Bound{Low: 0, Open: true, High: math.Nextafter(1, 0)},
			Help:  "When it is steady; above 0 and below 1. Not given: 0.10 for ci_width, 0.05 for cv and distribution."},
		{Field: "convergence_mode", Names: []string{"--convergence-mode"}, Group: gMultiRun, Kind: Enum, Choices: convergenceModes(), Default: "ci_width",
			Help: "ci_width: the confidence interval is narrower than the threshold times the mean. cv: so is the standard deviation. distribution: a " +
				"Kolmogorov-Smirnov test of the last run's requests against those before has a p-value above it."},
		{Field: "parameter_sweep_cooldown_seconds", Names: []string{"--parameter-sweep-cooldown-seconds"}, Group: gMultiRun, Kind: Duration,
			Bound: between(0, maxSeconds), Default: "0", Help: "Wait between the variations of a sweep. Seconds, or with a unit."},
		{Field: "parameter_sweep_same_seed", Names: []string{"--parameter-sweep-same-seed"}, Negative: []string{"--no-parameter-sweep-same-seed"},
			Group: gMultiRun, Kind: Bool, Default: "false", Help: "All variations of a sweep draw from one seed; otherwise each has the next one."},
		{Field: "parameter_sweep_mode", Names: []string{"--parameter-sweep-mode"}, Group: gMultiRun, Kind: Enum, Choices: sweepOrders(), Default: "repeated",
			Help: "repeated: all variations once, then all again. independent: all repeats of a variation, then the next."},
		{Field: "sweep_type", Names: []string{"--sweep-type"}, Group: gMultiRun, Kind: Enum, Choices: []string{"grid", "zip"}, Default: "grid",
			Help: "Flags that take a comma list make a sweep. grid: every combination of the lists' values. zip: the first values together, the second, and so on."},
		{Field: "sweep_variants", Names: []string{"--variant", "--sweep-variant"}, Group: gMultiRun, Kind: Text, Repeat: true,
			Help: "One variation of a sweep, as \"name: flag=value, flag=value\", the flags without --; given twice or more."},
		{Field: "no_sweep_table", Names: []string{"--no-sweep-table"}, Group: gMultiRun, Kind: Bool, Default: "false",
			Help: "Do not show a sweep's table."},
	}
}
