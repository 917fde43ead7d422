package config

import (
	"fmt"
	"slices"
	"strings"
)

// choicesUI are the kinds of progress display.
func choicesUI() []string { return []string{"dashboard", "none", "simple"} }

// LogLevels are what a log may be kept at, from all to little.
func LogLevels() []string {
	return []string{"TRACE", "DEBUG", "INFO", "NOTICE", "WARNING", "SUCCESS", "ERROR", "CRITICAL"}
}

func off() []string { return []string{"false"} }

// solid reports whether a key must have a value where it is written at all: aiperf refuses null there. A null elsewhere is as if the key were
// not written.
func (k keys) solid(path, key string) bool {
	switch key {
	case "schema_version", "benchmark", "multi_run", "variables", "no_sweep_table",
		"models", "endpoint", "datasets", "phases", "artifacts", "gpu_telemetry", "server_metrics", "network_latency", "otel", "mlflow", "wandb",
		"runtime", "logging", "metrics", "unsafe_override", "strategy", "items",
		"num_runs", "cooldown_seconds", "confidence_level", "set_consistent_seed", "vary_seed_per_trial", "disable_warmup_after_first",
		"url", "urls", "url_strategy", "type", "timeout", "streaming", "connection_reuse", "use_legacy_max_tokens", "use_server_token_count",
		"per_chunk_usage", "headers", "extra", "wait_for_model_timeout", "wait_for_model_interval", "wait_for_model_mode",
		"sampling", "format", "turn_delay_ratio", "batch_size", "cache_bust", "target", "random_corpus_style", "probability", "value", "mean", "stddev",
		"ignore_trace_delays", "exclude_from_results", "duration", "grace_period", "seamless", "users", "auto_offset", "delay", "time_s", "qps",
		"dir", "summary", "raw", "trace", "show_trace_timing", "export_outputs_json", "revision", "apply_chat_template":
		return true
	case "name":
		return !strings.HasSuffix(path, "tokenizer")
	case "rate":
		return strings.HasSuffix(path, "cancellation")
	case "records":
		return strings.HasSuffix(path, "artifacts")
	case "entries":
		return !slices.Contains(k.known, "format") // those of a file may be null
	case "concurrency":
		return !slices.Contains(k.known, "rate") && !slices.Contains(k.known, "auto_offset") // it is a limit alone there
	}
	return false
}

func envelopeKeys() keys {
	return keys{
		known: []string{"schema_version", "benchmark", "random_seed", "variables", "sweep", "multi_run", "no_sweep_table"},
		later: map[string][]string{"plot": nil},
	}
}

// sweepKeys are those of a sweep of the given type.
func sweepKeys(kind string) keys {
	k := keys{
		known: []string{"type", "parameters", "iteration_order", "same_seed", "cooldown_seconds", "sla_filters"},
		later: map[string][]string{"post_process": nil, "recipe_name": nil},
	}
	if kind == "scenarios" {
		k.known[1] = "runs"
	}
	return k
}

func scenarioKeys() keys { return keys{known: []string{"name", "variables", "benchmark", "values"}} }

func limitKeys() keys { return keys{known: []string{"metric_tag", "stat", "op", "threshold"}} }

func multiRunKeys() keys {
	return keys{known: []string{"num_runs", "cooldown_seconds", "confidence_level", "set_consistent_seed", "vary_seed_per_trial",
		"disable_warmup_after_first", "convergence"}}
}

func convergenceKeys() keys {
	return keys{known: []string{"metric", "stat", "mode", "threshold", "min_runs"}}
}

// bodyKeys are the sections below benchmark, which older files have at the top level.
func bodyKeys() []string {
	return []string{
		"model", "models", "endpoint", "dataset", "datasets", "phases", "artifacts", "slos", "tokenizer", "gpu_telemetry", "server_metrics",
		"runtime", "logging", "metrics", "accuracy",
	}
}

func benchmarkKeys() keys {
	return keys{
		known: []string{"models", "model", "endpoint", "datasets", "dataset", "phases", "warmup", "profiling", "artifacts", "slos", "tokenizer",
			"network_latency", "runtime", "logging", "server_metrics"},
		later: map[string][]string{
			"gpu_telemetry": {"disabled", "enabled"}, "otel": nil,
			"mlflow": nil, "wandb": nil, "metrics": nil, "accuracy": nil, "scenario": nil, "unsafe_override": off(),
		},
	}
}

func modelsKeys() keys {
	return keys{known: []string{"items", "strategy"}}
}

func modelKeys() keys {
	return keys{
		known: []string{"name", "weight"},
		later: map[string][]string{"lora": nil, "tokenizer": nil},
		idle:  map[string]string{"modalities": "aiperf does not read it either"},
	}
}

func endpointKeys() keys {
	return keys{
		known: []string{
			"urls", "url", "type", "path", "api_key", "timeout", "streaming", "headers", "extra", "use_legacy_max_tokens",
			"use_server_token_count", "per_chunk_usage", "request_content_type", "url_strategy", "session_header", "connection_reuse", "wait_for_model_timeout", "wait_for_model_interval", "wait_for_model_mode", "reset_kv_cache", "server_profiler",
			"network",
		},
		later: map[string][]string{
			"transport": {"http"},
			"template":  nil, "download_video_content": off(),
			"uuid_and_strip": off(),
		},
	}
}

func datasetKeys() keys {
	return keys{
		known: []string{
			"name", "type", "entries", "random_seed", "isl", "osl", "prompts", "prefix_prompts", "turns", "turn_delay", "turn_delay_ratio",
			"system_prompt", "system_prompt_file", "sampling",
		},
		later: map[string][]string{
			"images": nil, "audio": nil, "video": nil, "rankings": nil,
		},
	}
}

func promptsKeys() keys {
	return keys{
		known: []string{
			"isl", "osl", "batch_size", "cache_bust", "corpus", "sequence_distribution", "random_range_ratio", "random_corpus_style",
		},
		later: map[string][]string{"block_size": nil},
	}
}

func lengthKeys() keys {
	return keys{
		known: []string{"mean", "stddev", "value", "median", "peaks", "points", "min", "max", "type"},
	}
}

// phaseKeys are those of a phase of the given type.
func phaseKeys(kind string) keys {
	k := keys{
		known: []string{
			"name", "kind", "type", "requests", "duration", "sessions", "concurrency", "grace_period", "exclude_from_results",
			"concurrency_ramp", "prefill_concurrency", "prefill_ramp", "cancellation", "seamless", "failed_request_threshold",
		},
		later: map[string][]string{
			"sla": nil, "timing_mode": nil, "burst_phase_starts": off(), "trajectory_start_min_ratio": nil, "trajectory_start_max_ratio": nil,
			"system_idle_gap_cap_seconds": nil, "agentic_cache_warmup_duration": nil, "agentic_warmup_grace_period": nil,
			"adaptive_scale": {"false", "disabled"},
		},
	}
	switch kind {
	case "concurrency":
	case fixedSchedule:
		k.known = append(k.known, "auto_offset", "start_offset", "end_offset")
	default:
		k.known = append(k.known, "rate", "rate_ramp", "rate_series")
	}
	switch kind {
	case "gamma":
		k.known = append(k.known, "smoothness")
	case userCentric:
		k.known = append(k.known, "users")
	}
	k.other = func(key string) string {
		for _, of := range [...]struct{ key, types string }{
			{"rate", ratedTypes}, {"rate_ramp", ratedTypes}, {"rate_series", rateTypes}, {"smoothness", "'gamma'"}, {"users", "'user_centric'"},
			{"auto_offset", "'fixed_schedule'"}, {"start_offset", "'fixed_schedule'"}, {"end_offset", "'fixed_schedule'"},
		} {
			if of.key == key {
				return fmt.Sprintf("A phase of type '%s' has none; it belongs to type %s.", kind, of.types)
			}
		}
		return ""
	}
	return k
}

// Types of phases with a rate: those that draw arrivals, and those with users as well.
const (
	rateTypes  = "'poisson', 'gamma' or 'constant'"
	ratedTypes = "'poisson', 'gamma', 'constant' or 'user_centric'"
)

func rampKeys() keys { return keys{known: []string{"duration", "strategy"}} }

func cancellationKeys() keys { return keys{known: []string{"rate", "delay"}} }

func rateSeriesKeys() keys { return keys{known: []string{"path", "points"}} }

func ratePointKeys() keys { return keys{known: []string{"time_s", "qps"}} }

// phaseTypes are aiperf's, in the order of its message.
func phaseTypes() []string {
	return []string{"concurrency", "poisson", "gamma", "constant", userCentric, fixedSchedule}
}

func artifactsKeys() keys {
	return keys{
		known: []string{"dir", "prefix", "summary", "records", "raw", "trace", "slice_duration", "show_trace_timing", "export_outputs_json"},
		later: map[string][]string{"user_files": nil, "auto_plot": off(), "plot_required": off()},
	}
}

func tokenizerKeys() keys {
	return keys{
		known: []string{"name", "revision", "apply_chat_template"},
		idle:  map[string]string{"trust_remote_code": "prefire runs no code of a tokenizer"},
	}
}

func loggingKeys() keys { return keys{known: []string{"level"}} }

func runtimeKeys() keys {
	const workers = "prefire runs its load in one process and has no workers"
	return keys{
		known: []string{"ui", "stats_interval"},
		idle: map[string]string{
			"workers": workers, "workers_min": workers, "workers_per_pod": workers, "record_processors": workers,
			"record_processors_per_pod": workers, "communication": "prefire has no ZMQ services",
			"service_run_type": workers,
		},
		later: map[string][]string{"api_port": nil, "api_host": nil, "dataset_api_base_url": nil},
	}
}

// Keys of the older dialect (reference: the config file of the long-context procedure).

func olderDatasetsKeys(name string) keys {
	return keys{known: []string{name, "strategy"}}
}

func olderDatasetKeys() keys {
	return keys{known: []string{"name", "type", "prompt_template", "variables"}}
}

func olderStrategyKeys() keys {
	return keys{known: []string{"type", "max_total_tokens", "input_tokens", "output_tokens"}}
}

func olderPhaseKeys() keys {
	k := phaseKeys("concurrency")
	k.known = []string{"name", "kind", "type", "requests", "duration", "sessions", "grace_period"}
	return k
}
