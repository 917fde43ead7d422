package servermetrics

import (
	"regexp"
	"strings"
)

// suffixUnits are the units that the end of a name tells, longer ends first.
func suffixUnits() [][2]string {
	return [][2]string{
		{"_error_count_total", "errors"}, {"_requests_total", "requests"}, {"request_success", "requests"}, {"_seconds_total", "seconds"},
		{"_tokens_total", "tokens"}, {"_blocks_total", "blocks"}, {"_errors_total", "errors"}, {"_milliseconds", "milliseconds"}, {"_bytes_total", "bytes"},
		{"_error_count", "errors"}, {"_block_count", "blocks"}, {"_nanoseconds", "nanoseconds"}, {"_kilobytes", "kilobytes"}, {"_megabytes", "megabytes"},
		{"_gigabytes", "gigabytes"}, {"_ms_total", "milliseconds"}, {"_ns_total", "nanoseconds"}, {"_requests", "requests"}, {"_seconds", "seconds"},
		{"_percent", "percent"}, {"_celsius", "celsius"}, {"_tokens", "tokens"}, {"_errors", "errors"}, {"_blocks", "blocks"}, {"_joules", "joule"},
		{"_bytes", "bytes"}, {"_total", "count"}, {"_count", "count"}, {"_ratio", "ratio"}, {"_watts", "watt"}, {"_reqs", "requests"}, {"_gb_s", "gb/s"},
		{"_perc", "percent"}, {"_ms", "milliseconds"}, {"_ns", "nanoseconds"},
	}
}

// tagUnits are the units that a description names in "(in UNIT)".
func tagUnits() map[string]string {
	return map[string]string{
		"MiB": "megabytes", "GiB": "gigabytes", "KiB": "kilobytes", "B": "bytes", "MB": "megabytes", "GB": "gigabytes", "KB": "kilobytes", "TB": "terabytes",
		"C": "celsius", "°C": "celsius", "F": "fahrenheit", "°F": "fahrenheit", "K": "kelvin", "Hz": "hertz", "MHz": "megahertz", "GHz": "gigahertz",
		"W": "watt", "mW": "milliwatt", "J": "joule", "mJ": "millijoule", "MJ": "megajoule", "s": "seconds", "sec": "seconds", "ms": "milliseconds",
		"ns": "nanoseconds", "us": "microseconds", "µs": "microseconds", "GB/s": "gb/s", "MB/s": "mb/s", "%": "percent", "percent": "percent",
	}
}

var (
	ratioRange = regexp.MustCompile(`(?i)\(0(?:\.0)?\s*(?:[-–—]+|to)\s*1(?:\.0)?\)|\b0(?:\.0)?\s*(?:[-–—]+|to)\s*1(?:\.0)?\b|` +
		`(?:\b|\()1(?:\.0)?\s*(?:means|is|equals?|==?)\s*100\s*(?:%|percent)`)
	percentRange = regexp.MustCompile(`(?i)\(0(?:\.0)?\s*(?:[-–—]+|to)\s*100(?:\.0)?\)|\brange\s+0\s*(?:[-–—]+|to)\s*100\b|\b0\s*(?:[-–—]+|to)\s*100\s*%`)
	inTag        = regexp.MustCompile(`\(in\s+([^\s)]+)\)`)
	phrases      = []struct {
		find *regexp.Regexp
		unit string
	}{
		{regexp.MustCompile(`(?i)(?:\bin\s+|\()seconds?(?:\b|\))`), "seconds"},
		{regexp.MustCompile(`(?i)(?:\bin\s+|\()(?:milliseconds?|ms)(?:\b|\))`), "milliseconds"},
		{regexp.MustCompile(`(?i)(?:\bin\s+|\()(?:nanoseconds?|ns)(?:\b|\))`), "nanoseconds"},
		{regexp.MustCompile(`(?i)(?:\bin\s+|\()bytes?(?:\b|\))`), "bytes"},
		{regexp.MustCompile(`(?i)(?:\bin\s+|\()GB/s(?:\b|\))`), "gb/s"},
		{regexp.MustCompile(`(?i)(?:\bin\s+|\()MB/s(?:\b|\))`), "mb/s"},
		{regexp.MustCompile(`(?i)(?:\bin\s+|\()tokens?/s(?:ec(?:ond)?)?(?:\b|\))`), "tokens/s"},
		{regexp.MustCompile(`(?i)(?:\bin\s+|\()requests?/s(?:ec(?:ond)?)?(?:\b|\))`), "requests/s"},
		{regexp.MustCompile(`(?i)\bin\s+tokens?\b`), "tokens"},
	}
)

// unitOf is a metric's unit as aiperf infers it: a range that the description gives, then a unit that it names, then the end of the name; ""
// where none tells.
func unitOf(name, help string) string {
	switch {
	case ratioRange.MatchString(help):
		return "ratio"
	case percentRange.MatchString(help):
		return "percent"
	}
	if m := inTag.FindStringSubmatch(help); m != nil {
		if unit := tagUnits()[m[1]]; unit != "" {
			return unit
		}
	}
	for _, p := range phrases {
		if p.find.MatchString(help) {
			return p.unit
		}
	}
	name = strings.ToLower(name)
	for _, s := range suffixUnits() {
		if strings.HasSuffix(name, s[0]) {
			return s[1]
		}
	}
	if strings.Contains(name, "num_requests_") {
		return "requests"
	}
	return ""
}
