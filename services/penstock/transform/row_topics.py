"""Routing of single rows: kernels that write the reserved column `__topic`.

The dataset of a stream is one name for all rows of a schema. A transform that gives rows names of
their own writes them into `__topic`; the engine divides the rows by it before the sink. Null means
the name of the dataset, also if a later transform renames it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from penstock.model.columns import TOPIC, TS_US
from penstock.model.errors import Diagnostic
from penstock.model.step import ROW, RejectedRow
from penstock.transform.change import Change
from penstock.transform.java.date_texts import DateText
from penstock.transform.row import Column, Row
from penstock.transform.sql import literals

Names: TypeAlias = pa.Array
"""A name or null for each row of a batch."""


def name_sql(dataset: str) -> str:
    """Return the SQL of the name of each row, where rows have names of their own."""
    return f"coalesce({literals.name(TOPIC)}, {literals.literal(dataset)})"


def route_rows(row: Row, kernel: RouteKernel, dataset: str | None = None) -> Change:
    """Return the change that gives rows names; `dataset` renames the others."""
    others = tuple(column for column in row if column.name != TOPIC)
    after = Row((*others, Column(TOPIC, pa.string())))
    return Change(dataset=dataset, kernel=kernel, kernel_row=after)


@dataclass(frozen=True, slots=True)
class RouteKernel:
    """An Arrow kernel that writes `__topic`. Rows whose name cannot be made are rejected."""

    names: NameSource
    failure: Diagnostic

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return all rows. A batch that may have rows to reject has numbers, and is split."""
        return _with_names(batch, self.names.names(batch)[0])

    def split_rejected(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, list[RejectedRow]]:
        """Return the rows with their names, and those without by their number in `ROW`."""
        names, failed = self.names.names(batch)
        if failed is None or not pc.any(failed).as_py():
            return _with_names(batch, names), []
        rows = batch.column(ROW).filter(failed).to_pylist()
        good = pc.invert(failed)
        return (
            _with_names(batch.filter(good), names.filter(good)),
            [(row, self.failure) for row in rows],
        )


class NameSource(Protocol):
    """Makes the names of rows. Picklable."""

    def names(self, batch: pa.RecordBatch) -> tuple[Names, pa.Array | None]:
        """Return a name or null for each row, and which rows fail; None: none of them."""


@dataclass(frozen=True, slots=True)
class TimeNames:
    """Names with the time of a row in `__ts_us`: `${topic}` and `${timestamp}` in `format`."""

    format: str
    dataset: str
    time: DateText

    def names(self, batch: pa.RecordBatch) -> tuple[Names, pa.Array | None]:
        """Name each row once per name and unit of time."""
        times = batch.column(TS_US)
        missing = pc.is_null(times)
        units = pc.fill_null(self.time.units(times), 0)
        texts = _map_distinct(units, self.time.text_of)
        missing = pc.or_(missing, pc.is_null(texts))
        before = _names_before(batch, self.dataset)
        parts = self.format.split("${timestamp}")
        names = _fill_topic(parts[0], before)
        for part in parts[1:]:
            names = pc.binary_join_element_wise(names, texts, _fill_topic(part, before), "")
        return names, missing


@dataclass(frozen=True, slots=True)
class RenamedNames:
    """Names that rows have already, changed by a function of each distinct name; "" is refused."""

    rename: Callable[[str], str]

    def names(self, batch: pa.RecordBatch) -> tuple[Names, pa.Array | None]:
        """Rename each distinct name once. Null stays null."""
        names = _map_distinct(batch.column(TOPIC), self.rename)
        return names, pc.fill_null(pc.equal(names, ""), False)


@dataclass(frozen=True, slots=True)
class FieldNames:
    """Names in a column of the rows. Null and "" fail, or keep the name if `optional`."""

    column: Sequence[str]
    optional: bool

    def names(self, batch: pa.RecordBatch) -> tuple[Names, pa.Array | None]:
        """Return the texts of the column."""
        values = batch.column(self.column[0])
        for field in self.column[1:]:
            values = pc.struct_field(values, [field])
        texts = pc.cast(values, pa.string())
        texts = pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
        missing = pc.is_null(texts)
        if TOPIC in batch.schema.names:
            texts = pc.coalesce(texts, batch.column(TOPIC))
        return texts, None if self.optional else missing


@dataclass(frozen=True, slots=True)
class NameOfRow:
    """The name of each row as a column (`name_sql`)."""

    dataset: str

    def array(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the names."""
        return _names_before(batch, self.dataset)


def _with_names(batch: pa.RecordBatch, names: Names) -> pa.RecordBatch:
    others = [name for name in batch.schema.names if name != TOPIC]
    return batch.select(others).append_column(TOPIC, names.cast(pa.string()))


def _names_before(batch: pa.RecordBatch, dataset: str) -> Names:
    if TOPIC in batch.schema.names:
        return pc.fill_null(batch.column(TOPIC), dataset)
    return pa.repeat(pa.scalar(dataset, pa.string()), batch.num_rows)


def _fill_topic(text: str, before: Names) -> Names:
    """Return a text with `${topic}` replaced by the name of each row."""
    first, *others = text.split("${topic}")
    names = pa.repeat(pa.scalar(first, pa.string()), len(before))
    for other in others:
        names = pc.binary_join_element_wise(names, before, other, "")
    return names


def _map_distinct(values: pa.Array, function: Callable[..., str | None]) -> Names:
    """Return the result of a function for each value; it is called once for a distinct one."""
    encoded = values.dictionary_encode()
    found = [function(value) for value in encoded.dictionary.to_pylist()]
    return pa.array(found, pa.string()).take(encoded.indices)
