"""Every type, to a new table and back, value by value; and what a table cannot hold."""

import datetime as dt
import math
from decimal import Decimal

import pyarrow as pa
import pytest

D = Decimal


def told(kind, meaning):
    return pa.field("v", kind, metadata={"penstock.type": meaning})


def plain(kind):
    return pa.field("v", kind)


GOLDEN = {
    "i8": (plain(pa.int8()), [-128, 127, None]),
    "i16": (plain(pa.int16()), [-32768, 32767, None]),
    "i32": (plain(pa.int32()), [-(2**31), 2**31 - 1, None]),
    "i64": (plain(pa.int64()), [-(2**63), 2**63 - 1, None]),
    "u8": (plain(pa.uint8()), [0, 255, None]),
    "u64": (plain(pa.uint64()), [0, 2**64 - 1, None]),
    "f32": (plain(pa.float32()), [math.inf, 0.5, None]),
    "f64": (plain(pa.float64()), [-math.inf, -0.0, 5e-324, 1.7976931348623157e308, None]),
    "bool": (plain(pa.bool_()), [True, False, None]),
    "text": (plain(pa.string()), ["a\0b😀'\"\\\n%s", "", "é" * 9999, None]),
    "bytes": (plain(pa.binary()), [bytes(range(256)), b"", None]),
    "date": (
        plain(pa.date32()),
        [dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(999, 1, 1), None],
    ),
    "stamp": (
        plain(pa.timestamp("us")),
        [dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999), None],  # noqa: DTZ001
    ),
    "amount": (plain(pa.decimal128(38, 3)), [D("-12345678901234567890123456789012345.678"), None]),
    "long": (
        told(pa.string(), "decimal(65,30)"),
        ["9" * 35 + "." + "1" * 30, "-1.5" + "0" * 29, None],
    ),
    "any": (told(pa.string(), "decimal"), ["1" * 200, "-0.1", None]),
    "time": (told(pa.string(), "time"), ["23:59:59.999999", None]),
    "uuid": (told(pa.string(), "uuid"), ["00112233-4455-6677-8899-aabbccddeeff", None]),
    "wkb": (told(pa.binary(), "wkb"), [b"\x01\x01\0\0\0" + b"\0" * 16, None]),
    "list": (plain(pa.list_(pa.int64())), [[1, None, -(2**63)], [], None]),
    "texts": (plain(pa.list_(pa.string())), [["a", "b\0", None], [], None]),
    "deep": (plain(pa.list_(pa.list_(pa.decimal128(10, 2)))), [[[D("1.50"), None], None], None]),
    "map": (plain(pa.map_(pa.string(), pa.int64())), [[("k", 1), ("l", None)], [], None]),
}


def read_back(field, value):
    """A value as the engine gives it back."""
    if value is not None and field.metadata == {b"penstock.type": b"decimal(65,30)"}:
        return Decimal(value)
    return value


@pytest.mark.parametrize("mode", ["insert", "upsert"])
def test_every_type_comes_back_exactly(place, mode):
    keys = {"insert_mode": mode, "pk_mode": "record_value", "pk_fields": "id"}
    with place.task(**keys) as task:
        for name, (field, values) in GOLDEN.items():
            schema = pa.schema([("id", pa.int64()), field])
            rows = [{"id": n, "v": value} for n, value in enumerate(values)]
            task.write(pa.RecordBatch.from_pylist(rows, schema), dataset=name)
            if mode == "upsert":
                task.write(pa.RecordBatch.from_pylist(rows, schema), dataset=name)
        task.close()
    for name, (field, values) in GOLDEN.items():
        found = place.table(name, '"id"').column(1).to_pylist()
        assert repr(found) == repr([read_back(field, value) for value in values]), name


def test_long_decimals_that_come_again_come_back(place):
    """The engine makes dictionaries of values that are there more than once."""
    long = "12345678901234567890123456789012345.123456789012345678901234567890"
    schema = pa.schema([("id", pa.int64()), told(pa.string(), "decimal(65,30)")])
    rows = [{"id": n, "v": v} for n, v in enumerate([None, long, "-" + long, None, long, long])]
    with place.task() as task:
        task.write(pa.RecordBatch.from_pylist(rows, schema), dataset="t")
        task.close()
    found = place.table("t", '"id"').column(1).to_pylist()
    assert found == [row["v"] and D(row["v"]) for row in rows]


def test_a_not_a_number_comes_back(folder):
    with folder.task() as task:
        task.write([{"v": math.nan}], dataset="t")
        task.close()
    assert math.isnan(folder.rows("t")[0][0])


def test_json_becomes_a_variant(place):
    texts = ['{"a": [1, 2.5, null, "x😀"], "b": {}}', "18446744073709551615", "[1.10]", None]
    batch = pa.record_batch([pa.array(texts)], schema=pa.schema([told(pa.string(), "json")]))
    with place.task() as task:
        task.write(batch, dataset="t")
        task.close()
    found = place.read(f'SELECT to_string("v") AS v FROM "{place.database}"."t"').column(0)
    assert set(found.to_pylist()) == {
        '{"a":[1,2.5,null,"x😀"],"b":{}}', "18446744073709551615", "[1.1]", None,
    }  # fmt: skip


JSON_REFUSED = ["not json", "1e400", "18446744073709551616", "0.10000000000000000555", "NaN", "",
                "[" * 100_000]  # fmt: skip


def refused(task, batch):
    (result,) = task.put(batch, txn_id=task.next_txn(), dataset="t")
    return [failed.row for failed in result.failed]


def test_json_that_would_be_rounded_is_refused_row_by_row(folder):
    texts = ["1", *JSON_REFUSED, "2"]
    batch = pa.record_batch([pa.array(texts)], schema=pa.schema([told(pa.string(), "json")]))
    with folder.task() as task:
        assert refused(task, batch) == list(range(1, len(JSON_REFUSED) + 1))


def test_values_that_do_not_fit_into_a_table_are_refused_row_by_row(folder):
    with folder.task() as task:
        made = pa.schema([("n", pa.int8()), ("d", pa.decimal128(4, 1)), ("t", pa.timestamp("us"))])
        task.write(pa.RecordBatch.from_pylist([{"n": 1}], made), dataset="t")
        schema = pa.schema([("n", pa.int64()), ("d", pa.string()), ("t", pa.timestamp("ns"))])
        rows = [
            {"n": 127, "d": "999.9", "t": 1000},
            {"n": 128, "d": "1", "t": 0},
            {"n": 1, "d": "1000", "t": 0},
            {"n": 1, "d": "x", "t": 0},
            {"n": 1, "d": "1.0", "t": 1},
            {"n": 1, "d": "1e-77", "t": 0},
            {"n": 1, "d": "1e-999999999", "t": 0},
            {"n": None, "d": None, "t": None},
        ]
        assert refused(task, pa.RecordBatch.from_pylist(rows, schema)) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("days", [-719_163, 2_932_897])
def test_days_that_no_calendar_has_are_refused(folder, days):
    batch = pa.record_batch([pa.array([0, days], pa.int32()).view(pa.date32())], names=["d"])
    with folder.task() as task:
        assert refused(task, batch) == [1]


def test_a_type_that_databend_has_not_is_told(folder):
    struct = pa.record_batch([pa.array([{"a": 1}])], names=["s"])
    with folder.task() as task, pytest.raises(ValueError, match="'s': Databend has no type"):
        task.write(struct, dataset="t")


def test_a_column_of_another_kind_is_told(folder):
    with folder.task() as task:
        task.write([{"v": 1}], dataset="t")
        with pytest.raises(ValueError, match="'v' is bigint, rows have list"):
            task.write(pa.record_batch([pa.array([[1]])], names=["v"]), dataset="t")
