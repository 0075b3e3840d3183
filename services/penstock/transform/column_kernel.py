"""Columns computed by Arrow, for fused plans. Each gives exactly what Spark gives for its SQL."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

import pyarrow as pa
import pyarrow.compute as pc

from penstock.model.columns import KEY, Op
from penstock.model.errors import DataError, Diagnostic
from penstock.model.step import ROW, RejectedRow
from penstock.transform.row import Row


class ColumnSource(Protocol):
    """Computes a column of a batch. Picklable."""

    def array(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the column, as long as the batch."""


@runtime_checkable
class RejectingSource(ColumnSource, Protocol):
    """A column that some rows do not have. Picklable."""

    def failed(self, batch: pa.RecordBatch, result: pa.Array) -> pa.Array | None:
        """Return on which rows `array`, whose result is given, fails; None: on none of them."""


@dataclass(frozen=True, slots=True)
class Copy:
    """An input column, unchanged."""

    column: str

    def type_in(self, row: Row) -> pa.DataType | None:
        """Return the type of the column."""
        return row.type_of(self.column)

    def array(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the column without copying it."""
        return batch.column(self.column)


@dataclass(frozen=True, slots=True)
class ConstantText:
    """The same text in every row."""

    value: str

    def array(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the text once for each row."""
        return pa.repeat(pa.scalar(self.value, pa.string()), batch.num_rows)


@dataclass(frozen=True, slots=True)
class Length:
    """`length(column)`: code points."""

    column: str

    def type_in(self, row: Row) -> pa.DataType | None:
        """Return int32, Spark's int, for a text; None for other types."""
        return None if _text_type(row, self.column) is None else pa.int32()

    def array(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the lengths as int32."""
        return pc.cast(pc.utf8_length(batch.column(self.column)), pa.int32())


@dataclass(frozen=True, slots=True)
class Slice:
    """`substring(column, from, length)` without negative numbers: code points `start` to `stop`."""

    column: str
    start: int
    stop: int

    def type_in(self, row: Row) -> pa.DataType | None:
        """Return the type of the text."""
        return _text_type(row, self.column)

    def array(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the slices."""
        return pc.utf8_slice_codeunits(batch.column(self.column), self.start, self.stop)


@dataclass(frozen=True, slots=True)
class Upper:
    """`upper(column)`.

    Arrow's `utf8_upper` maps one character to one and leaves `ß` unchanged; Spark uses Unicode's
    full mapping, as Python does. Texts in ASCII, where all agree, are computed by Arrow.
    """

    column: str

    def type_in(self, row: Row) -> pa.DataType | None:
        """Return the type of the text."""
        return _text_type(row, self.column)

    def array(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the texts in upper case."""
        texts = batch.column(self.column)
        result = pc.ascii_upper(texts)
        plain = pc.fill_null(pc.string_is_ascii(texts), True)
        if pc.all(plain).as_py() is not False:
            return result
        other = pc.invert(plain)
        found = texts.filter(other)
        # Translation costs more than all the rest, and hardly any text needs it.
        newer = pc.any(pc.match_substring_regex(found, _NEWER)).as_py()
        convert = to_upper if newer else str.upper
        upper = pa.array(map(convert, found.to_pylist()), texts.type)
        return pc.replace_with_mask(result, other, upper)


@dataclass(frozen=True, slots=True)
class StructField:
    """A field of a struct; null where the struct is null."""

    of: ColumnSource
    field: str

    def array(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the field."""
        return pc.struct_field(self.of.array(batch), [self.field])


@dataclass(frozen=True, slots=True)
class StructColumn:
    """A struct of columns; the struct itself is never null."""

    fields: tuple[tuple[str, ColumnSource], ...]

    def array(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the struct."""
        arrays = [source.array(batch) for _, source in self.fields]
        names = [pa.field(n, a.type) for (n, _), a in zip(self.fields, arrays, strict=True)]
        return pa.StructArray.from_arrays(arrays, fields=names)


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """A struct of columns in place of the key; null where the key is null."""

    fields: tuple[tuple[str, ColumnSource], ...]

    def array(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the struct. Where it is null, its fields are null, too."""
        empty = pc.is_null(batch.column(KEY))
        arrays = [source.array(batch) for _, source in self.fields]
        if pc.any(empty).as_py():
            arrays = [pc.if_else(empty, pa.scalar(None, a.type), a) for a in arrays]
        names = [pa.field(n, a.type) for (n, _), a in zip(self.fields, arrays, strict=True)]
        return pa.StructArray.from_arrays(arrays, fields=names, mask=empty)


@dataclass(frozen=True, slots=True)
class ConstantNull:
    """Null in every row."""

    type: pa.DataType

    def array(self, batch: pa.RecordBatch) -> pa.Array:
        """Return nulls."""
        return pa.nulls(batch.num_rows, self.type)


@dataclass(frozen=True, slots=True)
class RequiredColumn:
    """A column whose nulls fail."""

    of: ColumnSource

    def array(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the column."""
        return self.of.array(batch)

    def failed(self, _batch: pa.RecordBatch, result: pa.Array) -> pa.Array | None:
        """Return which rows have no value; None for no row."""
        return pc.is_null(result) if result.null_count else None


@dataclass(frozen=True, slots=True)
class NotDeleted:
    """Whether a row is no delete, by the column of its change."""

    column: str

    def array(self, batch: pa.RecordBatch) -> pa.Array:
        """Return booleans without nulls."""
        deleted = pc.equal(batch.column(self.column), int(Op.DELETE))
        return pc.invert(pc.fill_null(deleted, False))


@dataclass(frozen=True, slots=True)
class IsValid:
    """Whether a column is not null."""

    of: ColumnSource

    def array(self, batch: pa.RecordBatch) -> pa.Array:
        """Return booleans without nulls."""
        return pc.is_valid(self.of.array(batch))


@dataclass(frozen=True, slots=True)
class FilledColumn:
    """A column with a default in place of nulls, where `where` is true."""

    of: ColumnSource
    default: pa.Scalar
    where: ColumnSource | None

    def array(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the column; without a copy if it has no null."""
        values = self.of.array(batch)
        if not values.null_count:
            return values
        empty = values.is_null()
        if self.where is not None:
            empty = pc.and_(empty, self.where.array(batch))
        return pc.if_else(empty, self.default, values)


@dataclass(frozen=True, slots=True)
class MaskedColumn:
    """A constant in place of every value of a column; null stays null."""

    of: ColumnSource
    value: Any
    type: pa.DataType

    def array(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the column with its values replaced."""
        valid = pc.is_valid(self.of.array(batch))
        value = pa.scalar(self.value, self.type)
        return pc.if_else(valid, value, pa.scalar(None, self.type))


Convert: TypeAlias = Callable[[pa.Array], pa.Array]
"""A function that fails on no value and keeps nulls; of a module, so that it can be pickled."""


@dataclass(frozen=True, slots=True)
class ConvertedColumn:
    """A column after a function."""

    of: ColumnSource
    convert: Convert

    def array(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the converted column."""
        return self.convert(self.of.array(batch))


@dataclass(frozen=True, slots=True)
class ConvertedRejecting:
    """A column that some rows do not have, after a function."""

    of: RejectingSource
    convert: Convert

    def array(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the converted column."""
        return self.convert(self.of.array(batch))

    def failed(self, batch: pa.RecordBatch, result: pa.Array) -> pa.Array | None:
        """Return on which rows the column fails; None for no row."""
        return self.of.failed(batch, result)


def convert_column(of: ColumnSource, convert: Convert) -> ColumnSource:
    """Return a column after a function."""
    if isinstance(of, RejectingSource):
        return ConvertedRejecting(of, convert)
    return ConvertedColumn(of, convert)


Operand: TypeAlias = Copy | Length | Slice | Upper
"""A function of one column. `type_in(row)` is None for types whose values only Spark computes."""


def _text_type(row: Row, column: str) -> pa.DataType | None:
    type_ = row.type_of(column)
    fits = type_ is not None and (pa.types.is_string(type_) or pa.types.is_large_string(type_))
    return type_ if fits else None


def to_upper(text: str) -> str:
    """Return a text in upper case as Spark 4.1 does (ICU, Unicode 16)."""
    return text.translate(_NEWER_CAPITALS).upper()


_NEWER_CAPITALS: Final[dict[int, int]] = {
    0x019B: 0xA7DC,
    0x0264: 0xA7CB,
    0x1C8A: 0x1C89,
    0xA7CD: 0xA7CC,
    0xA7DB: 0xA7DA,
    **{small: small - 0x20 for small in range(0x10D70, 0x10D86)},
}
"""Upper-case letters added to Unicode after Python 3.11's version. A test compares all of them."""
_NEWER: Final = f"[{''.join(map(chr, _NEWER_CAPITALS))}]"


@dataclass(frozen=True, slots=True)
class ProjectionKernel:
    """A projection: names and sources of all columns."""

    columns: tuple[tuple[str, ColumnSource], ...]

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the projected batch."""
        arrays = [source.array(batch) for _, source in self.columns]
        fields = [
            _field(name, source, array, batch.schema)
            for (name, source), array in zip(self.columns, arrays, strict=True)
        ]
        if ROW in batch.schema.names:  # row numbers always pass through
            arrays.append(batch.column(ROW))
            fields.append(batch.schema.field(ROW))
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


@dataclass(frozen=True, slots=True)
class RejectingProjection:
    """A projection with columns that fail on some rows, which are rejected with `failure`."""

    columns: tuple[tuple[str, ColumnSource], ...]
    failure: Diagnostic

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the projected batch.

        Raises:
            DataError: a column fails on a row.
        """
        rows, failed = self.split_rejected(batch)
        if failed:
            why = self.failure
            raise DataError(why.code, why.message, fix=why.fix, config_path=why.config_path)
        return rows

    def split_rejected(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, list[RejectedRow]]:
        """Return the projected rows, and those on which a column fails."""
        rows = ProjectionKernel(self.columns)(batch)
        bad: pa.Array | None = None
        for at, (_, source) in enumerate(self.columns):
            if isinstance(source, RejectingSource):
                failed = source.failed(batch, rows.column(at))
                if failed is not None:
                    bad = failed if bad is None else pc.or_(bad, failed)
        if bad is None:
            return rows, []
        count = pc.sum(bad).as_py()
        has_numbers = ROW in batch.schema.names
        numbers = batch.column(ROW).filter(bad).to_pylist() if has_numbers else [-1] * count
        return rows.filter(pc.invert(bad)), [(number, self.failure) for number in numbers]


def _field(name: str, source: ColumnSource, array: pa.Array, schema: pa.Schema) -> pa.Field:
    if isinstance(source, Copy):
        return schema.field(source.column).with_name(name)
    return pa.field(name, array.type)
