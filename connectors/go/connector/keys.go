package connector

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	connectorv1 "penstock/go/api/connector/v1"
)

// configKey is one key: where its value goes, and what is said about it.
type configKey struct {
	name       string
	index      int
	kind       string
	required   bool
	sensitive  bool
	choices    []string
	standard   reflect.Value
	doc        string
	group      string
	importance string
	title      string
}

var expected = map[string]string{
	"int":      "a whole number",
	"double":   "a number",
	"boolean":  "true or false",
	"duration": "a duration like 5s, 100ms or 1h",
	"size":     "a size like 1MiB or 4096",
}

// parse returns the value of a text, of the type of its field.
func (k configKey) parse(text string, field reflect.Type) (reflect.Value, *Error) {
	value, err := k.parsed(text)
	if err != nil {
		shown := "'" + text + "'"
		if k.sensitive {
			shown = "***"
		}
		wanted, found := expected[k.kind]
		if !found {
			wanted = "another value"
		}
		return reflect.Value{}, k.problem("config.invalid_value",
			"is not valid: "+shown, "Give "+wanted+".")
	}
	if wrong := k.wrongChoice(value); wrong != nil {
		return reflect.Value{}, wrong
	}
	reflected := reflect.ValueOf(value)
	if !reflected.CanConvert(field) || reflected.Kind() != field.Kind() && field.Kind() == reflect.String {
		return reflect.Value{}, Defectf("config.unsupported_type",
			"configuration key %q: a %s does not fit into %s", k.name, k.kind, field)
	}
	return reflected.Convert(field), nil
}

func (k configKey) parsed(text string) (any, error) {
	trimmed := strings.TrimSpace(text)
	switch k.kind {
	case "password":
		return text, nil
	case "int":
		return strconv.ParseInt(trimmed, 10, 64)
	case "double":
		return strconv.ParseFloat(trimmed, 64)
	case "boolean":
		return parseBool(trimmed)
	case "size":
		return parseSize(trimmed)
	case "duration":
		return parseDuration(trimmed, strings.HasSuffix(k.name, ".ms"))
	case "list":
		items := []string{}
		for item := range strings.SplitSeq(trimmed, ",") {
			if item = strings.TrimSpace(item); item != "" {
				items = append(items, item)
			}
		}
		return items, nil
	}
	return trimmed, nil
}

func (k configKey) wrongChoice(value any) *Error {
	if len(k.choices) == 0 {
		return nil
	}
	items, isList := value.([]string)
	if !isList {
		items = []string{fmt.Sprint(value)}
	}
	for _, item := range items {
		if !slices.Contains(k.choices, item) {
			return k.problem("config.invalid_choice",
				fmt.Sprintf("is not one of its choices: '%s'", item),
				nearestFix(item, k.choices, "choices"))
		}
	}
	return nil
}

func (k configKey) problem(code, message, fix string) *Error {
	return ConfigErrorf(code, "'%s' %s", k.name, message).WithFix("%s", fix).At(k.name)
}

// text returns the default as text, so that parse gives it back.
func (k configKey) text() string {
	if !k.standard.IsValid() {
		return ""
	}
	switch value := k.standard.Interface().(type) {
	case time.Duration:
		return durationText(value)
	case []string:
		return strings.Join(value, ",")
	case float64:
		return strconv.FormatFloat(value, 'g', -1, 64)
	default:
		if k.kind == "size" {
			return sizeText(k.standard.Int())
		}
		return fmt.Sprint(value)
	}
}

func (k configKey) toProto(order int) *connectorv1.ConfigKey {
	importance := k.importance
	if importance == "" {
		importance = "medium"
		if k.required {
			importance = "high"
		}
	}
	message := &connectorv1.ConfigKey{
		Name: k.name, Type: k.kind, Required: k.required, Sensitive: k.sensitive,
		Importance: importance, Group: k.group, Order: int32(order), DisplayName: k.title,
		Documentation: k.doc, Choices: k.choices,
	}
	if k.standard.IsValid() && !k.sensitive {
		text := k.text()
		message.DefaultValue = &text
	}
	return message
}

func parseBool(text string) (bool, error) {
	switch strings.ToLower(text) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, fmt.Errorf("%q is not true or false", text)
}

func sortedKeys[V any](values map[string]V) []string {
	return slices.Sorted(maps.Keys(values))
}
