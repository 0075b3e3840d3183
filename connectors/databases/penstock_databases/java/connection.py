"""A session over a Java driver."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from penstock_databases.dialect import Login
from penstock_databases.java.drivers import java
from penstock_databases.java.failing import driver_error
from penstock_databases.java.reading import read
from penstock_databases.java.types import row_field
from penstock_databases.url import Target

_MARK: Final = re.compile("%([s%])")
_LIMIT: Final = re.compile(r" \{limit ([0-9]+)\}")
_LONG: Final = 1 << 63
_FETCH: Final = 2000
"""Rows that a driver asks its server for at once. More take memory, fewer cost round trips."""


class JavaConnection:
    """One session; see `dialect.Connection`.

    Attributes:
        target: Where it is.
        bridge: The way to the JVM.
        driver: The driver's `java.sql.Connection`.
        compared: Names of columns by whose times rows are compared: these are never rounded.
    """

    def __init__(self, target: Target, login: Login) -> None:
        self.target = target
        self.bridge = java()
        self.compared: set[str] = set()
        self.now_sql = ""
        manager = self.bridge.JClass("java.sql.DriverManager")
        properties = self.bridge.JClass("java.util.Properties")()
        for name, value in (("user", login.user), ("password", login.password)):
            if value:
                properties.setProperty(name, value)
        with self.telling():
            manager.setLoginTimeout(max(1, int(target.connect_timeout)))
            self.driver = manager.getConnection(target.database, properties)

    @contextlib.contextmanager
    def telling(self) -> Iterator[None]:
        """Translate what the driver throws."""
        try:
            yield
        except self.bridge.JException as error:
            raise driver_error(self.bridge, error, self.target) from None

    def execute(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a statement; returns its rows."""
        with self.opened(sql, values) as result:
            if result is None:
                return []
            fields = self.fields(result)
            batches = list(read(self, result, fields))
        columns = [
            [v for b in batches for v in b.column(n).to_pylist()] for n in range(len(fields))
        ]
        return list(zip(*columns, strict=True))

    def changed(self, sql: str, values: Sequence[Any] = ()) -> int:
        """Run a statement; returns how many rows it changed."""
        with self.telling(), contextlib.closing(self._prepared(sql, values)) as statement:
            return int(statement.executeUpdate())

    def begin(self) -> None:
        """Begin a transaction."""
        with self.telling():
            self.driver.setAutoCommit(False)

    def commit(self) -> None:
        """Make it durable."""
        with self.telling():
            self.driver.commit()
            self.driver.setAutoCommit(True)

    def rollback(self) -> None:
        """Undo it."""
        with contextlib.suppress(self.bridge.JException):
            if not self.driver.getAutoCommit():
                self.driver.rollback()
                self.driver.setAutoCommit(True)

    def close(self) -> None:
        """End the session."""
        with contextlib.suppress(self.bridge.JException):
            self.driver.close()

    @contextlib.contextmanager
    def opened(self, sql: str, values: Sequence[Any] = ()) -> Iterator[Any]:
        """Run a statement; yields its result, None of one that has none."""
        with self.telling(), contextlib.closing(self._prepared(sql, values)) as statement:
            has_rows = statement.execute()
            yield statement.getResultSet() if has_rows else None

    def fields(self, result: Any) -> list[Any]:
        """Return the fields of a result's columns."""
        about = result.getMetaData()
        return [
            row_field(
                str(about.getColumnLabel(n)),
                int(about.getColumnType(n)),
                str(about.getColumnTypeName(n)).lower(),
                int(about.getPrecision(n)),
                int(about.getScale(n)),
            )
            for n in range(1, about.getColumnCount() + 1)
        ]

    def _prepared(self, sql: str, values: Sequence[Any]) -> Any:
        limit = _LIMIT.search(sql)
        text = _MARK.sub(lambda match: "?" if match[1] == "s" else "%", _LIMIT.sub("", sql))
        statement = self.driver.prepareStatement(text)
        with contextlib.suppress(self.bridge.JException):  # a driver may not know them
            statement.setQueryTimeout(max(1, int(self.target.read_timeout)))
            statement.setFetchSize(_FETCH)
        if limit:
            statement.setMaxRows(int(limit[1]))
        for place, value in enumerate(values, 1):
            self._bind(statement, place, value)
        return statement

    def _bind(self, statement: Any, place: int, value: Any) -> None:
        java_class = self.bridge.JClass
        match value:
            case bool():
                statement.setBoolean(place, value)
            case int() if -_LONG <= value < _LONG:
                statement.setLong(place, value)
            case int() | Decimal():
                statement.setBigDecimal(place, java_class("java.math.BigDecimal")(str(value)))
            case float():
                statement.setDouble(place, value)
            case bytes():
                statement.setBytes(place, value)
            case datetime() if value.tzinfo:
                at = java_class("java.time.OffsetDateTime").parse(value.isoformat())
                statement.setObject(place, at)
            case datetime():
                at = java_class("java.sql.Timestamp").valueOf(value.isoformat(" "))
                statement.setTimestamp(place, at)
            case _:
                statement.setString(place, str(value))
