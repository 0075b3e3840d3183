"""The columns that a transform sees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from penstock.model.column_meaning import meaning
from penstock.model.columns import is_reserved
from penstock.model.config_def import did_you_mean
from penstock.model.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Column:
    """A column. `type` is None where only Spark knows it: the result of any other expression.
    `meaning` tells of the values what their type cannot (`penstock.model.column_meaning`).
    """

    name: str
    type: pa.DataType | None
    meaning: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """Columns in order; their names are unique."""

    columns: tuple[Column, ...]

    @staticmethod
    def of(schema: pa.Schema) -> Row:
        """Return the row of a schema.

        Raises:
            ConfigError: two columns have one name, so that no expression could tell them apart.
        """
        twice = duplicates(schema.names)
        if twice:
            raise ConfigError(
                "transform.duplicate_column",
                f"the rows have two columns named `{twice[0]}`",
                fix="Rename one of them at the source.",
            )
        return Row(tuple(Column(field.name, field.type, meaning(field)) for field in schema))

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        """Names in order."""
        return tuple(column.name for column in self.columns)

    @property
    def value(self) -> tuple[Column, ...]:
        """The columns that are the row itself."""
        return tuple(column for column in self.columns if not is_reserved(column.name))

    def get(self, name: str) -> Column | None:
        """Return a column by its exact name."""
        return next((column for column in self.columns if column.name == name), None)

    def type_of(self, name: str) -> pa.DataType | None:
        """Return the type of a column, None when there is none or it is not known."""
        column = self.get(name)
        return None if column is None else column.type

    def require(self, name: str, path: str) -> Column:
        """Return a column, and refuse a name that none has. The engine tells capitals from small
        letters.
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


def duplicates(names: Iterable[str]) -> list[str]:
    """Return the names that are there more than once."""
    return [name for name, count in Counter(names).items() if count > 1]
