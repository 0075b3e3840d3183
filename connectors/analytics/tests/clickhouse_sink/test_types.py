"""Every type, to a new table and back, value by value; and what a table cannot hold."""

# Times without a zone are meant.
# ruff: noqa: DTZ001

import datetime as dt
import math
import uuid
from decimal import Decimal

import pyarrow as pa
import pytest

from support.golden import BYTES, LONG, TEXT, UUID, WIDE

D = Decimal
UPSERTS = {"insert_mode": "upsert", "pk_mode": "record_value", "pk_fields": "id"}
EMPTY = {"null_collections": "empty"}


def told(kind, meaning):
    return pa.field("v", kind, metadata={"penstock.type": meaning})


def plain(kind):
    return pa.field("v", kind)


GOLDEN = {
    "i8": (plain(pa.int8()), "Nullable(Int8)", [-128, 127, None]),
    "i16": (plain(pa.int16()), "Nullable(Int16)", [-32768, 32767, None]),
    "i32": (plain(pa.int32()), "Nullable(Int32)", [-(2**31), 2**31 - 1, None]),
    "i64": (plain(pa.int64()), "Nullable(Int64)", [-(2**63), 2**63 - 1, None]),
    "u8": (plain(pa.uint8()), "Nullable(UInt8)", [0, 255, None]),
    "u16": (plain(pa.uint16()), "Nullable(UInt16)", [65535, None]),
    "u32": (plain(pa.uint32()), "Nullable(UInt32)", [2**32 - 1, None]),
    "u64": (plain(pa.uint64()), "Nullable(UInt64)", [0, 2**64 - 1, None]),
    "f32": (plain(pa.float32()), "Nullable(Float32)", [math.inf, 0.5, math.nan, None]),
    "f64": (
        plain(pa.float64()),
        "Nullable(Float64)",
        [-math.inf, -0.0, 5e-324, 1.7976931348623157e308, math.nan, None],
    ),
    "bool": (plain(pa.bool_()), "Nullable(Bool)", [True, False, None]),
    "text": (plain(pa.string()), "Nullable(String)", [TEXT, "a\0b", "", "é" * 9999, None]),
    "bytes": (plain(pa.binary()), "Nullable(String)", [BYTES, b"", None]),
    "date": (
        plain(pa.date32()),
        "Nullable(Date32)",
        [dt.date(1900, 1, 1), dt.date(2299, 12, 31), None],
    ),
    "stamp": (
        plain(pa.timestamp("us")),
        "Nullable(DateTime64(6, 'UTC'))",
        [dt.datetime(1900, 1, 1), dt.datetime(2299, 12, 31, 23, 59, 59, 999999), None],
    ),
    "instant": (
        plain(pa.timestamp("us", "UTC")),
        "Nullable(DateTime64(6, 'UTC'))",
        [dt.datetime(2024, 2, 29, 1, 2, 3, 4, dt.UTC), None],
    ),
    "amount": (
        plain(pa.decimal128(38, 3)),
        "Nullable(Decimal(38, 3))",
        [D("-12345678901234567890123456789012345.678"), None],
    ),
    "wide": (plain(pa.decimal128(38, 18)), "Nullable(Decimal(38, 18))", [D(WIDE), None]),
    "long": (told(pa.string(), "decimal(65,30)"), "Nullable(Decimal(65, 30))", [LONG, None]),
    "any": (told(pa.string(), "decimal"), "Nullable(String)", ["1" * 200, "-0.1", None]),
    "time": (told(pa.string(), "time"), "Nullable(String)", ["23:59:59.999999", None]),
    "clock": (plain(pa.time64("us")), "Nullable(String)", [dt.time(23, 59, 59, 999999), None]),
    "span": (plain(pa.duration("us")), "Nullable(Int64)", [dt.timedelta(seconds=1.5), None]),
    "uuid": (told(pa.string(), "uuid"), "Nullable(UUID)", [UUID, None]),
    "json": (told(pa.string(), "json"), "Nullable(String)", ['{"a": [1, 2.50, "x"]}', "7", None]),
    "wkb": (told(pa.binary(), "wkb"), "Nullable(String)", [b"\x01\x01\0\0\0" + b"\0" * 16, None]),
    "list": (plain(pa.list_(pa.int64())), "Array(Nullable(Int64))", [[1, None, -(2**63)], []]),
    "texts": (plain(pa.list_(pa.string())), "Array(Nullable(String))", [["a", "b\0", None]]),
    "deep": (
        plain(pa.list_(pa.list_(pa.decimal128(10, 2)))),
        "Array(Array(Nullable(Decimal(10, 2))))",
        [[[D("1.50"), None], []]],
    ),
    "map": (
        plain(pa.map_(pa.string(), pa.int64())),
        "Map(String, Nullable(Int64))",
        [[("k", 1), ("l", None)], []],
    ),
    "row": (
        plain(pa.struct({"a": pa.int64(), "b c": pa.struct({"t": pa.string()})})),
        "Tuple(a Nullable(Int64), `b c` Tuple(t Nullable(String)))",
        [{"a": 1, "b c": {"t": "x"}}, {"a": None, "b c": {"t": None}}],
    ),
}


def read_back(name, value):
    """A value as a reader of ClickHouse has it."""
    if value is None:
        return None
    made = {
        "long": D,
        "clock": dt.time.isoformat,
        "span": lambda span: span // dt.timedelta(microseconds=1),
        "uuid": lambda text: str(uuid.UUID(text)),
        "map": dict,
        "stamp": lambda at: at.replace(tzinfo=dt.UTC),
    }.get(name)
    return made(value) if made else value


COLUMNS = {
    "uuid": "toString(v)",
    "bytes": "CAST(hex(v) AS Nullable(String))",
    "wkb": "CAST(hex(v) AS Nullable(String))",
}


def found(place, name):
    column = COLUMNS.get(name, "v")
    values = [row[0] for row in place.rows(name, "id", column)]
    if name in {"bytes", "wkb"}:
        return [one and bytes.fromhex(one) if one != "" else b"" for one in values]
    if name == "map":
        return [dict(one) for one in values]
    if name in {"stamp", "instant"}:
        return [one and one.astimezone(dt.UTC) for one in values]
    return values


@pytest.mark.parametrize("keys", [{}, UPSERTS, {"exactlyOnce": "false"}])
def test_every_type_comes_back_exactly(place, keys):
    with place.task(**keys) as task:
        for name, (field, _, values) in GOLDEN.items():
            schema = pa.schema([("id", pa.int64()), field])
            rows = [{"id": n, "v": value} for n, value in enumerate(values)]
            task.write(pa.RecordBatch.from_pylist(rows, schema), dataset=name)
        task.close()
    types = place.sql(
        "SELECT table, type FROM system.columns WHERE database = '{d}' AND name = 'v'"
    )
    assert {row["table"]: row["type"] for row in types.to_pylist()} == {
        name: native for name, (_, native, _) in GOLDEN.items()
    }
    for name, (_, _, values) in GOLDEN.items():
        expected = [read_back(name, value) for value in values]
        assert repr(found(place, name)) == repr(expected), name


def test_a_table_tells_the_types_that_rows_had(place):
    with place.task() as task:
        for name in ("bytes", "stamp", "instant", "long", "uuid", "list"):
            schema = pa.schema([GOLDEN[name][0]])
            task.write(
                pa.RecordBatch.from_pylist([{"v": GOLDEN[name][2][0]}], schema), dataset=name
            )
        told = {name: task.columns(name).field("v") for name in ("bytes", "stamp", "long", "uuid")}
        assert [told[name].type for name in told] == [
            pa.binary(), pa.timestamp("us"), pa.string(), pa.string(),
        ]  # fmt: skip
        assert told["long"].metadata == {b"penstock.type": b"decimal(65,30)"}
        assert task.columns("instant").field("v").type == pa.timestamp("us", "UTC")
        assert task.columns("missing") is None
        task.close()


def refused(task, batch, dataset="t"):
    (result,) = task.put(batch, txn_id=task.next_txn(), dataset=dataset)
    return [(failed.row, failed.reason.code) for failed in result.failed]


NARROW = {
    "Int8": (pa.int64(), [1, 128], [1]),
    "UInt64": (pa.int64(), [1, -1], [1]),
    "Decimal(4, 1)": (pa.string(), ["999.9", "1000", "x", "1.05", "1e-999999999"], [1, 2, 3, 4]),
    "Date": (
        pa.date32(),
        [dt.date(1970, 1, 1), dt.date(1969, 12, 31), dt.date(2149, 6, 7)],
        [1, 2],
    ),
    "Date32": (
        pa.date32(),
        [dt.date(1900, 1, 1), dt.date(1899, 12, 31), dt.date(2300, 1, 1)],
        [1, 2],
    ),
    "DateTime": (
        pa.timestamp("us"),
        [dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 1, 0, 0, 0, 1), dt.datetime(2106, 3, 1)],
        [1, 2],
    ),
    "DateTime64(3)": (
        pa.timestamp("us", "UTC"),
        [dt.datetime(2024, 1, 1, 0, 0, 0, 1000), dt.datetime(2024, 1, 1, 0, 0, 0, 1)],
        [1],
    ),
    "DateTime64(6)": (pa.timestamp("us"), [dt.datetime(1900, 1, 1), dt.datetime(1, 1, 1)], [1]),
    "FixedString(3)": (pa.string(), ["abc", "ab", "abcd"], [1, 2]),
    "Enum8('a' = 1, 'b\\'' = 2)": (pa.string(), ["a", "b'", "c"], [2]),
    "UUID": (pa.string(), [UUID, "x"], [1]),
    "IPv4": (pa.string(), ["1.2.3.4", "::1"], [1]),
    "IPv6": (pa.string(), ["::1", "1.2.3.4.5"], [1]),
    "UInt128": (pa.string(), [str(2**128 - 1), str(2**128), "-1", "1.5"], [1, 2, 3]),
    "JSON": (
        pa.string(),
        ['{"a": 1}', "7", "{", '{"a": 1e400}', '{"a": 99999999999999999999}'],
        [1, 2, 3, 4],
    ),
    "LowCardinality(Nullable(String))": (pa.int64(), [1, None], []),
    "LowCardinality(String)": (pa.string(), ["a", None], [1]),
    "String": (pa.int64(), [1, None], [1]),
    "Nullable(Float32)": (pa.float64(), [1.5, 1e300], [1]),
    "Array(Int8)": (pa.list_(pa.int64()), [[1], [None], [128], None], [1, 2, 3]),
    "Array(Array(Int8))": (pa.list_(pa.list_(pa.int8())), [[[1]], [None]], [1]),
    "Map(String, Int8)": (pa.map_(pa.string(), pa.int8()), [[("a", 1)], [("a", None)]], [1]),
    "Tuple(a Int8, `b c` Nullable(Int8))": (
        pa.struct({"a": pa.int8(), "b c": pa.int8()}),
        [{"a": 1, "b c": None}, {"a": None, "b c": 1}],
        [1],
    ),
}  # fmt: skip


@pytest.mark.parametrize("native", NARROW)
def test_values_that_do_not_fit_are_refused_row_by_row(place, native):
    kind, values, bad = NARROW[native]
    place.sql(
        f"CREATE TABLE {{d}}.t (id Int64, v {native}) ENGINE MergeTree ORDER BY id "
        "SETTINGS non_replicated_deduplication_window = 10"
    )
    batch = pa.record_batch({"id": range(len(values)), "v": pa.array(values, kind)})
    with place.task() as task:
        txn = task.next_txn()
        (result,) = task.put(batch, txn_id=txn, dataset="t")
        assert [one.row for one in result.failed] == bad
        assert {one.reason.code for one in result.failed} <= {"clickhouse.value"}
        assert all("'v' of the row id=" in one.reason.message for one in result.failed)
        task.prepare(txn, [(0, 0, len(values) - len(bad))])
        task.commit(txn)
        task.close()
    kept = [n for n in range(len(values)) if n not in bad]
    assert place.rows("t", "id", "id") == [(n,) for n in kept]


def test_collections_that_are_null_are_refused_or_empty_as_is_wanted(place):
    schema = pa.schema(
        {
            "id": pa.int64(),
            "l": pa.list_(pa.int64()),
            "m": pa.map_(pa.string(), pa.int64()),
            "s": pa.struct({"a": pa.int64()}),
        }
    )
    batch = pa.RecordBatch.from_pylist([{"id": 1}], schema)
    with place.task() as task:
        assert refused(task, batch) == [(0, "clickhouse.value")]
    with place.task(epoch=2, **EMPTY) as task:
        task.write(batch, dataset="t")
        task.close()
    assert place.rows("t") == [(1, [], [], {"a": None})]


def test_structures_become_json_where_that_is_wanted(place):
    schema = pa.schema({"id": pa.int64(), "s": pa.struct({"a": pa.int64(), "b": pa.string()})})
    keys = {"auto.evolve.struct.to.json": "true"}
    with place.task(**keys) as task:
        rows = [{"id": 1, "s": {"a": 7, "b": "x"}}]
        task.write(pa.RecordBatch.from_pylist(rows, schema), dataset="t")
        task.close()
    assert place.rows("t", columns="s.a::Int64, s.b::String") == [(7, "x")]


@pytest.mark.parametrize("kind", [pa.month_day_nano_interval(), pa.struct({})])
def test_a_type_that_clickhouse_has_not_is_told(place, kind):
    batch = pa.record_batch({"s": pa.nulls(1, kind)})
    with place.task() as task, pytest.raises(ValueError, match="'s': ClickHouse has no type"):
        task.write(batch, dataset="t")


@pytest.mark.parametrize("native", ["Tuple(Int8, Int8)", "Array(AggregateFunction(sum, Int8))"])
def test_a_column_that_cannot_be_written_is_told(place, native):
    place.sql(
        f"CREATE TABLE {{d}}.t (v {native}) ENGINE MergeTree ORDER BY tuple() "
        "SETTINGS non_replicated_deduplication_window = 10"
    )
    with place.task() as task, pytest.raises(ValueError, match=r"'v' is .*no values of rows"):
        task.write([{"v": "a"}], dataset="t")


@pytest.mark.parametrize(("made", "rows"), [(1, [1]), (dt.datetime(2024, 1, 1), 1)])
def test_a_column_of_another_kind_is_told(place, made, rows):
    with place.task() as task:
        task.write([{"v": made}], dataset="t")
        with pytest.raises(ValueError, match=r"'v' is Nullable.*, rows have"):
            task.write(pa.record_batch({"v": [rows]}), dataset="t")
