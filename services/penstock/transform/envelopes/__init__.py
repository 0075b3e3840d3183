"""Rows out of the envelopes of change events: what they stand for becomes `__op`, what they carry
becomes the row.

- `debezium`: `before`, `after`, `op`, `source`; `added`: the fields and headers that it adds
- `opencdc`: `operation`, `payload`, `key`, `metadata`
- `unwrapping`: what both have in common
"""
