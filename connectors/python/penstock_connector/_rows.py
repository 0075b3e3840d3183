"""Rows as an author gives them → Arrow record batches of a known schema and a bounded size."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from operator import attrgetter
from typing import Any, Final

import pyarrow as pa

from penstock.api.record.v1 import record_pb2 as pb
from penstock_connector._errors import SchemaError
from penstock_connector._frames import encode_schema
from penstock_values.decimals import at_scale, from_texts

CUT_MOST: Final = 32 << 20
"""Most bytes of rows in a batch, unless it is a single row. Larger ones make every buffer on the
way larger; the message limit is twice this so that encoding never crosses it."""

CUT_TARGET: Final = 4 << 20
"""Bytes of a batch when the host does not say. Smaller costs more frames a row; larger gives the
host less to spread over its slots."""


_RESERVED_TYPES: Final = {"__op": pa.int8(), "__ts_us": pa.int64(), "__partition": pa.int32()}


@dataclass(frozen=True, slots=True)
class Cut:
    """How large a batch may be."""

    target_bytes: int = CUT_TARGET
    most_rows: int = 1 << 20
    most_bytes: int = CUT_MOST

    def apply(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Return the rows in slices of about the target size, none above the limit but single
        rows.
        """
        size, count = rows.nbytes, rows.num_rows
        slices = max(math.ceil(size / self.target_bytes), math.ceil(count / self.most_rows), 1)
        step = math.ceil(count / slices)
        for start in range(0, count, step):
            yield from self._halved(rows.slice(start, step))

    def _halved(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        if rows.nbytes <= self.most_bytes or rows.num_rows == 1:
            yield rows
            return
        middle = rows.num_rows // 2
        yield from self._halved(rows.slice(0, middle))
        yield from self._halved(rows.slice(middle))


def to_arrow(rows: Any, schema: pa.Schema | None, current: pa.Schema | None) -> pa.RecordBatch:
    """Return rows as one record batch.

    Args:
        rows: Dicts, dataclass instances, a RecordBatch or a Table.
        schema: The schema that the author gave, or None to infer it.
        current: The dataset's schema so far: inferred rows keep to it where they can.
    """
    if isinstance(rows, pa.Table):
        rows = _one_batch(rows)
    elif not isinstance(rows, pa.RecordBatch):
        rows = _from_objects(rows, schema, current)
    if schema is not None and not rows.schema.equals(schema):
        rows = _conform(rows, schema)
    return plain_rows(rows)


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    if len(batches) == 1:
        return batches[0]
    return pa.RecordBatch.from_pylist([], schema=table.schema)


def _from_objects(
    rows: Sequence[Any], schema: pa.Schema | None, current: pa.Schema | None
) -> pa.RecordBatch:
    first = rows[0]
    try:
        if dataclasses.is_dataclass(first):
            inferred = _from_dataclasses(rows, first)
        elif schema is not None:
            return _typed(rows, schema)
        else:
            inferred = _from_dicts(rows, first)
        inferred = _with_reserved_types(inferred)
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError) as error:
        raise SchemaError(
            "rows.unconvertible",
            f"rows have no common column types: {error}",
            fix="Give every column one type, or set Batch.schema.",
        ) from error
    if schema is None and current is not None and not inferred.schema.equals(current):
        return _grown(inferred, current)
    return inferred


def _from_dicts(rows: Sequence[Any], first: Any) -> pa.RecordBatch:
    if not isinstance(first, dict):
        rows = [dict(row) for row in rows]
    # Inference looks at every value: a typed conversion would cut 1.5 to 1 without a word.
    return pa.RecordBatch.from_struct_array(pa.array(rows))


def _from_dataclasses(rows: Sequence[Any], first: Any) -> pa.RecordBatch:
    names = [field.name for field in dataclasses.fields(first)]
    columns = [pa.array(list(map(attrgetter(name), rows))) for name in names]
    return pa.RecordBatch.from_arrays(columns, names)


def _with_reserved_types(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return inferred rows whose reserved columns of whole numbers have the types of rule R20."""
    for name, wanted in _RESERVED_TYPES.items():
        at = rows.schema.get_field_index(name)
        if at < 0:
            continue
        column = rows.column(at)
        if pa.types.is_integer(column.type) or pa.types.is_null(column.type):
            rows = rows.set_column(at, name, column.cast(wanted))
    return rows


def _typed(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    unknown = set().union(*rows).difference(schema.names)
    if unknown:
        raise SchemaError(
            "rows.unknown_column",
            f"rows have columns that Batch.schema has not: {', '.join(sorted(unknown))}",
            fix="Add them to Batch.schema, or leave them out of the rows.",
        )
    columns = [_column([row.get(field.name) for row in rows], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _column(values: list[Any], wanted: pa.DataType) -> pa.Array:
    """Return a column of the wanted type. Floats become whole numbers by a checked cast: a typed
    conversion would cut 1.5 to 1 without a word.
    """
    if pa.types.is_integer(wanted) and any(isinstance(value, float) for value in values):
        return pa.array(values).cast(wanted)
    if pa.types.is_decimal(wanted):
        values = [_exact(value, wanted.scale) for value in values]
    return pa.array(values, type=wanted)


def _exact(value: Any, scale: int) -> Any:
    try:
        return at_scale(value, scale) if isinstance(value, Decimal) else value
    except ValueError as error:
        raise pa.ArrowInvalid(str(error)) from None


def _grown(rows: pa.RecordBatch, current: pa.Schema) -> pa.RecordBatch:
    """Return inferred rows in the dataset's schema, widened only as far as they need."""
    try:
        wanted = pa.unify_schemas([current, rows.schema], promote_options="permissive")
        return _conform(rows, wanted)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return rows  # a breaking change: the host decides what becomes of it


def _conform(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    names = set(rows.schema.names)
    columns = [
        _cast(rows.column(field.name), field.type)
        if field.name in names
        else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _cast(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    if pa.types.is_decimal(wanted) and pa.types.is_string(column.type):
        return from_texts(column, wanted)
    return column.cast(wanted)


def plain_rows(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows without dictionary columns: the SDK sends no dictionary messages."""
    given = rows.schema
    schema = plain_schema(given)
    return rows if schema is given else _conform(rows, schema)


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema that `plain_rows` gives."""
    if not any(pa.types.is_dictionary(type_) for type_ in schema.types):
        return schema
    return pa.schema(
        [
            field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field
            for field in schema
        ],
        schema.metadata,
    )


class Schemas:
    """The schemas of one stream: each version of each dataset has an id, from 1."""

    def __init__(self) -> None:
        self._ids: dict[tuple[str, tuple[str, ...], bytes], int] = {}
        self._current: dict[str, tuple[pa.Schema, tuple[str, ...], int]] = {}

    def current(self, dataset: str) -> pa.Schema | None:
        """Return the schema that the dataset's last rows had."""
        known = self._current.get(dataset)
        return known[0] if known else None

    def id_of(
        self, dataset: str, schema: pa.Schema, key_columns: Sequence[str]
    ) -> tuple[int, pb.Schema | None]:
        """Return the id of a schema, and the frame to send before its rows when it is new."""
        keys = tuple(key_columns)
        known = self._current.get(dataset)
        if known and known[1] == keys and (known[0] is schema or known[0].equals(schema)):
            return known[2], None
        message = encode_schema(schema)
        mark = hashlib.sha256(message).digest()
        found = self._ids.get((dataset, keys, mark))
        schema_id = found or len(self._ids) + 1
        self._ids[dataset, keys, mark] = schema_id
        self._current[dataset] = schema, keys, schema_id
        if found:
            return schema_id, None
        return schema_id, pb.Schema(
            schema_id=schema_id,
            dataset=dataset,
            arrow_schema=message,
            key_columns=keys,
        )
