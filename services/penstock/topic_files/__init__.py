"""The files of an embedded topic, as executors write and read them: pure Arrow and files, no Delta
log.

- `layout`   names of columns and files
- `types`    which Arrow types a topic stores, and how the others are brought there
- `placing`  which partition a row goes to
- `parquet`  one file: rows with their numbers, durable when it is closed
- `writing`  a slot's rows into files that no reader sees until the driver commits them
- `reading`  rows out of the files that the driver names
- `disk`     making files and names durable
"""

from penstock.topic_files.layout import (
    BASE,
    HIDDEN,
    INDEX,
    PARTITION,
    StagedName,
    is_compacted,
    new_compacted_name,
    new_staged_name,
    parse_staged_name,
)
from penstock.topic_files.parquet import RowFile
from penstock.topic_files.placing import partition_of, partition_without_key
from penstock.topic_files.reading import read_files, read_rows
from penstock.topic_files.types import joined_type, stored_rows, stored_schema
from penstock.topic_files.writing import write_files

__all__ = [
    "BASE",
    "HIDDEN",
    "INDEX",
    "PARTITION",
    "RowFile",
    "StagedName",
    "is_compacted",
    "joined_type",
    "new_compacted_name",
    "new_staged_name",
    "parse_staged_name",
    "partition_of",
    "partition_without_key",
    "read_files",
    "read_rows",
    "stored_rows",
    "stored_schema",
    "write_files",
]
