package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"prefire/internal/export"
	"prefire/internal/procedure"
	"prefire/metrics"
)

type debiasFlags struct {
	json, dry, report bool
}

func debiasCommand(p process) *cobra.Command {
	var o debiasFlags
	cmd := &cobra.Command{
		Use:   "debias DIR...",
		Short: "Take the cold requests out of results that exist already",
		Long: `debias reads what runs of aiperf (0.9 to 0.13) or prefire left in the folders, and in all folders below them. It tells the cold requests of
each run by the connection facts of their records: http_req_connection_reused 0, or http_req_dns_lookup or http_req_connecting above
500 ms. It prints each metric that they move, with them and without, and how severe the difference is: over 10 % of TTFT or prefill
throughput high, from 2 % medium, below low.

Beside a summary with cold requests in it, the corrected one is written: profile_export_aiperf_debiased.json, and .csv where there is one.
The old files stay as they are. Counts, lengths and the rates over the whole run are not corrected: cold requests are part of them.`,
		Example: `  prefire debias results
  prefire debias --dry-run --json results/run1 results/run2`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, dirs []string) error {
			_, err := unlessStopped(p, errors.New("stopped before the end"), func() (struct{}, error) { return struct{}{}, debias(p, o, dirs) })
			if err != nil {
				return complain(p.stderr, err)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.BoolVar(&o.json, "json", false, "print JSON in the place of the tables")
	f.BoolVar(&o.dry, "dry-run", false, "write no files")
	f.BoolVar(&o.report, "report", false, "make report.html in each DIR, as prefire report does, with the tables in it")
	return cmd
}

// debiasedRun is one run of the table.
type debiasedRun struct {
	name  string // folder and file of its records, as a person knows them
	d     *procedure.Debiased
	wrote []string
	notes []string
}

func debias(p process, o debiasFlags, dirs []string) error {
	if o.report && o.dry {
		return errors.New("--report writes a file and --dry-run none: leave one of them out")
	}
	var runs []debiasedRun
	var errs []error
	var pages []string
	for _, dir := range dirs {
		info, err := os.Stat(dir)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s cannot be read: %w", dir, err))
			continue
		case !info.IsDir():
			errs = append(errs, fmt.Errorf("%s is a file: name the folder that it is in", dir))
			continue
		}
		found, err := procedure.FindArtifacts(os.DirFS(dir))
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", dir, err))
		}
		if len(found) == 0 && err == nil {
			errs = append(errs, fmt.Errorf("%s holds no results: there is no profile_export.jsonl in it or below it", dir))
		}
		debiased := map[string]*procedure.Debiased{}
		for _, a := range found {
			r, err := debiasRun(dir, a, o.dry)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", filepath.Join(dir, a.Records), err))
				continue
			}
			runs = append(runs, r)
			debiased[a.Records] = r.d
		}
		if !o.report || len(debiased) == 0 {
			continue
		}
		page := filepath.Join(dir, reportFile)
		if err := writeReport(dir, page, debiased); err != nil {
			errs = append(errs, err)
			continue
		}
		pages = append(pages, page)
	}
	if o.json {
		if err := printDebiasedJSON(p.stdout, runs); err != nil {
			return err
		}
	} else {
		for i := range runs {
			printDebiased(p.stdout, &runs[i])
		}
		if len(runs) > 1 {
			printDebiasedRuns(p.stdout, runs)
		}
		for _, page := range pages {
			fmt.Fprintf(p.stdout, "Report: %s\n", page)
		}
	}
	return errors.Join(errs...)
}

func debiasRun(dir string, a procedure.Artifacts, dry bool) (debiasedRun, error) {
	fsys := os.DirFS(dir)
	r := debiasedRun{name: filepath.Join(dir, filepath.FromSlash(path.Dir(a.Records)))}
	if path.Base(a.Records) != "profile_export.jsonl" {
		r.name = filepath.Join(dir, filepath.FromSlash(a.Records))
	}
	f, err := fsys.Open(a.Records)
	if err != nil {
		return r, err
	}
	defer f.Close()
	if r.d, err = procedure.Debias(f); err != nil {
		return r, err
	}
	var summary []byte
	if a.Summary == "" {
		r.notes = append(r.notes, "there is no summary beside the records, so none is written")
	} else if summary, err = fs.ReadFile(fsys, a.Summary); err != nil {
		return r, err
	}
	r.note(summary)
	if r.d.Cold == 0 || dry || summary == nil || corrects(summary) {
		return r, nil
	}
	return r, r.write(dir, a, summary)
}

// corrects reports whether a summary is one of prefire that leaves cold requests out already.
func corrects(summary []byte) bool {
	var s struct {
		Prefire *struct {
			Cold *struct {
				Included bool `json:"included"`
			} `json:"cold"`
		} `json:"prefire"`
	}
	return json.Unmarshal(summary, &s) == nil && s.Prefire != nil && s.Prefire.Cold != nil && !s.Prefire.Cold.Included
}

func (r *debiasedRun) note(summary []byte) {
	d := r.d
	if summary != nil && corrects(summary) {
		r.notes = append(r.notes, "prefire made this summary and left the cold requests out of it: there is nothing to correct")
	}
	switch {
	case d.Untold > 0 && d.Untold == d.Requests:
		r.notes = append(r.notes, "the records hold no connection facts (http_req_connection_reused, http_req_dns_lookup, http_req_connecting): which requests were cold cannot be told")
	case d.Untold > 0:
		r.notes = append(r.notes, fmt.Sprintf("%d of the records hold no connection facts: whether those requests were cold cannot be told, and they are taken as hot", d.Untold))
	}
	if d.CutLine {
		r.notes = append(r.notes, "the last record is broken off and left out")
	}
	for _, def := range metrics.Table() {
		if why, ok := d.Odd[def.Tag]; ok {
			r.notes = append(r.notes, def.Tag+" stays as it is: "+why)
		}
	}
	if gone := r.gone(); len(gone) > 0 {
		tags := make([]string, len(gone))
		for i, def := range gone {
			tags[i] = def.Tag
		}
		r.notes = append(r.notes, "no hot request has a value of "+strings.Join(tags, ", ")+": left out of the corrected files")
	}
}

// gone are the metrics that no hot request has.
func (r *debiasedRun) gone() []*metrics.Def {
	var defs []*metrics.Def
	for i := range r.d.Changes {
		if c := &r.d.Changes[i]; c.Gone {
			defs = append(defs, c.Def)
		}
	}
	return defs
}

func (r *debiasedRun) write(dir string, a procedure.Artifacts, summary []byte) error {
	var after []metrics.Result
	var goneTags []string
	gone := r.gone()
	for i := range r.d.Changes {
		if c := &r.d.Changes[i]; !c.Gone {
			after = append(after, c.After)
		}
	}
	for _, def := range gone {
		goneTags = append(goneTags, def.Tag)
	}
	out := export.Dir{FS: export.Disk{}, Path: dir}
	corrected := func(file string, fill func(io.Writer) error) error {
		ext := path.Ext(file)
		name := strings.TrimSuffix(file, ext) + "_debiased" + ext
		if err := out.Write(name, 0o644, fill); err != nil {
			return err
		}
		r.wrote = append(r.wrote, filepath.Join(dir, filepath.FromSlash(name)))
		return nil
	}
	err := corrected(a.Summary, func(w io.Writer) error {
		return export.Corrected(w, summary, after, goneTags, "prefire_debias", append(r.facts(), export.Field{Key: "prefire_version", Value: version()}))
	})
	if err != nil || a.CSV == "" {
		return err
	}
	old, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(a.CSV)))
	if err != nil {
		return err
	}
	return corrected(a.CSV, func(w io.Writer) error { return export.CorrectedCSV(w, bytes.NewReader(old), after, gone) })
}

// facts are what a reader of the corrected summary needs to know.
func (r *debiasedRun) facts() export.Object {
	d := r.d
	o := export.Object{
		{Key: "requests", Value: d.Requests}, {Key: "failed", Value: d.Failed}, {Key: "cold", Value: d.Cold},
		{Key: "without_connection_facts", Value: d.Untold},
		{Key: "signs", Value: d.Signs}, {Key: "severity", Value: string(d.Severity)},
	}
	if d.Requests > 0 {
		o = slices.Insert(o, 3, export.Field{Key: "cold_share", Value: float64(d.Cold) / float64(d.Requests)})
	}
	if d.Moved != nil {
		o = append(o, export.Field{Key: "change_percent", Value: *d.Moved})
	}
	return o
}

func printDebiasedJSON(w io.Writer, runs []debiasedRun) error {
	list := make([]export.Object, len(runs))
	for i := range runs {
		r := &runs[i]
		var before, after []metrics.Result
		for _, c := range r.d.Changes {
			before = append(before, c.Before)
			if !c.Gone {
				after = append(after, c.After)
			}
		}
		list[i] = append(append(export.Object{{Key: "run", Value: r.name}}, r.facts()...),
			export.Field{Key: "before", Value: export.MetricObjects(before)}, export.Field{Key: "after", Value: export.MetricObjects(after)},
			export.Field{Key: "files", Value: r.wrote}, export.Field{Key: "notes", Value: r.notes})
	}
	return export.Document(w, export.Object{{Key: "runs", Value: list}})
}
