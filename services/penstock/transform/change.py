"""What a transform does to the rows of a dataset, and how a predicate limits it to some of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

import pyarrow as pa

from penstock.model.config_def import ConfigKey
from penstock.model.errors import ConfigError, Diagnostic, ErrorClass
from penstock.model.step import Step
from penstock.transform.column_kernel import ColumnsKernel, Copy, Source
from penstock.transform.row import Column, Row, duplicates
from penstock.transform.sql import quoting

Kernel: TypeAlias = Callable[[pa.RecordBatch], pa.RecordBatch]
T = TypeVar("T")

BAD_ROW: Final = Diagnostic(
    "transform.bad_row",
    "an expression failed on the row",
    ErrorClass.DATA,
    fix="Use try_cast, try_divide or a condition, so that no row can fail; or correct the row.",
)
"""What is said of a row when a transform has nothing better to say."""


@dataclass(frozen=True, slots=True)
class Output:
    """A column that comes out: its expression, its type where known, and its kernel if it has one.

    `certain`: the expression cannot fail, whatever the row has. `meaning` tells of the values what
    their type cannot (`penstock.model.column_meaning`).
    """

    name: str
    sql: str
    type: pa.DataType | None = None
    source: Source | None = None
    certain: bool = False
    meaning: str = ""

    @staticmethod
    def kept(column: Column) -> Output:
        """Return a column as it is."""
        name = column.name
        return Output(name, quoting.name(name), column.type, Copy(name), True, column.meaning)


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of a dataset. Each part may be absent: the dataset keeps its name, all rows
    stay, all columns stay.

    `certain`: `where` cannot fail. `failure` is what is said of rows that fail. `schema`: the
    columns after a kernel that has no SQL; `labels`: metadata of the rows' schema.
    """

    dataset: str | None = None
    where: str | None = None
    columns: tuple[Output, ...] | None = None
    kernel: Kernel | None = None
    certain: bool = False
    failure: Diagnostic | None = None
    schema: pa.Schema | None = None
    labels: tuple[tuple[str, str], ...] = ()

    def row(self, row: Row) -> Row:
        """Return the columns after the change."""
        if self.schema is not None:
            return Row.of(self.schema)
        if self.columns is None:
            return row
        return Row(tuple(Column(o.name, o.type, o.meaning) for o in self.columns))

    def step(self, path: str) -> Step | None:
        """Return what the engine runs; None when the rows stay as they are."""
        if self.schema is not None:
            return Step(kernel=self.kernel)
        if self.where is None and self.columns is None and not self.labels:
            return None
        columns = self.columns or ()
        select = tuple((output.name, output.sql) for output in columns) or None
        kernel = Unchanged() if self.where is None and select is None else self.kernel
        # a kernel exists only where nothing can fail
        risky = frozenset(o.name for o in columns if not o.certain and o.source is None)
        return Step(
            self.where,
            select,
            kernel,
            risky=risky if kernel is None else frozenset(),
            risky_where=self.where is not None and not self.certain and kernel is None,
            failure=replace(self.failure or BAD_ROW, config_path=path),
            labels=self.labels,
        )


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The kernel of a step that changes no row."""

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows as they are."""
        return batch


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


def failure(code: str, message: str, fix: str) -> Diagnostic:
    """Return what a transform says of a row that it cannot change."""
    return Diagnostic(code, message, ErrorClass.DATA, fix=fix)


def projected(outputs: tuple[Output, ...], path: str, failure: Diagnostic | None = None) -> Change:
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
    return Change(columns=outputs, kernel=kernel, failure=failure)


def limited(change: Change, condition: str, row: Row, path: str) -> Change:
    """Return a change that befalls only the rows for which `condition` (true or false, never null)
    is true. Columns that only some rows have are null in the others.
    """
    if change.dataset is not None or change.schema is not None or change.labels:
        raise ConfigError(
            "transform.row_predicate",
            "this transform is for all rows of a dataset: a predicate over rows cannot limit it",
            fix="Use TopicNameMatches, or Filter in two connectors.",
            config_path=path,
        )
    where = None if change.where is None else f"NOT ({condition}) OR ({change.where})"
    if change.columns is None:
        return replace(change, where=where, kernel=None)
    after = {output.name: output for output in change.columns}
    kept = [_merged(after.pop(c.name, None), Output.kept(c), condition, path) for c in row]
    added = [_added(output, condition) for output in after.values()]
    return replace(change, where=where, columns=(*kept, *added), kernel=None)


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
    return replace(after, sql=text, type=after.type or before.type, source=None)
