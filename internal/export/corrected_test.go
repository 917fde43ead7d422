package export

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"prefire/metrics"
)

func tableDef(t *testing.T, tag string) *metrics.Def {
	t.Helper()
	all := metrics.Table()
	i := slices.IndexFunc(all, func(d *metrics.Def) bool { return d.Tag == tag })
	if i < 0 {
		t.Fatalf("%s is not in the table", tag)
	}
	return all[i]
}

// What is not corrected stays as it is, to the last digit and in its place.
func TestCorrected(t *testing.T) {
	const summary = `{"schema_version":"1.4","request_count":{"unit":"requests","avg":2.0},
		"time_to_first_token":{"unit":"ms","avg":5,"odd":1},"later":{"a":[1.50,{"b":"<é"}],"c":null},"request_latency":{"unit":"ms","avg":7.0},"fixed":{"old":true}}`
	rs := []metrics.Result{{Def: tableDef(t, "time_to_first_token"), Count: 1, Sum: 3, Avg: 3, Min: 3, Max: 3, P: [9]float64{3, 3, 3, 3, 3, 3, 3, 3, 3}}}
	var b strings.Builder
	if err := Corrected(&b, []byte(summary), rs, []string{"request_latency"}, "fixed", Object{{"cold", 1}}); err != nil {
		t.Fatal(err)
	}
	const want = `{
  "schema_version": "1.4",
  "request_count": {
    "unit": "requests",
    "avg": 2.0
  },
  "time_to_first_token": {
    "unit": "ms",
    "avg": 3.0,
    "p1": 3.0,
    "p5": 3.0,
    "p10": 3.0,
    "p25": 3.0,
    "p50": 3.0,
    "p75": 3.0,
    "p90": 3.0,
    "p95": 3.0,
    "p99": 3.0,
    "min": 3.0,
    "max": 3.0,
    "std": 0.0,
    "count": 1,
    "sum": 3.0
  },
  "later": {
    "a": [
      1.50,
      {
        "b": "<é"
      }
    ],
    "c": null
  },
  "fixed": {
    "cold": 1
  }
}`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
	for _, bad := range []string{"", "[]", `{"a":1`, `{"a":1}x`, `{"a" 1}`} {
		if err := Corrected(&b, []byte(bad), nil, nil, "fixed", nil); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestCorrectedCSV(t *testing.T) {
	const old = "Metric,avg,min,max,sum,p1,p50,p77,std\r\n" +
		"Request Latency (ms),7.00,7.00,7.00,7.00,7.00,7.00,7.00,0.00\r\n" +
		"Time to First Token (ms),5.00,1.00,9.00,10.00,1.00,5.00,6.00,4.00\r\n" +
		"\"Odd, name\",1,2,3,4,5,6,7,8\r\n" +
		"\r\n" +
		"Metric,Value\r\nRequest Count,2.00\r\n"
	rs := []metrics.Result{{Def: tableDef(t, "time_to_first_token"), Count: 1, Sum: 3, Avg: 3, Min: 3, Max: 3, P: [9]float64{2, 0, 0, 0, 3}}}
	var b bytes.Buffer
	if err := CorrectedCSV(&b, strings.NewReader(old), rs, []*metrics.Def{tableDef(t, "request_latency")}); err != nil {
		t.Fatal(err)
	}
	const want = "Metric,avg,min,max,sum,p1,p50,p77,std\r\n" +
		"Time to First Token (ms),3.00,3.00,3.00,3.00,2.00,3.00,6.00,0.00\r\n" +
		"\"Odd, name\",1,2,3,4,5,6,7,8\r\n" +
		"\r\n" +
		"Metric,Value\r\nRequest Count,2.00\r\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}
