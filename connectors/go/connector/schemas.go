package connector

import (
	"crypto/sha256"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	recordv1 "penstock/go/api/record/v1"
)

type schemaVersion struct {
	schema *arrow.Schema
	keys   []string
	id     uint32
}

// schemas are those of one stream: each version of each dataset has an id, from 1.
type schemas struct {
	ids     map[string]uint32
	current map[string]schemaVersion
}

func newSchemas() *schemas {
	return &schemas{ids: map[string]uint32{}, current: map[string]schemaVersion{}}
}

// idOf returns the id of a schema, and the frame to send before its rows when it is new.
func (s *schemas) idOf(
	dataset string, schema *arrow.Schema, keys []string,
) (uint32, *recordv1.Schema, error) {
	known, found := s.current[dataset]
	if found && slices.Equal(known.keys, keys) && (known.schema == schema || known.schema.Equal(schema)) {
		return known.id, nil, nil
	}
	if column := dictionaryColumn(schema.Fields()); column != "" {
		return 0, nil, SchemaErrorf("rows.dictionary_column",
			"column %q is dictionary encoded; the wire has no dictionary messages", column).
			WithFix("Give its values as a plain column.")
	}
	message, err := encodeSchema(schema)
	if err != nil {
		return 0, nil, err
	}
	mark := sha256.Sum256(message)
	name := strings.Join(append([]string{dataset, string(mark[:])}, keys...), "\x00")
	id, seen := s.ids[name]
	if !seen {
		id = uint32(len(s.ids) + 1)
		s.ids[name] = id
	}
	s.current[dataset] = schemaVersion{schema, keys, id}
	if seen {
		return id, nil, nil
	}
	return id, &recordv1.Schema{
		SchemaId: id, Dataset: dataset, ArrowSchema: message, KeyColumns: keys,
	}, nil
}

func dictionaryColumn(fields []arrow.Field) string {
	for _, field := range fields {
		if field.Type.ID() == arrow.DICTIONARY {
			return field.Name
		}
		if nested, ok := field.Type.(arrow.NestedType); ok && dictionaryColumn(nested.Fields()) != "" {
			return field.Name
		}
	}
	return ""
}
