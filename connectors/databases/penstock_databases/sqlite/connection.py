"""A connection to an SQLite file."""

from __future__ import annotations

import contextlib
import re
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from penstock_connector import ConnectorError
from penstock_databases.dialect import Login
from penstock_databases.failing import sql_error
from penstock_databases.url import Target

_KINDS: Final = {
    sqlite3.SQLITE_BUSY: "busy",
    sqlite3.SQLITE_LOCKED: "busy",
    sqlite3.SQLITE_READONLY: "denied",
    sqlite3.SQLITE_PERM: "denied",
    sqlite3.SQLITE_AUTH: "denied",
    sqlite3.SQLITE_CANTOPEN: "no_database",
    sqlite3.SQLITE_NOTADB: "no_database",
    sqlite3.SQLITE_FULL: "overloaded",
    sqlite3.SQLITE_IOERR: "lost",
    sqlite3.SQLITE_CONSTRAINT: "constraint",
    sqlite3.SQLITE_MISMATCH: "value",
    sqlite3.SQLITE_TOOBIG: "value",
    sqlite3.SQLITE_INTERRUPT: "lost",
}
_MARK: Final = re.compile("%([s%])")
_BUSY_MOST: Final = 30.0
"""Seconds that a statement waits for another writer; SQLite has one at a time."""


def sqlite_error(error: BaseException, where: object) -> ConnectorError:
    """Return what the driver raised as an error for people."""
    if isinstance(error, ConnectorError):
        return error
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    kind = _KINDS.get(code, "failed")
    said = str(error)
    if said.startswith("no such table"):
        kind = "no_table"
    elif "no such column" in said or "has no column named" in said:
        kind = "no_column"
    return sql_error(kind, where, said)


@contextlib.contextmanager
def telling(where: object) -> Iterator[None]:
    """Translate what the driver raises."""
    try:
        yield
    except (sqlite3.Error, OverflowError) as error:
        raise sqlite_error(error, where) from error


def _allowed(action: int, argument: str | None, *_: object) -> int:
    """Let a statement of a configuration open no other file."""
    other = action == sqlite3.SQLITE_ATTACH and argument != ""
    return sqlite3.SQLITE_DENY if other else sqlite3.SQLITE_OK


class SqliteConnection:
    """One connection; see `dialect.Connection`. Values stand at `%s`, as elsewhere."""

    def __init__(self, target: Target, login: Login) -> None:
        # a file has no login
        self.target = target
        path = Path(target.database)
        with telling(target):
            self.driver = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode=rwc",
                uri=True,
                timeout=min(target.read_timeout, _BUSY_MOST),
                isolation_level=None,
                check_same_thread=False,  # one thread at a time, not always the same
            )
            self.driver.set_authorizer(_allowed)
            self.driver.execute("PRAGMA foreign_keys = ON")

    def execute(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a statement; returns its rows."""
        with telling(self.target), contextlib.closing(self._run(sql, values)) as cursor:
            return cursor.fetchall()

    def changed(self, sql: str, values: Sequence[Any] = ()) -> int:
        """Run a statement; returns how many rows it changed."""
        with telling(self.target), contextlib.closing(self._run(sql, values)) as cursor:
            return cursor.rowcount

    def begin(self) -> None:
        """Begin a transaction; takes the write lock, so that it cannot fail half way."""
        self.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """Make it durable."""
        self.execute("COMMIT")

    def rollback(self) -> None:
        """Undo it."""
        with contextlib.suppress(sqlite3.Error):
            if self.driver.in_transaction:
                self.driver.execute("ROLLBACK")

    def close(self) -> None:
        """Close the file."""
        with contextlib.suppress(sqlite3.Error):
            self.driver.close()

    def opened(self, sql: str, values: Sequence[Any]) -> sqlite3.Cursor:
        """Run a statement; returns its cursor, which its reader closes."""
        return self._run(sql, values)

    def _run(self, sql: str, values: Sequence[Any]) -> sqlite3.Cursor:
        marked = _MARK.sub(lambda match: "?" if match[1] == "s" else "%", sql)
        return self.driver.execute(marked, tuple(values))
