"""Files of this machine: staged in hidden folders, renamed or appended at the commit."""

# Paths are plain text here: keys of partitions, many of them, never resolved.
# ruff: noqa: PTH112, PTH120

from __future__ import annotations

import itertools
import os
import secrets
import time
from collections.abc import Iterator, Sequence
from typing import Final
from urllib.parse import quote

import pyarrow as pa

from penstock_builtin.file_sink import disk
from penstock_builtin.file_sink.apply import apply
from penstock_builtin.file_sink.config import FileSinkConfig
from penstock_builtin.file_sink.place import Place, target_path
from penstock_builtin.file_sink.places import Places
from penstock_builtin.file_sink.sheet import LocalSheet, Part
from penstock_builtin.file_sink.spill import INLINE_MOST, read_spilled, spill, spilled_in
from penstock_builtin.file_sink.staging import FileStaging, Layout
from penstock_builtin.file_sink.writes import (
    Rolling,
    RollingRules,
    Write,
    decode_state,
    encode_state,
    roll,
    write_of,
)
from penstock_builtin.opening import telling
from penstock_connector import SchemaError


def check_folder(config: FileSinkConfig) -> None:
    """Try whether the place can be written to."""
    path = target_path(config.path or config.file, "check", "check-0")
    folder = path if config.path else os.path.dirname(path)
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    with telling(folder):
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(13, "may not be written to", folder)


_ROLLING_MOST: Final = 1000
"""Files of folders that may be gone on with. Beyond that the one that had no rows for the longest
time is left as it is, and its folder gets another one."""


class LocalStaging(FileStaging):
    """Rows of one attempt, for a place."""

    def __init__(self, place: Place, slot: int, layout: Layout, prefix: str) -> None:
        self.place = place
        sheets = _LocalSheets(place, prefix, fsync=layout.config.fsync)
        super().__init__(place.path, slot, layout, sheets, appends=not layout.config.is_whole)


class _LocalSheets:
    def __init__(self, place: Place, prefix: str, *, fsync: bool) -> None:
        self._place, self._prefix, self._fsync = place, prefix, fsync

    def new(self, sub: str, number: int) -> LocalSheet:
        """Begin a file; where it belongs is decided later."""
        return LocalSheet(self._place, f"{self._prefix}-{number}.part", fsync=self._fsync)

    def remove(self, part: Part) -> None:
        """Remove a file."""
        disk.unlink(self._place.staging, part.name)


class LocalTarget:
    """The files that a task writes."""

    def __init__(self, config: FileSinkConfig, task_id: str, epoch: int) -> None:
        """Take note of whose rows these are, and fence older epochs."""
        self.config = config
        self._roots = config.roots
        self._rules = RollingRules(config.rotate_rows, config.rotate_bytes, config.rotate_interval)
        self._rolling: dict[tuple[str, str], Rolling] = {}
        self._heads: dict[Place, bytes] = {}
        self._pending: dict[int, list[Write]] = {}
        self._task = quote(task_id, safe="")
        self._life = f"{epoch}-{secrets.token_hex(4)}"
        self.places = Places(config, task_id, epoch)
        self.places.open_fixed()

    def look(self, dataset: str, layout: Layout) -> None:
        """Refuse rows that the file cannot go on with, while nothing has been written yet."""
        place = self.places.of(dataset)
        if place.name and layout.head:
            self._refuse_other_head(place, layout.head)

    def stage(
        self, txn_id: int, slot: int, attempt: int, dataset: str, layout: Layout
    ) -> LocalStaging:
        """Return a place for an attempt at a slot, in a hidden folder."""
        prefix = f"{self._life}-{txn_id}-{slot}-{attempt}-{secrets.token_hex(3)}"
        return LocalStaging(self.places.of(dataset), slot, layout, prefix)

    def prepare(self, txn_id: int, staged: Sequence[FileStaging]) -> bytes:
        """Decide which staged file goes where. The files are on the disk since they were closed,
        their names are after this (invariant 1).
        """
        by_place: dict[Place, list[LocalStaging]] = {}
        for staging in staged:
            assert isinstance(staging, LocalStaging)  # noqa: S101 - we made them
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

    def commit(self, txn_id: int, state: bytes) -> None:
        """Make a transaction visible, if it is not yet."""
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

    def sweep(self) -> None:
        """Remove what earlier lives of the task staged and never prepared."""
        self.places.sweep(self._life)

    def close(self) -> None:
        """Let go of all folders."""
        self.places.close()

    # ── what goes where ──────────────────────────────────────────────────────────────────────────

    def _writes(self, txn_id: int, place: Place, stagings: list[LocalStaging]) -> list[Write]:
        parts = [part for staging in stagings for part in staging.parts]
        if place.name:
            return [write_of(place, place.name, self._end_of(place), parts)]
        by_folder: dict[str, list[Part]] = {}
        for part in parts:
            by_folder.setdefault(part.sub, []).append(part)
        writes: list[Write] = []
        for sub, some in by_folder.items():
            writes += self._writes_in(txn_id, place, sub, some)
        return writes

    def _writes_in(self, txn_id: int, place: Place, sub: str, parts: list[Part]) -> list[Write]:
        names = self._names(txn_id, place, sub)
        if self.config.is_whole:
            return [write_of(place, next(names), 0, [part]) for part in parts]
        current = self._rolling.pop((place.path, sub), None)
        if current is not None and not self._is_whole(place, current):
            current = None  # moved away or changed by someone: it is theirs now
        plans = roll(parts, current, self._rules, names, time.monotonic())
        if len(self._rolling) >= _ROLLING_MOST:
            del self._rolling[next(iter(self._rolling))]
        self._rolling[place.path, sub] = plans[-1][0]
        return [write_of(place, file.name, before, some) for file, before, some in plans]

    def _names(self, txn_id: int, place: Place, sub: str) -> Iterator[str]:
        """Yield names that nothing has. Sorted as text, a task's files are in the order of rows."""
        begin = f"{sub}/" if sub else ""
        for number in itertools.count():
            name = f"part-{self._task}-{txn_id:010d}-{number:04d}.{self.config.ending}"
            if not disk.exists(place.folder, begin + name):
                yield begin + name

    def _prepared_end(self, place: Place, name: str) -> int | None:
        """Return where a file will end when all that is prepared is visible."""
        ends = [
            write.after
            for writes in self._pending.values()
            for write in writes
            if (write.folder, write.path) == (place.path, name)
        ]
        return max(ends, default=None)

    def _end_of(self, place: Place) -> int:
        prepared = self._prepared_end(place, place.name)
        return disk.size(place.folder, place.name) if prepared is None else prepared

    def _is_whole(self, place: Place, current: Rolling) -> bool:
        prepared = self._prepared_end(place, current.name)
        return prepared is not None or disk.size(place.folder, current.name) == current.size

    def _refuse_other_head(self, place: Place, head: bytes) -> None:
        known = self._heads.get(place) or self._beginning(place, len(head))
        if known and known != head:
            raise SchemaError(
                "file.csv_header_differs",
                f"{place.where} has the columns {known.decode(errors='replace').strip()}, "
                f"these rows {head.decode().strip()}",
                fix="Set `path` instead of `file`: other columns then begin another file.",
            )
        self._heads[place] = head

    def _beginning(self, place: Place, size: int) -> bytes:
        """Return what a file begins with, unpacked."""
        packing = self.config.packing
        data = disk.beginning(place.folder, place.name, size if packing == "none" else 1 << 16)
        if packing == "none" or not data:
            return data
        with pa.CompressedInputStream(pa.BufferReader(data), packing) as stream:
            return bytes(stream.read(size))
