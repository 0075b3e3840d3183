"""JSON: with and without schemas in the messages, and with JSON Schemas of a registry.

- `converter`         JSON with and without schemas, exact to Kafka's JsonConverter
- `objects`           JSON objects without schemas, many at once, by Arrow's parser
- `strings`           JSON texts without escapes to strings, many at once
- `columns`           JSON of a known schema to columns, many messages at once
- `text`              columns to JSON texts, all rows at once, as Jackson writes them
- `values`            JSON values to Arrow values by a schema
- `schema_converter`  JSON with a schema registry, as Confluent's JsonSchemaConverter
- `schema`            JSON Schema to Kafka Connect's schemas, and back
"""
