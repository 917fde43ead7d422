package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"prefire/metrics"
)

const (
	// calibrationEnv names the file of calibrations in the place of the one in the user's cache folder; calibrationNone stands for no file.
	calibrationEnv    = "PREFIRE_CALIBRATION"
	calibrationNone   = "none"
	calibrationSchema = 1
)

// calibration is how much prefire carries on a machine, as `prefire calibrate` found it.
type calibration struct {
	Client  string `json:"client"` // the transport
	Streams int    `json:"streams"`
	// AtLeast: the search ended before a number of streams that does not hold was found.
	AtLeast         bool    `json:"at_least,omitempty"`
	TokensPerSecond int     `json:"tokens_per_second_per_stream"`
	TTFTBound       float64 `json:"ttft_bound_p99_ms"`
	ITLBound        float64 `json:"itl_bound_p99_ms"`
	LimitedBy       []limit `json:"limited_by,omitempty"` // what the next larger number broke
	Version         string  `json:"version"`
	Cores           int     `json:"cores"`
	Date            string  `json:"date"` // RFC 3339
}

// calibrations is the file: one figure for each transport.
type calibrations struct {
	Schema  int                    `json:"prefire_calibration"`
	Figures map[string]calibration `json:"figures"`
}

// calibrationFile is where the figures are kept; "" where they are kept nowhere.
func calibrationFile(p process) string {
	if path, ok := p.env(calibrationEnv); ok && path != "" {
		if path == calibrationNone {
			return ""
		}
		return path
	}
	if p.cacheDir == nil {
		return ""
	}
	dir, err := p.cacheDir()
	if err != nil {
		return "" // no home: there is nothing to remember with
	}
	return filepath.Join(dir, "prefire", "calibration.json")
}

// readCalibrations reads the file. One that is not there is no error; one that is none of ours is.
func readCalibrations(path string) (map[string]calibration, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var c calibrations
	if err := json.Unmarshal(text, &c); err != nil {
		return nil, fmt.Errorf("%s is no calibration: %w", path, err)
	}
	if c.Schema != calibrationSchema {
		return nil, fmt.Errorf("%s is no calibration of this version: prefire_calibration is %d, and %d is known", path, c.Schema, calibrationSchema)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Figures)) {
		if f := c.Figures[name]; f.Client != name || f.Streams < 1 || f.TokensPerSecond < 1 || f.Cores < 1 {
			return nil, fmt.Errorf("%s is no calibration: its figure for %q is not whole", path, name)
		}
	}
	return c.Figures, nil
}

// storeCalibration puts a figure into the file, in the place of the one for the same transport. A file that cannot be read is replaced.
func storeCalibration(path string, c *calibration) error {
	all, err := readCalibrations(path)
	if err != nil || all == nil {
		all = map[string]calibration{}
	}
	all[c.Client] = *c
	text, err := json.MarshalIndent(calibrations{calibrationSchema, all}, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	// A run that reads meanwhile finds the old figures or the new ones, never half a file.
	f, err := os.CreateTemp(filepath.Dir(path), ".calibration-*")
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	if err := errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return os.Rename(f.Name(), path)
}

// findCalibration is the figure for a transport on this machine; nil where there is none. notice says why one that is there is not used.
func findCalibration(p process, client string) (c *calibration, notice string) {
	path := calibrationFile(p)
	if path == "" {
		return nil, ""
	}
	all, err := readCalibrations(path)
	if err != nil {
		return nil, fmt.Sprintf("the calibration is not used: %v; prefire calibrate makes a new one", err)
	}
	f, ok := all[client]
	if !ok {
		return nil, ""
	}
	if cores := runtime.NumCPU(); f.Cores != cores {
		return nil, fmt.Sprintf("the calibration in %s is not used: it was made with %d cores, and here are %d; prefire calibrate makes a new one",
			path, f.Cores, cores)
	}
	return &f, ""
}

// useCalibration says before the run where its plan asks for more than prefire was found to carry here.
func (b *bench) useCalibration(client string) {
	c, notice := findCalibration(b.process, client)
	b.calibrated = c
	if notice == "" && c != nil && b.options.Streaming {
		most := 0
		for _, ph := range b.cfg.Phases {
			if ph.Kind == metrics.Profiling {
				most = max(most, ph.Concurrency)
			}
		}
		notice = c.exceeded(most)
	}
	if notice != "" {
		fmt.Fprintf(b.stderr, "%s: %s\n", b.name(), notice)
	}
}

// exceeded warns where so many streams at once are more than the figure; "" where they are not.
func (c *calibration) exceeded(streams int) string {
	if streams <= c.Streams {
		return ""
	}
	say := ""
	if c.AtLeast {
		say = "at least "
	}
	return fmt.Sprintf("%d streams at once are more than prefire calibrate found this client (%s) to carry here: %s%d at %d tokens/s each, "+
		"which is assumed of yours (%s, prefire %s); see the verdicts on the client at the end of the run",
		streams, c.Client, say, c.Streams, c.TokensPerSecond, c.Date, c.Version)
}
