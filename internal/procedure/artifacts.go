// Package procedure holds the procedures that answer a question about a server or about earlier results, beyond one run: statistics and
// verdicts over records.
package procedure

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Artifacts are the files that one run of aiperf or prefire left in a folder, as paths within a file system.
type Artifacts struct {
	Records string // profile_export.jsonl
	Summary string // profile_export_aiperf.json; "" = there is none
	CSV     string // "" = there is none
}

const (
	defaultRecords = "profile_export.jsonl"
	defaultSummary = "profile_export_aiperf.json"
)

// FindArtifacts finds the runs in fsys and in all its folders, in the order of their paths. A run is a file of records: the default name, or
// PREFIX.jsonl with its summary PREFIX.json beside it. What cannot be looked into is in the error, beside the runs that were found.
func FindArtifacts(fsys fs.FS) ([]Artifacts, error) {
	var found []Artifacts
	var errs []error
	err := fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			errs = append(errs, err)
			return nil
		}
		stem, ok := strings.CutSuffix(p, ".jsonl")
		if !ok || d.IsDir() {
			return nil
		}
		a := Artifacts{Records: p, Summary: stem + ".json", CSV: stem + ".csv"}
		byDefault := path.Base(p) == defaultRecords
		if byDefault {
			a.Summary = path.Join(path.Dir(p), defaultSummary)
			a.CSV = strings.TrimSuffix(a.Summary, ".json") + ".csv"
		}
		for _, file := range [...]*string{&a.Summary, &a.CSV} {
			if info, err := fs.Stat(fsys, *file); err != nil || !info.Mode().IsRegular() {
				*file = ""
			}
		}
		if byDefault || a.Summary != "" {
			found = append(found, a)
		}
		return nil
	})
	slices.SortFunc(found, func(a, b Artifacts) int { return strings.Compare(a.Records, b.Records) })
	return found, errors.Join(append(errs, err)...)
}
