package export

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"prefire/metrics"
)

// ConsoleWidth is the width of profile_export_console.txt and of output that is not a terminal.
const ConsoleWidth = 140

const (
	requestsTag       = "request_count"
	prefillTag        = "prefill_throughput_per_user"
	incompleteAdvice  = "These metrics were computed over a subset of the run and must not be compared against complete runs."
	cacheReportAdvice = "Token usage is reported but no prompt-cache read tokens were seen (usage.prompt_tokens_details.cached_tokens absent). " +
		"If your server uses prefix/KV caching, enable cache reporting so AIPerf can populate the prompt-cache metrics: " +
		"vLLM --enable-prompt-tokens-details, SGLang --enable-cache-report (TRT-LLM reports it by default)."
)

// Screen is what the console shows beyond the results.
type Screen struct {
	Title     string // of the tables; "" = LLM Metrics
	ShowTrace bool   // --show-trace-timing
	// Limits are what the warnings on lengths go by; nil = the defaults.
	Limits *metrics.Limits

	Version string
	Seed    string // the seed and where it came from, as shown
	Counts  metrics.Counts
	Cold    metrics.ColdReport
	Prewarm []string  // what the prewarm did, one line each
	Load    []string  // what became of the load of each phase whose arrivals do not wait for answers
	Server  []string  // what the servers say of themselves, one line each
	Health  string    // the client's own part in the numbers, in one line
	Client  []Verdict // one for each claim
	Notices []string

	Files   []File // for the footer, in order
	LogFile string // "" = none
}

func (s *Screen) limits() metrics.Limits {
	if s.Limits == nil {
		return metrics.DefaultLimits()
	}
	return *s.Limits
}

// Verdict says whether the client was fit for a claim, such as TTFT, ITL or load.
type Verdict struct {
	Claim string
	Good  bool
	Why   string
}

// File is one exported file as the footer lists it: Kind "CSV Export", and an absolute path.
type File struct{ Kind, Path string }

// Console writes the tables that aiperf shows at the end of a run, for a screen of width cells, and prefire's own block beneath. The same
// text at ConsoleWidth is profile_export_console.txt.
func Console(w io.Writer, r *Run, width int) error {
	var b []byte
	if r.Incomplete != "" {
		b = append(b, "\n\nNVIDIA AIPerf | INCOMPLETE RESULTS\n"...)
		b = lines(b, width, r.Incomplete, incompleteAdvice)
	}
	b = maxTokensHint(b, r, width)
	b = errorTable(b, r, width)
	b = allFailed(b, r, width)
	if r.Screen.ShowTrace {
		if t := metricTable("NVIDIA AIPerf | HTTP Trace Timing", r.Results, metrics.TraceTable); t != nil {
			b = cacheHint(t.render(append(b, "\n\n"...), width), r, width)
		}
	}
	title := "NVIDIA AIPerf | " + cmp.Or(r.Screen.Title, "LLM Metrics")
	gap := "\n\n"
	for _, g := range [...]struct {
		title string
		group metrics.Group
	}{{title + ": Effective", metrics.EffectiveTable}, {title + ": Active", metrics.ActiveTable}, {title + ": Usage", metrics.UsageTable},
		{title, metrics.Main}} {
		if t := metricTable(g.title, r.Results, g.group); t != nil {
			b, gap = t.render(append(b, gap...), width), ""
		}
	}
	b = cacheHint(b, r, width)
	if t := metricTable(title+": Spec Decode", r.Results, metrics.SpecTable); t != nil {
		b = draftsLine(t.render(append(b, "\n\n"...), width), r.Drafts, width)
	}
	b = usagePanel(b, r, width)
	b = oslPanel(b, r, width)
	b = own(b, r, width)
	_, err := w.Write(b)
	return err
}

// cacheHint says how a server is made to report its cache, where it did not. aiperf says it under each set of tables.
func cacheHint(b []byte, r *Run, width int) []byte {
	if value(r, "total_usage_prompt_tokens") == nil || value(r, "total_usage_prompt_cache_read_tokens") != nil {
		return b
	}
	return lines(append(b, '\n'), width, cacheReportAdvice)
}

// draftsShown is how many numbers of accepted drafts the line below has on their own; the others are one.
const draftsShown = 8

// draftsLine says which share of the steps of speculative decoding took how many draft tokens.
func draftsLine(b []byte, drafts []int64, width int) []byte {
	var all, more int64
	last := 0
	for j, n := range drafts {
		if all += n; n > 0 {
			last = j
		}
		if j >= draftsShown {
			more += n
		}
	}
	if all == 0 {
		return b
	}
	share := func(n int64) string { return fmt.Sprintf("%.0f%%", 100*float64(n)/float64(all)) }
	var parts []string
	for j := range min(last+1, draftsShown) {
		parts = append(parts, fmt.Sprintf("%d: %s", j, share(drafts[j])))
	}
	if more > 0 {
		parts = append(parts, fmt.Sprintf(">=%d: %s", draftsShown, share(more)))
	}
	return lines(b, width, "  Accepted drafts per step (% of steps):  "+strings.Join(parts, "   "))
}

// lines appends running text, wrapped.
func lines(b []byte, width int, text ...string) []byte {
	for _, s := range text {
		for _, line := range wrap(s, width) {
			b = append(append(b, line...), '\n')
		}
	}
	return b
}

// value is a single value of the run; nil where there is none.
func value(r *Run, tag string) *float64 {
	if m := result(r.Results, tag); m != nil {
		return &m.Avg
	}
	return nil
}

// metricTable is the table of one group; nil where it would be empty.
func metricTable(title string, rs []metrics.Result, g metrics.Group) *table {
	var shown []*metrics.Result
	for i := range rs {
		if m := &rs[i]; m.Def.Group == g && !hidden(m) && m.Def.Flags&metrics.ErrorOnly == 0 {
			shown = append(shown, m)
		}
	}
	if len(shown) == 0 {
		return nil
	}
	// Rows without an order come last.
	slices.SortStableFunc(shown, func(a, b *metrics.Result) int { return cmp.Compare(uint(a.Def.Order)-1, uint(b.Def.Order)-1) })
	t := &table{title: title, columns: []column{{header: "Metric"}, {header: "avg"}, {header: "min"}, {header: "max"}, {header: "p99"},
		{header: "p90"}, {header: "p50"}, {header: "std"}}}
	for _, m := range shown {
		sep := " "
		if len(m.Def.Header) > 30 {
			sep = "\n"
		}
		row := []string{m.Def.Header + sep + "(" + string(m.Def.Display) + ")"}
		for _, c := range t.columns[1:] {
			if v, ok := m.Stat(c.header); ok && finite(v) {
				row = append(row, grouped(v))
			} else {
				row = append(row, "N/A")
			}
		}
		t.rows = append(t.rows, row)
	}
	return t
}

func percentile(m *metrics.Result, p float64) float64 {
	return m.P[slices.Index(metrics.Percentiles[:], p)]
}

func errorTable(b []byte, r *Run, width int) []byte {
	if len(r.Errors) == 0 {
		return b
	}
	t := table{title: "NVIDIA AIPerf | Error Summary",
		columns: []column{{header: "Code"}, {header: "Type"}, {header: "Message", left: true}, {header: "Count"}}}
	for _, e := range r.Errors {
		code := "N/A"
		if e.Error.Code != 0 {
			code = fmt.Sprint(e.Error.Code)
		}
		t.rows = append(t.rows, []string{code, cmp.Or(printable(e.Error.Type), "N/A"), printable(r.Secrets.String(e.Error.Message)),
			groupedInt(e.Count)})
	}
	return t.render(append(b, "\n\n"...), width)
}

// printable takes control characters out of a server's text: a terminal would obey them. Tabs become spaces.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && unicode.IsControl(r) {
			return -1
		}
		return r
	}, strings.ReplaceAll(s, "\t", "    "))
}

// maxTokensHint explains the one refusal that aiperf explains: a server that knows max_tokens only.
func maxTokensHint(b []byte, r *Run, width int) []byte {
	for _, e := range r.Errors {
		text := e.Error.Message
		var body struct{ Message string }
		if json.Unmarshal([]byte(text), &body) == nil && body.Message != "" {
			text = body.Message
		}
		if strings.Contains(text, "extra_forbidden") && strings.Contains(text, "max_completion_tokens") &&
			strings.Contains(text, "Extra inputs are not permitted") {
			return panel(append(b, '\n'), "Unsupported Parameter: max_completion_tokens", []string{
				"The backend rejected 'max_completion_tokens'. This backend only supports 'max_tokens'.", "",
				"Suggested Fixes:",
				"  • Run with --use-legacy-max-tokens, which sends 'max_tokens' instead.",
				"  • Or leave --osl out and use --extra-inputs \"max_tokens:<value>\".",
			}, width)
		}
	}
	return b
}

// allFailed is the panel of a run without one valid answer, in place of an empty table.
func allFailed(b []byte, r *Run, width int) []byte {
	var n int64
	for _, e := range r.Errors {
		n += e.Count
	}
	if n == 0 || value(r, requestsTag) != nil {
		return b
	}
	most := slices.MaxFunc(r.Errors, func(a, b metrics.ErrorCount) int { return cmp.Compare(a.Count, b.Count) }).Error
	text := []string{
		fmt.Sprintf("All %s inference request(s) failed. No successful responses were collected — check the server URL, endpoint path, and "+
			"response format.", groupedInt(n)), "",
		"Most frequent: " + strings.TrimSpace(fmt.Sprintf("%s %s", codeText(most.Code), printable(most.Type))) + ": " +
			printable(r.Secrets.String(most.Message)), "",
		"What to do: " + advice(&most),
	}
	if r.Screen.LogFile != "" {
		text = append(text, "Log: "+r.Screen.LogFile)
	}
	return panel(append(b, '\n'), "AIPerf System Exit Errors", text, width)
}

func codeText(code int) string {
	if code == 0 {
		return ""
	}
	return fmt.Sprint(code)
}

func advice(e *metrics.Error) string {
	switch c := e.Code; {
	case c == 401 || c == 403:
		return "give the server's key with --api-key, or a header with --header."
	case c == 404:
		return "compare --model with the names at the server's /v1/models, and --url and --custom-endpoint with its path."
	case c == 400 || c == 413 || c == 422:
		return "the server refused the request itself: shorten --isl or --osl if it names its context length, else look at the fields of inputs.json."
	case c == 429 || c == 503:
		return "the server is overloaded or limits the rate: lower --concurrency, or raise its limits."
	case c == 499:
		return "every request was cancelled: raise the cancellation delay or the duration."
	case c >= 500:
		return "the server failed: read its own log."
	case strings.Contains(e.Type, "Timeout"):
		return "no answer came in time: raise --request-timeout-seconds, or lower --concurrency."
	}
	return "see that the server is up and that --url names its host and port."
}

func usagePanel(b []byte, r *Run, width int) []byte {
	n, of := value(r, "usage_discrepancy_count"), value(r, requestsTag)
	if n == nil || of == nil || *n < 1 || *of < 1 {
		return b
	}
	return panel(append(b, '\n'), "Token Count Discrepancy Warning", []string{
		fmt.Sprintf("%s of %s requests (%.1f%%) show a difference exceeding %g%% between:", groupedInt(int64(*n)), groupedInt(int64(*of)),
			100**n / *of, r.Screen.limits().UsagePercent),
		"  - API-reported usage tokens (from 'usage' field)",
		"  - Client-computed token counts (from tokenization)",
		"",
		"Possible Causes:",
		"  - Different tokenization methods (API vs client)",
		"  - API special tokens or preprocessing",
		"",
		"Investigation Steps:",
		"  1. Review profile_export.jsonl for per-request usage_*_diff_pct values",
		"  2. Verify client tokenizer matches the model's tokenizer",
		"  3. Use server token counts: --use-server-token-count (disables client tokenization and diff metrics)",
		fmt.Sprintf("  4. Adjust threshold: AIPERF_METRICS_USAGE_PCT_DIFF_THRESHOLD=%g", r.Screen.limits().UsagePercent),
	}, width)
}

func oslPanel(b []byte, r *Run, width int) []byte {
	n, of, diff := value(r, "osl_mismatch_count"), value(r, requestsTag), value(r, "osl_mismatch_diff_pct")
	if n == nil || of == nil || *n < 1 || *of < 1 {
		return b
	}
	average, why := "N/A", "Server hit EOS token before reaching requested output length."
	if diff != nil {
		average = fmt.Sprintf("%.1f%%", *diff)
		if *diff > 0 {
			why = "On average the output is longer than requested: the client's tokenizer splits it into more tokens than the model's does, " +
				"or the server does not keep to the limit."
		}
	}
	return panel(append(b, '\n'), "Output Sequence Length Mismatch Warning", []string{
		fmt.Sprintf("%s of %s requests (%.1f%%) have output length differing from requested by more than the threshold.",
			groupedInt(int64(*n)), groupedInt(int64(*of)), 100**n / *of),
		fmt.Sprintf("Threshold (tokens): min(requested x %g%%, %d)", r.Screen.limits().OSLPercent, r.Screen.limits().OSLTokens),
		"Average mismatch: " + average,
		"",
		"Why: " + why,
		"",
		"Fix Options:",
		"  - --extra-inputs ignore_eos:true - Generate until max_tokens (vLLM, TensorRT-LLM)",
		"  - --extra-inputs min_tokens:<N> - Set minimum output length (vLLM, TensorRT-LLM, SGLang)",
		"  - --use-server-token-count - Use server-reported token counts if tokenizer mismatch suspected",
		"",
		"Diagnostics:",
		"  - Review profile_export.jsonl -> osl_mismatch_diff_pct for per-request values",
		fmt.Sprintf("  - Adjust: AIPERF_METRICS_OSL_MISMATCH_PCT_THRESHOLD=%g", r.Screen.limits().OSLPercent),
		fmt.Sprintf("  - Adjust: AIPERF_METRICS_OSL_MISMATCH_MAX_TOKEN_THRESHOLD=%d", r.Screen.limits().OSLTokens),
	}, width)
}

// prefillTime is the time per 1,000 prompt tokens by the average rate and by the average times: where TTFT varies, the average of rates is
// more than the rate of the averages.
func prefillTime(r *Run, rate float64) string {
	s := fmt.Sprintf("%.3f by the average throughput", 1000/rate)
	ttft, isl := result(r.Results, "time_to_first_token"), result(r.Results, "input_sequence_length")
	if ttft != nil && isl != nil && isl.Avg > 0 {
		s += fmt.Sprintf(", %.3f by the averages of TTFT and input length", ttft.Avg/isl.Avg)
	}
	return s
}

// own is prefire's block.
func own(b []byte, r *Run, width int) []byte {
	s := &r.Screen
	t := table{title: strings.TrimSpace("prefire " + s.Version), columns: []column{{header: "Fact"}, {header: "Value", left: true}}}
	add := func(fact, value string) { t.rows = append(t.rows, []string{fact, value}) }
	if m := result(r.Results, prefillTag); m != nil && m.Avg > 0 {
		add("Prefill Throughput Per User (tokens/sec/user)", fmt.Sprintf("avg %s, p50 %s, min %s, max %s", grouped(m.Avg),
			grouped(percentile(m, 50)), grouped(m.Min), grouped(m.Max)))
		add("Prefill Time per 1,000 Prompt Tokens (sec)", prefillTime(r, m.Avg))
	}
	if c := s.Counts; c.Sent > 0 {
		add("Requests", fmt.Sprintf("%s sent = %s ok + %s failed + %s cancelled + %s censored", groupedInt(c.Sent), groupedInt(c.OK),
			groupedInt(c.Failed), groupedInt(c.Cancelled), groupedInt(c.Censored)))
	}
	if c := s.Cold; c.Of > 0 {
		add("Measured (latency and per-user rates)", coldLine(&c))
	}
	for i, line := range s.Prewarm {
		add(once(i, "Prewarm"), line)
	}
	for i, line := range s.Load {
		add(once(i, "Load"), line)
	}
	for i, line := range s.Server {
		add(once(i, "Server"), line)
	}
	if s.Health != "" {
		add("Client", s.Health)
	}
	for _, v := range s.Client {
		word := "fit"
		if !v.Good {
			word = "NOT FIT"
		}
		add("Client, for "+v.Claim, word+": "+v.Why)
	}
	if s.Seed != "" {
		add("Seed", s.Seed)
	}
	for i, line := range append(fewValues(r), s.Notices...) {
		add(once(i, "Notice"), line)
	}
	if len(t.rows) == 0 {
		return b
	}
	return t.render(append(b, "\n\n"...), width)
}

// once names the first of several lines of one kind.
func once(i int, name string) string {
	if i > 0 {
		return ""
	}
	return name
}

func coldLine(c *metrics.ColdReport) string {
	if c.Count == 0 {
		return fmt.Sprintf("%s of %s requests; none was cold", groupedInt(c.Of), groupedInt(c.Of))
	}
	reasons := make([]string, len(c.Reasons))
	for i, r := range c.Reasons {
		reasons[i] = fmt.Sprintf("%s %s", r.Reason, groupedInt(r.Count))
	}
	if c.Included {
		return fmt.Sprintf("%s of %s requests, %s cold among them (%s): severity %s", groupedInt(c.Of), groupedInt(c.Of),
			groupedInt(c.Count), strings.Join(reasons, ", "), c.Severity)
	}
	line := fmt.Sprintf("%s of %s requests; %s cold kept out (%s): severity %s", groupedInt(c.Of-c.Count), groupedInt(c.Of),
		groupedInt(c.Count), strings.Join(reasons, ", "), c.Severity)
	if c.Change != nil {
		line += fmt.Sprintf(", with them TTFT or prefill would be %.1f %% off", *c.Change)
	}
	return line
}

// fewValues warns of a 99th percentile that rests on under 100 values. The metrics of latency have the same count, but for those that not
// every answer has, so one line on the first is enough.
func fewValues(r *Run) []string {
	for _, tag := range [...]string{"time_to_first_token", "request_latency"} {
		if m := result(r.Results, tag); m != nil {
			switch {
			case m.Count >= 100:
				return nil
			case m.Count == 1:
				return []string{"p99 of " + m.Def.Header + " comes from one value: it is that value"}
			}
			return []string{fmt.Sprintf("p99 of %s comes from %d values: it lies between the two largest ones", m.Def.Header, m.Count)}
		}
	}
	return nil
}

// Footer writes the lines under the tables: the command, the duration, the exported files, the log. They are not wrapped, so that they can
// be copied.
func Footer(w io.Writer, r *Run) error {
	var b []byte
	b = append(b, '\n')
	if r.Info.Command != "" {
		b = fmt.Appendf(b, "CLI Command: %s\n", r.Info.Command)
	}
	if m := result(r.Results, "benchmark_duration"); m != nil {
		b = fmt.Appendf(b, "%s: %.2f %s", m.Def.Header, m.Avg, m.Def.Display)
		if r.WasCancelled {
			b = append(b, " (cancelled early)"...)
		}
		b = append(b, '\n')
	}
	for _, f := range r.Screen.Files {
		b = fmt.Appendf(b, "%s: %s\n", f.Kind, f.Path)
	}
	if r.Screen.LogFile != "" {
		b = fmt.Appendf(b, "Log File: %s\n", r.Screen.LogFile)
	}
	if r.WasCancelled {
		b = append(b, "The profile run was cancelled early. Results shown may be incomplete or inaccurate.\n"...)
	}
	_, err := w.Write(append(b, '\n'))
	return err
}
