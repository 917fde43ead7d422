package config

import (
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// redacted stands for a secret in everything that is written.
const redacted = "<redacted>"

// sensitiveHeader reports whether a header may carry credentials, by aiperf's rule: too many rather than too few.
func sensitiveHeader(name string) bool {
	low := strings.ToLower(name)
	switch low {
	case "ocp-apim-subscription-key", "x-goog-api-key", "x-functions-key", "aeg-sas-key", "x-csrf-token", "x-xsrf-token":
		return true
	}
	for _, part := range []string{
		"auth", "token", "secret", "password", "passwd", "credential", "cookie", "apikey", "api-key", "api_key", "session", "signature",
		"sas-key", "access-key", "private-key",
	} {
		if strings.Contains(low, part) {
			return true
		}
	}
	return false
}

// sensitiveParam reports whether a query parameter or a field of the request body is a credential by its name.
func sensitiveParam(name string) bool {
	switch strings.NewReplacer("-", "_", " ", "_").Replace(strings.ToLower(name)) {
	case "api_key", "apikey", "key", "token", "access_token", "auth_token", "bearer_token", "id_token", "refresh_token", "secret",
		"client_secret", "password", "passwd", "credential", "access_key_id", "awsaccesskeyid", "sig", "signature", "x_amz_signature",
		"x_amz_security_token", "x_amz_credential", "x_goog_signature", "x_goog_credential", "authorization":
		return true
	}
	return false
}

// redactURL takes user information and secret query parameters out of an address, with a scheme or without.
func redactURL(s string) string {
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok {
		scheme, rest = "", s
	} else {
		scheme += "://"
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	authority, rest := rest[:end], rest[end:]
	if at := strings.LastIndexByte(authority, '@'); at >= 0 && (scheme != "" || strings.Contains(authority[:at], ":")) {
		authority = redacted + authority[at:]
	}
	path, query, hasQuery := strings.Cut(rest, "?")
	if !hasQuery {
		return scheme + authority + rest
	}
	query, fragment, hasFragment := strings.Cut(query, "#")
	params := strings.Split(query, "&")
	for i, p := range params {
		name, _, hasValue := strings.Cut(p, "=")
		plainName, err := url.QueryUnescape(name)
		if err != nil {
			plainName = name
		}
		if hasValue && sensitiveParam(plainName) {
			params[i] = name + "=" + redacted
		}
	}
	out := scheme + authority + path + "?" + strings.Join(params, "&")
	if hasFragment {
		out += "#" + fragment
	}
	return out
}

// redactExtra takes credentials out of a body's extra fields, at any depth.
func redactExtra(m Map) Map {
	out := make(Map, len(m))
	for i, kv := range m {
		if sensitiveParam(kv.Key) {
			kv.Value = redacted
		} else {
			kv.Value = redactDeep(kv.Value)
		}
		out[i] = kv
	}
	return out
}

func redactDeep(v any) any {
	switch v := v.(type) {
	case Map:
		return redactExtra(v)
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = redactDeep(item)
		}
		return out
	}
	return v
}

// CommandLine is a command line in the form of aiperf's run_info.cli_command that a shell can run again: name is how the program is called,
// args is what follows the command, which is profile or takes profile's flags. Values are in single quotes unless they are numbers; secrets are redacted.
func CommandLine(name, command string, args []string) string {
	table := Flags()
	known := map[string]*Flag{}
	for i := range table {
		for _, n := range table[i].Names {
			known[n] = &table[i]
		}
	}
	words := []string{name, command}
	var current *Flag
	for _, arg := range args {
		spelled, value, tied := strings.Cut(arg, "=")
		if strings.HasPrefix(spelled, "--") {
			spelled = strings.ReplaceAll(spelled, "_", "-")
		} else if f := known[prefix(arg, 2)]; f != nil && f.Kind != Bool && len(spelled) > 2 && spelled != "-vv" {
			spelled, value, tied = arg[:2], arg[2:], true
		}
		f := known[spelled]
		switch {
		case f == nil && strings.HasPrefix(arg, "-") && !isNumber(arg) && (current == nil || strings.HasPrefix(arg, "--")):
			current = nil
			words = append(words, quote(arg))
		case f == nil:
			words = append(words, quote(redactValue(current, arg)))
		case tied:
			current = f
			glue := "="
			if !strings.HasPrefix(spelled, "--") {
				glue = " "
			}
			words = append(words, spelled+glue+quote(redactValue(f, value)))
		default:
			current = f
			words = append(words, spelled)
		}
	}
	return strings.Join(words, " ")
}

func redactValue(f *Flag, value string) string {
	if f == nil {
		return value
	}
	switch f.Field {
	case "api_key":
		return redacted
	case "urls":
		items := strings.Split(value, ",")
		for i := range items {
			items[i] = redactURL(items[i])
		}
		return strings.Join(items, ",")
	case "custom_endpoint", "proxy":
		return redactURL(value)
	case "headers":
		return redactPairs(value, headers, sensitiveHeader)
	case "extra_inputs":
		return redactPairs(value, pairs, sensitiveParam)
	}
	return value
}

// redactPairs replaces the secret values of a key:value word. One that holds none stays as it was written.
func redactPairs(value string, parse func(string) ([]KeyValue, error), secret func(string) bool) string {
	list, err := parse(value)
	if err != nil {
		return redacted
	}
	found := false
	out := make([]string, len(list))
	for i, kv := range list {
		text, isText := kv.Value.(string)
		if !isText {
			clean, err := appendJSON(nil, redactDeep(kv.Value))
			if err != nil {
				return redacted
			}
			text = string(clean)
			found = found || strings.Contains(text, redacted)
		}
		if secret(kv.Key) {
			found, text = true, redacted
		}
		out[i] = kv.Key + ":" + text
	}
	if !found {
		return value
	}
	return strings.Join(out, ",")
}

var (
	safeNumber = regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?$`)
	safeFlag   = regexp.MustCompile(`^--?[A-Za-z][A-Za-z0-9_-]*$`)
)

func isNumber(s string) bool {
	_, err := strconv.ParseFloat(s, 64)
	return err == nil
}

// quote puts s in single quotes for a shell, as aiperf writes values; numbers and flags stay bare.
func quote(s string) string {
	if safeNumber.MatchString(s) || safeFlag.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
