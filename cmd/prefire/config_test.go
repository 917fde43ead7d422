package main

import (
	"io/fs"
	"testing"

	"prefire/internal/config"
	"prefire/internal/config/templates"
)

func TestEveryTemplateCanBeRun(t *testing.T) {
	for _, name := range templates.Names() {
		text, _ := templates.Text(name, "", "")
		v, err := config.Validate(name, func(string) (string, bool) { return "", false }, func(path string) ([]byte, error) {
			if path != name {
				return nil, fs.ErrNotExist
			}
			return []byte(text), nil
		})
		if err != nil || len(v.Warnings) > 0 {
			t.Errorf("%s: %v, %+v", name, err, v)
		}
	}
}
