"""Every type of each database, with its extremes and nulls, value by value."""

# A case is a line, and times without a zone are meant.
# ruff: noqa: E501, DTZ001

import math
import struct
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from penstock_connector import DataError
from penstock_connector.tables.names import TableId
from penstock_databases.cells import typed
from penstock_databases.sqlite.reading import _as_number

from .conftest import BOTH

D = Decimal
EVERY_BYTE = bytes(range(256))
ODD_TEXT = "a\"b'c,\\d\r\n\te\n\rf%s%%;-- 𝄞🎉é\u202e"
POINT = struct.pack("<BIdd", 1, 1, 1.5, -2.25)


def same(got, wanted):
    if isinstance(wanted, float) and isinstance(got, float):
        return struct.pack("<d", got) == struct.pack("<d", wanted) or (
            math.isnan(got) and math.isnan(wanted)
        )
    if isinstance(wanted, list) and isinstance(got, list):
        return len(got) == len(wanted) and all(map(same, got, wanted))
    return got == wanted and type(got) is type(wanted)


def f32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def instant(*parts):
    return datetime(*parts, tzinfo=UTC)


class Golden:
    """A table with a column for each case; row 0 is null everywhere, row n has each nth value."""

    def __init__(self, database, cases):
        self.database, self.cases = database, cases
        quoted = database.quoted
        columns = [f"{quoted(f'c{n}')} {native} NULL" for n, (native, *_) in enumerate(cases)]
        if database.kind != "mysql":
            columns = [column.removesuffix(" NULL") for column in columns]
        database.sql(f"CREATE TABLE g (k INT PRIMARY KEY, {', '.join(columns)})")
        database.sql("INSERT INTO g (k) VALUES (0)")
        self.height = 1 + max(len(values) for _, _, values in cases)
        for row in range(1, self.height):
            given = [
                (quoted(f"c{n}"), values[row - 1][0])
                for n, (_, _, values) in enumerate(cases)
                if row <= len(values)
            ]
            names, literals = zip(*given, strict=True)
            database.sql(
                f"INSERT INTO g (k, {', '.join(names)}) VALUES ({row}, {', '.join(literals)})"
            )

    def read(self):
        database = self.database
        table = next(
            t for t in database.dialect.tables(database.session, ["TABLE"]) if t.name == "g"
        )
        shape = database.dialect.shape(database.session, table)
        listed = ", ".join(map(database.dialect.selected, shape.columns))
        sql = f"SELECT {listed} FROM {table.sql(database.dialect.naming)} ORDER BY k"
        batches = list(database.dialect.read(database.session, sql, (), shape.columns))
        return pa.Table.from_batches(batches)

    def check(self):
        table = self.read()
        assert table.num_rows == self.height
        for n, (native, kind, values) in enumerate(self.cases):
            field = table.schema.field(f"c{n}")
            assert field.type == kind, native
            got = table.column(f"c{n}").to_pylist()
            wanted = [None, *(value for _, value in values)]
            wanted += [None] * (self.height - len(wanted))
            for one, other in zip(got, wanted, strict=True):
                assert same(one, other), (native, one, other)


def hexed(data):
    return f"X'{data.hex()}'"


MYSQL = [
    ("TINYINT", pa.int8(), [("-128", -128), ("127", 127)]),
    ("TINYINT UNSIGNED", pa.int16(), [("255", 255)]),
    ("SMALLINT UNSIGNED", pa.int32(), [("65535", 65535)]),
    ("MEDIUMINT", pa.int32(), [("-8388608", -8388608)]),
    ("INT UNSIGNED", pa.int64(), [("4294967295", 4294967295)]),
    ("INT(8) UNSIGNED ZEROFILL", pa.int64(), [("7", 7)]),
    ("BIGINT", pa.int64(), [(str(-(2**63)), -(2**63)), (str(2**63 - 1), 2**63 - 1)]),
    ("BIGINT UNSIGNED", pa.decimal128(20, 0), [(str(2**64 - 1), D(2**64 - 1))]),
    ("DECIMAL(12,2)", pa.decimal128(12, 2), [("-9999999999.99", D("-9999999999.99"))]),
    ("DECIMAL(38,18)", pa.decimal128(38, 18), [("12345678901234567890.123456789012345678", D("12345678901234567890.123456789012345678"))]),
    ("DECIMAL(65,30)", pa.string(), [("12345678901234567890123456789012345.123456789012345678901234567890", "12345678901234567890123456789012345.123456789012345678901234567890")]),
    ("FLOAT", pa.float32(), [("0.1", f32(0.1)), ("16777217", f32(16777217)), ("3.4028234e38", f32(3.4028234e38)), ("1.17549435e-38", f32(1.17549435e-38))]),
    ("DOUBLE", pa.float64(), [("0.1", 0.1), ("1.7976931348623157e308", 1.7976931348623157e308), ("5e-324", 5e-324), ("1e0/3e0", 1 / 3)]),
    ("DATE", pa.date32(), [("'0001-01-01'", date(1, 1, 1)), ("'9999-12-31'", date(9999, 12, 31))]),
    ("DATETIME(6)", pa.timestamp("us"), [("'0001-01-01 00:00:00.000001'", datetime(1, 1, 1, 0, 0, 0, 1)), ("'9999-12-31 23:59:59.999999'", datetime(9999, 12, 31, 23, 59, 59, 999999))]),
    ("DATETIME", pa.timestamp("us"), [("'2024-02-29 12:00:00'", datetime(2024, 2, 29, 12))]),
    ("TIMESTAMP(6)", pa.timestamp("us", "UTC"), [("'1970-01-01 00:00:01.000001'", instant(1970, 1, 1, 0, 0, 1, 1)), ("'2038-01-19 03:14:07.999999'", instant(2038, 1, 19, 3, 14, 7, 999999))]),
    ("TIME(6)", pa.string(), [("'-838:59:59.000001'", "-838:59:59.000001"), ("'25:00:00'", "25:00:00.000000")]),
    ("YEAR", pa.int32(), [("1901", 1901), ("0", 0)]),
    ("BIT(1)", pa.bool_(), [("b'1'", True), ("b'0'", False)]),
    ("BIT(12)", pa.int64(), [("b'101010101010'", 0b101010101010)]),
    ("BIT(64)", pa.decimal128(20, 0), [("18446744073709551615", D(2**64 - 1))]),
    ("ENUM('a','b,c','d''e')", pa.string(), [("'b,c'", "b,c"), ("'d''e'", "d'e")]),
    ("SET('x','y','z')", pa.string(), [("'z,x'", "x,z"), ("''", "")]),
    ("JSON", pa.string(), [("'{\"a\": [1, null, \"é\"]}'", '{"a": [1, null, "é"]}')]),
    ("UUID", pa.string(), [("'123e4567-e89b-12d3-a456-426614174000'", "123e4567-e89b-12d3-a456-426614174000")]),
    ("INET6", pa.string(), [("'2001:db8::ff00:42:8329'", "2001:db8::ff00:42:8329")]),
    ("VARCHAR(200)", pa.string(), [("''", ""), (f"CONVERT({hexed(ODD_TEXT.encode())} USING utf8mb4)", ODD_TEXT), ("'a\\0b'", "a\0b"), ("'NULL'", "NULL")]),
    ("VARCHAR(20) CHARACTER SET latin1", pa.string(), [("'ÿé'", "ÿé")]),
    ("CHAR(5)", pa.string(), [("'ab  '", "ab")]),
    ("LONGTEXT", pa.string(), [("REPEAT('é', 70000)", "é" * 70000)]),
    ("BINARY(4)", pa.binary(), [("X'00FF'", b"\0\xff\0\0")]),
    ("LONGBLOB", pa.binary(), [(hexed(EVERY_BYTE), EVERY_BYTE), ("''", b"")]),
    ("POINT", pa.binary(), [("ST_GeomFromText('POINT(1.5 -2.25)')", POINT)]),
]  # fmt: skip


POSTGRESQL = [
    ("smallint", pa.int16(), [("-32768", -32768)]),
    ("integer", pa.int32(), [("2147483647", 2147483647)]),
    ("bigint", pa.int64(), [(str(-(2**63)), -(2**63)), (str(2**63 - 1), 2**63 - 1)]),
    ("oid", pa.int64(), [("4294967295", 4294967295)]),
    ("numeric(12,2)", pa.decimal128(12, 2), [("-9999999999.99", D("-9999999999.99"))]),
    ("numeric(38,18)", pa.decimal128(38, 18), [("12345678901234567890.123456789012345678", D("12345678901234567890.123456789012345678"))]),
    ("numeric(65,30)", pa.string(), [("12345678901234567890123456789012345.123456789012345678901234567890", "12345678901234567890123456789012345.123456789012345678901234567890")]),
    ("numeric", pa.string(), [("1e40", "1" + "0" * 40), ("'NaN'", "NaN"), ("0.10", "0.10")]),
    ("numeric(3,5)", pa.string(), [("0.00123", "0.00123")]),
    ("numeric(3,-2)", pa.string(), [("12345", "12300")]),
    ("real", pa.float32(), [("0.1", f32(0.1)), ("'NaN'", math.nan), ("'-Infinity'", -math.inf), ("'-0'", -0.0)]),
    ("double precision", pa.float64(), [("0.1", 0.1), ("'NaN'", math.nan), ("'Infinity'", math.inf), ("'-0'", -0.0), ("5e-324", 5e-324), ("1.7976931348623157e308", 1.7976931348623157e308)]),
    ("boolean", pa.bool_(), [("true", True), ("false", False)]),
    ("date", pa.date32(), [("'0001-01-01'", date(1, 1, 1)), ("'9999-12-31'", date(9999, 12, 31))]),
    ("timestamp", pa.timestamp("us"), [("'0001-01-01 00:00:00.000001'", datetime(1, 1, 1, 0, 0, 0, 1)), ("'9999-12-31 23:59:59.999999'", datetime(9999, 12, 31, 23, 59, 59, 999999)), ("'2024-02-29 12:00:00'", datetime(2024, 2, 29, 12))]),
    ("timestamptz", pa.timestamp("us", "UTC"), [("'1970-01-01 00:00:00.000001+00'", instant(1970, 1, 1, 0, 0, 0, 1)), ("'2024-07-01 12:00:00+05:45'", instant(2024, 7, 1, 6, 15)), ("'0001-01-01 00:00:00+00'", instant(1, 1, 1))]),
    ("time", pa.string(), [("'24:00:00'", "24:00:00"), ("'12:34:56.789012'", "12:34:56.789012")]),
    ("timetz", pa.string(), [("'12:34:56-07:30'", "12:34:56-07:30")]),
    ("interval", pa.string(), [("'-1 year 2 days 03:04:05.000006'", "P-1Y2DT3H4M5.000006S")]),
    ("bytea", pa.binary(), [(f"'\\x{EVERY_BYTE.hex()}'", EVERY_BYTE), ("''", b"")]),
    ("text", pa.string(), [("''", ""), (f"convert_from('\\x{ODD_TEXT.encode().hex()}', 'UTF8')", ODD_TEXT), ("'\\.'", "\\."), ("'\\N'", "\\N"), ("'NULL'", "NULL"), ("' '", " ")]),
    ("varchar(20)", pa.string(), [("'𝄞🎉'", "𝄞🎉")]),
    ("char(5)", pa.string(), [("'ab'", "ab   ")]),
    ('text COLLATE "C"', pa.string(), [("repeat('é', 70000)", "é" * 70000)]),
    ("json", pa.string(), [("'{\"a\":  [1, null]}'", '{"a":  [1, null]}')]),
    ("jsonb", pa.string(), [("'{\"b\":1,\"a\":\"é\"}'", '{"a": "é", "b": 1}')]),
    ("uuid", pa.string(), [("'123e4567-e89b-12d3-a456-426614174000'", "123e4567-e89b-12d3-a456-426614174000")]),
    ("mood", pa.string(), [("'so, so'", "so, so")]),
    ("money_amount", pa.decimal128(10, 2), [("12.50", D("12.50"))]),
    ("bit(3)", pa.string(), [("B'101'", "101")]),
    ("inet", pa.string(), [("'10.0.0.1/8'", "10.0.0.1/8")]),
    ("xml", pa.string(), [("'<a>&amp;</a>'", "<a>&amp;</a>")]),
    ("int4range", pa.string(), [("'[1,5)'", "[1,5)")]),
    ("integer[]", pa.list_(pa.field("item", pa.int32())), [("'{1,NULL,-3}'", [1, None, -3]), ("'{}'", [])]),
    ("text[]", pa.list_(pa.field("item", pa.string())), [("ARRAY['a,b', '\"q\"', NULL, '', '{x}', E'\\\\', 'NULL', 'é🎉']", ["a,b", '"q"', None, "", "{x}", "\\", "NULL", "é🎉"])]),
    ("numeric(10,2)[]", pa.list_(pa.field("item", pa.decimal128(10, 2))), [("'{1.50,NULL}'", [D("1.50"), None])]),
    ("double precision[]", pa.list_(pa.field("item", pa.float64())), [("'{0.1,NaN,-Infinity}'", [0.1, math.nan, -math.inf])]),
    ("timestamptz[]", pa.list_(pa.field("item", pa.timestamp("us", "UTC"))), [("ARRAY['2024-07-01 12:00:00+02'::timestamptz, NULL]", [instant(2024, 7, 1, 10), None])]),
    ("boolean[]", pa.list_(pa.field("item", pa.bool_())), [("'{t,f,NULL}'", [True, False, None])]),
    ("bytea[]", pa.list_(pa.field("item", pa.binary())), [("ARRAY['\\x00ff'::bytea, NULL]", [b"\0\xff", None])]),
]  # fmt: skip


SQLITE = [
    ("INTEGER", pa.int64(), [(str(-(2**63)), -(2**63)), (str(2**63 - 1), 2**63 - 1), ("7.0", 7)]),
    ("BOOLEAN", pa.bool_(), [("1", True), ("0", False), ("'true'", True), ("'f'", False)]),
    ("REAL", pa.float64(), [("0.1", 0.1), ("9e999", math.inf), ("3", 3.0), ("5e-324", 5e-324)]),
    ("VARCHAR(10)", pa.string(), [("''", ""), (f"CAST({hexed(ODD_TEXT.encode())} AS TEXT)", ODD_TEXT), ("12", "12")]),
    ("BLOB", pa.binary(), [(hexed(EVERY_BYTE), EVERY_BYTE), ("X''", b""), ("'text'", b"text")]),
    ("DECIMAL(12,2)", pa.decimal128(12, 2), [("'1.50'", D("1.50")), ("12", D("12.00")), ("0.1", D("0.10"))]),
    ("DATETIME", pa.timestamp("us"), [("'2024-02-29 12:00:00.123456'", datetime(2024, 2, 29, 12, 0, 0, 123456)), ("'2024-02-29T12:00:00Z'", datetime(2024, 2, 29, 12)), ("1709208000123", datetime(2024, 2, 29, 12, 0, 0, 123000)), ("1709208000", datetime(2024, 2, 29, 12)), ("'0001-01-01'", datetime(1, 1, 1))]),
    ("TIMESTAMP WITH TIME ZONE", pa.timestamp("us", "UTC"), [("'2024-02-29 12:00:00+02:00'", instant(2024, 2, 29, 10))]),
    ("DATE", pa.date32(), [("'0001-01-01'", date(1, 1, 1)), ("1709208000123", date(2024, 2, 29))]),
    ("JSON", pa.string(), [("'{\"a\": 1}'", '{"a": 1}')]),
    ("", pa.string(), [("1.5", "1.5")]),
]  # fmt: skip


def test_mysql(mysql):
    Golden(mysql, MYSQL).check()


def test_postgresql(postgresql):
    postgresql.sql("CREATE TYPE mood AS ENUM ('so, so', 'ok')")
    postgresql.sql("CREATE DOMAIN money_amount AS numeric(10,2)")
    Golden(postgresql, POSTGRESQL).check()


def test_sqlite(sqlite):
    Golden(sqlite, SQLITE).check()


@pytest.mark.parametrize("text", ["1e-77", "1e-999999999", "1e999999999", "1.505", "NaN"])
def test_a_text_of_sqlite_that_its_decimal_cannot_be_is_told(text):
    """Arrow takes some of them for others, and dies of some."""
    to = pa.field("d", pa.decimal128(12, 2))
    cell = _as_number(text.encode(), to, "fail")
    with pytest.raises(DataError, match=r"sql\.odd_value"):
        typed(pa.array([cell]), to, "fail")


@BOTH
@pytest.mark.parametrize(
    ("odd", "wanted"),
    [
        ("null", [None, None, date(2024, 1, 1)]),
        ("round", [date(1, 1, 1), date(1, 1, 1), date(2024, 1, 1)]),
        ("fail", None),
    ],
)
def test_dates_of_zeros(mysql, read, odd, wanted):
    mysql.sql("CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, d DATE)")
    mysql.sql("SET SESSION sql_mode = ''")
    mysql.sql("INSERT INTO t (d) VALUES ('0000-00-00'), ('2024-00-15'), ('2024-01-01')")
    reader = read(mysql.keys(mode="incrementing", odd_values=odd))
    if wanted is None:
        with pytest.raises(DataError, match=r"sql\.odd_value"):
            reader.take(3)
        return
    assert [row["d"] for row in reader.take(3)] == wanted


@pytest.mark.parametrize(
    ("native", "literal", "rounded"),
    [
        ("timestamptz", "'infinity'", instant(9999, 12, 31, 23, 59, 59, 999999)),
        ("timestamp", "'-infinity'", datetime(1, 1, 1)),
        ("timestamp", "'0044-03-15 12:00:00 BC'", datetime(1, 1, 1)),
        ("date", "'12345-01-01'", date(9999, 12, 31)),
        (
            "timestamp[]",
            "ARRAY['infinity'::timestamp]",
            [datetime(9999, 12, 31, 23, 59, 59, 999999)],
        ),
        ("numeric(5,2)", "'NaN'", None),
        ("integer[]", "'{{1,2},{3,4}}'", None),
    ],
)
def test_values_that_rows_cannot_have(postgresql, read, native, literal, rounded):
    postgresql.sql(f"CREATE TABLE t (id serial PRIMARY KEY, a integer, v {native})")
    postgresql.sql(f"INSERT INTO t (a, v) VALUES (1, NULL), (2, {literal}), (3, NULL)")
    keys = postgresql.keys(mode="incrementing", incrementing_column_name="id")
    with pytest.raises(DataError, match=r"sql\.odd_value"):
        read(keys).take(3)
    rows = read({**keys, "odd.values": "null"}).take(3)
    empty = [None] if native == "timestamp[]" else None
    assert [row["v"] for row in rows] == [None, empty, None]
    assert [row["a"] for row in rows] == [1, 2, 3]
    rows = read({**keys, "odd.values": "round"}).take(3)
    assert [row["v"] for row in rows] == [None, rounded, None]


def test_a_column_of_one_null_is_a_row(postgresql):
    postgresql.sql("CREATE TABLE n (v text)")
    postgresql.sql("INSERT INTO n VALUES (NULL), (''), (NULL), ('x')")
    shape = postgresql.dialect.shape(postgresql.session, TableId("n", schema="public"))
    batches = postgresql.dialect.read(postgresql.session, "SELECT v FROM n", (), shape.columns)
    assert [v for batch in batches for v in batch.column(0).to_pylist()] == [None, "", None, "x"]
