"""A session with MariaDB or MySQL, for everything but reading many rows."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pymysql
from pymysql.constants import CLIENT

from penstock_connector import ConnectorError
from penstock_databases.dialect import Login
from penstock_databases.failing import sql_error
from penstock_databases.mysql.violations import broken_rule
from penstock_databases.url import Target

_SESSION: Final = (
    # values arrive as they are, or not at all: nothing is cut, rounded or replaced by zeros
    "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,NO_AUTO_VALUE_ON_ZERO'",
    "SET SESSION time_zone = '+00:00'",  # timestamps are instants; nothing depends on the server
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "SET SESSION innodb_lock_wait_timeout = 30",
)
"""What every session begins with."""

_KINDS: Final = {
    "auth": (1045, 1698, 1862, 1820, 1251, 2059, 4151),
    "denied": (1044, 1142, 1143, 1227, 1370, 1410, 3118),
    "no_database": (1049, 1046),
    "no_table": (1146, 1051),
    "no_column": (1054, 1091, 1072),
    "busy": (1205, 1213, 1020, 3572),
    "overloaded": (1040, 1041, 1203, 1226, 1037, 1038, 1021, 1114),
    "lost": (
        1053, 1077, 1079, 1152, 1158, 1159, 1160, 1161, 1184, 1317, 1927, 2006, 2013, 2014, 2055,
        4031,
    ),
    "read_only": (1290, 1792, 1836),
    "constraint": (1022, 1048, 1062, 1169, 1216, 1217, 1364, 1451, 1452, 1557, 1586, 3819, 4025),
    "value": (1264, 1265, 1292, 1366, 1367, 1406, 1411, 1416, 3140),
    "too_large": (1153, 2020),
    "unreachable": (2002, 2003, 2005),
}  # fmt: skip
_KIND_OF: Final = {number: kind for kind, numbers in _KINDS.items() for number in numbers}


def mysql_error(error: BaseException, where: object) -> ConnectorError:
    """Return what the driver raised as an error for people."""
    if isinstance(error, ConnectorError):
        return error
    number = error.args[0] if isinstance(error, pymysql.MySQLError) and error.args else 0
    said = error.args[1] if len(error.args) > 1 else error
    kind = _KIND_OF.get(number) if isinstance(number, int) else None
    if kind is None:
        broken = isinstance(error, OSError | pymysql.InterfaceError)
        kind = "lost" if broken else "failed"
    text = f"{said} ({number})" if number else str(said)
    rule = broken_rule(number, str(said)) if isinstance(number, int) else None
    return sql_error(kind, where, text, rule)


@contextlib.contextmanager
def telling(where: object) -> Iterator[None]:
    """Translate what the driver raises."""
    try:
        yield
    except (pymysql.MySQLError, OSError, ValueError, RuntimeError) as error:
        # RuntimeError: the server asked for a file of ours, and gets none
        raise mysql_error(error, where) from error


class MysqlConnection:
    """One session; see `dialect.Connection`."""

    def __init__(self, target: Target, login: Login) -> None:
        self.target = target
        self.driver = _open(target, login)
        with telling(target):
            for statement in _SESSION:
                self.driver.query(statement)

    def execute(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a statement; returns its rows."""
        with telling(self.target), self.driver.cursor() as cursor:
            cursor.execute(sql, tuple(values))
            return list(cursor.fetchall())

    def changed(self, sql: str, values: Sequence[Any] = ()) -> int:
        """Run a statement; returns how many rows it changed."""
        with telling(self.target), self.driver.cursor() as cursor:
            return int(cursor.execute(sql, tuple(values)))

    def begin(self) -> None:
        """Begin a transaction."""
        with telling(self.target):
            self.driver.begin()

    def commit(self) -> None:
        """Make it durable."""
        with telling(self.target):
            self.driver.commit()

    def rollback(self) -> None:
        """Undo it."""
        with contextlib.suppress(pymysql.MySQLError, OSError):
            self.driver.rollback()

    def close(self) -> None:
        """End the session."""
        with contextlib.suppress(pymysql.MySQLError, OSError):
            self.driver.close()


def _open(target: Target, login: Login) -> pymysql.connections.Connection[Any]:
    """Connect to the first of the servers that answers."""
    *others, last = target.hosts
    for host, port in others:
        with contextlib.suppress(pymysql.OperationalError, OSError):
            return _connect(target, login, host, port)
    try:
        return _connect(target, login, *last)
    except (pymysql.MySQLError, OSError, RuntimeError) as error:
        if isinstance(error, OSError):
            raise sql_error("unreachable", target, error) from error
        raise mysql_error(error, target) from error


def _connect(
    target: Target, login: Login, host: str, port: int
) -> pymysql.connections.Connection[Any]:
    options: dict[str, Any] = {}
    if target.tls == "disable":
        options["ssl_disabled"] = True
    elif target.tls != "prefer":
        options["ssl"] = _tls(target)
    return pymysql.connect(
        host=host,
        port=port,
        user=login.user,
        password=login.password.encode(),  # the driver would make texts latin1
        database=target.database or None,
        charset="utf8mb4",
        autocommit=True,
        connect_timeout=target.connect_timeout,
        read_timeout=target.read_timeout,
        write_timeout=target.read_timeout,
        client_flag=CLIENT.FOUND_ROWS | CLIENT.LOCAL_FILES,
        local_infile=False,  # the driver would open what the server names; only `loading` answers
        program_name=target.application,
        **options,
    )


def _tls(target: Target) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=target.ca or None)
    context.check_hostname = target.tls == "verify-full"
    if target.tls == "require":
        context.verify_mode = ssl.CERT_NONE
    if target.certificate:
        context.load_cert_chain(target.certificate, target.certificate_key or None)
    return context
