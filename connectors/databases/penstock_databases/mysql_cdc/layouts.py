"""What the log tells of a table → how its rows are read, and as which types.

The types are those of `mysql.types`, by the column's type in the server's own words, so that a row
of the snapshot and a row of the log have one schema. What the log does not tell (that 16 bytes are
a UUID; names of columns where the server was set to write none) is asked of the catalog, as long as
the columns there are still those of the log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

import pyarrow as pa

from penstock_connector import ConfigError, ConnectorError, SchemaError
from penstock_connector.tables.columns import Column, Shape
from penstock_databases.cdc.rows import RESERVED
from penstock_databases.mysql.types import row_field
from penstock_databases.mysql_cdc import texts
from penstock_databases.mysql_cdc.moments import Dates, Instants, OldStamps, Stamps, Times
from penstock_databases.mysql_cdc.numbers import (
    Bits,
    Decimals,
    Floats,
    Integers,
    Years,
    decimal_width,
)
from penstock_databases.mysql_cdc.rows import Decoder, Layout
from penstock_databases.mysql_cdc.tablemap import LoggedColumn, TableMap, Type

_BINARY: Final = 63
"""The collation of bytes."""

_INTEGERS: Final = {
    Type.TINY: ("tinyint", 1), Type.SHORT: ("smallint", 2), Type.INT24: ("mediumint", 3),
    Type.LONG: ("int", 4), Type.LONGLONG: ("bigint", 8),
}  # fmt: skip
_ADDRESSES: Final = {
    "uuid": texts.as_uuid, "inet6": texts.as_inet6, "inet4": texts.as_inet4,
}  # fmt: skip
_BLOBS: Final = frozenset({Type.BLOB, Type.BLOB_COMPRESSED})
_STRINGS: Final = frozenset({
    Type.STRING, Type.VAR_STRING, Type.VARCHAR, Type.VARCHAR_COMPRESSED,
})  # fmt: skip
_COMPRESSED: Final = frozenset({Type.BLOB_COMPRESSED, Type.VARCHAR_COMPRESSED})


class Server(Protocol):
    """What is asked of the server."""

    def charset(self, collation: int) -> str:
        """Return the character set of a collation."""

    def decode(self, charset: str) -> texts.Decode:
        """Return what decodes a character set."""

    def shape(self, database: str, table: str) -> Shape | None:
        """Return the columns that a table has now."""


def layout_of(table: TableMap, server: Server, zeros: str) -> Layout:
    """Return how rows of a table are read.

    Raises:
        ConfigError: `cdc.binlog_row_metadata`: the log does not tell, and the catalog cannot.
        SchemaError: `cdc.type_unknown`.
    """
    shape = None
    if not table.named or any(map(_asks, table.columns)):
        shape = server.shape(table.database, table.table)
    if not table.named:
        table = _named(table, shape)
    fields, decoders = [], []
    for column in table.columns:
        known = shape.find(column.name) if shape else None
        native = native_of(column, known, server)
        fields.append(row_field(column.name, native))
        decoders.append(_decoder(column, native, fields[-1].type, server, zeros))
    return Layout(tuple(fields), tuple(decoders), table.key)


def check_names(table: str, layout: Layout) -> None:
    """Refuse a table, as `database.table`, with a column whose name rows reserve.

    Raises:
        SchemaError: `cdc.reserved_column`.
    """
    for field in layout.fields:
        if field.name in RESERVED:
            raise SchemaError(
                "cdc.reserved_column",
                f"{table} has a column {field.name!r}, which rows reserve",
                fix="Rename the column, or leave the table out (`table.exclude.list`).",
            )


def _asks(column: LoggedColumn) -> bool:
    """Whether the log leaves open what a column is: MariaDB's UUIDs look like bytes there."""
    address = column.kind == Type.STRING and column.size in {4, 16}
    return address and column.collation in {0, _BINARY}


def _named(table: TableMap, shape: Shape | None) -> TableMap:
    """Return a table with the names that the catalog has, when it has the same columns."""
    if shape is None or not _alike(table.columns, shape.columns):
        raise ConfigError(
            "cdc.binlog_row_metadata",
            f"the log does not tell the columns of {table.database}.{table.table}, "
            "and the table is another one by now",
            fix="SET GLOBAL binlog_row_metadata = 'FULL'; then read the tables again "
            "(reset the offset, or `offset.lost=snapshot`).",
        )
    columns = tuple(map(_from_catalog, table.columns, shape.columns))
    key = tuple([column.name for column in shape.columns].index(name) for name in shape.key)
    return TableMap(table.database, table.table, columns, key, named=True)


def _from_catalog(column: LoggedColumn, known: Column) -> LoggedColumn:
    native = known.native
    words = native.split("(")[0].split()[0]
    binary = words in {"binary", "varbinary", "uuid", "inet6", "inet4"} or words.endswith("blob")
    listed = column.kind in {Type.ENUM, Type.SET}
    return LoggedColumn(
        column.kind,
        column.size,
        column.scale,
        known.name,
        "unsigned" in native or "zerofill" in native,
        column.collation or (_BINARY if binary else -1),
        column.values or (_members(native) if listed else ()),
    )


def _members(native: str) -> tuple[bytes, ...]:
    """Return the values of `enum('a','b')`: quotes are doubled inside."""
    inside = native[native.index("(") + 2 : native.rindex(")") - 1]
    return tuple(text.replace("''", "'").encode() for text in inside.split("','"))


def _alike(logged: tuple[LoggedColumn, ...], known: tuple[Column, ...]) -> bool:
    """Return whether columns of the log can be those of the catalog."""
    return len(logged) == len(known) and all(
        _kind_word(column, other.native) for column, other in zip(logged, known, strict=True)
    )


def _kind_word(column: LoggedColumn, native: str) -> bool:
    word = native.split("(", maxsplit=1)[0].split(maxsplit=1)[0]
    integer = _INTEGERS.get(column.kind)
    if integer:
        return word == integer[0]
    if column.kind == Type.DECIMAL:
        return native.startswith(f"decimal({column.size},{column.scale})")
    wanted = _WORDS.get(column.kind)
    return wanted is None or word in wanted


_WORDS: Final = {
    Type.FLOAT: {"float"}, Type.DOUBLE: {"double"}, Type.DATE: {"date"}, Type.YEAR: {"year"},
    Type.DATETIME2: {"datetime"}, Type.TIMESTAMP2: {"timestamp"}, Type.TIME2: {"time"},
    Type.VARCHAR: {"varchar", "varbinary"}, Type.BIT: {"bit"}, Type.ENUM: {"enum"},
    Type.SET: {"set"}, Type.JSON: {"json"},
    Type.STRING: {"char", "binary", "uuid", "inet6", "inet4"},
}  # fmt: skip


# ── one column ───────────────────────────────────────────────────────────────────────────────────


def native_of(column: LoggedColumn, known: Column | None, server: Server) -> str:
    """Return the type of a column in the server's words."""
    kind = column.kind
    if kind in _INTEGERS:
        return _INTEGERS[kind][0] + (" unsigned" if column.unsigned else "")
    if known and _asks(column) and known.native in _ADDRESSES:
        return known.native
    if kind in _STRINGS:
        return _binary_or("varbinary", "varchar", column, server)
    if kind in _BLOBS:
        return _binary_or("blob", "text", column, server)
    match kind:
        case Type.DECIMAL:
            return f"decimal({column.size},{column.scale})"
        case Type.BIT:
            return f"bit({column.size})"
    native = _NATIVE.get(kind)
    if kind in _FRACTIONS and column.size:
        return f"{native}({column.size})"
    if native is None:
        raise SchemaError(
            "cdc.type_unknown",
            f"column {column.name!r} has the type {kind} in the log, which is not known here",
            fix="Leave the table out (`table.exclude.list`), and report this.",
        )
    return native


_NATIVE: Final = {
    Type.FLOAT: "float", Type.DOUBLE: "double", Type.YEAR: "year", Type.DATE: "date",
    Type.TIME: "time", Type.TIME2: "time", Type.DATETIME: "datetime", Type.DATETIME2: "datetime",
    Type.TIMESTAMP: "timestamp", Type.TIMESTAMP2: "timestamp", Type.ENUM: "enum",
    Type.SET: "set", Type.JSON: "json", Type.GEOMETRY: "geometry", Type.VECTOR: "vector",
}  # fmt: skip


_FRACTIONS: Final = frozenset({Type.TIME2, Type.DATETIME2, Type.TIMESTAMP2})
"""Types whose size is the digits of their fractions of seconds."""


def _binary_or(binary: str, text: str, column: LoggedColumn, server: Server) -> str:
    return binary if _charset(column, server) == texts.BYTES else text


def _charset(column: LoggedColumn, server: Server) -> str:
    if column.collation == _BINARY:
        return texts.BYTES
    return server.charset(column.collation) if column.collation > 0 else "utf8mb4"


def _decoder(
    column: LoggedColumn, native: str, kind: pa.DataType, server: Server, zeros: str
) -> Decoder:
    match column.kind:
        case number if number in _INTEGERS:
            return Integers(_INTEGERS[number][1], column.unsigned, kind)
        case Type.DECIMAL:
            decimals = Decimals(column.size, column.scale, kind)
            assert decimals.width == decimal_width(column.size, column.scale)  # noqa: S101 - see there
            return decimals
        case Type.FLOAT | Type.DOUBLE:
            return Floats(column.size, kind)
        case Type.BIT:
            return Bits((column.size + 7) // 8, kind)
        case Type.YEAR:
            return Years(kind)
        case Type.ENUM | Type.SET:
            make = texts.Enums if column.kind == Type.ENUM else texts.Sets
            return make(column.size, _decoded(column, server))
    moment = _moment(column, kind, zeros)
    return moment or _slices(column, native, server)


def _moment(column: LoggedColumn, kind: pa.DataType, zeros: str) -> Decoder | None:
    match column.kind:
        case Type.DATE:
            return Dates(zeros)
        case Type.TIME | Type.TIME2:
            return Times(column.size, old=column.kind == Type.TIME)
        case Type.DATETIME2:
            return Stamps(column.size, zeros, kind)
        case Type.DATETIME:
            return OldStamps(zeros, kind)
        case Type.TIMESTAMP | Type.TIMESTAMP2:
            return Instants(column.size, zeros, kind, old=column.kind == Type.TIMESTAMP)
    return None


def _slices(column: LoggedColumn, native: str, server: Server) -> Decoder:
    if column.kind == Type.GEOMETRY:
        return texts.Slices(column.size, texts.as_bytes, skip=4)  # SRID, before the WKB
    if column.kind == Type.JSON:
        return texts.Slices(column.size, texts.as_json)
    prefix = column.size if column.kind in {*_BLOBS, Type.VECTOR} else 1 + (column.size > 255)
    if native in _ADDRESSES:
        return texts.Slices(prefix, texts.each(_ADDRESSES[native]))
    finish = _finish(column, server)
    if column.kind in _COMPRESSED:
        finish = texts.inflating(finish)
    return texts.Slices(prefix, finish)


def _finish(column: LoggedColumn, server: Server) -> Callable[[pa.Array], pa.Array]:
    charset = texts.BYTES if column.kind == Type.VECTOR else _charset(column, server)
    if charset == texts.BYTES:
        return texts.padded(column.size) if column.kind == Type.STRING else texts.as_bytes
    if charset in texts.UTF8:
        return texts.as_utf8
    decode = server.decode(charset)
    return texts.in_charset(decode) if texts.has_ascii(charset) else texts.each(decode)


def _decoded(column: LoggedColumn, server: Server) -> tuple[str, ...]:
    """Return the values of an enum or a set as text."""
    charset = _charset(column, server)
    if charset in texts.UTF8 or charset == texts.BYTES:
        return tuple(value.decode("utf-8", "replace") for value in column.values)
    return tuple(map(server.decode(charset), column.values))


def no_charset(charset: str) -> ConnectorError:
    """Return the error of a character set that nobody here can decode."""
    return SchemaError(
        "cdc.charset_unknown",
        f"text in the character set {charset!r} cannot be decoded here",
        fix="Convert the column to utf8mb4, or leave the table out.",
    )
