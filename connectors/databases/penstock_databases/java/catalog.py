"""Which tables a database has, and their columns, as its driver tells."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

from penstock_connector.tables.columns import Column, Shape
from penstock_connector.tables.names import TableId
from penstock_databases.java.connection import JavaConnection
from penstock_databases.java.types import row_field

_SYSTEM: Final = frozenset({
    "sys", "system", "information_schema", "sysibm", "syscat", "sysstat", "systools", "sysproc",
    "xdb", "mdsys", "ctxsys", "wmsys", "outln", "dbsnmp", "appqossys", "guest",
})  # fmt: skip
"""Schemas of databases themselves."""

_NO_NULLS: Final = 0


def tables(connection: JavaConnection, kinds: Sequence[str]) -> list[TableId]:
    """Return the tables of all schemas that are not the database's own."""
    wanted = {kind.upper() for kind in kinds or ("TABLE",)}
    if "TABLE" in wanted:
        wanted.add("BASE TABLE")  # H2's and HSQLDB's word
    about = connection.driver.getMetaData()
    with connection.telling(), contextlib.closing(about.getTables(None, None, "%", None)) as rows:
        found = [
            TableId(row["TABLE_NAME"] or "", schema=row["TABLE_SCHEM"] or "")
            for row in _rows(rows, "TABLE_NAME", "TABLE_SCHEM", "TABLE_TYPE")
            if row["TABLE_TYPE"] in wanted
        ]
    return sorted(table for table in found if table.schema.lower() not in _SYSTEM)


def shape(connection: JavaConnection, table: TableId) -> Shape | None:
    """Return a table's columns; None when there is no such table."""
    with connection.telling():
        about = connection.driver.getMetaData()
        schema = table.schema or None
        keys = _keys(about, schema, table.name)
        escape = str(about.getSearchStringEscape() or "")
        place = None if schema is None else _literal(schema, escape)
        with contextlib.closing(
            about.getColumns(None, place, _literal(table.name, escape), None)
        ) as rows:
            columns = tuple(_column(row, keys) for row in _of(table, _rows(rows, *_WANTED)))
    return Shape(table, columns) if columns else None


_WANTED: Final = (
    "TABLE_SCHEM", "TABLE_NAME", "COLUMN_NAME", "DATA_TYPE", "TYPE_NAME", "COLUMN_SIZE",
    "DECIMAL_DIGITS", "NULLABLE", "COLUMN_DEF", "IS_AUTOINCREMENT",
)  # fmt: skip


def described(connection: JavaConnection, query: str) -> tuple[Column, ...]:
    """Return the columns of a query that a person wrote. None of its rows is read."""
    text = query.replace("%", "%%")
    with connection.opened(f"SELECT * FROM (\n{text}\n) q WHERE 1 = 0") as result:  # noqa: S608 - a person's own
        about = result.getMetaData()
        fields = connection.fields(result)
        return tuple(
            Column(
                field.name,
                str(about.getColumnTypeName(n)).lower(),
                field,
                nullable=int(about.isNullable(n)) != _NO_NULLS,
                auto=bool(about.isAutoIncrement(n)),
            )
            for n, field in enumerate(fields, 1)
        )


def _keys(about: Any, schema: str | None, name: str) -> dict[str, int]:
    with contextlib.closing(about.getPrimaryKeys(None, schema, name)) as rows:
        return {
            str(row["COLUMN_NAME"]): int(row["KEY_SEQ"] or 0)
            for row in _rows(rows, "COLUMN_NAME", "KEY_SEQ")
        }


def _column(row: dict[str, str | None], keys: dict[str, int]) -> Column:
    name, native = str(row["COLUMN_NAME"]), str(row["TYPE_NAME"]).lower()
    size, digits = int(row["COLUMN_SIZE"] or 0), int(row["DECIMAL_DIGITS"] or 0)
    return Column(
        name=name,
        native=native,
        field=row_field(name, int(str(row["DATA_TYPE"])), native, size, digits),
        nullable=row["NULLABLE"] != str(_NO_NULLS),
        key=keys.get(name, 0),
        auto=row["IS_AUTOINCREMENT"] == "YES",
        default=row["COLUMN_DEF"] is not None,
    )


def _of(table: TableId, rows: Iterator[dict[str, str | None]]) -> Iterator[dict[str, str | None]]:
    """Yield the rows of this very table: not all drivers know how to escape a pattern."""
    for row in rows:
        if row["TABLE_NAME"] == table.name and table.schema in {"", row["TABLE_SCHEM"]}:
            yield row


def _rows(result: Any, *names: str) -> Iterator[dict[str, str | None]]:
    """Yield rows of metadata. Some drivers give a column only once and in its order."""
    order = sorted(names, key=lambda name: int(result.findColumn(name)))
    while result.next():
        yield {name: _text(result.getString(name)) for name in order}


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _literal(name: str, escape: str) -> str:
    """Return a pattern that means this name alone."""
    if not escape:
        return name
    return "".join(escape + c if c in {"%", "_", escape} else c for c in name)
