"""Avro's bytes to Arrow columns, all messages at once. Pure.

The messages lie in one buffer, and each has a cursor in it. A type is read for all of them before
the next one: numbers by numpy, texts by Arrow. A message that ends too early, or says what cannot
be, is marked with its reason, and its cursor is set to its end: nothing behind it is read. What a
message can make us do is bounded by its bytes: a length beyond its end is refused before it is
used, an item of a list has at least a byte, and lists of lists have a bound of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import pyarrow as pa

from penstock_converters.avro.schema import AvroField, AvroType
from penstock_converters.byte_reader import (
    CHOICE,
    ITEMS,
    LENGTH,
    NULL_KEY,
    RANGE,
    SHORT,
    TRAILING,
    ByteReader,
    Cursor,
    padded,
    zigzag,
)
from penstock_converters.ragged import Bools, Bytes, Ints, from_unscaled, to_offsets

_MAX_ROUNDS: Final = 100_000
"""Items of lists that are read one after the other, for all messages together."""

_BYTES_A_ROUND: Final = 500
"""A round costs as much as to look for items at so many places of a buffer."""

_MAX_MAP: Final = 4 << 20
"""Bytes of a message whose items are looked for at all places at once."""

_DAY_MS: Final = 86_400_000


class AvroDecoder:
    """Reads values of one type.

    Args:
        kind: Type with which the messages were written.
        column: Arrow type of the values: that of Kafka Connect's schema of `kind`.
    """

    def __init__(self, kind: AvroType, column: pa.DataType) -> None:
        self._kind, self._column = kind, column

    def decode(self, data: Bytes, starts: Ints, ends: Ints) -> tuple[pa.Array, Ints]:
        """Return the values of messages in a buffer, and the reason of each that has none (an index
        of `REASONS`; 0: it has one). The messages are in the order of their bytes.
        """
        reader = _Reader(padded(data), len(starts))
        cursor = Cursor(starts.copy(), ends, np.arange(len(starts)))
        if self._kind.kind == "bytes":  # Confluent's serializer writes them as they are
            lengths = ends - starts
            values = reader.bytes_or_decimal(self._column, cursor, lengths)
        else:
            values = reader.read(self._kind, self._column, cursor)
            reader.fail(cursor, cursor.at < cursor.end, TRAILING)
        return values, reader.reasons


class _Reader(ByteReader):
    """Reads the types of one batch."""

    def __init__(self, data: Bytes, count: int) -> None:
        super().__init__(data, count)
        self._rounds = 0

    def read(self, kind: AvroType, column: pa.DataType, cursor: Cursor) -> pa.Array:
        """Return the next value of each message."""
        return _READERS[kind.kind](self, kind, column, cursor)

    def nulls(self, kind: AvroType, column: pa.DataType, cursor: Cursor) -> pa.Array:
        """Return nulls, which have no bytes."""
        return pa.nulls(len(cursor.at), column)

    def texts(self, kind: AvroType, column: pa.DataType, cursor: Cursor) -> pa.Array:
        """Return texts."""
        return self.texts_of(self.slices(cursor, self._length(cursor)), cursor)

    def floats(self, kind: AvroType, column: pa.DataType, cursor: Cursor) -> pa.Array:
        """Return numbers of four or eight bytes."""
        if kind.kind == "float":
            return pa.array(self.fixed(cursor, self.words4, 4).view("<f4"))
        return pa.array(self.fixed(cursor, self.words8, 8).view("<f8"))

    def booleans(self, kind: AvroType, column: pa.DataType, cursor: Cursor) -> pa.Array:
        """Return booleans."""
        found = self.fixed(cursor, self.data, 1)
        self.fail(cursor, found > 1, CHOICE)
        return pa.array(found == 1)

    def bytes_of(self, kind: AvroType, column: pa.DataType, cursor: Cursor) -> pa.Array:
        """Return bytes, or the decimals that they mean."""
        if kind.kind == "bytes":
            return self.bytes_or_decimal(column, cursor, self._length(cursor))
        sizes = np.full(len(cursor.at), kind.size)
        self.check_room(cursor, sizes)
        return self.bytes_or_decimal(column, cursor, sizes)

    def symbols(self, kind: AvroType, column: pa.DataType, cursor: Cursor) -> pa.Array:
        """Return the symbols of an enum."""
        found = self._choice(cursor, len(kind.symbols))
        return pa.array(kind.symbols or ("",), pa.string()).take(pa.array(found))

    def _numbers(self, cursor: Cursor) -> Ints:
        """Return a whole number of each message."""
        return zigzag(self.unsigned(cursor))

    def integers(self, kind: AvroType, column: pa.DataType, cursor: Cursor) -> pa.Array:
        """Return whole numbers, or the times that they mean."""
        found = self._numbers(cursor)
        if kind.kind == "long":
            plain = pa.array(found)
            return plain if column == pa.int64() else plain.view(column)
        if pa.types.is_time(column):
            low, high = 0, _DAY_MS - 1
        else:
            bits = column.bit_width
            low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
        wrong = (found < low) | (found > high)
        self.fail(cursor, wrong, RANGE)
        width = pa.int32() if pa.types.is_temporal(column) else column
        small = pa.array(np.where(wrong, 0, found).astype(width.to_pandas_dtype()))
        return small.view(column)

    def _choice(self, cursor: Cursor, count: int) -> Ints:
        """Return a number of each message that is below `count`."""
        found = self._numbers(cursor)
        wrong = (found < 0) | (found >= count)
        self.fail(cursor, wrong, CHOICE)
        return np.where(wrong, 0, found)

    def _length(self, cursor: Cursor) -> Ints:
        """Return a number of bytes of each message, that it has."""
        found = self._numbers(cursor)
        self.check_room(cursor, found)
        return found

    def bytes_or_decimal(self, column: pa.DataType, cursor: Cursor, lengths: Ints) -> pa.Array:
        """Return bytes, or the decimals that they mean."""
        if not pa.types.is_decimal(column):
            return self.slices(cursor, lengths)
        begins = cursor.at.copy()
        cursor.at += lengths
        values, wrong = from_unscaled(self.data, begins, lengths, column)
        self.fail(cursor, wrong, RANGE)
        return values

    def record(self, kind: AvroType, column: pa.DataType, cursor: Cursor) -> pa.Array:
        """Return structs."""
        fields = [column.field(at) for at in range(column.num_fields)]
        values = [
            self.read(one.type, field.type, cursor)
            for one, field in zip(kind.fields, fields, strict=True)
        ]
        if not values:
            return pa.array([{}] * len(cursor.at), column)
        return pa.StructArray.from_arrays(values, fields=fields)

    def union(self, kind: AvroType, column: pa.DataType, cursor: Cursor) -> pa.Array:
        """Return values that may be null, or structs with a field of each type."""
        chosen = self._choice(cursor, len(kind.branches))
        if kind.optional is not None or len(kind.branches) == 1:
            number = 0 if len(kind.branches) == 1 else kind.branches.index(kind.optional)
            return self._branch(kind.branches[number], column, cursor, chosen == number)
        values, at = [], 0
        fields = [column.field(at) for at in range(column.num_fields)]
        null = np.zeros(len(chosen), bool)
        for number, branch in enumerate(kind.branches):
            if branch.kind == "null":
                null = chosen == number
                continue
            values.append(self._branch(branch, fields[at].type, cursor, chosen == number))
            at += 1
        return pa.StructArray.from_arrays(values, fields=fields, mask=pa.array(null))

    def _branch(
        self, kind: AvroType, column: pa.DataType, cursor: Cursor, present: Bools
    ) -> pa.Array:
        """Return the values of the messages that have this type; null for the others."""
        if present.all():
            return self.read(kind, column, cursor)
        (places,) = np.nonzero(present)
        if not len(places):
            return pa.nulls(len(present), column)
        part = cursor.take(places)
        values = self.read(kind, column, part)
        cursor.at[places] = part.at
        return values.take(pa.array(np.cumsum(present) - 1, mask=~present))

    def items(self, kind: AvroType, column: pa.DataType, cursor: Cursor) -> pa.Array:
        """Return lists or maps."""
        counts, items, part = self._read_items(kind, column, cursor)
        offsets = pa.array(to_offsets(counts).astype(np.int32))
        if not pa.types.is_map(column):
            return pa.ListArray.from_arrays(offsets, items, type=column)
        keys = items.field(0)
        if keys.null_count:
            self.fail(part, np.asarray(keys.is_null()), NULL_KEY)
            keys = keys.fill_null(_zero(column.key_type))
        return pa.MapArray.from_arrays(offsets, keys, items.field(1), type=column)

    def _read_items(
        self, kind: AvroType, column: pa.DataType, cursor: Cursor
    ) -> tuple[Ints, pa.Array, Cursor]:
        """Return the number of items of each message, all items in order, and whose they are."""
        item, item_column = _item_of(kind, column)
        counts = np.zeros(len(cursor.at), np.int64)
        parts: list[pa.Array] = []
        owners: list[Ints] = []
        places = np.arange(len(cursor.at))
        while len(places):
            part = cursor.take(places)
            left = self._block(part, item.min_size)
            cursor.at[places] = part.at
            places, left = places[left > 0], left[left > 0]
            counts[places] += left
            self._read_block(item, item_column, cursor, places.copy(), left, parts, owners)
            places = places[self.reasons[cursor.rows[places]] == 0]
        if not parts:
            return counts, pa.nulls(0, item_column), cursor.take(places)
        owner = np.concatenate(owners)
        values = parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
        if len(parts) > 1:
            order = np.argsort(owner, kind="stable")
            owner, values = owner[order], values.take(pa.array(order))
        return np.bincount(owner, minlength=len(counts)), values, cursor.take(owner)

    def _block(self, part: Cursor, item_size: int) -> Ints:
        """Return the number of items that follow; 0: none any more."""
        count = self._numbers(part)
        (sized,) = np.nonzero(count < 0)
        if len(sized):
            of_sized = part.take(sized)
            self._length(Cursor(of_sized.at, of_sized.end, of_sized.rows))
            part.at[sized] = of_sized.at
            count[sized] = -count[sized]
        room = (part.end - part.at) // max(item_size, 1)
        wrong = (count < 0) | (count > room)
        self.fail(part, wrong, LENGTH)
        count[wrong | (self.reasons[part.rows] > 0)] = 0
        return count

    def _read_block(
        self,
        item: AvroType,
        column: pa.DataType,
        cursor: Cursor,
        places: Ints,
        left: Ints,
        parts: list[pa.Array],
        owners: list[Ints],
    ) -> None:
        """Read `left` items of the messages at some places, in rounds of one item of each."""
        left = left.copy()
        is_flat = not _has_lists(item)
        while len(places):
            if is_flat and _is_worth_a_map(cursor, places, left):
                self._read_by_map(item, column, cursor, places, left, parts, owners)
                return
            part = cursor.take(places)
            if self._rounds >= _MAX_ROUNDS:
                self.fail(part, np.ones(len(places), bool), ITEMS)
                cursor.at[places] = part.at
                return
            self._rounds += 1
            parts.append(self.read(item, column, part))
            owners.append(places)
            cursor.at[places] = part.at
            left -= 1
            goes_on = (left > 0) & (self.reasons[part.rows] == 0)
            places, left = places[goes_on], left[goes_on]

    def _read_by_map(
        self,
        item: AvroType,
        column: pa.DataType,
        cursor: Cursor,
        places: Ints,
        left: Ints,
        parts: list[pa.Array],
        owners: list[Ints],
    ) -> None:
        """Read many items of few messages. Where the next item begins is found for all places of
        a message at once, whether an item begins there or not; from one to the next is a look-up
        then.
        """
        for place, count in zip(places.tolist(), left.tolist(), strict=True):
            begin, end = int(cursor.at[place]), int(cursor.end[place])
            somewhere = np.arange(begin, end)
            probe = _Reader(self.data, len(somewhere))
            there = Cursor(somewhere.copy(), np.full(len(somewhere), end), np.arange(end - begin))
            probe.skip(item, there)
            following = np.where(probe.reasons == 0, there.at - begin, -1).tolist()
            at = 0
            starts: list[int] = []
            while len(starts) < count and 0 <= at < len(following):
                starts.append(at)
                at = following[at]
            rows = np.full(len(starts), cursor.rows[place])
            part = Cursor(np.array(starts) + begin, np.full(len(starts), end), rows)
            parts.append(self.read(item, column, part))
            owners.append(np.full(len(starts), place))
            cursor.at[place] = part.at[-1]
            if len(starts) < count:
                self.fail(cursor, np.arange(len(cursor.at)) == place, SHORT)

    def skip(self, kind: AvroType, cursor: Cursor) -> None:
        """Go on behind the next value of each message, which may overlap another one."""
        match kind.kind:
            case "int" | "long" | "enum":
                self._numbers(cursor)
            case "string" | "bytes":
                lengths = self._length(cursor)
                cursor.at += lengths
            case "float" | "double" | "boolean" | "fixed":
                size = {"float": 4, "double": 8, "boolean": 1}.get(kind.kind, kind.size)
                sizes = np.full(len(cursor.at), size)
                self.check_room(cursor, sizes)
                cursor.at += sizes
            case "record":
                for one in kind.fields:
                    self.skip(one.type, cursor)
            case "union":
                chosen = self._choice(cursor, len(kind.branches))
                for number, branch in enumerate(kind.branches):
                    (places,) = np.nonzero(chosen == number)
                    part = cursor.take(places)
                    self.skip(branch, part)
                    cursor.at[places] = part.at


_READERS: Final[Mapping[str, Callable[[_Reader, AvroType, pa.DataType, Cursor], pa.Array]]] = {
    "null": _Reader.nulls, "boolean": _Reader.booleans, "int": _Reader.integers,
    "long": _Reader.integers, "float": _Reader.floats, "double": _Reader.floats,
    "string": _Reader.texts, "bytes": _Reader.bytes_of, "fixed": _Reader.bytes_of,
    "enum": _Reader.symbols, "record": _Reader.record, "union": _Reader.union,
    "array": _Reader.items, "map": _Reader.items,
}  # fmt: skip


def _is_worth_a_map(cursor: Cursor, places: Ints, left: Ints) -> bool:
    size = int((cursor.end[places] - cursor.at[places]).sum())
    return int(left.max()) * _BYTES_A_ROUND > size and size < _MAX_MAP


def _item_of(kind: AvroType, column: pa.DataType) -> tuple[AvroType, pa.DataType]:
    """Return the type of the items of an array or a map: an entry of a map is a record."""
    assert kind.items is not None  # noqa: S101 - the parser gives it
    if not pa.types.is_map(column):
        return kind.items, column.value_type
    entry = pa.struct([column.key_field.with_nullable(True), column.item_field])
    if kind.kind == "array":
        return kind.items, entry
    return _entry_of(kind.items), entry


def _entry_of(items: AvroType) -> AvroType:
    """Return an entry of a map as a record."""
    key = AvroField("key", AvroType("string"), None, None, None)
    value = AvroField("value", items, None, None, None)
    return AvroType("record", "entry", fields=(key, value), min_size=1 + items.min_size)


def _has_lists(kind: AvroType) -> bool:
    if kind.kind in ("array", "map"):
        return True
    inner = (*kind.branches, *(one.type for one in kind.fields))
    return any(map(_has_lists, inner))


def _zero(kind: pa.DataType) -> pa.Scalar:
    return pa.array([None], kind).fill_null(0)[0] if not _is_text(kind) else pa.scalar("", kind)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))
