"""Values of every type reach the database as they are, or the one row is refused."""

# Wall clocks have no zone: that is what is tested.
# ruff: noqa: DTZ001

import datetime as dt
import uuid
from decimal import Decimal

import pyarrow as pa
import pytest

from penstock_values.semantic_types import SEMANTIC_TYPE_KEY

CREATE = {"auto_create": "true", "pk_mode": "record_value", "pk_fields": "id"}
D = Decimal
UTC = dt.UTC


def field(name, kind, meaning=""):
    return pa.field(name, kind, metadata={SEMANTIC_TYPE_KEY: meaning} if meaning else None)


def batch(*columns):
    """Columns as (field, values); a key is put before them."""
    count = len(columns[0][1])
    fields = [pa.field("id", pa.int64()), *(f for f, _ in columns)]
    arrays = [pa.array(range(count), pa.int64()), *(pa.array(v, f.type) for f, v in columns)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


TEXT = "tab\t newline\n return\r back\\slash \\N quote' \" `percent% %s 🎉 \u0001 äöü $1 {x}"
LONG = "9" * 37 + "8"
PLAIN = [
    (field("i8", pa.int8()), [-128, 127, None]),
    (field("i16", pa.int16()), [-(2**15), 2**15 - 1, None]),
    (field("i32", pa.int32()), [-(2**31), 2**31 - 1, None]),
    (field("i64", pa.int64()), [-(2**63), 2**63 - 1, None]),
    (field("u8", pa.uint8()), [0, 255, None]),
    (field("u16", pa.uint16()), [0, 2**16 - 1, None]),
    (field("u32", pa.uint32()), [0, 2**32 - 1, None]),
    (field("f64", pa.float64()), [0.1, -1.7976931348623157e308, None]),
    (field("text", pa.string()), [TEXT, "", None]),
    (field("null", pa.string()), ["\\N", "NULL", None]),
    (field("bytes", pa.binary()), [bytes(range(256)), b"", None]),
    (field("big", pa.large_string()), ["x" * 70_000, "🎉", None]),
]
MOMENTS = [
    (field("day", pa.date32()), [dt.date(1, 1, 1), dt.date(9999, 12, 31), None]),
    (
        field("at", pa.timestamp("us")),
        [dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999), None],
    ),
]
EXACT = [
    (field("small", pa.decimal128(12, 2)), [D("-9999999999.99"), D("0.01"), None]),
    (field("zero", pa.decimal128(12, 10)), [D("0E-10"), D("1E-10"), None]),
    (field("large", pa.decimal128(38, 0)), [D(LONG), D("-" + LONG), None]),
]


def check(db, columns, read=lambda value: value):
    with db.sink(**CREATE) as task:
        task.write(batch(*columns), dataset="t")
    for number, row in enumerate(db.rows("t")):
        for (f, values), value in zip(columns, row[1:], strict=True):
            assert read(value) == values[number], f.name


def test_plain_values(db):
    check(db, PLAIN)


@pytest.mark.parametrize("kind", ["pg", "my"])
def test_moments_and_decimals(request, kind):
    check(request.getfixturevalue(kind), MOMENTS + EXACT)


def test_moments_and_decimals_in_sqlite_are_texts_and_lose_no_digit(lite):
    with lite.sink(**CREATE) as task:
        task.write(batch(*MOMENTS, *EXACT), dataset="t")
    rows = lite.rows("t")
    assert rows[0][1:3] == ("0001-01-01", "0001-01-01 00:00:00.000000")
    assert rows[1][1:3] == ("9999-12-31", "9999-12-31 23:59:59.999999")
    assert [D(str(row[5])) for row in rows[:2]] == [D(LONG), D("-" + LONG)]
    assert [D(str(row[3])) for row in rows[:2]] == [D("-9999999999.99"), D("0.01")]


def test_booleans(db):
    with db.sink(**CREATE) as task:
        task.write(batch((field("b", pa.bool_()), [True, False, None])), dataset="t")
    assert db.rows("t") == [(0, True), (1, False), (2, None)]


def test_singles_have_all_their_digits(db):
    values = [0.1, 16777217.0, 3.4028234663852886e38, -1.1754943508222875e-38]
    singles = pa.array(values, pa.float32())
    with db.sink(**CREATE) as task:
        task.write(batch((field("f", pa.float32()), values)), dataset="t")
    exact = "f * 1e0" if db.kind != "postgresql" else "f::float8"
    found = [row[0] for row in db.sql(f"SELECT {exact} FROM t ORDER BY id")]
    assert pa.array(found, pa.float32()).equals(singles)


def test_unsigned_64(db):
    with db.sink(**CREATE) as task:
        task.write(batch((field("u", pa.uint64()), [0, 2**64 - 1, None])), dataset="t")
    values = [row[1] for row in db.rows("t")]
    assert [None if v is None else int(v) for v in values] == [0, 2**64 - 1, None]


UUID = "0188d1f3-7b1c-7f3a-8000-0123456789ab"
MEANT = [
    (field("u", pa.string(), "uuid"), [UUID, None]),
    (field("j", pa.string(), "json"), ['{"b": [1, "ä🎉\\n"]}', "null"]),
    (field("t", pa.string(), "time"), ["23:59:59.999999", "00:00:00"]),
    (
        field("d", pa.string(), "decimal(65,30)"),
        ["9" * 35 + "." + "9" * 30, "-0." + "0" * 29 + "1"],
    ),
    (field("e", pa.string(), "enum"), ["red", None]),
    (field("y", pa.int32(), "year"), [1999, None]),
]


def test_what_arrow_has_no_type_for_has_its_own_in_postgresql(pg):
    bits = (field("bits", pa.int64(), "bit(12)"), [5, 4095])
    more = [
        (field("tz", pa.string(), "timetz"), ["10:00:00+02", None]),
        (field("iv", pa.string(), "interval"), ["P1Y2M3DT4H5M6.789S", None]),
        (field("n", pa.string(), "decimal"), ["1" * 300 + ".5", "NaN"]),
        (field("x", pa.string(), "xml"), ["<a/>", None]),
        (field("w", pa.binary(), "wkb"), [b"\x01\x01", None]),
        (field("list", pa.list_(pa.int32())), [[1, None, 3], []]),
        (field("texts", pa.list_(pa.string())), [["a,b", 'q"u\\o{te}', "NULL", None, ""], None]),
    ]
    with pg.sink(**CREATE) as task:
        task.write(batch(*MEANT, bits, *more), dataset="t")
    types = dict(
        pg.sql(
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
            "WHERE attrelid = 't'::regclass AND attnum > 0"
        )
    )
    assert types["u"] == "uuid"
    assert types["j"] == "json"
    assert types["d"] == "numeric(65,30)"
    assert types["bits"] == "bit(12)"
    assert types["n"] == "numeric"
    assert types["list"] == "integer[]"
    assert types["iv"] == "interval"
    first, second = pg.rows("t")
    assert first[1] == uuid.UUID(UUID)
    assert first[2] == {"b": [1, "ä🎉\n"]}
    assert second[2] is None
    assert first[3] == dt.time(23, 59, 59, 999999)
    assert [first[4], second[4]] == [D(v) for v in MEANT[3][1]]
    assert [first[7], second[7]] == ["000000000101", "1" * 12]
    assert first[10] == D("1" * 300 + ".5")
    assert second[10].is_nan()
    assert bytes(first[12]) == b"\x01\x01"
    assert [first[13], second[13]] == [[1, None, 3], []]
    assert first[14] == ["a,b", 'q"u\\o{te}', "NULL", None, ""]


def test_what_arrow_has_no_type_for_has_its_own_in_mysql(my):
    wkb = bytes.fromhex("0101000000000000000000f03f0000000000000040")
    more = [
        (field("bits", pa.int64(), "bit(12)"), [5, 4095]),
        (field("w", pa.binary(), "wkb"), [wkb, None]),
        (field("list", pa.list_(pa.int32())), [[1, None, 3], None]),
        (field("s", pa.struct([("a", pa.int32())])), [{"a": 1}, None]),
    ]
    with my.sink(**CREATE) as task:
        task.write(batch(*MEANT, *more), dataset="t")
    rows = my.sql("SELECT u, j, t, d, e, y, bits + 0, ST_AsWKB(w), list, s FROM t ORDER BY id")
    first, second = rows
    assert first[0] == UUID
    assert first[1] == MEANT[1][1][0]
    assert first[2] == dt.timedelta(hours=23, minutes=59, seconds=59, microseconds=999999)
    assert [first[3], second[3]] == [D(v) for v in MEANT[3][1]]
    assert first[4:7] == ("red", 1999, 5)
    assert second[6] == 4095
    assert first[7] == wkb
    assert second[7] is None
    assert first[8:] == ("[1,null,3]", '{"a":1}')


def test_floats_without_a_number_are_values_where_the_database_has_them(db):
    values = [1.0, float("nan"), float("inf"), -float("inf")]
    with db.sink(**CREATE) as task:
        txn = task.next_txn()
        (result,) = task.put(batch((field("f", pa.float64()), values)), txn_id=txn, dataset="t")
        refused = [failed.row for failed in result.failed]
        assert refused == ([] if db.kind == "postgresql" else [1, 2, 3])
        task.prepare(txn, [(0, 0, 4 - len(refused))])
        task.commit(txn)
    rows = db.rows("t")
    if db.kind == "postgresql":
        assert rows[1][1] != rows[1][1]
        assert [row[1] for row in rows[2:]] == values[2:]


# ── instants and wall clocks ─────────────────────────────────────────────────────────────────────

NOON = dt.datetime(2024, 7, 1, 12, tzinfo=UTC)


def test_an_instant_is_an_instant_in_postgresql(pg):
    rows = batch((field("at", pa.timestamp("us", "UTC")), [NOON, dt.datetime(1, 1, 2, tzinfo=UTC)]))
    with pg.sink(db_timezone="Europe/Berlin", **CREATE) as task:
        task.write(rows, dataset="t")
    ((kind,),) = pg.sql("SELECT pg_typeof(at)::text FROM t WHERE id = 0")
    assert kind == "timestamp with time zone"
    assert pg.rows("t")[0][1] == NOON


def test_an_instant_in_a_column_without_a_zone_is_the_wall_clock_of_the_configuration(db):
    db.sql(
        "CREATE TABLE t (id INT PRIMARY KEY, at "
        + ("DATETIME)", "TIMESTAMP)")[db.kind == "postgresql"]
    )
    with db.sink(db_timezone="Europe/Berlin") as task:
        task.write(batch((field("at", pa.timestamp("us", "UTC")), [NOON])), dataset="t")
    assert str(db.rows("t")[0][1])[:19] == "2024-07-01 14:00:00"


def test_a_wall_clock_in_a_column_of_instants_is_read_where_the_configuration_says(pg, my):
    wall = batch((field("at", pa.timestamp("us")), [dt.datetime(2024, 7, 1, 14)]))
    pg.sql("CREATE TABLE t (id INT, at timestamptz)")
    my.sql("CREATE TABLE t (id INT, at timestamp(6))")
    for db in (pg, my):
        with db.sink(db_timezone="Europe/Berlin") as task:
            task.write(wall, dataset="t")
    assert pg.rows("t")[0][1] == NOON
    assert my.rows("t")[0][1] == dt.datetime(2024, 7, 1, 12)


# ── what a column cannot hold ────────────────────────────────────────────────────────────────────

PG, MY = "postgresql", "mysql"
BAD = {
    "too long": ("varchar(3)", pa.string(), ["äöü", "four"]),
    "too many bytes": ("tinytext", pa.string(), ["x" * 255, "ä" * 128]),
    "too large a number": ("smallint", pa.int64(), [32767, 32768]),
    "negative": ("int unsigned", pa.int64(), [0, -1]),
    "too many digits": ("decimal(5,2)", pa.decimal128(12, 2), [D("999.99"), D("1000.00")]),
    "inexact": ("decimal(5,2)", pa.decimal128(12, 3), [D("1.230"), D("1.234")]),
    "too small": ("decimal(5,2)", pa.string(), ["1.50", "1e-77"]),
    "far too small": ("decimal(5,2)", pa.string(), ["1.50", "1e-999999999"]),
    "nan into decimal": ("decimal(5,2)", pa.float64(), [1.5, float("nan")]),
    "null": ("int NOT NULL", pa.int32(), [1, None]),
    "null text": ("varchar(9) NOT NULL", pa.string(), ["", None]),
    "no number": ("int", pa.string(), ["12", "twelve"]),
    "float into int": ("int", pa.float64(), [2.0, 2.5]),
    "too large a float": ("real", pa.float64(), [1.5, 1e300]),
    "no uuid": ("uuid", pa.string(), [UUID, "not-a-uuid"]),
    "no time": ("time", pa.string(), ["10:00:00", "soon"]),
    "before the year 1": ("date", pa.int32(), [0, -800_000]),
    "too many bits": ("bit(3)", pa.int64(), [7, 8]),
    "NUL": ("text", pa.string(), ["x", "a\0b"]),
    "no moment": ("timestamp", pa.string(), ["2020-01-01 10:00:00", "yesterday"]),
    "beyond 2038": (
        "timestamp", pa.timestamp("us"), [dt.datetime(2037, 1, 1), dt.datetime(2040, 1, 1)],
    ),
    "invalid utf-8": ("varchar(99)", "broken", None),
}  # fmt: skip
ONLY = {
    "too many bytes": MY,
    "negative": MY,
    "NUL": PG,
    "too large a float": PG,
    "beyond 2038": MY,
}


def broken():
    good = pa.array([b"ok", b"\xff\xfe"])
    return pa.Array.from_buffers(pa.string(), 2, good.buffers())


@pytest.mark.parametrize(
    ("case", "kind"),
    [(case, kind) for case in BAD for kind in (PG, MY) if ONLY.get(case, kind) == kind],
)
def test_a_row_that_does_not_fit_is_refused_and_its_neighbour_is_written(request, kind, case):
    db = request.getfixturevalue("pg" if kind == PG else "my")
    native, arrow, values = BAD[case]
    db.sql(f"CREATE TABLE t (id int, v {native})")
    array = broken() if arrow == "broken" else pa.array(values, arrow)
    if native == "date":
        array = array.view(pa.date32())
    rows = pa.RecordBatch.from_arrays([pa.array([0, 1]), array], ["id", "v"])
    with db.sink() as task:
        txn = task.next_txn()
        (result,) = task.put(rows, txn_id=txn, dataset="t")
        assert [(f.row, f.reason.code) for f in result.failed] == [(1, "jdbc.value")]
        assert "'v'" in result.failed[0].reason.message
        task.prepare(txn, [(0, 0, 1)])
        task.commit(txn)
    assert [row[0] for row in db.rows("t")] == [0]


def refusal(db, rows):
    with db.sink() as task:
        (result,) = task.put(rows, txn_id=task.next_txn(), dataset="t")
    (failed,) = result.failed
    assert failed.reason.code == "jdbc.value"
    return failed.reason.fix


def test_the_fix_for_a_column_that_is_too_narrow_works_when_it_is_run(typed_db):
    typed_db.sql("CREATE TABLE t (id bigint, v int, s varchar(3))")
    kinds = (("v", pa.int64()), ("s", pa.string()))
    rows = [(1 << 40, "abc"), (2, "abcd")]
    for row in rows:
        columns = [(field(n, k), [x]) for (n, k), x in zip(kinds, row, strict=True)]
        statement = refusal(typed_db, batch(*columns)).removeprefix("Run: ").split("; or ")[0]
        assert statement.startswith("ALTER TABLE")
        typed_db.sql(statement)
        with typed_db.sink() as task:
            task.write(batch(*columns), dataset="t")
    assert sorted(row[1:] for row in typed_db.rows("t")) == sorted(rows)


def test_a_time_of_more_than_a_day_has_a_place_in_a_text(pg):
    pg.sql("CREATE TABLE t (id bigint, v time)")
    rows = batch((field("v", pa.string(), "time"), ["-838:59:59"]))
    pg.sql(refusal(pg, rows).removeprefix("Run: ").split("; or ")[0])
    with pg.sink() as task:
        task.write(rows, dataset="t")
    assert pg.rows("t") == [(0, "-838:59:59")]


def test_nul_is_removed_where_that_is_wanted(pg):
    rows = batch((field("v", pa.string()), ["a\0b", "\0", "c"]))
    pg.sql("CREATE TABLE t (id bigint, v text)")
    with pg.sink() as task:
        (result,) = task.put(rows, txn_id=task.next_txn(), dataset="t")
    assert [(f.row, f.reason.code) for f in result.failed] == [(0, "jdbc.value"), (1, "jdbc.value")]
    assert "text.nul=remove" in result.failed[0].reason.fix
    with pg.sink(text_nul="remove") as task:
        task.write(rows, dataset="t")
    assert pg.rows("t") == [(0, "ab"), (1, ""), (2, "c")]


def test_nul_is_a_character_where_the_database_has_it(my, lite):
    for db in (my, lite):
        with db.sink(**CREATE) as task:
            task.write(batch((field("v", pa.string()), ["a\0b", "\0"])), dataset="t")
        assert [row[1] for row in db.rows("t")] == ["a\0b", "\0"]


def test_types_that_have_nothing_in_common_are_refused_before_any_row(typed_db):
    typed_db.sql("CREATE TABLE t (id int, v timestamp NULL)")
    with typed_db.sink() as task, pytest.raises(ValueError, match="rows have int64"):
        task.write([{"id": 1, "v": 5}], dataset="t")
