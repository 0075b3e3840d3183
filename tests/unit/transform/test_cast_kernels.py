"""Kernels of Cast and TimestampConverter equal Spark's expressions, over the same rows."""

import datetime as dt
import math
import pickle

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from penstock.model.step import ROW
from penstock.spark.plan import apply_steps
from penstock.spark.rejected_rows import ERROR, RejectedRows, apply_kernels, with_tracking_columns
from penstock.transform.column_kernel import Copy
from penstock.transform.configuration import build_chain
from penstock.transform.java.cast_kernels import cast_source
from penstock.transform.java.casts import TARGETS, TIME, cast_expression

SEMANTIC = {"t": TIME}
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
EDGES = [
    *(sign * (1 << bits) + more for bits in (7, 8, 15, 16, 31, 32, 53, 62) for sign in (1, -1)
      for more in (-1, 0, 1)),
    (1 << 63) - 1, -(1 << 63),
]  # fmt: skip
DOUBLES = [
    math.nan, math.inf, -math.inf, 0.0, -0.0, 0.5, -0.5, 0.9999999, -1.5, 127.9, 128.0, -128.9,
    2.0**31, -(2.0**31), 2.0**31 - 0.5, 2.0**63, -(2.0**63), 1e300, -1e300, 5e-324, 3.5e38,
]  # fmt: skip
whole = st.sampled_from(EDGES) | INT64
fractions = st.sampled_from(DOUBLES) | st.floats()
far_times = st.integers(-(1 << 62), 1 << 62)
near_times = st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999)
times = st.sampled_from([0, -1, 1, 999, -999, 1_000_000, 86_399_999_999]) | near_times | far_times
days = st.integers(-719_162, 2_932_896) | st.integers(-5_000_000, 20_000_000)


def narrow(bits):
    return whole.map(lambda number: (number + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1)))


COLUMNS = {
    "i8": (pa.int8(), narrow(8)),
    "i16": (pa.int16(), narrow(16)),
    "i32": (pa.int32(), narrow(32)),
    "i64": (pa.int64(), whole),
    "f": (pa.float32(), (st.sampled_from(DOUBLES) | st.floats(width=32)).filter(
        lambda d: not math.isfinite(d) or abs(d) < 3e38)),
    "d": (pa.float64(), fractions),
    "b": (pa.bool_(), st.booleans()),
    "s": (pa.string(), st.text(max_size=5)),
    "day": (pa.date32(), days),
    "at": (pa.timestamp("us", "UTC"), times),
    "local": (pa.timestamp("us"), times),
    "t": (pa.int64(), st.integers(0, 86_399_999_999)),
}  # fmt: skip
some_jobs = settings(
    max_examples=6,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],  # a smaller case would cost as many jobs of Spark
)


def column(type_, values):
    """Return an array of numbers of a type, times by their number."""
    if pa.types.is_timestamp(type_):
        return pa.array(values, pa.int64()).cast(type_)
    if pa.types.is_date(type_):
        return pa.array(values, pa.int32()).cast(type_)
    return pa.array(values, type_)


def plain(array):
    """Return values that compare, times by their number: Python knows few of them."""
    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.int64())
    if pa.types.is_date(array.type):
        array = array.cast(pa.int32())
    return [repr(value) for value in array.to_pylist()]


def to_frame(spark, batch):
    from pyspark.sql.pandas.types import from_arrow_schema

    schema = from_arrow_schema(batch.schema, prefer_timestamp_ntz=True)
    return spark.createDataFrame(pa.Table.from_batches([batch]), schema)


@some_jobs
@given(
    values=st.fixed_dictionaries(
        {name: st.lists(st.none() | of, min_size=40, max_size=40)
         for name, (_, of) in COLUMNS.items()}
    )
)  # fmt: skip
def test_casts_that_never_fail_give_what_spark_gives(spark, values):
    batch = pa.RecordBatch.from_arrays(
        [column(COLUMNS[name][0], found) for name, found in values.items()], list(values)
    )
    sql, kernels = [], []
    for name, (type_, _) in COLUMNS.items():
        for target in TARGETS:
            found = cast_expression(name, type_, SEMANTIC.get(name, ""), target)
            if found is not None and found[1]:
                kernel = cast_source(Copy(name), type_, SEMANTIC.get(name, ""), target)
                if kernel is not None:
                    sql.append(found[0])
                    kernels.append((name, target, pickle.loads(pickle.dumps(kernel))))
    assert len(kernels) > 70
    expected = to_frame(spark, batch).selectExpr(*(f"{e} AS c{i}" for i, e in enumerate(sql)))
    for (name, target, kernel), wanted in zip(kernels, expected.toArrow().columns, strict=True):
        result = kernel.array(batch)
        assert result.type == TARGETS[target]
        assert plain(result) == plain(wanted.combine_chunks()), (name, target)


def through_spark(spark, batch, steps):
    """Return the good rows by number, as the engine makes them."""
    tracked = with_tracking_columns(batch.schema)
    numbers = pa.array(range(batch.num_rows), pa.int64())
    rows = pa.RecordBatch.from_arrays(
        [*batch.columns, numbers, pa.nulls(batch.num_rows, pa.string())], schema=tracked
    )
    frame, _ = apply_steps(to_frame(spark, rows), steps, tracked=True)
    table = frame.toArrow().combine_chunks()
    good = [error is None for error in table[ERROR].to_pylist()]
    return table.filter(pa.array(good)).drop_columns([ERROR])


def through_kernels(batch, steps):
    numbers = pa.array(range(batch.num_rows), pa.int64())
    kernels = pickle.loads(pickle.dumps([step.kernel for step in steps]))
    return apply_kernels(batch.append_column(ROW, numbers), kernels, RejectedRows())


def check_equal(spark, array, **config):
    """Compare what a transform of one column gives, and which rows it rejects."""
    keys = {f"transforms.x.{key.replace('__', '.')}": value for key, value in config.items()}
    batch = pa.RecordBatch.from_arrays([array], ["c"])
    steps = build_chain({"transforms": "x", **keys}).compile("d", batch.schema).steps
    assert all(step.kernel is not None for step in steps)
    found, expected = through_kernels(batch, steps), through_spark(spark, batch, steps)
    assert found.schema.types == expected.schema.types
    before = dict(enumerate(array.to_pylist() if array.type == pa.string() else plain(array)))
    results = [
        {before[row]: value for row, value in zip(rows[ROW].to_pylist(), plain(c), strict=True)}
        for rows, c in ((found, found["c"]), (expected, expected["c"].combine_chunks()))
    ]
    assert results[0] == results[1], config


NUMBERS = [
    "", "0", "-0", "+0", "007", "+7", "--7", "+-7", " 7", "7 ", "7\n", "\n7", "7.0", "1e3", "0x1F",
    "127", "128", "-128", "-129", "32767", "32768", "2147483647", "2147483648", "-2147483649",
    "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809",
    "000000000000000000000000000000000007", "1" * 5000, "0" * 5000 + "5", "0" * 30, "-" + "0" * 30,
    "٣", "1_0", "null", "1d",
    "1f", "1D", "1.5F", ".", ".5", "5.", "-.5e-3", "1e400", "-1e400", "1e-400", "1e", "e1", "NaN",
    "+NaN", "-NaN", "nan", "Infinity", "-Infinity", "+Infinity", "inf", "infinity", "INF", " NaN ",
    "\t1.5\0", "\u00a01", "0x1p3", "0x1.8p1d", "-0X.8P2", "0x1p", "0x1p2000", "1.17549435E-38",
    "3.4028236e38", "16777217", "0.1", "true",
]  # fmt: skip
number_texts = st.from_regex(r"\A[+-]?[0-9]{0,20}(\.[0-9]{0,20})?([eE][+-]?[0-9]{1,3})?[dfDF ]?\Z")


@settings(parent=some_jobs, max_examples=3)
@given(more=st.lists(number_texts | st.text(max_size=4), min_size=30, max_size=60))
@pytest.mark.parametrize("target", [name for name in TARGETS if name != "string"])
def test_texts_are_the_numbers_that_they_are_in_spark(spark, target, more):
    array = pa.array([None, *dict.fromkeys([*NUMBERS, *more])], pa.string())
    check_equal(spark, array, type="Cast", spec=f"c:{target}")


UNITS = ["seconds", "milliseconds", "microseconds", "nanoseconds"]
FORMATS = [
    "yyyy-MM-dd", "yyyy-MM-dd HH:mm:ss", "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'", "yyyyMMdd HHmm", "HH:mm",
    "dd.MM.yyyy HH:mm:ss,SSS", "'at' yyyy/MM/dd 100%", "yyyy-MM-dd'T'HH:mm:ss.SSSXXX",
]  # fmt: skip


@settings(parent=some_jobs, max_examples=2)
@given(values=st.lists(whole | times, min_size=40, max_size=60, unique=True))
@pytest.mark.parametrize(
    ("unit", "target"),
    [
        (unit, target)
        for unit in UNITS
        for target in ("unix", "Date", "Time", "Timestamp", "string")
        if (unit, target) != ("nanoseconds", "unix")  # without a kernel: they may be too large
    ],
)
def test_unix_times_become_what_they_become_in_spark(spark, unit, target, values):
    array = pa.array([None, *values], pa.int64())
    more = {"format": "yyyy-MM-dd HH:mm:ss.SSS"} if target == "string" else {}
    check_equal(
        spark, array, type="TimestampConverter", field="c", target__type=target,
        unix__precision=unit, **more,
    )  # fmt: skip


@settings(parent=some_jobs, max_examples=2)
@given(values=st.lists(times, min_size=40, max_size=60, unique=True))
@pytest.mark.parametrize(
    "pattern", [*FORMATS, "EEE, d MMM y G h:mm a", "D", "yyyy G", "ss.SSS", "'x'"]
)
def test_times_are_written_as_spark_writes_them(spark, pattern, values):
    more = {"field": "c", "target__type": "string", "format": pattern}
    for type_ in (pa.timestamp("us", "UTC"), pa.timestamp("us")):
        check_equal(spark, column(type_, [None, *values]), type="TimestampConverter", **more)
    found = [None, *(value // 86_400_000_000 for value in values)]
    check_equal(spark, column(pa.date32(), found), type="TimestampConverter", **more)


SIGNS = st.sampled_from("0123456789+-:. TZtz/%'")


@settings(parent=some_jobs, max_examples=2)
@given(data=st.data())
@pytest.mark.parametrize("pattern", FORMATS)
def test_texts_are_the_times_that_they_are_in_spark(spark, pattern, data):
    """Right texts, such with a sign changed, and dates that there are not."""
    written = [
        dt.datetime.fromtimestamp(at, dt.UTC) for at in
        data.draw(st.lists(st.integers(-62_000_000_000, 253_402_300_799), min_size=20, max_size=20))
    ]  # fmt: skip
    made = [text_of(pattern, f"{at:%Y}".zfill(4), at) for at in written]
    changed = [
        text[:at] + sign + text[at + 1 :]
        for text in made
        for at, sign in [data.draw(st.tuples(st.integers(0, len(text) - 1), SIGNS))]
    ]
    more = {"field": "c", "target__type": "Timestamp", "format": pattern}
    check_equal(spark, pa.array([None, *dict.fromkeys(made)]), type="TimestampConverter", **more)
    years = ["0000", "-0001", "-0000", "+0001", "+10000", "10000", "+290000", "+300000", "26"]
    made += [text_of(pattern, year, written[0]) for year in years]
    made += [text.replace("01", "00") for text in made] + [f" {made[0]}", f"{made[0]} ", "", "x"]
    made += [text.replace("-01", "-02-30") for text in made[:5]]
    if "XXX" in pattern:
        zones = ("+01:30", "-18:00", "+18:01", "+00:60", "z", "+0100", "-00:00", "+19:00")
        made += [made[0][:-1] + zone for zone in zones]
    array = pa.array([None, *dict.fromkeys([*made, *changed])], pa.string())
    check_equal(spark, array, type="TimestampConverter", **more)


def text_of(pattern, year, at):
    parts = {"yyyy": year, "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S", "SSS": "123",
             "XXX": "Z", "%": "%%"}  # fmt: skip
    text = pattern.replace("'at'", "at").replace("'T'", "T").replace("'Z'", "Z")
    for letter, found in {"%": parts.pop("%"), **parts}.items():
        text = text.replace(letter, found)
    return at.strftime(text)


KEYS = pa.schema({"__key": pa.struct({"a": pa.int32(), "b": pa.string()}), "v": pa.int64()})


@settings(parent=some_jobs, max_examples=3)
@given(
    keys=st.lists(
        st.none()
        | st.fixed_dictionaries({"a": st.none() | narrow(32), "b": st.none() | st.text()}),
        min_size=20, max_size=40,
    )
)  # fmt: skip
def test_keys_are_what_they_are_in_spark(spark, keys):
    config = {
        "transforms": "rename,mask,insert,cast,flat,extract",
        "transforms.rename.type": "ReplaceField$Key",
        "transforms.rename.renames": "b:c",
        "transforms.mask.type": "MaskField$Key",
        "transforms.mask.fields": "c",
        "transforms.insert.type": "InsertField$Key",
        "transforms.insert.static.field": "d",
        "transforms.insert.static.value": "x",
        "transforms.cast.type": "Cast$Key",
        "transforms.cast.spec": "a:int64",
        "transforms.flat.type": "Flatten$Key",
        "transforms.extract.type": "ExtractField$Key",
        "transforms.extract.field": "a",
    }
    batch = pa.RecordBatch.from_pylist([{"__key": key, "v": 1} for key in keys], KEYS)
    steps = build_chain(config).compile("d", batch.schema).steps
    assert all(step.kernel is not None for step in steps)
    for count in range(1, len(steps) + 1):
        found = through_kernels(batch, steps[:count])
        expected = through_spark(spark, batch, steps[:count])
        assert found.schema.types == expected.schema.types
        assert found["__key"].to_pylist() == expected["__key"].to_pylist()
