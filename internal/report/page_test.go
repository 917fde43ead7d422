package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/net/html"

	"prefire/internal/procedure"
)

// made reads a folder and makes its page.
func made(t *testing.T, dir fs.FS, o Options) string {
	t.Helper()
	r, err := Read(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := r.HTML(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// tags are the start and end tags of a text, in order, void elements once.
func tags(t *testing.T, page string) []string {
	t.Helper()
	var out []string
	z := html.NewTokenizer(strings.NewReader(page))
	for {
		switch z.Next() {
		case html.ErrorToken:
			return out
		case html.StartTagToken:
			name, _ := z.TagName()
			out = append(out, string(name))
		case html.SelfClosingTagToken:
			name, _ := z.TagName()
			if out = append(out, string(name)); string(name) != "meta" { // which has no end tag
				out = append(out, "/"+string(name))
			}
		case html.EndTagToken:
			name, _ := z.TagName()
			out = append(out, "/"+string(name))
		}
	}
}

// validate holds a page against HTML: a browser's parser takes it as it is written, without an element more or less; every id is there once
// and every reference has one; lists and tables are made of what they may hold, all rows of a table equally long; no heading leaves a level out;
// every plot has a title and a description; and nothing is loaded from anywhere.
func validate(t *testing.T, page string) *html.Node {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	var again bytes.Buffer
	if err := html.Render(&again, doc); err != nil {
		t.Fatal(err)
	}
	if was, is := tags(t, page), tags(t, again.String()); !slices.Equal(was, is) {
		at := 0
		for at < min(len(was), len(is)) && was[at] == is[at] {
			at++
		}
		t.Errorf("a browser makes another page of it: from tag %d on, %v became %v", at, was[max(0, at-3):min(len(was), at+5)], is[max(0, at-3):min(len(is), at+5)])
	}
	ids, refs := map[string]int{}, map[string]string{}
	level := byte('0')
	for n := range doc.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		if len(n.Data) == 2 && n.Data[0] == 'h' && n.Data[1] >= '1' && n.Data[1] <= '6' {
			if n.Data[1] > level+1 {
				t.Errorf("the heading %q has level %c after %c", text(n), n.Data[1], level)
			}
			level = n.Data[1]
		}
		holds(t, n)
		if slices.Contains([]string{"script", "link", "img", "iframe", "object", "embed", "audio", "video", "form", "image", "use", "base"}, n.Data) {
			t.Errorf("the page has a <%s>", n.Data)
		}
		if n.Data == "style" {
			if css := n.FirstChild.Data; strings.Contains(css, "url(") || strings.Contains(css, "@import") || strings.Contains(css, "ZgotmplZ") {
				t.Error("the style sheet loads something")
			}
		}
		for _, a := range n.Attr {
			switch {
			case a.Key == "id":
				ids[a.Val]++
			case a.Key == "aria-labelledby":
				for _, id := range strings.Fields(a.Val) {
					refs[id] = n.Data
				}
			case a.Key == "href" && strings.HasPrefix(a.Val, "#"):
				refs[a.Val[1:]] = n.Data
			case a.Key == "clip-path":
				refs[strings.TrimSuffix(strings.TrimPrefix(a.Val, "url(#"), ")")] = n.Data
			case slices.Contains([]string{"href", "src", "srcset", "action", "style", "background", "poster", "data"}, a.Key) || strings.HasPrefix(a.Key, "on"):
				t.Errorf("<%s %s=%q>", n.Data, a.Key, a.Val)
			}
			if strings.Contains(a.Val, "NaN") || strings.Contains(a.Val, "ZgotmplZ") {
				t.Errorf("<%s %s=%q>", n.Data, a.Key, a.Val)
			}
		}
		if n.Data == "svg" {
			var children []string
			for c := range n.ChildNodes() {
				children = append(children, c.Data)
			}
			if len(children) < 3 || children[0] != "title" || children[1] != "desc" || len(text(n.FirstChild.NextSibling)) < 20 {
				t.Errorf("a plot has no title and description: %v", children)
			}
		}
	}
	for id, n := range ids {
		if n > 1 {
			t.Errorf("id %s is there %d times", id, n)
		}
	}
	for id, of := range refs {
		if ids[id] == 0 {
			t.Errorf("<%s> refers to %s, which is not there", of, id)
		}
	}
	if strings.Contains(text(doc), "NaN") || strings.Contains(text(doc), "Inf") {
		t.Error("the page says NaN or Inf")
	}
	return doc
}

// holds checks what a list, a table and its rows are made of.
func holds(t *testing.T, n *html.Node) {
	t.Helper()
	may := map[string][]string{"ul": {"li"}, "table": {"thead", "tbody"}, "thead": {"tr"}, "tbody": {"tr"}, "tr": {"th", "td"}}[n.Data]
	if may == nil {
		return
	}
	cells := func(row *html.Node) (n int) {
		for c := range row.ChildNodes() {
			if c.Type == html.ElementNode {
				n++
			}
		}
		return n
	}
	for c := range n.ChildNodes() {
		if c.Type == html.ElementNode && !slices.Contains(may, c.Data) {
			t.Errorf("a <%s> holds a <%s>", n.Data, c.Data)
		}
	}
	if n.Data != "table" {
		if cells(n) == 0 {
			t.Errorf("a <%s> holds nothing", n.Data)
		}
		return
	}
	wide := -1
	for row := range n.Descendants() {
		if row.Data != "tr" {
			continue
		}
		if wide < 0 {
			wide = cells(row)
		}
		if cells(row) != wide {
			t.Errorf("a table of %d columns has a row of %d: %s", wide, cells(row), text(row))
		}
	}
}

func text(n *html.Node) string {
	var b strings.Builder
	for c := range n.Descendants() {
		if c.Type == html.TextNode && (c.Parent == nil || c.Parent.Data != "style") {
			b.WriteString(c.Data + " ")
		}
	}
	return b.String()
}

func attr(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

// figures are the page's numbers that name where they come from.
func figures(doc *html.Node) map[string][]*html.Node {
	out := map[string][]*html.Node{}
	for n := range doc.Descendants() {
		if n.Data == "data" && attr(n, "data-of") != "" {
			out[attr(n, "data-of")] = append(out[attr(n, "data-of")], n)
		}
	}
	return out
}

// decoded is a JSON file with its numbers as they are written.
func decoded(t *testing.T, data []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// at is the number at a path of a decoded file.
func at(t *testing.T, v any, path string) json.Number {
	t.Helper()
	for _, key := range strings.Split(path, ".") {
		switch in := v.(type) {
		case map[string]any:
			v = in[key]
		case []any:
			var i int
			if _, err := fmt.Sscan(key, &i); err != nil {
				t.Fatal(err)
			}
			v = in[i]
		}
	}
	n, _ := v.(json.Number)
	return n
}

// Every number of the page that comes from the summary is the summary's, and none of the summary's metrics is missing.
func TestFiguresAreTheSummarys(t *testing.T) {
	for _, dir := range []string{"testdata/prefire", "../procedure/testdata/aiperf-0.13.0/c5"} {
		page := made(t, os.DirFS(dir), Options{Name: "golden", Version: "1"})
		doc := validate(t, page)
		data, err := os.ReadFile(dir + "/profile_export_aiperf.json")
		if err != nil {
			t.Fatal(err)
		}
		shown, file := figures(doc), decoded(t, data)
		for of, nodes := range shown {
			want := at(t, file, of)
			v, err := want.Float64()
			if err != nil {
				t.Errorf("%s: %s is shown, which is no number of the summary", dir, of)
				continue
			}
			for _, n := range nodes {
				if attr(n, "value") != want.String() || n.FirstChild.Data != readable(v) {
					t.Errorf("%s: %s is shown as %q with the value %s; the summary has %s", dir, of, n.FirstChild.Data, attr(n, "value"), want)
				}
			}
		}
		top := map[string]json.RawMessage{}
		if err := json.Unmarshal(data, &top); err != nil {
			t.Fatal(err)
		}
		all := 0
		for tag, raw := range top {
			m := map[string]any{}
			if json.Unmarshal(raw, &m) != nil || m["unit"] == nil {
				continue
			}
			all++
			for _, key := range metricColumns() {
				if _, has := m[key]; has && len(shown[tag+"."+key]) == 0 {
					t.Errorf("%s: %s.%s is not in the page", dir, tag, key)
				}
			}
		}
		if all < 30 {
			t.Errorf("%s: the summary has %d metrics only", dir, all)
		}
		for _, want := range []string{"ttft_over_time", "ttft_distribution", "itl_over_time", "itl_distribution", "prefill_over_time", "prefill_distribution", "in_flight", "rate", "output_rate"} {
			if !strings.Contains(page, `id="run-1-`+want+`"`) {
				t.Errorf("%s: there is no plot %s", dir, want)
			}
		}
	}
}

// What the page says of trust, for a run of prefire and for one of aiperf.
func TestTrust(t *testing.T) {
	own := text(validate(t, made(t, os.DirFS("testdata/prefire"), Options{})))
	data, err := os.ReadFile("testdata/prefire/profile_export_aiperf.json")
	if err != nil {
		t.Fatal(err)
	}
	var sum struct {
		Prefire ownFacts `json:"prefire"`
	}
	if err := json.Unmarshal(data, &sum); err != nil {
		t.Fatal(err)
	}
	for _, v := range sum.Prefire.Client.Verdicts {
		word := "✓ fit"
		if !v.Good {
			word = "✗ not fit"
		}
		if want := word + "   " + v.Claim + "   " + v.Why; !strings.Contains(own, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	for _, want := range []string{"5 of 36 answered requests were cold and are left out of all latencies", "Reasons: dialled 5",
		"off: no connection was opened and no inference sent before the clock started", "the 99th percentiles rest on 31 values"} {
		if !strings.Contains(own, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	dir := os.DirFS("../procedure/testdata/aiperf-0.13.0")
	f, err := dir.Open("c5/profile_export.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d, err := procedure.Debias(f)
	if err != nil {
		t.Fatal(err)
	}
	two := text(validate(t, made(t, dir, Options{Debiased: map[string]*procedure.Debiased{"c5/profile_export.jsonl": d}})))
	for _, want := range []string{"aiperf does not judge its own client", "5 of 30 answered requests were cold and are part of all figures, as aiperf has them: severity high; time to first token 290.49 ms on average, 32.10 without them",
		"All runs", "avg with cold"} {
		if !strings.Contains(two, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}

// What became of the requests is said of a run without records too, and what a summary does not say is not made up.
func TestTrustWithoutRecords(t *testing.T) {
	data, err := os.ReadFile("testdata/prefire/profile_export_aiperf.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name       string
		change     func(own map[string]any)
		want, none []string
	}{
		{"failures", func(own map[string]any) {
			own["counts"] = map[string]any{"sent": 20, "ok": 10, "failed": 10, "cancelled": 0, "censored": 0}
		},
			[]string{"✗ not fit   Failures   10 of 20 requests failed"}, []string{"Cut requests"}},
		{"a few failures", func(own map[string]any) {
			own["counts"] = map[string]any{"sent": 22, "ok": 19, "failed": 1, "cancelled": 0, "censored": 2}
		},
			[]string{"! mind   Failures   1 of 20 requests failed", "! mind   Cut requests   2 of 22 requests were cut"}, nil},
		{"all cut", func(own map[string]any) {
			own["counts"] = map[string]any{"sent": 3, "ok": 0, "failed": 0, "cancelled": 0, "censored": 3}
			own["cold"] = map[string]any{"count": 0, "of": 0}
		}, []string{"✗ not fit   Cut requests   3 of 3 requests were cut", "? not told   Cold requests   no request was answered"}, []string{"   Failures   "}},
		{"no word of a prewarm", func(own map[string]any) { delete(own, "prewarm") }, []string{"? not told   Prewarm   the file does not say"}, []string{"no connection was opened"}},
	} {
		var sum map[string]any
		if err := json.Unmarshal(data, &sum); err != nil {
			t.Fatal(err)
		}
		tt.change(sum["prefire"].(map[string]any))
		changed, err := json.Marshal(sum)
		if err != nil {
			t.Fatal(err)
		}
		page := text(validate(t, made(t, fstest.MapFS{"profile_export_aiperf.json": {Data: changed}}, Options{})))
		for _, want := range tt.want {
			if !strings.Contains(page, want) {
				t.Errorf("%s: the page does not say %q", tt.name, want)
			}
		}
		for _, none := range tt.none {
			if strings.Contains(page, none) {
				t.Errorf("%s: the page says %q", tt.name, none)
			}
		}
	}
}

// scanMade is a longcontext.json.
const scanMade = `{"verdict":"unhealthy","unhealthy_from":2048,"rule":"ttft_growth","rules":{"ttft_growth":"TTFT grows with an exponent of at most 1.35"},"notes":["Note: at 512 tokens: 38 prompts were sent before"],"lengths":[
{"isl":512,"requests":74,"failed":0,"cold":0,"isl_reached_avg":512.0,"prefill_throughput_per_user_avg":16810.82,"seconds_per_1000_tokens":0.0594,"time_to_first_token_avg_ms":30.457,"time_to_first_token_p99_ms":30.79},
{"isl":2048,"requests":70,"failed":1,"cut":3,"cold":2,"not_measured_because":"no request of 4 was answered","isl_reached_avg":2048.0,"prefill_throughput_per_user_avg":9500.5,"baseline_prefill_throughput_per_user":19001,"time_to_first_token_avg_ms":300.5,"time_to_first_token_p99_ms":330.1,
"checks":[{"rule":"ttft_growth","limit":1.35,"value":1.65,"low":1.6,"high":1.7,"judgement":"unhealthy"},{"rule":"prefill_fall","limit":0.25,"value":0.1,"judgement":"undecided"}]}]}`

// A scan whose prompts the server cut says so in the place of rules that were not judged.
func TestScanOfCutPrompts(t *testing.T) {
	const file = `{"verdict":"undecided","prompts_cut_from":2048,"rules":{},"lengths":[{"isl":512,"requests":40,"failed":0,"cold":0,"time_to_first_token_avg_ms":30.4},
{"isl":2048,"requests":40,"failed":0,"cold":0,"time_to_first_token_avg_ms":31.5,"prompts_cut":true,
"checks":[{"rule":"ttft_growth","limit":1.35,"value":0.05,"low":0.04,"high":0.06,"judgement":"undecided"},{"rule":"error_rate","limit":0.01,"value":0.02,"low":0.001,"high":0.04,"judgement":"undecided"}]}]}`
	said := text(validate(t, made(t, fstest.MapFS{"longcontext.json": {Data: []byte(file)}, "isl512/profile_export.jsonl": {}}, Options{Name: "scan"})))
	for _, want := range []string{"? undecided", "the server does not read the whole prompts of 2048 tokens", "at 2048 tokens: how it scales is not judged", "error_rate 0.02"} {
		if !strings.Contains(said, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	for _, none := range []string{"straddles", "ttft_growth 0.05"} {
		if strings.Contains(said, none) {
			t.Errorf("the page says %q", none)
		}
	}
}

// A scan's page has its verdict and its figures.
func TestScan(t *testing.T) {
	const file = scanMade
	dir := fstest.MapFS{"longcontext.json": {Data: []byte(file)}}
	for _, name := range []string{"isl1024", "isl512"} {
		dir[name+"/profile_export.jsonl"] = &fstest.MapFile{}
	}
	page := made(t, dir, Options{Name: "scan"})
	doc := validate(t, page)
	numbers := decoded(t, []byte(file))
	for of, nodes := range figures(doc) {
		if want := at(t, numbers, of); attr(nodes[0], "value") != want.String() {
			t.Errorf("%s is shown as %s, the file has %s", of, attr(nodes[0], "value"), want)
		}
	}
	said := text(doc)
	for _, want := range []string{"✗ unhealthy", "it breaks down from 2048 tokens on, by the rule that TTFT grows", "ttft_growth 1.65 (1.60 to 1.70), limit 1.35: unhealthy",
		"prefill_fall 0.10, limit 0.25: too few requests", "at 2048 tokens: not measured: no request of 4 was answered", "Note: at 512 tokens: 38 prompts were sent before", "in line with the input it would be 121.8 ms", "1.65", "19,001", "-50.0 %"} {
		if !strings.Contains(said, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if strings.Index(said, "isl512") > strings.Index(said, "isl1024") {
		t.Error("isl1024 comes before isl512")
	}
}

// Runs are in the order in which people count.
func TestByNumber(t *testing.T) {
	want := []string{"a/r", "isl8/r", "isl8-2/r", "isl8.5/r", "isl64/r", "isl0512/r", "isl1024/r", "isl1024b/r", "isl1024b/s"}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, byNumber)
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// line is a record made up for a test.
func line(start int64, ttft float64, isl int) string {
	return fmt.Sprintf(`{"metadata":{"benchmark_phase":"profiling","request_start_ns":%d,"request_end_ns":%d,"was_cancelled":false},"metrics":{"time_to_first_token":{"value":%v,"unit":"ms"},`+
		`"request_latency":{"value":%v,"unit":"ms"},"inter_token_latency":{"value":%v,"unit":"ms"},"prefill_throughput_per_user":{"value":%v,"unit":"tokens/sec/user"},`+
		`"input_sequence_length":{"value":%d,"unit":"tokens"},"output_sequence_length":{"value":20,"unit":"tokens"}},"prefire":{}}`+"\n",
		start, start+int64(ttft*3e6), ttft, ttft*3, ttft/7, float64(isl)/ttft*1000, isl)
}

// A page stays small, whatever there is: very many requests, very many runs, very many errors, and texts without end.
func TestPageIsBounded(t *testing.T) {
	const requests = 4000
	var records strings.Builder
	for i := range requests {
		records.WriteString(line(1_796_080_000_000_000_000+int64(i)*7_000_000, 50+float64(i*7919%1000), 100+i*7907%4000))
	}
	var errs []string
	for i := range 300 {
		errs = append(errs, fmt.Sprintf(`{"error_details":{"code":500,"type":"E%d","message":"%s"},"count":1}`, i, strings.Repeat("é<b>", 200)))
	}
	summary := fmt.Sprintf(`{"error_summary":[%s],"input_config":{"x":"%s"},"time_to_first_token":{"unit":"ms","avg":5,"count":3}}`, strings.Join(errs, ","), strings.Repeat("y", 1<<17))
	dir := fstest.MapFS{"profile_export.jsonl": {Data: []byte(records.String())}, "profile_export_aiperf.json": {Data: []byte(summary)}}
	page := made(t, dir, Options{Name: "one"})
	if validate(t, page); len(page) > 400<<10 {
		t.Errorf("a page of %d requests has %d bytes", requests, len(page))
	}
	for _, want := range []string{"10th to 90th percentile", "260 more kinds of errors", "The rest of the config is in the summary", "ttft_by_input"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	small := records.String()[:strings.LastIndex(records.String()[:100_000], "\n")+1]
	summaryFile := &fstest.MapFile{Data: []byte(fmt.Sprintf(`{"error_summary":[],"input_config":{"x":"%s"}}`, strings.Repeat("y", 1<<16)))}
	runs := fstest.MapFS{}
	for i := range 40 {
		runs[fmt.Sprintf("run%d/profile_export.jsonl", i)] = &fstest.MapFile{Data: []byte(small)}
		runs[fmt.Sprintf("run%d/profile_export_aiperf.json", i)] = summaryFile
	}
	page = made(t, runs, Options{Name: "many"})
	if validate(t, page); len(page) >= 2<<20 {
		t.Errorf("a page of 40 runs has %d bytes", len(page))
	}
	if n := strings.Count(page, `<th scope="row"><a href="#run-`); n != strings.Count(page, "<article") || n < 2 || n == 40 {
		t.Errorf("%d runs have a link, %d a part of their own", n, strings.Count(page, "<article"))
	}
	if n := regexp.MustCompile(`>run\d+<`).FindAllString(page, -1); len(n) < 40 || !strings.Contains(page, "of the runs have no part of their own here") {
		t.Errorf("%d runs are named", len(n))
	}
}

// What a server, a model's name or a config says is text and nothing else; what is secret in another program's config is not shown.
func TestForeignTextIsText(t *testing.T) {
	evil := `</pre></title></style><script src=\"http://evil.example/x.js\"></script><img src=x onerror=alert(1)>{{.}}`
	dir := fstest.MapFS{
		"profile_export.jsonl": {Data: []byte(line(1_796_080_000_000_000_000, 5, 10))},
		"profile_export_aiperf.json": {Data: []byte(`{"time_to_first_token":{"unit":"` + evil + `","avg":5.25,"count":1},"unheard_of":{"unit":"ms","avg":1},"input_config":{"m":"` + evil +
			`","endpoint":{"api_key":"sk-secret-7","headers":{"Authorization":"Bearer secret-7"},"max_tokens":"5"}},"run_info":{"cli_command":"` + evil +
			`"},"error_summary":[{"error_details":{"type":"` + evil + `","message":"` + evil + `"},"count":2}],"incomplete_reason":"` + evil + `"}`)},
	}
	page := made(t, dir, Options{Name: `<b>&"`})
	doc := validate(t, page)
	said := text(doc)
	if strings.Contains(page, "secret-7") || strings.Count(page, "&lt;redacted&gt;") != 2 || !strings.Contains(said, `"max_tokens": "5"`) {
		t.Error("secrets of the config are shown, or more is hidden")
	}
	if !strings.Contains(said, "onerror=alert(1)") || !strings.Contains(said, "unheard_of") || !strings.Contains(said, `<b>&"`) {
		t.Error("a text is missing")
	}
}

// Folders that hold less than a run has, or nothing that can be read.
func TestOddFolders(t *testing.T) {
	summary := &fstest.MapFile{Data: []byte(`{"request_latency":{"unit":"ms","avg":5.5,"count":200},"error_summary":[],"prefire":{"cold":{"count":0,"of":200}}}`)}
	plain := strings.ReplaceAll(line(1_796_080_000_000_000_000, 5, 10), "time_to_first_token", "other")
	for _, c := range []struct {
		name string
		dir  fstest.MapFS
		says string // in the page, or in the error
	}{
		{"summary alone", fstest.MapFS{"profile_export_aiperf.json": summary}, "There are no records beside the summary"},
		{"records alone", fstest.MapFS{"profile_export.jsonl": {Data: []byte(line(1, 5, 10))}}, "the run did not come to its end"},
		{"no record", fstest.MapFS{"profile_export.jsonl": {}, "profile_export_aiperf.json": summary}, "none of 200 answered requests was cold"},
		{"cut record", fstest.MapFS{"profile_export.jsonl": {Data: []byte(line(1, 5, 10) + `{"metadata":{"ben`)}}, "the last record is broken off"},
		{"no streaming", fstest.MapFS{"profile_export.jsonl": {Data: []byte(strings.ReplaceAll(plain, "prefill_throughput_per_user", "more"))}}, "Request latency over time"},
		{"prefix", fstest.MapFS{"a/mine.jsonl": {Data: []byte(line(1, 5, 10))}, "a/mine.json": summary, "a/mine_censored.jsonl": {Data: []byte(`{"metadata":{"request_start_ns":5,"request_end_ns":9,"was_cancelled":true},"prefire":{"censored":true}}`)}}, "1 of 2 requests were cut while they ran"},
		{"slices", fstest.MapFS{"profile_export.jsonl": {}, "profile_export_aiperf.json": summary, "profile_export_aiperf_timeslices.json": {Data: []byte(`{"timeslices":[{"start_ns":5000000000,"end_ns":6000000000,"request_count":{"unit":"requests","avg":7.0}},{"start_ns":6000000000,"end_ns":6500000000}]}`)}}, "Slices of time"},
		{"nothing", fstest.MapFS{"readme": {}}, "it holds no results"},
		{"bad summary", fstest.MapFS{"profile_export.jsonl": {}, "profile_export_aiperf.json": {Data: []byte("[]")}}, "profile_export_aiperf.json: it is no JSON object"},
		{"bad record", fstest.MapFS{"profile_export.jsonl": {Data: []byte("{}\n{}\n")}}, "profile_export.jsonl: line 1 is no record: it has no metadata or no metrics"},
		{"bad scan", fstest.MapFS{"profile_export.jsonl": {}, "longcontext.json": {Data: []byte("5")}}, "longcontext.json: it is no result of prefire longcontext"},
		{"bad capacity", fstest.MapFS{"profile_export.jsonl": {}, "capacity.json": {Data: []byte(`{"steps":[]}`)}}, "capacity.json: it is no result of prefire capacity: it has no steps"},
		{"bad limits", fstest.MapFS{"profile_export.jsonl": {}, "capacity.json": {Data: []byte(`{"slo":["x"],"steps":[{}]}`)}}, "capacity.json: it is no result of prefire capacity: \"x\""},
		{"bad sweep", fstest.MapFS{"profile_export.jsonl": {}, "sweep_aggregate/profile_export_aiperf_sweep.json": {Data: []byte("[]")}}, "profile_export_aiperf_sweep.json: it is no result of a sweep or of repeats"},
		{"bad slices", fstest.MapFS{"profile_export.jsonl": {}, "profile_export_aiperf.json": summary, "profile_export_aiperf_timeslices.json": {Data: []byte(`{"timeslices":[{}]}`)}}, "slice 1 has no start_ns"},
	} {
		r, err := Read(c.dir, Options{Name: c.name})
		if err != nil {
			if !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v, want %q", c.name, err, c.says)
			}
			continue
		}
		var b bytes.Buffer
		if err := r.HTML(&b); err != nil {
			t.Fatal(err)
		}
		if said := text(validate(t, b.String())); !strings.Contains(said, c.says) {
			t.Errorf("%s: the page does not say %q", c.name, c.says)
		}
	}
}

// Plots can be had one by one, in both formats.
func TestPlots(t *testing.T) {
	r, err := Read(os.DirFS("testdata/prefire"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"ttft_over_time", "ttft_distribution", "itl_over_time", "itl_distribution", "prefill_over_time", "prefill_distribution", "in_flight", "rate", "output_rate", "ttft_by_input"}
	if got := r.Plots(); !slices.Equal(got, want) {
		t.Fatalf("plots %v, want %v", got, want)
	}
	for _, name := range want {
		for format, starts := range map[string]string{"svg": "<?xml", "png": "\x89PNG\r\n"} {
			if format == "png" && name != want[0] {
				continue // one is enough: it is the same drawing
			}
			var b bytes.Buffer
			if err := r.Plot(&b, name, format); err != nil || !strings.HasPrefix(b.String(), starts) {
				t.Errorf("%s.%s: %v, %.10q", name, format, err, b.String())
			}
		}
	}
	if err := r.Plot(new(bytes.Buffer), "nothing", "svg"); err == nil || !strings.Contains(err.Error(), "there are ttft_over_time, ") {
		t.Errorf("a plot that is not there: %v", err)
	}
	if err := r.Plot(new(bytes.Buffer), "rate", "pdf"); err == nil || !strings.Contains(err.Error(), `[svg png], not as "pdf"`) {
		t.Errorf("a format that is not there: %v", err)
	}
}
