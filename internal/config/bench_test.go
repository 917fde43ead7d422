package config

import "testing"

func BenchmarkParse(b *testing.B) {
	for b.Loop() {
		if _, err := Parse(quiet, noEnv, files(nil)); err != nil {
			b.Fatal(err)
		}
	}
}
