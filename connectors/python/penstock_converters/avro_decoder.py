"""Avro's bytes to Arrow columns, all messages at once. Pure.

The messages lie in one buffer, and each has a cursor in it. A type is read for all of them before
the next one: numbers by numpy, texts by Arrow. A message that ends too early, or says what cannot
be, is marked with its reason, and its cursor is set to its end: nothing behind it is read. What a
message can make us do is bounded by its bytes: a length beyond its end is refused before it is
used, an item of a list has at least a byte, and lists of lists have a bound of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from penstock_converters.avro_schema import AvroField, AvroType
from penstock_converters.ragged import Bools, Bytes, Ints, from_unscaled, slices, to_offsets

_PADDING: Final = 16
"""Bytes behind the last message that a number may be read from before its end is checked."""

_MAX_ROUNDS: Final = 100_000
"""Items of lists that are read one after the other, for all messages together."""

_BYTES_A_ROUND: Final = 500
"""A round costs as much as to look for items at so many places of a buffer."""

_MAX_MAP: Final = 4 << 20
"""Bytes of a message whose items are looked for at all places at once."""

_DAY_MS: Final = 86_400_000

REASONS: Final = (
    "",
    "it ends too early",
    "a number has too many bytes",
    "a length or a count is negative, or reaches beyond its end",
    "a union has no such type, an enum no such symbol, or a boolean is neither 0 nor 1",
    "a text is not UTF-8",
    "a number does not fit into its type",
    "its lists have too many items that are lists",
    "it has bytes behind its end",
    "a key of a map is null",
)
_SHORT, _LONG_NUMBER, _LENGTH, _CHOICE, _TEXT, _RANGE, _ITEMS, _TRAILING, _NULL_KEY = range(1, 10)


@dataclass(slots=True)
class _Cursor:
    """Where messages are read, and which they are."""

    at: Ints
    end: Ints
    rows: Ints

    def take(self, places: Any) -> _Cursor:
        """Return the cursors at some places."""
        return _Cursor(self.at[places], self.end[places], self.rows[places])


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
        padded = np.zeros(len(data) + _PADDING, np.uint8)
        padded[: len(data)] = data
        reader = _Reader(padded, len(starts))
        cursor = _Cursor(starts.copy(), ends, np.arange(len(starts)))
        if self._kind.kind == "bytes":  # Confluent's serializer writes them as they are
            lengths = ends - starts
            values = reader.bytes_or_decimal(self._column, cursor, lengths)
        else:
            values = reader.read(self._kind, self._column, cursor)
            reader.fail(cursor, cursor.at < cursor.end, _TRAILING)
        return values, reader.reasons


class _Reader:
    """Reads the types of one batch."""

    def __init__(self, data: Bytes, count: int) -> None:
        self._data = data
        self._floats = np.ndarray((len(data) - 3,), "<f4", data.data, strides=(1,))
        self._doubles = np.ndarray((len(data) - 7,), "<f8", data.data, strides=(1,))
        self.reasons = np.zeros(count, np.int64)
        self._rounds = 0

    def fail(self, cursor: _Cursor, wrong: Bools, reason: int) -> None:
        """Mark messages with a reason, if they have none yet. They are at their end then."""
        if not wrong.any():
            return
        rows = cursor.rows[wrong]
        self.reasons[rows] = np.where(self.reasons[rows] == 0, reason, self.reasons[rows])
        cursor.at[wrong] = cursor.end[wrong]

    def read(self, kind: AvroType, column: pa.DataType, cursor: _Cursor) -> pa.Array:
        """Return the next value of each message."""
        return _READERS[kind.kind](self, kind, column, cursor)

    def nulls(self, kind: AvroType, column: pa.DataType, cursor: _Cursor) -> pa.Array:
        """Return nulls, which have no bytes."""
        return pa.nulls(len(cursor.at), column)

    def texts(self, kind: AvroType, column: pa.DataType, cursor: _Cursor) -> pa.Array:
        """Return texts."""
        return self._texts(self._slices(cursor, self._length(cursor)), cursor)

    def floats(self, kind: AvroType, column: pa.DataType, cursor: _Cursor) -> pa.Array:
        """Return numbers of four or eight bytes."""
        if kind.kind == "float":
            return pa.array(self._fixed_numbers(cursor, self._floats, 4))
        return pa.array(self._fixed_numbers(cursor, self._doubles, 8))

    def booleans(self, kind: AvroType, column: pa.DataType, cursor: _Cursor) -> pa.Array:
        """Return booleans."""
        found = self._step(cursor, 1)
        self.fail(cursor, found > 1, _CHOICE)
        return pa.array(found == 1)

    def bytes_of(self, kind: AvroType, column: pa.DataType, cursor: _Cursor) -> pa.Array:
        """Return bytes, or the decimals that they mean."""
        if kind.kind == "bytes":
            return self.bytes_or_decimal(column, cursor, self._length(cursor))
        sizes = np.full(len(cursor.at), kind.size)
        self._check_room(cursor, sizes)
        return self.bytes_or_decimal(column, cursor, sizes)

    def symbols(self, kind: AvroType, column: pa.DataType, cursor: _Cursor) -> pa.Array:
        """Return the symbols of an enum."""
        found = self._choice(cursor, len(kind.symbols))
        return pa.array(kind.symbols or ("",), pa.string()).take(pa.array(found))

    def _step(self, cursor: _Cursor, size: int) -> Any:
        """Return the byte of each message, and go on by `size`."""
        first = self._data[cursor.at]
        cursor.at += size
        self.fail(cursor, cursor.at > cursor.end, _SHORT)
        return first

    def _fixed_numbers(self, cursor: _Cursor, numbers: Any, size: int) -> Any:
        short = cursor.end - cursor.at < size
        self.fail(cursor, short, _SHORT)
        found = numbers[np.minimum(cursor.at, len(numbers) - 1)]
        cursor.at += np.where(short, 0, size)
        return found

    def _numbers(self, cursor: _Cursor) -> Ints:
        """Return a whole number of each message."""
        first = self._data[cursor.at]
        value = (first & 0x7F).astype(np.uint64)
        size = np.ones(len(first), np.int64)
        (more,) = np.nonzero(first >= 0x80)
        turn = 1
        while len(more) and turn < 10:
            byte = self._data[cursor.at[more] + turn]
            value[more] |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * turn)
            size[more] += 1
            more = more[byte > 1] if turn == 9 else more[byte >= 0x80]  # of 64 bits one is left
            turn += 1
        cursor.at += size
        self.fail(cursor, cursor.at > cursor.end, _SHORT)
        if len(more):
            wrong = np.zeros(len(first), bool)
            wrong[more] = True
            self.fail(cursor, wrong, _LONG_NUMBER)
        half = (value >> np.uint64(1)).view(np.int64)
        return half ^ -(value & np.uint64(1)).view(np.int64)

    def integers(self, kind: AvroType, column: pa.DataType, cursor: _Cursor) -> pa.Array:
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
        self.fail(cursor, wrong, _RANGE)
        width = pa.int32() if pa.types.is_temporal(column) else column
        small = pa.array(np.where(wrong, 0, found).astype(width.to_pandas_dtype()))
        return small.view(column)

    def _choice(self, cursor: _Cursor, count: int) -> Ints:
        """Return a number of each message that is below `count`."""
        found = self._numbers(cursor)
        wrong = (found < 0) | (found >= count)
        self.fail(cursor, wrong, _CHOICE)
        return np.where(wrong, 0, found)

    def _length(self, cursor: _Cursor) -> Ints:
        """Return a number of bytes of each message, that it has."""
        found = self._numbers(cursor)
        self._check_room(cursor, found)
        return found

    def _check_room(self, cursor: _Cursor, lengths: Ints) -> None:
        wrong = (lengths < 0) | (lengths > cursor.end - cursor.at)
        self.fail(cursor, wrong, _LENGTH)
        lengths[wrong] = 0

    def _slices(self, cursor: _Cursor, lengths: Ints) -> pa.Array:
        """Return the next bytes of each message."""
        begins = cursor.at.copy()
        cursor.at += lengths
        return slices(self._data, begins, cursor.at)

    def _texts(self, slices: pa.Array, cursor: _Cursor) -> pa.Array:
        try:
            return slices.cast(pa.string())
        except pa.ArrowInvalid:
            pass  # one by one, to find which are not
        values = slices.to_pylist()
        wrong = np.zeros(len(values), bool)
        for at, value in enumerate(values):
            try:
                value.decode()
            except UnicodeDecodeError:
                wrong[at], values[at] = True, b""
        self.fail(cursor, wrong, _TEXT)
        return pa.array(values, pa.binary()).cast(pa.string())

    def bytes_or_decimal(self, column: pa.DataType, cursor: _Cursor, lengths: Ints) -> pa.Array:
        """Return bytes, or the decimals that they mean."""
        if not pa.types.is_decimal(column):
            return self._slices(cursor, lengths)
        begins = cursor.at.copy()
        cursor.at += lengths
        values, wrong = from_unscaled(self._data, begins, lengths, column)
        self.fail(cursor, wrong, _RANGE)
        return values

    def record(self, kind: AvroType, column: pa.DataType, cursor: _Cursor) -> pa.Array:
        """Return structs."""
        fields = [column.field(at) for at in range(column.num_fields)]
        values = [
            self.read(one.type, field.type, cursor)
            for one, field in zip(kind.fields, fields, strict=True)
        ]
        if not values:
            return pa.array([{}] * len(cursor.at), column)
        return pa.StructArray.from_arrays(values, fields=fields)

    def union(self, kind: AvroType, column: pa.DataType, cursor: _Cursor) -> pa.Array:
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
        self, kind: AvroType, column: pa.DataType, cursor: _Cursor, present: Bools
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

    def items(self, kind: AvroType, column: pa.DataType, cursor: _Cursor) -> pa.Array:
        """Return lists or maps."""
        counts, items, part = self._read_items(kind, column, cursor)
        offsets = pa.array(to_offsets(counts).astype(np.int32))
        if not pa.types.is_map(column):
            return pa.ListArray.from_arrays(offsets, items, type=column)
        keys = items.field(0)
        if keys.null_count:
            self.fail(part, np.asarray(keys.is_null()), _NULL_KEY)
            keys = keys.fill_null(_zero(column.key_type))
        return pa.MapArray.from_arrays(offsets, keys, items.field(1), type=column)

    def _read_items(
        self, kind: AvroType, column: pa.DataType, cursor: _Cursor
    ) -> tuple[Ints, pa.Array, _Cursor]:
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

    def _block(self, part: _Cursor, item_size: int) -> Ints:
        """Return the number of items that follow; 0: none any more."""
        count = self._numbers(part)
        (sized,) = np.nonzero(count < 0)
        if len(sized):
            of_sized = part.take(sized)
            self._length(_Cursor(of_sized.at, of_sized.end, of_sized.rows))
            part.at[sized] = of_sized.at
            count[sized] = -count[sized]
        room = (part.end - part.at) // max(item_size, 1)
        wrong = (count < 0) | (count > room)
        self.fail(part, wrong, _LENGTH)
        count[wrong | (self.reasons[part.rows] > 0)] = 0
        return count

    def _read_block(
        self,
        item: AvroType,
        column: pa.DataType,
        cursor: _Cursor,
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
                self.fail(part, np.ones(len(places), bool), _ITEMS)
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
        cursor: _Cursor,
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
            probe = _Reader(self._data, len(somewhere))
            there = _Cursor(somewhere.copy(), np.full(len(somewhere), end), np.arange(end - begin))
            probe.skip(item, there)
            following = np.where(probe.reasons == 0, there.at - begin, -1).tolist()
            at = 0
            starts: list[int] = []
            while len(starts) < count and 0 <= at < len(following):
                starts.append(at)
                at = following[at]
            rows = np.full(len(starts), cursor.rows[place])
            part = _Cursor(np.array(starts) + begin, np.full(len(starts), end), rows)
            parts.append(self.read(item, column, part))
            owners.append(np.full(len(starts), place))
            cursor.at[place] = part.at[-1]
            if len(starts) < count:
                self.fail(cursor, np.arange(len(cursor.at)) == place, _SHORT)

    def skip(self, kind: AvroType, cursor: _Cursor) -> None:
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
                self._check_room(cursor, sizes)
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


_READERS: Final[Mapping[str, Callable[[_Reader, AvroType, pa.DataType, _Cursor], pa.Array]]] = {
    "null": _Reader.nulls, "boolean": _Reader.booleans, "int": _Reader.integers,
    "long": _Reader.integers, "float": _Reader.floats, "double": _Reader.floats,
    "string": _Reader.texts, "bytes": _Reader.bytes_of, "fixed": _Reader.bytes_of,
    "enum": _Reader.symbols, "record": _Reader.record, "union": _Reader.union,
    "array": _Reader.items, "map": _Reader.items,
}  # fmt: skip


def _is_worth_a_map(cursor: _Cursor, places: Ints, left: Ints) -> bool:
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
