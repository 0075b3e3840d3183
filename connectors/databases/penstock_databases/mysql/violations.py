"""What rows break of a table, out of what MariaDB and MySQL say."""

from __future__ import annotations

import re
from typing import Final

from penstock_connector.tables.names import TableId
from penstock_databases.dialect import Connection
from penstock_databases.failing import BrokenRule

_COLUMN: Final = re.compile(r"(?:Column|Field|column) ['`](.+?)['`](?: at row| cannot| doesn't|$)")
_KEY: Final = re.compile(r"for key '(?:.*\.)?(.+?)'")
_FOREIGN: Final = re.compile(r"CONSTRAINT `(.+?)` FOREIGN KEY \((.+?)\) REFERENCES")
_CHECK: Final = re.compile(r"(?:Check constraint '(.+?)'|CONSTRAINT `(.+?)` failed)")

_KINDS: Final = {
    1048: ("NOT NULL", _COLUMN), 1364: ("NOT NULL", _COLUMN), 1062: ("unique key", _KEY),
    1586: ("unique key", _KEY), 1216: ("foreign key", _FOREIGN), 1217: ("foreign key", _FOREIGN),
    1451: ("foreign key", _FOREIGN), 1452: ("foreign key", _FOREIGN),
    3819: ("check constraint", _CHECK), 4025: ("check constraint", _CHECK),
    1264: ("type", _COLUMN), 1265: ("type", _COLUMN), 1292: ("type", _COLUMN),
    1366: ("type", _COLUMN), 1406: ("type", _COLUMN),
}  # fmt: skip
"""Number of an error → what the row breaks, and where the message names it."""

_INDEX: Final = (
    "SELECT column_name FROM information_schema.statistics WHERE table_schema = %s "
    "AND table_name = %s AND index_name = %s ORDER BY seq_in_index"
)
_CLAUSE: Final = (
    "SELECT check_clause FROM information_schema.check_constraints "
    "WHERE constraint_schema = %s AND constraint_name = %s"
)
_QUOTED: Final = re.compile(r"`((?:[^`]|``)+)`")


def broken_rule(number: int, said: str) -> BrokenRule | None:
    """Return what a row breaks; None: the message does not tell."""
    kind, pattern = _KINDS.get(number, ("", _KEY))
    found = pattern.search(said) if kind else None
    if found is None:
        return BrokenRule(kind) if kind else None
    if pattern is _COLUMN:
        return BrokenRule(kind, columns=(found[1].rpartition("`.`")[2],))
    if pattern is _FOREIGN:
        return BrokenRule(kind, found[1], tuple(_QUOTED.findall(found[2])))
    if pattern is _CHECK:
        # MariaDB puts the table before the name of a check that stands at a column
        return BrokenRule(kind, (found[1] or found[2]).rpartition(".")[2])
    return BrokenRule(kind, found[1])


def rule_columns(connection: Connection, table: TableId, rule: BrokenRule) -> tuple[str, ...]:
    """Return the columns of a unique key or a check; none where they are not found."""
    if rule.kind == "unique key":
        rows = connection.execute(_INDEX, (table.catalog, table.name, rule.name))
        return tuple(str(name) for (name,) in rows)
    if rule.kind == "check constraint":
        rows = connection.execute(_CLAUSE, (table.catalog, rule.name))
        names = [name for (clause,) in rows for name in _QUOTED.findall(str(clause))]
        return tuple(dict.fromkeys(names))
    return ()
