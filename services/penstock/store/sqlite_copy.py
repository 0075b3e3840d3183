"""All entries of a state file: read at one revision, also while a node runs, and put into a file
that has none.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from penstock.model import faults
from penstock.store.port import Entry
from penstock.store.sqlite import check_format, find_revision, open_file, to_entry
from penstock.store.sqlite_writer import translate_errors

_ALL: Final = "SELECT key, value, revision FROM entry ORDER BY key"
_PUT: Final = "INSERT INTO entry (key, revision, value) VALUES (?, ?, ?)"
_COUNT: Final = "UPDATE meta SET value = ? WHERE name = 'revision'"


@dataclass(frozen=True, slots=True)
class SqliteSnapshot:
    """A state file at one revision. `entries` are read as they are iterated over."""

    revision: int
    entries: Iterator[Entry]


@contextmanager
def open_snapshot(path: Path) -> Iterator[SqliteSnapshot]:
    """Open a state file for reading. A node that runs goes on writing.

    Raises:
        PenstockError: `store.foreign`, `store.newer`, `store.corrupt`, `store.unreachable`.
    """
    with translate_errors(path):
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=2.0, isolation_level=None
        )
        try:
            check_format(path, connection)
            connection.execute("BEGIN")
            yield SqliteSnapshot(find_revision(connection), map(to_entry, connection.execute(_ALL)))
        finally:
            connection.close()


def fill_file(path: Path, entries: Iterable[Entry], revision: int) -> str:
    """Put entries with their revisions into a state file that has none, all or nothing; its next
    revision is after `revision`. Return the first key of a file that has some, else nothing.

    Raises:
        PenstockError: `store.locked`: a node runs; and as `SqliteStore.open`.
    """
    with open_file(path) as opened, translate_errors(path):
        run = opened.write_connection
        run.execute("BEGIN IMMEDIATE")
        for found in run.execute(_ALL + " LIMIT 1"):
            return to_entry(found).key
        run.executemany(_PUT, ((one.key.encode(), one.revision, one.value) for one in entries))
        run.execute(_COUNT, (revision,))
        faults.hit("store.committing")
        run.execute("COMMIT")
        faults.hit("store.committed")
    return ""
