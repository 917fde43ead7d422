package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
)

// ReadRecords reads the profile_export.jsonl of prefire or aiperf: the requests of profiling phases that succeeded, and how many did not.
func ReadRecords(r io.Reader) (out []Measured, failed int, err error) {
	type value struct {
		Value *float64 `json:"value"`
	}
	err = lines(r, func(line []byte) error {
		var rec struct {
			Metadata struct {
				ID    string `json:"x_request_id"`
				Start int64  `json:"request_start_ns"`
				Phase string `json:"benchmark_phase"`
			} `json:"metadata"`
			Metrics struct {
				TTFT   value `json:"time_to_first_token"`
				ITL    value `json:"inter_token_latency"`
				Tokens value `json:"output_sequence_length"`
			} `json:"metrics"`
			Error   json.RawMessage `json:"error"`
			Prefire *struct {
				TTFTSlack float64 `json:"ttft_slack_us"`
				LastSlack float64 `json:"last_slack_us"`
			} `json:"prefire"`
		}
		if err := json.Unmarshal(line, &rec); err != nil {
			return fmt.Errorf("profile_export.jsonl: %w", err)
		}
		if rec.Metadata.Phase != "profiling" {
			return nil
		}
		if len(rec.Error) > 0 && string(rec.Error) != "null" {
			failed++
			return nil
		}
		m := Measured{ID: rec.Metadata.ID, Start: rec.Metadata.Start, TTFT: ns(rec.Metrics.TTFT.Value), ITL: ns(rec.Metrics.ITL.Value)}
		if p := rec.Prefire; p != nil {
			m.Stated, m.TTFTBound = true, p.TTFTSlack*1e3
			if n := rec.Metrics.Tokens.Value; n != nil && *n > 1 {
				m.ITLBound = max(p.TTFTSlack, p.LastSlack) * 1e3 / (*n - 1)
			}
		}
		out = append(out, m)
		return nil
	})
	return out, failed, err
}

// ns is a time in ms as ns; NaN where it is absent.
func ns(ms *float64) float64 {
	if ms == nil {
		return math.NaN()
	}
	return *ms * 1e6
}

// ReadVLLMBench reads the detailed result of vllm-bench: its requests are numbered in the order of its lists, after prefix.
func ReadVLLMBench(r io.Reader, prefix string) (out []Measured, failed int, err error) {
	var res struct {
		TTFTs  []float64   `json:"ttfts"`  // s
		ITLs   [][]float64 `json:"itls"`   // s
		Errors []string    `json:"errors"` // "" where there is none
	}
	if err := json.NewDecoder(r).Decode(&res); err != nil {
		return nil, 0, fmt.Errorf("vllm-bench's result: %w", err)
	}
	if len(res.ITLs) != len(res.TTFTs) || len(res.Errors) != len(res.TTFTs) {
		return nil, 0, fmt.Errorf("vllm-bench's result: %d TTFTs, %d lists of gaps, %d errors: was it run with --save-detailed?",
			len(res.TTFTs), len(res.ITLs), len(res.Errors))
	}
	for i, ttft := range res.TTFTs {
		if res.Errors[i] != "" {
			failed++
			continue
		}
		m := Measured{ID: prefix + strconv.Itoa(i), TTFT: ttft * 1e9, ITL: math.NaN()}
		if gaps := res.ITLs[i]; len(gaps) > 0 {
			sum := 0.
			for _, g := range gaps {
				sum += g
			}
			m.ITL = sum / float64(len(gaps)) * 1e9
		}
		out = append(out, m)
	}
	return out, failed, nil
}
