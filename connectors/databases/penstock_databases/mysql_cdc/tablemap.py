"""TABLE_MAP events: the columns that the next rows of a table have. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from penstock_databases.mysql_cdc.events import corrupt, lenenc


class Type:
    """Numbers of types of columns in the log."""

    TINY, SHORT, LONG, FLOAT, DOUBLE = 1, 2, 3, 4, 5
    TIMESTAMP, LONGLONG, INT24, DATE, TIME = 7, 8, 9, 10, 11
    DATETIME, YEAR, VARCHAR, BIT = 12, 13, 15, 16
    TIMESTAMP2, DATETIME2, TIME2 = 17, 18, 19
    BLOB_COMPRESSED, VARCHAR_COMPRESSED = 140, 141
    VECTOR, JSON, DECIMAL, ENUM, SET = 242, 245, 246, 247, 248
    BLOB, VAR_STRING, STRING, GEOMETRY = 252, 253, 254, 255


_NUMERIC: Final = frozenset({
    Type.TINY, Type.SHORT, Type.INT24, Type.LONG, Type.LONGLONG, Type.DECIMAL, Type.FLOAT,
    Type.DOUBLE, Type.YEAR,
})  # fmt: skip
_TEXTUAL: Final = frozenset({
    Type.STRING, Type.VAR_STRING, Type.VARCHAR, Type.BLOB, Type.BLOB_COMPRESSED,
    Type.VARCHAR_COMPRESSED,
})  # fmt: skip
_TWO_BYTES: Final = frozenset({
    Type.VARCHAR, Type.VAR_STRING, Type.DECIMAL, Type.BIT, Type.ENUM, Type.SET, Type.STRING,
    Type.VARCHAR_COMPRESSED,
})  # fmt: skip
_ONE_BYTE: Final = frozenset({
    Type.FLOAT, Type.DOUBLE, Type.TIMESTAMP2, Type.DATETIME2, Type.TIME2, Type.BLOB, Type.JSON,
    Type.GEOMETRY, Type.BLOB_COMPRESSED, Type.VECTOR,
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class LoggedColumn:
    """A column as the log tells of it.

    Attributes:
        kind: Its type; see `Type`.
        size: Of decimals the digits, of strings the most bytes, of times the digits after the
            point, of blobs the bytes of their length, of bits their number.
        scale: Digits after the point of a decimal.
        name: Its name; empty when the log does not tell.
        unsigned: Whether numbers have no sign.
        collation: Number of the collation of text; 63 is bytes; 0 when the log does not tell.
        values: Values of an enum or a set, in the bytes of its character set.
    """

    kind: int
    size: int = 0
    scale: int = 0
    name: str = ""
    unsigned: bool = False
    collation: int = 0
    values: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class TableMap:
    """A table as its rows in the log need it.

    Attributes:
        database: Its database.
        table: Its name.
        columns: Its columns.
        key: Places of the primary key's columns; empty when there is none, or nobody told.
        named: Whether the log told the names of columns.
    """

    database: str
    table: str
    columns: tuple[LoggedColumn, ...]
    key: tuple[int, ...] = ()
    named: bool = False


def parse(body: bytes, *, mariadb: bool) -> TableMap:
    """Return what a TABLE_MAP event says, from after its table id and flags on.

    MariaDB gives geometries a collation among those of texts, MySQL does not.
    """
    size = body[0]
    database, at = body[1 : 1 + size], 2 + size
    size = body[at]
    table, at = body[at + 1 : at + 1 + size], at + 2 + size
    count, at = lenenc(body, at)
    kinds, at = body[at : at + count], at + count
    size, at = lenenc(body, at)
    shapes = list(_shapes(kinds, body[at : at + size]))
    at += size + (count + 7) // 8
    told = _Told(shapes, _TEXTUAL | {Type.GEOMETRY} if mariadb else _TEXTUAL)
    while at < len(body):
        code = body[at]
        size, at = lenenc(body, at + 1)
        told.take(code, body[at : at + size])
        at += size
    return TableMap(
        database.decode("utf-8", "replace"),
        table.decode("utf-8", "replace"),
        tuple(told.column(place) for place in range(count)),
        tuple(told.key),
        bool(told.names) or not count,
    )


def _shapes(kinds: bytes, meta: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield type, size and scale of each column."""
    at = 0
    for kind in kinds:
        if kind in _TWO_BYTES:
            first, second = meta[at], meta[at + 1]
            at += 2
            yield _two(kind, first, second)
        elif kind in _ONE_BYTE:
            yield kind, meta[at], 0
            at += 1
        else:
            yield kind, 0, 0


def _two(kind: int, first: int, second: int) -> tuple[int, int, int]:
    match kind:
        case Type.DECIMAL:
            return kind, first, second
        case Type.BIT:
            return kind, first + second * 8, 0
        case Type.STRING if first & 0x30 != 0x30:  # bits of a long length hide in the type
            return first | 0x30, second | ((first & 0x30) ^ 0x30) << 4, 0
        case Type.STRING | Type.ENUM | Type.SET:
            return (first if kind == Type.STRING else kind), second, 0
    return kind, first | second << 8, 0


@dataclass
class _Told:
    """The optional part, as it is read."""

    shapes: list[tuple[int, int, int]]
    textual: frozenset[int]
    names: list[str] = field(default_factory=list)
    unsigned: set[int] = field(default_factory=set)
    collations: dict[int, int] = field(default_factory=dict)
    values: dict[int, tuple[bytes, ...]] = field(default_factory=dict)
    key: list[int] = field(default_factory=list)

    def take(self, code: int, data: bytes) -> None:
        """Take one field."""
        match code:
            case 1:
                for bit, place in enumerate(self._places(_NUMERIC)):
                    if data[bit >> 3] & 0x80 >> (bit & 7):
                        self.unsigned.add(place)
            case 2 | 10:
                self._default_collation(self._of(code), list(_numbers(data)))
            case 3 | 11:
                self.collations |= dict(zip(self._of(code), _numbers(data), strict=True))
            case 4:
                self.names = [text.decode("utf-8", "replace") for text in _texts(data)]
            case 5 | 6:
                kind = Type.SET if code == 5 else Type.ENUM
                lists = _lists(data)
                self.values |= dict(zip(self._places({kind}), lists, strict=False))
            case 8:
                self.key = list(_numbers(data))
            case 9:
                self.key = list(_numbers(data))[::2]

    def column(self, place: int) -> LoggedColumn:
        """Return a column."""
        kind, size, scale = self.shapes[place]
        return LoggedColumn(
            kind,
            size,
            scale,
            self.names[place] if self.names else "",
            place in self.unsigned,
            self.collations.get(place, 0),
            self.values.get(place, ()),
        )

    def _of(self, code: int) -> list[int]:
        return self._places(self.textual if code < 10 else {Type.ENUM, Type.SET})

    def _places(self, kinds: set[int] | frozenset[int]) -> list[int]:
        return [place for place, (kind, _, _) in enumerate(self.shapes) if kind in kinds]

    def _default_collation(self, places: list[int], numbers: list[int]) -> None:
        default, *others = numbers
        own = dict(zip(others[::2], others[1::2], strict=True))
        for index, place in enumerate(places):
            self.collations[place] = own.get(index, default)


def _numbers(data: bytes) -> Iterator[int]:
    at = 0
    while at < len(data):
        number, at = lenenc(data, at)
        yield number


def _texts(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        size, at = lenenc(data, at)
        if at + size > len(data):
            raise corrupt("names in a TABLE_MAP event are cut off")
        yield data[at : at + size]
        at += size


def _lists(data: bytes) -> Iterator[tuple[bytes, ...]]:
    at = 0
    while at < len(data):
        count, at = lenenc(data, at)
        values = []
        for _ in range(count):
            size, at = lenenc(data, at)
            values.append(data[at : at + size])
            at += size
        yield tuple(values)
