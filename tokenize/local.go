package tokenize

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"prefire/tokenize/internal/hf"
)

// Local says where the tokenizers of models lie on this machine. Nothing is downloaded.
type Local struct {
	// Read gives a file's content, as os.ReadFile does.
	Read func(path string) ([]byte, error)
	// Hub is the folder of the Hugging Face hub cache, see [HubCache]; "" = none.
	Hub string
	// Home is the user's folder, which ~ stands for; "" = unknown.
	Home string
	// Revision is the branch, tag or commit of models in the hub cache; "" = main.
	Revision string
}

// HubCache is the folder of the Hugging Face hub cache, from the settings that its own library reads: HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE,
// HF_HOME, XDG_CACHE_HOME, HOME. It is "" where none of them is set.
func HubCache(env func(name string) (string, bool)) string {
	home := homeOf(env)
	for _, place := range []struct{ name, below string }{
		{"HF_HUB_CACHE", ""}, {"HUGGINGFACE_HUB_CACHE", ""}, {"HF_HOME", "hub"}, {"XDG_CACHE_HOME", "huggingface/hub"},
	} {
		if dir, ok := env(place.name); ok && dir != "" {
			return filepath.Join(expand(dir, home), filepath.FromSlash(place.below))
		}
	}
	if home == "" {
		return ""
	}
	return filepath.Join(home, ".cache", "huggingface", "hub")
}

// FromEnv is the Local of a process: its files and its environment.
func FromEnv(env func(name string) (string, bool), read func(path string) ([]byte, error), revision string) Local {
	return Local{Read: read, Hub: HubCache(env), Home: homeOf(env), Revision: revision}
}

func homeOf(env func(name string) (string, bool)) string {
	home, _ := env("HOME")
	return home
}

// expand writes a leading ~ out.
func expand(path, home string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok && home != "" {
		return filepath.Join(home, rest)
	}
	return path
}

// tokenizerFile is what the reader knows; others are the files of other libraries, which it names where it finds them.
const tokenizerFile = "tokenizer.json"

func otherFiles() []string {
	return []string{"tekken.json", "tokenizer.model", "spiece.model", "vocab.txt", "vocab.json", "tiktoken.model"}
}

// Open makes the tokenizer of a name: one that [Open] takes; a folder with a tokenizer.json, or such a file; a model id whose files are in
// the hub cache. A tokenizer that is nowhere is an [UnknownError]; one that is there and cannot be read is an error that names the file and
// its part.
func (l Local) Open(name string) (Tokenizer, error) {
	if t, err := openBuiltin(name); t != nil || err != nil {
		return t, err
	}
	if name == "" || l.Read == nil {
		return nil, &UnknownError{Name: name}
	}
	looked := UnknownError{Name: name}
	path := expand(name, l.Home)
	if strings.EqualFold(filepath.Ext(path), ".json") {
		looked.Looked = append(looked.Looked, "the file "+path)
		if t, err := l.file(name, path); t != nil || err != nil {
			return t, err
		}
	} else {
		looked.Looked = append(looked.Looked, "the folder "+path)
		if t, err := l.folder(name, path); t != nil || err != nil {
			return t, err
		}
	}
	if dir, place := l.snapshot(name); place != "" {
		looked.Looked = append(looked.Looked, place)
		if dir != "" {
			if t, err := l.folder(name, dir); t != nil || err != nil {
				return t, err
			}
		}
	}
	looked.Model = isModelID(name)
	return nil, &looked
}

// isModelID reports that name is shaped as a model of the hub: NAME or OWNER/NAME.
func isModelID(name string) bool {
	return !strings.ContainsAny(name, `\~ `) && !strings.HasPrefix(name, ".") && !strings.HasPrefix(name, "/") && strings.Count(name, "/") <= 1
}

// snapshot is the folder of a model in the hub cache, "" where it is not there, and the place that was looked at.
func (l Local) snapshot(name string) (dir, place string) {
	if l.Hub == "" || !isModelID(name) {
		return "", ""
	}
	revision := l.Revision
	if revision == "" {
		revision = "main"
	}
	model := filepath.Join(l.Hub, "models--"+strings.ReplaceAll(name, "/", "--"))
	place = fmt.Sprintf("the hub cache %s (revision %s)", model, revision)
	if !filepath.IsLocal(revision) {
		return "", place
	}
	commit, err := l.Read(filepath.Join(model, "refs", filepath.FromSlash(revision)))
	if err != nil {
		return filepath.Join(model, "snapshots", filepath.FromSlash(revision)), place // a commit needs no ref
	}
	hash := strings.TrimSpace(string(commit))
	if !filepath.IsLocal(hash) {
		return "", place
	}
	return filepath.Join(model, "snapshots", hash), place
}

// folder opens the tokenizer.json of a folder; nil without an error where there is none.
func (l Local) folder(name, dir string) (Tokenizer, error) {
	if t, err := l.file(name, filepath.Join(dir, tokenizerFile)); t != nil || err != nil {
		return t, err
	}
	for _, other := range otherFiles() {
		if _, err := l.Read(filepath.Join(dir, other)); err == nil {
			return nil, fmt.Errorf("tokenizer %q: %s has %s but no %s, the one form that prefire reads. transformers writes one: "+
				"python -c \"from transformers import AutoTokenizer as A; A.from_pretrained('%s').save_pretrained('DIR')\", then --tokenizer DIR; "+
				"or --tokenizer builtin, which counts prompts as o200k_base does", name, dir, other, tokenizerFile, dir)
		}
	}
	return nil, nil
}

// file opens a tokenizer.json, with the tokenizer_config.json beside it; nil without an error where there is none.
func (l Local) file(name, path string) (Tokenizer, error) {
	data, err := l.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("tokenizer %q: %w", name, err)
	}
	config, err := l.Read(filepath.Join(filepath.Dir(path), "tokenizer_config.json"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("tokenizer %q: %w", name, err)
	}
	t, err := hf.Parse(name, data, config)
	if err != nil {
		return nil, fmt.Errorf("tokenizer %q: %s: %w", name, path, err)
	}
	return t, nil
}
