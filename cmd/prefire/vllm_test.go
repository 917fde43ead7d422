//go:build !race

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"prefire/tokenize"
)

// TestAgainstVLLM runs the main job against a real vLLM with a tiny model on the CPU, and holds the counts against the server's own metrics.
// (It starts a server that takes half a minute and a core; the race detector's run leaves it out.)
func TestAgainstVLLM(t *testing.T) {
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	peers := filepath.Join(home, ".cache", "peers")
	if dir := os.Getenv("PEERS"); dir != "" {
		peers = dir
	}
	vllm, model := filepath.Join(peers, "vllm", "bin", "vllm"), filepath.Join(peers, "tinymodel")
	for _, need := range []string{vllm, filepath.Join(peers, "vllm", "done"), filepath.Join(model, "tokenizer.json")} {
		if _, err := os.Stat(need); err != nil {
			t.Skipf("SKIP: there is no vLLM here: %v", err)
		}
	}
	url := serveVLLM(t, vllm, model)
	before := vllmCounters(t, url)
	dir := t.TempDir()
	must(t, "profile", "--model", "tiny", "--url", url, "--streaming", "--tokenizer", "builtin", "--isl", "512", "--osl", "16",
		"--extra-inputs", "ignore_eos:true", "--concurrency", "2", "--request-count", "20", "--no-gpu-telemetry", "--no-server-metrics", "--ui", "none",
		"--artifact-dir", dir)
	after := vllmCounters(t, url)
	sum := readSummary(t, dir)
	if sum.Requests.Avg != 20 || sum.ISL.Min != 512 || sum.ISL.Max != 512 || sum.Prefire.Cold.Count != 0 || sum.Prefire.Counts.Failed != 0 || sum.TTFT.Count != 20 {
		t.Errorf("%v requests, ISL %v to %v, %d cold, %d failed, %d measured; want 20, 512, 0, 0, 20",
			sum.Requests.Avg, sum.ISL.Min, sum.ISL.Max, sum.Prefire.Cold.Count, sum.Prefire.Counts.Failed, sum.TTFT.Count)
	}
	// The throwaway is one inference more, of 8 output tokens.
	throwaway := sum.Prefire.Prewarm.Targets[0].Inferences[0]
	prompts := sum.UsagePrompt.Avg*20 + throwaway.UsagePrompt
	for name, want := range map[string]float64{"vllm:time_to_first_token_seconds_count": 21, "vllm:prompt_tokens_total": prompts, "vllm:generation_tokens_total": 20*16 + 8} {
		if got := after[name] - before[name]; got < want-0.5 || got > want+0.5 {
			t.Errorf("%s rose by %v, want %v", name, got, want)
		}
	}
	// The client cannot see a token before the server has made it; how much later it sees it is in docs/vllm.md.
	server := 1e3 * (after["vllm:time_to_first_token_seconds_sum"] - before["vllm:time_to_first_token_seconds_sum"]) / 21
	if sum.TTFT.Max < server {
		t.Errorf("no TTFT reaches the server's own average: %v ms at most, %v ms", sum.TTFT.Max, server)
	}
	lengthsOnVLLM(t, url, model)
	completionsOnVLLM(t, url, model)
}

// completionsOnVLLM holds completions, of one prompt and of three in a request, against the server's own counts.
func completionsOnVLLM(t *testing.T, url, model string) {
	t.Helper()
	for _, batch := range []float64{1, 3} {
		dir, before := t.TempDir(), vllmCounters(t, url)
		must(t, "profile", "--model", "tiny", "--url", url, "--endpoint-type", "completions", "--streaming", "--tokenizer", model, "--isl", "64", "--osl", "4",
			"--batch-size", strconv.Itoa(int(batch)), "--extra-inputs", "ignore_eos:true", "--concurrency", "2", "--request-count", "10", "--ui", "none",
			"--artifact-dir", dir)
		sum, after := readSummary(t, dir), vllmCounters(t, url)
		if sum.Requests.Avg != 10 || sum.TTFT.Count != 10 || sum.UsagePrompt.Min != 64*batch || sum.UsagePrompt.Max != 64*batch {
			t.Errorf("%v prompts a request: %v requests, %d measured, %v to %v tokens by the server's count, %v to %v by ours", batch, sum.Requests.Avg, sum.TTFT.Count,
				sum.UsagePrompt.Min, sum.UsagePrompt.Max, sum.ISL.Min, sum.ISL.Max)
		}
		// As in aiperf, our count is that of all texts, joined by spaces; the server counts each by itself.
		least, most := joinedLengths(t, filepath.Join(dir, "inputs.json"), model)
		if batch == 1 && (least != 64 || most != 64) || sum.ISL.Min != float64(least) || sum.ISL.Max != float64(most) {
			t.Errorf("%v prompts a request: %v to %v tokens by our count, the bodies have %d to %d", batch, sum.ISL.Min, sum.ISL.Max, least, most)
		}
		// The throwaway is one request more.
		if got := after["vllm:prompt_tokens_total"] - before["vllm:prompt_tokens_total"]; got != 11*64*batch {
			t.Errorf("%v prompts a request: the server took %v prompt tokens, want %v", batch, got, 11*64*batch)
		}
	}
}

// joinedLengths counts the prompts of all bodies in an inputs.json.
func joinedLengths(t *testing.T, path, model string) (least, most int) {
	t.Helper()
	tokens, err := tokenize.FromEnv(os.LookupEnv, os.ReadFile, "").Open(model)
	if err != nil {
		t.Fatal(err)
	}
	var inputs struct {
		Data []struct {
			Payloads []struct{ Prompt json.RawMessage }
		}
	}
	readJSON(t, path, &inputs)
	for _, d := range inputs.Data {
		for _, p := range d.Payloads {
			var texts []string
			if json.Unmarshal(p.Prompt, &texts) != nil {
				texts = make([]string, 1)
				if err := json.Unmarshal(p.Prompt, &texts[0]); err != nil {
					t.Fatal(err)
				}
			}
			n := tokens.Count([]byte(strings.Join(texts, " ")))
			if least == 0 || n < least {
				least = n
			}
			most = max(most, n)
		}
	}
	return least, most
}

// lengthsOnVLLM holds the server's count of every prompt against the length asked for, with the chat template in the length and with the
// model's own tokenizer, at hand or the server's.
func lengthsOnVLLM(t *testing.T, url, model string) {
	t.Helper()
	for _, c := range []struct {
		tokenizer string
		isl       float64
	}{{model, 64}, {model, 512}, {model, 2048}, {serverTokenizer, 64}, {serverTokenizer, 2048}} {
		dir, isl := t.TempDir(), c.isl
		must(t, "profile", "--model", "tiny", "--url", url, "--streaming", "--tokenizer", c.tokenizer, "--apply-chat-template", "--isl", strconv.Itoa(int(isl)), "--osl", "2",
			"--extra-inputs", "ignore_eos:true", "--concurrency", "2", "--request-count", "10", "--ui", "none", "--artifact-dir", dir)
		sum, facts := readSummary(t, dir), readPrompts(t, dir)
		if sum.UsagePrompt.Min != isl || sum.UsagePrompt.Max != isl || sum.ISL.Min != isl || sum.ISL.Max != isl || facts.Server.Compared != 10 {
			t.Errorf("%s, %v tokens asked for: %v to %v by our count, %v to %v by the server's; %+v", c.tokenizer, isl, sum.ISL.Min, sum.ISL.Max, sum.UsagePrompt.Min, sum.UsagePrompt.Max, facts)
		}
	}
}

// serveVLLM starts the server on a free port, waits until it answers, and stops it with the test.
func serveVLLM(t *testing.T, vllm, model string) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, vllm, "serve", model, "--served-model-name", "tiny", "--load-format", "dummy", "--host", "127.0.0.1",
		"--port", strconv.Itoa(port), "--max-model-len", "8192", "--enforce-eager")
	cmd.Env = append(os.Environ(), "VLLM_CPU_KVCACHE_SPACE=1", "OMP_NUM_THREADS=1", "HF_HUB_OFFLINE=1", "VLLM_NO_USAGE_STATS=1")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it stops its engine's process
	cmd.WaitDelay = 30 * time.Second
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	up := make(chan bool, 1)
	var last []string
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if last = append(last, lines.Text()); len(last) > 40 {
				last = last[1:]
			}
			if strings.Contains(lines.Text(), "Application startup complete") {
				up <- true
			}
		}
		up <- false
	}()
	t.Cleanup(func() {
		cancel()
		<-read
		_ = cmd.Wait()
	})
	if !<-up {
		<-read
		t.Fatalf("vLLM did not start:\n%s", strings.Join(last, "\n"))
	}
	// It says so right before it listens.
	for tick := time.NewTicker(50 * time.Millisecond); ; {
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			tick.Stop()
			_ = c.Close()
			return fmt.Sprintf("http://127.0.0.1:%d", port)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("vLLM does not listen: %v", err)
		}
	}
}

// vllmCounters are the server's own metrics, by name, their labels' values added up.
func vllmCounters(t *testing.T, url string) map[string]float64 {
	t.Helper()
	resp, err := http.Get(url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for line := range strings.Lines(string(body)) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		if v, err := strconv.ParseFloat(value[strings.LastIndexByte(value, ' ')+1:], 64); err == nil {
			name, _, _ = strings.Cut(name, "{")
			out[name] += v
		}
	}
	return out
}
