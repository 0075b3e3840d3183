"""Reads rows of the files that the driver names in a ticket."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.model.errors import RetriableError
from penstock.topic_files.layout import INDEX, OFFSET, PARTITION
from penstock.topic_files.locations import folder_from_ticket

BATCH_ROWS: Final = 65_536


def read_files(ticket: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the ticket's parts of files, in order, in the ticket's schema. A column
    that was added after a file was written is null.

    Raises:
        RetriableError: `topic.file_gone`, `topic.read_failed`. The task then finds the files of its
            rows again, or reports that the rows are gone.
    """
    schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(ticket["schema"])))
    positions = ticket.get("positions")
    columns = schema if positions is None else without_position_columns(schema)
    root, files = ticket["root"], ticket["files"]
    opened = folder_from_ticket(ticket).open_files((name, size) for name, _, _, size in files)
    for number, (name, first, rows, _) in enumerate(files):
        try:
            batches = read_rows(next(opened), columns, first, rows)
            yield from (
                batches if positions is None else _append_positions(batches, *positions[number])
            )
        except FileNotFoundError as error:
            raise RetriableError(
                "topic.file_gone",
                f"{root}/{name} was removed before it was read",
                fix="Compaction or retention removed it; the task finds its rows again.",
            ) from error
        except OSError as error:
            raise RetriableError(
                "topic.read_failed",
                f"{root}/{name}: {error}",
                fix="Check the disk or the store that has the topics.",
            ) from error


def read_rows(
    opened: pa.NativeFile, schema: pa.Schema, first: int, rows: int
) -> Iterator[pa.RecordBatch]:
    """Yield `rows` rows of a file from number `first` on, in a schema, and close the file."""
    # one thread: each slot has a core of its own
    with opened, pq.ParquetFile(opened) as file:
        has = set(file.schema_arrow.names)
        names = [name for name in schema.names if name in has] or [INDEX]  # rows need a column
        groups, skip = _find_row_groups(file.metadata, first, rows)
        left = rows
        for batch in file.iter_batches(
            BATCH_ROWS, row_groups=groups, columns=names, use_threads=False
        ):
            if skip >= batch.num_rows:
                skip -= batch.num_rows
                continue
            piece = batch.slice(skip, min(left, batch.num_rows - skip))
            skip, left = 0, left - piece.num_rows
            yield _to_schema(piece, schema)
            if not left:
                return


def with_position_columns(schema: pa.Schema) -> pa.Schema:
    """Return the schema of rows with their partition and offset in the topic."""
    columns = without_position_columns(schema)
    return columns.append(pa.field(PARTITION, pa.int32())).append(pa.field(OFFSET, pa.int64()))


def without_position_columns(schema: pa.Schema) -> pa.Schema:
    """Return a schema without the columns of partition and offset."""
    return pa.schema([field for field in schema if field.name not in {PARTITION, OFFSET}])


def _append_positions(
    batches: Iterator[pa.RecordBatch], partition: int, offset: int
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        numbers = pa.repeat(pa.scalar(partition, pa.int32()), batch.num_rows)
        offsets = pa.array(np.arange(offset, offset + batch.num_rows, dtype=np.int64))
        offset += batch.num_rows
        yield batch.append_column(PARTITION, numbers).append_column(OFFSET, offsets)


def _find_row_groups(metadata: pq.FileMetaData, first: int, rows: int) -> tuple[list[int], int]:
    """Return the row groups with a range of rows, and the number of rows to skip in the first
    one.
    """
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


def _to_schema(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    has = {name: place for place, name in enumerate(rows.schema.names)}
    columns = [
        rows.column(has[field.name]).cast(field.type)
        if field.name in has
        else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
