"""The files of an embedded topic, as executors write and read them: pure Arrow and files, no Delta
log. And where they are: a folder of a file system, or of an S3-compatible store.

- `layout`   names of columns and files
- `types`    which Arrow types a topic stores, and how the others are brought there
- `writing`  a slot's rows into files that no reader sees until the driver commits them: which
  partition a row goes to, and Parquet files that are durable when they are closed
- `reading`  rows out of the files that the driver names
- `folder`   the port: put a name once, write, read, list, delete
- `places`   which driver a place has: `local`, or `s3` with `s3_settings`
- `s3_objects`  large objects as files; requests under way before their answers are wanted
"""

from penstock.topic_files.folder import FileInfo, Folder
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
from penstock.topic_files.local import TEMPORARY, LocalFolder
from penstock.topic_files.places import folder_at, folder_of
from penstock.topic_files.reading import placed_schema, read_files, read_rows
from penstock.topic_files.s3_settings import S3Settings
from penstock.topic_files.types import joined_type, stored_rows, stored_schema
from penstock.topic_files.writing import RowFile, partition_of, partition_without_key, write_files

__all__ = [
    "BASE",
    "HIDDEN",
    "INDEX",
    "PARTITION",
    "TEMPORARY",
    "FileInfo",
    "Folder",
    "LocalFolder",
    "RowFile",
    "S3Settings",
    "StagedName",
    "folder_at",
    "folder_of",
    "is_compacted",
    "joined_type",
    "new_compacted_name",
    "new_staged_name",
    "parse_staged_name",
    "partition_of",
    "partition_without_key",
    "placed_schema",
    "read_files",
    "read_rows",
    "stored_rows",
    "stored_schema",
    "write_files",
]
