package config

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// promptsDraft is what was given of the shape of synthetic prompts, beside their lengths.
type promptsDraft struct {
	mix                       opt[[]LengthShare]
	mixForm                   []any // the mix as it was given, for the echo
	ratio                     opt[ratio]
	style, corpus, bust       opt[string]
	batch                     opt[int64]
	pool, poolLength          opt[int64]
	sharedSystem, userContext opt[int64]
	system, systemFile        opt[string]
	turns, delay              lengthDraft
	delayRatio                opt[float64]
	repeat                    opt[float64]
	counts                    opt[string] // prompt | template
	template                  opt[bool]   // --apply-chat-template
}

// ratio is --random-range-ratio: input and output, and how it was written.
type ratio struct {
	in, out float64
	written string
}

// prompts puts the flags over what the file says, where there is one.
func (all *flags) prompts(p *promptsDraft, flagsOnly bool) error {
	if v := all.text("prompt_sequence_distribution"); v.ok {
		mix, err := parseMix(v.v)
		if err != nil {
			return &Error{Title: titleParse, Msg: v.from + ": " + err.Error()}
		}
		p.mix, p.mixForm = given(mix, v.from), mixForm(mix)
	}
	if v := all.text("prompt_random_range_ratio"); v.ok {
		r, err := parseRatio(v.v)
		if err != nil {
			return &Error{Title: titleParse, Msg: v.from + ": " + err.Error()}
		}
		p.ratio = given(r, v.from)
	}
	replace(&p.style, all.choice("prompt_random_corpus_style"))
	replace(&p.corpus, all.choice("prompt_corpus"))
	replace(&p.bust, all.choice("cache_bust"))
	replace(&p.batch, all.whole("prompt_batch_size"))
	replace(&p.pool, all.whole("prompt_prefix_pool_size"))
	replace(&p.poolLength, all.whole("prompt_prefix_length"))
	replace(&p.sharedSystem, all.whole("prompt_prefix_shared_system_length"))
	replace(&p.userContext, all.whole("prompt_prefix_user_context_length"))
	replace(&p.system, all.text("system_prompt"))
	replace(&p.systemFile, all.text("system_prompt_file"))
	edit := func(l *lengthDraft, usual float64, mean, stddev string) {
		m, s := all.number(mean), all.number(stddev)
		if m.ok || s.ok {
			l.plain()
		}
		replace(&l.mean, m)
		replace(&l.stddev, s)
		if flagsOnly && (l.mean.ok || l.stddev.ok) { // aiperf then notes both
			l.mean, l.stddev = given(l.mean.or(usual), l.mean.from), given(l.stddev.v, l.stddev.from)
		}
	}
	edit(&p.turns, 1, "conversation_turn_mean", "conversation_turn_stddev")
	edit(&p.delay, 0, "conversation_turn_delay_mean", "conversation_turn_delay_stddev")
	replace(&p.delayRatio, all.number("conversation_turn_delay_ratio"))
	replace(&p.repeat, all.number("repeat_share"))
	replace(&p.counts, all.choice("isl_counts"))
	replace(&p.template, all.truth("apply_chat_template"))
	return nil
}

var (
	mixPair    = regexp.MustCompile(`^(\d+)(?:\|([\d.]+))?\s*,\s*(\d+)(?:\|([\d.]+))?\s*:\s*([\d.]+)$`)
	mixBracket = regexp.MustCompile(`\(\s*([^()]+?)\s*\)\s*:\s*([\d.]+)`)
)

const mixForms = "Write ISL,OSL:PERCENT;… with |STDDEV behind a length where there is one, for example 128,64:25;512|20,128|5:75"

// parseMix reads the three forms of --seq-dist.
func parseMix(s string) ([]LengthShare, error) {
	s = strings.TrimSpace(s)
	var items []string
	switch {
	case strings.HasPrefix(s, "{"):
		return mixFromJSON(s)
	case strings.HasPrefix(s, "["):
		inner := strings.TrimSuffix(strings.TrimPrefix(s, "["), "]")
		for _, m := range mixBracket.FindAllStringSubmatch(inner, -1) {
			items = append(items, m[1]+":"+m[2])
		}
		if left := strings.Trim(mixBracket.ReplaceAllString(inner, ""), " ,"); left != "" {
			return nil, complain("'%s' is no pair of lengths. %s, or [(128,64):25,(512|20,128|5):75].", left, mixForms)
		}
	default:
		for item := range strings.SplitSeq(s, ";") {
			if item = strings.TrimSpace(item); item != "" {
				items = append(items, item)
			}
		}
	}
	var mix []LengthShare
	for _, item := range items {
		m := mixPair.FindStringSubmatch(item)
		if m == nil {
			return nil, complain("Invalid pair format: '%s'. Expected 'ISL[|ISL_STDDEV],OSL[|OSL_STDDEV]:PROB'. %s.", item, mixForms)
		}
		var v [5]float64
		for i, text := range m[1:] {
			if text == "" {
				continue
			}
			n, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return nil, complain("'%s' in '%s' is no number. %s.", text, item, mixForms)
			}
			v[i] = n
		}
		mix = append(mix, LengthShare{Percent: v[4], Input: Length{Mean: v[0], Stddev: v[1]}, Output: Length{Mean: v[2], Stddev: v[3]}})
	}
	return mix, checkMix(mix)
}

func mixFromJSON(s string) ([]LengthShare, error) {
	v, err := fromJSON(s)
	if err != nil {
		return nil, err
	}
	m, _ := v.(Map)
	var pairs []any
	for _, kv := range m {
		if kv.Key == "pairs" {
			pairs, _ = kv.Value.([]any)
		}
	}
	if pairs == nil {
		return nil, complain("JSON format must contain 'pairs' key: {\"pairs\":[{\"isl\":128,\"osl\":64,\"prob\":100}]}.")
	}
	var mix []LengthShare
	for i, pair := range pairs {
		m, _ := pair.(Map)
		var share LengthShare
		missing := map[string]bool{"isl": true, "osl": true, "prob": true}
		for _, kv := range m {
			to, ok := map[string]*float64{"isl": &share.Input.Mean, "osl": &share.Output.Mean, "prob": &share.Percent,
				"isl_stddev": &share.Input.Stddev, "osl_stddev": &share.Output.Stddev}[kv.Key]
			if !ok {
				return nil, complain("pair %d has the key '%s'; allowed: isl, osl, prob, isl_stddev, osl_stddev.", i, kv.Key)
			}
			switch n := kv.Value.(type) {
			case int64:
				*to = float64(n)
			case float64:
				*to = n
			default:
				return nil, complain("pair %d: %s is %v, it must be a number.", i, kv.Key, kv.Value)
			}
			delete(missing, kv.Key)
		}
		for _, key := range []string{"isl", "osl", "prob"} {
			if missing[key] {
				return nil, complain("Pair %d missing required keys: '%s'.", i, key)
			}
		}
		mix = append(mix, share)
	}
	return mix, checkMix(mix)
}

func checkMix(mix []LengthShare) error {
	sum := 0.0
	for _, m := range mix {
		for _, l := range []struct {
			name string
			Length
		}{{"Input", m.Input}, {"Output", m.Output}} {
			if l.Mean < 1 || l.Mean > math.MaxInt32 || l.Stddev < 0 || l.Stddev > math.MaxInt32 {
				return complain("%s sequence length must be positive, got %s with a stddev of %s.", l.name, plain(l.Mean), plain(l.Stddev))
			}
		}
		if m.Percent < 0 || m.Percent > 100 {
			return complain("Probability must be in [0,100], got %s.", plain(m.Percent))
		}
		sum += m.Percent
	}
	switch {
	case len(mix) == 0:
		return complain("Distribution must contain at least one sequence length pair. %s.", mixForms)
	case math.Abs(sum-100) > 1e-6*100:
		return complain("Probabilities must sum to 100.0, got %.6f. They are percentages.", sum)
	}
	return nil
}

// parseRatio reads a ratio, or one for each side as JSON.
func parseRatio(s string) (ratio, error) {
	s = strings.TrimSpace(s)
	if v, err := strconv.ParseFloat(s, 64); err == nil {
		return ratio{v, v, s}, nil
	}
	const forms = "must be a float or a JSON object with 'input' and 'output' keys, got: %s."
	v, err := fromJSON(s)
	m, ok := v.(Map)
	if err != nil || !ok || len(m) != 2 {
		return ratio{}, complain(forms, pyString(s))
	}
	r := ratio{in: -1, out: -1, written: s}
	for _, kv := range m {
		n, whole := kv.Value.(int64)
		f, broken := kv.Value.(float64)
		if whole {
			f = float64(n)
		}
		switch {
		case !whole && !broken:
			return ratio{}, complain(forms, pyString(s))
		case kv.Key == "input":
			r.in = f
		case kv.Key == "output":
			r.out = f
		default:
			return ratio{}, complain(forms, pyString(s))
		}
	}
	return r, nil
}

// promptKeys reads the keys of schema 2.0 that shape prompts.
func (d *decoder) promptKeys(s, prompts *section, out *promptsDraft) {
	if v, where, ok := prompts.value("sequence_distribution"); ok {
		d.mix(v, where, out)
	}
	if v, where, ok := prompts.value("random_range_ratio"); ok {
		d.ratio(prompts, v, where, out)
	}
	out.style = prompts.choice("random_corpus_style", []string{"vllm", "sglang"}, nil)
	out.corpus = prompts.choice("corpus", corpora(), nil)
	out.batch = prompts.whole("batch_size", between(1, 1<<20))
	if v, where, ok := prompts.value("cache_bust"); ok {
		out.bust = d.section(v, where, keys{known: []string{"target"}}).choice("target", cacheBusts(), nil)
	}
	if v, where, ok := s.value("prefix_prompts"); ok {
		p := d.section(v, where, keys{known: []string{"pool_size", "length", "shared_system_length", "user_context_length"}})
		out.pool, out.poolLength = p.whole("pool_size", between(0, 1<<20)), p.whole("length", between(0, 1<<30))
		out.sharedSystem = p.whole("shared_system_length", between(1, 1<<30))
		out.userContext = p.whole("user_context_length", between(1, 1<<30))
	}
	none := &section{decoder: d, n: s.n, entries: map[string]*entry{}}
	out.turns, out.delay = d.length(s, none, "turns", 1), d.length(s, none, "turn_delay", 0)
	if v, where, ok := s.value("turn_delay_ratio"); ok {
		out.delayRatio = s.number(v, where, between(0, 1e6))
	}
	out.system, out.systemFile = s.text("system_prompt"), s.text("system_prompt_file")
}

func (d *decoder) mix(v *node, where string, out *promptsDraft) {
	if v.shape != isList {
		d.fail(v.line, v.col, where, "Input should be a valid list of {isl, osl, probability}; found %s.", v.found())
		return
	}
	var mix []LengthShare
	var form []any
	for i, item := range v.list {
		s := d.section(item, fmt.Sprintf("%s.%d", where, i), keys{known: []string{"isl", "osl", "isl_stddev", "osl_stddev", "probability"}})
		if item.shape != isMap {
			return
		}
		before := len(d.problems)
		in, answer := d.mixLength(s, "isl"), d.mixLength(s, "osl")
		var percent opt[float64]
		if val, at, ok := s.value("probability"); ok {
			percent = s.number(val, at, between(0, 100))
		} else {
			d.fail(item.line, item.col, join(s.path, "probability"), "Field required.")
		}
		if len(d.problems) > before {
			return
		}
		mix = append(mix, LengthShare{percent.v, in.length(), answer.length()})
		inForm, _ := in.echo()
		answerForm, _ := answer.echo()
		form = append(form, Map{{"isl", inForm}, {"osl", answerForm}, {"probability", percent.v}})
	}
	if err := checkMix(mix); err != nil {
		d.fail(v.line, v.col, where, "%v", err)
		return
	}
	out.mix, out.mixForm = given(mix, d.place(v.line, v.col, where)), form
}

// mixLength reads one side of a pair of a mix: a length in any of its forms, or a plain number with its stddev beside it.
func (d *decoder) mixLength(s *section, key string) lengthDraft {
	if s.entries[key] == nil {
		d.fail(s.n.line, s.n.col, join(s.path, key), "Field required.")
		return lengthDraft{}
	}
	l := d.length(s, &section{decoder: d, n: s.n, entries: map[string]*entry{}}, key, 1)
	val, at, ok := s.value(key + "_stddev")
	switch {
	case !ok:
	case s.entries[key].value.shape == isMap:
		d.fail(val.line, val.col, at, "it stands beside a plain number alone: put stddev into the mapping of %s.", key)
	default:
		l.plain()
		l.stddev = s.number(val, at, atLeast(0))
	}
	return l
}

// mixForm is a mix of a flag as the echo has it.
func mixForm(mix []LengthShare) []any {
	var out []any
	for _, m := range mix {
		out = append(out, Map{{"isl", Map{{"mean", m.Input.Mean}, {"stddev", m.Input.Stddev}}},
			{"osl", Map{{"mean", m.Output.Mean}, {"stddev", m.Output.Stddev}}}, {"probability", m.Percent}})
	}
	return out
}

func (d *decoder) ratio(s *section, v *node, where string, out *promptsDraft) {
	place := d.place(v.line, v.col, where)
	switch v.shape {
	case isInt, isFloat:
		if n := s.number(v, where, atLeast(0)); n.ok {
			written := plain(n.v)
			if v.shape == isFloat {
				written = pyFloat(n.v)
			}
			out.ratio = given(ratio{n.v, n.v, written}, place)
		}
	case isString, isMap:
		text := v.s
		if m, ok := v.plainValue().(Map); ok {
			b, err := m.MarshalJSON()
			if err != nil {
				d.fail(v.line, v.col, where, "%v", err)
				return
			}
			text = string(b)
		}
		r, err := parseRatio(text)
		if err != nil {
			d.fail(v.line, v.col, where, "%v", err)
			return
		}
		out.ratio = given(r, place)
	default:
		s.bad(v, where, "random_range_ratio must be a number, or a string such as '{\"input\":0.3,\"output\":0.5}'")
	}
}

// readSystem reads the file of the system message.
func (p *promptsDraft) readSystem(read func(string) ([]byte, error)) error {
	if !p.systemFile.ok || p.system.ok {
		return nil // both at once is refused later
	}
	text, err := read(p.systemFile.v)
	if err != nil {
		return &Error{Title: titleConfig, Msg: fmt.Sprintf("%s: the system prompt cannot be read: %v", p.systemFile.from, err)}
	}
	p.system = given(strings.TrimSpace(string(text)), p.systemFile.from)
	return nil
}

// resolvePrompts checks the shape of the prompts and puts it into ds.
func (r *decoder) resolvePrompts(d *draft, c *Config, ds *Dataset) {
	p := &d.dataset.prompts
	ds.Corpus, ds.Batch = p.corpus.v, int(p.batch.v)
	if p.bust.v != "none" {
		ds.CacheBust = p.bust.v
	}
	ds.PrefixPool, ds.PrefixLength = int(p.pool.v), int(p.poolLength.v)
	ds.SharedSystem, ds.UserContext = int(p.sharedSystem.v), int(p.userContext.v)
	ds.System, ds.Repeat = p.system.v, p.repeat.v
	if p.turns.mean.ok || p.turns.stddev.ok {
		ds.Turns = p.turns.length()
		ds.Turns.Mean = p.turns.mean.or(1)
	}
	if p.delay.mean.v > 0 {
		ds.Delay, ds.DelayRatio = p.delay.length(), p.delayRatio.or(1)
	}
	ds.Mix = p.mix.v
	if p.mix.ok {
		for _, g := range []opt[float64]{d.dataset.isl.mean, d.dataset.isl.stddev, d.dataset.osl.mean, d.dataset.osl.stddev} {
			if g.ok && g.from != "the default" {
				r.notices = append(r.notices, fmt.Sprintf("%s has no effect: the lengths are those of %s.", g.from, p.mix.from))
			}
		}
	}

	if d.dataset.isFile {
		r.notOfFiles(d, p)
		return
	}
	both := func(a, b, what string) { r.problem(a, "%s cannot be combined with %s.", what, b) }
	systemFrom := p.system.from
	if p.systemFile.ok && p.systemFile.from != p.system.from {
		both(p.systemFile.from, p.system.from, "a system prompt from a file")
	}
	if p.system.ok && strings.TrimSpace(p.system.v) == "" {
		r.problem(systemFrom, "the system prompt has no text in it.")
	}
	pooled := ds.PrefixPool > 0 || ds.PrefixLength > 0
	from := p.pool.from
	if from == "" {
		from = p.poolLength.from
	}
	switch {
	case p.system.ok && p.sharedSystem.ok:
		both(systemFrom, p.sharedSystem.from, "a system prompt")
	case p.system.ok && pooled:
		both(systemFrom, from, "a system prompt")
	case pooled && p.sharedSystem.ok:
		both(from, p.sharedSystem.from, "pool_size/length")
	case pooled && p.userContext.ok:
		both(from, p.userContext.from, "pool_size/length")
	case pooled && ds.PrefixPool == 0:
		r.warnOrRefuse(d, from, fmt.Sprintf("a prefix of %d tokens needs the number of prefixes: give --num-prefix-prompts (prefix_prompts.pool_size).", ds.PrefixLength))
	case pooled && ds.PrefixLength == 0:
		r.warnOrRefuse(d, from, fmt.Sprintf("%d prefixes need their length: give --prefix-prompt-length (prefix_prompts.length).", ds.PrefixPool))
	}
	if ds.CacheBust == "warmup_isolation_system" && ds.System == "" && ds.SharedSystem == 0 {
		r.problem(p.bust.from, "warmup_isolation_system needs a system prompt: give --system-prompt or --shared-system-prompt-length, or use "+
			"warmup_isolation_first_turn.")
	}
	if p.delay.stddev.v > 0 && p.delay.mean.v == 0 {
		r.problem(p.delay.stddev.from, "a stddev of the think time needs its mean (--session-turn-delay-mean).")
	}
	if ds.Repeat > 0 && ds.Entries > 0 {
		r.problem(p.repeat.from, "a share of repeats cannot be combined with a number of dataset entries (--num-dataset-entries), which repeat in order.")
	}
	if p.ratio.ok {
		r.resolveRatio(d, ds)
	}
	asked := p.template.v
	if p.counts.ok {
		if p.template.ok && asked != (p.counts.v == "template") {
			both(p.counts.from, p.template.from, "--isl-counts "+p.counts.v)
		}
		asked = p.counts.v == "template"
	}
	c.CountTemplate = asked
	if asked && !c.Prewarm {
		from := p.counts.from
		if from == "" {
			from = p.template.from
		}
		r.problem(from, "the chat template's tokens are measured by a request before the run: leave out --no-prewarm and --include-cold.")
	}
}

// notOfFiles refuses what is for prompts that are made to a length, and not for a file's.
func (r *decoder) notOfFiles(d *draft, p *promptsDraft) {
	for _, g := range []struct {
		ok   bool
		from string
	}{
		{p.delayRatio.ok && p.delayRatio.v != 1, p.delayRatio.from}, {p.repeat.v > 0, p.repeat.from},
		{p.counts.v == "template", p.counts.from}, {p.template.v, p.template.from},
	} {
		if g.ok {
			r.problem(g.from, "it is only supported with synthetic datasets: the prompts, their lengths and their order are the file's.")
		}
	}
	if p.batch.ok && p.batch.v != 1 && d.dataset.fromFile.format.v != "random_pool" {
		r.problem(p.batch.from, "a number of texts a request is only supported with synthetic datasets and with --custom-dataset-type random_pool.")
	}
	if p.system.ok && strings.TrimSpace(p.system.v) == "" {
		r.problem(p.system.from, "the system prompt has no text in it.")
	}
	if p.systemFile.ok && p.systemFile.from != p.system.from {
		r.problem(p.systemFile.from, "a system prompt from a file cannot be combined with %s.", p.system.from)
	}
}

// resolveRatio turns means and ratio into ranges.
func (r *decoder) resolveRatio(d *draft, ds *Dataset) {
	p, lengths := &d.dataset.prompts, &d.dataset
	q := p.ratio.v
	vllm := p.style.or("vllm") == "vllm"
	switch {
	case p.mix.ok:
		r.problem(p.ratio.from, "random_range_ratio cannot be combined with sequence_distribution (%s); use one or the other.", p.mix.from)
	case !lengths.isl.mean.ok || lengths.isl.mean.from == "the default":
		r.problem(p.ratio.from, "--random-range-ratio requires --isl to be set explicitly. There is no safe default when a ratio window is requested.")
	case !lengths.osl.mean.ok:
		r.problem(p.ratio.from, "--random-range-ratio requires --osl to be set explicitly. There is no safe default when a ratio window is requested.")
	case ds.Input.Stddev > 0 || ds.Output.Stddev > 0:
		r.problem(p.ratio.from, "--random-range-ratio cannot be combined with --isl-stddev or --osl-stddev.")
	case !(q.in >= 0 && q.out >= 0) || vllm && (q.in >= 1 || q.out >= 1) || q.in > 1 || q.out > 1:
		limit := "[0.0, 1.0) in vllm style"
		if !vllm {
			limit = "[0.0, 1.0] in sglang style"
		}
		r.problem(p.ratio.from, "range_ratio must be in %s, got %v.", limit, q.written)
	case !vllm && q.in != q.out:
		r.problem(p.ratio.from, "SGLang corpus style applies a single ratio to both ISL and OSL, got %v.", q.written)
	default:
		window := func(l Length, ratio float64) Length {
			mean := math.Floor(l.Mean)
			if !vllm {
				return Length{Low: int(max(1, math.Floor(mean*ratio))), High: int(mean)}
			}
			return Length{Low: int(math.Floor(mean * (1 - ratio))), High: int(math.Ceil(mean * (1 + ratio)))}
		}
		ds.Input, ds.Output = window(ds.Input, q.in), window(ds.Output, q.out)
		ds.Output.Low = max(1, ds.Output.Low)
		if ds.Input.Low < 1 {
			r.problem(p.ratio.from, "--random-range-ratio %v with --isl %s produces a minimum input of %d tokens. Increase --isl, or lower the ratio.",
				q.written, plain(lengths.isl.mean.v), ds.Input.Low)
		}
	}
}

// echo appends what was given, in aiperf's order: the prompts' own keys, and those of the dataset.
func (p *promptsDraft) echo(prompts, dataset Map) (Map, Map) {
	prompts = put(prompts, "batch_size", p.batch)
	if p.bust.ok {
		prompts = append(prompts, KeyValue{"cache_bust", Map{{"target", p.bust.v}}})
	}
	prompts = put(prompts, "corpus", p.corpus)
	if p.mix.ok {
		prompts = append(prompts, KeyValue{"sequence_distribution", p.mixForm})
	}
	if p.ratio.ok {
		prompts = append(prompts, KeyValue{"random_range_ratio", p.ratio.v.written})
	}
	prompts = put(prompts, "random_corpus_style", p.style)
	var prefix Map
	prefix = put(prefix, "pool_size", p.pool)
	prefix = put(prefix, "length", p.poolLength)
	prefix = put(prefix, "shared_system_length", p.sharedSystem)
	prefix = put(prefix, "user_context_length", p.userContext)
	if len(prefix) > 0 {
		dataset = append(dataset, KeyValue{"prefix_prompts", prefix})
	}
	for _, l := range []struct {
		key string
		lengthDraft
	}{{"turns", p.turns}, {"turn_delay", p.delay}} {
		switch {
		case l.form != nil:
			dataset = append(dataset, KeyValue{l.key, l.form})
		case l.fixed:
			dataset = append(dataset, KeyValue{l.key, Map{{"value", l.mean.v}}})
		case l.mean.ok || l.stddev.ok:
			dataset = append(dataset, KeyValue{l.key, put(put(Map{}, "mean", l.mean), "stddev", l.stddev)})
		}
	}
	dataset = put(dataset, "turn_delay_ratio", p.delayRatio)
	if p.systemFile.ok {
		dataset = put(dataset, "system_prompt_file", p.systemFile)
	} else {
		dataset = put(dataset, "system_prompt", p.system)
	}
	return prompts, put(dataset, "repeat_share", p.repeat)
}
