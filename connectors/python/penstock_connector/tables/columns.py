"""A table and its columns, as a database tells of them."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from penstock_connector.tables.names import TableId


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        name: Its name.
        native: Its type in the words of the database, lower case: `bigint unsigned`.
        field: Name, type and meaning of its values in rows (`types.field`).
        nullable: It can be null.
        key: Its place in the primary key, from 1; 0 when it is in none.
        auto: The database numbers it.
        serial: It does by a default (`serial` of PostgreSQL), so that rows may bring a number.
        default: It has a default, or is made from other columns: rows may come without it.
        generated: It is made from other columns: rows cannot bring it.
    """

    name: str
    native: str
    field: pa.Field
    nullable: bool = True
    key: int = 0
    auto: bool = False
    serial: bool = False
    default: bool = False
    generated: bool = False


@dataclass(frozen=True, slots=True)
class Shape:
    """A table and its columns, in their order."""

    table: TableId
    columns: tuple[Column, ...]

    @property
    def key(self) -> tuple[str, ...]:
        """Names of the primary key's columns, in the key's order."""
        inside = sorted((c for c in self.columns if c.key), key=lambda column: column.key)
        return tuple(column.name for column in inside)

    def find(self, name: str) -> Column | None:
        """Return a column; None when there is none."""
        return next((column for column in self.columns if column.name == name), None)
