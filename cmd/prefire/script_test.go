package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"prefire": main, "aiperf": main})
}

// TestScripts runs the command line as a user does. Beside testscript's own commands, scripts have
//
//	mock VAR FLAG...         serves until the script ends, and sets VAR to the address
//	deadport VAR             sets VAR to an address where nothing listens
//	jq FILE PATH [OP] VALUE  compares a value of a JSON file: = (the default), < and > ; PATH is keys and indexes joined by dots
//	lines FILE N             compares a file's number of lines
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"mock": scriptMock, "deadport": scriptDeadPort, "jq": scriptJSON, "lines": scriptLines,
		},
		Setup: func(e *testscript.Env) error {
			e.Setenv("SSL_CERT_FILE", "cert.pem") // where a script's mock over TLS writes its certificate
			// Small tokenizers of each kind.
			tokenizers, err := filepath.Abs("../../tokenize/internal/hf/testdata")
			e.Setenv("TOKENIZERS", tokenizers)
			return err
		},
	})
}

func scriptMock(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: mock VAR FLAG...")
	}
	for i, a := range args {
		if i > 0 && (args[i-1] == "--log" || args[i-1] == "--tls-cert-out") {
			args[i] = ts.MkAbs(a)
		}
	}
	line, stop := runMock(args[1:]...)
	if line == "" {
		_, text := stop()
		ts.Fatalf("prefire mock: %s", text)
	}
	url, _, _ := strings.Cut(strings.TrimPrefix(line, "prefire mock: listening on "), " ")
	ts.Setenv(args[0], url)
	ts.Defer(func() { stop() })
}

func scriptDeadPort(ts *testscript.TestScript, _ bool, args []string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Check(l.Close())
	ts.Setenv(args[0], "http://"+l.Addr().String())
}

func scriptJSON(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) == 3 {
		args = []string{args[0], args[1], "=", args[2]}
	}
	if len(args) != 4 {
		ts.Fatalf("usage: jq FILE PATH [OP] VALUE")
	}
	data, err := os.ReadFile(ts.MkAbs(args[0]))
	ts.Check(err)
	if strings.HasSuffix(args[0], ".jsonl") { // the lines are the elements of one list
		data = []byte("[" + strings.Join(strings.Split(strings.TrimSpace(string(data)), "\n"), ",") + "]")
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	ts.Check(d.Decode(&v))
	for _, key := range strings.Split(args[1], ".") {
		switch at := v.(type) {
		case map[string]any:
			v = at[key]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i >= len(at) {
				ts.Fatalf("%s: there is no element %s of %d", args[1], key, len(at))
			}
			v = at[i]
		default:
			v = nil
		}
	}
	if ok := compare(fmt.Sprint(v), args[2], args[3]); ok == neg {
		ts.Fatalf("%s: %s is %v, want %s %s (negated: %v)", args[0], args[1], v, args[2], args[3], neg)
	}
}

func compare(got, op, want string) bool {
	if op == "=" {
		return got == want
	}
	g, err1 := strconv.ParseFloat(got, 64)
	w, err2 := strconv.ParseFloat(want, 64)
	return err1 == nil && err2 == nil && (op == "<" && g < w || op == ">" && g > w)
}

func scriptLines(ts *testscript.TestScript, neg bool, args []string) {
	data, err := os.ReadFile(ts.MkAbs(args[0]))
	ts.Check(err)
	if got := strconv.Itoa(strings.Count(string(data), "\n")); (got == args[1]) == neg {
		ts.Fatalf("%s has %s lines, want %s (negated: %v)", args[0], got, args[1], neg)
	}
}
