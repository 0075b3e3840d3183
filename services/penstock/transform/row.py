"""The columns that a transform sees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from penstock.model.columns import is_reserved
from penstock.model.config_def import did_you_mean
from penstock.model.errors import ConfigError
from penstock_values.semantic_types import semantic_type


@dataclass(frozen=True, slots=True)
class Default:
    """The default of a column's schema: as an SQL expression, and, where it is as the source gave
    it, as a value and as JSON.
    """

    sql: str
    value: pa.Scalar | None = None
    json: bytes = b""


@dataclass(frozen=True, slots=True)
class Column:
    """A column. `type` is None where only Spark knows it: for the result of an SQL expression.
    `semantic_type`: see `penstock_values.semantic_types`.
    """

    name: str
    type: pa.DataType | None
    semantic_type: str = ""
    default: Default | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """The columns of a row, in order; their names are unique."""

    columns: tuple[Column, ...]

    @staticmethod
    def of(schema: pa.Schema) -> Row:
        """Return the columns of a schema.

        Raises:
            ConfigError: two columns have one name, so that expressions are ambiguous.
        """
        duplicates = find_duplicates(schema.names)
        if duplicates:
            raise ConfigError(
                "transform.duplicate_column",
                f"the rows have two columns named `{duplicates[0]}`",
                fix="Rename one of them at the source.",
            )
        return Row(tuple(Column(field.name, field.type, semantic_type(field)) for field in schema))

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all columns, in order."""
        return tuple(column.name for column in self.columns)

    @property
    def value(self) -> tuple[Column, ...]:
        """The columns that are not reserved."""
        return tuple(column for column in self.columns if not is_reserved(column.name))

    def get(self, name: str) -> Column | None:
        """Return the column of this exact name, None when there is none."""
        return next((column for column in self.columns if column.name == name), None)

    def type_of(self, name: str) -> pa.DataType | None:
        """Return the type of a column, None when there is no such column or only Spark knows it."""
        column = self.get(name)
        return None if column is None else column.type

    def require(self, name: str, path: str) -> Column:
        """Return the column of this exact name; column names are case-sensitive.

        Raises:
            ConfigError: `transform.unknown_column`, at the configuration key `path`.
        """
        column = self.get(name)
        if column is None:
            raise ConfigError(
                "transform.unknown_column",
                f"the rows have no column `{name}`",
                fix=did_you_mean(name, self.names),
                config_path=path,
            )
        return column


def find_duplicates(names: Iterable[str]) -> list[str]:
    """Return the names that occur more than once."""
    return [name for name, count in Counter(names).items() if count > 1]
