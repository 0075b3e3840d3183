"""What a transform does to the rows of a dataset, and how a predicate limits it to some of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

import pyarrow as pa

from penstock.model.config_def import ConfigKey
from penstock.model.errors import ConfigError, Diagnostic, ErrorClass
from penstock.model.step import Step
from penstock.transform.column_kernel import (
    ColumnSource,
    Copy,
    ProjectionKernel,
    RejectingProjection,
    RejectingSource,
)
from penstock.transform.row import Column, Default, Row, find_duplicates
from penstock.transform.sql import literals

Kernel: TypeAlias = Callable[[pa.RecordBatch], pa.RecordBatch]
T = TypeVar("T")

DEFAULT_FAILURE: Final = Diagnostic(
    "transform.bad_row",
    "an expression failed on the row",
    ErrorClass.DATA,
    fix="Use try_cast, try_divide or a condition, so that no row can fail; or correct the row.",
)
"""The diagnostic of a failed row when its transform has none of its own."""


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """An output column: its SQL expression, its type where known, and its Arrow kernel if any.

    `certain`: the expression cannot fail on any row. `sql_can_fail`: the expression may fail on a
    row on which the kernel does not. `semantic_type`: see
    `penstock_values.semantic_types`. `default`: of its schema.
    """

    name: str
    sql: str
    type: pa.DataType | None = None
    source: ColumnSource | None = None
    certain: bool = False
    semantic_type: str = ""
    default: Default | None = None
    sql_can_fail: bool = False

    @property
    def can_fail(self) -> bool:
        """Whether it can fail on a row."""
        if self.source is None:
            return not self.certain
        return isinstance(self.source, RejectingSource)

    @staticmethod
    def unchanged(column: Column) -> OutputColumn:
        """Return an input column unchanged."""
        name = column.name
        return OutputColumn(
            name,
            literals.name(name),
            column.type,
            Copy(name),
            certain=True,
            semantic_type=column.semantic_type,
            default=column.default,
        )


@dataclass(frozen=True, slots=True)
class Change:
    """What a transform does to a dataset. Each part may be absent: the dataset then keeps its name,
    its rows, its columns.

    Attributes:
        dataset: The new name of the dataset.
        where: A condition; rows for which it is true are kept.
        columns: The columns after the change.
        kernel: An Arrow kernel of the same meaning as `where` and `columns`.
        certain: Whether `where` cannot fail on any row.
        failure: The diagnostic of rows that fail.
        kernel_row: The row behind a kernel that has no SQL of the same meaning.
        labels: Metadata of the rows' schema.
    """

    dataset: str | None = None
    where: str | None = None
    columns: tuple[OutputColumn, ...] | None = None
    kernel: Kernel | None = None
    certain: bool = False
    failure: Diagnostic | None = None
    kernel_row: Row | None = None
    labels: tuple[tuple[str, str], ...] = ()

    def row_after(self, row: Row) -> Row:
        """Return the row behind the change."""
        if self.kernel_row is not None:
            return self.kernel_row
        if self.columns is None:
            return row
        return Row(tuple(Column(o.name, o.type, o.semantic_type, o.default) for o in self.columns))

    def to_step(self, path: str) -> Step | None:
        """Return the step for the engine; None when the rows stay unchanged. `path`: the transform
        in the configuration, for diagnostics.
        """
        if self.kernel_row is not None:
            return Step(kernel=self.kernel)
        if self.where is None and self.columns is None and not self.labels:
            return None
        columns = self.columns or ()
        select = tuple((output.name, output.sql) for output in columns) or None
        kernel = IdentityKernel() if self.where is None and select is None else self.kernel
        return Step(
            self.where,
            select,
            kernel,
            risky=frozenset(o.name for o in columns if o.can_fail or o.sql_can_fail),
            risky_where=self.where is not None and not self.certain and kernel is None,
            failure=replace(self.failure or DEFAULT_FAILURE, config_path=path),
            labels=self.labels,
        )


@dataclass(frozen=True, slots=True)
class IdentityKernel:
    """The kernel of a step that only labels the schema."""

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows unchanged."""
        return batch


class Transform(Protocol):
    """A configured transform."""

    def resolve(self, dataset: str, row: Row) -> Change:
        """Return the change of a dataset whose rows have these columns.

        Raises:
            ConfigError: the transform cannot be applied to such rows.
        """


@dataclass(frozen=True)
class TypeDefinition(Generic[T]):
    """The definition of a type of transform or predicate.

    Attributes:
        names: The values of the key `type`: its own name first, then aliases.
        keys: Its configuration keys.
        build: Creates it from its configuration path and the parsed values of `keys`.
    """

    names: tuple[str, ...]
    keys: tuple[ConfigKey, ...]
    build: Callable[[str, Mapping[str, Any]], T]


def row_failure(code: str, message: str, fix: str) -> Diagnostic:
    """Build the diagnostic of rows that a transform cannot process."""
    return Diagnostic(code, message, ErrorClass.DATA, fix=fix)


def project_columns(
    outputs: tuple[OutputColumn, ...], path: str, failure: Diagnostic | None = None
) -> Change:
    """Return the change to these columns, with a kernel if every column has one.

    Raises:
        ConfigError: duplicate column names, or no columns.
    """
    duplicates = find_duplicates(output.name for output in outputs)
    if duplicates:
        raise ConfigError(
            "transform.duplicate_column",
            f"two columns would be named `{duplicates[0]}`",
            fix="Choose another name, or remove the existing column first.",
            config_path=path,
        )
    if not outputs:
        raise ConfigError(
            "transform.no_columns",
            "no column would be left",
            fix="Keep at least one column; to drop rows, use Filter.",
            config_path=path,
        )
    sources = [(output.name, output.source) for output in outputs if output.source is not None]
    kernel: Kernel | None = None
    if len(sources) == len(outputs):
        kernel = ProjectionKernel(tuple(sources))
        if any(output.can_fail for output in outputs):
            reason = replace(failure or DEFAULT_FAILURE, config_path=path)
            kernel = RejectingProjection(tuple(sources), reason)
    return Change(columns=outputs, kernel=kernel, failure=failure)


def limit_to_rows(change: Change, condition: str, row: Row, path: str) -> Change:
    """Limit a change to the rows for which `condition` (never null) is true. Columns that only the
    changed rows have are null in the others, and the other way round.
    """
    if change.dataset is not None or change.kernel_row is not None or change.labels:
        raise ConfigError(
            "transform.row_predicate",
            "this transform applies to whole datasets: a predicate over rows cannot limit it",
            fix="Use TopicNameMatches, or Filter in two connectors.",
            config_path=path,
        )
    where = None if change.where is None else f"NOT ({condition}) OR ({change.where})"
    if change.columns is None:
        return replace(change, where=where, kernel=None)
    after = {output.name: output for output in change.columns}
    kept = [
        _merge_column(after.pop(c.name, None), OutputColumn.unchanged(c), condition, path)
        for c in row
    ]
    added = [_limit_column(output, condition) for output in after.values()]
    return replace(change, where=where, columns=(*kept, *added), kernel=None)


def _limit_column(output: OutputColumn, condition: str) -> OutputColumn:
    return replace(output, sql=f"CASE WHEN {condition} THEN {output.sql} END", source=None)


def _merge_column(
    after: OutputColumn | None, before: OutputColumn, condition: str, path: str
) -> OutputColumn:
    """Return a column that exists before the change, and perhaps after it."""
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
