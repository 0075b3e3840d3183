"""Writes a slot's rows into Parquet files, one for each partition, which no reader sees before the
driver commits them. Also decides which partition a row goes to.
"""

from __future__ import annotations

import base64
import errno
import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as kind

from penstock.model import columns
from penstock.model.errors import DataError, RetriableError
from penstock.topic_files.folder import Folder
from penstock.topic_files.layout import INDEX, StagedName, new_staged_name, task_in_name
from penstock.topic_files.locations import folder_from_ticket
from penstock.topic_files.stored_types import (
    to_stored_rows,
    to_stored_schema,
    without_partition,
)
from penstock_values.identity import canonical_json

_FNV_OFFSET: Final = np.uint64(0xCBF29CE484222325)
_FNV_PRIME: Final = np.uint64(0x100000001B3)
_HALF: Final = np.uint64(32)
_MAX_KEY_BYTES: Final = 256
"""A longer key value is hashed by its digest."""


def assign_partitions(
    rows: pa.RecordBatch, keys: Sequence[str], partitions: int
) -> npt.NDArray[np.int64]:
    """Return the partition of each row by the hash of its key (FNV-1a, which must never change)."""
    if partitions <= 1:
        return np.zeros(rows.num_rows, np.int64)
    hashes = np.full(rows.num_rows, _FNV_OFFSET)
    for key in keys:
        _mix(hashes, _key_bytes(rows.column(key)))
    partition: npt.NDArray[np.uint64] = (hashes ^ (hashes >> _HALF)) % np.uint64(partitions)
    return partition.astype(np.int64)


def partition_of_task(task_id: str, partitions: int) -> int:
    """Return the partition for the rows of a task that have no key. It is always the same, which
    keeps their order; the tasks of a connector get different ones in turn.
    """
    number = task_id.rpartition("-")[2]
    return int(number) % partitions if number.isdecimal() else 0


def _key_bytes(column: pa.Array) -> pa.Array:
    if kind.is_dictionary(column.type):
        column = column.dictionary_decode()
    if kind.is_nested(column.type):
        texts = [None if v is None else canonical_json(v) for v in column.to_pylist()]
        column = pa.array(texts, pa.string())
    data = column.cast(pa.binary()) if _is_bytes(column.type) else _to_text(column)
    return pc.fill_null(_shorten_long(data), b"\x00")


def _is_bytes(type_: pa.DataType) -> bool:
    checks = (kind.is_binary, kind.is_large_binary, kind.is_binary_view, kind.is_fixed_size_binary)
    return any(check(type_) for check in checks)


def _to_text(column: pa.Array) -> pa.Array:
    return column.cast(pa.string()).cast(pa.binary())


def _shorten_long(data: pa.Array) -> pa.Array:
    long = pc.greater(pc.binary_length(data), _MAX_KEY_BYTES)
    if not pc.any(long).as_py():
        return data
    values = [
        hashlib.blake2b(value, digest_size=8).digest()
        if value and len(value) > _MAX_KEY_BYTES
        else value
        for value in data.to_pylist()
    ]
    return pa.array(values, pa.binary())


def _mix(hashes: npt.NDArray[np.uint64], data: pa.Array) -> None:
    """Mix a column into the hashes: one byte position at a time, over all rows that are that
    long.
    """
    _, offsets, values = data.buffers()
    ends = np.frombuffer(offsets, np.int32, len(data) + 1, data.offset * 4).astype(np.int64)
    lengths = ends[1:] - ends[:-1]
    content = np.frombuffer(values or b"", np.uint8)
    # longest first, so that the rows that still have bytes are always a prefix, without a mask
    order = np.argsort(-lengths, kind="stable")
    starts, mixed = ends[:-1][order], hashes[order]
    longer = np.searchsorted(-lengths[order], -np.arange(int(lengths.max(initial=0))), side="left")
    with np.errstate(over="ignore"):
        for place, count in enumerate(longer):
            head = mixed[:count]
            head ^= content[starts[:count] + place]
            head *= _FNV_PRIME
        mixed *= _FNV_PRIME  # the zero byte that ends a value
    hashes[order] = mixed


MAX_GROUP_ROWS: Final = 131_072
"""Rows of a row group, the least that a reader decodes. Readers divide files at its multiples."""

MAX_GROUP_BYTES: Final = 16 << 20
"""Bytes of rows that are collected for a row group: small batches must not become small groups, and
wide rows must not become huge ones."""


class RowFileWriter:
    """Writes one Parquet file of rows, each with its number in the file."""

    def __init__(self, folder: Folder, name: str, schema: pa.Schema) -> None:
        self.name = name
        self.rows = 0
        self.buffered_bytes = 0
        self._collected: list[pa.RecordBatch] = []
        self._collected_rows = 0
        self._schema = schema.append(pa.field(INDEX, pa.int64()))
        self._file = folder.create_file(name)
        self._writer = pq.ParquetWriter(
            self._file.sink,
            self._schema,
            compression="lz4",
            use_dictionary=False,
            write_statistics=False,
        )

    def write(self, rows: pa.RecordBatch) -> None:
        """Append rows."""
        first = self.rows
        numbers = pa.array(np.arange(first, first + rows.num_rows, dtype=np.int64))
        self.rows += rows.num_rows
        self._collected.append(
            pa.RecordBatch.from_arrays([*rows.columns, numbers], schema=self._schema)
        )
        self._collected_rows += rows.num_rows
        self.buffered_bytes += rows.nbytes
        if self._collected_rows >= MAX_GROUP_ROWS or self.buffered_bytes >= MAX_GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the collected rows as row groups."""
        if not self._collected:
            return
        table = pa.Table.from_batches(self._collected, self._schema)
        fitting = self._collected_rows * MAX_GROUP_BYTES // max(self.buffered_bytes, 1)
        self._writer.write_table(table, row_group_size=max(1, min(MAX_GROUP_ROWS, fitting)))
        self._collected, self._collected_rows, self.buffered_bytes = [], 0, 0

    def close(self) -> int:
        """Write the rest, make the content durable and return its bytes."""
        self.flush()
        self._writer.close()
        return self._file.finish()

    def discard(self) -> None:
        """Remove the file, in any state."""
        with suppress(Exception):
            self._writer.close()
        self._file.discard()


MAX_BUFFERED_BYTES: Final = 32 << 20
"""Bytes that all files of a slot may collect together. More partitions make smaller row groups, not
a larger process."""


def write_files(
    batches: Iterable[pa.RecordBatch], ticket: Mapping[str, Any], attempt: int
) -> dict[str, Any]:
    """Write a slot's rows into one file for each partition, and return the files in order.

    The files are then durable, but no reader sees them: no version of the table names them. Rows of
    a partition keep their order.

    Raises:
        RetriableError: `topic.disk_full`, `topic.write_failed`.
        DataError: `engine.out_of_range`: a value does not fit into the table's type;
            `topic.no_partition`: the topic has no such partition as a row chooses.
        SchemaError: `topic.type_unsupported`.
    """
    return write_files_of_topics(((ticket, batch) for batch in batches), attempt)


def write_files_of_topics(
    rows: Iterable[tuple[Mapping[str, Any], pa.RecordBatch]], attempt: int
) -> dict[str, Any]:
    """Write batches as `write_files`, each to the topic of the ticket with which it comes."""
    topics: dict[str, _SlotFiles] = {}
    root = ""
    try:
        for ticket, batch in rows:
            root = ticket["root"]
            if ticket["topic"] not in topics:
                topics[ticket["topic"]] = _SlotFiles(ticket, attempt)
            topics[ticket["topic"]].add(batch)
            _bound_buffers(topics.values())
        return {"files": [file for one in topics.values() for file in one.finish()]}
    except OSError as error:
        for one in topics.values():
            one.discard()
        full = error.errno in {errno.ENOSPC, errno.EDQUOT}
        raise RetriableError(
            "topic.disk_full" if full else "topic.write_failed",
            f"{root}: {error}",
            fix="Free space, or check the disk or the store that has the topics.",
        ) from error
    except BaseException:
        for one in topics.values():
            one.discard()
        raise


def _bound_buffers(topics: Collection[_SlotFiles]) -> None:
    files = [file for one in topics for file in one.files.values()]
    while sum(file.buffered_bytes for file in files) > MAX_BUFFERED_BYTES:
        max(files, key=lambda file: file.buffered_bytes).flush()


class _SlotFiles:
    """The open files of one attempt at a topic: `files`, by partition."""

    def __init__(self, ticket: Mapping[str, Any], attempt: int) -> None:
        self._ticket, self._attempt = ticket, attempt
        self._folder = folder_from_ticket(ticket)
        self._partitions = int(ticket["partitions"])
        self._casts = _casts(ticket)
        self._schemas: tuple[pa.Schema, pa.Schema] | None = None
        self.files: dict[int, RowFileWriter] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        """Write rows to the files of their partitions."""
        if not batch.num_rows:
            return
        if self._schemas is None or self._schemas[0] is not batch.schema:
            self._schemas = (batch.schema, to_stored_schema(without_partition(batch.schema)))
        rows = to_stored_rows(without_partition(batch), self._schemas[1], self._casts)
        at = batch.schema.get_field_index(columns.PARTITION)
        chosen = None if at < 0 else batch.column(at)
        for partition, part in self._divide(rows, chosen):
            self._file(partition, part.schema).write(part)

    def finish(self) -> list[dict[str, Any]]:
        """Close and sync all files and their folder, and return the files."""
        found = [
            {
                "topic": self._ticket["topic"],
                "path": file.name,
                "partition": partition,
                "rows": file.rows,
                "bytes": file.close(),
            }
            for partition, file in sorted(self.files.items())
        ]
        if found:
            self._folder.sync()
        return found

    def discard(self) -> None:
        """Remove what was written."""
        for file in self.files.values():
            file.discard()

    def _divide(
        self, rows: pa.RecordBatch, chosen: pa.Array | None
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the rows of each partition: the one that a row chooses, else that of its key, else
        that of the task.
        """
        keys = self._ticket["key_columns"] or _key_column(rows)
        own = partition_of_task(self._ticket["task"], self._partitions)
        chooses = chosen is not None and chosen.null_count < len(chosen)
        if not chooses and (self._partitions <= 1 or not keys):
            yield own, rows
            return
        if keys:
            numbers = assign_partitions(rows, keys, self._partitions)
        else:
            numbers = np.full(rows.num_rows, own, np.int64)
        if chosen is not None and chooses:
            _require_partitions(chosen, self._partitions, self._ticket["topic"])
            numbers = np.asarray(pc.coalesce(chosen.cast(pa.int64()), pa.array(numbers)))
        order = np.argsort(numbers, kind="stable")  # stable: rows of a partition keep their order
        rows = rows.take(pa.array(order))
        found, starts = np.unique(numbers[order], return_index=True)
        for partition, first, end in zip(found, starts, [*starts[1:], rows.num_rows], strict=True):
            yield int(partition), rows.slice(int(first), int(end - first))

    def _file(self, partition: int, schema: pa.Schema) -> RowFileWriter:
        file = self.files.get(partition)
        if file is None:
            ticket = self._ticket
            name = StagedName(
                task_in_name(ticket["task"]),
                ticket["epoch"],
                ticket["txn_id"],
                ticket["slot"],
                self._attempt,
                partition,
            )
            file = RowFileWriter(self._folder, new_staged_name(name), schema)
            self.files[partition] = file
        return file


def _require_partitions(chosen: pa.Array, partitions: int, topic: str) -> None:
    for number in pc.min_max(chosen).as_py().values():
        if not 0 <= number < partitions:
            raise DataError(
                "topic.no_partition",
                f"a row goes to partition {number} of {topic} (`__partition`), which has "
                f"{partitions}: 0 to {partitions - 1}",
                fix="Set `topic.partitions` of the source to more, or change `__partition`.",
                config_path="topic.partitions",
                dataset=topic,
            )


def _key_column(rows: pa.RecordBatch) -> list[str]:
    return [columns.KEY] if columns.KEY in rows.schema.names else []


def _casts(ticket: Mapping[str, Any]) -> dict[str, pa.DataType]:
    """Return the columns that have a wider type in the table than in these rows."""
    text = ticket.get("casts")
    if not text:
        return {}
    schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))
    return {field.name: field.type for field in schema}
