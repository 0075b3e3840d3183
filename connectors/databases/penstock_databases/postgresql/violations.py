"""What rows break of a table, out of what PostgreSQL says."""

from __future__ import annotations

import re
from typing import Any, Final

from penstock_databases.dialect import Connection
from penstock_databases.failing import BrokenRule

_KINDS: Final = {
    "23502": "NOT NULL", "23503": "foreign key", "23505": "unique key",
    "23514": "check constraint", "23P01": "exclusion constraint",
}  # fmt: skip
_COPIED: Final = re.compile(r"COPY .+?, line \d+, column (.+?)(?:: |$)")

_COLUMNS: Final = (
    "SELECT a.attname::text FROM pg_catalog.pg_attribute a JOIN ("
    "SELECT conrelid AS rel, conname::text AS name, conkey AS cols FROM pg_catalog.pg_constraint "
    "UNION ALL SELECT i.indrelid, c.relname::text, i.indkey::int2[] FROM pg_catalog.pg_index i "
    "JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid) k "
    "ON k.rel = a.attrelid AND a.attnum = ANY(k.cols) "
    "WHERE k.rel = %s::regclass AND k.name = %s GROUP BY a.attname, a.attnum ORDER BY a.attnum"
)


def broken_rule(state: str, diagnostics: Any) -> BrokenRule | None:
    """Return what a row breaks, by the SQLSTATE and the driver's diagnostics; None: something
    else.
    """
    kind = _KINDS.get(state) or ("type" if state.startswith("22") else "")
    if not kind:
        return None
    column = getattr(diagnostics, "column_name", None)
    if not column and (found := _COPIED.search(getattr(diagnostics, "context", None) or "")):
        column = found[1].strip('"')
    name = getattr(diagnostics, "constraint_name", None) or ""
    return BrokenRule(kind, name, (column,) if column else ())


def rule_columns(connection: Connection, table: str, rule: BrokenRule) -> tuple[str, ...]:
    """Return the columns of a constraint or a unique index; none where they are not found. `table`
    is a name for `regclass`.
    """
    if not rule.name:
        return ()
    return tuple(str(name) for (name,) in connection.execute(_COLUMNS, (table, rule.name)))
