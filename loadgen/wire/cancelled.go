package wire

import (
	"fmt"
	"time"
)

// Cancelled is the error of a call that was ended before its answer was, for the reason given; after is the call's CancelAfter. Types are
// those aiperf writes.
func Cancelled(why Cause, after time.Duration) *Error {
	switch why {
	case ByTimeout:
		return &Error{Type: "TimeoutError", Message: "TimeoutError()"}
	case ByPlan:
		return &Error{Code: 499, Type: "RequestCancellationError",
			Message: fmt.Sprintf("Request cancelled %.3fs after being sent", after.Seconds())}
	case ByGrace:
		return &Error{Code: 499, Type: "RequestCancellationError", Message: "Request cancelled at the end of the grace period"}
	}
	return &Error{Code: 499, Type: "RequestCancellationError", Message: "Request cancelled by the user"}
}
