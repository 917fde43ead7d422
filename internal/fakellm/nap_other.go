//go:build !linux

package fakellm

import "time"

// nap is had on Linux alone.
type nap struct{}

func newNap() *nap { return nil }

func (*nap) take(time.Duration) {}
func (*nap) end()               {}
func (*nap) close()             {}
