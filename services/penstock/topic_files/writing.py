"""Rows into Parquet files that no reader sees until the driver commits them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.model.errors import RetriableError
from penstock.topic_files.placing import partition_of

INDEX: Final = "__index"
"""Physical column: the number of a row in its file. Its offset is the file's base plus this."""

ROW_GROUP: Final = 131_072
NO_SPACE: Final = 28


def write_files(
    batches: Iterable[pa.RecordBatch], place: Mapping[str, Any], attempt: int
) -> dict[str, Any]:
    """Write a slot's rows into one file for each partition; returns the files in order.

    The files are durable when this returns. Each is named for its epoch, transaction, slot and
    attempt, so a repeated attempt never meets its predecessor.

    Raises:
        RetriableError: `topic.disk_full`, `topic.write_failed`.
    """
    files = _Files(place, attempt)
    try:
        for batch in batches:
            files.add(batch)
        return {"files": files.finish()}
    except OSError as error:
        files.discard()
        code = "topic.disk_full" if error.errno == NO_SPACE else "topic.write_failed"
        raise RetriableError(
            code, f"{place['root']}: {error}", fix="Free space, or check the topics folder."
        ) from error
    except BaseException:
        files.discard()
        raise


class _Files:
    """The open files of one attempt, by partition."""

    def __init__(self, place: Mapping[str, Any], attempt: int) -> None:
        self._place = place
        self._stem = (
            f"{place['task'][-40:]}-{place['epoch']}-{place['txn_id']}-{place['slot']}-{attempt}"
        )
        self._open: dict[int, _File] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        """Write rows to the files of their partitions."""
        if not batch.num_rows:
            return
        partitions = partition_of(batch, self._place["key_columns"], self._place["partitions"])
        for partition in np.unique(partitions):
            mine = partitions == partition
            rows = batch if mine.all() else batch.filter(pa.array(mine))
            self._file(int(partition), rows.schema).write(rows)

    def finish(self) -> list[dict[str, Any]]:
        """Close and sync all files, and the folder they are in."""
        found = [self._open[partition].finish() for partition in sorted(self._open)]
        if found:
            folder = os.open(self._place["root"], os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        return found

    def discard(self) -> None:
        """Remove what was written."""
        for file in self._open.values():
            file.discard()

    def _file(self, partition: int, schema: pa.Schema) -> _File:
        file = self._open.get(partition)
        if file is None:
            name = f"{self._stem}-{partition}.parquet"
            file = _File(self._place["root"], name, self._place["topic"], partition, schema)
            self._open[partition] = file
        return file


class _File:
    """One Parquet file."""

    def __init__(self, root: str, name: str, topic: str, partition: int, schema: pa.Schema) -> None:
        self._path = Path(root) / name
        self._name, self._topic, self._partition = name, topic, partition
        self._rows = 0
        self._schema = schema.append(pa.field(INDEX, pa.int64()))
        self._writer = pq.ParquetWriter(
            self._path,
            self._schema,
            compression="lz4",
            use_dictionary=False,
            write_statistics=False,
        )

    def write(self, rows: pa.RecordBatch) -> None:
        """Append rows with their numbers."""
        numbers = pa.array(np.arange(self._rows, self._rows + rows.num_rows, dtype=np.int64))
        self._rows += rows.num_rows
        whole = pa.RecordBatch.from_arrays([*rows.columns, numbers], schema=self._schema)
        self._writer.write_batch(whole, row_group_size=ROW_GROUP)

    def finish(self) -> dict[str, Any]:
        """Close and sync; returns what the driver needs to commit it."""
        self._writer.close()
        descriptor = os.open(self._path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            size = os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)
        return {
            "topic": self._topic,
            "path": self._name,
            "partition": self._partition,
            "rows": self._rows,
            "bytes": size,
        }

    def discard(self) -> None:
        """Remove it."""
        with suppress(Exception):
            self._writer.close()
        with suppress(FileNotFoundError):
            self._path.unlink()
