"""Names in a topic's table: the columns of a row's position, and files.

A file name contains the attempt that wrote it, so that a file of a dead attempt is known by its
name: `part-<task>-<epoch>-<txn>-<slot>-<attempt>-<partition>-<nonce>.parquet`, and after a
compaction `compact-<partition>-<base>-<nonce>.parquet`.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote

PARTITION: Final = "__partition"
"""Delta partition column: the partition of the topic."""

BASE: Final = "__base"
"""Delta partition column: the offset of the file's first row. It is known only at commit, so it is
in the log, not in the file."""

INDEX: Final = "__index"
"""Physical column: the number of a row in its file. A row's offset is `__base + __index`."""

OFFSET: Final = "__offset"
"""Column of a row's offset. A reader that requests positions gets it, with `PARTITION`."""

POSITION_COLUMNS: Final = frozenset({PARTITION, BASE, INDEX})
"""Columns of the table that are not of the row: its position."""

_STAGED, _COMPACTED, _SUFFIX = "part-", "compact-", ".parquet"
_MAX_TASK_CHARS = 120


@dataclass(frozen=True, slots=True)
class StagedName:
    """The parts of the name of a file that an executor wrote. `task` is that of `task_in_name`."""

    task: str
    epoch: int
    txn: int
    slot: int
    attempt: int
    partition: int


def task_in_name(task_id: str) -> str:
    """Return a task's id as file names have it: one path element, of which the end is kept."""
    return quote(task_id, safe="")[-_MAX_TASK_CHARS:]


def new_staged_name(name: StagedName) -> str:
    """Return a name that no other file has. The attempt number alone is not enough: a new process
    may repeat that of its predecessor, which may still be writing.
    """
    fields = (name.epoch, name.txn, name.slot, name.attempt, name.partition)
    return f"{_STAGED}{name.task}-{'-'.join(map(str, fields))}-{_nonce()}{_SUFFIX}"


def parse_staged_name(file: str) -> StagedName | None:
    """Return the parts of a name; None when an executor did not write the file."""
    if not file.startswith(_STAGED) or not file.endswith(_SUFFIX):
        return None
    fields = file.removeprefix(_STAGED).removesuffix(_SUFFIX).rsplit("-", 6)
    if len(fields) != 7 or not all(field.isdecimal() for field in fields[1:6]):
        return None
    epoch, txn, slot, attempt, partition = map(int, fields[1:6])
    return StagedName(fields[0], epoch, txn, slot, attempt, partition)


def new_compacted_name(partition: int, base: int) -> str:
    """Return a name for the file that replaces several, which begin at offset `base`."""
    return f"{_COMPACTED}{partition}-{base}-{_nonce()}{_SUFFIX}"


def is_compacted(file: str) -> bool:
    """Return whether a compaction wrote the file of this name."""
    return file.startswith(_COMPACTED) and file.endswith(_SUFFIX)


def path_in_log(name: str) -> str:
    """Return a file's name in the log, whose paths are URLs."""
    return quote(name)


def path_from_log(path: str) -> str:
    """Return the file name of a path in the log."""
    return unquote(path)


def _nonce() -> str:
    return uuid.uuid4().hex[:8]
