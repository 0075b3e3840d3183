"""Arrow schemas as Avro's, and rows as blocks of records."""

from __future__ import annotations

import io
import re
from typing import Any, Final

import pyarrow as pa

from penstock_builtin.avro.container import make_block, make_header, number, parse_header
from penstock_builtin.avro.library import fastavro
from penstock_connector import SchemaError

_SYNC: Final = bytes(16)
_BLOCK: Final = 256 << 10
"""Bytes of rows in a block, about. Smaller ones pack worse; of larger ones readers want more
memory."""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TIMES: Final = {"s": "millis", "ms": "millis", "us": "micros", "ns": "nanos"}


class RecordWriter:
    """Blocks of rows of one schema."""

    def __init__(self, schema: pa.Schema, codec: str, sync: bytes) -> None:
        """Take a schema.

        Raises:
            SchemaError: `file.avro_schema`: Avro cannot hold it.
        """
        self._library = fastavro()
        self._codec, self._sync = codec, sync
        declared, bare, plain = _Shapes().record("row", list(schema))
        self.header = make_header(declared, codec, sync)
        self._bare = self._library.parse_schema(bare)
        self._plain = pa.schema(list(plain))

    def blocks(self, rows: pa.RecordBatch) -> list[bytes]:
        """Return rows as blocks."""
        each = max(rows.nbytes // max(rows.num_rows, 1), 1)
        most = max(_BLOCK // each, 1)
        plain = pa.RecordBatch.from_arrays(
            [_plain(column, kind) for column, kind in zip(rows.columns, self._plain, strict=True)],
            schema=self._plain,
        )
        return [
            self._block(plain.slice(at, most).to_pylist(maps_as_pydicts="strict"))
            for at in range(0, rows.num_rows, most)
        ]

    def _block(self, records: list[dict[str, Any]]) -> bytes:
        out = io.BytesIO()
        self._library.writer(
            out, self._bare, records, codec="null", sync_interval=1 << 40, sync_marker=_SYNC
        )
        data = out.getvalue()
        _, at = number(data, parse_header(data).size)
        size, at = number(data, at)
        return make_block(data[at : at + size], len(records), self._codec, self._sync)


def _plain(column: pa.Array, field: pa.Field) -> pa.Array:
    try:
        return column.cast(_normal(column.type)).cast(field.type)
    except pa.ArrowInvalid as error:
        raise _unfit(f"column {field.name!r}: {str(error).splitlines()[0]}") from error


def _normal(kind: pa.DataType) -> pa.DataType:
    """Return a type in units that Avro has. A finer time is an error, not cut."""
    if pa.types.is_timestamp(kind) and kind.unit == "s":
        return pa.timestamp("ms", kind.tz)
    if pa.types.is_time(kind):
        return pa.time32("ms") if pa.types.is_time32(kind) else pa.time64("us")
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_normal(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(pa.string(), _normal(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_normal(field.type)) for field in kind])
    return _normal(kind.value_type) if pa.types.is_dictionary(kind) else kind


class _Shapes:
    """For each type: what the file declares, what fastavro is given (without the logical types that
    are numbers), and the Arrow type that brings values there.
    """

    def __init__(self) -> None:
        self._records = 0

    def record(self, name: str, fields: list[pa.Field]) -> tuple[Any, Any, pa.DataType]:
        """Return the three of a record."""
        declared, bare, plain = [], [], []
        taken: set[str] = set()
        for field in fields:
            safe = _safe_name(field.name, taken)
            if safe != field.name and self._records:
                raise _unfit(f"the name {field.name!r} inside of a column")
            outer, inner, kind = self.of(field.type)
            column = {} if safe == field.name else {"column": field.name}
            declared.append(
                {"name": safe, **column, "type": ["null", outer], "default": None}
                if outer != "null"
                else {"name": safe, **column, "type": "null"}
            )
            bare.append({"name": safe, "type": ["null", inner] if inner != "null" else "null"})
            plain.append(pa.field(safe, kind))
        return (
            {"type": "record", "name": name, "fields": declared},
            {"type": "record", "name": name, "fields": bare},
            pa.struct(plain),
        )

    def of(self, kind: pa.DataType) -> tuple[Any, Any, pa.DataType]:
        """Return the three of a type."""
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        if pa.types.is_struct(kind):
            self._records += 1
            return self.record(f"record{self._records}", list(kind))
        if pa.types.is_map(kind):
            return self._map(kind)
        if pa.types.is_list(kind) or pa.types.is_large_list(kind):
            outer, inner, plain = self.of(kind.value_type)
            return (
                {"type": "array", "items": _or_null(outer)},
                {"type": "array", "items": _or_null(inner)},
                pa.list_(plain),
            )
        if pa.types.is_decimal(kind):
            digits = {"precision": kind.precision, "scale": kind.scale}
            if kind.scale < 0:
                raise _unfit("decimals of a negative scale")
            avro = {"type": "bytes", "logicalType": "decimal", **digits}
            return avro, avro, kind
        return _single(kind)

    def _map(self, kind: pa.DataType) -> tuple[Any, Any, pa.DataType]:
        if not _is_text(kind.key_type):
            raise _unfit(f"maps with keys of {kind.key_type}")
        outer, inner, plain = self.of(kind.item_type)
        return (
            {"type": "map", "values": _or_null(outer)},
            {"type": "map", "values": _or_null(inner)},
            pa.map_(pa.string(), plain),
        )


def _single(kind: pa.DataType) -> tuple[Any, Any, pa.DataType]:
    if _is_text(kind):
        return "string", "string", pa.string()
    if pa.types.is_integer(kind) and kind != pa.uint64():
        small = kind.bit_width < 32 or kind == pa.int32()
        return ("int", "int", pa.int32()) if small else ("long", "long", pa.int64())
    if kind == pa.uint64():
        avro = {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 0}
        return avro, avro, pa.decimal128(20, 0)
    for test, name, plain in _PLAIN:
        if test(kind):
            return name, name, plain
    return _time(kind)


def _time(kind: pa.DataType) -> tuple[Any, Any, pa.DataType]:
    if pa.types.is_date32(kind):
        return {"type": "int", "logicalType": "date"}, "int", pa.int32()
    if pa.types.is_timestamp(kind):
        logical = f"timestamp-{_TIMES[kind.unit]}"
        logical = logical if kind.tz else f"local-{logical}"
        return {"type": "long", "logicalType": logical}, "long", pa.int64()
    if pa.types.is_time32(kind):
        return {"type": "int", "logicalType": "time-millis"}, "int", pa.int32()
    if pa.types.is_time64(kind):
        return {"type": "long", "logicalType": "time-micros"}, "long", pa.int64()
    raise _unfit(f"values of type {kind}")


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or kind == pa.string_view()
    )


def _is_bytes(kind: pa.DataType) -> bool:
    return "binary" in str(kind)


_PLAIN: Final = (
    (pa.types.is_null, "null", pa.null()),
    (pa.types.is_boolean, "boolean", pa.bool_()),
    (pa.types.is_float64, "double", pa.float64()),
    (pa.types.is_floating, "float", pa.float32()),
    (pa.types.is_duration, "long", pa.int64()),
    (_is_bytes, "bytes", pa.binary()),
)


def _or_null(avro: Any) -> Any:
    return avro if avro == "null" else ["null", avro]


def _safe_name(name: str, taken: set[str]) -> str:
    """Return a name that Avro takes; what it was stands beside it, as `column`."""
    safe = name if _NAME.fullmatch(name) else re.sub(r"\W", "_", name, flags=re.ASCII)
    if not _NAME.fullmatch(safe):
        safe = f"_{safe}"
    unique, number_ = safe, 2
    while unique in taken:
        unique, number_ = f"{safe}_{number_}", number_ + 1
    taken.add(unique)
    return unique


def _unfit(why: str) -> SchemaError:
    return SchemaError(
        "file.avro_schema",
        f"Avro cannot hold {why}",
        fix="Change the column with a transform, or set another `format`.",
        config_path="format",
    )
