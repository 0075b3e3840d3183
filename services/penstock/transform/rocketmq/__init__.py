"""RocketMQ Connect's transforms; its RegexRouter is Kafka Connect's.

- `change_case`, `pattern_rename`: other names for fields
- `extract_nested_field`: a field of a struct as a field of its own
- `pattern_filter`: drops rows by their texts
- `set_maximum_precision`, `set_null`: other types and values
"""
