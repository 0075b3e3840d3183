"""Rows out of the files that the driver names."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.model.errors import OffsetLostError

BATCH_ROWS = 65_536


def read_files(place: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the ticket's file slices, in order, in the schema of the ticket.

    A column that a file is older than is null.

    Raises:
        OffsetLostError: `topic.file_gone`: retention or a person removed the file.
    """
    schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(place["schema"])))
    for path, first, rows in place["files"]:
        try:
            yield from _slice(path, first, rows, schema)
        except FileNotFoundError as error:
            raise OffsetLostError(
                "topic.file_gone",
                f"{path} is gone while it was to be read",
                fix="Retention is shorter than the reader's lag: raise it, or reset the offset.",
            ) from error


def _slice(path: str, first: int, rows: int, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    with pq.ParquetFile(path, memory_map=True) as file:
        has = set(file.schema_arrow.names)
        names = [name for name in schema.names if name in has]
        groups, skip = _groups(file.metadata, first, rows)
        left = rows
        for batch in file.iter_batches(BATCH_ROWS, row_groups=groups, columns=names):
            if skip >= batch.num_rows:
                skip -= batch.num_rows
                continue
            piece = batch.slice(skip, min(left, batch.num_rows - skip))
            skip, left = 0, left - piece.num_rows
            yield _fitted(piece, schema)
            if not left:
                return


def _groups(metadata: pq.FileMetaData, first: int, rows: int) -> tuple[list[int], int]:
    """Return the row groups that hold a range of rows, and the rows to skip in the first one."""
    groups: list[int] = []
    start = skip = 0
    for number in range(metadata.num_row_groups):
        end = start + metadata.row_group(number).num_rows
        if end > first and start < first + rows:
            if not groups:
                skip = first - start
            groups.append(number)
        start = end
    return groups, skip


def _fitted(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [
        rows.column(field.name).cast(field.type)
        if field.name in rows.schema.names
        else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
