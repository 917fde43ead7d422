package config

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"prefire/metrics"
)

// userCentric is the type of a phase whose users send at gaps of their own, fixedSchedule that of one that plays its file's times.
const (
	userCentric   = "user_centric"
	fixedSchedule = "fixed_schedule"
)

// loadDraft is a phase's load as it was given.
type loadDraft struct {
	load                                      string // type of the phase; "" = concurrency
	rate, smoothness, cancelRate, cancelDelay opt[float64]
	failed                                    opt[float64]
	prefill, users                            opt[int64]
	concurrencyRamp, prefillRamp, rateRamp    rampDraft
	series                                    opt[[]RatePoint]
	seriesFile                                opt[string]
	seamless                                  opt[bool]
	autoOffset                                opt[bool] // these three are of a fixed schedule
	startOffset, endOffset                    opt[int64]
}

type rampDraft struct {
	duration opt[float64]
	strategy opt[string]
}

// load reads the part of a phase that shapes its load.
func (d *decoder) load(s *section, kind string, phase metrics.Kind) loadDraft {
	l := loadDraft{load: kind,
		prefill: s.whole("prefill_concurrency", between(1, maxSessions)), users: s.whole("users", between(1, maxSessions)), seamless: s.truth("seamless"),
		concurrencyRamp: s.ramp("concurrency_ramp"), prefillRamp: s.ramp("prefill_ramp"), rateRamp: s.ramp("rate_ramp")}
	number := func(s *section, key string, bound *Bound) opt[float64] {
		v, where, ok := s.value(key)
		if !ok {
			return opt[float64]{}
		}
		return s.number(v, where, bound)
	}
	l.autoOffset, l.startOffset, l.endOffset = s.truth("auto_offset"), s.whole("start_offset", atLeast(0)), s.whole("end_offset", atLeast(0))
	l.rate, l.smoothness = number(s, "rate", above(0)), number(s, "smoothness", above(0))
	l.failed = number(s, "failed_request_threshold", between(0, 1))
	if v, where, ok := s.value("cancellation"); ok {
		c := d.section(v, where, cancellationKeys())
		l.cancelRate = number(c, "rate", between(0, 100))
		l.cancelDelay = c.seconds("delay", atLeast(0), false)
		if v.shape == isMap && c.entries["rate"] == nil {
			d.fail(v.line, v.col, join(where, "rate"), "Field required: the per cent of requests to cancel.")
		}
		if phase == metrics.Warmup && l.cancelRate.v > 0 {
			d.notices = append(d.notices, d.place(v.line, v.col, where)+" has no effect: no request of a warm-up phase is cancelled.")
		}
	}
	if v, where, ok := s.value("rate_series"); ok {
		s.rateSeries(v, where, &l)
	}
	return l
}

// ramp reads a number of seconds, or a mapping with a strategy.
func (s *section) ramp(key string) rampDraft {
	v, where, ok := s.value(key)
	if !ok {
		return rampDraft{}
	}
	if v.shape != isMap {
		return rampDraft{duration: s.seconds(key, above(0), false)}
	}
	r := s.section(v, where, rampKeys())
	if r.entries["duration"] == nil {
		s.fail(v.line, v.col, join(where, "duration"), "Field required.")
	}
	return rampDraft{r.seconds("duration", above(0), false), r.choice("strategy", []string{"linear", "exponential", "poisson"}, nil)}
}

// rateSeries reads a path, a list of points, or a mapping with one of them.
func (s *section) rateSeries(v *node, where string, l *loadDraft) {
	points, at := v, where
	switch v.shape {
	case isString:
		l.seriesFile = given(v.s, s.place(v.line, v.col, where))
		return
	case isMap:
		m := s.section(v, where, rateSeriesKeys())
		l.seriesFile = m.text("path")
		var ok bool
		if points, at, ok = m.value("points"); !ok {
			if !l.seriesFile.ok {
				s.fail(v.line, v.col, where, "Request-rate series requires at least two points")
			}
			return
		}
		if l.seriesFile.ok {
			s.fail(v.line, v.col, where, "rate_series.path and rate_series.points are mutually exclusive")
			return
		}
	}
	if points.shape != isList {
		s.bad(points, at, "Input should be a valid list")
		return
	}
	var out []RatePoint
	for i, item := range points.list {
		p := s.section(item, fmt.Sprintf("%s.%d", at, i), ratePointKeys())
		var values [2]opt[float64]
		for j, key := range [...]string{"time_s", "qps"} {
			if v, where, ok := p.value(key); ok {
				values[j] = s.number(v, where, &Bound{Low: 0, Open: j == 1, High: math.Inf(1)})
			} else if item.shape == isMap {
				s.fail(item.line, item.col, join(p.path, key), "Field required.")
			}
		}
		if !values[0].ok || !values[1].ok {
			return
		}
		out = append(out, RatePoint{values[0].v, values[1].v})
	}
	if what := seriesFault(out); what != "" {
		s.fail(points.line, points.col, at, "%s", what)
		return
	}
	l.series = given(out, s.place(points.line, points.col, at))
}

func seriesFault(points []RatePoint) string {
	if len(points) < 2 {
		return "Request-rate series requires at least two points"
	}
	for i := 1; i < len(points); i++ {
		if points[i].At <= points[i-1].At {
			return fmt.Sprintf("Request-rate series time_s values must be strictly increasing: point %d is at %s s, the one before it at %s s",
				i, plain(points[i].At), plain(points[i-1].At))
		}
	}
	return ""
}

// readSeries reads the file of a rate series.
func (l *loadDraft) readSeries(read func(string) ([]byte, error)) error {
	if !l.seriesFile.ok {
		return nil
	}
	path := l.seriesFile.v
	bad := func(format string, args ...any) error {
		return &Error{Title: titleConfig, Msg: l.seriesFile.from + ": " + fmt.Sprintf(format, args...)}
	}
	data, err := read(path)
	if err != nil {
		return bad("Cannot read request-rate series JSON '%s': %v", path, err)
	}
	v, err := fromJSON(string(data))
	if err != nil {
		return bad("Invalid request-rate series JSON '%s': %v", path, err)
	}
	if m, ok := v.(Map); ok {
		if len(m) != 1 || m[0].Key != "points" {
			return bad("'%s': Request-rate series JSON must contain exactly one top-level key: points", path)
		}
		v = m[0].Value
	}
	list, ok := v.([]any)
	if !ok {
		return bad("'%s': Request-rate series JSON must be an object with points or a points array", path)
	}
	var out []RatePoint
	for i, item := range list {
		m, _ := item.(Map)
		var p RatePoint
		for _, kv := range m {
			f, number := float(kv.Value)
			switch {
			case kv.Key == "time_s" && number && f >= 0:
				p.At = f
			case kv.Key == "qps" && number && f > 0:
				p.Rate = f
			default:
				return bad("'%s': Invalid request-rate series point %d: %s is %v; a point has time_s (0 or more) and qps (above 0)", path, i, kv.Key, kv.Value)
			}
		}
		if len(m) != 2 || p.Rate == 0 {
			return bad("'%s': Invalid request-rate series point %d: a point has time_s (0 or more) and qps (above 0), and nothing else", path, i)
		}
		out = append(out, p)
	}
	if what := seriesFault(out); what != "" {
		return bad("'%s': %s", path, what)
	}
	l.series = given(out, l.seriesFile.from)
	return nil
}

func float(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	case json.Number:
		f, err := v.Float64()
		return f, err == nil
	}
	return 0, false
}

// shape puts the flags that shape the load over a phase. prefix is that of the flags' fields.
func (all *flags) shape(p *phaseDraft, prefix string) {
	replace(&p.prefill, all.whole(prefix+"prefill_concurrency"))
	replace(&p.rate, all.number(prefix+"request_rate"))
	for _, r := range []struct {
		dst   *rampDraft
		field string
	}{
		{&p.concurrencyRamp, "concurrency_ramp_duration"}, {&p.prefillRamp, "prefill_concurrency_ramp_duration"}, {&p.rateRamp, "request_rate_ramp_duration"},
	} {
		if v := all.seconds(prefix + r.field); v.ok {
			*r.dst = rampDraft{duration: v}
		}
	}
}

// shapeMeasured puts the flags that only a measured phase has over it.
func (all *flags) shapeMeasured(d *draft, p *phaseDraft) error {
	all.shape(p, "")
	replace(&p.users, all.whole("num_users"))
	replace(&p.smoothness, all.number("arrival_smoothness"))
	replace(&p.failed, all.number("failed_request_threshold"))
	replace(&p.seriesFile, all.text("request_rate_series"))
	replace(&p.cancelRate, all.number("request_cancellation_rate"))
	replace(&p.cancelDelay, all.seconds("request_cancellation_delay"))
	rate, series, smoothness := all.byField["request_rate"].given, all.byField["request_rate_series"].given, all.byField["arrival_smoothness"].given
	pattern, users := all.choice("arrival_pattern"), all.number("user_centric_rate")
	refuse := func(format string, args ...any) error {
		return &Error{Title: titleConfig, Msg: fmt.Sprintf(format, args...)}
	}
	paced := p.rate.ok || p.seriesFile.ok || p.series.ok
	switch {
	case rate != "" && series != "":
		return refuse("--request-rate and --request-rate-series are mutually exclusive.")
	case users.ok && series != "":
		return refuse("--request-rate-series is not supported with --user-centric-rate.")
	case users.ok:
		p.load, p.rate = userCentric, users
		p.series, p.seriesFile, p.smoothness = opt[[]RatePoint]{}, opt[string]{}, opt[float64]{}
		for _, flag := range []string{rate, all.byField["arrival_pattern"].given} {
			if flag != "" {
				d.notices = append(d.notices, fmt.Sprintf("%s has no effect on the measured phase: --user-centric-rate says when its requests are sent.", flag))
			}
		}
	case rate != "":
		p.series, p.seriesFile = opt[[]RatePoint]{}, opt[string]{}
	case series != "":
		p.rate, p.series = opt[float64]{}, opt[[]RatePoint]{}
		if p.load == userCentric {
			p.load, p.users = "", opt[int64]{}
		}
	}
	switch {
	case p.load == userCentric && d.file != "" && smoothness != "":
		return refuse("--arrival-smoothness cannot be applied to the 'user_centric' profiling phase from the config file: user-centric phases have no " +
			"arrival-distribution shape. Change the phase type in YAML to 'gamma' to use --arrival-smoothness.")
	case p.load == userCentric && !users.ok && pattern.ok:
		return refuse("--arrival-pattern cannot be applied to the 'user_centric' profiling phase from the config file: user-centric phases have no " +
			"arrival distribution. Change the phase type in YAML to poisson/gamma/constant.")
	case p.load == userCentric: // a rate is that of its users
	case paced && pattern.ok:
		p.load = pattern.v
	case paced && smoothness != "":
		p.load = "gamma"
	case paced && (p.load == "" || p.load == "concurrency"):
		p.load = "poisson"
	case p.load == "":
		p.load = "concurrency"
	}
	switch {
	case smoothness != "" && p.load != "gamma":
		return refuse("--arrival-smoothness is only supported with --arrival-pattern gamma. Pass --arrival-pattern gamma to enable smoothness, or " +
			"drop --arrival-smoothness to use the default arrival pattern.")
	case all.byField["num_users"].given != "" && p.load != userCentric:
		return refuse("--num-users requires --user-centric-rate. Pass --user-centric-rate to enable user-centric mode, or drop --num-users to use the " +
			"default concurrency/rate timing mode.")
	case p.rateRamp.duration.ok && p.load == "concurrency":
		return refuse("--request-rate-ramp-duration can only be used with rate-controlled scheduling (--request-rate or --user-centric-rate). Pass " +
			"one of those to enable rate ramping, or drop --request-rate-ramp-duration.")
	case all.byField["request_cancellation_delay"].given != "" && !p.cancelRate.ok:
		return refuse("--request-cancellation-delay requires --request-cancellation-rate to be set (cancellation is disabled when rate is unset). " +
			"Pass --request-cancellation-rate > 0 to enable cancellation, or drop --request-cancellation-delay.")
	}
	return nil
}

// shapeWarmup gives a warm-up phase that flags make the load of their measured phase, where no flag of its own says otherwise.
func (all *flags) shapeWarmup(p *phaseDraft) error {
	p.prefill, p.rate = all.whole("prefill_concurrency"), all.number("request_rate")
	all.shape(p, "")
	if p.rate.ok || all.byField["warmup_request_rate"].given != "" {
		p.load = "poisson"
		if c := all.choice("arrival_pattern"); c.ok { // a smoothness alone makes the measured phase gamma, and not this one, as in aiperf
			p.load = c.v
		}
	} else {
		p.rateRamp = rampDraft{}
	}
	return all.editWarmup(p)
}

// editWarmup puts the flags of the warm-up over its phase.
func (all *flags) editWarmup(p *phaseDraft) error {
	all.shape(p, "warmup_")
	if c := all.choice("warmup_arrival_pattern"); c.ok && p.rate.ok {
		p.load = c.v
	}
	if p.load == "gamma" && !p.smoothness.ok {
		p.smoothness = all.number("arrival_smoothness")
	}
	if p.rate.ok && (p.load == "" || p.load == "concurrency") {
		p.load = "poisson"
	}
	if p.rateRamp.duration.ok && !p.rate.ok && !p.series.ok && !p.seriesFile.ok {
		return &Error{Title: titleConfig, Msg: "--warmup-request-rate-ramp-duration requires warmup rate-controlled scheduling. Pass " +
			"--warmup-request-rate, or drop --warmup-request-rate-ramp-duration."}
	}
	return nil
}

// resolveLoad checks a phase's load and fills in its defaults.
func (r *decoder) resolveLoad(p *phaseDraft, first, streaming bool) Load {
	l := Load{
		Type: p.engineType(), Rate: p.rate.v, Series: p.series.v, Prefill: int(p.prefill.v), Seamless: p.seamless.v,
		ConcurrencyRamp: p.concurrencyRamp.resolve(), PrefillRamp: p.prefillRamp.resolve(), RateRamp: p.rateRamp.resolve(),
	}
	if l.Type == "gamma" {
		l.Smoothness = p.smoothness.or(1)
	}
	switch {
	case !l.Open():
	case l.Type == userCentric:
		r.resolveUsers(p, &l)
	case !p.rate.ok && !p.series.ok:
		r.problem(p.at, "Phase '%s': rate-controlled phases require rate or rate_series", p.name)
	case p.rate.ok && p.series.ok:
		r.problem(p.at, "Phase '%s': rate and rate_series are mutually exclusive", p.name)
	}
	if p.prefill.ok {
		if p.concurrency.ok && p.prefill.v > p.concurrency.v {
			r.problem(p.prefill.from, "Phase '%s': prefill_concurrency must be <= concurrency: %d is more than %d", p.name, p.prefill.v, p.concurrency.v)
		}
		if !l.Open() && !p.concurrency.ok && p.prefill.v > 1 {
			r.problem(p.prefill.from, "Phase '%s': prefill_concurrency must be <= concurrency: %d is more than 1, the default", p.name, p.prefill.v)
		}
		if !streaming {
			r.problem(p.prefill.from, "Phase '%s': prefill_concurrency requires endpoint.streaming=true", p.name)
		}
	}
	if p.seamless.v && first {
		r.problem(p.seamless.from, "Phase config '%s' cannot have seamless=True because it is first. Seamless transitions only apply to subsequent "+
			"phase configs.", p.name)
	}
	if p.kind == metrics.Profiling {
		l.CancelShare, l.CancelDelay = p.cancelRate.v/100, duration(p.cancelDelay.v)
		if p.failed.ok {
			l.FailedShare = &p.failed.v
		}
	}
	return l
}

// resolveUsers checks a phase of users, in aiperf's words.
func (r *decoder) resolveUsers(p *phaseDraft, l *Load) {
	l.Users = int(p.users.v)
	switch {
	case p.series.ok:
		r.problem(p.series.from, "user-centric phases do not support rate_series")
		return
	case !p.rate.ok:
		r.problem(p.at, "Phase '%s': rate-controlled phases require rate or rate_series: give the rate of all users together (--user-centric-rate).", p.name)
	}
	switch {
	case !p.users.ok:
		r.problem(p.at, "Phase '%s': users: Field required: the number of users (--num-users).", p.name)
	case p.sessions.ok && p.sessions.v < p.users.v:
		r.problem(p.sessions.from, "Phase '%s': --num-sessions (%d) must be >= --num-users (%d). Each user needs at least one session.", p.name,
			p.sessions.v, p.users.v)
	case p.requests.ok && p.requests.v < p.users.v:
		r.problem(p.requests.from, "Phase '%s': --request-count (%d) must be >= --num-users (%d). Each user needs at least one request.", p.name,
			p.requests.v, p.users.v)
	}
	if p.rateRamp.duration.ok {
		l.RateRamp = Ramp{}
		r.notices = append(r.notices, fmt.Sprintf("%s has no effect: the gap between a user's turns does not change, as in aiperf.", p.rateRamp.duration.from))
	}
}

// usersHold checks what phases of users ask of the dataset.
func (r *decoder) usersHold(d *draft, phases []Phase) {
	ds := &d.dataset
	for i := range phases {
		p := &phases[i]
		if p.Load.Type != userCentric {
			continue
		}
		if f := ds.fromFile.format; ds.isFile && f.ok && f.v != "multi_turn" && f.v != "sharegpt" {
			r.problem(d.phases[i].at, "Phase '%s' uses user_centric which requires multi_turn dataset format, but dataset '%s' uses '%s' format", p.Name, ds.name, f.v)
		}
		if think := ds.prompts.delay.mean; think.v > 0 {
			r.notices = append(r.notices, fmt.Sprintf("%s has no effect on phase '%s': the gap between a user's turns is users / rate, as in aiperf.", think.from, p.Name))
		}
	}
}

func (r rampDraft) resolve() Ramp {
	if !r.duration.ok {
		return Ramp{}
	}
	return Ramp{duration(r.duration.v), r.strategy.or("linear")}
}

func (l *loadDraft) typeOf() string {
	if l.load == "" {
		return "concurrency"
	}
	return l.load
}

// engineType is the type that the load has without its file's times, which the caller finds in the file.
func (l *loadDraft) engineType() string {
	if l.load == fixedSchedule {
		return "concurrency"
	}
	return l.typeOf()
}

// echo of a ramp, as aiperf writes it.
func (r rampDraft) echo(m Map, key string) Map {
	if !r.duration.ok {
		return m
	}
	return append(m, KeyValue{key, put(put(Map{}, "duration", r.duration), "strategy", r.strategy)})
}

// echoLimits is the part of a phase's echo after its stops and concurrency, up to its grace.
func (l *loadDraft) echoLimits(m Map) Map {
	m = l.concurrencyRamp.echo(m, "concurrency_ramp")
	m = put(m, "prefill_concurrency", l.prefill)
	return l.prefillRamp.echo(m, "prefill_ramp")
}

// echoRest is the part after the grace.
func (l *loadDraft) echoRest(m Map) Map {
	if l.cancelRate.ok {
		m = append(m, KeyValue{"cancellation", put(put(Map{}, "rate", l.cancelRate), "delay", l.cancelDelay)})
	}
	m = put(m, "seamless", l.seamless)
	m = put(m, "failed_request_threshold", l.failed)
	m = put(m, "rate", l.rate)
	m = l.rateRamp.echo(m, "rate_ramp")
	if l.series.ok {
		points := make([]any, len(l.series.v))
		for i, p := range l.series.v {
			points[i] = Map{{"time_s", p.At}, {"qps", p.Rate}}
		}
		m = append(m, KeyValue{"rate_series", Map{{"points", points}}})
	}
	m = put(put(m, "smoothness", l.smoothness), "users", l.users)
	return put(put(put(m, "auto_offset", l.autoOffset), "start_offset", l.startOffset), "end_offset", l.endOffset)
}

// stimulus names a phase's load in the name of the run's folder, as aiperf does.
func stimulus(p *Phase) string {
	s := ""
	if p.Concurrency > 0 {
		s = fmt.Sprintf("concurrency%d", p.Concurrency)
	}
	switch {
	case !p.Load.Open():
		return s
	case p.Load.Type == userCentric:
		return fmt.Sprintf("user_centric-users%d-qps%s", p.Load.Users, pyFloat(p.Load.Rate))
	}
	rate := p.Load.Rate
	if len(p.Load.Series) > 0 {
		rate = p.Load.Series[0].Rate
	}
	if s != "" {
		s += "-"
	}
	return s + "request_rate" + pyFloat(rate)
}

// pyFloat writes a float as Python does: a whole one with its .0.
func pyFloat(f float64) string {
	b, err := appendJSON(nil, f)
	if err != nil || slices.Contains(b, 'n') {
		return plain(f)
	}
	return string(b)
}
