package config

import (
	"fmt"
	"slices"
	"strings"
)

// ServerMetrics says what is read of the servers' own metrics.
type ServerMetrics struct {
	URLs      []string // beside the endpoint's own servers; each ends in /metrics
	JSON, CSV bool     // the files that are written
}

type serverDraft struct {
	off     opt[bool] // enabled: false, or --no-server-metrics
	written bool      // there is a section in the file, or a flag
	urls    opt[[]string]
	formats opt[[]string]
}

func serverFormats() []string { return []string{"json", "csv", "jsonl", "parquet"} }

// serverMetrics reads the section: a mapping, or an address alone.
func (d *decoder) serverMetrics(s *section, out *serverDraft) {
	v, where, ok := s.value("server_metrics")
	if !ok {
		return
	}
	out.written = true
	if v.shape == isString {
		out.urls = s.texts("server_metrics")
		return
	}
	m := d.section(v, where, keys{known: []string{"enabled", "urls", "url", "formats"}, later: map[string][]string{"discovery": {"disabled"}}})
	if d.exclusive(m, "url", "urls", "Use one of them.") {
		return
	}
	if on := m.truth("enabled"); on.ok && !on.v {
		out.off = given(true, on.from)
	}
	if out.urls = m.texts("urls"); !out.urls.ok {
		out.urls = m.texts("url")
	}
	out.formats = m.texts("formats")
}

// serverMetrics puts the flags over what the file says.
func (all *flags) serverMetrics(out *serverDraft) error {
	no, urls, formats := all.byField["no_server_metrics"], all.byField["server_metrics"], all.byField["server_metrics_formats"]
	if no.given != "" && urls.given != "" {
		return &Error{Title: titleConfig, Msg: "Cannot use both --no-server-metrics and --server-metrics together. Use only one or the other."}
	}
	words := func(values []string) (list []string) {
		for _, v := range values {
			list = append(list, listItems(v)...)
		}
		return list
	}
	if no.given != "" {
		out.written, out.off = true, opt[bool]{}
		if all.truth("no_server_metrics").v {
			out.off = given(true, no.given)
		}
	}
	if urls.given != "" {
		var list []string
		for _, u := range words(urls.values) {
			if strings.HasPrefix(u, "http") || strings.Contains(u, ":") { // as aiperf: another word is none
				list = append(list, u)
			}
		}
		out.urls, out.written, out.off = given(list, urls.given), true, opt[bool]{}
	}
	if formats.given != "" {
		out.formats, out.written = given(words(formats.values), formats.given), true
		if no.given == "" {
			out.off = opt[bool]{}
		}
	}
	return nil
}

func (r *decoder) resolveServerMetrics(d *serverDraft) *ServerMetrics {
	for i, u := range d.urls.v {
		u = withScheme(u)
		if what := urlFault(u); what != "" {
			r.problem(d.urls.from, "%s", what)
		}
		if u = strings.TrimRight(u, "/"); !strings.HasSuffix(u, "/metrics") {
			u += "/metrics"
		}
		d.urls.v[i] = u
	}
	m := &ServerMetrics{URLs: d.urls.v}
	formats := d.formats.v
	if !d.formats.ok {
		formats = []string{"json", "csv"}
	}
	for _, f := range formats {
		picked, ok := choose(f, serverFormats())
		switch {
		case !ok:
			r.problem(d.formats.from, "Input should be %s, got %s.", oneOf(serverFormats()), pyString(f))
		case picked == "jsonl" || picked == "parquet":
			r.problem(d.formats.from, "%s: the server's metrics as %s are not supported yet by this version of prefire, which writes 'json' and 'csv'.", f, picked)
		}
		m.JSON, m.CSV = m.JSON || picked == "json", m.CSV || picked == "csv"
	}
	if d.off.v {
		return nil
	}
	return m
}

// echo is the section of input_config, nil where there is none.
func (d *serverDraft) echo(flagsOnly bool) Map {
	switch {
	case !flagsOnly && !d.written:
		return nil
	case d.off.v:
		return Map{{"enabled", false}}
	}
	var m Map
	if flagsOnly || d.urls.ok {
		urls := make([]any, len(d.urls.v))
		for i, u := range d.urls.v {
			urls[i] = redactURL(u)
		}
		m = Map{{"enabled", true}, {"urls", urls}}
	}
	if flagsOnly || d.formats.ok {
		formats := d.formats.v
		if !d.formats.ok {
			formats = []string{"json", "csv"}
		}
		list := make([]any, len(formats))
		for i, f := range formats {
			list[i] = fold(f)
		}
		m = append(m, KeyValue{"formats", list})
	}
	return slices.Clip(m)
}

// serverFlags are the flags of the servers' own metrics.
func serverFlags() []Flag {
	return []Flag{
		{Field: "no_server_metrics", Names: []string{"--no-server-metrics"}, Group: gServerMetrics, Kind: Bool, Default: "false",
			Help: "Do not read the servers' own metrics. Without it /metrics of each server is read three times a second, on a connection of its own, and what " +
				"counters, gauges and histograms did in each phase is written to server_metrics_export.json and .csv."},
		{Field: "server_metrics", Names: []string{"--server-metrics"}, Group: gServerMetrics, Kind: Text, Several: true, Repeat: true,
			Help: "Further addresses to read metrics from (Prometheus text), beside those of --url; /metrics is added where it is missing."},
		{Field: "server_metrics_formats", Names: []string{"--server-metrics-formats"}, Group: gServerMetrics, Kind: Text, Several: true, Repeat: true,
			Default: "json,csv", Help: fmt.Sprintf("Files of the servers' metrics: json, csv. aiperf's %s are refused.", "jsonl and parquet")},
	}
}
