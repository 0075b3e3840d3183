"""RocketMQ Connect's transforms; its RegexRouter is Kafka Connect's.

- `field_names`: ChangeCase, PatternRename
- `values`: ExtractNestedField, PatternFilter, SetMaximumPrecision, SetNull
"""
