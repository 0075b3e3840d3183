"""Transforms that unwrap the envelopes of change events: the operation becomes `__op`, the payload
becomes the row.

- `debezium`: ExtractNewRecordState, for `before`, `after`, `op`, `source`
- `opencdc`: UnwrapOpenCDC, for `operation`, `payload`, `key`, `metadata`
- `envelope`: columns of unwrapped rows, and fields that are added from an envelope
"""
