"""One table of every type for each database, and what its values become in each sink. Pure.

MariaDB's JSON is its LONGTEXT, and comes as a plain text. What a value becomes is told by the kind of its column, after the READMEs of the connectors: where
a sink is not named below, the value is there as it was.
"""

# A column is a line, and times without a zone are meant.
# ruff: noqa: DTZ001, E501

from __future__ import annotations

import datetime as dt
import json
import math
import struct
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

SINKS: Final = ("mysql", "postgresql", "sqlite", "databend")

D = Decimal

Becomes = Callable[[Any], Any]


def _single(value: float) -> float:
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


def _duration(text: str) -> dt.timedelta:
    hours, minutes, seconds = text.lstrip("-").split(":")
    whole = dt.timedelta(
        hours=int(hours), minutes=int(minutes), microseconds=round(float(seconds) * 1_000_000)
    )
    return -whole if text.startswith("-") else whole


def _variant(text: str) -> str:
    return _list(json.loads(text))


def _list(values: Any) -> str:
    return json.dumps(values, ensure_ascii=False, separators=(",", ":"))


_BECOMES: Final[Mapping[str, Mapping[str, Becomes]]] = {
    "plain": {},
    "flag": {"mysql": int, "sqlite": int},
    "single": {"sqlite": _single, "databend": _single},
    "decimal": {"sqlite": lambda exact: int(exact) if exact == int(exact) else float(exact)},
    "wide decimal": {"sqlite": str},
    "long decimal": {"mysql": D, "postgresql": D, "databend": D},
    "any decimal": {"postgresql": D},
    "date": {"sqlite": str},
    "stamp": {"sqlite": lambda at: at.isoformat(" ", "microseconds")},
    "instant": {
        "mysql": lambda at: at.replace(tzinfo=None),
        "sqlite": lambda at: at.isoformat(" ", "microseconds"),
        "databend": lambda at: at.replace(tzinfo=None),
    },
    "time": {"mysql": _duration, "postgresql": dt.time.fromisoformat},
    "zoned time": {"postgresql": dt.time.fromisoformat},
    "bits": {"mysql": lambda bits: bits.to_bytes(2, "big"), "postgresql": "{:012b}".format},
    "many bits": {
        "mysql": lambda bits: int(bits).to_bytes(8, "big"),
        "postgresql": lambda bits: f"{int(bits):064b}",
        "sqlite": str,
    },
    "json": {"postgresql": json.loads, "databend": _variant},
    "uuid": {"postgresql": uuid.UUID},
    "list": {"mysql": _list, "sqlite": _list},
    "wkb": {"mysql": lambda wkb: bytes(4) + wkb},
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Typed:
    """A column of a golden table.

    Attributes:
        native: Its type.
        kind: What becomes of its values.
        values: Literals of SQL, with what is in rows.
        refused: The sinks that have no place for these values, and say so.
    """

    native: str
    kind: str
    values: Sequence[tuple[str, Any]]
    refused: frozenset[str] = frozenset()

    def expected(self, sink: str, height: int) -> list[Any]:
        """Return what a sink has of it: a null first, then the values, then nulls."""
        made = _BECOMES[self.kind].get(sink, lambda value: value)
        values = [made(value) for _, value in self.values]
        return [None, *values] + [None] * (height - 1 - len(values))


def height(columns: Sequence[Typed]) -> int:
    """Return the rows of a table, the one of nulls among them."""
    return 1 + max(len(column.values) for column in columns)


def statements(table: str, columns: Sequence[Typed], quote: str, null: str) -> list[str]:
    """Return the statements that make a table and fill it."""
    named = [f"{table}_{n}" for n in range(len(columns))]
    defined = [f"{name} {c.native}{null}" for name, c in zip(named, columns, strict=True)]
    made = [f"CREATE TABLE {quote}{table}{quote} (k INT PRIMARY KEY, {', '.join(defined)})"]
    for row in range(height(columns)):
        given = {"k": str(row)} | {
            name: column.values[row - 1][0]
            for name, column in zip(named, columns, strict=True)
            if 0 < row <= len(column.values)
        }
        into = f"{quote}{table}{quote} ({', '.join(given)})"
        made.append(f"INSERT INTO {into} VALUES ({', '.join(given.values())})")
    return made


BYTES: Final = bytes(range(256))
TEXT: Final = "a\"b'c,\\d\r\n\te\n\rf%s%%;-- 𝄞🎉é\u202e"
POINT: Final = struct.pack("<BIdd", 1, 1, 1.5, -2.25)
LONG: Final = "12345678901234567890123456789012345.123456789012345678901234567890"
WIDE: Final = "12345678901234567890.123456789012345678"
UUID: Final = "123e4567-e89b-12d3-a456-426614174000"
LATEST: Final = dt.datetime(9999, 12, 31, 23, 59, 59, 999999)
NO_SPECIALS: Final = frozenset({"mysql", "sqlite"})
"""Sinks whose floats are numbers."""


def _utc(*parts: int) -> dt.datetime:
    return dt.datetime(*parts, tzinfo=dt.UTC)  # type: ignore[arg-type, misc]


MYSQL: Final = (
    Typed("TINYINT", "plain", [("-128", -128), ("127", 127)]),
    Typed("TINYINT UNSIGNED", "plain", [("255", 255)]),
    Typed("SMALLINT UNSIGNED", "plain", [("65535", 65535)]),
    Typed("MEDIUMINT", "plain", [("-8388608", -8388608)]),
    Typed("INT UNSIGNED", "plain", [("4294967295", 4294967295)]),
    Typed("BIGINT", "plain", [(str(-(2**63)), -(2**63)), (str(2**63 - 1), 2**63 - 1)]),
    Typed("BIGINT UNSIGNED", "wide decimal", [(str(2**64 - 1), D(2**64 - 1)), ("0", D(0))]),
    Typed("DECIMAL(12,2)", "decimal", [("-9999999999.99", D("-9999999999.99")), ("0.01", D("0.01"))]),
    Typed("DECIMAL(38,18)", "wide decimal", [(WIDE, D(WIDE)), (f"-{WIDE}", D(f"-{WIDE}"))]),
    Typed("DECIMAL(65,30)", "long decimal", [(LONG, LONG), (f"-{LONG}", f"-{LONG}")]),
    Typed("FLOAT", "single", [("0.1", 0.1), ("-1.5", -1.5)]),
    Typed("DOUBLE", "plain", [("0.1", 0.1), ("1.7976931348623157e308", 1.7976931348623157e308), ("5e-324", 5e-324), ("1e0/3e0", 1 / 3)]),
    Typed("DATE", "date", [("'0001-01-01'", dt.date(1, 1, 1)), ("'9999-12-31'", dt.date(9999, 12, 31))]),
    Typed("DATETIME(6)", "stamp", [("'0001-01-01 00:00:00.000001'", dt.datetime(1, 1, 1, 0, 0, 0, 1)), ("'9999-12-31 23:59:59.999999'", LATEST)]),
    Typed("TIMESTAMP(6)", "instant", [("'1970-01-01 00:00:01.000001'", _utc(1970, 1, 1, 0, 0, 1, 1)), ("'2038-01-19 03:14:07.999999'", _utc(2038, 1, 19, 3, 14, 7, 999999))]),
    Typed("TIME(6)", "time", [("'23:59:59.999999'", "23:59:59.999999"), ("'0:0:0'", "00:00:00.000000")]),
    Typed("TIME(6)", "time", [("'-838:59:58.000001'", "-838:59:58.000001"), ("'25:00:00'", "25:00:00.000000")], frozenset({"postgresql"})),
    Typed("YEAR", "plain", [("1901", 1901), ("2155", 2155)]),
    Typed("BIT(1)", "flag", [("b'1'", True), ("b'0'", False)]),
    Typed("BIT(12)", "bits", [("b'101010101010'", 0b101010101010), ("b'1'", 1)]),
    Typed("BIT(64)", "many bits", [("18446744073709551615", D(2**64 - 1)), ("1", D(1))]),
    Typed("ENUM('a','b,c','d''e')", "plain", [("'b,c'", "b,c"), ("'d''e'", "d'e")]),
    Typed("SET('x','y','z')", "plain", [("'z,x'", "x,z"), ("''", "")]),
    Typed("JSON", "plain", [("'{\"a\":[1,null,\"é🎉\"]}'", '{"a":[1,null,"é🎉"]}'), ("'null'", "null")]),
    Typed("UUID", "uuid", [(f"'{UUID}'", UUID)]),
    Typed("VARCHAR(200)", "plain", [("''", ""), (f"CONVERT(X'{TEXT.encode().hex()}' USING utf8mb4)", TEXT), ("'NULL'", "NULL")]),
    Typed("VARCHAR(20)", "plain", [("'a\\0b'", "a\0b"), ("'\\0'", "\0")], frozenset({"postgresql"})),
    Typed("VARCHAR(20) CHARACTER SET latin1", "plain", [("'ÿé'", "ÿé")]),
    Typed("LONGTEXT", "plain", [("REPEAT('é', 70000)", "é" * 70000)]),
    Typed("BINARY(4)", "plain", [("X'00FF'", b"\0\xff\0\0")]),
    Typed("LONGBLOB", "plain", [(f"X'{BYTES.hex()}'", BYTES), ("''", b"")]),
    Typed("POINT", "wkb", [("ST_GeomFromText('POINT(1.5 -2.25)')", POINT)]),
)  # fmt: skip

POSTGRESQL: Final = (
    Typed("smallint", "plain", [("-32768", -32768)]),
    Typed("integer", "plain", [("2147483647", 2147483647)]),
    Typed("bigint", "plain", [(str(-(2**63)), -(2**63)), (str(2**63 - 1), 2**63 - 1)]),
    Typed("oid", "plain", [("4294967295", 4294967295)]),
    Typed("numeric(12,2)", "decimal", [("-9999999999.99", D("-9999999999.99"))]),
    Typed("numeric(20,0)", "wide decimal", [(str(2**64 - 1), D(2**64 - 1))]),
    Typed("numeric(38,18)", "wide decimal", [(WIDE, D(WIDE))]),
    Typed("numeric(65,30)", "long decimal", [(LONG, LONG)]),
    Typed("numeric", "any decimal", [("1e40", "1" + "0" * 40), ("'NaN'", "NaN"), ("0.10", "0.10")]),
    Typed("real", "single", [("0.1", 0.1)]),
    Typed("real", "single", [("'NaN'", math.nan), ("'-Infinity'", -math.inf)], NO_SPECIALS),
    Typed("double precision", "plain", [("0.1", 0.1), ("5e-324", 5e-324), ("1.7976931348623157e308", 1.7976931348623157e308)]),
    Typed("double precision", "plain", [("'NaN'", math.nan), ("'Infinity'", math.inf)], NO_SPECIALS),
    Typed("boolean", "flag", [("true", True), ("false", False)]),
    Typed("date", "date", [("'0001-01-01'", dt.date(1, 1, 1)), ("'9999-12-31'", dt.date(9999, 12, 31))]),
    Typed("timestamp", "stamp", [("'0001-01-01 00:00:00.000001'", dt.datetime(1, 1, 1, 0, 0, 0, 1)), ("'9999-12-31 23:59:59.999999'", LATEST)]),
    Typed("timestamptz", "instant", [("'0001-01-01 00:00:00+00'", _utc(1, 1, 1)), ("'2024-07-01 12:00:00.000001+05:45'", _utc(2024, 7, 1, 6, 15, 0, 1))]),
    Typed("time", "time", [("'12:34:56.789012'", "12:34:56.789012")]),
    Typed("timetz", "zoned time", [("'12:34:56-07:30'", "12:34:56-07:30")]),
    Typed("bytea", "plain", [(f"'\\x{BYTES.hex()}'", BYTES), ("''", b"")]),
    Typed("text", "plain", [("''", ""), (f"convert_from('\\x{TEXT.encode().hex()}', 'UTF8')", TEXT), ("'\\N'", "\\N")]),
    Typed("char(5)", "plain", [("'ab'", "ab   ")]),
    Typed("jsonb", "json", [("'{\"a\": [1, null, \"é🎉\"]}'", '{"a": [1, null, "é🎉"]}'), ("'null'", "null")]),
    Typed("uuid", "uuid", [(f"'{UUID}'", UUID)]),
    Typed("mood", "plain", [("'so, so'", "so, so")]),
    Typed("bit(3)", "plain", [("B'101'", "101")]),
    Typed("inet", "plain", [("'10.0.0.1/8'", "10.0.0.1/8")]),
    Typed("xml", "plain", [("'<a>&amp;</a>'", "<a>&amp;</a>")]),
    Typed("integer[]", "list", [("'{1,NULL,-3}'", [1, None, -3]), ("'{}'", [])]),
    Typed("text[]", "list", [("ARRAY['a,b', '\"q\"', NULL, '', E'\\\\', 'NULL', 'é🎉']", ["a,b", '"q"', None, "", "\\", "NULL", "é🎉"])]),
    Typed("double precision[]", "list", [("'{0.1,NULL}'", [0.1, None])]),
    Typed("boolean[]", "list", [("'{t,f,NULL}'", [True, False, None])]),
)  # fmt: skip

SQLITE: Final = (
    Typed("INTEGER", "plain", [(str(-(2**63)), -(2**63)), (str(2**63 - 1), 2**63 - 1)]),
    Typed("BOOLEAN", "flag", [("1", True), ("0", False)]),
    Typed("REAL", "plain", [("0.1", 0.1), ("5e-324", 5e-324)]),
    Typed("REAL", "plain", [("9e999", math.inf)], NO_SPECIALS),
    Typed("VARCHAR(10)", "plain", [("''", ""), (f"CAST(X'{TEXT.encode().hex()}' AS TEXT)", TEXT)]),
    Typed("TEXT", "plain", [("CAST(X'610062' AS TEXT)", "a\0b")], frozenset({"postgresql"})),
    Typed("BLOB", "plain", [(f"X'{BYTES.hex()}'", BYTES), ("X''", b"")]),
    Typed("DECIMAL(12,2)", "decimal", [("'1.50'", D("1.50")), ("12", D("12.00"))]),
    Typed("DATETIME", "stamp", [("'2024-02-29 12:00:00.123456'", dt.datetime(2024, 2, 29, 12, 0, 0, 123456)), ("'0001-01-01'", dt.datetime(1, 1, 1))]),
    Typed("TIMESTAMP WITH TIME ZONE", "instant", [("'2024-02-29 12:00:00+02:00'", _utc(2024, 2, 29, 10))]),
    Typed("DATE", "date", [("'0001-01-01'", dt.date(1, 1, 1))]),
    Typed("JSON", "json", [("'{\"a\":1}'", '{"a":1}')]),
)  # fmt: skip

TABLES: Final = {"mysql": MYSQL, "postgresql": POSTGRESQL, "sqlite": SQLITE}
"""Columns by the database that has them."""
