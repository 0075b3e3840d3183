"""Rows out of the files that the driver names."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.model.errors import RetriableError
from penstock.topic_files.layout import INDEX, OFFSET, PARTITION
from penstock.topic_files.places import folder_at

BATCH_ROWS: Final = 65_536


def read_files(place: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the ticket's file slices, in order, in the schema of the ticket.

    A column that a file is older than is null.

    Raises:
        RetriableError: `topic.file_gone`, `topic.read_failed`. The task then looks again where its
            rows are; when they are gone, it says so.
    """
    schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(place["schema"])))
    places = place.get("places")
    own = schema if places is None else unplaced_schema(schema)
    root, files = place["root"], place["files"]
    opened = folder_at(place).opened((name, size) for name, _, _, size in files)
    for number, (name, first, rows, _) in enumerate(files):
        try:
            found = read_rows(next(opened), own, first, rows)
            yield from found if places is None else _placed(found, *places[number])
        except FileNotFoundError as error:
            raise RetriableError(
                "topic.file_gone",
                f"{root}/{name} is gone while it was to be read",
                fix="Compaction or retention removed it; it is looked for again.",
            ) from error
        except OSError as error:
            raise RetriableError(
                "topic.read_failed",
                f"{root}/{name}: {error}",
                fix="Check the disk or the store that topics are on.",
            ) from error


def read_rows(
    opened: pa.NativeFile, schema: pa.Schema, first: int, rows: int
) -> Iterator[pa.RecordBatch]:
    """Yield `rows` rows of a file from number `first` on, in a schema; closes it."""
    # one thread: every slot has a core of its own
    with opened, pq.ParquetFile(opened) as file:
        has = set(file.schema_arrow.names)
        names = [name for name in schema.names if name in has] or [INDEX]  # rows want a column
        groups, skip = _groups(file.metadata, first, rows)
        left = rows
        for batch in file.iter_batches(
            BATCH_ROWS, row_groups=groups, columns=names, use_threads=False
        ):
            if skip >= batch.num_rows:
                skip -= batch.num_rows
                continue
            piece = batch.slice(skip, min(left, batch.num_rows - skip))
            skip, left = 0, left - piece.num_rows
            yield _fitted(piece, schema)
            if not left:
                return


def placed_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema of rows that tell where they stand in their topic."""
    own = unplaced_schema(schema)
    return own.append(pa.field(PARTITION, pa.int32())).append(pa.field(OFFSET, pa.int64()))


def unplaced_schema(schema: pa.Schema) -> pa.Schema:
    """Return a schema without the columns that tell where rows stand."""
    return pa.schema([field for field in schema if field.name not in {PARTITION, OFFSET}])


def _placed(
    batches: Iterator[pa.RecordBatch], partition: int, offset: int
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        numbers = pa.repeat(pa.scalar(partition, pa.int32()), batch.num_rows)
        offsets = pa.array(np.arange(offset, offset + batch.num_rows, dtype=np.int64))
        offset += batch.num_rows
        yield batch.append_column(PARTITION, numbers).append_column(OFFSET, offsets)


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
    has = {name: place for place, name in enumerate(rows.schema.names)}
    columns = [
        rows.column(has[field.name]).cast(field.type)
        if field.name in has
        else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
