package export

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"prefire/metrics"
)

// The published schemas are made from the definition table by `go test ./internal/export -run Schema -schema.write`.
var writeSchema = flag.Bool("schema.write", false, "write docs/schema anew")

const schemaDir = "../../docs/schema"

type object = map[string]any

func textOf(doc string) object { return object{"type": "string", "description": doc} }

// figures are the properties of a metric's object, and those that must be there.
func figures(d *metrics.Def) object {
	props := object{"unit": object{"const": string(d.Display)}, "avg": object{"type": "number"}}
	required := []string{"unit", "avg"}
	stats := func(names ...string) {
		for _, n := range names {
			props[n] = object{"type": "number"}
			required = append(required, n)
		}
	}
	names := percentileNames()
	switch {
	case d.Shape == metrics.PerRecord || d.Shape == metrics.PerGap:
		stats(append(names[:], "min", "max", "std", "sum")...)
		props["count"] = object{"type": "integer", "minimum": 1}
		required = append(required, "count")
	case d.Shape == metrics.Curve:
		stats("p50", "p90", "p95", "p99", "min", "max", "std")
	case strings.HasPrefix(d.Tag, "adj_"):
		for _, n := range names {
			props[n] = object{"type": "number"}
		}
		delete(props, "avg")
		props["min"], props["count"] = object{"type": "number"}, object{"type": "integer", "minimum": 2}
		required = []string{"unit", "min", "count"}
	case d.Shape == metrics.Restated && d.Flags&metrics.Network != 0:
		stats(append(names[:], "min", "max", "std", "sum")...)
	}
	return object{"type": "object", "description": d.Doc, "properties": props, "required": required, "additionalProperties": false}
}

// shown are the metrics that files can have.
func shown() []*metrics.Def {
	var defs []*metrics.Def
	for _, d := range metrics.Table() {
		if !d.Has(metrics.Internal) {
			defs = append(defs, d)
		}
	}
	return defs
}

func errorSchema() object {
	return object{"type": "object", "required": []string{"message"}, "additionalProperties": false, "properties": object{
		"code": object{"type": "integer"}, "type": textOf("aiperf's word for the kind of error"), "message": object{"type": "string"},
		"cause": object{"type": "string"}, "cause_chain": object{"type": "array", "items": object{"type": "string"}},
	}}
}

func summarySchema() object {
	byTag, defs := object{}, object{"error": errorSchema()}
	for _, d := range shown() {
		byTag[d.Tag], defs[d.Tag] = object{"$ref": "#/$defs/" + d.Tag}, figures(d)
	}
	props := object{
		"schema_version": object{"const": schemaVersion}, "aiperf_version": object{"const": AIPerfVersion},
		"benchmark_id": object{"type": "string", "pattern": "^[0-9a-f]{12}$"},
		"input_config": object{"type": "object", "description": "what was set explicitly, secrets redacted"},
		"run_info": object{"type": "object", "required": []string{"random_seed", "trial"}, "properties": object{
			"benchmark_id": object{"type": "string"}, "random_seed": object{"type": "integer", "minimum": 0}, "trial": object{"type": "integer", "minimum": 0},
			"cli_command": textOf("a command that can be run again, secrets redacted")}},
		"was_cancelled": object{"type": "boolean"}, "is_complete": object{"type": "boolean"}, "incomplete_reason": object{"type": "string"},
		"error_summary": object{"type": "array", "items": object{"type": "object", "required": []string{"error_details", "count"}, "additionalProperties": false,
			"properties": object{"error_details": object{"$ref": "#/$defs/error"}, "count": object{"type": "integer", "minimum": 1}}}},
		"start_time": textOf("start of the measured phases, local time"), "end_time": textOf("their end"),
		"warmup_metrics": object{"type": "object", "description": "the same metrics over the warm-up phases", "additionalProperties": false, "properties": byTag},
		"pooled_spec_decode_acceptance_histogram": object{"type": "object", "additionalProperties": object{"type": "integer", "minimum": 1}},
		"prefire": object{"type": "object", "description": "what prefire says beyond aiperf", "required": []string{"version", "seed", "counts", "cold", "client"}},
	}
	for tag, m := range byTag {
		props[tag] = m
	}
	return object{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "summary.json", "title": "profile_export_aiperf.json",
		"description": "The summary of a run. A value that is missing is absent: never null, never 0 in its place.",
		"type":        "object", "properties": props, "$defs": defs,
		"required": []string{"schema_version", "aiperf_version", "benchmark_id", "input_config", "run_info", "was_cancelled", "is_complete", "error_summary"},
		// A metric is never without its unit, whatever its name.
		"additionalProperties": object{"type": "object"},
	}
}

func recordSchema() object {
	values := object{}
	for _, d := range shown() {
		if d.Flags&metrics.NotInRecord != 0 || d.Value == nil && d.List == nil {
			continue
		}
		value := object{"type": "number"}
		if d.Shape == metrics.PerGap {
			value = object{"type": "array", "items": object{"type": "number"}, "minItems": 1}
		}
		values[d.Tag] = object{"type": "object", "description": d.Doc, "additionalProperties": false, "required": []string{"value", "unit"},
			"properties": object{"value": value, "unit": object{"const": string(d.Display)}}}
	}
	ns := func(doc string) object {
		return object{"type": "integer", "minimum": 0, "description": doc + ", Unix time in ns"}
	}
	whole := object{"type": "integer", "minimum": 0}
	return object{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "record.json", "title": "a line of profile_export.jsonl",
		"description": "One request, warm-up ones too: see metadata.benchmark_phase.",
		"type":        "object", "required": []string{"metadata", "metrics", "prefire"}, "additionalProperties": false, "$defs": object{"error": errorSchema()},
		"properties": object{
			"metadata": object{"type": "object", "additionalProperties": false,
				"required": []string{"session_num", "credit_issued_ns", "request_start_ns", "request_end_ns", "benchmark_phase", "phase_index", "phase_name", "was_cancelled"},
				"properties": object{
					"session_num": object{"type": "integer", "minimum": 0, "description": "number of the request in its phase"}, "x_request_id": object{"type": "string"},
					"x_correlation_id": object{"type": "string"}, "conversation_id": object{"type": "string"}, "turn_index": whole,
					"credit_issued_ns": ns("its slots were held"), "request_start_ns": ns("start"), "request_ack_ns": ns("head of a 2xx answer"),
					"request_end_ns": ns("last event, or when the error was known"), "worker_id": object{"type": "string"}, "record_processor_id": object{"type": "string"},
					"benchmark_phase": object{"enum": []string{"warmup", "profiling"}}, "phase_index": whole, "profiling_index": whole, "phase_name": object{"type": "string"},
					"phase_kind": object{"enum": []string{"warmup", "profiling"}}, "was_cancelled": object{"type": "boolean"}, "cancellation_time_ns": ns("cut by plan"),
					"context_overflow_skip": object{"type": "boolean"}, "agent_depth": whole, "root_correlation_id": object{"type": "string"},
				}},
			"metrics":                object{"type": "object", "additionalProperties": false, "properties": values},
			"trace_data":             object{"type": "object", "required": []string{"trace_type", "request_headers", "request_chunks", "response_chunks"}},
			"spec_decode_acceptance": object{"type": "object", "required": []string{"engine", "acceptance_histogram", "num_spec_steps"}},
			"error":                  object{"$ref": "#/$defs/error"},
			"prefire":                object{"type": "object", "description": "what prefire knows of the request beyond aiperf: arrivals, slack, connection"},
		},
	}
}

// What is published is what the table says.
func TestSchemasAreTheTables(t *testing.T) {
	for name, schema := range map[string]object{"summary.json": summarySchema(), "record.json": recordSchema()} {
		raw, err := json.MarshalIndent(schema, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		raw = append(raw, '\n')
		path := filepath.Join(schemaDir, name)
		if *writeSchema {
			if err := os.WriteFile(path, raw, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, raw) {
			t.Errorf("%s is not what the table gives: write it with go test ./internal/export -run Schema -schema.write", path)
		}
	}
}

func published(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	s, err := jsonschema.NewCompiler().Compile(filepath.Join(schemaDir, name))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func validate(s *jsonschema.Schema, doc []byte) error {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(doc))
	if err != nil {
		return err
	}
	return s.Validate(v)
}

// Lines and a summary of requests of all kinds keep to the schemas, and what does not is refused by them.
func TestSchemasHoldWhatIsWritten(t *testing.T) {
	objectives, err := metrics.NewObjectives([]metrics.Objective{{Tag: "time_to_first_token", Limit: 1}})
	if err != nil {
		t.Fatal(err)
	}
	o := metrics.Options{Streaming: true, OpenLoop: true, Scheduled: true, Network: true, Objectives: objectives}
	acc := metrics.NewAccumulator(o)
	options := exchangeOptions()
	options.Defs = o.Table()
	e := NewRecordEncoder(options)
	good, _ := exchanged()
	good.Intended, good.Scheduled, good.Reasoning, good.RequestedOSL = 80, 70, metrics.Known(1), metrics.Known(4)
	good.Usage = metrics.Usage{Prompt: metrics.Known(6), Completion: metrics.Known(3), Total: metrics.Known(9), CacheRead: metrics.Known(2)}
	good.Spec = &metrics.SpecDecode{MeanLength: 2, AcceptanceRate: 0.5, Accepted: 2, Drafted: 4, Steps: 2, Histogram: []int64{0, 2}}
	good.Gaps, good.Second, good.Chunks, good.Events = []metrics.Gap{100}, 300, 2, 4
	failed, _ := exchanged()
	failed.Err = &metrics.Error{Code: 500, Type: "Oh", Message: "no", Cause: "x", Chain: []string{"y"}}
	cut, _ := exchanged()
	cut.Cancelled, cut.CancelledAt = true, 250
	record := published(t, "record.json")
	for _, r := range []*metrics.Record{good, failed, cut} {
		acc.Add(r)
		if line := e.Append(nil, r); validate(record, line) != nil {
			t.Errorf("%v in %s", validate(record, line), line)
		}
	}
	acc.SetNetwork(1)
	r := &Run{BenchmarkID: "0123456789ab", InputConfig: json.RawMessage(`{}`), Results: acc.Results(metrics.Window{Start: 1, End: 1000}), Errors: acc.Errors(),
		Drafts: acc.Drafts()}
	r.Warmup = r.Results
	r.Prefire = Object{{"version", "1"}, {"seed", 1}, {"counts", Object{}}, {"cold", Object{}}, {"client", Object{}}}
	var out bytes.Buffer
	if err := JSON(&out, r); err != nil {
		t.Fatal(err)
	}
	summary := published(t, "summary.json")
	if err := validate(summary, out.Bytes()); err != nil {
		t.Errorf("%v in %s", err, out.Bytes())
	}
	if len(r.Results) < 90 {
		t.Errorf("%d metrics were held to the schema", len(r.Results))
	}
	for _, break1 := range [][2]string{{`"unit": "ms"`, `"unit": "s"`}, {`"schema_version": "1.4"`, `"schema_version": "2"`}, {`"was_cancelled": false`, `"was_cancelled": null`},
		{`"count": 1`, `"count": 1.5`}} {
		broken := bytes.Replace(out.Bytes(), []byte(break1[0]), []byte(break1[1]), 1)
		if bytes.Equal(broken, out.Bytes()) || validate(summary, broken) == nil {
			t.Errorf("a summary with %s is taken", break1[1])
		}
	}
}
