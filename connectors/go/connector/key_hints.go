package connector

import "slices"

// KeyHint is how a form shows a key beside the other values: the values that it offers, each of them
// valid (none: the key's choices), and whether it hides the key.
type KeyHint struct {
	RecommendedValues []string
	Hidden            bool
}

// keyHints returns the hints of keys, by name. given has no secrets.
func (k *kind) keyHints(given map[string]string) (map[string]KeyHint, error) {
	if k.hints == nil {
		return nil, nil
	}
	values := map[string]string{}
	for name, text := range given {
		values[name] = text
	}
	for _, key := range k.keys {
		if _, found := values[key.name]; !found && key.standard.IsValid() {
			values[key.name] = key.text()
		}
		if key.sensitive {
			delete(values, key.name)
		}
	}
	var hints map[string]KeyHint
	if failure := guard(k.name+".KeyHints", func() error { hints = k.hints(values); return nil }); failure != nil {
		return nil, failure
	}
	for _, name := range sortedKeys(hints) {
		if !slices.ContainsFunc(k.keys, func(key configKey) bool { return key.name == name }) {
			return nil, Defectf("config.unknown_hint", "%s.KeyHints: there is no key '%s'", k.name, name)
		}
	}
	return hints, nil
}
