"""The files of embedded topics, as executors write and read them: Arrow and files, without a Delta
log. And the folders that keep them: of a file system, or of an S3-compatible store.

- `file_writer`   writes a slot's rows into files, by partition
- `file_reader`   reads rows of the files that the driver names
- `stored_types`  converts Arrow types into those that a topic stores
- `layout`        names of columns and files
- `folder`        the port of a folder, and the settings of S3
- `local_folder`, `s3_folder`  its two implementations
- `locations`     opens the folder at a path or a URL
"""

from penstock.topic_files.file_reader import read_files, read_rows, with_position_columns
from penstock.topic_files.file_writer import (
    RowFileWriter,
    assign_partitions,
    partition_of_task,
    write_files,
)
from penstock.topic_files.folder import FileInfo, Folder, S3Settings
from penstock.topic_files.layout import (
    BASE,
    INDEX,
    PARTITION,
    POSITION_COLUMNS,
    StagedName,
    is_compacted,
    new_compacted_name,
    new_staged_name,
    parse_staged_name,
)
from penstock.topic_files.local_folder import TEMPORARY_PREFIX, LocalFolder
from penstock.topic_files.locations import folder_from_ticket, open_folder
from penstock.topic_files.stored_types import merge_types, to_stored_rows, to_stored_schema

__all__ = [
    "BASE",
    "INDEX",
    "PARTITION",
    "POSITION_COLUMNS",
    "TEMPORARY_PREFIX",
    "FileInfo",
    "Folder",
    "LocalFolder",
    "RowFileWriter",
    "S3Settings",
    "StagedName",
    "assign_partitions",
    "folder_from_ticket",
    "is_compacted",
    "merge_types",
    "new_compacted_name",
    "new_staged_name",
    "open_folder",
    "parse_staged_name",
    "partition_of_task",
    "read_files",
    "read_rows",
    "to_stored_rows",
    "to_stored_schema",
    "with_position_columns",
    "write_files",
]
