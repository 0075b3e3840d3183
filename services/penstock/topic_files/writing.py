"""A slot's rows into Parquet files that no reader sees until the driver commits them."""

from __future__ import annotations

import base64
import errno
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as kind

from penstock.model import columns
from penstock.model.errors import RetriableError
from penstock.model.identity import canonical_json
from penstock.topic_files.folder import Folder
from penstock.topic_files.layout import INDEX, StagedName, new_staged_name, task_in_name
from penstock.topic_files.places import folder_at
from penstock.topic_files.types import stored_rows, stored_schema

_OFFSET: Final = np.uint64(0xCBF29CE484222325)
_PRIME: Final = np.uint64(0x100000001B3)
_HALF: Final = np.uint64(32)
_MOST_BYTES: Final = 256


def partition_of(
    rows: pa.RecordBatch, keys: Sequence[str], partitions: int
) -> npt.NDArray[np.int64]:
    """Return the partition of each row, by its key."""
    if partitions <= 1:
        return np.zeros(rows.num_rows, np.int64)
    hashes = np.full(rows.num_rows, _OFFSET)
    for key in keys:
        _mix(hashes, _bytes_of(rows.column(key)))
    places: npt.NDArray[np.uint64] = (hashes ^ (hashes >> _HALF)) % np.uint64(partitions)
    return places.astype(np.int64)


def partition_without_key(task_id: str, partitions: int) -> int:
    """Return where the rows of a task go that have no key: always to one partition, which keeps
    their order; the tasks of a connector take turns.
    """
    number = task_id.rpartition("-")[2]
    return int(number) % partitions if number.isdecimal() else 0


def _bytes_of(column: pa.Array) -> pa.Array:
    if kind.is_dictionary(column.type):
        column = column.dictionary_decode()
    if kind.is_nested(column.type):
        texts = [None if v is None else canonical_json(v) for v in column.to_pylist()]
        column = pa.array(texts, pa.string())
    data = column.cast(pa.binary()) if _is_bytes(column.type) else _text(column)
    return pc.fill_null(_bounded(data), b"\x00")


def _is_bytes(type_: pa.DataType) -> bool:
    checks = (kind.is_binary, kind.is_large_binary, kind.is_binary_view, kind.is_fixed_size_binary)
    return any(check(type_) for check in checks)


def _text(column: pa.Array) -> pa.Array:
    return column.cast(pa.string()).cast(pa.binary())


def _bounded(data: pa.Array) -> pa.Array:
    long = pc.greater(pc.binary_length(data), _MOST_BYTES)
    if not pc.any(long).as_py():
        return data
    values = [
        hashlib.blake2b(value, digest_size=8).digest()
        if value and len(value) > _MOST_BYTES
        else value
        for value in data.to_pylist()
    ]
    return pa.array(values, pa.binary())


def _mix(hashes: npt.NDArray[np.uint64], data: pa.Array) -> None:
    """Mix one column in, a byte place at a time over all rows that are that long."""
    _, offsets, values = data.buffers()
    ends = np.frombuffer(offsets, np.int32, len(data) + 1, data.offset * 4).astype(np.int64)
    lengths = ends[1:] - ends[:-1]
    content = np.frombuffer(values or b"", np.uint8)
    # longest first: the rows that still have bytes are then always a prefix, and need no mask
    order = np.argsort(-lengths, kind="stable")
    starts, mixed = ends[:-1][order], hashes[order]
    longer = np.searchsorted(-lengths[order], -np.arange(int(lengths.max(initial=0))), side="left")
    with np.errstate(over="ignore"):
        for place, count in enumerate(longer):
            head = mixed[:count]
            head ^= content[starts[:count] + place]
            head *= _PRIME
        mixed *= _PRIME  # the zero byte that ends a value
    hashes[order] = mixed


GROUP_ROWS: Final = 131_072
"""Most rows of a row group, which is what a reader decodes at least. Readers cut files at its
multiples."""

GROUP_BYTES: Final = 16 << 20
"""Bytes of rows that are collected before they become a row group: small batches must not become
small groups, and wide rows must not become huge ones."""


class RowFile:
    """A file that is being written."""

    def __init__(self, folder: Folder, name: str, schema: pa.Schema) -> None:
        self.name = name
        self.rows = 0
        self.buffered = 0
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        self._schema = schema.append(pa.field(INDEX, pa.int64()))
        self._file = folder.create(name)
        self._writer = pq.ParquetWriter(
            self._file.sink,
            self._schema,
            compression="lz4",
            use_dictionary=False,
            write_statistics=False,
        )

    def write(self, rows: pa.RecordBatch) -> None:
        """Append rows, and give them their numbers."""
        first = self.rows
        numbers = pa.array(np.arange(first, first + rows.num_rows, dtype=np.int64))
        self.rows += rows.num_rows
        self._waiting.append(
            pa.RecordBatch.from_arrays([*rows.columns, numbers], schema=self._schema)
        )
        self._waiting_rows += rows.num_rows
        self.buffered += rows.nbytes
        if self._waiting_rows >= GROUP_ROWS or self.buffered >= GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what was collected."""
        if not self._waiting:
            return
        table = pa.Table.from_batches(self._waiting, self._schema)
        fitting = self._waiting_rows * GROUP_BYTES // max(self.buffered, 1)
        self._writer.write_table(table, row_group_size=max(1, min(GROUP_ROWS, fitting)))
        self._waiting, self._waiting_rows, self.buffered = [], 0, 0

    def close(self) -> int:
        """Write the rest and make the content durable; returns its bytes."""
        self.flush()
        self._writer.close()
        return self._file.finish()

    def discard(self) -> None:
        """Remove the file, whatever state it is in."""
        with suppress(Exception):
            self._writer.close()
        self._file.discard()


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
