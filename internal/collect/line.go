package collect

import (
	"encoding/json"
	"reflect"
	"strconv"

	"prefire/internal/orjson"
	"prefire/metrics"
)

// Line is one line of the journal. Fields of a record that have their zero value are left out.
type Line struct {
	Record metrics.Record `json:"record"`
	Output string         `json:"output,omitempty"`
	Reason string         `json:"reasoning,omitempty"`
	Input  string         `json:"input,omitempty"`
}

// fieldWriter writes one kind of struct as encoding/json reads it back, without allocating and without the fields that say nothing: a line is
// written for every request. Fields of kinds that it does not know are left to encoding/json.
type fieldWriter []recordField

type recordField struct {
	index  int
	key    []byte // `"name":`
	kind   fieldKind
	within fieldWriter // of a struct
}

type fieldKind uint8

const (
	otherKind fieldKind = iota
	boolKind
	intKind
	uintKind
	stringKind
	structKind
	intsKind
)

func newFieldWriter(t reflect.Type) fieldWriter {
	var w fieldWriter
	for i := range t.NumField() {
		sf := t.Field(i)
		f := recordField{index: i, key: append(orjson.AppendString(nil, sf.Name), ':')}
		switch k := sf.Type.Kind(); {
		case sf.Tag != "":
		case k == reflect.Bool:
			f.kind = boolKind
		case k >= reflect.Int && k <= reflect.Int64:
			f.kind = intKind
		case k >= reflect.Uint && k <= reflect.Uint64:
			f.kind = uintKind
		case k == reflect.String:
			f.kind = stringKind
		case k == reflect.Slice && sf.Type.Elem().Kind() == reflect.Int64:
			f.kind = intsKind
		case k == reflect.Struct:
			f.kind, f.within = structKind, newFieldWriter(sf.Type)
		}
		w = append(w, f)
	}
	return w
}

// append appends v's fields as an object.
func (w fieldWriter) append(dst []byte, v reflect.Value) ([]byte, error) {
	dst = append(dst, '{')
	at := len(dst)
	for i := range w {
		f := &w[i]
		field := v.Field(f.index)
		if f.kind != structKind && field.IsZero() {
			continue
		}
		from := len(dst)
		if from > at {
			dst = append(dst, ',')
		}
		dst = append(dst, f.key...)
		switch f.kind {
		case boolKind:
			dst = append(dst, "true"...)
		case intKind:
			dst = strconv.AppendInt(dst, field.Int(), 10)
		case uintKind:
			dst = strconv.AppendUint(dst, field.Uint(), 10)
		case stringKind:
			dst = orjson.AppendString(dst, field.String())
		case intsKind:
			dst = appendInts(dst, field)
		case structKind:
			before := len(dst)
			var err error
			if dst, err = f.within.append(dst, field); err != nil {
				return dst, err
			}
			if len(dst) == before+len("{}") {
				dst = dst[:from]
			}
		default:
			raw, err := json.Marshal(field.Interface())
			if err != nil {
				return dst, err
			}
			dst = append(dst, raw...)
		}
	}
	return append(dst, '}'), nil
}

func appendInts(dst []byte, list reflect.Value) []byte {
	dst = append(dst, '[')
	for i := range list.Len() {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(dst, list.Index(i).Int(), 10)
	}
	return append(dst, ']')
}

// appendLine appends one line of the journal.
func (w fieldWriter) appendLine(dst []byte, r *metrics.Record, output, reason, input []byte) ([]byte, error) {
	dst, err := w.append(append(dst, `{"record":`...), reflect.ValueOf(r).Elem())
	if err != nil {
		return dst, err
	}
	for _, text := range [...]struct {
		key  string
		text []byte
	}{{`,"output":`, output}, {`,"reasoning":`, reason}, {`,"input":`, input}} {
		if len(text.text) > 0 {
			dst = orjson.AppendString(append(dst, text.key...), text.text)
		}
	}
	return append(dst, "}\n"...), nil
}
