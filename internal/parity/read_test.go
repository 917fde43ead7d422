package parity

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// outcome is one program's finished run.
type outcome struct {
	dir    string // where it ran; its artifacts are in out/
	code   int
	stdout string
	sent   []request
}

// stable are the metrics whose every statistic follows from what was sent and answered, not from timing.
var stable = regexp.MustCompile(`^(request_count|error_request_count|completed_request_count|request_error_rate|context_overflow_count|` +
	`input_sequence_length|output_sequence_length|output_token_count|total_isl|total_osl|total_output_tokens|error_isl|total_error_isl|` +
	`osl_mismatch_.*|usage_.*|total_usage_.*|http_req_chunks_sent|http_req_dns_lookup|http_req_blocked)$`)

// uncounted are the metrics whose number of values depends on how chunks fell into reads.
var uncounted = []string{"inter_chunk_latency", "time_to_second_token", "inter_token_latency", "output_token_throughput_per_user"}

// read turns a run into facts. shape leaves out all values that a mean or a clock decides; verbatim takes the prompts of the bodies as they are.
func read(o outcome, shape, verbatim bool) (*facts, error) {
	f := newFacts()
	f.set("exit", fmt.Sprint(o.code))
	out := filepath.Join(o.dir, "out")
	err := filepath.WalkDir(out, func(at string, d fs.DirEntry, err error) error {
		switch {
		case at == out && errors.Is(err, fs.ErrNotExist): // a run that was refused has no folder
			return nil
		case err != nil || d.IsDir():
			return err
		}
		name, err := filepath.Rel(out, at)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		f.set("file/"+name, "there")
		b, err := os.ReadFile(at)
		if err != nil {
			return err
		}
		b = bytes.ReplaceAll(b, []byte(o.dir), []byte("<folder>"))
		if err := readFile(f, name, b, shape); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if !isSeries(out) { // one footer follows the other there, among lines of the log
		readFooter(f, o.stdout)
	}
	readWire(f, o, shape, verbatim)
	return f, nil
}

func readFile(f *facts, name string, b []byte, shape bool) error {
	switch base := filepath.Base(name); {
	case base == "inputs.json":
		return readInputs(f, b, shape)
	case base == "run_config.json": // aiperf's own, between its processes
	case strings.Contains(base, "_aggregate."), strings.Contains(base, "_sweep."):
		return readSeries(f, name, b)
	case base == "phase_manifest.json", base == ".aiperf_results_ready.json":
		n, err := parseTree(b)
		if err != nil {
			return err
		}
		if !shape {
			n.flatten(f, name)
		}
		f.set(name+"/ends with a newline", fmt.Sprint(bytes.HasSuffix(b, []byte("\n"))))
		f.set(name+"/lines", fmt.Sprint(bytes.Count(b, []byte("\n")) > 1))
	case strings.HasPrefix(base, "server_metrics"), strings.HasPrefix(base, "gpu_telemetry"), strings.HasSuffix(base, ".hlog"):
	case strings.HasSuffix(base, "_censored.jsonl"):
	case base == "outputs.json", strings.HasSuffix(base, "_timeslices.json"), strings.HasSuffix(base, "_raw.jsonl"), strings.HasSuffix(base, "_network_latency.jsonl"):
		return readTrees(f, "shape:"+name, b)
	case strings.HasSuffix(base, "_timeslices.csv"):
		readSlicesCSV(f, "csv:"+name, string(b))
	case strings.HasSuffix(base, ".jsonl"):
		return readRecords(f, b, shape)
	case strings.HasSuffix(base, ".json"):
		return readSummary(f, "json:"+name, b, shape)
	case strings.HasSuffix(base, ".csv"):
		readCSV(f, "csv:"+name, string(b), shape)
	case strings.HasSuffix(base, "console.txt"):
		readConsole(f, string(b))
	}
	return nil
}

// readTrees takes the keys and kinds of a file, one JSON value or one a line: what of them follows from timing is nobody's to compare.
func readTrees(f *facts, at string, b []byte) error {
	f.set(at+"/ends with a newline", fmt.Sprint(bytes.HasSuffix(b, []byte("\n"))))
	values := [][]byte{b}
	if strings.HasSuffix(at, "l") {
		values = bytes.Split(bytes.TrimSpace(b), []byte("\n"))
	} else {
		f.set(at+"/indent", string(b[:min(5, len(b))]))
	}
	for _, v := range values {
		n, err := parseTree(v)
		if err != nil {
			return err
		}
		readShape(f, at, n)
	}
	return nil
}

func readShape(f *facts, at string, n node) {
	switch n.kind {
	case '{':
		f.add(at, "object")
		for i, k := range n.keys {
			readShape(f, at+"/"+k, n.vals[i])
		}
	case '[':
		f.add(at, "list")
		for _, v := range n.vals {
			readShape(f, at+"/*", v)
		}
	default:
		switch c := n.raw[0]; {
		case c == '"':
			f.add(at, "text")
		case c == '-' || c >= '0' && c <= '9':
			f.add(at, numberKind(n.raw))
		default:
			f.add(at, n.raw)
		}
	}
}

// readSlicesCSV takes the header and which figures each metric has.
func readSlicesCSV(f *facts, at, text string) {
	lines := strings.Split(strings.TrimSuffix(text, "\r\n"), "\r\n")
	f.set(at+"/header", lines[0])
	for _, line := range lines[1:] {
		cells := strings.Split(line, ",")
		f.add(at+"/"+cells[3]+" "+cells[4], cells[5])
	}
}

func readSummary(f *facts, at string, b []byte, shape bool) error {
	n, err := parseTree(b)
	if err != nil {
		return err
	}
	f.set(at+"/ends with a newline", fmt.Sprint(bytes.HasSuffix(b, []byte("\n"))))
	f.set(at+"/indent", string(b[:min(5, len(b))]))
	// Behind the last declared key aiperf's order is that of a Python set, which changes from run to run.
	last := max(slices.Index(n.keys, "end_time"), slices.Index(n.keys, "warmup_metrics"))
	f.order(at, n.keys[:last+1])
	for i, k := range n.keys {
		switch v := n.vals[i]; {
		case v.get("unit").raw != "":
			readMetric(f, at+"/metric", k, v, shape)
		case k == "warmup_metrics":
			for j, tag := range v.keys {
				readMetric(f, at+"/warmup", tag, v.vals[j], shape)
			}
		case k == "prefire":
			f.set(at+"/prefire", "there")
		case k == "telemetry_data":
			f.set(at+"/telemetry_data", "there")
		case k == "error_summary" && shape:
			f.set(at+"/error_summary", "there")
		default:
			v.flatten(f, at+"/"+k)
		}
	}
	return nil
}

func readMetric(f *facts, at, tag string, m node, shape bool) {
	f.set(at+"/"+tag, m.get("unit").raw+" "+strings.Join(m.keys, ","))
	for i, stat := range m.keys {
		whole, v := stable.MatchString(tag), m.vals[i].raw
		switch {
		case stat == "unit":
		case !shape && (whole || stat == "count" && !slices.Contains(uncounted, tag)):
			f.set(at+"/"+tag+"/"+stat, v)
		default:
			f.set(at+"/"+tag+"/"+stat, numberKind(v))
		}
	}
}

func numberKind(raw string) string {
	if strings.ContainsAny(raw, ".eE") {
		return "float"
	}
	return "int"
}

// readRecords takes profile_export.jsonl. Facts are sets over all records of a phase that ended alike.
func readRecords(f *facts, b []byte, shape bool) error {
	counts := map[string]int{}
	for line := range bytes.Lines(b) {
		n, err := parseTree(line)
		if err != nil {
			return err
		}
		meta, end := n.get("metadata"), "ok"
		if n.get("error").kind != 0 {
			end = "error"
		}
		at := "records/" + meta.get("benchmark_phase").text() + "/" + end
		counts[at]++
		f.order(at, n.keys)
		f.order(at+"/metadata", meta.keys)
		f.order(at+"/error", n.get("error").keys)
		for _, k := range n.keys {
			f.set(at+"/key/"+k, "there")
		}
		for i, k := range meta.keys {
			v := meta.vals[i].raw
			if shape && (k == "session_num" || k == "conversation_id") {
				v = ""
			}
			place := at
			if k == "session_num" || k == "conversation_id" {
				place = path.Dir(at) // which of two sessions fails may be chance
			}
			f.add(place+"/metadata/"+k, mask(v))
		}
		metrics := n.get("metrics")
		for i, tag := range metrics.keys {
			v := metrics.vals[i].get("value")
			what := "list"
			switch {
			case v.kind == '[':
			case stable.MatchString(tag) && !shape:
				what = v.raw
			default:
				what = numberKind(v.raw)
			}
			f.add(at+"/metric/"+tag, strings.Join(metrics.vals[i].keys, ",")+" "+metrics.vals[i].get("unit").raw+" "+what)
		}
		if trace := n.get("trace_data"); trace.kind != 0 {
			readShape(f, at+"/trace_data", trace)
		}
		if e := n.get("error"); e.kind != 0 {
			for i, k := range e.keys {
				f.add(at+"/error/"+k, flat(e.vals[i]))
			}
		}
	}
	for at, n := range counts {
		if !shape {
			f.set(at+"/count", fmt.Sprint(n))
		}
	}
	return nil
}

// flat is a value in one line.
func flat(n node) string {
	if n.kind == 0 {
		return mask(n.raw)
	}
	var parts []string
	for i, v := range n.vals {
		s := flat(v)
		if n.kind == '{' {
			s = n.keys[i] + ":" + s
		}
		parts = append(parts, s)
	}
	return string(n.kind) + strings.Join(parts, ", ")
}

func readInputs(f *facts, b []byte, shape bool) error {
	n, err := parseTree(b)
	if err != nil {
		return err
	}
	f.order("inputs", n.keys)
	data := n.get("data")
	if !shape {
		f.set("inputs/sessions", fmt.Sprint(len(data.vals)))
	}
	for _, s := range data.vals {
		f.add("inputs/session keys", strings.Join(s.keys, ","))
		f.add("inputs/session_id", regexp.MustCompile(`\d`).ReplaceAllString(mask(s.get("session_id").text()), "9"))
		f.add("inputs/payloads of a session", fmt.Sprint(len(s.get("payloads").vals)))
	}
	if shape {
		return nil
	}
	// The layout of the first session, byte for byte.
	text := maskPrompts(b)
	if _, after, ok := strings.Cut(text, `"payloads"`); ok {
		first, _, _ := strings.Cut(after, `"session_id"`)
		first, _, _ = strings.Cut(first, "\n    }")
		f.set("inputs/first payload", first)
	}
	f.set("inputs/head", text[:min(len(text), 30)])
	f.set("inputs/end", text[max(0, len(text)-16):])
	return nil
}

func readCSV(f *facts, at, text string, shape bool) {
	f.set(at+"/every line ends with CRLF", fmt.Sprint(strings.Count(text, "\n") == strings.Count(text, "\r\n") && strings.HasSuffix(text, "\n")))
	text = strings.ReplaceAll(text, "\r\n", "\n")
	var section string
	var rows []string
	blank := 0
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		if line == "" {
			blank++
			continue
		}
		// A name may hold a comma only within quotes; none does.
		name, cells, _ := strings.Cut(line, ",")
		if section == "" || blank > 0 {
			section = name + " " + cells
			f.set(at+"/section/"+section, fmt.Sprintf("after %d empty lines", blank))
			blank = 0
			rows = append(rows, section)
			continue
		}
		rows = append(rows, name)
		whole := strings.HasPrefix(name, "Input Sequence") || strings.HasPrefix(name, "Output Sequence") || strings.HasPrefix(name, "Request Count") ||
			strings.HasPrefix(name, "Usage ") || strings.HasPrefix(name, "Completed")
		if shape || !whole {
			cells = regexp.MustCompile(`\d+`).ReplaceAllString(cells, "9")
			cells = strings.ReplaceAll(cells, "-9", "9")
		}
		f.set(at+"/row/"+name, cells)
	}
	f.order(at+"/rows", rows)
}

var digits = regexp.MustCompile(`-?[\d,]+\.\d\d`)

// readConsole takes the tables: their titles, columns, rows in order, and which cells hold a number.
func readConsole(f *facts, text string) {
	var titles, labels []string
	title, table, previous, panel, inside := "", "", "", "", ""
	flush := func() {
		if table != "" {
			f.order("console/"+table, labels)
		}
		labels = nil
	}
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "┏"):
			flush()
			table = title
			titles = append(titles, table)
		case strings.HasPrefix(line, "┃"):
			f.set("console/"+table+"/columns", strings.Join(strings.Fields(strings.ReplaceAll(line, "┃", " ")), " "))
		case strings.HasPrefix(line, "│") && panel != "":
			inside += " " + strings.TrimSpace(strings.Trim(line, "│"))
		case strings.HasPrefix(line, "│"):
			cells := strings.Split(strings.Trim(line, "│"), "│")
			label := strings.TrimSpace(cells[0])
			rest := digits.ReplaceAllString(strings.Join(strings.Fields(strings.Join(cells[1:], " ")), " "), "9.99")
			if table == "" {
				continue
			}
			if at := "console/" + table + "/row/" + previous; rest == "" && previous != "" {
				label = previous + " " + label // a label that went on
				rest = f.values[at]            // its cells were beside its first line
				delete(f.values, at)
				labels = labels[:len(labels)-1]
			}
			f.set("console/"+table+"/row/"+label, rest)
			labels, previous = append(labels, label), label
		case strings.HasPrefix(line, "╭"):
			title = strings.TrimSpace(strings.Trim(line, "╭─╮"))
			panel, inside = title, ""
		case strings.HasPrefix(line, "╰"):
			f.set("console/panel/"+panel, inside)
			panel = ""
		case strings.HasPrefix(line, "└"):
			flush()
			table, previous = "", ""
		default:
			title = line
		}
	}
	f.order("console", titles)
	for _, t := range titles {
		f.set("console/"+t, "there")
	}
}

// readFooter takes the labels of the lines behind the tables.
func readFooter(f *facts, stdout string) {
	_, footer, ok := strings.Cut(stdout, "\nCLI Command:")
	if !ok {
		return
	}
	var labels []string
	for line := range strings.SplitSeq(footer, "\n") {
		if label, _, ok := strings.Cut(line, ": "); ok && len(label) < 40 && !strings.HasPrefix(line, "-") {
			f.set("footer/"+strings.TrimSpace(label), "there")
			labels = append(labels, strings.TrimSpace(label))
		}
	}
	f.order("footer", labels)
}

var content = regexp.MustCompile(`"x_request_id": ?"([^"]+)"`)

// readWire takes what the server was sent. The run's own requests are those that have a record; the rest is named apart.
func readWire(f *facts, o outcome, shape, verbatim bool) {
	own := map[string]bool{}
	_ = filepath.WalkDir(filepath.Join(o.dir, "out"), func(at string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(at) != ".jsonl" {
			return nil
		}
		b, err := os.ReadFile(at)
		for _, m := range content.FindAllSubmatch(b, -1) {
			own[string(m[1])] = true
		}
		return err
	})
	n := 0
	for i := range o.sent {
		q := &o.sent[i]
		if !own[q.id()] {
			f.set("wire/beside the load/"+q.line, "there")
			continue
		}
		n++
		f.add("wire/request line", q.line)
		f.order("wire/header", q.names)
		for name, v := range q.header {
			if name == "Content-Length" {
				v = fmt.Sprint(v == fmt.Sprint(len(q.body)))
			}
			f.add("wire/header/"+name, mask(v))
		}
		body := string(q.body)
		if !verbatim {
			body = maskPrompts(q.body)
		}
		if shape {
			body = regexp.MustCompile(`("max_[a-z_]*tokens":)\d+`).ReplaceAllString(body, "${1}9")
		}
		f.add("wire/body", body)
	}
	if !shape {
		f.set("wire/requests with a record", fmt.Sprint(n))
	}
}
