"""Types: what Spark takes, what it does not, and that no value is changed on the way."""

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from penstock.model.errors import DataError, SchemaError
from penstock.spark.schema import normalize_batch, normalize_schema
from penstock_values.semantic_types import semantic_type

UTC = dt.UTC

SAME = [
    (pa.bool_(), [True, False]),
    (pa.int8(), [-128, 127]),
    (pa.int16(), [-32768, 32767]),
    (pa.int32(), [-(2**31), 2**31 - 1]),
    (pa.int64(), [-(2**63), 2**63 - 1]),
    (pa.float32(), [1.5, float("inf")]),
    (pa.float64(), [-0.1, float("-inf")]),
    (pa.string(), ["", "ä\U0001f600\0"]),
    (pa.binary(), [b"", b"\x00\xff"]),
    (pa.date32(), [dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
    (pa.timestamp("us"), [dt.datetime(1969, 12, 31, 23, 59, 59, 999999)]),  # noqa: DTZ001 - has no zone
    (pa.timestamp("us", tz="UTC"), [dt.datetime(2024, 2, 29, 1, 2, 3, 4, UTC)]),
    (pa.duration("us"), [dt.timedelta(days=-1, microseconds=1)]),
    (pa.decimal128(38, 10), [Decimal("1.0000000001"), Decimal(-1)]),
    (pa.list_(pa.int32()), [[1, None], []]),
    (pa.map_(pa.string(), pa.binary()), [[("k", b"v")], []]),
    (pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))]), [{"a": 1, "b": ["x"]}]),
]
"""Types that pass as they are."""

CHANGED = [
    (pa.uint8(), pa.int16(), [0, 255], None),
    (pa.uint16(), pa.int32(), [65535], None),
    (pa.uint32(), pa.int64(), [2**32 - 1], None),
    (pa.uint64(), pa.decimal128(20, 0), [2**64 - 1], [Decimal(2**64 - 1)]),
    (pa.float16(), pa.float32(), [0.5, -2.0], None),
    (pa.large_string(), pa.string(), ["x"], None),
    (pa.string_view(), pa.string(), ["longer than twelve bytes"], None),
    (pa.large_binary(), pa.binary(), [b"x"], None),
    (pa.binary_view(), pa.binary(), [b"x"], None),
    (pa.binary(2), pa.binary(), [b"xy"], None),
    (pa.null(), pa.string(), [None, None], None),
    (pa.dictionary(pa.int8(), pa.string()), pa.string(), ["a", "b", "a"], None),
    (pa.date64(), pa.date32(), [dt.date(2024, 2, 29)], None),
    (pa.time32("s"), pa.string(), [dt.time(0, 0, 1)], ["00:00:01.000000"]),
    (pa.time32("ms"), pa.string(), [dt.time(0, 0, 0, 2000)], ["00:00:00.002000"]),
    (pa.time64("us"), pa.string(), [dt.time(23, 59, 59, 999999)], ["23:59:59.999999"]),
    (pa.timestamp("s"), pa.timestamp("us"), [dt.datetime(1, 1, 1)], None),  # noqa: DTZ001 - has no zone
    (pa.timestamp("ms", tz="+02:00"), pa.timestamp("us", tz="UTC"),
     [dt.datetime(2024, 1, 1, tzinfo=UTC)], None),
    (pa.duration("s"), pa.duration("us"), [dt.timedelta(seconds=3)], None),
    (pa.decimal256(38, 2), pa.decimal128(38, 2), [Decimal("1.25")], None),
    (pa.decimal256(65, 30), pa.string(), [Decimal("1.5")], ["1." + "5".ljust(30, "0")]),
    (pa.decimal128(2, -3), pa.decimal128(5, 0), [Decimal(12000)], None),
    (pa.large_list(pa.uint8()), pa.list_(pa.int16()), [[1, None]], None),
    (pa.list_(pa.int8(), 2), pa.list_(pa.int8()), [[1, 2]], None),
    (pa.list_(pa.time32("s")), pa.list_(pa.string()), [[dt.time(0, 0, 1)]],
     [["00:00:01.000000"]]),
    (pa.struct([("t", pa.time32("ms")), ("u", pa.uint16())]),
     pa.struct([("t", pa.string()), ("u", pa.int32())]),
     [{"t": dt.time(0, 0, 1), "u": 7}], [{"t": "00:00:01.000000", "u": 7}]),
    (pa.map_(pa.string(), pa.timestamp("s")), pa.map_(pa.string(), pa.timestamp("us")),
     [[("k", dt.datetime(2024, 1, 1))]], None),  # noqa: DTZ001 - has no zone
    (pa.list_(pa.struct([("d", pa.dictionary(pa.int8(), pa.large_string()))])),
     pa.list_(pa.struct([("d", pa.string())])), [[{"d": "x"}]], None),
]  # fmt: skip
"""Types that are brought to others: from, to, values, and what becomes of them."""


def column(type_: pa.DataType, values: list) -> pa.RecordBatch:
    """A batch with nulls around the values, cut out of a longer one."""
    array = pa.array([*values, None, *values, None], type_)
    whole = pa.RecordBatch.from_arrays([array], ["c"])
    return whole.slice(len(values))


def expected(values: list) -> list:
    """What `column` holds."""
    return [None, *values, None]


@pytest.mark.parametrize(
    ("type_", "values"), SAME, ids=lambda p: str(p) if isinstance(p, pa.DataType) else ""
)
def test_a_type_that_spark_has_passes_without_a_copy(type_, values):
    batch = column(type_, values)
    schema = normalize_schema(batch.schema)
    assert schema.field("c").type.equals(type_)
    assert normalize_batch(batch, schema) is batch


@pytest.mark.parametrize(
    ("type_", "to", "values", "become"),
    CHANGED,
    ids=lambda p: str(p) if isinstance(p, pa.DataType) else "",
)
def test_a_type_that_spark_has_not_is_changed_without_loss(type_, to, values, become):
    batch = column(type_, values)
    schema = normalize_schema(batch.schema)
    assert schema.field("c").type.equals(to)
    done = normalize_batch(batch, schema)
    done.validate(full=True)
    assert done.column(0).to_pylist() == expected(become or values)


NANOSECONDS = [pa.timestamp("ns"), pa.timestamp("ns", "UTC"), pa.time64("ns"), pa.duration("ns")]


@pytest.mark.parametrize("type_", NANOSECONDS, ids=str)
def test_nanoseconds_that_are_whole_microseconds_pass(type_):
    batch = pa.RecordBatch.from_arrays(
        [pa.array([1_000, None, 2_000], pa.int64()).cast(type_)], ["c"]
    )
    done = normalize_batch(batch, normalize_schema(batch.schema)).column(0)
    if pa.types.is_time(type_):
        assert done.to_pylist() == ["00:00:00.000001", None, "00:00:00.000002"]
    else:
        assert done.cast(pa.int64()).to_pylist() == [1, None, 2]


@pytest.mark.parametrize("type_", NANOSECONDS, ids=str)
def test_what_is_finer_than_a_microsecond_is_an_error_at_every_depth(type_):
    column = pa.array([1_001], pa.int64()).cast(type_)
    nested = pa.StructArray.from_arrays([pa.ListArray.from_arrays([0, 1], column)], ["l"])
    for array in (column, nested):
        batch = pa.RecordBatch.from_arrays([array], ["c"])
        with pytest.raises(DataError) as caught:
            normalize_batch(batch, normalize_schema(batch.schema))
        assert caught.value.code == "engine.out_of_range"
        assert "column c" in caught.value.diagnostic.message


@pytest.mark.parametrize("value", [-1, 86_400_000_000])
def test_a_time_beyond_its_day_is_an_error_at_every_depth(value):
    column = pa.array([value], pa.int64()).cast(pa.time64("us"))
    maps = pa.MapArray.from_arrays([0, 1], pa.array(["k"]), column)
    for array in (column, maps, pa.StructArray.from_arrays([column], ["s"]),
                  pa.ListArray.from_arrays([0, 1], column)):  # fmt: skip
        batch = pa.RecordBatch.from_arrays([array], ["c"])
        with pytest.raises(DataError) as caught:
            normalize_batch(batch, normalize_schema(batch.schema))
        assert caught.value.code == "engine.out_of_range"


def test_a_time_of_the_day_tells_sinks_what_its_text_is():
    assert semantic_type(normalize_schema(pa.schema([("t", pa.time32("ms"))])).field("t")) == "time"


def test_an_instant_outside_of_spark_s_range_is_an_error_and_never_wraps():
    batch = pa.RecordBatch.from_arrays([pa.array([2**62], pa.timestamp("s"))], ["t"])
    with pytest.raises(DataError) as caught:
        normalize_batch(batch, normalize_schema(batch.schema))
    assert caught.value.code == "engine.out_of_range"
    assert "column t" in caught.value.diagnostic.message


def test_a_decimal_has_never_more_digits_behind_the_point_than_in_all():
    schema = normalize_schema(pa.schema([("d", pa.decimal128(2, 5))]))
    assert schema.field("d").type == pa.decimal128(5, 5)


def test_extension_types_become_what_they_are_stored_as():
    batch = pa.RecordBatch.from_arrays([pa.array([b"0" * 16, None], pa.uuid())], ["id"])
    schema = normalize_schema(batch.schema)
    assert normalize_batch(batch, schema).column(0).to_pylist() == [b"0" * 16, None]
    assert schema.field("id").type == pa.binary()


@pytest.mark.parametrize(
    "type_",
    [
        pa.dense_union([pa.field("a", pa.int64())]),
        pa.list_(pa.month_day_nano_interval()),
        pa.run_end_encoded(pa.int32(), pa.string()),
        pa.list_view(pa.int8()),
    ],
    ids=str,
)
def test_a_type_without_counterpart_is_refused_by_name(type_):
    with pytest.raises(SchemaError, match="Spark has no type") as caught:
        normalize_schema(pa.schema([("c", type_)]))
    assert caught.value.code == "engine.unsupported_type"


def test_every_column_may_be_null_and_other_metadata_is_dropped():
    field = pa.field("a", pa.struct([pa.field("b", pa.int8(), nullable=False)]), False, {"k": "v"})
    normal = normalize_schema(pa.schema([field], {"m": "n"}))
    assert normal.field(0).nullable
    assert normal.field(0).type.field(0).nullable
    assert not normal.metadata
    assert not normal.field(0).metadata


def test_what_a_column_means_stays_with_it():
    fields = [
        pa.field("j", pa.large_string(), metadata={"penstock.type": "json", "k": "v"}),
        pa.field("u", pa.list_(pa.field("item", pa.string(), metadata={"penstock.type": "uuid"}))),
    ]
    normal = normalize_schema(pa.schema(fields))
    assert normal.field("j").metadata == {b"penstock.type": b"json"}
    assert normal.field("j").type == pa.string()
