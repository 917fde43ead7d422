package tokenize

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// at is a Local over files in memory, whose hub cache is /hub and whose user lives in /home/u.
func at(files fstest.MapFS, revision string) Local {
	return Local{
		Read: func(path string) ([]byte, error) {
			return fs.ReadFile(files, strings.TrimPrefix(filepath.ToSlash(path), "/"))
		},
		Hub:      "/hub",
		Home:     "/home/u",
		Revision: revision,
	}
}

// byteTokenizer is a tokenizer.json of two bytes and a merge.
const byteTokenizer = `{"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}, "pre_tokenizer": {"type": "ByteLevel",
	"add_prefix_space": false}, "decoder": {"type": "ByteLevel"}}`

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }

func TestLocal(t *testing.T) {
	files := fstest.MapFS{
		"m/tokenizer.json":        file(byteTokenizer),
		"home/u/x/tokenizer.json": file(byteTokenizer),
		"extra/tokenizer.json":    file(byteTokenizer),
		"extra/tokenizer_config.json": file(
			`{"added_tokens_decoder": {"3": {"content": "<x>", "special": true}}, "model_max_length": 1000000000000000019884624838656}`),
		"hub/models--o--n/refs/main":                    file("abc\n"),
		"hub/models--o--n/snapshots/abc/tokenizer.json": file(byteTokenizer),
		"hub/models--o--n/refs/v2":                      file("def"),
		"hub/models--o--n/snapshots/def/tokenizer.json": file(strings.Replace(byteTokenizer, `"ab": 2`, `"ab": 7`, 1)),
		"hub/models--gpt/snapshots/main/tokenizer.json": file(byteTokenizer),
		"hub/models--o--tekken/refs/main":               file("1"),
		"hub/models--o--tekken/snapshots/1/tekken.json": file("{}"),
		"hub/models--o--bad/refs/main":                  file("1"),
		"hub/models--o--bad/snapshots/1/tokenizer.json": file(`{"model": {"type": "Other"}}`),
		"hub/models--o--evil/refs/main":                 file("../../../m"),
		"plain/a.json":                                  file(`[`),
		"config/tokenizer.json":                         file(byteTokenizer),
		"config/tokenizer_config.json":                  file(`{"added_tokens_decoder": {"x": {"content": "<x>"}}}`),
	}
	for _, c := range []struct {
		name, revision, text string
		ids                  []int32
	}{
		{"/m", "", "abb", []int32{2, 1}},
		{"/m/tokenizer.json", "", "abb", []int32{2, 1}},
		{"~/x", "", "ba", []int32{1, 0}},
		{"/extra", "", "ab<x>", []int32{2, 3}},
		{"o/n", "", "ab", []int32{2}},
		{"o/n", "main", "ab", []int32{2}},
		{"o/n", "v2", "ab", []int32{7}},
		{"o/n", "def", "ab", []int32{7}}, // a commit
		{"gpt", "", "ab", []int32{2}},
	} {
		tok, err := at(files, c.revision).Open(c.name)
		if err != nil {
			t.Errorf("%s, revision %q: %v", c.name, c.revision, err)
			continue
		}
		if got := tok.Append(nil, []byte(c.text)); tok.Name() != c.name || !slices.Equal(got, c.ids) {
			t.Errorf("%s of %s at revision %q: %v, want %v", tok.Name(), c.name, c.revision, got, c.ids)
		}
	}
	const builtin = `--tokenizer builtin (prompt lengths are then o200k_base tokens, and the server counts its own)`
	const nowhere = ` is not on this machine, and nothing is downloaded. It is none of the built-in ones (builtin, o200k_base, o200k_harmony, cl100k_base, p50k_base, p50k_edit, r50k_base)`
	const choose = `. Choose: ` + builtin + `; --tokenizer PATH of a tokenizer.json or of a folder with one`
	for _, c := range []struct{ name, revision, want string }{
		{"o/none", "", `tokenizer "o/none"` + nowhere + `, and not in the folder o/none, nor in the hub cache /hub/models--o--none (revision main)` +
			choose + `; or put the model's tokenizer into the hub cache once: hf download o/none tokenizer.json tokenizer_config.json`},
		{"o/n", "v3", `tokenizer "o/n"` + nowhere + `, and not in the folder o/n, nor in the hub cache /hub/models--o--n (revision v3)` +
			choose + `; or put the model's tokenizer into the hub cache once: hf download o/n tokenizer.json tokenizer_config.json`},
		{"o/n", "../v2", `tokenizer "o/n"` + nowhere + `, and not in the folder o/n, nor in the hub cache /hub/models--o--n (revision ../v2)` +
			choose + `; or put the model's tokenizer into the hub cache once: hf download o/n tokenizer.json tokenizer_config.json`},
		{"o/evil", "", `tokenizer "o/evil"` + nowhere + `, and not in the folder o/evil, nor in the hub cache /hub/models--o--evil (revision main)` +
			choose + `; or put the model's tokenizer into the hub cache once: hf download o/evil tokenizer.json tokenizer_config.json`},
		{"/no/where", "", `tokenizer "/no/where"` + nowhere + `, and not in the folder /no/where` + choose},
		{"/no/t.json", "", `tokenizer "/no/t.json"` + nowhere + `, and not in the file /no/t.json` + choose},
		{"o/tekken", "", `tokenizer "o/tekken": /hub/models--o--tekken/snapshots/1 has tekken.json but no tokenizer.json, the one form that prefire ` +
			`reads. transformers writes one: python -c "from transformers import AutoTokenizer as A; A.from_pretrained(` +
			`'/hub/models--o--tekken/snapshots/1').save_pretrained('DIR')", then --tokenizer DIR; or --tokenizer builtin, which counts prompts ` +
			`as o200k_base does`},
		{"o/bad", "", `tokenizer "o/bad": /hub/models--o--bad/snapshots/1/tokenizer.json: model: the type "Other" is not known to prefire; it knows ` +
			`BPE, Unigram, WordPiece and WordLevel`},
		{"/plain/a.json", "", `tokenizer "/plain/a.json": /plain/a.json: is not valid JSON: byte 0 is '[', expected '{'`},
		{"/config", "", `tokenizer "/config": /config/tokenizer.json: tokenizer_config.json: added_tokens_decoder has the key "x", which is no token id`},
	} {
		if _, err := at(files, c.revision).Open(c.name); err == nil || err.Error() != c.want {
			t.Errorf("%s, revision %q: %v\nwant %s", c.name, c.revision, err, c.want)
		}
	}
}

func TestHubCache(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		want string
	}{
		{nil, ""},
		{map[string]string{"HOME": "/h"}, "/h/.cache/huggingface/hub"},
		{map[string]string{"HOME": "/h", "XDG_CACHE_HOME": "/c"}, "/c/huggingface/hub"},
		{map[string]string{"HOME": "/h", "XDG_CACHE_HOME": "/c", "HF_HOME": "~/hf"}, "/h/hf/hub"},
		{map[string]string{"HF_HOME": "/hf", "HUGGINGFACE_HUB_CACHE": "/old"}, "/old"},
		{map[string]string{"HF_HOME": "/hf", "HUGGINGFACE_HUB_CACHE": "/old", "HF_HUB_CACHE": "/new"}, "/new"},
		{map[string]string{"HOME": "/h", "HF_HOME": ""}, "/h/.cache/huggingface/hub"},
	} {
		env := func(name string) (string, bool) { v, ok := c.env[name]; return v, ok }
		if got := HubCache(env); got != filepath.FromSlash(c.want) {
			t.Errorf("HubCache of %v = %q, want %q", c.env, got, c.want)
		}
	}
}

// A folder that cannot be read is an error of its own, not a tokenizer that is nowhere.
func TestUnreadable(t *testing.T) {
	l := Local{Read: func(string) ([]byte, error) { return nil, os.ErrPermission }}
	want := `tokenizer "m": permission denied`
	if _, err := l.Open("m"); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
