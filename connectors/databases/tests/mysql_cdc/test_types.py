"""Values of all types: a row that the log brings equals the row that a SELECT brings, type for
type, and both are what was written.
"""

# A DATETIME is a date and time somewhere; nobody says where.
# ruff: noqa: DTZ001

import datetime as dt
import decimal
import struct

import pytest

from penstock_values.semantic_types import semantic_type

from .conftest import BOTH

UTC = dt.UTC
D = decimal.Decimal

COLUMNS = {
    "t8": ("TINYINT", -128, 127),
    "u8": ("TINYINT UNSIGNED", 0, 255),
    "t16": ("SMALLINT", -32768, 32767),
    "u16": ("SMALLINT UNSIGNED", 0, 65535),
    "t24": ("MEDIUMINT", -8388608, 8388607),
    "u24": ("MEDIUMINT UNSIGNED", 0, 16777215),
    "t32": ("INT", -(2**31), 2**31 - 1),
    "u32": ("INT UNSIGNED ZEROFILL", 0, 2**32 - 1),
    "t64": ("BIGINT", -(2**63), 2**63 - 1),
    "u64": ("BIGINT UNSIGNED", D(0), D(2**64 - 1)),
    "d12": ("DECIMAL(12,2)", D("-9999999999.99"), D("0.01")),
    "d18": ("DECIMAL(18,9)", D("-0.000000001"), D("999999999.999999999")),
    "d19": ("DECIMAL(19,0)", D("-9999999999999999999"), D(10)),
    "d38": ("DECIMAL(38,20)", D("-123456789012345678.00000000000000000001"), D("1E-20")),
    "d65": ("DECIMAL(65,30)", "-" + "9" * 35 + "." + "1" * 30, "0." + "0" * 30),
    "dz": ("DECIMAL(5,5)", D("-0.00001"), D("0.99999")),
    "f4": ("FLOAT", -1.5, struct.unpack("f", struct.pack("f", 0.1))[0]),
    "f8": ("DOUBLE", -1.7976931348623157e308, 0.1),
    "bit1": ("BIT(1)", True, False),
    "bit9": ("BIT(9)", 511, 1),
    "bit64": ("BIT(64)", D(2**64 - 1), D(1)),
    "y": ("YEAR", 1901, 2155),
    "da": ("DATE", dt.date(1, 1, 1), dt.date(9999, 12, 31)),
    "ti0": ("TIME", "-838:59:59", "00:00:00"),
    "ti3": ("TIME(3)", "-00:00:00.001", "838:59:58.999"),
    "ti6": ("TIME(6)", "-838:59:58.999999", "25:00:00.000001"),
    "dt0": ("DATETIME", dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59)),
    "dt1": ("DATETIME(1)", dt.datetime(1969, 12, 31, 23, 59, 59, 900000),
            dt.datetime(2024, 2, 29, 1, 2, 3, 100000)),
    "dt6": ("DATETIME(6)", dt.datetime(1000, 1, 1, 0, 0, 0, 1),
            dt.datetime(9999, 12, 31, 23, 59, 59, 999999)),
    "ts0": ("TIMESTAMP NULL", dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
            dt.datetime(2038, 1, 19, 3, 14, 7, tzinfo=UTC)),
    "ts6": ("TIMESTAMP(6) NULL", dt.datetime(2000, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
            dt.datetime(2038, 1, 19, 3, 14, 7, 999999, tzinfo=UTC)),
    "c": ("CHAR(10)", "", "ä😀 x"),
    "v": ("VARCHAR(64)", "a\0b'\"\\%", "😀" * 64),
    "vl": ("VARCHAR(5000)", "x" * 5000, ""),
    "l1": ("VARCHAR(50) CHARACTER SET latin1", "é€ÿ", "plain"),
    "l2": ("VARCHAR(50) CHARACTER SET latin2", "łódź", ""),
    "u16t": ("VARCHAR(50) CHARACTER SET utf16", "a😀", "é"),
    "sj": ("VARCHAR(50) CHARACTER SET sjis", "日本", "x"),
    "asci": ("CHAR(3) CHARACTER SET ascii", "abc", ""),
    "b": ("BINARY(8)", b"\0\1\xff" + bytes(5), b"12345678"),
    "b16": ("BINARY(16)", bytes(16), b"\xff" * 16),
    "vb": ("VARBINARY(300)", b"\0\xff\0", b""),
    "bl": ("BLOB", bytes(range(256)), b""),
    "tb": ("TINYBLOB", b"\0", b"\xff" * 255),
    "mb": ("MEDIUMBLOB", b"m" * 70000, b"\0"),
    "lb": ("LONGBLOB", b"l" * 70000, b"\0"),
    "tx": ("TEXT", "😀", ""),
    "lt": ("LONGTEXT CHARACTER SET latin1", "é" * 3000, ""),
    "e": ("ENUM('a','é','it''s, so')", "it's, so", "é"),
    "s": ("SET('x','y','it''s')", "x,it's", ""),
    "j": ("JSON", '{"a": [1, "é", null]}', "[]"),
    "uu": ("UUID", "123e4567-e89b-12d3-a456-426655440000", "ffffffff-ffff-ffff-ffff-ffffffffffff"),
    "i6": ("INET6", "::ffff:1.2.3.4", "2001:db8::"),
    "i4": ("INET4", "1.2.3.0", "255.255.255.255"),
    "vc": ("VARCHAR(2000) COMPRESSED", "abc" * 400, "é"),
    "bc": ("BLOB COMPRESSED", b"\0" * 3000, b"\1"),
}  # fmt: skip


MARIADB_ALONE = ("UUID", "INET6", "INET4", "COMPRESSED")


def _columns(db):
    """The columns that the server has types for."""
    left_out = MARIADB_ALONE if db.is_mysql else ()
    return {name: column for name, column in COLUMNS.items() if not column[0].endswith(left_out)}


def _text(name, value):
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=None).isoformat(" ")
    if name.startswith("bit"):
        return int(value)
    return value


def _insert(db, table):
    names = list(_columns(db))
    for id_, which in ((1, 1), (2, 2), (3, None)):
        values = [None if which is None else _text(n, COLUMNS[n][which]) for n in names]
        places = ", ".join(["%s"] * len(names))
        db.sql(f"INSERT INTO {table} (id, {', '.join(names)}) VALUES (%s, {places})", id_, *values)


def _create(db, table):
    columns = ", ".join(f"{name} {kind[0]}" for name, kind in _columns(db).items())
    db.sql(f"CREATE TABLE {table} (id INT PRIMARY KEY, {columns})")


@pytest.fixture
def both(db, run):
    """Return the rows and the schemas that the snapshot and the log give of the same values."""
    _create(db, "old")
    _insert(db, "old")
    with run(db.config()) as host:
        host.until(lambda: len(host.rows) == 3)
        _create(db, "fresh")
        _insert(db, "fresh")
        host.until(lambda: len(host.rows) == 6)
        old, fresh = (
            next(f.schema for f in host.task.seen if f.HasField("schema") and f.schema.dataset == n)
            for n in (f"{db.name}.old", f"{db.name}.fresh")
        )
        schemas = host.task.schemas[old.schema_id], host.task.schemas[fresh.schema_id]
    return host, schemas


@BOTH
def test_a_row_of_the_log_is_the_row_of_a_select_and_what_was_written(db, both):
    host, (old, fresh) = both
    selected, logged = host.mirror[f"{db.name}.old"], host.mirror[f"{db.name}.fresh"]
    for name, (kind, first, second) in _columns(db).items():
        for id_, wanted in ((1, first), (2, second), (3, None)):
            assert logged[id_,][name] == wanted, (name, kind, "log")
            assert selected[id_,][name] == wanted, (name, kind, "select")
        mine, other = old.field(name), fresh.field(name)
        assert (mine.type, semantic_type(mine)) == (other.type, semantic_type(other)), name
    assert old.equals(fresh, check_metadata=True)
