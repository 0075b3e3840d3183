"""Names and values in ClickHouse's SQL. The only place that makes text of a value. Pure.

Statements here are plain text: only those of `ddl` are format text, as the kit wants it.
"""

from __future__ import annotations

import re
from typing import Final

from penstock_connector.tables.names import Naming, TableId

NAMING: Final = Naming("ClickHouse", "`", 200, in_bytes=True)
"""ClickHouse names files after tables and columns: file systems end names at 255 bytes."""


def literal(value: str | int) -> str:
    """Return a value as it stands in SQL. A backslash escapes inside of quotes."""
    if isinstance(value, int):
        return str(value)
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def quoted(name: str) -> str:
    """Return a name as it stands in SQL; see `Naming.quoted`."""
    return format_name(name).replace("%%", "%")


def format_name(name: str) -> str:
    r"""Return a name as it stands in format text. A backslash escapes in names, too."""
    return NAMING.quoted(name.replace("\\", "\\\\"))


def format_table(table: TableId) -> str:
    """Return a table as it stands in format text."""
    return f"{format_name(table.catalog)}.{format_name(table.name)}"


def table_sql(table: TableId) -> str:
    """Return a table as it stands in SQL."""
    return format_table(table).replace("%%", "%")


_ESCAPED: Final = re.compile(r"\\(.)|``", re.DOTALL)
_CONTROLS: Final = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "b": "\b", "f": "\f"}


def unquoted(name: str) -> str:
    """Return a name as the server writes it, without its quotes."""
    if len(name) < 2 or name[0] != "`" or name[-1] != "`":
        return name
    return _ESCAPED.sub(
        lambda mark: _CONTROLS.get(mark[1], mark[1]) if mark[1] else "`", name[1:-1]
    )
