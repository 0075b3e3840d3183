package connector

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// CanonicalJSON returns the one JSON text of a value: sorted keys, no spaces, exotic scalars
// tagged. It is the text that the host makes, so that both sides name a partition alike.
func CanonicalJSON(value any) (string, error) {
	var out strings.Builder
	if err := writeCanonical(&out, value); err != nil {
		return "", err
	}
	return out.String(), nil
}

func writeCanonical(out *strings.Builder, value any) error {
	switch value := value.(type) {
	case nil:
		out.WriteString("null")
	case bool:
		out.WriteString(strconv.FormatBool(value))
	case float64:
		out.WriteString(floatText(value))
	case string:
		writeQuoted(out, value)
	case []byte:
		writeTagged(out, "$bytes", base64.StdEncoding.EncodeToString(value))
	case Decimal:
		writeTagged(out, "$decimal", string(value))
	case time.Time:
		writeTagged(out, "$timestamp", timestampText(value))
	case Date:
		writeTagged(out, "$date", value.String())
	case []any:
		return writeList(out, value)
	case Fields:
		return writeFields(out, value)
	case map[string]any:
		return writeFields(out, value)
	default:
		number, ok := integerOf(value)
		if !ok {
			return Defectf("connector.value", "%T cannot be part of a key or an offset", value)
		}
		out.WriteString(strconv.FormatInt(number, 10))
	}
	return nil
}

func writeList(out *strings.Builder, values []any) error {
	out.WriteByte('[')
	for at, value := range values {
		if at > 0 {
			out.WriteByte(',')
		}
		if err := writeCanonical(out, value); err != nil {
			return err
		}
	}
	out.WriteByte(']')
	return nil
}

func writeFields(out *strings.Builder, fields Fields) error {
	names := make([]string, 0, len(fields))
	for name := range fields {
		names = append(names, name)
	}
	slices.Sort(names) // bytes of UTF-8 sort as its characters do
	out.WriteByte('{')
	for at, name := range names {
		if at > 0 {
			out.WriteByte(',')
		}
		writeQuoted(out, name)
		out.WriteByte(':')
		if err := writeCanonical(out, fields[name]); err != nil {
			return err
		}
	}
	out.WriteByte('}')
	return nil
}

func writeTagged(out *strings.Builder, tag, text string) {
	out.WriteString(`{"` + tag + `":`)
	writeQuoted(out, text)
	out.WriteByte('}')
}

var escapes = map[rune]string{
	'"': `\"`, '\\': `\\`, '\n': `\n`, '\r': `\r`, '\t': `\t`, '\f': `\f`, '\b': `\b`,
}

func writeQuoted(out *strings.Builder, text string) {
	out.WriteByte('"')
	for _, character := range text {
		escape, found := escapes[character]
		switch {
		case found:
			out.WriteString(escape)
		case character < ' ':
			fmt.Fprintf(out, `\u%04x`, character)
		case character == utf8.RuneError:
			out.WriteString("�")
		default:
			out.WriteRune(character)
		}
	}
	out.WriteByte('"')
}

// floatText writes a number as Python does: the shortest digits, with a point or an exponent.
func floatText(number float64) string {
	switch {
	case math.IsNaN(number):
		return "NaN"
	case math.IsInf(number, 1):
		return "Infinity"
	case math.IsInf(number, -1):
		return "-Infinity"
	}
	if size := math.Abs(number); size != 0 && (size < 1e-4 || size >= 1e16) {
		return strconv.FormatFloat(number, 'e', -1, 64)
	}
	text := strconv.FormatFloat(number, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

func timestampText(moment time.Time) string {
	moment = moment.UTC().Truncate(time.Microsecond)
	layout := "2006-01-02T15:04:05"
	if moment.Nanosecond() != 0 {
		layout += ".000000"
	}
	return moment.Format(layout) + "+00:00"
}

// parseCanonical returns the value that CanonicalJSON wrote.
func parseCanonical(text string) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	return untagged(value)
}

func untagged(value any) (any, error) {
	switch value := value.(type) {
	case json.Number:
		if number, err := value.Int64(); err == nil {
			return number, nil
		}
		return value.Float64()
	case []any:
		for at, item := range value {
			plain, err := untagged(item)
			if err != nil {
				return nil, err
			}
			value[at] = plain
		}
		return value, nil
	case map[string]any:
		return untaggedFields(value)
	}
	return value, nil
}

func untaggedFields(fields map[string]any) (any, error) {
	plain := make(Fields, len(fields))
	for name, item := range fields {
		if text, ok := item.(string); ok && len(fields) == 1 && strings.HasPrefix(name, "$") {
			return untag(name, text)
		}
		value, err := untagged(item)
		if err != nil {
			return nil, err
		}
		plain[name] = value
	}
	return plain, nil
}

func untag(tag, text string) (any, error) {
	switch tag {
	case "$bytes":
		return base64.StdEncoding.DecodeString(text)
	case "$decimal":
		return Decimal(text), nil
	case "$timestamp":
		return time.Parse(time.RFC3339Nano, text)
	case "$date":
		day, err := time.Parse(time.DateOnly, text)
		return Date{day.Year(), day.Month(), day.Day()}, err
	}
	return Fields{tag: text}, nil
}
