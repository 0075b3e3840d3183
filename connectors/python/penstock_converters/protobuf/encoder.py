"""Arrow columns to Protobuf's bytes, all rows at once. Pure.

Each field gives pieces for the rows that have it; what is absent has no bytes. Fields are written
in the order of their numbers. Values that are the default of their type are left out where Protobuf
does not tell them from absent ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock_converters.connect_schema import DATE, DECIMAL, TIMESTAMP, InvalidSchemaError
from penstock_converters.protobuf.connect import (
    LOGICAL,
    UNION,
    ProtoOptions,
    is_wrapper,
    scrubbed,
)
from penstock_converters.protobuf.types import ProtoEnum, ProtoField, ProtoMessage
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
    unsigned_varints,
    varints,
    without_first,
)

_VARINT, _EIGHT, _LENGTH, _FOUR = 0, 1, 2, 5
_FIXED: Final[Mapping[str, str]] = {
    "double": "<f8", "fixed64": "<u8", "sfixed64": "<i8", "float": "<f4", "fixed32": "<u4",
    "sfixed32": "<i4",
}  # fmt: skip
_RANGES: Final[Mapping[str, tuple[int, int]]] = {
    "uint32": (0, (1 << 32) - 1), "fixed32": (0, (1 << 32) - 1), "uint64": (0, (1 << 63) - 1),
    "fixed64": (0, (1 << 63) - 1), "int32": (-(1 << 31), (1 << 31) - 1),
    "sint32": (-(1 << 31), (1 << 31) - 1), "sfixed32": (-(1 << 31), (1 << 31) - 1),
}  # fmt: skip


class ProtoEncoder:
    """Writes values of one Arrow field as messages.

    Args:
        message: The message.
        field: The values' field, with Kafka Connect's schema fields in its metadata.
        options: Confluent's keys.
        drops_columns: Whether columns that the message lacks are left out; else they are an error.

    Raises:
        InvalidSchemaError: values of the field are no such messages.
    """

    def __init__(
        self, message: ProtoMessage, field: pa.Field, options: ProtoOptions, *, drops_columns: bool
    ) -> None:
        self._root, self._options, self._drops_columns = message, options, drops_columns
        if not pa.types.is_struct(field.type):
            raise InvalidSchemaError(f"a value of type {field.type} is no message")
        self.encode(pa.array([], field.type))  # finds what does not fit

    def encode(self, values: pa.Array) -> tuple[pa.Array, dict[int, str]]:
        """Return the bytes of values that are not null, and why some have none: theirs mean
        nothing.
        """
        self._failed: dict[int, str] = {}
        return self._message(self._root, values, np.arange(len(values))), self._failed

    def _fail(self, rows: Ints, wrong: Bools, why: str) -> None:
        for row in rows[wrong].tolist():
            self._failed.setdefault(row, why)

    def _message(self, message: ProtoMessage, values: pa.Array, rows: Ints) -> pa.Array:
        """Return the bytes of structs that are not null."""
        fields = {one.name: one for one in message.fields}
        parts: list[tuple[int, pa.Array]] = []
        for at, own in enumerate(values.type.fields):
            column = values.field(at)
            if _is_union(own):
                present = np.asarray(column.is_valid())
                for place, inner in enumerate(own.type.fields):
                    child = pc.struct_field(column, place)
                    present_now = present & np.asarray(child.is_valid())
                    present &= ~present_now  # the first one that is there
                    found = self._known(fields, inner.name, message)
                    if found is not None:
                        kept = child.filter(pa.array(present_now))
                        pieces = self._tagged(found, inner, kept, rows[present_now])
                        parts.append((found.number, spread(pieces, present_now)))
                continue
            found = self._known(fields, own.name, message)
            if found is not None:
                parts.append((found.number, self._field(found, own, column, rows, message)))
        ordered = [pieces for _, pieces in sorted(parts, key=lambda one: one[0])]
        return join(ordered) if ordered else repeat(b"", len(values))

    def _known(
        self, fields: Mapping[str, ProtoField], name: str, message: ProtoMessage
    ) -> ProtoField | None:
        found = fields.get(scrubbed(name, self._options))
        if found is None and not self._drops_columns:
            raise InvalidSchemaError(f"{message.name} has no field {name!r}")
        return found

    def _field(
        self, one: ProtoField, own: pa.Field, values: pa.Array, rows: Ints, message: ProtoMessage
    ) -> pa.Array:
        """Return a field of all rows; nothing for those without it."""
        present = np.asarray(values.is_valid())
        if one.label == "repeated":
            kept = values.drop_null() if values.null_count else values
            return spread(self._list(one, own, kept, rows[present]), present)
        if one.label == "required":
            self._fail(rows, ~present, f"{own.name!r} is null, and required")
        is_implied = message.is_proto3 and one.label != "optional" and one.oneof is None
        if is_implied and one.kind != "message":
            present &= ~self._are_defaults(one, values)
        if present.all():
            return self._tagged(one, own, values, rows)
        kept = values.filter(pa.array(present))
        return spread(self._tagged(one, own, kept, rows[present]), present)

    def _are_defaults(self, one: ProtoField, values: pa.Array) -> Bools:
        """Return which values are the default of their type, which is not written."""
        kind = values.type
        if isinstance(one.type, ProtoEnum) and _is_text(kind):
            zero = next((name for name, number in one.type.values if number == 0), None)
            found = pc.equal(values, pa.scalar(zero, kind)) if zero is not None else None
        elif _is_text(kind) or _is_binary(kind):
            found = pc.equal(pc.binary_length(values), 0)
        elif pa.types.is_floating(kind):  # a negative zero is not the default
            numbers = values.fill_null(1).to_numpy(zero_copy_only=False)
            zeros: Bools = (numbers == 0) & ~np.signbit(numbers)
            return zeros
        elif pa.types.is_boolean(kind):
            found = pc.invert(values)
        else:
            found = pc.equal(values, pa.scalar(0, kind))
        if found is None:
            return np.zeros(len(values), bool)
        return np.asarray(found.fill_null(False))

    def _tagged(self, one: ProtoField, own: pa.Field, values: pa.Array, rows: Ints) -> pa.Array:
        """Return fields with their number."""
        wire, pieces = self._values(one, own, values, rows)
        return join([_tag(one.number, wire, len(values)), *_sized(wire, pieces)])

    def _list(self, one: ProtoField, own: pa.Field, values: pa.Array, rows: Ints) -> pa.Array:
        if pa.types.is_map(own.type):
            return self._map(one, own, values, rows)
        if not pa.types.is_list(own.type):
            if not (pa.types.is_large_list(own.type) or pa.types.is_fixed_size_list(own.type)):
                raise _mismatch(one, own)
            values = values.cast(pa.list_(own.type.value_field))
        offsets = np.asarray(values.offsets).astype(np.int64)
        items = values.values.slice(offsets[0], offsets[-1] - offsets[0])
        offsets = offsets - offsets[0]
        owners = np.repeat(rows, np.diff(offsets))
        if items.null_count:
            null = np.asarray(items.is_null())
            self._fail(owners, null, f"{own.name!r} has an item that is null: Protobuf has none")
            offsets = np.append(0, np.cumsum(~null))[offsets]
            items, owners = items.drop_null(), owners[~null]
        wire, pieces = self._values(one, own.type.value_field, items, owners)
        if wire == _LENGTH or one.packed is False:
            tagged = join([_tag(one.number, wire, len(items)), *_sized(wire, pieces)])
            return regroup(tagged, offsets)
        whole = regroup(pieces, offsets)
        filled = np.diff(offsets) > 0
        kept = whole.filter(pa.array(filled))
        packed = join([_tag(one.number, _LENGTH, len(kept)), *_sized(_LENGTH, kept)])
        return spread(packed, filled)

    def _map(self, one: ProtoField, own: pa.Field, values: pa.Array, rows: Ints) -> pa.Array:
        if not isinstance(one.type, ProtoMessage) or not one.type.is_map_entry:
            raise _mismatch(one, own)
        offsets = np.asarray(values.offsets).astype(np.int64)
        begin, count = int(offsets[0]), int(offsets[-1] - offsets[0])
        columns = [values.keys.slice(begin, count), values.items.slice(begin, count)]
        names = [own.type.key_field.with_name("key"), own.type.item_field.with_name("value")]
        entries = pa.StructArray.from_arrays(columns, fields=names)
        owners = np.repeat(rows, np.diff(offsets))
        pieces = self._message(one.type, entries, owners)
        tagged = join([_tag(one.number, _LENGTH, count), *_sized(_LENGTH, pieces)])
        return regroup(tagged, offsets - begin)

    def _values(
        self, one: ProtoField, own: pa.Field, values: pa.Array, rows: Ints
    ) -> tuple[int, pa.Array]:
        """Return how values that are not null are written, and their bytes without a length."""
        kind = own.type
        if isinstance(one.type, ProtoMessage):
            return _LENGTH, self._inner(one, one.type, own, values, rows)
        if one.kind == "string" and _is_text(kind):
            return _LENGTH, values.cast(pa.large_string()).cast(pa.large_binary())
        if one.kind == "bytes" and _is_binary(kind):
            return _LENGTH, values.cast(pa.binary()).cast(pa.large_binary())
        if isinstance(one.type, ProtoEnum):
            return _VARINT, unsigned_varints(
                self._numbers_of(one.type, own, values, rows).view(np.uint64)
            )
        if one.kind == "bool" and pa.types.is_boolean(kind):
            flags = values.cast(pa.uint8()).to_numpy(zero_copy_only=False)
            return _VARINT, from_matrix(flags.reshape(-1, 1))
        if one.kind in ("float", "double") and pa.types.is_floating(kind):
            if one.kind == "float" and kind == pa.float64():
                raise _mismatch(one, own)
            wide = values.cast(pa.float64() if one.kind == "double" else pa.float32())
            return self._fixed(one, wide.to_numpy(zero_copy_only=False))
        if not pa.types.is_integer(kind) or one.kind in (
            "string",
            "bytes",
            "bool",
            "float",
            "double",
        ):
            raise _mismatch(one, own)
        return self._integers(one, own, values, rows)

    def _integers(
        self, one: ProtoField, own: pa.Field, values: pa.Array, rows: Ints
    ) -> tuple[int, pa.Array]:
        if own.type == pa.uint64():
            raise _mismatch(one, own)
        numbers = values.cast(pa.int64()).to_numpy(zero_copy_only=False)
        if one.kind in _RANGES:
            low, high = _RANGES[one.kind]
            wrong = (numbers < low) | (numbers > high)
            self._fail(rows, wrong, f"{own.name!r} does not fit into {one.kind}")
        if one.kind in _FIXED:
            return self._fixed(one, numbers)
        if one.kind.startswith("sint"):
            return _VARINT, varints(numbers)
        return _VARINT, unsigned_varints(np.ascontiguousarray(numbers).view(np.uint64))

    @staticmethod
    def _fixed(one: ProtoField, numbers: Any) -> tuple[int, pa.Array]:
        data = np.ascontiguousarray(numbers.astype(_FIXED[one.kind]))
        size = data.itemsize
        wire = _EIGHT if size == 8 else _FOUR
        return wire, from_matrix(data.view(np.uint8).reshape(len(data), size))

    def _numbers_of(self, kind: ProtoEnum, own: pa.Field, values: pa.Array, rows: Ints) -> Ints:
        if pa.types.is_integer(own.type):
            numbers: Ints = values.cast(pa.int64()).to_numpy(zero_copy_only=False)
            known = np.isin(numbers, [number for _, number in kind.values])
            self._fail(rows, ~known, f"{own.name!r} is no number of {kind.name}")
            return numbers
        if not _is_text(own.type):
            raise InvalidSchemaError(f"the column {own.name!r} of type {own.type} is no enum")
        names = pa.array([name for name, _ in kind.values], pa.string())
        found = pc.index_in(values.cast(pa.string()), names)
        self._fail(rows, np.asarray(found.is_null()), f"{own.name!r} is no symbol of {kind.name}")
        numbers = np.array([number for _, number in kind.values], np.int64)
        chosen: Ints = numbers[found.fill_null(0).to_numpy(zero_copy_only=False)]
        return chosen

    def _inner(
        self, one: ProtoField, message: ProtoMessage, own: pa.Field, values: pa.Array, rows: Ints
    ) -> pa.Array:
        if message.name in LOGICAL:
            return self._logical(one, message, own, values, rows)
        if is_wrapper(message) and not pa.types.is_struct(own.type):
            values = pa.StructArray.from_arrays([values], fields=[own.with_name("value")])
            return self._message(message, values, rows)
        if not pa.types.is_struct(own.type):
            raise _mismatch(one, own)
        return self._message(message, values, rows)

    def _logical(
        self, one: ProtoField, message: ProtoMessage, own: pa.Field, values: pa.Array, rows: Ints
    ) -> pa.Array:
        """Return the messages of dates, times and decimals."""
        logical = LOGICAL[message.name]
        if own.type == pa.uint64():
            values = values.cast(pa.decimal128(20, 0))
        kind = values.type
        if logical == DECIMAL and pa.types.is_decimal(kind):
            pieces = without_first(*unscaled_bytes(values))
            parts = [
                pieces.cast(pa.binary()),
                pa.array(np.full(len(values), kind.precision, np.int64)),
                pa.array(np.full(len(values), kind.scale, np.int32)),
            ]
        elif logical == DATE and pa.types.is_date(kind):
            days = values.cast(pa.date32())
            parts = [pc.year(days), pc.month(days), pc.day(days)]
        elif logical == TIMESTAMP and pa.types.is_timestamp(kind):
            nanos, wrong = rescale(_int64(values.view(pa.int64())), kind.unit, "us")
            self._fail(rows, wrong, f"{own.name!r} is finer than microseconds")
            seconds, micros = np.divmod(nanos, 1_000_000)
            parts = [pa.array(seconds), pa.array((micros * 1000).astype(np.int32))]
        elif logical not in (DECIMAL, DATE, TIMESTAMP) and pa.types.is_time(kind):
            width = pa.int32() if pa.types.is_time32(kind) else pa.int64()
            micros, wrong = rescale(_int64(values.view(width)), kind.unit, "us")
            self._fail(rows, wrong, f"{own.name!r} is finer than microseconds")
            seconds, rest = np.divmod(micros, 1_000_000)
            minutes, second = np.divmod(seconds, 60)
            hour, minute = np.divmod(minutes, 60)
            parts = [pa.array(part) for part in (hour, minute, second, rest * 1000)]
        else:
            raise _mismatch(one, own)
        names = [part.name for part in message.fields]
        return self._message(message, pa.StructArray.from_arrays(parts, names=names), rows)


def _tag(number: int, wire: int, count: int) -> pa.Array:
    return repeat(
        bytes(unsigned_varints(np.array([number << 3 | wire], np.uint64))[0].as_py()), count
    )


def _sized(wire: int, pieces: pa.Array) -> list[pa.Array]:
    """Return pieces with their length before them, where they have one."""
    if wire != _LENGTH:
        return [pieces]
    return [unsigned_varints(np.diff(offsets_of(pieces)).view(np.uint64)), pieces]


def _int64(values: pa.Array) -> Ints:
    found: Ints = values.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return found


def _is_union(field: pa.Field) -> bool:
    name = (field.metadata or {}).get(b"connect.name", b"")
    return bool(pa.types.is_struct(field.type) and name.startswith(f'"{UNION}'.encode()))


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


def _mismatch(one: ProtoField, own: pa.Field) -> InvalidSchemaError:
    kind = one.type.name if one.type is not None else one.kind
    return InvalidSchemaError(
        f"the column {own.name!r} of type {own.type} is none of the type {kind}"
    )
