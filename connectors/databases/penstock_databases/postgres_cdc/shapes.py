"""What rows of a table look like: from the log's own words, and from the catalog for reading.

Both ways give the same shape for the same table, so that rows that were read and changes have one
schema.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from penstock_connector import ConfigError, Pattern
from penstock_connector.tables.columns import Shape
from penstock_connector.tables.names import TableId
from penstock_databases.cdc.message_keys import PATH, MessageKeys
from penstock_databases.dialect import Connection
from penstock_databases.names import POSTGRESQL
from penstock_databases.postgres_cdc.origins import TableOrigin
from penstock_databases.postgres_cdc.pgoutput import Relation, RelationColumn
from penstock_databases.postgres_cdc.progress import order_of
from penstock_databases.postgres_cdc.publication import Published
from penstock_databases.postgres_cdc.rows import RowShape
from penstock_databases.postgresql import catalog
from penstock_databases.postgresql.types import row_field

_WELL_KNOWN: Final = {
    16: "boolean", 17: "bytea", 20: "bigint", 21: "smallint", 23: "integer", 25: "text", 26: "oid",
    114: "json", 142: "xml", 700: "real", 701: "double precision", 1042: "character",
    1043: "character varying", 1082: "date", 1083: "time without time zone",
    1114: "timestamp without time zone", 1184: "timestamp with time zone",
    1186: "interval", 1266: "time with time zone", 2950: "uuid", 3802: "jsonb",
}  # fmt: skip
"""Types whose numbers never change: these cost no question."""

_FRACTIONS: Final = frozenset({1083, 1114, 1184, 1266})
"""Those whose modifier is the digits of fractions of seconds; below 0: there is none."""

_TYPE: Final = (
    "SELECT pg_catalog.format_type(COALESCE(d.typbasetype, t.oid), "
    "CASE WHEN d.oid IS NULL THEN %s ELSE d.typtypmod END), COALESCE(e.typtype, b.typtype) = 'e' "
    "FROM pg_catalog.pg_type t "
    "LEFT JOIN pg_catalog.pg_type d ON d.oid = t.oid AND d.typtype = 'd' "
    "JOIN pg_catalog.pg_type b ON b.oid = COALESCE(d.typbasetype, t.oid) "
    "LEFT JOIN pg_catalog.pg_type e ON e.oid = b.typelem AND b.typcategory = 'A' "
    "WHERE t.oid = %s"
)
_KEY: Final = (
    "SELECT (SELECT array_agg(a.attname::text ORDER BY k.place) "
    "FROM unnest(i.indkey::int2[]) WITH ORDINALITY k(attnum, place) "
    "JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum "
    "WHERE k.place <= i.indnkeyatts) "
    "FROM pg_catalog.pg_index i WHERE i.indrelid = %s AND i.indisvalid "
    "AND (i.indisprimary OR i.indisreplident) ORDER BY i.indisprimary DESC LIMIT 1"
)
_IDENTITY: Final = (
    "SELECT CASE WHEN c.relreplident <> 'f' THEN ARRAY(SELECT a.attname::text "
    "FROM pg_catalog.pg_index i "
    "JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey) "
    "WHERE i.indrelid = c.oid AND CASE c.relreplident WHEN 'd' THEN i.indisprimary "
    "WHEN 'i' THEN i.indisreplident ELSE false END) END "
    "FROM pg_catalog.pg_class c WHERE c.oid = %s"
)
"""The columns that the log has of a row before a change; null: all."""

_RESERVED: Final = "__"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Naming:
    """What tables and columns are called outside.

    Attributes:
        prefix: Put before datasets, with a dot.
        hidden: Columns `schema.table.column` that are left out.
        headers: Rows have headers.
        keys: Keys of rows that are not those of their tables.
        database: What rows say of where they are from.
        origin: The type of what they say; None: nothing.
    """

    prefix: str = ""
    hidden: tuple[Pattern, ...] = ()
    headers: bool = False
    keys: MessageKeys = field(default_factory=MessageKeys)
    database: str = ""
    origin: pa.StructType | None = None

    def dataset(self, table: TableId) -> str:
        """Return the dataset of a table."""
        return f"{self.prefix}.{table}" if self.prefix else str(table)

    def hides(self, table: TableId, column: str) -> bool:
        """Return whether a column is left out."""
        return any(pattern.matches(f"{table}.{column}") for pattern in self.hidden)


def logged_fields(shape: Shape, naming: Naming) -> list[pa.Field]:
    """Return the fields of rows of a table, as the catalog has it."""
    return [
        column.field
        for column in shape.columns
        if not column.generated  # the log does not have them
        and not naming.hides(shape.table, column.name)
    ]


class Shapes:
    """Makes shapes. Knows the types it asked for."""

    def __init__(self, naming: Naming) -> None:
        self.naming = naming
        self._types: dict[tuple[int, int], tuple[str, bool]] = {}
        self._told: set[int] = set()

    def of_signals(self, connection: Connection, relation: Relation) -> RowShape:
        """Return the shape of changes of the table of signals, which only the task reads."""
        return Shapes(Naming()).of_relation(connection, relation)

    def of_relation(self, connection: Connection, relation: Relation) -> RowShape:
        """Return the shape of changes that follow a relation message."""
        table = TableId(relation.name, schema=relation.schema)
        picked, fields = [], []
        for at, column in enumerate(relation.columns):
            if not self.naming.hides(table, column.name):
                picked.append(at)
                fields.append(self._field(connection, column))
        key = _key(connection, relation.oid)
        names = {column.name for column in relation.columns}
        if not key or not names.issuperset(key):
            in_identity = tuple(c.name for c in relation.columns if c.in_identity)
            key = in_identity if relation.identity in "di" else ()
        picks = None if len(picked) == len(relation.columns) else tuple(picked)
        full = relation.identity == "f"
        logged = None if full else [c.name for c in relation.columns if c.in_identity]
        return self._shape(relation.oid, table, fields, picks, key, logged)

    def of_table(self, connection: Connection, found: Published) -> RowShape | None:
        """Return the shape of rows that are read; None when the table is gone."""
        known = catalog.shape(connection, found.table, _quoted(found.table))
        if known is None:
            return None
        fields = [
            field
            for field in logged_fields(known, self.naming)
            if found.columns is None or field.name in found.columns
        ]
        self._tell_generated(found, [c.name for c in known.columns if c.generated])
        key = _key(connection, found.oid)
        rows = connection.execute(_IDENTITY, (found.oid,))
        logged = rows[0][0] if rows else []
        return self._shape(found.oid, found.table, fields, None, key, logged)

    def _tell_generated(self, found: Published, names: Sequence[str]) -> None:
        """Tell once of a table's columns that are not in the log, and so in no row."""
        shown = [name for name in names if not self.naming.hides(found.table, name)]
        if shown and found.oid not in self._told:
            self._told.add(found.oid)
            _log.warning(
                "%s: generated columns are not in the log, and are left out: %s",
                found.table,
                ", ".join(shown[:10]),
            )

    def _shape(
        self,
        oid: int,
        table: TableId,
        fields: Sequence[pa.Field],
        picks: tuple[int, ...] | None,
        key: tuple[str, ...],
        logged: Sequence[str] | None,
    ) -> RowShape:
        """Return a shape; `logged` are the columns that the log has of a row before a change, None:
        all.
        """
        names = [field.name for field in fields]
        dataset = self.naming.dataset(table)
        for name in names:
            if name.startswith(_RESERVED):
                raise ConfigError(
                    "cdc.reserved_column",
                    f"{dataset}: column {name!r}: names that begin with two underscores are taken",
                    fix="Leave it out by `column.exclude.list`.",
                    config_path="column.exclude.list",
                )
        given_key = self._given_key(table, names, logged)
        hidden = [name for name in key if name not in names]
        if hidden:
            raise ConfigError(
                "cdc.key_hidden",
                f"{dataset}: column {hidden[0]!r} is part of the key and cannot be left out",
                fix="Correct `column.exclude.list`, or the publication's columns.",
                config_path="column.exclude.list",
            )
        at = tuple(names.index(name) for name in key)
        order = order_of([fields[place] for place in at])
        kind = self.naming.origin
        return RowShape(
            oid,
            table,
            dataset,
            tuple(fields),
            picks,
            key,
            at,
            key if given_key is None else given_key,
            tuple(dict.fromkeys((*at, *map(names.index, given_key or ())))),
            order,
            before=logged is None,
            headers=self.naming.headers,
            origin=TableOrigin(self.naming.database, table, kind) if kind else None,
        )

    def _given_key(
        self, table: TableId, names: Sequence[str], logged: Sequence[str] | None
    ) -> tuple[str, ...] | None:
        """Return the key that is named for a table; None: its own.

        Raises:
            ConfigError: `cdc.key_column`; `cdc.key_not_logged`: deletes would have no key.
        """
        key = self.naming.keys.key_of(str(table), names)
        missing = [] if key is None or logged is None else [c for c in key if c not in logged]
        if missing:
            raise ConfigError(
                "cdc.key_not_logged",
                f"{PATH!r} names {missing[0]!r} for {table}, of which the log has nothing for "
                f"deleted rows: the replica identity is {', '.join(logged or ()) or 'empty'}",
                fix=f"Run ALTER TABLE {_quoted(table)} REPLICA IDENTITY FULL. Where the slot is "
                "there already, the changes made before that do not have the key: begin anew then "
                "(`penstock run … --fresh`, or `penstock offsets reset NAME`).",
                config_path=PATH,
            )
        return key

    def _field(self, connection: Connection, column: RelationColumn) -> pa.Field:
        native = _WELL_KNOWN.get(column.type_oid)
        if native is not None:
            if column.type_oid in _FRACTIONS and column.modifier >= 0:
                native = native.replace(" ", f"({column.modifier}) ", 1)
            return row_field(column.name, native)
        kind = column.type_oid, column.modifier
        if kind not in self._types:
            rows = connection.execute(_TYPE, (column.modifier, column.type_oid))
            self._types[kind] = (rows[0][0], bool(rows[0][1])) if rows else ("text", False)
        native, is_enum = self._types[kind]
        return row_field(column.name, native, is_enum=is_enum)


def _quoted(table: TableId) -> str:
    """Return a table as it stands in a statement without parameters."""
    return table.sql(POSTGRESQL).replace("%%", "%")


def _key(connection: Connection, oid: int) -> tuple[str, ...]:
    rows = connection.execute(_KEY, (oid,))
    return tuple(rows[0][0] or ()) if rows else ()
