"""What stands in a log is read as it was meant: recorded events, and values of every kind."""

# A DATETIME is a date and time somewhere; nobody says where.

import contextlib
import datetime as dt
import decimal
import json
import struct
import zlib

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock_connector import ConnectorError, Op
from penstock_connector.tables.columns import Shape
from penstock_connector.tables.names import TableId
from penstock_databases.mysql.catalog import Column
from penstock_databases.mysql.types import row_field
from penstock_databases.mysql_cdc import events, rows, statements
from penstock_databases.mysql_cdc.arena import Arena
from penstock_databases.mysql_cdc.binaryjson import json_text
from penstock_databases.mysql_cdc.events import Event, Kind
from penstock_databases.mysql_cdc.gathering import Gathering, Table, batch_schema
from penstock_databases.mysql_cdc.layouts import layout_of
from penstock_databases.mysql_cdc.numbers import Decimals, decimal_width
from penstock_databases.mysql_cdc.position import Gtids, Place
from penstock_databases.mysql_cdc.statements import Means, understood
from penstock_databases.mysql_cdc.tablemap import parse

D = decimal.Decimal
UTC = dt.UTC

# recorded from MariaDB 10.11: one row of values, one of nulls, which is updated and deleted
MAP = bytes.fromhex(
    "0167000174000f080ff6110ffefe10130d0a04fffefe1400010c02060900f701f8010201030404fe10fe04fe7f01"
    "01a002053f002d0108070101042a026964046e616d65057072696365026174016c01650173016202746901790264"
    "610166016701750262690a012d0505020178017906050201610162080100"
)
WRITE = bytes.fromhex(
    "0080ffffffffffffffff0600c3a9f09f98807ffffffff3dd65e071c000000101e9020302017fef7cffd87c9f9f0f"
    "0000c03f19000000000000000101000000000000000000f03f00000000000000400e123e4567e89b12d3a4564266"
    "55440101feff0100000000000000"
)
UPDATE = bytes.fromhex("feff0100000000000000fcff0100000000000000010078")
DELETE = bytes.fromhex("fcff0100000000000000010078")


class FakeServer:
    """A server whose answers are known."""

    def charset(self, collation):
        return {8: "latin1", 45: "utf8mb4"}[collation]

    def decode(self, charset):
        assert charset == "latin1"
        return lambda data: data.decode("cp1252")

    def shape(self, database, table):
        return Shape(
            TableId(table, catalog=database), (Column("u", "uuid", row_field("u", "uuid")),)
        )


@pytest.fixture
def table():
    layout = layout_of(parse(MAP, mariadb=True), FakeServer(), "null")
    return Table("g", "t", "g.t", layout, batch_schema(layout.fields, before=True))


def as_is(table, changes):
    return changes


def test_recorded_events(table):
    gathering = Gathering(before=True)
    assert gathering.add(table, Op.CREATE, WRITE, 5, 1) == 2
    assert gathering.add(table, Op.UPDATE, UPDATE, 6, 2) == 1
    assert gathering.add(table, Op.DELETE, DELETE, 7, 3) == 1
    (batch,) = gathering.take(as_is)
    first, second, updated, deleted = batch.rows.to_pylist()
    assert first == {
        "id": D(2**64 - 1), "name": "é😀", "price": D("-12.34"),
        "at": dt.datetime(2024, 2, 29, 12, 0, 0, 1, UTC), "l": "é", "e": "b", "s": "x,y",
        "b": 513, "ti": "-01:02:03.004", "y": 2024, "da": dt.date(1999, 12, 31), "f": 1.5,
        "g": struct.pack("<BIdd", 1, 1, 1, 2), "u": "123e4567-e89b-12d3-a456-426655440000",
        "bi": b"\1\0\0\0", "__op": Op.CREATE, "__ts_us": 5, "__before": None,
    }  # fmt: skip
    assert {v for n, v in second.items() if n != "id" and not n.startswith("__")} == {None}
    assert (updated["name"], updated["__before"]["name"], updated["__op"]) == ("x", None, Op.UPDATE)
    assert (deleted["name"], deleted["__op"], deleted["__ts_us"]) == ("x", Op.DELETE, 7)
    assert batch.key_columns == ("id",)


def test_rows_that_were_given_are_skipped(table):
    gathering = Gathering(before=True)
    assert gathering.add(table, Op.CREATE, WRITE, 5, 1, 1) == 2
    assert gathering.add(table, Op.UPDATE, UPDATE, 6, 2, 9) == 1
    (batch,) = gathering.take(as_is)
    assert [row["id"] for row in batch.rows.to_pylist()] == [D(1)]


@pytest.mark.parametrize("cut", [1, 9, 20, 40, len(WRITE) - 1])
def test_rows_that_are_cut_off_are_an_error(table, cut):
    with pytest.raises(ConnectorError, match=r"cdc\.event_corrupt"):
        Gathering(before=True).add(table, Op.CREATE, WRITE[:cut], 5, 1)


# ── values ───────────────────────────────────────────────────────────────────────────────────────


def packed_decimal(value, precision, scale):
    """Return a decimal as the log has it, by the letter of its description."""
    with decimal.localcontext(prec=80):
        digits = str(int(abs(value).scaleb(scale))).rjust(precision, "0")
    whole = precision - scale
    left, right = digits[:whole], digits[whole:]
    head = len(left) % 9
    groups = [left[:head], *(left[n : n + 9] for n in range(head, len(left), 9))]
    groups += [right[n : n + 9] for n in range(0, len(right), 9)]
    data = b"".join(
        int(group).to_bytes((0, 1, 1, 2, 2, 3, 3, 4, 4, 4)[len(group)], "big")
        for group in groups
        if group
    )
    data = bytes([data[0] ^ 0x80]) + data[1:]
    return bytes(byte ^ 0xFF for byte in data) if value.is_signed() and value else data


@st.composite
def decimals(draw):
    precision = draw(st.integers(1, 65))
    scale = draw(st.integers(0, min(precision, 38)))
    most = 10**precision - 1
    numbers = draw(st.lists(st.integers(-most, most), min_size=1, max_size=5))
    with decimal.localcontext(prec=80):
        return precision, scale, [D(number).scaleb(-scale) for number in numbers]


@given(decimals())
def test_decimals_of_any_size(case):
    precision, scale, wanted = case
    data = b"".join(packed_decimal(value, precision, scale) for value in wanted)
    width = decimal_width(precision, scale)
    assert len(data) == width * len(wanted)
    kind = row_field("d", f"decimal({precision},{scale})").type
    at = np.arange(len(wanted), dtype=np.int64) * width
    found = Decimals(precision, scale, kind).values(Arena(data), at, None)
    texts = [f"{value:.{scale}f}" for value in wanted]
    if pa.types.is_string(kind):
        zero = f"{0:.{scale}f}"
        pairs = zip(texts, wanted, strict=True)
        assert found.to_pylist() == [text if value else zero for text, value in pairs]
    else:
        found.validate(full=True)
        assert found.to_pylist() == wanted


STEPS = st.one_of(
    st.tuples(st.integers(1, 9), st.just(0)), st.tuples(st.just(0), st.integers(1, 4))
)


@given(st.lists(STEPS, min_size=1, max_size=20), st.data())
def test_walks_find_where_rows_begin_whatever_is_null(steps, data):
    bitmap = (len(steps) + 7) // 8
    made, wanted = bytearray(), []
    for _ in range(data.draw(st.integers(1, 6))):
        wanted.append(len(made))
        nulls = data.draw(st.integers(0, (1 << len(steps)) - 1))
        unused = -1 << len(steps) & (1 << 8 * bitmap) - 1  # servers set the bits of no column
        made += (nulls | unused).to_bytes(bitmap, "little")
        for place, (width, prefix) in enumerate(steps):
            if nulls >> place & 1:
                continue
            size = data.draw(st.integers(0, 300 if prefix > 1 else 255)) if prefix else width
            length = size.to_bytes(prefix, "little") if prefix else b""
            made += length + b"\xff" * size
    found = []
    assert rows.walker(steps)(made, 0, len(made), found.append) == len(made)
    assert found == wanted


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=200),
    lambda inner: (
        st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=9), inner, max_size=5)
    ),
    max_leaves=20,
)  # fmt: skip


def binary_json(value):
    """Return type and bytes of a value, by the letter of MySQL's description; always large."""
    match value:
        case None | bool():
            return 4, bytes([{None: 0, True: 1, False: 2}[value]])
        case int():
            kind, form = (9, "<q") if value < 2**63 else (10, "<Q")
            return kind, struct.pack(form, value)
        case float():
            return 11, struct.pack("<d", value)
        case str():
            data = value.encode()
            size, prefix = len(data), b""
            while True:
                prefix += bytes([size & 0x7F | (0x80 if size > 0x7F else 0)])
                size >>= 7
                if not size:
                    return 12, prefix + data
    keys = [key.encode() for key in value] if isinstance(value, dict) else []
    values = list(value.values()) if isinstance(value, dict) else value
    at = 8 + len(keys) * 6 + len(values) * 5
    heads, tail = b"", b""
    for key in keys:
        heads += struct.pack("<IH", at + len(tail), len(key))
        tail += key
    for inner in values:
        kind, data = binary_json(inner)
        if kind == 4:
            heads += struct.pack("<BI", 4, data[0])
        else:
            heads += struct.pack("<BI", kind, at + len(tail))
            tail += data
    body = struct.pack("<II", len(values), at + len(tail)) + heads + tail
    return (1 if isinstance(value, dict) else 3), body


@given(JSON)
def test_binary_json_is_the_text_of_the_same_value(value):
    kind, data = binary_json(value)
    text = json_text(bytes([kind]) + data)
    assert json.loads(text) == value
    if isinstance(value, dict | list) and value:
        assert ", " in text or len(value) == 1


def test_json_has_what_json_has_not():
    stamp = (((2024 * 13 + 2) << 5 | 29) << 17 | 12 << 12 | 3 << 6 | 4) << 24 | 5
    assert json_text(bytes([15, 12, 8]) + stamp.to_bytes(8, "little")) == (
        '"2024-02-29 12:03:04.000005"'
    )
    number = packed_decimal(D("-12.340"), 5, 3)
    assert json_text(bytes([15, 246, len(number) + 2, 5, 3]) + number) == "-12.340"
    assert json_text(bytes([15, 252, 2]) + b"ab") == '"base64:type252:YWI="'
    assert json_text(b"") == "null"
    with pytest.raises(ConnectorError, match=r"cdc\.event_corrupt"):
        json_text(bytes([3, 9, 0, 0]))


@given(st.binary(max_size=200))
def test_json_that_is_broken_never_ends_otherwise(data):
    with contextlib.suppress(ConnectorError):
        assert isinstance(json_text(data), str)


# ── events ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("size", [0, 1, 255, 256, 70_000])
def test_what_mariadb_compresses(size):
    plain = b"ab" * size
    width = max((len(plain).bit_length() + 7) // 8, 1)
    data = bytes([0x80 | width]) + len(plain).to_bytes(width, "big") + zlib.compress(plain)
    assert events.inflated(data) == plain


@given(st.binary(max_size=64))
def test_what_is_not_compressed_is_an_error(data):
    with pytest.raises(ConnectorError, match=r"cdc\.event_corrupt"):
        events.inflated(data)


def test_a_transaction_that_mysql_compressed():
    inner = b""
    for kind, body in ((Kind.TABLE_MAP, b"map"), (Kind.WRITE, b"rows"), (Kind.XID, b"x" * 8)):
        inner += events.HEAD.pack(7, kind, 1, events.HEAD.size + len(body), 0, 0) + body
    packed = pa.compress(inner, "zstd", asbytes=True)
    size = len(inner)
    body = bytes([2, 1, 0, 3, 3, 0xFC, *size.to_bytes(2, "little"), 1, 1, len(packed) & 0x7F, 0])
    event = Event(Kind.TRANSACTION_PAYLOAD, 7, 99, 0, body + packed, 0, len(body) + len(packed))
    found = [(one.kind, one.body, one.end) for one in events.payload(event)]
    assert found == [(19, b"map", 99), (30, b"rows", 99), (16, b"x" * 8, 99)]


def test_gtids():
    sid = bytes(range(16))
    body = b"\0" + sid + (77).to_bytes(8, "little") + b"\2" + bytes(16) + (1_700_000_000_123_456
        ).to_bytes(7, "little")  # fmt: skip
    text = "00010203-0405-0607-0809-0a0b0c0d0e0f"
    assert events.mysql_gtid(body) == (f"{text}:77", 1_700_000_000_123_456)
    mysql = Gtids(f"{text.upper()}:1-75:80,\n{text[:-1]}0:1", mariadb=False)
    for number in (77, 76):
        mysql.add(f"{text}:{number}")
    assert str(mysql) == f"{text[:-1]}0:1,{text}:1-77:80"
    mariadb = Gtids("0-1-5,3-2-9", mariadb=True)
    mariadb.add("0-7-6")
    assert str(mariadb) == "0-7-6,3-2-9"


def test_places_grow_along_the_log():
    places = [Place("b.000009", 900), Place("b.000010", 4), Place("b.000010", 1 << 33),
              Place("b.1000000", 4)]  # fmt: skip
    numbers = [place.number for place in places]
    assert numbers == sorted(numbers)
    assert numbers[-1] < 1 << 63


# ── statements ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "means", "tables"),
    [
        ("BEGIN", Means.BEGIN, ()),
        ("  /* by us */ begin", Means.BEGIN, ()),
        ("COMMIT", Means.COMMIT, ()),
        ("ROLLBACK", Means.ROLLBACK, ()),
        ("ROLLBACK TO `s`", Means.NOTHING, ()),
        ("ROLLBACK WORK TO SAVEPOINT s", Means.NOTHING, ()),
        ("SAVEPOINT `s`", Means.NOTHING, ()),
        ("TRUNCATE t", Means.TRUNCATE, (("d", "t"),)),
        ("truncate table `o``d`.`t;--`", Means.TRUNCATE, (("o`d", "t;--"),)),
        ("TRUNCATE TABLE `a/*b*/`", Means.TRUNCATE, (("d", "a/*b*/"),)),
        ("CREATE OR REPLACE TABLE IF NOT EXISTS x.y (id INT)", Means.TABLES, (("x", "y"),)),
        ("CREATE /*!40000 IF */ TABLE t (`TO` INT)", Means.TABLES, (("d", "t"),)),
        ("ALTER TABLE `t` ADD c INT", Means.TABLES, (("d", "t"),)),
        ("DROP TABLE IF EXISTS `a`, `b`.`c` /* generated by server */", Means.TABLES,
         (("d", "a"), ("b", "c"))),
        ("CREATE INDEX i ON t (a)", Means.NOTHING, ()),
        ("CREATE DATABASE x", Means.NOTHING, ()),
        ("INSERT IGNORE INTO t VALUES (1)", Means.ROWS, (("d", "t"),)),
        ("UPDATE `x`.`t` SET a = 1", Means.ROWS, (("x", "t"),)),
        ("DELETE FROM t", Means.ROWS, (("d", "t"),)),
        ("GRANT ALL ON t TO u", Means.NOTHING, ()),
        ("", Means.NOTHING, ()),
    ],
)  # fmt: skip
def test_what_statements_mean(text, means, tables):
    found = understood("d", text)
    assert (found.means, found.tables) == (means, tables)


@pytest.mark.parametrize(
    ("text", "renamed"),
    [
        ("RENAME TABLE a TO b, x.c TO `d e`", ((("d", "a"), ("d", "b")),
                                               (("x", "c"), ("d", "d e")))),
        ("ALTER TABLE a RENAME TO b", ((("d", "a"), ("d", "b")),)),
        ("ALTER TABLE x.a RENAME b", ((("x", "a"), ("x", "b")),)),
        ("ALTER TABLE a RENAME COLUMN b TO c", ()),
    ],
)  # fmt: skip
def test_renamed_tables(text, renamed):
    assert understood("d", text).renamed == renamed


@pytest.mark.parametrize(
    ("text", "means", "xid"),
    [
        ("XA COMMIT X'6f6e65',X'',1", Means.XA_COMMIT, "X'6f6e65',X'',1"),
        ("XA ROLLBACK 'one'", Means.XA_ROLLBACK, "X'6f6e65',X'',1"),
        ("XA START X'01',X'02',7", Means.XA_BEGIN, "X'01',X'02',7"),
        ("XA COMMIT 'one' ONE PHASE", Means.COMMIT, ""),
        ("XA END 'one'", Means.NOTHING, ""),
    ],
)
def test_names_of_prepared_transactions(text, means, xid):
    found = understood("d", text)
    assert (found.means, found.xid) == (means, xid)


@given(st.text(max_size=60))
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_any_text_is_some_statement(text):
    assert isinstance(understood("d", text), statements.Statement)
