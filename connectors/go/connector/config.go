package connector

import (
	"reflect"
	"strings"
	"time"
)

// Secret is a configuration value that is printed nowhere: its key is of the type password.
type Secret string

// String hides the value; convert to string to use it.
func (Secret) String() string { return "***" }

// GoString hides the value.
func (Secret) GoString() string { return "***" }

// MarshalText hides the value from everything that writes text, logs among them.
func (Secret) MarshalText() ([]byte, error) { return []byte("***"), nil }

// NoConfig is the configuration of a connector that has no keys.
type NoConfig struct{}

// schemaOf returns the keys of a configuration struct, in order. A field is a key by its tags:
//
//	BatchRows int `key:"batch.rows" default:"1000" doc:"Rows to give at once."`
//
// A field without the tag key is named by its words, in lower case, with dots. Further tags are
// required, choices (a,b), type (size), sensitive, group, importance and title. Types are string,
// bool, int, int64, float64, []string, time.Duration and Secret.
func schemaOf(config reflect.Type) ([]configKey, *Error) {
	if config.Kind() != reflect.Struct {
		return nil, Defectf("config.not_a_struct", "%s is no struct", config)
	}
	keys := make([]configKey, 0, config.NumField())
	for at := range config.NumField() {
		field := config.Field(at)
		if !field.IsExported() || field.Type == reflect.TypeFor[Reach]() {
			continue
		}
		key, err := keyOf(field, at)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}

func keyOf(field reflect.StructField, index int) (configKey, *Error) {
	key := configKey{
		name:       field.Tag.Get("key"),
		index:      index,
		kind:       field.Tag.Get("type"),
		required:   field.Tag.Get("required") == "true",
		doc:        field.Tag.Get("doc"),
		group:      field.Tag.Get("group"),
		importance: field.Tag.Get("importance"),
		title:      field.Tag.Get("title"),
	}
	words := wordsOf(field.Name)
	if key.name == "" {
		key.name = strings.ToLower(strings.Join(words, "."))
	}
	if key.title == "" {
		key.title = titleOf(words)
	}
	if choices := field.Tag.Get("choices"); choices != "" {
		key.choices = strings.Split(choices, ",")
	}
	if key.kind == "" {
		key.kind = kindOf(field.Type, len(key.choices) > 0)
	}
	key.sensitive = key.kind == "password" || field.Tag.Get("sensitive") == "true"
	if key.kind == "" {
		return key, Defectf("config.unsupported_type", "configuration key %q: %s is not supported",
			key.name, field.Type).WithFix(
			"Use string, bool, int, int64, float64, []string, time.Duration or Secret.")
	}
	text, given := field.Tag.Lookup("default")
	if !given {
		return key, nil
	}
	value, err := key.parse(text, field.Type)
	key.standard = value
	return key, err
}

func kindOf(field reflect.Type, chosen bool) string {
	switch {
	case field == reflect.TypeFor[time.Duration]():
		return "duration"
	case field == reflect.TypeFor[Secret]():
		return "password"
	case field.Kind() == reflect.String && chosen:
		return "enum"
	}
	switch field.Kind() {
	case reflect.String:
		return "string"
	case reflect.Int, reflect.Int64:
		return "int"
	case reflect.Float64:
		return "double"
	case reflect.Bool:
		return "boolean"
	case reflect.Slice:
		if field.Elem().Kind() == reflect.String {
			return "list"
		}
	}
	return ""
}

// readConfig fills a struct from texts, and returns all that is wrong with them.
func readConfig(config reflect.Value, keys []configKey, given map[string]string) []*Error {
	errs := unknownKeys(keys, given)
	for _, key := range keys {
		field := config.Field(key.index)
		text, found := given[key.name]
		switch {
		case key.required && strings.TrimSpace(text) == "":
			errs = append(errs, key.problem("config.missing", "has no value and needs one", "Set it."))
		case !found && key.standard.IsValid():
			field.Set(key.standard)
		case found:
			value, err := key.parse(text, field.Type())
			if err != nil {
				errs = append(errs, err)
				continue
			}
			field.Set(value)
		}
	}
	return errs
}

func unknownKeys(keys []configKey, given map[string]string) []*Error {
	names := make([]string, 0, len(keys))
	known := make(map[string]bool, len(keys))
	for _, key := range keys {
		names = append(names, key.name)
		known[key.name] = true
	}
	var errs []*Error
	for _, name := range sortedKeys(given) {
		if !known[name] {
			errs = append(errs, ConfigErrorf("config.unknown_key", "there is no key '%s'", name).
				WithFix("%s", nearestFix(name, names, "keys")).At(name))
		}
	}
	return errs
}

// firstOf returns the first of several errors, with the others as its detail.
func firstOf(errs []*Error) error {
	if len(errs) == 0 {
		return nil
	}
	first := *errs[0]
	for _, other := range errs[1:] {
		first.Detail = strings.TrimPrefix(first.Detail+"\n"+other.Error(), "\n")
	}
	return &first
}

// wordsOf returns the words of a name: MaxBytes is Max and Bytes, URLPath is URL and Path.
func wordsOf(name string) []string {
	var words []string
	start := 0
	for at := 1; at < len(name); at++ {
		begins := isUpper(name[at]) && (!isUpper(name[at-1]) ||
			at+1 < len(name) && !isUpper(name[at+1]))
		if begins {
			words = append(words, name[start:at])
			start = at
		}
	}
	return append(words, name[start:])
}

func isUpper(letter byte) bool { return letter >= 'A' && letter <= 'Z' }

func titleOf(words []string) string {
	lower := strings.ToLower(strings.Join(words, " "))
	return strings.ToUpper(lower[:1]) + lower[1:]
}
