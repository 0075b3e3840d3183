"""Names and values in Databend's SQL. The only place that makes text of a value.

Statements are format text, as everywhere in this plugin: `%s` is a value, `%%` a percent sign.
Databend's protocol has no parameters; a value becomes a literal here. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from penstock_connector.tables.names import Naming, TableId

NAMING: Final = Naming("Databend", '"', 255)
"""Databend takes longer names, and its files are then named by them: file systems do not."""

Value = str | int
"""What statements are given: rows travel in files."""

_MARK: Final = re.compile("%([s%])")


def literal(value: Value) -> str:
    r"""Return a value as it stands in SQL. In Databend, a backslash escapes inside of quotes."""
    if isinstance(value, int):
        return str(value)
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def filled(sql: str, values: Sequence[Value] = ()) -> str:
    """Return a statement with its values."""
    left: Iterator[Value] = iter(values)
    return _MARK.sub(lambda mark: literal(next(left)) if mark[1] == "s" else "%", sql)


def quoted(name: str) -> str:
    """Return a name as it stands in SQL; see `Naming.quoted`."""
    return NAMING.quoted(name)


def table_sql(table: TableId) -> str:
    """Return a table as it stands in SQL."""
    return table.sql(NAMING)


def staged_rows(name: str) -> str:
    """Return what selects from a staged Parquet file. Its name is ours: letters, digits and `/`."""
    return f"@~/{name} (file_format => 'parquet')"
