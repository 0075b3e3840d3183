"""Protobuf's bytes to Arrow columns, all messages at once. Pure.

A message is fields with their numbers, in any order. In each round the next field of every message
is read: those of one number together, which are most. Numbers, and where texts lie, are
read first; columns are made of them when all messages are at their end.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from penstock_converters.byte_reader import (
    CHOICE,
    RANGE,
    TOO_MANY,
    TWICE,
    WIRE_TYPE,
    ByteReader,
    Cursor,
    zigzag,
)
from penstock_converters.connect_schema import DATE, DECIMAL, TIMESTAMP, ConnectSchema
from penstock_converters.protobuf.connect import LOGICAL, ProtoOptions, is_wrapper, union_name
from penstock_converters.protobuf.types import ProtoEnum, ProtoField, ProtoMessage
from penstock_converters.ragged import Bools, Bytes, Ints, from_unscaled, slices, to_offsets

_MAX_ROUNDS: Final = 50_000
"""Fields of messages that are read one after the other, for all messages together."""

_VARINT, _EIGHT, _LENGTH, _FOUR = 0, 1, 2, 5
_WIRE: Final[Mapping[str, int]] = {
    "double": _EIGHT, "fixed64": _EIGHT, "sfixed64": _EIGHT, "float": _FOUR, "fixed32": _FOUR,
    "sfixed32": _FOUR, "string": _LENGTH, "bytes": _LENGTH, "message": _LENGTH,
}  # fmt: skip
_UNKNOWN: Final = 1 << 40
"""Added to the wire type of fields that the schema does not have."""


@dataclass(slots=True)
class _Slot:
    """What was read of one field.

    Attributes:
        raw: Its numbers, of a message each; of texts and messages where they begin.
        size: The lengths of those.
        present: Which messages have it.
        owners: Of a list, the messages whose items were read, in their order; `items` are these.
    """

    field: ProtoField
    raw: Any
    size: Ints
    present: Bools
    owners: list[Ints] = dataclasses.field(default_factory=list)
    items: list[tuple[Any, Ints]] = dataclasses.field(default_factory=list)

    @property
    def wire(self) -> int:
        """How its values are written."""
        return _WIRE.get(self.field.kind, _VARINT)


class ProtoReader(ByteReader):
    """Reads messages of a buffer, which is padded."""

    def __init__(self, data: Bytes, count: int, options: ProtoOptions) -> None:
        super().__init__(data, count)
        self._options = options
        self._rounds = 0

    def root(
        self, message: ProtoMessage, schema: ConnectSchema, column: pa.DataType, cursor: Cursor
    ) -> pa.Array:
        """Return the values of whole messages."""
        if is_wrapper(message):
            return self._wrapped(message, schema, column, cursor)
        return self._structs(message, schema, column, cursor)

    def _wrapped(
        self, message: ProtoMessage, schema: ConnectSchema, column: pa.DataType, cursor: Cursor
    ) -> pa.Array:
        inner = {"type": "struct", "fields": [dict(schema) | {"field": "value", "optional": False}]}
        struct = pa.struct([pa.field("value", column, nullable=False)])
        return self._structs(message, inner, struct, cursor).field(0)

    def _structs(
        self, message: ProtoMessage, schema: ConnectSchema, column: pa.DataType, cursor: Cursor
    ) -> pa.Array:
        slots = self._scan(message, cursor)
        fields = [column.field(at) for at in range(column.num_fields)]
        values = [
            self._column(slots, message, one, own.type, cursor)
            for one, own in zip(schema["fields"], fields, strict=True)
        ]
        if not values:
            return pa.array([{}] * len(cursor.at), column)
        return pa.StructArray.from_arrays(values, fields=fields)

    def _scan(self, message: ProtoMessage, cursor: Cursor) -> dict[str, _Slot]:
        """Read all fields of messages."""
        count = len(cursor.at)
        starts = cursor.at.copy()
        by_number = {
            one.number: _Slot(one, np.zeros(count, np.uint64), np.zeros(count, np.int64),
                              np.zeros(count, bool))
            for one in message.fields
        }  # fmt: skip
        for slot in by_number.values():
            slot.raw += starts.astype(np.uint64) if slot.wire == _LENGTH else np.uint64(0)
        rivals: dict[tuple[str, int], list[_Slot]] = {}
        for slot in by_number.values():
            if slot.field.oneof is not None:
                rivals.setdefault(slot.field.oneof, []).append(slot)
        known = np.array(sorted(by_number), np.int64)
        (active,) = np.nonzero(cursor.at < cursor.end)
        while len(active):
            part = cursor.take(active)
            self._rounds += 1
            if self._rounds > _MAX_ROUNDS:
                self.fail(part, np.ones(len(active), bool), TOO_MANY)
            tags = self.unsigned(part).astype(np.int64)
            numbers, wires = tags >> 3, tags & 7
            self.fail(part, (numbers < 1) | (numbers >= 1 << 29), WIRE_TYPE)
            keys = np.where(np.isin(numbers, known), tags, wires + _UNKNOWN)
            for key in np.unique(keys).tolist():
                (places,) = np.nonzero(keys == key)
                sub = part.take(places)
                if key >= _UNKNOWN:
                    self._skip(key - _UNKNOWN, sub)
                else:
                    slot = by_number[key >> 3]
                    self._read(slot, key & 7, sub, active[places])
                    for other in rivals.get(slot.field.oneof or ("", -1), ()):
                        if other is not slot:
                            other.present[active[places]] = False
                part.at[places] = sub.at
            cursor.at[active] = part.at
            goes_on = (part.at < part.end) & (self.reasons[part.rows] == 0)
            active = active[goes_on]
        return {one.field.name: one for one in by_number.values()}

    def _skip(self, wire: int, cursor: Cursor) -> None:
        if wire == _VARINT:
            self.unsigned(cursor)
        elif wire == _LENGTH:
            cursor.at += self._size(cursor)
        elif wire in (_FOUR, _EIGHT):
            sizes = np.full(len(cursor.at), 4 if wire == _FOUR else 8)
            self.check_room(cursor, sizes)
            cursor.at += sizes
        else:
            self.fail(cursor, np.ones(len(cursor.at), bool), WIRE_TYPE)

    def _size(self, cursor: Cursor) -> Ints:
        sizes = self.unsigned(cursor).view(np.int64)
        self.check_room(cursor, sizes)
        return sizes

    def _read(self, slot: _Slot, wire: int, cursor: Cursor, owners: Ints) -> None:
        """Read a field of messages, `owners`."""
        is_list = slot.field.label == "repeated"
        if is_list and wire == _LENGTH and slot.wire != _LENGTH:
            self._packed(slot, cursor, owners)
            return
        if wire != slot.wire:
            self.fail(cursor, np.ones(len(owners), bool), WIRE_TYPE)
            return
        size = np.zeros(len(owners), np.int64)
        if wire == _LENGTH:
            size = self._size(cursor)
            raw = cursor.at.astype(np.uint64)
            cursor.at += size
        else:
            raw = self._number(wire, cursor)
        if is_list:
            slot.owners.append(owners)
            slot.items.append((raw, size))
            return
        if slot.field.kind == "message":
            self.fail(cursor, slot.present[owners], TWICE)
        slot.raw[owners], slot.size[owners] = raw, size
        slot.present[owners] = True

    def _number(self, wire: int, cursor: Cursor) -> Any:
        if wire == _VARINT:
            return self.unsigned(cursor)
        if wire == _FOUR:
            return self.fixed(cursor, self.words4, 4).astype(np.uint64)
        return self.fixed(cursor, self.words8, 8)

    def _packed(self, slot: _Slot, cursor: Cursor, owners: Ints) -> None:
        """Read numbers that follow each other."""
        size = self._size(cursor)
        begins = cursor.at.copy()
        cursor.at += size
        offsets = to_offsets(size)
        places = np.repeat(begins - offsets[:-1], size) + np.arange(offsets[-1])
        whose = np.repeat(np.arange(len(size)), size)
        if slot.wire == _VARINT:
            last = self.data[places] < 0x80
            ends = np.append(True, last[:-1]) if len(last) else last
            first = ends | np.append(True, whose[1:] != whose[:-1])[: len(ends)]
        else:
            width = 4 if slot.wire == _FOUR else 8
            self.fail(cursor, size % width > 0, WIRE_TYPE)
            first = (np.arange(offsets[-1]) - np.repeat(offsets[:-1], size)) % width == 0
        starts, mine = places[first], whose[first]
        inner = Cursor(starts.copy(), (begins + size)[mine], cursor.rows[mine])
        slot.owners.append(owners[mine])
        slot.items.append((self._number(slot.wire, inner), np.zeros(len(starts), np.int64)))
        failed = self.reasons[cursor.rows] > 0
        cursor.at[failed] = cursor.end[failed]

    def _column(
        self,
        slots: Mapping[str, _Slot],
        message: ProtoMessage,
        schema: ConnectSchema,
        column: pa.DataType,
        cursor: Cursor,
    ) -> pa.Array:
        """Return the column of a field, or of a oneof."""
        name = schema["field"]
        oneofs = [union_name(one, at, self._options) for at, one in enumerate(message.oneofs)]
        if name not in oneofs or (name in slots and slots[name].field.oneof is None):
            return self._field(slots[name], schema, column, cursor, message)
        fields = [column.field(at) for at in range(column.num_fields)]
        parts = [slots[one["field"]] for one in schema["fields"]]
        values = [
            self._field(slot, one, own.type, cursor, message)
            for slot, one, own in zip(parts, schema["fields"], fields, strict=True)
        ]
        none = ~np.logical_or.reduce([slot.present for slot in parts])
        return pa.StructArray.from_arrays(values, fields=fields, mask=pa.array(none))

    def _field(
        self,
        slot: _Slot,
        schema: ConnectSchema,
        column: pa.DataType,
        cursor: Cursor,
        message: ProtoMessage,
    ) -> pa.Array:
        one = slot.field
        if one.label == "repeated":
            return self._list(slot, schema, column, cursor)
        if one.kind == "message":
            (places,) = np.nonzero(slot.present)
            begins = slot.raw[places].astype(np.int64)
            inner = Cursor(begins, begins + slot.size[places], cursor.rows[places])
            return _spread(self._message(one, schema, column, inner), slot.present)
        values = self._scalars(one, column, slot.raw, slot.size, cursor)
        is_implied = one.oneof is None and (
            one.label == "required" or (message.is_proto3 and one.label != "optional")
        )
        if is_implied or slot.present.all():
            return values
        return values.take(pa.array(np.arange(len(values)), mask=~slot.present))

    def _list(
        self, slot: _Slot, schema: ConnectSchema, column: pa.DataType, cursor: Cursor
    ) -> pa.Array:
        owner = np.concatenate(slot.owners) if slot.owners else np.zeros(0, np.int64)
        order = np.argsort(owner, kind="stable")
        owner = owner[order]
        empty = [np.zeros(0, np.uint64)], [np.zeros(0, np.int64)]
        raws, sizes = zip(*slot.items, strict=True) if slot.items else empty
        raw, size = np.concatenate(raws)[order], np.concatenate(sizes)[order]
        counts = np.bincount(owner, minlength=len(cursor.at))
        offsets = pa.array(to_offsets(counts).astype(np.int32))
        begins = raw.astype(np.int64) if slot.wire == _LENGTH else size
        inner = Cursor(begins, begins + size, cursor.rows[owner])
        if pa.types.is_map(column):
            return self._map(slot.field, schema, column, inner, offsets)
        if slot.field.kind == "message":
            items = self._message(slot.field, schema["items"], column.value_type, inner)
        else:
            items = self._scalars(slot.field, column.value_type, raw, size, inner)
        return pa.ListArray.from_arrays(offsets, items, type=column)

    def _map(
        self,
        one: ProtoField,
        schema: ConnectSchema,
        column: pa.DataType,
        cursor: Cursor,
        offsets: pa.Array,
    ) -> pa.Array:
        assert isinstance(one.type, ProtoMessage)  # noqa: S101 - the schema says it is a map
        parts = [
            dict(schema["keys"]) | {"field": "key"},
            dict(schema["values"]) | {"field": "value"},
        ]
        kinds = pa.struct([column.key_field.with_nullable(True), column.item_field])
        entry = self._structs(one.type, {"fields": parts}, kinds, cursor)
        return pa.MapArray.from_arrays(offsets, entry.field(0), entry.field(1), type=column)

    def _message(
        self, one: ProtoField, schema: ConnectSchema, column: pa.DataType, cursor: Cursor
    ) -> pa.Array:
        assert isinstance(one.type, ProtoMessage)  # noqa: S101 - its kind says so
        if one.type.name in LOGICAL:
            return self._logical(one.type, column, cursor)
        if self._options.wrappers and is_wrapper(one.type):
            return self._wrapped(one.type, schema, column, cursor)
        return self._structs(one.type, schema, column, cursor)

    def _logical(self, message: ProtoMessage, column: pa.DataType, cursor: Cursor) -> pa.Array:
        """Return dates, times and decimals of the messages that stand for them."""
        slots = self._scan(message, cursor)
        logical = LOGICAL[message.name]
        if logical == DECIMAL:
            number = slots["value"]
            scale = slots["scale"].raw.view(np.int64)
            self.fail(cursor, scale != column.scale, RANGE)
            begins = number.raw.astype(np.int64)
            values, wrong = from_unscaled(self.data, begins, number.size, column)
            self.fail(cursor, wrong, RANGE)
            return values
        parts = {name: one.raw.view(np.int64) for name, one in slots.items()}
        if logical == DATE:
            days, wrong = _days(parts["year"], parts["month"], parts["day"])
            self.fail(cursor, wrong, RANGE)
            return pa.array(days.astype(np.int32)).view(column)
        micros, rest = np.divmod(parts["nanos"], 1000)
        wrong = (parts["nanos"] < 0) | (parts["nanos"] > 999_999_999) | (rest > 0)
        if logical == TIMESTAMP:
            seconds = parts["seconds"]
            wrong |= np.abs(seconds) > 1 << 42
            found = np.where(wrong, 0, seconds) * 1_000_000 + micros
        else:
            ranges = (("hours", 23), ("minutes", 59), ("seconds", 59))
            for name, most in ranges:
                wrong |= (parts[name] < 0) | (parts[name] > most)
            whole = (parts["hours"] * 60 + parts["minutes"]) * 60 + parts["seconds"]
            found = np.where(wrong, 0, whole * 1_000_000 + micros)
        self.fail(cursor, wrong, RANGE)
        return pa.array(np.where(wrong, 0, found)).view(column)

    def _scalars(
        self, one: ProtoField, column: pa.DataType, raw: Any, size: Ints, cursor: Cursor
    ) -> pa.Array:
        """Return values of numbers, or of where texts lie."""
        if one.kind in ("string", "bytes"):
            begins = raw.astype(np.int64)
            pieces = slices(self.data, begins, begins + size)
            return pieces if one.kind == "bytes" else self.texts_of(pieces, cursor)
        if one.kind == "bool":
            return pa.array(raw != 0)
        if one.kind in ("float", "double"):
            plain = raw.astype(np.uint32).view("<f4") if one.kind == "float" else raw.view("<f8")
            return pa.array(plain)
        numbers = zigzag(raw) if one.kind.startswith("sint") else raw.view(np.int64)
        if one.kind == "sfixed32":
            numbers = raw.astype(np.uint32).view(np.int32).astype(np.int64)
        if isinstance(one.type, ProtoEnum):
            return self._symbols(one.type, column, numbers, cursor)
        low, high = -(1 << (column.bit_width - 1)), (1 << (column.bit_width - 1)) - 1
        if one.kind in ("uint32", "fixed32"):
            low, high = 0, (1 << 32) - 1
        elif one.kind in ("uint64", "fixed64"):
            low = 0
        wrong = (numbers < low) | (numbers > high)
        self.fail(cursor, wrong, RANGE)
        return pa.array(np.where(wrong, 0, numbers).astype(column.to_pandas_dtype()))

    def _symbols(
        self, kind: ProtoEnum, column: pa.DataType, numbers: Ints, cursor: Cursor
    ) -> pa.Array:
        names = [name for name, _ in kind.values]
        order = sorted(range(len(names)), key=lambda at: kind.values[at][1])
        known = np.array([kind.values[at][1] for at in order], np.int64)
        places = np.minimum(np.searchsorted(known, numbers), len(known) - 1)
        wrong = known[places] != numbers
        self.fail(cursor, wrong, CHOICE)
        if pa.types.is_integer(column):
            return pa.array(np.where(wrong, 0, numbers).astype(np.int32))
        return pa.array([names[at] for at in order], pa.string()).take(pa.array(places))


def _spread(values: pa.Array, present: Bools) -> pa.Array:
    if present.all():
        return values
    return values.take(pa.array(np.cumsum(present) - 1, mask=~present))


def _days(year: Ints, month: Ints, day: Ints) -> tuple[Ints, Bools]:
    """Return days since 1970, and which are no dates."""
    wrong = (year < 1) | (year > 9999) | (month < 1) | (month > 12) | (day < 1)
    months = np.where(wrong, 0, (year - 1970) * 12 + month - 1)
    begins = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    ends = (months + 1).astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    wrong |= day > ends - begins
    return np.where(wrong, 0, begins + day - 1), wrong


def finer(kind: pa.DataType) -> pa.DataType:
    """Return a type whose times are of microseconds: those of Protobuf's messages may be."""
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", "UTC")
    if pa.types.is_time(kind):
        return pa.time64("us")
    if pa.types.is_struct(kind):
        return pa.struct([one.with_type(finer(one.type)) for one in kind.fields])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(finer(kind.value_type)))
    if pa.types.is_map(kind):
        item = kind.item_field.with_type(finer(kind.item_type))
        return pa.map_(kind.key_field, item)
    return kind
