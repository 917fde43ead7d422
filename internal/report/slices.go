package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
)

// slice is one slice of time of a run made with --slice-duration.
type slice struct {
	from, to int64 // ns since 1970
	metrics  []metric
}

// readSlices reads a timeslices file; none where there is no such file.
func readSlices(dir fs.FS, name string) ([]slice, error) {
	data, err := fs.ReadFile(dir, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var file struct {
		Slices []map[string]json.RawMessage `json:"timeslices"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, fmt.Errorf("%s: it is no file of timeslices: %w", name, err)
	}
	out := make([]slice, len(file.Slices))
	for i, s := range file.Slices {
		if json.Unmarshal(s["start_ns"], &out[i].from) != nil || json.Unmarshal(s["end_ns"], &out[i].to) != nil {
			return nil, fmt.Errorf("%s: slice %d has no start_ns and end_ns", name, i+1)
		}
		out[i].metrics = readMetrics(s)
	}
	return out, nil
}
