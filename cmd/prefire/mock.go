package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"prefire/internal/fakellm"
	"prefire/tokenize"
)

// mockFlags are the flags of `prefire mock` that are not fakellm's own options.
type mockFlags struct {
	host, log, certOut, tokenizer string
	port                          int
	faults                        []string
}

// mockCommand is `prefire mock`: the built-in server, until a signal ends it.
func mockCommand(p process) *cobra.Command {
	var o fakellm.Options
	var m mockFlags
	cmd := &cobra.Command{
		Use:   "mock",
		Short: "Serve a vLLM-like endpoint with exact, adjustable timing",
		Long: `mock serves /v1/chat/completions, /v1/completions, /v1/embeddings, /v1/models, /tokenize, /detokenize, /health and /metrics as vLLM 0.32
does, without a model: the answer is plain words of one token each, or vectors of 64 numbers. The first token is due --ttft plus --prefill-per-token for each token of the prompt after the
request's last byte arrived; each further token --itl later. Durations have a unit: 20us, 5ms, 1.5s, 2m.

--log writes one JSON line for each request: when its last byte arrived (the kernel's stamp), on which connection, and for each part of
the answer when it was due and the times before and after its write, in ns since 1970 on this machine's wall clock. Hold the numbers
of a load generator on the same machine against it.

--fault does wrong to a share of the requests, or of the connections: NAME[=ARGUMENT[,KEY=VALUE...]][:SHARE], as in status=503:0.1 or
cut=rst,at=3. Without a share all are harmed; no request has more than one fault. Which are depends on --seed and the request's body
alone. Every fault takes after=N (it leaves the first N requests alone) and times=N (it harms the same request N times, then lets it
pass), and path=/p for requests other than inference. --fault list prints all faults. The log names each request's.

It prints its address on stdout when it listens, and ends on Ctrl-C.`,
		Example: `  prefire mock --port 8000 --ttft 185ms --itl 5ms
  prefire mock --ttft 40ms --prefill-per-token 60us --knee 2048 --knee-factor 2.5 --slots 8
  prefire mock --fault status=429,retry-after=1:0.1 --fault cut=rst,at=3:0.1 --seed 7 --log requests.jsonl
  prefire mock --tls --tls-cert-out cert.pem --cold-tls 700ms --close-after 4 --log requests.jsonl`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return serveMock(cmd.Context(), p, o, m) },
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&m.host, "host", "127.0.0.1", "address or name to listen on")
	f.IntVar(&m.port, "port", 0, "port to listen on; 0 = any free one")
	f.StringArrayVar(&o.Models, "model", nil, "name served, any other gets 404; may be given several times; none given = every name is served")
	f.IntVar(&o.MaxModelLen, "max-model-len", fakellm.DefaultMaxModelLen, "context length in tokens")
	f.StringVar(&o.APIKey, "api-key", "", "key that everything under /v1 asks for")
	f.StringVar(&m.tokenizer, "tokenizer", "builtin", "tokenizer that counts prompts: "+strings.Join(tokenize.Names(), ", ")+", a tokenizer.json or a folder with one, or a model in the hub cache")
	f.IntVar(&o.UsageExtra, "usage-extra", 0, "tokens added to each prompt's count, as a chat template adds them")
	f.BoolVar(&o.NoTokenize, "no-tokenize", false, "have no /tokenize and /detokenize, as servers other than vLLM")
	f.DurationVar(&o.TTFT, "ttft", 0, "time to first token of an empty prompt")
	f.DurationVar(&o.PrefillPerToken, "prefill-per-token", 0, "time added to TTFT for each token of the prompt")
	f.IntVar(&o.Knee, "knee", 0, "prompts of so many tokens and more take --knee-factor times as long to first token; 0 = none")
	f.Float64Var(&o.KneeFactor, "knee-factor", 2, "factor on the whole TTFT from --knee on")
	f.DurationVar(&o.ITL, "itl", 0, "time between tokens")
	f.Float64Var(&o.Jitter, "jitter", 0, "spread of TTFT and of each gap: 0.1 = evenly within 10 % of it; below 1")
	f.Uint64Var(&o.Seed, "seed", 0, "seed of the jitter and of the faults")
	f.DurationVar(&o.Stall, "stall", 0, "time for which each answer stands still after --stall-after tokens")
	f.IntVar(&o.StallAfter, "stall-after", 0, "tokens of an answer after which it stands still for --stall")
	f.IntVar(&o.OutputTokens, "output-tokens", 0,
		"tokens after which an answer ends by itself, unless the request says ignore_eos; 0 = as many as asked for, or "+
			strconv.Itoa(fakellm.DefaultOutputTokens)+" where none are")
	f.IntVar(&o.TokensPerChunk, "tokens-per-chunk", 1, "tokens in each chunk of a stream")
	f.IntVar(&o.Slots, "slots", 0, "requests that are worked on at once, the others wait in order; 0 = no limit")
	f.IntVar(&o.Refuse, "refuse", 0, "answer a request that finds no free slot with this status, 429 or 503, instead of letting it wait")
	f.DurationVar(&o.ColdConnection, "cold-connection", 0, "delay of the first request on each connection")
	f.DurationVar(&o.ColdTLS, "cold-tls", 0, "delay of each TLS handshake")
	f.DurationVar(&o.ColdInference, "cold-inference", 0, "delay of the server's first inference, which the others wait for")
	f.IntVar(&o.CloseAfter, "close-after", 0, "answers after which a connection closes, probes counted; 0 = never")
	f.DurationVar(&o.KeepAlive, "keep-alive", fakellm.DefaultKeepAlive, "idle time after which a used connection closes; below 0 = never")
	f.BoolVar(&o.TLS, "tls", false, "HTTPS with a certificate made at start, HTTP/1.1")
	f.BoolVar(&o.H2, "h2", false, "HTTPS with HTTP/2 (by ALPN) beside HTTP/1.1")
	f.BoolVar(&o.H2C, "h2c", false, "HTTP/2 in the clear (prior knowledge) beside HTTP/1.1")
	f.Uint32Var(&o.MaxStreams, "max-streams", 250, "streams at once on an HTTP/2 connection")
	f.StringArrayVar(&m.faults, "fault", nil, "fault to do to a share of the requests; may be given several times; list = print them all")
	f.BoolVar(&o.FaultHeader, "fault-header", false, "let a request ask for a fault by its header "+fakellm.FaultHeader)
	f.StringVar(&m.certOut, "tls-cert-out", "", "file to write the certificate to (PEM), for clients to trust")
	f.StringVar(&m.log, "log", "", "file to write the log to (JSONL); a file that exists is replaced")
	return cmd
}

// serveMock serves until a signal comes.
func serveMock(ctx context.Context, p process, o fakellm.Options, m mockFlags) (err error) {
	for _, text := range m.faults {
		if text == "list" {
			fmt.Fprint(p.stdout, fakellm.Faults())
			return nil
		}
		f, err := fakellm.ParseFault(text)
		if err != nil {
			return fmt.Errorf("--fault: %w", err)
		}
		o.Faults = append(o.Faults, f)
	}
	if m.port < 0 || m.port > 65535 {
		return fmt.Errorf("--port is %d; it must be from 0 (any free port) to 65535", m.port)
	}
	if m.certOut != "" && !o.TLS && !o.H2 {
		return errors.New("--tls-cert-out needs --tls or --h2: without them there is no certificate")
	}
	p.hideSecrets(o.APIKey)
	counter, err := tokenize.FromEnv(p.env, os.ReadFile, "").Open(m.tokenizer)
	if err != nil {
		return err
	}
	o.Clock, o.Counter = newClock(), counter
	if m.log != "" {
		// Appending lets a user empty the file between two runs.
		f, err := os.OpenFile(m.log, os.O_CREATE|os.O_TRUNC|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return fmt.Errorf("--log: %w", err)
		}
		defer closeInto(&err, f)
		o.Log = f
	}
	s, err := fakellm.New(o)
	if err != nil {
		return err
	}
	defer closeInto(&err, s)
	if m.certOut != "" {
		if err := os.WriteFile(m.certOut, s.CertPEM(), 0o644); err != nil {
			return fmt.Errorf("--tls-cert-out: %w", err)
		}
	}
	if err := s.Start(ctx, net.JoinHostPort(m.host, strconv.Itoa(m.port))); err != nil {
		return err
	}
	fmt.Fprintf(p.stdout, "prefire mock: listening on %s (%s)\n", s.URL(), describeMock(o, m.faults))
	select {
	case <-p.signals:
	case <-ctx.Done():
	}
	return nil
}

// closeInto closes c and keeps its error where there is none yet.
func closeInto(err *error, c io.Closer) {
	if cerr := c.Close(); *err == nil {
		*err = cerr
	}
}

// describeMock names the settings that matter for timing, and those that are not as they are by default.
func describeMock(o fakellm.Options, faults []string) string {
	parts := []string{fmt.Sprintf("ttft %v", o.TTFT)}
	add := func(shown bool, format string, args ...any) {
		if shown {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	add(o.PrefillPerToken > 0, "+ %v per prompt token", o.PrefillPerToken)
	add(o.Knee > 0, "x %v from %d tokens", o.KneeFactor, o.Knee)
	add(true, "itl %v", o.ITL)
	add(o.Jitter > 0, "jitter %v seed %d", o.Jitter, o.Seed)
	add(o.Stall > 0, "stall %v after %d tokens", o.Stall, o.StallAfter)
	add(o.TokensPerChunk > 1, "%d tokens a chunk", o.TokensPerChunk)
	add(o.Slots > 0 && o.Refuse == 0, "%d slots, then a queue", o.Slots)
	add(o.Slots > 0 && o.Refuse > 0, "%d slots, then %d", o.Slots, o.Refuse)
	for _, d := range []struct {
		name string
		v    time.Duration
	}{{"connection", o.ColdConnection}, {"TLS", o.ColdTLS}, {"inference", o.ColdInference}} {
		add(d.v > 0, "cold %s %v", d.name, d.v)
	}
	add(o.CloseAfter > 0, "close after %d answers", o.CloseAfter)
	add(o.KeepAlive > 0, "keep-alive %v", o.KeepAlive)
	add(o.APIKey != "", "API key asked for")
	add(o.NoTokenize, "no /tokenize")
	add(len(faults) > 0, "faults %s", strings.Join(faults, " "))
	add(o.FaultHeader, "faults by header")
	models := strings.Join(o.Models, ", ")
	if models == "" {
		models = "any"
	}
	return strings.Join(append(parts, "model "+models), ", ")
}
