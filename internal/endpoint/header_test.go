package endpoint

import (
	"reflect"
	"strings"
	"testing"

	"prefire/loadgen/wire"
)

func TestHeader(t *testing.T) {
	cases := []struct {
		name       string
		o          HeaderOptions
		fixed      []wire.Field
		ids        []wire.Field
		host       string
		overridden []string
	}{
		{"none", HeaderOptions{UserAgent: "prefire/1"},
			[]wire.Field{{Name: "User-Agent", Value: "prefire/1"}, {Name: "Accept", Value: "text/event-stream"},
				{Name: "Content-Type", Value: "application/json"}},
			[]wire.Field{{Name: "X-Request-ID", Value: "r"}, {Name: "X-Correlation-ID", Value: "c"},
				{Name: "X-Session-Affinity", Value: "c"}}, "", nil},
		{"key and user's", HeaderOptions{UserAgent: "prefire/1", APIKey: "sk", User: []wire.Field{{Name: "X-A", Value: "b,c: d"}}},
			[]wire.Field{{Name: "User-Agent", Value: "prefire/1"}, {Name: "X-A", Value: "b,c: d"}, {Name: "Authorization", Value: "Bearer sk"},
				{Name: "Accept", Value: "text/event-stream"}, {Name: "Content-Type", Value: "application/json"}},
			[]wire.Field{{Name: "X-Request-ID", Value: "r"}, {Name: "X-Correlation-ID", Value: "c"},
				{Name: "X-Session-Affinity", Value: "c"}}, "", nil},
		{"the user's above ours", HeaderOptions{UserAgent: "prefire/1", APIKey: "sk", User: []wire.Field{
			{Name: "user-agent", Value: "me"}, {Name: "x-request-id", Value: "mine"}, {Name: "X-CORRELATION-ID", Value: "mine too"},
			{Name: "Host", Value: "model.example"}, {Name: "Accept-Encoding", Value: "identity"}}},
			[]wire.Field{{Name: "user-agent", Value: "me"}, {Name: "x-request-id", Value: "mine"}, {Name: "X-CORRELATION-ID", Value: "mine too"},
				{Name: "Accept-Encoding", Value: "identity"}, {Name: "Authorization", Value: "Bearer sk"},
				{Name: "Accept", Value: "text/event-stream"}, {Name: "Content-Type", Value: "application/json"}},
			[]wire.Field{{Name: "X-Session-Affinity", Value: "c"}}, "model.example", nil},
		{"ours above the user's", HeaderOptions{UserAgent: "prefire/1", APIKey: "sk", User: []wire.Field{
			{Name: "authorization", Value: "Basic x"}, {Name: "ACCEPT", Value: "text/plain"}, {Name: "content-type", Value: "text/plain"},
			{Name: "X-Session-Affinity", Value: "me"}}},
			[]wire.Field{{Name: "User-Agent", Value: "prefire/1"}, {Name: "Authorization", Value: "Bearer sk"},
				{Name: "Accept", Value: "text/event-stream"}, {Name: "Content-Type", Value: "application/json"}},
			[]wire.Field{{Name: "X-Request-ID", Value: "r"}, {Name: "X-Correlation-ID", Value: "c"},
				{Name: "X-Session-Affinity", Value: "c"}}, "", []string{"ACCEPT", "content-type", "X-Session-Affinity", "authorization"}},
		{"twice is once", HeaderOptions{UserAgent: "prefire/1", User: []wire.Field{{Name: "X-A", Value: "1"}, {Name: "X-B", Value: "2"},
			{Name: "x-a", Value: "3"}}},
			[]wire.Field{{Name: "User-Agent", Value: "prefire/1"}, {Name: "x-a", Value: "3"}, {Name: "X-B", Value: "2"},
				{Name: "Accept", Value: "text/event-stream"}, {Name: "Content-Type", Value: "application/json"}},
			[]wire.Field{{Name: "X-Request-ID", Value: "r"}, {Name: "X-Correlation-ID", Value: "c"},
				{Name: "X-Session-Affinity", Value: "c"}}, "", nil},
		{"a session header", HeaderOptions{UserAgent: "prefire/1", Session: "X-Session-ID", User: []wire.Field{{Name: "X-Correlation-ID", Value: "mine"}}},
			[]wire.Field{{Name: "User-Agent", Value: "prefire/1"}, {Name: "X-Correlation-ID", Value: "mine"},
				{Name: "Accept", Value: "text/event-stream"}, {Name: "Content-Type", Value: "application/json"}},
			[]wire.Field{{Name: "X-Request-ID", Value: "r"}, {Name: "X-Session-ID", Value: "c"}, {Name: "X-Session-Affinity", Value: "c"}}, "", nil},
		{"a session header of the user's", HeaderOptions{UserAgent: "prefire/1", Session: "X-Session-ID", User: []wire.Field{{Name: "x-session-id", Value: "mine"}}},
			[]wire.Field{{Name: "User-Agent", Value: "prefire/1"}, {Name: "x-session-id", Value: "mine"},
				{Name: "Accept", Value: "text/event-stream"}, {Name: "Content-Type", Value: "application/json"}},
			[]wire.Field{{Name: "X-Request-ID", Value: "r"}, {Name: "X-Session-Affinity", Value: "c"}}, "", nil},
		{"the affinity as the session header", HeaderOptions{UserAgent: "prefire/1", Session: "x-session-affinity"},
			[]wire.Field{{Name: "User-Agent", Value: "prefire/1"}, {Name: "Accept", Value: "text/event-stream"},
				{Name: "Content-Type", Value: "application/json"}},
			[]wire.Field{{Name: "X-Request-ID", Value: "r"}, {Name: "X-Session-Affinity", Value: "c"}}, "", nil},
		{"other copies", HeaderOptions{UserAgent: "prefire/1", Copies: []string{"X-Session-ID", "X-SMG-Routing-Key"}, User: []wire.Field{
			{Name: "x-session-id", Value: "mine"}, {Name: "X-Session-Affinity", Value: "me"}}},
			[]wire.Field{{Name: "User-Agent", Value: "prefire/1"}, {Name: "X-Session-Affinity", Value: "me"}, {Name: "Accept", Value: "text/event-stream"},
				{Name: "Content-Type", Value: "application/json"}},
			[]wire.Field{{Name: "X-Request-ID", Value: "r"}, {Name: "X-Correlation-ID", Value: "c"}, {Name: "X-Session-ID", Value: "c"},
				{Name: "X-SMG-Routing-Key", Value: "c"}}, "", []string{"x-session-id"}},
		{"no copy", HeaderOptions{UserAgent: "prefire/1", Copies: []string{}},
			[]wire.Field{{Name: "User-Agent", Value: "prefire/1"}, {Name: "Accept", Value: "text/event-stream"}, {Name: "Content-Type", Value: "application/json"}},
			[]wire.Field{{Name: "X-Request-ID", Value: "r"}, {Name: "X-Correlation-ID", Value: "c"}}, "", nil},
	}
	for _, c := range cases {
		h, err := chat(t, Options{Streaming: true}).Header(c.o)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if !reflect.DeepEqual(h.Fixed, c.fixed) {
			t.Errorf("%s: fixed\ngot  %v\nwant %v", c.name, h.Fixed, c.fixed)
		}
		if ids := h.AppendIDs(nil, "r", "c"); !reflect.DeepEqual(ids, c.ids) {
			t.Errorf("%s: ids\ngot  %v\nwant %v", c.name, ids, c.ids)
		}
		if h.Host != c.host || !reflect.DeepEqual(h.Overridden, c.overridden) {
			t.Errorf("%s: host %q, overridden %v", c.name, h.Host, h.Overridden)
		}
	}
}

func TestHeaderErrors(t *testing.T) {
	const secret = "s3cr3t"
	for _, c := range []struct {
		o    HeaderOptions
		want string
	}{
		{HeaderOptions{User: []wire.Field{{Name: "X A", Value: secret}}}, `header "X A": its name may hold`},
		{HeaderOptions{User: []wire.Field{{Name: "", Value: secret}}}, `header "": its name may hold`},
		{HeaderOptions{User: []wire.Field{{Name: "X-A", Value: secret + "\r\nX-B: c"}}}, "header X-A: its value holds a control character"},
		{HeaderOptions{User: []wire.Field{{Name: "Content-length", Value: "3"}}}, "header Content-length: it follows from"},
		{HeaderOptions{User: []wire.Field{{Name: "transfer-encoding", Value: "chunked"}}}, "header transfer-encoding: it follows from"},
		{HeaderOptions{User: []wire.Field{{Name: "Accept-Encoding", Value: "gzip"}}}, "header Accept-Encoding: a compressed answer"},
		{HeaderOptions{APIKey: secret + "\n"}, "the API key holds a control character"},
		{HeaderOptions{Session: "X A"}, `session header "X A": its name may hold`},
		{HeaderOptions{Session: "accept"}, "session header accept: the field of this name holds something else"},
	} {
		_, err := chat(t, Options{}).Header(c.o)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), secret) {
			t.Errorf("got %v, want %s…", err, c.want)
		}
	}
}
