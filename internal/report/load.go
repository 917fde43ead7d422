// Package report makes one page of what a folder of results holds, and draws single plots of it.
package report

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"prefire/internal/procedure"
	"prefire/internal/report/digest"
)

// Report is what the files of a folder say, ready to be drawn.
type Report struct {
	name     string
	version  string
	runs     []*run
	scan     *scan        // nil = the folder holds no long-context scan
	carries  *capacity    // nil = the folder holds no capacity run
	series   *sweep       // nil = the folder holds no sweep and no repeats
	compared []Comparison // of each its runs A and B are among runs, in that order
}

// run is one run of the folder.
type run struct {
	folder  string // within the report's folder; "." = itself
	label   string // in the place of its name; "" = none
	file    string // its records, or its summary where there are none
	summary *summary
	digest  *digest.Digest // nil = there are no records
	cut     bool           // the last record was broken off
	slices  []slice
	cold    *procedure.Debiased // nil = not asked for
}

// Options are what a report needs beside the files.
type Options struct {
	Name    string // of the folder, for the title
	Version string // of the program
	// Debiased are what is known already of runs' cold requests, by the path of their records within the folder.
	Debiased map[string]*procedure.Debiased
}

// Read reads the runs in a folder and in all folders below it, and a procedure's own file. A folder with many runs is read one run after the
// other, and each in memory that does not depend on the number of its requests.
func Read(dir fs.FS, o Options) (*Report, error) {
	r := &Report{name: o.Name, version: o.Version}
	found, err := procedure.FindArtifacts(dir)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		if found = alone(dir); len(found) == 0 {
			return nil, errors.New("it holds no results: there is no profile_export.jsonl or profile_export_aiperf.json in it or below it")
		}
	}
	slices.SortStableFunc(found, func(a, b procedure.Artifacts) int { return byNumber(a.Records, b.Records) })
	for _, a := range found {
		one, err := readRun(dir, a)
		if err != nil {
			return nil, err
		}
		one.cold = o.Debiased[a.Records]
		r.runs = append(r.runs, one)
	}
	if r.scan, err = readScan(dir); err != nil {
		return nil, err
	}
	if r.carries, err = readCapacity(dir); err != nil {
		return nil, err
	}
	r.series, err = readSweep(dir)
	return r, err
}

// alone is a summary without records, as --export-level summary leaves it.
func alone(dir fs.FS) []procedure.Artifacts {
	const name = "profile_export_aiperf.json"
	if info, err := fs.Stat(dir, name); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	return []procedure.Artifacts{{Summary: name}}
}

func readRun(dir fs.FS, a procedure.Artifacts) (*run, error) {
	r := &run{file: a.Records}
	if r.file == "" {
		r.file = a.Summary
	}
	r.folder = path.Dir(r.file)
	if a.Summary != "" {
		data, err := fs.ReadFile(dir, a.Summary)
		if err != nil {
			return nil, err
		}
		if r.summary, err = readSummary(data); err != nil {
			return nil, fmt.Errorf("%s: %w", a.Summary, err)
		}
		if r.slices, err = readSlices(dir, strings.TrimSuffix(a.Summary, ".json")+"_timeslices.json"); err != nil {
			return nil, err
		}
	}
	if a.Records == "" {
		return r, nil
	}
	// aiperf leaves cold requests in its figures; a summary of prefire says what it does.
	r.digest = &digest.Digest{IncludeCold: r.summary == nil || r.summary.facts.Prefire == nil || r.summary.facts.Prefire.Cold.Included}
	var err error
	if r.cut, err = r.records(dir, a.Records); err != nil {
		return nil, err
	}
	censored := strings.TrimSuffix(a.Records, ".jsonl") + "_censored.jsonl"
	if _, err := r.records(dir, censored); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return r, nil
}

// records adds a file of records to the run's digest.
func (r *run) records(dir fs.FS, name string) (cut bool, err error) {
	f, err := dir.Open(name)
	if err != nil {
		return false, err
	}
	defer f.Close()
	if cut, err = procedure.ReadRequests(f, r.digest.Add); err != nil {
		return false, fmt.Errorf("%s: %w", name, err)
	}
	return cut, nil
}

// name is what a run is called in the report.
func (r *run) name() string {
	if r.label != "" {
		return r.label
	}
	if base := path.Base(r.file); base != "profile_export.jsonl" && base != "profile_export_aiperf.json" {
		return strings.TrimPrefix(path.Join(r.folder, strings.TrimSuffix(strings.TrimSuffix(base, ".jsonl"), ".json")), "./")
	}
	return r.folder
}

// byNumber orders names as people do: isl512 comes before isl1024.
func byNumber(a, b string) int {
	for a != "" && b != "" {
		x, y := digits(a), digits(b)
		if x > 0 && y > 0 {
			m, n := strings.TrimLeft(a[:x], "0"), strings.TrimLeft(b[:y], "0")
			if c := cmp.Or(cmp.Compare(len(m), len(n)), strings.Compare(m, n)); c != 0 {
				return c
			}
			a, b = a[x:], b[y:]
			continue
		}
		if a[0] != b[0] {
			switch { // a folder comes before those whose names go on
			case a[0] == '/':
				return -1
			case b[0] == '/':
				return 1
			}
			return cmp.Compare(a[0], b[0])
		}
		a, b = a[1:], b[1:]
	}
	return cmp.Compare(len(a), len(b))
}

// digits is how many digits a text starts with.
func digits(s string) int { return len(s) - len(strings.TrimLeft(s, "0123456789")) }
