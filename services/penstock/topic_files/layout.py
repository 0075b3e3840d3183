"""Names inside a topic's table: columns that say where a row stands, and files.

A file is named for who wrote it, so that a leftover of a dead attempt is known by its name alone:
`part-<task>-<epoch>-<txn>-<slot>-<attempt>-<partition>-<nonce>.parquet`, and after a compaction
`compact-<partition>-<base>-<nonce>.parquet`.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote

PARTITION: Final = "__partition"
"""Delta partition column: the partition of the topic."""

BASE: Final = "__base"
"""Delta partition column: the offset of the file's first row. It lives in the log only, because it
is known only at commit."""

INDEX: Final = "__index"
"""Physical column: the number of a row in its file. A row's offset is `__base + __index`."""

OFFSET: Final = "__offset"
"""Column that a reader is given with `PARTITION` when it asks for the places of rows."""

HIDDEN: Final = frozenset({PARTITION, BASE, INDEX})
"""Columns of the table that are about a row's place, not of the row."""

_STAGED, _COMPACTED, _SUFFIX = "part-", "compact-", ".parquet"
_MOST_TASK = 120


@dataclass(frozen=True, slots=True)
class StagedName:
    """What the name of a file that an executor wrote says. `task` is as `task_in_name` gives it."""

    task: str
    epoch: int
    txn: int
    slot: int
    attempt: int
    partition: int


def task_in_name(task_id: str) -> str:
    """Return a task's id as it stands in names of files: one element of a path, its end kept."""
    return quote(task_id, safe="")[-_MOST_TASK:]


def new_staged_name(name: StagedName) -> str:
    """Return a name that no file has: an attempt that is repeated by a new process may carry the
    number of its predecessor, which may still be writing.
    """
    fields = (name.epoch, name.txn, name.slot, name.attempt, name.partition)
    return f"{_STAGED}{name.task}-{'-'.join(map(str, fields))}-{_nonce()}{_SUFFIX}"


def parse_staged_name(file: str) -> StagedName | None:
    """Return what a name says; None when it is not of a file that an executor wrote."""
    if not file.startswith(_STAGED) or not file.endswith(_SUFFIX):
        return None
    fields = file.removeprefix(_STAGED).removesuffix(_SUFFIX).rsplit("-", 6)
    if len(fields) != 7 or not all(field.isdecimal() for field in fields[1:6]):
        return None
    epoch, txn, slot, attempt, partition = map(int, fields[1:6])
    return StagedName(fields[0], epoch, txn, slot, attempt, partition)


def new_compacted_name(partition: int, base: int) -> str:
    """Return a name for several files that became one."""
    return f"{_COMPACTED}{partition}-{base}-{_nonce()}{_SUFFIX}"


def is_compacted(file: str) -> bool:
    """Tell whether a name is of a file that a compaction wrote."""
    return file.startswith(_COMPACTED) and file.endswith(_SUFFIX)


def path_in_log(name: str) -> str:
    """Return a file's name as the log has it: a path there is a URL."""
    return quote(name)


def path_from_log(path: str) -> str:
    """Return the file's name that a path of the log means."""
    return unquote(path)


def _nonce() -> str:
    return uuid.uuid4().hex[:8]
