"""`file-sink`: the task that writes files, exactly once, by two-phase rename."""

# Paths are plain text here: keys of partitions, many of them, never resolved.
# ruff: noqa: PTH112, PTH120

from __future__ import annotations

import itertools
import os
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import quote

import pyarrow as pa

from penstock_builtin.file_sink import disk
from penstock_builtin.file_sink.apply import apply
from penstock_builtin.file_sink.config import FileSinkConfig
from penstock_builtin.file_sink.encode import encoder_for
from penstock_builtin.file_sink.place import Place, target_path
from penstock_builtin.file_sink.places import Places
from penstock_builtin.file_sink.spill import INLINE_MOST, read_spilled, spill, spilled_in
from penstock_builtin.file_sink.staging import FileStaging, ParquetStaging, TextStaging
from penstock_builtin.file_sink.writes import (
    Rolling,
    RollingRules,
    Write,
    decode_state,
    describe,
    encode_state,
    roll,
    write_of,
)
from penstock_builtin.opening import telling
from penstock_builtin.rowcolumns import row_names
from penstock_connector import SchemaError, Staging, TransactionalSink


class FileSink(TransactionalSink[FileSinkConfig]):
    """Files of rows: text, JSON lines, CSV or Parquet.

    Appends to one file, or fills a folder with files. Rows become visible a transaction at a time,
    exactly once.
    """

    name = "file-sink"
    aliases = ("org.apache.kafka.connect.file.FileStreamSinkConnector", "FileStreamSink")
    title = "Files of rows"

    @classmethod
    def check(cls, config: FileSinkConfig) -> None:
        """Try whether the place can be written to."""
        path = target_path(config.path or config.file, "check", "check-0")
        folder = path if config.path else os.path.dirname(path)
        while not os.path.isdir(folder):
            folder = os.path.dirname(folder)
        with telling(folder):
            if not os.access(folder, os.W_OK | os.X_OK):
                raise PermissionError(13, "may not be written to", folder)

    def init(self, config: FileSinkConfig) -> None:
        """Take the configuration."""
        super().init(config)
        if config.format == "parquet":
            # A file for each transaction: fewer, larger ones are what readers want.
            self.commit_every = 1.0  # type: ignore[misc] # a default of the class, by format here
        self._roots = config.roots
        self._rules = RollingRules(config.rotate_rows, config.rotate_bytes, config.rotate_interval)
        self._places: Places | None = None
        self._rolling: dict[str, Rolling] = {}
        self._heads: dict[Place, bytes] = {}
        self._pending: dict[int, list[Write]] = {}

    def connect(self, task_id: str, epoch: int) -> None:
        """Take note of whose rows these are, and fence older epochs."""
        self._task = quote(task_id, safe="")
        self._life = f"{epoch}-{secrets.token_hex(4)}"
        self._places = Places(self.config, task_id, epoch)
        self._places.open_fixed()

    @property
    def places(self) -> Places:
        """The places of the connected task."""
        assert self._places is not None  # noqa: S101 - connect comes first
        return self._places

    def apply_schema(
        self, dataset: str, schema: pa.Schema, key_columns: Sequence[str]
    ) -> Sequence[str] | None:
        """Refuse rows that the format cannot hold, while nothing has been written yet."""
        del key_columns
        if not row_names(schema, reserved=self.config.reserved_columns):
            raise SchemaError("file.no_columns", f"rows of {dataset!r} have no columns to write")
        place = self.places.of(dataset)
        if self.config.format != "parquet":
            head = encoder_for(self.config, schema).head
            if place.name and head:
                self._refuse_other_head(place, head)
        return None

    def stage(
        self, txn_id: int, slot: int, attempt: int, dataset: str, schema: pa.Schema
    ) -> Staging:
        """Return a place for an attempt at a slot, in a hidden folder."""
        place = self.places.of(dataset)
        prefix = f"{self._life}-{txn_id}-{slot}-{attempt}-{secrets.token_hex(3)}"
        if self.config.format == "parquet":
            return ParquetStaging(place, slot, prefix, self.config, schema)
        return TextStaging(place, slot, prefix, self.config, encoder_for(self.config, schema))

    def prepare(self, txn_id: int, epoch: int, staged: Sequence[Staging], token: bytes) -> bytes:
        """Decide which staged file goes where. The files are on the disk since they were closed,
        their names are after this (invariant 1).
        """
        del epoch, token
        by_place: dict[Place, list[FileStaging]] = {}
        for staging in staged:
            assert isinstance(staging, FileStaging)  # noqa: S101 - we made them
            if staging.parts:
                by_place.setdefault(staging.place, []).append(staging)
        writes: list[Write] = []
        for place, stagings in by_place.items():
            with telling(place.where), place.owned():
                writes += self._writes(txn_id, place, stagings)
                if self.config.fsync:
                    disk.sync_folder(place.staging)
        self._pending[txn_id] = writes
        state = encode_state(writes)
        if len(state) > INLINE_MOST:
            place = next(iter(by_place))
            return spill(place, f"{self._life}-{txn_id}.part", state, fsync=self.config.fsync)
        return state

    def commit(self, txn_id: int, epoch: int, state: bytes) -> Mapping[str, str]:
        """Make a transaction visible, if it is not yet."""
        del epoch
        spilled = spilled_in(state)
        if spilled:
            state = read_spilled(self.places.at(spilled.folder, spilled.file), spilled.name)
        writes = decode_state(state)
        for write in writes:
            place = self.places.at(write.folder, write.target if write.single else "")
            with telling(f"{write.folder}/{write.target}"), place.owned():
                apply(write, place, self._roots, fsync=self.config.fsync)
        if spilled:
            disk.unlink(self.places.at(spilled.folder, spilled.file).staging, spilled.name)
        self._pending.pop(txn_id, None)
        return describe(writes)

    def abort(self, txn_id: int, staged: Sequence[Staging]) -> None:
        """Forget a transaction. The file it would have grown is not appended to any more."""
        del staged
        for write in self._pending.pop(txn_id, []):
            self._rolling.pop(write.folder, None)

    def sweep(self, txn_id_done: int) -> None:
        """Remove what earlier lives of the task staged and never prepared."""
        del txn_id_done
        self.places.sweep(self._life)

    def close(self) -> None:
        """Let go of all folders."""
        if self._places is not None:
            self._places.close()

    # ── what goes where ──────────────────────────────────────────────────────────────────────────

    def _writes(self, txn_id: int, place: Place, stagings: list[FileStaging]) -> list[Write]:
        parts = [part for staging in stagings for part in staging.parts]
        if place.name:
            return [write_of(place, place.name, self._end_of(place), parts)]
        names = self._names(txn_id, place)
        if self.config.format == "parquet":
            return [write_of(place, next(names), 0, [part]) for part in parts]
        current = self._rolling.get(place.path)
        if current is not None and not self._is_whole(place, current):
            current = None  # moved away or changed by someone: it is theirs now
        plans = roll(parts, current, self._rules, names, time.monotonic())
        self._rolling[place.path] = plans[-1][0]
        return [write_of(place, file.name, before, some) for file, before, some in plans]

    def _names(self, txn_id: int, place: Place) -> Iterator[str]:
        """Yield names that nothing has. Sorted as text, a task's files are in the order of rows."""
        for number in itertools.count():
            name = f"part-{self._task}-{txn_id:010d}-{number:04d}.{self.config.ending}"
            if not disk.exists(place.folder, name):
                yield name

    def _prepared_end(self, place: Place, name: str) -> int | None:
        """Return where a file will end when all that is prepared is visible."""
        ends = [
            write.after
            for writes in self._pending.values()
            for write in writes
            if (write.folder, write.target) == (place.path, name)
        ]
        return max(ends, default=None)

    def _end_of(self, place: Place) -> int:
        prepared = self._prepared_end(place, place.name)
        return disk.size(place.folder, place.name) if prepared is None else prepared

    def _is_whole(self, place: Place, current: Rolling) -> bool:
        prepared = self._prepared_end(place, current.name)
        return prepared is not None or disk.size(place.folder, current.name) == current.size

    def _refuse_other_head(self, place: Place, head: bytes) -> None:
        known = self._heads.get(place) or disk.first_line(place.folder, place.name)
        if known and known != head:
            raise SchemaError(
                "file.csv_header_differs",
                f"{place.where} has the columns {known.decode(errors='replace').strip()}, "
                f"these rows {head.decode().strip()}",
                fix="Set `path` instead of `file`: other columns then begin another file.",
            )
        self._heads[place] = head
