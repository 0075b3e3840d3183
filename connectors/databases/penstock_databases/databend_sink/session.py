"""A session with a Databend: the port that `http` and `embedded` fill."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import BinaryIO, Final, Protocol

from penstock_connector import ConnectorError
from penstock_connector.tables.columns import Shape
from penstock_connector.tables.names import TableId
from penstock_databases.databend_sink.config import DatabendSinkConfig
from penstock_databases.databend_sink.failing import EXISTS, Coded
from penstock_databases.databend_sink.sql import Value
from penstock_databases.databend_sink.types import column
from penstock_databases.dialect import Login

ROLLBACK: Final = "ROLLBACK"

Row = tuple[str | None, ...]
"""A row of an answer: everything is asked for as text."""


class Session(Protocol):
    """One session, used by one thread at a time. Statements are format text; see `sql`.

    Errors leave it as errors for people (`sql.…`, `databend.…`), without secrets. After a
    RetriableError it can be used again; a transaction that was open is gone then.
    """

    def execute(self, sql: str, values: Sequence[Value] = ()) -> None:
        """Run a statement that has no rows."""

    def query(self, sql: str, values: Sequence[Value] = ()) -> list[Row]:
        """Run a statement; returns its rows, all of them: few."""

    def alone(self) -> AbstractContextManager[None]:
        """Keep the statements of others out of this session, where it is shared."""

    def upload(self, name: str, file: BinaryIO) -> None:
        """Put a file into the user's own stage, under a name of ours."""

    def close(self) -> None:
        """End the session. May come at any time, more than once."""


@contextlib.contextmanager
def transaction(session: Session) -> Iterator[None]:
    """Run statements in a transaction: all of them count, or none.

    When COMMIT fails nobody knows what came of it, but for a conflict, which undid it.
    """
    with session.alone():
        session.execute("BEGIN")
        try:
            yield
            session.execute("COMMIT")
        except BaseException:
            # an error inside leaves the transaction open; what is lost has none
            with contextlib.suppress(ConnectorError):
                session.execute(ROLLBACK)
            raise


def change(session: Session, statement: str) -> None:
    """Run DDL, outside of any transaction: it would commit one."""
    try:
        session.execute(statement)
    except ConnectorError as error:
        if Coded.of(error) not in EXISTS:  # else another task was faster
            raise


def shape(session: Session, table: TableId) -> Shape | None:
    """Return a table's columns; None when there is no such table."""
    rows = session.query(
        'SELECT "name", "data_type", "is_nullable", "comment", "default_expression" '
        'FROM "system"."columns" WHERE "database" = %s AND "table" = %s',
        (table.catalog, table.name),
    )
    columns = [
        column(
            name or "",
            (native or "").lower(),
            comments or "",
            nullable=nullable == "YES",
            default=bool(default),
        )
        for name, native, nullable, comments, default in rows
    ]
    return Shape(table, tuple(columns)) if columns else None


def remove(session: Session, names: Sequence[str]) -> None:
    """Remove staged files, or all in a folder. What is left is removed by the next life."""
    for name in names:
        with contextlib.suppress(ConnectorError):
            session.execute(f"REMOVE @~/{name}")


def open_session(config: DatabendSinkConfig, wait: Callable[[float], object]) -> Session:
    """Return a session, opened within the attempts of the configuration. `wait` sleeps, and returns
    True when the task is ending.

    Raises:
        ConnectorError: `sql.unreachable`, `sql.auth`, `databend.in_use`, …
    """
    return config.connection_retry.call(lambda: _open(config), wait)


def _open(config: DatabendSinkConfig) -> Session:
    # ruff: noqa: PLC0415 - only one of them is used
    target = config.target
    if target.folder:
        from penstock_databases.databend_sink.embedded import EmbeddedSession

        return EmbeddedSession(target.folder)
    from penstock_databases.databend_sink.http import HttpSession

    return HttpSession(target, Login(config.connection_user, config.connection_password))
