"""Avro files, for the source and the sink.

- `container`  header, blocks, codecs: bytes
- `reading`    Avro schemas as Arrow's, and records as rows
- `writing`    Arrow schemas as Avro's, and rows as records
- `library`    fastavro, which does the records
"""
