package loadgen

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"prefire/loadgen/wire"
	"prefire/metrics"
)

// PrewarmReport is what making the targets warm took. None of it is in any metric.
type PrewarmReport struct {
	Start, End int64
	Targets    []TargetWarmth
}

// TargetWarmth is the prewarm of one target.
type TargetWarmth struct {
	URL string
	// Proven: a throwaway inference has succeeded. Without it the target's first inferences count as cold.
	Proven      bool
	Inferences  []Inference // one a try
	Connections []wire.ConnFacts
	MaxModelLen int      // the model's, 0 = not said
	Listed      []string // model ids of the server's list
}

// Inference is one throwaway inference.
type Inference struct {
	TTFT    int64 // from Start as for any request; 0 = none
	Latency int64 // to the end of the answer
	Input   metrics.Count
	Server  metrics.Count // the server's count of the same prompt
	Cold    metrics.Cold
	Err     *metrics.Error
}

// PrewarmError says why a run cannot begin. It comes before any load.
type PrewarmError struct {
	URL  string
	Msg  string // what was found, and what to do
	Wire *wire.Error
}

func (e *PrewarmError) Error() string { return e.URL + ": " + e.Msg }

const prewarmTries = 3

// prewarm makes every target warm: a first connection and a throwaway inference, then all connections the plan needs, each probed.
func (r *run) prewarm(ctx context.Context, rep *PrewarmReport) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if r.Stop != nil {
		go func() {
			select {
			case <-r.Stop:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	rep.Start = r.Clock.Now()
	rep.Targets = make([]TargetWarmth, len(r.plan.Targets))
	for i := range r.plan.Targets {
		rep.Targets[i].URL = r.plan.Targets[i].URL
		if err := r.warmTarget(ctx, i, &rep.Targets[i]); err != nil {
			return r.unlessStopped(err)
		}
	}
	for i := range r.plan.Targets {
		t, w := &r.plan.Targets[i], &rep.Targets[i]
		n := r.plan.connections(&w.Connections[0], r.latency(w)) - 1
		if r.plan.ahead() {
			r.ahead.start(i, 1+max(n, 0), r.plan.streams(&w.Connections[0]))
		}
		if n <= 0 {
			continue
		}
		facts, err := r.Transport.Open(ctx, t.Wire, n, r.probe(t, r.plan.open()))
		w.Connections = append(w.Connections, facts...)
		if err != nil {
			return r.unlessStopped(&PrewarmError{URL: t.URL, Wire: asWire(err), Msg: fmt.Sprintf(
				"the first connection opened, but not %d more: %s; lower --concurrency, or raise the limits on connections and open files", n, reason(err))})
		}
	}
	rep.End = r.Clock.Now()
	return nil
}

// latency is how long a request of the run will take on a target, from its throwaway inference; 0 = not known.
func (r *run) latency(w *TargetWarmth) time.Duration {
	pw := &r.plan.Prewarm
	if !w.Proven || len(w.Inferences) == 0 {
		return 0
	}
	inf := &w.Inferences[len(w.Inferences)-1]
	tokens := inf.Latency - inf.TTFT
	if pw.Output > 0 && pw.MaxTokens > 0 {
		tokens = int64(float64(tokens) * float64(pw.Output) / float64(pw.MaxTokens))
	}
	return time.Duration(inf.TTFT + tokens)
}

// unlessStopped drops an error that is only the user's stop seen from inside.
func (r *run) unlessStopped(err error) error {
	if stopped(r.Stop) {
		return nil
	}
	return err
}

func (r *run) probe(t *Target, spare bool) wire.Probe {
	return wire.Probe{Path: t.ProbePath, Spare: spare}
}

func (r *run) warmTarget(ctx context.Context, i int, w *TargetWarmth) error {
	t := &r.plan.Targets[i]
	facts, err := r.Transport.Open(ctx, t.Wire, 1, r.probe(t, false))
	if err != nil {
		return &PrewarmError{URL: t.URL, Wire: asWire(err), Msg: "no connection: " + reason(err) + "; " + connectHint(err)}
	}
	w.Connections = facts
	if err := r.models(ctx, t, w); err != nil {
		return err
	}
	proven, err := r.prove(ctx, t, w, r.plan.Prewarm.Model, r.plan.Prewarm.Learn)
	for _, model := range r.plan.Prewarm.Others {
		if err != nil {
			return err
		}
		var too bool
		too, err = r.prove(ctx, t, w, model, nil)
		proven = proven && too
	}
	if w.Proven = proven; proven {
		r.warm[i].Store(true)
	}
	return err
}

// learn is Prewarm.Learn.
type learn = func(ctx context.Context, ours, server metrics.Count) (again bool, err error)

// prove sends throwaways to one model until one has succeeded, and reports whether one has.
func (r *run) prove(ctx context.Context, t *Target, w *TargetWarmth, model string, learn learn) (proven bool, err error) {
	for try := 1; try <= prewarmTries; try++ {
		inf, status, err := r.infer(ctx, t, model)
		if err != nil {
			return false, &PrewarmError{URL: t.URL, Msg: err.Error()}
		}
		w.Inferences = append(w.Inferences, inf)
		if inf.Err == nil {
			proven = true
			again := false
			if learn != nil {
				if again, err = learn(ctx, inf.Input, inf.Server); err != nil {
					return true, &PrewarmError{URL: t.URL, Msg: err.Error()}
				}
			}
			if !again || try == prewarmTries {
				return true, r.fits(t, w, model, &inf)
			}
			continue
		}
		if ctx.Err() != nil {
			return proven, ctx.Err()
		}
		if fatal := r.refused(t, w, model, &inf, status); fatal != nil {
			return proven, fatal
		}
		if try < prewarmTries {
			if err := r.Clock.Until(ctx, r.Clock.Now()+int64(try)*retryPause); err != nil {
				return proven, err
			}
		}
	}
	return proven, nil
}

// retryPause is the wait before the second try of a throwaway; before the third it is twice as long.
const retryPause = 500_000_000

// refused reports what ends the run: an answer that every request of the run would get too. A busy or broken server (429, 5xx, a broken or
// empty stream, a timeout) is none of these.
func (r *run) refused(t *Target, w *TargetWarmth, model string, inf *Inference, status int) error {
	pw := &r.plan.Prewarm
	said, msg := inf.Err.Message, ""
	path, _, _ := strings.Cut(t.Wire.Path, "?") // a query may hold a key
	if pw.ErrorText != nil {
		said = pw.ErrorText(said)
	}
	if status == 400 && pw.ContextFigures != nil {
		if limit, asked, ok := pw.ContextFigures(said); ok {
			fits := fmt.Sprintf("is %d tokens at least by the server's own count (its chat template in it), and max_model_len is %d", asked, limit)
			if asked == 0 {
				fits = fmt.Sprintf("does not fit into max_model_len, which is %d", limit)
			}
			return &PrewarmError{URL: t.URL, Msg: fmt.Sprintf(
				"the context of model %q is too small: a prompt of %d tokens by our count, with %d output tokens for the throwaway, %s; %s; the server said: %s",
				model, inf.Input.N, pw.MaxTokens, fits, contextHint, said)}
		}
	}
	switch {
	case status == 401 || status == 403:
		msg = "check --api-key"
	case status == 404:
		msg = fmt.Sprintf("check --model (%q was asked for%s) and the path (%s)", model, listed(w.Listed), path)
	case status >= 300 && status < 400:
		msg = "redirects are not followed: give the final address with --url"
	case status >= 400 && status < 500 && status != 429 && status != 408:
		msg = "every request of this run would be refused so; change the request it complains of"
		if w.MaxModelLen > 0 {
			msg += fmt.Sprintf(" (the prompt has %d tokens by our count, the model's max_model_len is %d)", inf.Input.N, w.MaxModelLen)
		}
	default:
		return nil
	}
	return &PrewarmError{URL: t.URL + path, Msg: fmt.Sprintf("answered %d %s: %s; %s", status, inf.Err.Type, said, msg)}
}

const contextHint = "ask for shorter prompts or fewer output tokens, or serve the model with a larger --max-model-len"

func listed(ids []string) string {
	if len(ids) == 0 {
		return ""
	}
	if len(ids) > 5 {
		ids = append(slices.Clone(ids[:5]), "...")
	}
	return "; the server lists: " + strings.Join(ids, ", ")
}

// fits checks the run's longest request against the model's context, by the server's own count: the throwaway's usage gives the ratio.
func (r *run) fits(t *Target, w *TargetWarmth, model string, inf *Inference) error {
	pw := &r.plan.Prewarm
	if w.MaxModelLen == 0 || pw.Input == 0 || !inf.Server.Known || !inf.Input.Known || inf.Input.N == 0 {
		return nil
	}
	prompt := (int64(pw.Input)*inf.Server.N + inf.Input.N - 1) / inf.Input.N
	if prompt+int64(pw.Output) <= int64(w.MaxModelLen) {
		return nil
	}
	return &PrewarmError{URL: t.URL, Msg: fmt.Sprintf(
		"the context of model %q is too small: a prompt of %d tokens by our count is %d by the server's own (its chat template in it), with %d output tokens %d in all, "+
			"and max_model_len is %d; %s",
		model, pw.Input, prompt, pw.Output, prompt+int64(pw.Output), w.MaxModelLen, contextHint)}
}

// models asks for the model list. Whatever goes wrong with it is no reason not to run: the throwaway decides.
func (r *run) models(ctx context.Context, t *Target, w *TargetWarmth) error {
	if r.plan.Prewarm.Models == nil || t.ModelsPath == "" {
		return nil
	}
	c := &wire.Call{Target: t.Wire, Method: "GET", Path: t.ModelsPath, Parser: noContent{}, Keep: wire.KeepRaw, Timeout: r.plan.Prewarm.Timeout}
	if err := r.do(ctx, c); err != nil {
		return err
	}
	if c.Facts.Status != 200 {
		return nil
	}
	list, err := r.plan.Prewarm.Models(c.Raw)
	if err != nil {
		return nil
	}
	pw := &r.plan.Prewarm
	for _, m := range list {
		w.Listed = append(w.Listed, m.ID)
		asked := m.ID == pw.Model || slices.Contains(pw.Others, m.ID)
		if asked && m.MaxLen > 0 && (w.MaxModelLen == 0 || m.MaxLen < w.MaxModelLen) { // the smallest is where a prompt may not fit
			w.MaxModelLen = m.MaxLen
		}
	}
	return nil
}

// infer sends one throwaway inference to a model. err is set where no prompt could be made.
func (r *run) infer(ctx context.Context, t *Target, model string) (inf Inference, status int, err error) {
	sess, err := r.Source.Next(ctx, Stream{Kind: metrics.Warmup, Phase: -1})
	if err != nil {
		return inf, 0, fmt.Errorf("no prompt for the throwaway inference: %w", err)
	}
	turn := sess.Turns[0]
	turn.MaxTokens = r.plan.Prewarm.MaxTokens
	turn.Model = model
	body, err := r.Endpoint.AppendBody(nil, &turn, nil)
	if err != nil {
		return inf, 0, fmt.Errorf("no body for the throwaway inference: %w", err)
	}
	c := &wire.Call{
		Target: t.Wire, Header: r.Header(nil, r.NewID(), r.NewID()), Body: body, Parser: r.Endpoint.Parser(),
		Timeout: r.plan.Prewarm.Timeout, MaxChunks: turn.MaxTokens,
	}
	if err := r.do(ctx, c); err != nil {
		return inf, 0, err
	}
	if a, ok := r.Endpoint.(Amender); ok && c.Facts.Err != nil && turn.Raw == nil {
		if c.Body, ok = a.Amend(nil, body, c.Facts.Status, c.Facts.Err.Message); ok {
			if err := r.do(ctx, c); err != nil {
				return inf, 0, err
			}
		}
	}
	var rec metrics.Record
	fill(&rec, c)
	inf = Inference{Latency: rec.End - rec.Start, Input: turn.Input, Cold: rec.Cold, Err: rec.Err}
	if rec.First != 0 {
		inf.TTFT = rec.First - rec.Start
	}
	if u, ok := r.Endpoint.Usage(c.Usage); ok {
		inf.Server = u.Prompt
	}
	return inf, c.Facts.Status, nil
}

// do sends c and waits for its end.
func (r *run) do(ctx context.Context, c *wire.Call) error {
	done := waiter(make(chan struct{}, 1))
	c.Obs = done
	gen := r.Transport.Start(c)
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		r.Transport.Cancel(c, gen, wire.ByUser)
		<-done
		return ctx.Err()
	}
}

type waiter chan struct{}

func (waiter) First(*wire.Call)  {}
func (w waiter) Done(*wire.Call) { w <- struct{}{} }

// noContent reads answers that are no inference.
type noContent struct{}

func (noContent) Event(_, _ []byte, _ *wire.Delta) wire.Class { return wire.Other }
func (noContent) Body(_ []byte, _ *wire.Delta) wire.Class     { return wire.Other }

func asWire(err error) *wire.Error {
	var e *wire.Error
	errors.As(err, &e)
	return e
}

func reason(err error) string {
	if e := asWire(err); e != nil {
		return e.Message
	}
	return err.Error()
}

func connectHint(err error) string {
	e := asWire(err)
	switch {
	case e == nil:
		return "check --url"
	case strings.Contains(e.Type, "DNS"):
		return "check the host name in --url"
	case strings.Contains(e.Type, "Certificate"):
		return "the server's certificate is not trusted by this system: give its issuer's certificate with --ca-file, or set SSL_CERT_FILE to it"
	case strings.Contains(e.Message, "does not speak TLS"):
		return "if the server speaks plain HTTP, give --url with http://"
	case e.Type == "ServerDisconnectedError":
		return "check --url; if the server speaks TLS, give it with https://"
	default:
		return "check --url, and that the server is up"
	}
}
