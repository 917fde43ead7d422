package vocab

import (
	"fmt"
	"testing"
)

// What was added is found, whatever the table had room for, and nothing else.
func TestTable(t *testing.T) {
	v := New(0, 0)
	text := func(i int) []byte { return fmt.Appendf(nil, "%0*d", 1+i%20, i) }
	held := map[string]int32{}
	for i := range 5000 {
		token, id := text(i), int32(3*i)
		_, twice := held[string(token)]
		if ok := v.Add(token, id); ok == twice {
			t.Fatalf("Add(%q) = %v", token, ok)
		}
		if !twice {
			held[string(token)] = id
		}
	}
	for token, id := range held {
		around := []byte("x" + token + "y")
		if got := v.Find(around, 1, 1+len(token)); got != id || string(v.Token(id)) != token {
			t.Errorf("Find(%q) = %d, Token(%d) = %q", token, got, id, v.Token(id))
		}
	}
	if v.Len() != 3*4999+1 || v.Token(1) != nil && len(v.Token(1)) > 0 || v.Token(1<<20) != nil {
		t.Errorf("%d ids, token 1 is %q", v.Len(), v.Token(1))
	}
	for _, token := range []string{"x", "", "00000000000000000000000000000", "4999y"} {
		if got := v.Find([]byte(token), 0, len(token)); got != None {
			t.Errorf("Find(%q) = %d", token, got)
		}
	}
	for _, c := range []struct {
		token string
		id    int32
	}{{"", 99999}, {"new", 0}, {"new", -1}, {"0", 99999}} {
		if v.Add([]byte(c.token), c.id) {
			t.Errorf("Add(%q, %d) is taken", c.token, c.id)
		}
	}
}
