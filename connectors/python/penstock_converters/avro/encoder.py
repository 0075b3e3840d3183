"""Arrow columns to Avro's bytes, all rows at once. Pure.

Each type gives the parts of its rows, arrays of bytes, and all parts of a row are joined at the
end. Items of a list, and rows that are null, change the offsets of a part and not its bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock_converters.avro.connect import (
    UNION,
    AvroOptions,
    is_map_entry,
    scrub_name,
    to_connect,
)
from penstock_converters.avro.schema import MISSING, AvroField, AvroType
from penstock_converters.connect_schema import (
    InvalidSchemaError,
    to_arrow_field,
    to_connect_schema,
)
from penstock_converters.json.values import JsonForm, make_reader
from penstock_converters.ragged import (
    Bools,
    Ints,
    from_matrix,
    join,
    offsets_of,
    regroup,
    repeat,
    rescale,
    spread,
    unscaled_bytes,
    varints,
    without_first,
)

_LOGICAL_UNITS: Final[Mapping[str, str]] = {
    "time-millis": "ms", "time-micros": "us",
    "timestamp-millis": "ms", "timestamp-micros": "us", "timestamp-nanos": "ns",
    "local-timestamp-millis": "ms", "local-timestamp-micros": "us", "local-timestamp-nanos": "ns",
}  # fmt: skip
_INT32: Final = (-(1 << 31), (1 << 31) - 1)

_Part = list[pa.Array]


class AvroEncoder:
    """Writes values of one Arrow field by a type of Avro.

    Args:
        kind: The type.
        field: The values' field, with Kafka Connect's schema fields in its metadata.
        options: Confluent's keys.
        drops_columns: Whether columns that the type lacks are left out; else they are an error.

    Raises:
        InvalidSchemaError: values of the field are none of the type; the message says which.
    """

    def __init__(
        self, kind: AvroType, field: pa.Field, options: AvroOptions, *, drops_columns: bool = False
    ) -> None:
        self._kind, self._field, self._options = kind, field, options
        self._drops_columns = drops_columns
        self.encode(pa.array([], field.type))  # finds what does not fit

    def encode(self, values: pa.Array) -> tuple[pa.Array, dict[int, str]]:
        """Return the bytes of values that are not null, and why some have none: their bytes mean
        nothing.
        """
        self._failed: dict[int, str] = {}
        rows = np.arange(len(values))
        if self._kind.kind == "bytes":  # Confluent's deserializer reads them as they are
            pieces = join(self._bytes(self._kind, values, rows, with_length=False))
        else:
            pieces = join(self._encode(self._kind, self._field, values, rows))
        return pieces, self._failed

    def _fail(self, rows: Ints, wrong: Bools, why: str) -> None:
        for row in rows[wrong].tolist():
            self._failed.setdefault(row, why)

    def _encode(self, kind: AvroType, field: pa.Field, values: pa.Array, rows: Ints) -> _Part:
        values = self._with_default(field, values)
        if kind.kind == "union":
            return self._union(kind, field, values, rows)
        if not values.null_count:
            return self._present(kind, field, values, rows)
        null = np.asarray(values.is_null())
        self._fail(rows, null, f"{field.name!r} is null, and its schema is not optional")
        pieces = join(self._present(kind, field, values.drop_null(), rows[~null]))
        return [spread(pieces, ~null)]

    def _with_default(self, field: pa.Field, values: pa.Array) -> pa.Array:
        if not values.null_count or self._options.ignore_defaults or not field.metadata:
            return values
        if b"connect.default" not in field.metadata:
            return values
        schema = to_connect_schema(field)
        default = make_reader(schema, JsonForm())(json.loads(field.metadata[b"connect.default"]))
        return pc.if_else(values.is_valid(), values, pa.scalar(default, values.type))

    def _present(self, kind: AvroType, field: pa.Field, values: pa.Array, rows: Ints) -> _Part:
        """Return the bytes of values that are not null."""
        fits, write = _WRITERS[kind.kind]
        if not fits(field.type):
            raise _mismatch(kind, field)
        return write(self, kind, field, values, rows)

    def nothing(self, kind: AvroType, field: pa.Field, values: pa.Array, rows: Ints) -> _Part:
        """Return no bytes: the type is null."""
        return [repeat(b"", len(values))]

    def integers(self, kind: AvroType, field: pa.Field, values: pa.Array, rows: Ints) -> _Part:
        """Return whole numbers."""
        return [varints(self._integers(kind, field, values, rows))]

    def floats(self, kind: AvroType, field: pa.Field, values: pa.Array, rows: Ints) -> _Part:
        """Return numbers of four or eight bytes."""
        return [_floats(kind, field, values)]

    def booleans(self, kind: AvroType, field: pa.Field, values: pa.Array, rows: Ints) -> _Part:
        """Return booleans."""
        flags = values.cast(pa.uint8()).to_numpy(zero_copy_only=False)
        return [from_matrix(flags.reshape(-1, 1))]

    def texts(self, kind: AvroType, field: pa.Field, values: pa.Array, rows: Ints) -> _Part:
        """Return texts."""
        return _with_length(values.cast(pa.large_string()).cast(pa.large_binary()))

    def bytes_of(self, kind: AvroType, field: pa.Field, values: pa.Array, rows: Ints) -> _Part:
        """Return bytes."""
        return self._bytes(kind, values, rows, with_length=True)

    def _integers(self, kind: AvroType, field: pa.Field, values: pa.Array, rows: Ints) -> Ints:
        column = field.type
        if pa.types.is_timestamp(column) or pa.types.is_time(column):
            wire = pa.int32() if pa.types.is_time32(column) else pa.int64()
            found = _to_int64(values.view(wire))
            unit = _LOGICAL_UNITS.get(kind.logical, "ms")
            found, wrong = rescale(found, column.unit, unit)
            self._fail(rows, wrong, f"{field.name!r} is finer than the {unit} of its schema")
        elif pa.types.is_date(column):
            found = _to_int64(values.cast(pa.date32()).view(pa.int32()))
        elif pa.types.is_integer(column) and column != pa.uint64():
            found = _to_int64(values)
        else:
            raise _mismatch(kind, field)
        if kind.kind == "int" and (column.bit_width > 32 or pa.types.is_uint32(column)):
            wrong = (found < _INT32[0]) | (found > _INT32[1])
            self._fail(rows, wrong, f"{field.name!r} does not fit into 32 bits")
        return found

    def _bytes(self, kind: AvroType, values: pa.Array, rows: Ints, *, with_length: bool) -> _Part:
        if not _is_decimal(values.type):
            pieces = values.cast(pa.binary()).cast(pa.large_binary())
        else:
            number, skipped = self._unscaled(kind, values, rows)
            pieces = without_first(number, skipped)
        return _with_length(pieces) if with_length else [pieces]

    def _unscaled(
        self, kind: AvroType, values: pa.Array, rows: Ints
    ) -> tuple[npt.NDArray[np.uint8], Ints]:
        """Return the bytes of decimals, the highest first, and how many of them say nothing."""
        if values.type == pa.uint64():
            values = values.cast(pa.decimal128(20, 0))
        scale = kind.props.get("scale", 0)
        if kind.logical != "decimal" or values.type.scale != scale:
            raise InvalidSchemaError(
                f"a decimal of scale {values.type.scale} is none of the type {_describe(kind)}"
            )
        number, skipped = unscaled_bytes(values)
        precision = kind.props.get("precision", values.type.precision)
        if isinstance(precision, int) and precision < values.type.precision:
            limit = pa.scalar(Decimal(10) ** (precision - scale), pa.decimal256(76, scale))
            whole = pc.abs(values.cast(pa.decimal256(76, scale)))
            wrong = np.asarray(pc.greater_equal(whole, limit))
            self._fail(rows, wrong, f"a decimal has more than {precision} digits")
        return number, skipped

    def fixed(self, kind: AvroType, field: pa.Field, values: pa.Array, rows: Ints) -> _Part:
        """Return bytes of a size."""
        if not _is_decimal(values.type):
            pieces = values.cast(pa.binary()).cast(pa.large_binary())
            wrong = np.diff(offsets_of(pieces)) != kind.size
            self._fail(rows, wrong, f"it does not have the {kind.size} bytes of {kind.name}")
            return [pieces]
        number, skipped = self._unscaled(kind, values, rows)
        width = number.shape[1]
        self._fail(rows, width - skipped > kind.size, f"it is larger than {kind.name}")
        if kind.size <= width:
            return [from_matrix(np.ascontiguousarray(number[:, width - kind.size :]))]
        sign = np.where(number[:, :1] >= 0x80, 0xFF, 0).astype(np.uint8)
        return [from_matrix(np.hstack([sign] * (kind.size - width) + [number]))]

    def enum(self, kind: AvroType, field: pa.Field, values: pa.Array, rows: Ints) -> _Part:
        """Return the places of symbols."""
        found = pc.index_in(values.cast(pa.string()), pa.array(kind.symbols, pa.string()))
        self._fail(rows, np.asarray(found.is_null()), f"it is no symbol of {kind.name}")
        return [varints(_to_int64(found.fill_null(0)))]

    def record(self, kind: AvroType, field: pa.Field, values: pa.Array, rows: Ints) -> _Part:
        """Return the fields of structs, in the order of the type."""
        columns = {
            scrub_name(one.name, self._options): (one, at)
            for at, one in enumerate(field.type.fields)
        }
        unknown = sorted(columns.keys() - {one.name for one in kind.fields})
        if unknown and not self._drops_columns:
            raise InvalidSchemaError(f"{kind.name} has no field {unknown[0]!r}")
        parts: _Part = []
        for one in kind.fields:
            if one.name in columns:
                own, at = columns[one.name]
                parts += self._encode(one.type, own, values.field(at), rows)
            else:
                parts.append(repeat(self._default(kind, one), len(values)))
        return parts or [repeat(b"", len(values))]

    def _default(self, kind: AvroType, one: AvroField) -> bytes:
        """Return the bytes of a field's default, for rows that do not have the field."""
        if one.default is MISSING:
            raise InvalidSchemaError(
                f"the rows have no column {one.name!r}, and {kind.name} no default for it"
            )
        schema = to_connect(AvroType("record", "default", fields=(one,)), AvroOptions())
        struct = to_arrow_field(schema)
        inner = struct.type.field(0)
        value = None
        if one.default is not None:
            found = schema["fields"][0].get("default")
            if found is None:
                found = _branch_default(one, schema["fields"][0])
            value = make_reader(schema["fields"][0], JsonForm(defaults=False))(found)
        bare = inner.remove_metadata()
        nested = AvroEncoder(one.type, bare, AvroOptions())
        pieces = join(nested._encode(one.type, bare, pa.array([value], inner.type), np.arange(1)))
        return bytes(pieces[0].as_py())

    def _union(self, kind: AvroType, field: pa.Field, values: pa.Array, rows: Ints) -> _Part:
        kinds = [one.kind for one in kind.branches]
        null = kinds.index("null") if "null" in kinds else -1
        count = len(values)
        if _is_union(field) and kind.optional is None and len(kind.branches) > 1:
            chosen, of_branches = self._choices(kind, field, values, rows, null)
        else:
            at, branch = self._fitting(kind, field)
            present = np.asarray(values.is_valid())
            chosen = np.where(present, at, null)
            of_branches = [(present, self._part(branch, field, values, rows, present))]
        missing = chosen < 0
        self._fail(rows, missing, f"{field.name!r} is null, and its schema is not optional")
        number = varints(np.maximum(chosen, 0).astype(np.int64))
        whole = [one[0] for present, one in of_branches if present.all()]
        if len(of_branches) == 1 and whole:
            return [number, *of_branches[0][1]]
        parts = [spread(join(part), present) for present, part in of_branches if count]
        return [number, *parts]

    def _part(
        self, kind: AvroType, field: pa.Field, values: pa.Array, rows: Ints, present: Bools
    ) -> _Part:
        if present.all():
            return self._present(kind, field, values, rows)
        kept = values.filter(pa.array(present))
        return self._present(kind, field, kept, rows[present])

    def _fitting(self, kind: AvroType, field: pa.Field) -> tuple[int, AvroType]:
        """Return the type of a union that values of a field have."""
        empty, nothing = pa.array([], field.type), np.arange(0)
        reasons = []
        for at, one in enumerate(kind.branches):
            if one.kind == "null":
                continue
            try:
                self._present(one, field, empty, nothing)
            except InvalidSchemaError as error:
                reasons.append(str(error))
            else:
                return at, one
        raise InvalidSchemaError(reasons[0] if reasons else f"{field.name!r} can only be null")

    def _choices(
        self, kind: AvroType, field: pa.Field, values: pa.Array, rows: Ints, null: int
    ) -> tuple[Ints, list[tuple[Bools, _Part]]]:
        """Return the type of each value of a union, and the bytes by type: the first field of the
        struct that is not null says it.
        """
        chosen = np.full(len(values), null)
        free = np.asarray(values.is_valid())
        found = []
        branches = [(at, one) for at, one in enumerate(kind.branches) if one.kind != "null"]
        fields = list(field.type.fields)
        if len(fields) != len(branches):
            raise _mismatch(kind, field)
        for place, (at, one) in enumerate(branches):
            column = pc.struct_field(values, place)
            present = free & np.asarray(column.is_valid())
            free &= ~present
            chosen[present] = at
            found.append((present, self._part(one, fields[place], column, rows, present)))
        return chosen, found

    def array(self, kind: AvroType, field: pa.Field, values: pa.Array, rows: Ints) -> _Part:
        """Return lists, or maps as lists of their entries."""
        item = kind.items
        assert item is not None  # noqa: S101 - the parser gives it
        if pa.types.is_map(field.type):
            if not is_map_entry(item):
                raise _mismatch(kind, field)
            offsets, keys, values_of = _entries(values)
            owners = np.repeat(rows, np.diff(offsets))
            parts = [
                *self._encode(item.fields[0].type, field.type.key_field, keys, owners),
                *self._encode(item.fields[1].type, field.type.item_field, values_of, owners),
            ]
            return _blocks(parts, offsets)
        if pa.types.is_fixed_size_list(field.type) or pa.types.is_large_list(field.type):
            values = values.cast(pa.list_(field.type.value_field))
        offsets = np.asarray(values.offsets).astype(np.int64)
        items = values.values.slice(offsets[0], offsets[-1] - offsets[0])
        offsets = offsets - offsets[0]
        owners = np.repeat(rows, np.diff(offsets))
        return _blocks(self._encode(item, field.type.value_field, items, owners), offsets)

    def map(self, kind: AvroType, field: pa.Field, values: pa.Array, rows: Ints) -> _Part:
        """Return maps whose keys are texts."""
        if not _is_text(field.type.key_type):
            raise _mismatch(kind, field)
        item = kind.items
        assert item is not None  # noqa: S101 - the parser gives it
        offsets, keys, values_of = _entries(values)
        owners = np.repeat(rows, np.diff(offsets))
        texts = _with_length(keys.cast(pa.large_string()).cast(pa.large_binary()))
        parts = self._encode(item, field.type.item_field, values_of, owners)
        return _blocks([*texts, *parts], offsets)


def _blocks(parts: _Part, offsets: Ints) -> _Part:
    """Return lists of items: their number, the items, and 0; only 0 for none."""
    counts = np.diff(offsets)
    filled = counts > 0
    number = spread(varints(counts[filled]), filled)
    return [number, regroup(join(parts), offsets), repeat(b"\0", len(counts))]


def _entries(values: pa.Array) -> tuple[Ints, pa.Array, pa.Array]:
    offsets = np.asarray(values.offsets).astype(np.int64)
    begin, count = int(offsets[0]), int(offsets[-1] - offsets[0])
    keys, items = values.keys.slice(begin, count), values.items.slice(begin, count)
    return offsets - begin, keys, items


def _with_length(pieces: pa.Array) -> _Part:
    return [varints(np.diff(offsets_of(pieces))), pieces]


def _floats(kind: AvroType, field: pa.Field, values: pa.Array) -> pa.Array:
    wide = kind.kind == "double"
    if not pa.types.is_floating(field.type) or (not wide and field.type == pa.float64()):
        raise _mismatch(kind, field)
    numbers = values.cast(pa.float64() if wide else pa.float32()).to_numpy(zero_copy_only=False)
    data = np.ascontiguousarray(numbers, "<f8" if wide else "<f4")
    return from_matrix(data.view(np.uint8).reshape(len(data), data.itemsize))


def _to_int64(values: pa.Array) -> Ints:
    found: Ints = values.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return found


def _branch_default(one: AvroField, schema: Mapping[str, Any]) -> Any:
    """Return the default of a union, which is one of its first type."""
    plain = AvroField(one.name, one.type.branches[0], None, one.default, None)
    record = to_connect(AvroType("record", "default", fields=(plain,)), AvroOptions())
    found = record["fields"][0].get("default")
    return {schema["fields"][0]["field"]: found} if schema.get("name") == UNION else found


def _is_union(field: pa.Field) -> bool:
    name = (field.metadata or {}).get(b"connect.name")
    return pa.types.is_struct(field.type) and name == json.dumps(UNION).encode()


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or kind == pa.string_view()
    )


def _is_binary(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
        or kind == pa.binary_view()
    )


def _is_decimal(kind: pa.DataType) -> bool:
    return bool(pa.types.is_decimal(kind) or kind == pa.uint64())


def _is_list(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


def _describe(kind: AvroType) -> str:
    return " ".join(one for one in (kind.kind, kind.name, kind.logical) if one)


def _mismatch(kind: AvroType, field: pa.Field) -> InvalidSchemaError:
    return InvalidSchemaError(
        f"the column {field.name!r} of type {field.type} is none of the type {_describe(kind)}"
    )


_Write = Callable[[AvroEncoder, AvroType, pa.Field, pa.Array, Ints], _Part]
_WRITERS: Final[Mapping[str, tuple[Callable[[pa.DataType], bool], _Write]]] = {
    "null": (lambda _kind: True, AvroEncoder.nothing),
    "int": (lambda _kind: True, AvroEncoder.integers),
    "long": (lambda _kind: True, AvroEncoder.integers),
    "float": (pa.types.is_floating, AvroEncoder.floats),
    "double": (pa.types.is_floating, AvroEncoder.floats),
    "boolean": (pa.types.is_boolean, AvroEncoder.booleans),
    "string": (_is_text, AvroEncoder.texts),
    "bytes": (lambda kind: _is_binary(kind) or _is_decimal(kind), AvroEncoder.bytes_of),
    "fixed": (lambda kind: _is_binary(kind) or _is_decimal(kind), AvroEncoder.fixed),
    "enum": (_is_text, AvroEncoder.enum),
    "record": (pa.types.is_struct, AvroEncoder.record),
    "array": (lambda kind: _is_list(kind) or pa.types.is_map(kind), AvroEncoder.array),
    "map": (pa.types.is_map, AvroEncoder.map),
}
"""Of each type, which columns are of it, and what writes them."""
