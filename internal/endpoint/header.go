package endpoint

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"prefire/loadgen/wire"
)

// Names of the header fields that carry a request's identity.
const (
	RequestID       = "X-Request-ID"
	CorrelationID   = "X-Correlation-ID"
	SessionAffinity = "X-Session-Affinity"
)

// HeaderOptions say what the requests' headers hold.
type HeaderOptions struct {
	UserAgent string       // prefire/VERSION
	APIKey    string       // sent as Authorization: Bearer; "" = none
	Session   string       // name of the field with the session's id; "" = X-Correlation-ID
	User      []wire.Field // as given by the user, in order
	// Copies name more fields with the session's id; they stand above the user's. nil = X-Session-Affinity alone.
	Copies []string
}

// Header is the header of a run's requests.
type Header struct {
	// Fixed are the fields that all requests share: User-Agent, the user's, Authorization, Accept, Content-Type. With the ids behind them
	// they hold what aiperf sends; it has the ids after User-Agent.
	Fixed []wire.Field
	// Host is the value of a Host field that the user gave; "" = none. It belongs into the target, not among the fields.
	Host string
	// Overridden names the fields of the user's that are not sent as given, as aiperf does not send them either: Accept and Content-Type
	// follow the endpoint, Authorization the API key, X-Session-Affinity and other copies the session's id.
	Overridden []string

	session              string // name of the field with the session's id
	copies               []string
	requestID, sessionID bool // the user gave these fields, and they stand above ours
}

// Header composes the header. A field given twice, in any spelling, is sent once, in the first one's place with the last one's value.
// The error names the field, never its value.
func (e *Endpoint) Header(o HeaderOptions) (Header, error) {
	h := Header{session: cmp.Or(o.Session, CorrelationID), copies: o.Copies}
	if h.copies == nil {
		h.copies = []string{SessionAffinity}
	}
	if err := checkSession(h.session); err != nil {
		return Header{}, err
	}
	h.Fixed = put(h.Fixed, "User-Agent", o.UserAgent)
	for _, f := range o.User {
		if !httpguts.ValidHeaderFieldName(f.Name) {
			return Header{}, fmt.Errorf("header %q: its name may hold letters, digits and !#$%%&'*+-.^_`|~ only", f.Name)
		}
		if !httpguts.ValidHeaderFieldValue(f.Value) {
			return Header{}, fmt.Errorf("header %s: its value holds a control character, which no header may", f.Name)
		}
		switch name := strings.ToLower(f.Name); name {
		case "content-length", "transfer-encoding":
			return Header{}, fmt.Errorf("header %s: it follows from the request's body and cannot be set", f.Name)
		case "accept-encoding":
			if !strings.EqualFold(f.Value, "identity") {
				return Header{}, fmt.Errorf("header %s: a compressed answer would come later than its tokens do; only identity is allowed", f.Name)
			}
			h.Fixed = put(h.Fixed, f.Name, f.Value)
		case "host":
			h.Host = f.Value
		case "accept", "content-type":
			h.Overridden = append(h.Overridden, f.Name)
		default:
			if h.copied(name) {
				h.Overridden = append(h.Overridden, f.Name)
				continue
			}
			h.requestID = h.requestID || name == "x-request-id"
			h.sessionID = h.sessionID || strings.EqualFold(name, h.session)
			h.Fixed = put(h.Fixed, f.Name, f.Value)
		}
	}
	if o.APIKey != "" {
		if !httpguts.ValidHeaderFieldValue(o.APIKey) {
			return Header{}, fmt.Errorf("the API key holds a control character, which no header may")
		}
		if i := find(h.Fixed, "Authorization"); i >= 0 {
			h.Overridden = append(h.Overridden, h.Fixed[i].Name)
		}
		h.Fixed = put(h.Fixed, "Authorization", "Bearer "+o.APIKey)
	}
	accept := "application/json"
	if e.streaming {
		accept = "text/event-stream"
	}
	h.Fixed = append(h.Fixed, wire.Field{Name: "Accept", Value: accept}, wire.Field{Name: "Content-Type", Value: "application/json"})
	return h, nil
}

// checkSession reports why a field of this name cannot hold the session's id.
func checkSession(name string) error {
	if !httpguts.ValidHeaderFieldName(name) {
		return fmt.Errorf("session header %q: its name may hold letters, digits and !#$%%&'*+-.^_`|~ only", name)
	}
	for _, taken := range [...]string{RequestID, "User-Agent", "Host", "Authorization", "Accept", "Accept-Encoding", "Content-Type", "Content-Length",
		"Transfer-Encoding", "Connection"} {
		if strings.EqualFold(name, taken) {
			return fmt.Errorf("session header %s: the field of this name holds something else; choose another, such as X-Session-ID", name)
		}
	}
	return nil
}

func (h *Header) copied(name string) bool {
	return slices.ContainsFunc(h.copies, func(c string) bool { return strings.EqualFold(c, name) })
}

// AppendIDs appends the fields of one request: X-Request-ID and the session's field, each unless the user gave one of that name, and the
// copies, such as X-Session-Affinity, which are the session's id always.
func (h *Header) AppendIDs(dst []wire.Field, requestID, correlationID string) []wire.Field {
	if !h.requestID {
		dst = append(dst, wire.Field{Name: RequestID, Value: requestID})
	}
	if !h.sessionID && !h.copied(h.session) {
		dst = append(dst, wire.Field{Name: h.session, Value: correlationID})
	}
	for _, name := range h.copies {
		dst = append(dst, wire.Field{Name: name, Value: correlationID})
	}
	return dst
}

func find(fields []wire.Field, name string) int {
	return slices.IndexFunc(fields, func(f wire.Field) bool { return strings.EqualFold(f.Name, name) })
}

func put(fields []wire.Field, name, value string) []wire.Field {
	if i := find(fields, name); i >= 0 {
		fields[i] = wire.Field{Name: name, Value: value}
		return fields
	}
	return append(fields, wire.Field{Name: name, Value: value})
}
