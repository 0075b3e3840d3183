"""A slot's rows into Parquet files that no reader sees until the driver commits them."""

from __future__ import annotations

import base64
import errno
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

from penstock.model import columns
from penstock.model.errors import RetriableError
from penstock.topic_files.layout import StagedName, new_staged_name, task_in_name
from penstock.topic_files.parquet import RowFile
from penstock.topic_files.places import folder_at
from penstock.topic_files.placing import partition_of, partition_without_key
from penstock.topic_files.types import stored_rows, stored_schema

MOST_BUFFERED: Final = 32 << 20
"""Bytes that the files of a slot may collect together. More partitions make smaller row groups, not
a larger process."""


def write_files(
    batches: Iterable[pa.RecordBatch], place: Mapping[str, Any], attempt: int
) -> dict[str, Any]:
    """Write a slot's rows into one file for each partition; returns the files in order.

    The files are durable when this returns, and visible to nobody: no version of the table names
    them. The order of rows within a partition is kept.

    Raises:
        RetriableError: `topic.disk_full`, `topic.write_failed`.
        DataError: `engine.out_of_range`: a value does not fit the table's type.
        SchemaError: `topic.type_unsupported`.
    """
    slot = _Slot(place, attempt)
    try:
        for batch in batches:
            slot.add(batch)
        return {"files": slot.finish()}
    except OSError as error:
        slot.discard()
        full = error.errno in {errno.ENOSPC, errno.EDQUOT}
        raise RetriableError(
            "topic.disk_full" if full else "topic.write_failed",
            f"{place['root']}: {error}",
            fix="Free space, or check the disk or the store that topics are on.",
        ) from error
    except BaseException:
        slot.discard()
        raise


class _Slot:
    """The open files of one attempt, by partition."""

    def __init__(self, place: Mapping[str, Any], attempt: int) -> None:
        self._place, self._attempt = place, attempt
        self._folder = folder_at(place)
        self._partitions = int(place["partitions"])
        self._casts = _casts(place)
        self._columns: tuple[pa.Schema, pa.Schema] | None = None
        self._files: dict[int, RowFile] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        """Write rows to the files of their partitions."""
        if not batch.num_rows:
            return
        if self._columns is None or self._columns[0] is not batch.schema:
            self._columns = (batch.schema, stored_schema(batch.schema))
        rows = stored_rows(batch, self._columns[1], self._casts)
        for partition, part in self._divided(rows):
            self._file(partition, part.schema).write(part)
        while sum(file.buffered for file in self._files.values()) > MOST_BUFFERED:
            max(self._files.values(), key=lambda file: file.buffered).flush()

    def finish(self) -> list[dict[str, Any]]:
        """Close and sync all files, and the folder they are in."""
        found = [
            {
                "topic": self._place["topic"],
                "path": file.name,
                "partition": partition,
                "rows": file.rows,
                "bytes": file.close(),
            }
            for partition, file in sorted(self._files.items())
        ]
        if found:
            self._folder.sync()
        return found

    def discard(self) -> None:
        """Remove what was written."""
        for file in self._files.values():
            file.discard()

    def _divided(self, rows: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        keys = self._place["key_columns"] or _own_key(rows)
        if self._partitions <= 1 or not keys:
            yield partition_without_key(self._place["task"], self._partitions), rows
            return
        numbers = partition_of(rows, keys, self._partitions)
        order = np.argsort(numbers, kind="stable")  # stable: rows of a partition keep their order
        rows = rows.take(pa.array(order))
        found, starts = np.unique(numbers[order], return_index=True)
        for partition, first, end in zip(found, starts, [*starts[1:], rows.num_rows], strict=True):
            yield int(partition), rows.slice(int(first), int(end - first))

    def _file(self, partition: int, schema: pa.Schema) -> RowFile:
        file = self._files.get(partition)
        if file is None:
            place = self._place
            name = StagedName(
                task_in_name(place["task"]),
                place["epoch"],
                place["txn_id"],
                place["slot"],
                self._attempt,
                partition,
            )
            file = RowFile(self._folder, new_staged_name(name), schema)
            self._files[partition] = file
        return file


def _own_key(rows: pa.RecordBatch) -> list[str]:
    return [columns.KEY] if columns.KEY in rows.schema.names else []


def _casts(place: Mapping[str, Any]) -> dict[str, pa.DataType]:
    """Return the columns that the table has in a wider type than these rows."""
    text = place.get("casts")
    if not text:
        return {}
    schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))
    return {field.name: field.type for field in schema}
