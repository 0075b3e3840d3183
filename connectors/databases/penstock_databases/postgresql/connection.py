"""A session with PostgreSQL."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

import psycopg
from psycopg import conninfo

from penstock_connector import ConnectorError
from penstock_databases.dialect import Login
from penstock_databases.failing import sql_error
from penstock_databases.names import POSTGRESQL
from penstock_databases.postgresql.violations import broken_rule
from penstock_databases.url import Target

_SESSION: Final = (
    "SET TimeZone TO 'UTC'",
    "SET DateStyle TO 'ISO, YMD'",
    "SET IntervalStyle TO 'iso_8601'",
    "SET bytea_output TO 'hex'",
    "SET extra_float_digits TO 3",
    "SET standard_conforming_strings TO on",
    "SET lock_timeout TO '30s'",
)
"""What every session begins with: texts of values then have one form, whatever the server's."""

_STATES: Final = {
    "28": "auth", "42501": "denied", "3D000": "no_database", "3F000": "no_table",
    "42P01": "no_table", "42703": "no_column", "40001": "busy", "40P01": "busy", "55P03": "busy",
    "53": "overloaded", "57P": "lost", "08": "lost", "57014": "lost", "25006": "read_only",
    "23": "constraint", "22": "value", "54": "value",
}  # fmt: skip
"""SQLSTATE, or how it begins → kind of error. The longest that fits counts."""


def postgresql_error(error: BaseException, where: object) -> ConnectorError:
    """Return what the driver raised as an error for people."""
    if isinstance(error, ConnectorError):
        return error
    state = getattr(error, "sqlstate", None) or ""
    fits = [start for start in _STATES if state and state.startswith(start)]
    kind = _STATES[max(fits, key=len)] if fits else "failed"
    if not state and isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        kind = "lost"
    diagnostics = getattr(error, "diag", None)
    said = getattr(diagnostics, "message_primary", None) or error
    rule = broken_rule(state, diagnostics)
    return sql_error(kind, where, f"{said} ({state})" if state else said, rule)


@contextlib.contextmanager
def telling(where: object) -> Iterator[None]:
    """Translate what the driver raises."""
    try:
        yield
    except psycopg.Error as error:
        raise postgresql_error(error, where) from error


class PostgresqlConnection:
    """One session; see `dialect.Connection`."""

    def __init__(self, target: Target, login: Login) -> None:
        self.target = target
        self.driver = open_driver(target, login)
        with telling(target):
            for statement in _SESSION:
                self.driver.execute(statement)

    def execute(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a statement; returns its rows."""
        with telling(self.target):
            cursor = self._run(sql, values)
            return cursor.fetchall() if cursor.description else []

    def changed(self, sql: str, values: Sequence[Any] = ()) -> int:
        """Run a statement; returns how many rows it changed."""
        with telling(self.target):
            return self._run(sql, values).rowcount

    def begin(self) -> None:
        """Begin a transaction."""
        self.execute("BEGIN")

    def commit(self) -> None:
        """Make it durable."""
        self.execute("COMMIT")

    def rollback(self) -> None:
        """Undo it."""
        with contextlib.suppress(psycopg.Error):
            self.driver.execute("ROLLBACK")

    def close(self) -> None:
        """End the session."""
        with contextlib.suppress(psycopg.Error):
            self.driver.close()

    def _run(self, sql: str, values: Sequence[Any]) -> psycopg.Cursor[tuple[Any, ...]]:
        if values:
            return self.driver.execute(sql, values)
        return self.driver.execute(sql.replace("%%", "%"))


def connection_text(target: Target, login: Login, **more: str) -> str:
    """Return libpq's text for a connection. It holds the password: it is never shown."""
    fields: dict[str, Any] = {
        "host": ",".join(host for host, _ in target.hosts),
        "port": ",".join(str(port) for _, port in target.hosts),
        "dbname": target.database or login.user,
        "user": login.user,
        "password": login.password,
        "sslmode": target.tls,
        "sslrootcert": target.ca,
        "sslcert": target.certificate,
        "sslkey": target.certificate_key,
        "application_name": target.application,
        "connect_timeout": max(2, round(target.connect_timeout)),  # 1 means 2 to libpq
        "tcp_user_timeout": round(target.read_timeout * 1000),
        "client_encoding": "UTF8",
        **more,
    }
    return conninfo.make_conninfo("", **{k: v for k, v in fields.items() if v != ""})


def open_driver(target: Target, login: Login, **more: str) -> psycopg.Connection[tuple[Any, ...]]:
    """Return a session of the driver; `more` are parameters of libpq beside the usual."""
    try:
        driver = psycopg.connect(connection_text(target, login, **more), autocommit=True)
    except psycopg.OperationalError as error:
        raise _refused(error, target) from error
    if target.schema and not more:
        names = [POSTGRESQL.quoted(name.strip()) for name in target.schema.split(",")]
        path = ",".join(names).replace("%%", "%")
        with telling(target):
            driver.execute(f"SET search_path TO {path}")
    return driver


def _refused(error: psycopg.OperationalError, target: Target) -> ConnectorError:
    """Tell why no session came about. libpq gives a text only."""
    said = str(error)
    if "password authentication failed" in said or "no password supplied" in said:
        return sql_error("auth", target, "the server refused the user or the password")
    if "no pg_hba.conf entry" in said or ("role" in said and "does not exist" in said):
        return sql_error("auth", target, said)
    if "database" in said and "does not exist" in said:
        return sql_error("no_database", target, said)
    return sql_error("unreachable", target, said)
