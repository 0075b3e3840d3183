"""What a transform does to the rows of a dataset, and how a predicate limits it to some of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import pyarrow as pa

from penstock.model.config_def import ConfigKey
from penstock.model.errors import ConfigError
from penstock.model.step import Step
from penstock.transform import sql
from penstock.transform.column_kernel import ColumnsKernel, Copy, Source
from penstock.transform.row import Column, Row, duplicates

Kernel: TypeAlias = Callable[[pa.RecordBatch], pa.RecordBatch]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Output:
    """A column that comes out: its expression, its type where known, and its kernel if it has
    one.
    """

    name: str
    sql: str
    type: pa.DataType | None = None
    source: Source | None = None

    @staticmethod
    def kept(column: Column) -> Output:
        """Return a column as it is."""
        return Output(column.name, sql.name(column.name), column.type, Copy(column.name))


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of a dataset. Each part may be absent: the dataset keeps its name, all rows
    stay, all columns stay.
    """

    dataset: str | None = None
    where: str | None = None
    columns: tuple[Output, ...] | None = None
    kernel: Kernel | None = None

    def row(self, row: Row) -> Row:
        """Return the columns after the change."""
        if self.columns is None:
            return row
        return Row(tuple(Column(output.name, output.type) for output in self.columns))

    def step(self) -> Step | None:
        """Return what the engine runs; None when the rows stay as they are."""
        if self.where is None and self.columns is None:
            return None
        select = None
        if self.columns is not None:
            select = tuple((output.name, output.sql) for output in self.columns)
        return Step(self.where, select, self.kernel)


class Transform(Protocol):
    """A configured transform."""

    def change(self, dataset: str, row: Row) -> Change:
        """Fit it to a dataset; raises ConfigError when it cannot be."""


@dataclass(frozen=True)
class Kind(Generic[T]):
    """A type of transform or predicate. `names` has its own name first, then the aliases; `build`
    gets the configuration path and the values of `keys`.
    """

    names: tuple[str, ...]
    keys: tuple[ConfigKey, ...]
    build: Callable[[str, Mapping[str, Any]], T]


def projected(outputs: tuple[Output, ...], path: str) -> Change:
    """Return a change of columns, with a kernel where each of them has one.

    Raises:
        ConfigError: two columns would have one name, or there would be none.
    """
    twice = duplicates(output.name for output in outputs)
    if twice:
        raise ConfigError(
            "transform.duplicate_column",
            f"two columns would be named `{twice[0]}`",
            fix="Choose another name, or remove the column that has it first.",
            config_path=path,
        )
    if not outputs:
        raise ConfigError(
            "transform.no_columns",
            "no column would be left",
            fix="Keep at least one; to drop rows, use Filter.",
            config_path=path,
        )
    sources = [(output.name, output.source) for output in outputs if output.source is not None]
    kernel = ColumnsKernel(tuple(sources)) if len(sources) == len(outputs) else None
    return Change(columns=outputs, kernel=kernel)


def limited(change: Change, condition: str, row: Row, path: str) -> Change:
    """Return a change that befalls only the rows for which `condition` (true or false, never null)
    is true. Columns that only some rows have are null in the others.
    """
    if change.dataset is not None:
        raise ConfigError(
            "transform.row_predicate",
            "rows of one dataset cannot be routed apart by a predicate over rows",
            fix="Use TopicNameMatches, or Filter in two connectors.",
            config_path=path,
        )
    where = None if change.where is None else f"NOT ({condition}) OR ({change.where})"
    if change.columns is None:
        return Change(where=where)
    after = {output.name: output for output in change.columns}
    kept = [_merged(after.pop(c.name, None), Output.kept(c), condition, path) for c in row]
    added = [_added(output, condition) for output in after.values()]
    return Change(where=where, columns=(*kept, *added))


def _added(output: Output, condition: str) -> Output:
    return replace(output, sql=f"CASE WHEN {condition} THEN {output.sql} END", source=None)


def _merged(after: Output | None, before: Output, condition: str, path: str) -> Output:
    """Return a column that was there before, whether or not it is still there afterwards."""
    if after is None:
        text = f"CASE WHEN NOT ({condition}) THEN {before.sql} END"
        return replace(before, sql=text, source=None)
    if after == before:
        return after
    if after.type is not None and before.type is not None and after.type != before.type:
        raise ConfigError(
            "transform.type_conflict",
            f"`{after.name}` would be {after.type} in some rows and {before.type} in others",
            fix="Drop the predicate, or write the result to a column of its own.",
            config_path=path,
        )
    text = f"CASE WHEN {condition} THEN {after.sql} ELSE {before.sql} END"
    return Output(after.name, text, after.type or before.type)
