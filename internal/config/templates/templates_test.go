package templates

import (
	"slices"
	"strings"
	"testing"
)

func TestEveryTemplateIsDescribed(t *testing.T) {
	all := All()
	if len(all) < 8 {
		t.Fatalf("%d templates", len(all))
	}
	for _, i := range all {
		s := text(i.Name)
		if i.Title == "" || i.Description == "" || len(i.Tags) == 0 || !slices.Contains(Categories(), i.Category) ||
			!slices.Contains([]string{"beginner", "intermediate", "advanced"}, i.Difficulty) {
			t.Errorf("%s is described as %+v", i.Name, i)
		}
		if strings.Count(s, model) != 1 || strings.Count(s, url) != 1 {
			t.Errorf("%s does not have the one model and the one url that Text replaces", i.Name)
		}
	}
}

func TestSearch(t *testing.T) {
	names := func(list []Info) (out []string) {
		for _, i := range list {
			out = append(out, i.Name)
		}
		return out
	}
	// The name counts before the tags.
	if got, want := names(Search("SOAK")), []string{"time_based_soak"}; !slices.Equal(got, want) {
		t.Errorf("soak: %q, want %q", got, want)
	}
	if got, want := names(Search("cache")), []string{"kv_cache_test", "warmup_profiling"}; !slices.Equal(got, want) {
		t.Errorf("cache: %q, want %q", got, want)
	}
	if got := Search("zzz"); len(got) > 0 {
		t.Errorf("zzz: %v", got)
	}
	if got, want := names(In("getting")), []string{"minimal", "warmup_profiling"}; !slices.Equal(got, want) {
		t.Errorf("getting: %q, want %q", got, want)
	}
}

func TestTextTakesModelAndAddress(t *testing.T) {
	for _, tt := range []struct{ model, url, wantModel, wantURL string }{
		{"", "", "  model: my-model\n", "    url: http://localhost:8000\n"},
		{"Qwen/Qwen3-0.6B", "http://h:1/v1", "  model: Qwen/Qwen3-0.6B\n", "    url: http://h:1/v1\n"},
		{"123", "h:8000", "  model: \"123\"\n", "    url: \"h:8000\"\n"},
		{"a \"b\": #c\n", "http://h/?a=b", "  model: \"a \\\"b\\\": #c\\n\"\n", "    url: \"http://h/?a=b\"\n"},
	} {
		s, ok := Text("minimal", tt.model, tt.url)
		if !ok || !strings.Contains(s, tt.wantModel) || !strings.Contains(s, tt.wantURL) {
			t.Errorf("%q, %q: %t\n%s", tt.model, tt.url, ok, s)
		}
	}
	if s, ok := Text("nope", "", ""); ok || s != "" {
		t.Errorf("nope: %q", s)
	}
	if names := Names(); !slices.IsSorted(names) || len(names) != len(All()) {
		t.Errorf("names %q", names)
	}
}
