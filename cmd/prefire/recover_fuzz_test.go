package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"prefire/metrics"
)

// Whatever is on disk, what recover makes of it can be read, and the counts agree.
func FuzzRecover(f *testing.F) {
	const one = `{"record":{"Seq":1,"ConversationID":"s","RequestID":"r","Issued":5,"Start":6,"Ready":6,"Ack":7,"First":8,"Last":9,"End":10,"Gaps":[1],"Chunks":2,"Streaming":true,` +
		`"In":{"N":3,"Known":true},"HTTP":{"FirstWrite":6,"Status":200,"Local":"127.0.0.1:1"}},"output":"a b"}` + "\n"
	f.Add([]byte(one+one+one[:40]), []byte(`{"data":[{"session_id":"a","payloads":[{"x":1}]},{"sess`))
	f.Add([]byte(`{"record":{"Phase":1,"Kind":1,"Err":{"code":500,"type":"T","message":"m"}}}`+"\n"), []byte(`{"data":[]}`))
	f.Add([]byte(`{"record":{"Censored":true,"CancelledAt":-1}}`+"\n{}\n\x00\n"), []byte("{"))
	f.Fuzz(func(t *testing.T, journal, inputs []byte) {
		dir := t.TempDir()
		note, err := json.Marshal(runNote{Phases: []notedPhase{{Name: "profiling"}, {Name: "warm", Kind: metrics.Warmup}}, Metrics: metrics.Options{Streaming: true, HDR: true}})
		if err != nil {
			t.Fatal(err)
		}
		for name, data := range map[string][]byte{journalFile: journal, noteFile: note, ".inputs.json.tmp": inputs} {
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		var out, said locked
		if err := recoverRun(process{args: []string{"prefire"}, stdout: &out, stderr: &said, env: func(string) (string, bool) { return "", false }}, dir); err != nil {
			if !strings.Contains(err.Error(), "holds no finished request") {
				t.Fatal(err)
			}
			return
		}
		var sum struct {
			Prefire struct {
				Counts struct{ Sent, Censored int64 }
			}
		}
		readJSON(t, filepath.Join(dir, "profile_export_aiperf.json"), &sum)
		lines := 0
		for _, name := range []string{"profile_export.jsonl", "profile_export_censored.jsonl"} {
			data, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			for _, line := range bytes.SplitAfter(data, []byte("\n")) {
				if len(line) == 0 {
					continue
				}
				if !json.Valid(line) || line[len(line)-1] != '\n' {
					t.Fatalf("%s has the line %q", name, line)
				}
				if bytes.Contains(line, []byte(`"benchmark_phase":"profiling"`)) {
					lines++
				}
			}
		}
		if int64(lines) != sum.Prefire.Counts.Sent {
			t.Fatalf("%d records of profiling, %+v", lines, sum.Prefire.Counts)
		}
		var in struct{ Data []any }
		readJSON(t, filepath.Join(dir, "inputs.json"), &in)
	})
}
