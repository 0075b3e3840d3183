"""What has to be made or added, so that rows fit into a table; and what cannot be. Pure.

Columns are only ever added, and can be null: nothing is dropped, renamed, narrowed or widened.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from penstock_connector import SchemaError
from penstock_databases.dialect import Shape
from penstock_databases.jdbc_sink.config import JdbcSinkConfig
from penstock_databases.jdbc_sink.keys import Place, Places
from penstock_databases.names import TableId
from penstock_databases.writing import NewColumn, Writer


@dataclass(frozen=True, slots=True)
class Change:
    """Statements to run, and what people are told of each."""

    statements: tuple[str, ...] = ()

    @property
    def told(self) -> list[str]:
        """The statements as a person would write them: percent signs are doubled inside."""
        return [readable(statement) for statement in self.statements]


def readable(statement: str) -> str:
    """Return a statement as it would be typed."""
    return statement.replace("%%", "%")


def change(
    config: JdbcSinkConfig, writer: Writer, table: TableId, shape: Shape | None, wanted: Places
) -> Change:
    """Return what makes a table fit.

    Raises:
        SchemaError: `jdbc.no_table`, `jdbc.no_column`, `jdbc.new_key_column`: the fix has the
            statement to run.
    """
    if shape is None:
        columns = [NewColumn(p.field) for p in wanted.others]
        statement = writer.create(table, [*_keys(wanted.key), *columns])
        if not config.auto_create:
            raise SchemaError(
                "jdbc.no_table",
                f"there is no table {table}",
                fix=f"Set `auto.create=true`, or run: {readable(statement)}",
                config_path="auto.create",
            )
        return Change((statement,))
    missing = _missing(shape, wanted.others)
    keys = _missing(shape, wanted.key)
    if keys:
        raise SchemaError(
            "jdbc.new_key_column",
            f"{table} has no column {keys[0].field.name!r}, and it is of the key",
            fix="Correct `pk.fields`, or make the table anew: a key is not added to rows "
            "that have none.",
            config_path="pk.fields",
        )
    if not missing:
        return Change()
    statements = writer.add(table, [NewColumn(place.field) for place in missing])
    if not config.auto_evolve:
        raise SchemaError(
            "jdbc.no_column",
            f"{table} has no column {missing[0].field.name!r}",
            fix=f"Set `auto.evolve=true`, or run: {'; '.join(map(readable, statements))}",
            config_path="auto.evolve",
        )
    return Change(tuple(statements))


def _keys(places: Sequence[Place]) -> list[NewColumn]:
    return [NewColumn(place.field, key=True) for place in places]


def _missing(shape: Shape, places: Sequence[Place]) -> list[Place]:
    return [place for place in places if shape.find(place.field.name) is None]


_NEEDS_KEY: Final = frozenset({"upsert"})


def check(
    config: JdbcSinkConfig, shape: Shape, wanted: Places, unique: Sequence[frozenset[str]]
) -> None:
    """Refuse a table that rows of this kind cannot be written to.

    Raises:
        SchemaError: `jdbc.column_required`, `jdbc.no_unique_key`.
    """
    have = {place.field.name for place in wanted.all}
    if config.verb != "update":
        for column in shape.columns:
            if not column.nullable and not column.default and column.name not in have:
                raise SchemaError(
                    "jdbc.column_required",
                    f"{shape.table}: the column {column.name!r} takes no null and has no default, "
                    "and the rows have no such field",
                    fix="Give the column a default, or let it be null.",
                )
    key = frozenset(place.field.name for place in wanted.key)
    if config.verb in _NEEDS_KEY and key not in unique:
        raise SchemaError(
            "jdbc.no_unique_key",
            f"{shape.table} has no unique index over exactly {', '.join(sorted(key))}: "
            "an upsert could not find rows",
            fix="Make one, or correct `pk.fields`.",
            config_path="pk.fields",
        )
