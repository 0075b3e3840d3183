"""Expressions and kernels over the headers of rows: the column `__headers`, a map from names to
bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.model.columns import HEADERS
from penstock.model.errors import ConfigError
from penstock.transform.change import OutputColumn
from penstock.transform.column_kernel import ColumnSource, ConstantNull, ConstantText
from penstock.transform.java.cast_kernels import cast_source
from penstock.transform.java.casts import JAVA_SPACE, format_text
from penstock.transform.row import Row
from penstock.transform.sql import literals
from penstock_converters.headers.types import header_field, with_header_types, without_header_types
from penstock_converters.headers.values import parse_literal

HEADERS_TYPE: Final = pa.map_(pa.string(), pa.binary())
_NO_HEADERS: Final = f"CAST(map() AS {literals.type_name(HEADERS_TYPE)})"


def remove_headers(row: Row, names: Sequence[str]) -> OutputColumn:
    """Return the headers of rows that have some, without those of the given names."""
    quoted_names = ", ".join(literals.literal(name) for name in names)
    text = f"map_filter({literals.name(HEADERS)}, (k, v) -> k NOT IN ({quoted_names}))"
    types = without_header_types(_types(row), names)
    source = HeadersColumn(frozenset(names)) if row.type_of(HEADERS) == HEADERS_TYPE else None
    return OutputColumn(HEADERS, text, HEADERS_TYPE, source, certain=True, semantic_type=types)


@dataclass(frozen=True, slots=True)
class HeaderValue:
    """A value for a header: the SQL expression of its bytes, its type, where one is known, and the
    kernel of its text, if it has one.
    """

    sql: str
    type: pa.Field | None = None
    source: ColumnSource | None = None


@dataclass(frozen=True, slots=True)
class HeadersColumn:
    """Headers without some names, and with new ones behind them: texts by name."""

    without: frozenset[str]
    new: tuple[tuple[str, ColumnSource], ...] = ()

    def array(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the headers; null only where there are none, and no new ones."""
        rows, count = batch.num_rows, len(self.new)
        kept = _empty_headers(rows)
        if HEADERS in batch.schema.names:
            kept = self._keep(batch.column(HEADERS))
        if not count:
            return kept
        ends = kept.offsets.to_numpy() + count * np.arange(rows + 1)
        order = np.full(ends[-1], -1)
        for at in range(count):
            order[ends[1:] - count + at] = len(kept.keys) + at * rows + np.arange(rows)
        order[order < 0] = np.arange(len(kept.keys))
        names = [pa.repeat(name, rows) for name, _ in self.new]
        texts = [source.array(batch).cast(pa.binary()) for _, source in self.new]
        keys = pa.concat_arrays([kept.keys, *names]).take(pa.array(order))
        values = pa.concat_arrays([kept.items, *texts]).take(pa.array(order))
        return pa.MapArray.from_arrays(pa.array(ends, pa.int32()), keys, values)

    def _keep(self, headers: pa.MapArray) -> pa.MapArray:
        """Return the headers that stay, with offsets from 0."""
        offsets = headers.offsets.to_numpy()
        empty = pc.is_null(headers).to_numpy(zero_copy_only=False)
        keys = headers.keys[offsets[0] : offsets[-1]]
        values = headers.items[offsets[0] : offsets[-1]]
        dropped = pc.is_in(keys, pa.array(sorted(self.without), pa.string()))
        left = ~dropped.to_numpy(zero_copy_only=False) & ~np.repeat(empty, np.diff(offsets))
        before = np.concatenate([[0], np.cumsum(left)])[offsets - offsets[0]]
        keep = pa.array(left)
        return pa.MapArray.from_arrays(
            pa.array(before, pa.int32()),
            keys.filter(keep),
            values.filter(keep),
            mask=pa.array(empty) if empty.any() else None,
        )


def _empty_headers(rows: int) -> pa.MapArray:
    nothing = pa.array([], pa.string()), pa.array([], pa.binary())
    return pa.MapArray.from_arrays(pa.array([0] * (rows + 1), pa.int32()), *nothing)


def set_headers(row: Row, values: Iterable[tuple[str, HeaderValue]]) -> OutputColumn:
    """Return the headers with new ones, by name. A new header replaces an existing one of the same
    name.
    """
    new = dict(values)
    pairs = ", ".join(f"{literals.literal(name)}, {value.sql}" for name, value in new.items())
    existing = _NO_HEADERS
    if row.get(HEADERS) is not None:
        existing = f"coalesce({remove_headers(row, tuple(new)).sql}, {_NO_HEADERS})"
    types = with_header_types(_types(row), ((name, value.type) for name, value in new.items()))
    # a map with a duplicate key fails in Spark: such headers could not be distinguished
    text = f"map_concat({existing}, map({pairs}))"
    sources = [(name, one.source) for name, one in new.items() if one.source is not None]
    source: ColumnSource | None = None
    if len(sources) == len(new) and row.type_of(HEADERS) in (None, HEADERS_TYPE):
        source = HeadersColumn(frozenset(new), tuple(sources))
    return OutputColumn(HEADERS, text, HEADERS_TYPE, source, sql_can_fail=True, semantic_type=types)


def _types(row: Row) -> str:
    column = row.get(HEADERS)
    return "" if column is None else column.semantic_type


def parse_header(text: str) -> HeaderValue:
    """Return the value that Kafka Connect reads from a text, as text again."""
    value = parse_literal(text.strip(JAVA_SPACE))
    if value.value is None:
        return HeaderValue("CAST(NULL AS BINARY)", source=ConstantNull(pa.string()))
    bytes_ = f"encode({literals.literal(value.row_text)}, 'UTF-8')"
    return HeaderValue(bytes_, value.field, ConstantText(value.row_text))


def format_header(field: OutputColumn, path: str) -> HeaderValue:
    """Return the value of a header: the field as text in UTF-8, bytes as base64, lists, maps and
    structs as JSON. Null stays null.

    Raises:
        ConfigError: `transform.unknown_type`: only Spark knows the type of the field.
    """
    if field.type is None:
        raise ConfigError(
            "transform.unknown_type",
            f"the type of `{field.name}` is known only to Spark",
            fix="Use Cast before this transform.",
            config_path=path,
        )
    text = format_text(field.sql, field.type, field.semantic_type)
    found = text[0] if text else f"to_json({field.sql}, map('ignoreNullFields', 'false'))"
    source: ColumnSource | None = None
    if field.source is not None and not field.can_fail:
        source = cast_source(field.source, field.type, field.semantic_type, "string")
    type_ = header_field(field.type, field.semantic_type)
    return HeaderValue(f"encode({found}, 'UTF-8')", type_, source)
