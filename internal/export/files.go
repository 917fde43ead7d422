package export

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"prefire/internal/orjson"
	"prefire/metrics"
)

// Files whose names no prefix changes.
const (
	InputsFile   = "inputs.json"
	AnswersFile  = "outputs.json"
	ManifestFile = "phase_manifest.json"
	ReadyFile    = ".aiperf_results_ready.json"
)

// Names are the files of one run in its folder.
type Names struct{ JSON, CSV, Records, Censored, Console, Hlog, Raw, SlicesJSON, SlicesCSV, Network, ServerJSON, ServerCSV string }

// NewNames returns the names under --profile-export-prefix; "" gives aiperf's default names. A suffix that names one of the export files
// is taken off the prefix first.
func NewNames(prefix string) Names {
	for _, suffix := range [...]string{
		"_server_metrics.parquet", "_server_metrics.jsonl", "_server_metrics.json", "_server_metrics.csv", "_network_latency.jsonl",
		"_gpu_telemetry.jsonl", "_timeslices.csv", "_timeslices.json", "_console.txt", "_raw.jsonl", ".parquet", ".csv", ".json", ".jsonl",
	} {
		if base, ok := strings.CutSuffix(prefix, suffix); ok {
			prefix = base
			break
		}
	}
	if prefix == "" {
		return Names{
			JSON: "profile_export_aiperf.json", CSV: "profile_export_aiperf.csv", Records: "profile_export.jsonl",
			Censored: "profile_export_censored.jsonl", Console: "profile_export_console.txt", Hlog: "profile_export.hlog",
			Raw: "profile_export_raw.jsonl", SlicesJSON: "profile_export_aiperf_timeslices.json",
			SlicesCSV: "profile_export_aiperf_timeslices.csv", Network: "profile_export_network_latency.jsonl",
			ServerJSON: "server_metrics_export.json", ServerCSV: "server_metrics_export.csv",
		}
	}
	return Names{
		JSON: prefix + ".json", CSV: prefix + ".csv", Records: prefix + ".jsonl", Censored: prefix + "_censored.jsonl",
		Console: prefix + "_console.txt", Hlog: prefix + ".hlog", Raw: prefix + "_raw.jsonl", SlicesJSON: prefix + "_timeslices.json",
		SlicesCSV: prefix + "_timeslices.csv", Network: prefix + "_network_latency.jsonl",
		ServerJSON: prefix + "_server_metrics.json", ServerCSV: prefix + "_server_metrics.csv",
	}
}

// FS is the file system that the files go to.
type FS interface {
	MkdirAll(dir string) error
	// Create opens a file for writing and empties it.
	Create(path string, perm os.FileMode) (io.WriteCloser, error)
	Rename(from, to string) error
	Remove(path string) error // no error where there is none
	// Folders are the names of the folders in dir; none where there is no such folder.
	Folders(dir string) ([]string, error)
}

// Disk is the real file system.
type Disk struct{}

func (Disk) MkdirAll(dir string) error { return os.MkdirAll(dir, 0o755) }

func (Disk) Create(path string, perm os.FileMode) (io.WriteCloser, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, perm)
	if err != nil {
		return nil, err
	}
	return &diskFile{f, path}, nil
}

// diskFile is a file that is still under its name when it is closed, or says so.
type diskFile struct {
	*os.File
	path string
}

func (f *diskFile) Close() error {
	own, err := f.Stat()
	there, gone := os.Stat(f.path)
	if e := f.File.Close(); err == nil {
		err = e
	}
	if err == nil && (gone != nil || !os.SameFile(own, there)) {
		err = fmt.Errorf("%s was taken away or replaced while it was written: what it held is lost", f.path)
	}
	return err
}

func (Disk) Rename(from, to string) error { return os.Rename(from, to) }

func (Disk) Folders(dir string) ([]string, error) {
	list, err := os.ReadDir(dir)
	if os.IsNotExist(err) {
		return nil, nil
	}
	var names []string
	for _, e := range list {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, err
}

func (Disk) Remove(path string) error {
	if err := os.Remove(path); !os.IsNotExist(err) {
		return err
	}
	return nil
}

// Dir is a run's folder.
type Dir struct {
	FS    FS
	Path  string
	Names Names
	// KeepRaw leaves the raw records of the run before where they are: they are of the same run, which was killed.
	KeepRaw bool
}

func (d Dir) path(name string) string { return filepath.Join(d.Path, filepath.FromSlash(name)) }

// Prepare makes the folder, finds out whether it can be written, and takes away what an earlier run left there under this run's names:
// files that this run may not write again would else be read as its own.
func (d Dir) Prepare() error {
	if err := d.FS.MkdirAll(d.Path); err != nil {
		return fmt.Errorf("the artifact folder %s cannot be made: %w; choose another with --artifact-dir", d.Path, err)
	}
	probe := d.path(".prefire_probe")
	f, err := d.FS.Create(probe, 0o644)
	if err == nil {
		err = f.Close()
	}
	if err == nil {
		err = d.FS.Remove(probe)
	}
	n := d.Names
	for _, name := range [...]string{ReadyFile, n.JSON, n.CSV, n.Records, n.Censored, n.Console, n.Hlog, n.SlicesJSON, n.SlicesCSV, n.Network, n.ServerJSON, n.ServerCSV,
		InputsFile, AnswersFile, ManifestFile} {
		if err == nil {
			err = d.FS.Remove(d.path(name))
		}
	}
	if err == nil && !d.KeepRaw {
		err = d.FS.Remove(d.path(n.Raw))
	}
	if err == nil {
		err = d.removePhases()
	}
	if err != nil {
		return fmt.Errorf("the artifact folder %s cannot be written: %w; choose another with --artifact-dir", d.Path, err)
	}
	return nil
}

// removePhases takes away the summaries by phase of an earlier run.
func (d Dir) removePhases() error {
	old, err := d.FS.Folders(d.path(phasesDir))
	if err != nil {
		return err
	}
	for _, phase := range old {
		for _, name := range [...]string{d.Names.JSON, d.Names.CSV, serverPhaseFile} {
			if err := d.FS.Remove(d.path(phasesDir + "/" + phase + "/" + name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// Write makes one file whole: into a file of another name, which is renamed once it is complete. A name with slashes makes folders.
func (d Dir) Write(name string, perm os.FileMode, fill func(io.Writer) error) error {
	s, err := d.stream(name, perm)
	if err != nil {
		return err
	}
	if err := fill(s.buf); err != nil {
		s.Discard()
		return fmt.Errorf("%s: %w", s.to, err)
	}
	return s.Close()
}

// Stream is a file that grows under another name until Close puts it in its place.
type Stream struct {
	fs       FS
	from, to string
	f        io.WriteCloser
	buf      *bufio.Writer
}

// Stream starts a file, such as inputs.json.
func (d Dir) Stream(name string) (*Stream, error) { return d.stream(name, 0o644) }

func (d Dir) stream(name string, perm os.FileMode) (*Stream, error) {
	to := d.path(name)
	if err := d.FS.MkdirAll(filepath.Dir(to)); err != nil {
		return nil, err
	}
	from := filepath.Join(filepath.Dir(to), "."+filepath.Base(to)+".tmp")
	f, err := d.FS.Create(from, perm)
	if err != nil {
		return nil, err
	}
	return &Stream{d.FS, from, to, f, bufio.NewWriter(f)}, nil
}

func (s *Stream) Write(p []byte) (int, error) { return s.buf.Write(p) }

// Close completes the file and puts it in its place; on an error nothing is left of it.
func (s *Stream) Close() error {
	err := s.buf.Flush()
	if e := s.f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = s.fs.Rename(s.from, s.to)
	}
	if err != nil {
		_ = s.fs.Remove(s.from)
		return fmt.Errorf("%s: %w", s.to, err)
	}
	return nil
}

// Discard gives the file up.
func (s *Stream) Discard() {
	_ = s.f.Close()
	_ = s.fs.Remove(s.from)
}

// Appended is a file that grows in its place, line by line: profile_export.jsonl. The file is made with the first line, so that a run
// without one leaves none, as aiperf's does. It is for one goroutine at a time.
type Appended struct {
	d    Dir
	name string
	f    io.WriteCloser
	buf  *bufio.Writer
}

// Append names a file to be appended to. A nil one has nothing to flush or close.
func (d Dir) Append(name string) *Appended { return &Appended{d: d, name: name} }

// Write appends whole lines.
func (a *Appended) Write(lines []byte) (int, error) {
	if a.f == nil {
		to := a.d.path(a.name)
		if err := a.d.FS.MkdirAll(filepath.Dir(to)); err != nil {
			return 0, err
		}
		f, err := a.d.FS.Create(to, 0o644)
		if err != nil {
			return 0, err
		}
		a.f, a.buf = f, bufio.NewWriterSize(f, 256<<10)
	}
	// A line is never split between two writes to the file: what is on disk is whole lines.
	if a.buf.Available() < len(lines) {
		if err := a.buf.Flush(); err != nil {
			return 0, err
		}
	}
	return a.buf.Write(lines)
}

// Flush puts all lines so far on disk.
func (a *Appended) Flush() error {
	if a == nil || a.f == nil {
		return nil
	}
	return a.buf.Flush()
}

// Close ends the file.
func (a *Appended) Close() error {
	if a == nil || a.f == nil {
		return nil
	}
	err := a.buf.Flush()
	if e := a.f.Close(); err == nil {
		err = e
	}
	a.f = nil
	return err
}

// WriteRun writes all files of a finished run but those that grew with it: summary, CSV, console text, the phases' where there is more
// than one, histograms, and last the mark that the results are there, which names the files that could not be written. It goes on after an error, so that one bad file does not cost the
// others, and returns the first.
func (d Dir) WriteRun(r *Run, histograms []metrics.Histogram) error {
	var first error
	failed := slices.Clone(r.Broken)
	write := func(name string, fill func(io.Writer) error) {
		if err := d.Write(name, 0o644, fill); err != nil {
			failed = append(failed, name)
			if first == nil {
				first = err
			}
		}
	}
	if !r.NoSummary {
		write(d.Names.JSON, func(w io.Writer) error { return JSON(w, r) })
	}
	if len(r.Slices) > 0 {
		write(d.Names.SlicesJSON, func(w io.Writer) error { return SlicesJSON(w, r) })
		write(d.Names.SlicesCSV, func(w io.Writer) error { return SlicesCSV(w, r) })
	}
	write(d.Names.CSV, func(w io.Writer) error { return CSV(w, r) })
	write(d.Names.Console, func(w io.Writer) error { return Console(w, r, ConsoleWidth) })
	if len(histograms) > 0 {
		write(d.Names.Hlog, func(w io.Writer) error { return Hlog(w, histograms, r.Start, r.End) })
	}
	if name := r.Server.JSONName(d.Names); name != "" {
		write(name, func(w io.Writer) error { return ServerMetricsJSON(w, r) })
	}
	if name := r.Server.CSVName(d.Names); name != "" {
		write(name, func(w io.Writer) error { return ServerMetricsCSV(w, r) })
	}
	if len(r.Phases) > 1 {
		for i := range r.Phases {
			one, dir := phaseRun(r, &r.Phases[i]), phaseDir(r.Phases[i].Name)
			write(dir+"/"+d.Names.JSON, func(w io.Writer) error { return JSON(w, one) })
			write(dir+"/"+d.Names.CSV, func(w io.Writer) error { return CSV(w, one) })
			if r.Server.of(i) {
				write(dir+"/"+serverPhaseFile, func(w io.Writer) error { return ServerMetricsPhase(w, r, i) })
			}
		}
		write(ManifestFile, func(w io.Writer) error { return Manifest(w, r, d.Names) })
	}
	err := d.Write(ReadyFile, 0o600, func(w io.Writer) error {
		b := append([]byte(`{"ready":true,"was_cancelled":`), fmt.Sprint(r.WasCancelled)...)
		b = append(append(b, `,"partial":`...), fmt.Sprint(len(failed) > 0)...)
		for i, name := range failed {
			sep := `,`
			if i == 0 {
				sep = `,"failed_exporters":[`
			}
			b = orjson.AppendString(append(b, sep...), name)
		}
		if len(failed) > 0 {
			b = append(b, ']')
		}
		_, err := w.Write(append(b, '}'))
		return err
	})
	if first == nil {
		first = err
	}
	return first
}
