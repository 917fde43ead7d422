// Package templates holds the config files that `config init` writes.
package templates

import (
	"cmp"
	"embed"
	"encoding/json"
	"path"
	"slices"
	"strings"
)

//go:embed *.yaml
var files embed.FS

// Info describes a template.
type Info struct {
	Name, Title, Description, Category, Difficulty string
	Tags                                           []string
}

// Categories are those of templates, in the order of a list.
func Categories() []string {
	return []string{"Getting Started", "Load Testing", "Datasets", "Sweep & Multi-Run", "Advanced"}
}

// Names are the names of all templates.
func Names() []string {
	names := make([]string, 0, 16)
	for _, info := range All() {
		names = append(names, info.Name)
	}
	slices.Sort(names)
	return names
}

// All describes every template, by category and name.
func All() []Info {
	entries, err := files.ReadDir(".")
	if err != nil {
		panic(err) // they are part of the binary
	}
	var all []Info
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), path.Ext(e.Name()))
		all = append(all, describe(name, text(name)))
	}
	slices.SortStableFunc(all, func(a, b Info) int {
		return cmp.Compare(slices.Index(Categories(), a.Category), slices.Index(Categories(), b.Category))
	})
	return all
}

func text(name string) string {
	b, err := files.ReadFile(name + ".yaml")
	if err != nil {
		return ""
	}
	return string(b)
}

// describe reads the comments at the head of a template: one a line, # KEY: TEXT.
func describe(name, text string) Info {
	info := Info{Name: name}
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "# "), ": ")
		if !ok || !strings.HasPrefix(line, "#") {
			break
		}
		switch key {
		case "title":
			info.Title = value
		case "description":
			info.Description = value
		case "category":
			info.Category = value
		case "difficulty":
			info.Difficulty = value
		case "tags":
			info.Tags = strings.Split(value, ", ")
		}
	}
	return info
}

// In are the templates of a category, of which a part of the name is enough.
func In(category string) []Info {
	return slices.DeleteFunc(All(), func(i Info) bool { return !holds(i.Category, category) })
}

// Search finds word in names, titles, descriptions, categories and tags; those that have it in their name come first.
func Search(word string) []Info {
	var named, others []Info
	for _, i := range All() {
		switch {
		case holds(i.Name, word):
			named = append(named, i)
		case slices.ContainsFunc(append(i.Tags, i.Title, i.Description, i.Category), func(s string) bool { return holds(s, word) }):
			others = append(others, i)
		}
	}
	return append(named, others...)
}

func holds(s, part string) bool { return strings.Contains(strings.ToLower(s), strings.ToLower(part)) }

// What stands in every template for what Text is given.
const (
	model = "model: my-model\n"
	url   = "url: http://localhost:8000\n"
)

// Text is the template called name, with another model and another server's address in it where they are given.
func Text(name, newModel, newURL string) (s string, ok bool) {
	if s = text(name); s == "" {
		return "", false
	}
	for _, r := range []struct{ old, key, value string }{{model, "model", newModel}, {url, "url", newURL}} {
		if r.value != "" {
			s = strings.Replace(s, r.old, r.key+": "+quote(r.value)+"\n", 1)
		}
	}
	return s, true
}

// quote writes s as YAML: bare where it is plain for sure, else in double quotes, whose escapes are JSON's.
func quote(s string) string {
	plain := strings.IndexFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("./_-:", r))
	}) < 0
	if plain && strings.ContainsAny(s, "/") && !strings.HasSuffix(s, ":") && s[0] != '-' && s[0] != ':' {
		return s
	}
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string is always JSON
	}
	return string(b)
}
