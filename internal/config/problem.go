package config

import "fmt"

// Titles of messages, as aiperf titles its boxes.
const (
	titleParse  = "Error"
	titleConfig = "Error Running AIPerf System"
)

// complaint is a message for the user: whole sentences, passed on as it is.
type complaint string

func (c complaint) Error() string { return string(c) }

func complain(format string, args ...any) error { return complaint(fmt.Sprintf(format, args...)) }
