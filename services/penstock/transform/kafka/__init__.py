"""Kafka Connect's transforms, and Penstock's own in SQL.

- `conversions`: Cast, TimestampConverter
- `field_structure`: ExtractField, HoistField, Flatten, ReplaceField, ValueToKey
- `field_values`: InsertField, MaskField
- `header_transforms`: DropHeaders, InsertHeader, HeaderFrom
- `dataset_transforms`: RegexRouter, TimestampRouter, SetSchemaMetadata
- `sql_transforms`: Filter, Project, Sql
"""
