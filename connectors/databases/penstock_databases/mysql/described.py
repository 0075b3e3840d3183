"""The columns of a query, from what MariaDB and MySQL tell about its result."""

from __future__ import annotations

from typing import Any, Final

from pymysql.constants import FIELD_TYPE, FLAG

from penstock_connector.tables.columns import Column
from penstock_databases.mysql.connection import MysqlConnection, telling
from penstock_databases.mysql.types import row_field

_BINARY: Final = 63
"""The character set of bytes that are no text."""

_NUMBERS: Final = {
    FIELD_TYPE.TINY: "tinyint", FIELD_TYPE.SHORT: "smallint", FIELD_TYPE.INT24: "mediumint",
    FIELD_TYPE.LONG: "int", FIELD_TYPE.LONGLONG: "bigint", FIELD_TYPE.FLOAT: "float",
    FIELD_TYPE.DOUBLE: "double", FIELD_TYPE.YEAR: "year",
}  # fmt: skip
_OTHERS: Final = {
    FIELD_TYPE.DATE: "date", FIELD_TYPE.NEWDATE: "date", FIELD_TYPE.TIME: "time",
    FIELD_TYPE.DATETIME: "datetime", FIELD_TYPE.TIMESTAMP: "timestamp", FIELD_TYPE.JSON: "json",
    FIELD_TYPE.GEOMETRY: "geometry",
}  # fmt: skip


def described(connection: MysqlConnection, query: str) -> tuple[Column, ...]:
    """Return the columns of a query that a person wrote. None of its rows is read."""
    with telling(connection.target):
        driver: Any = connection.driver
        driver.query(f"SELECT * FROM (\n{query}\n) AS q LIMIT 0")  # noqa: S608 - a person's own
        fields = driver._result.fields  # noqa: SLF001 - a cursor hides flags and lengths
    return tuple(_column(field) for field in fields)


def _column(field: Any) -> Column:
    native = _native(field)
    nullable = not field.flags & FLAG.NOT_NULL
    return Column(field.name, native, row_field(field.name, native), nullable)


def _native(field: Any) -> str:
    """Return a type in the words of COLUMN_TYPE."""
    unsigned = " unsigned" if field.flags & FLAG.UNSIGNED else ""
    if field.type_code in _NUMBERS:
        return _NUMBERS[field.type_code] + (unsigned if field.type_code != FIELD_TYPE.YEAR else "")
    if field.type_code in {FIELD_TYPE.DECIMAL, FIELD_TYPE.NEWDECIMAL}:
        # the length counts the sign and the point, too
        digits = field.length - bool(field.scale) - (not unsigned)
        return f"decimal({digits},{field.scale}){unsigned}"
    if field.type_code == FIELD_TYPE.BIT:
        return f"bit({field.length})"
    if field.type_code in _OTHERS:
        return _OTHERS[field.type_code]
    if field.flags & FLAG.ENUM:
        return "enum"
    return "varbinary" if field.charsetnr == _BINARY else "text"
