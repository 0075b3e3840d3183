"""Kernels equal Spark: conditions and projections over the same generated rows."""

import datetime as dt
import math

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.transform.column_kernel import Upper
from penstock.transform.configuration import build_chain
from penstock.transform.row import Row
from penstock.transform.sql.condition_parser import compile_condition
from penstock.transform.sql.literals import name as quoted

LIMITS = {
    "i8": [-128, -1, 0, 1, 127],
    "i32": [-(1 << 31), -7, -1, 0, 1, 7, (1 << 31) - 1],
    "i64": [-(1 << 63), -(1 << 53) - 1, -3, 0, 3, (1 << 53) + 1, (1 << 63) - 1],
}
DOUBLES = [
    math.nan, -math.nan, math.inf, -math.inf, 0.0, -0.0, 0.1, 1.5, -2.0, 5e-324, 1.7e308, 2.0**53,
]  # fmt: skip
TEXTS = [
    "", "a", "A", "ab", "aXb", "abc", "%", "_", "a%", "a\nb", "\r\n", "ß", "é", "e\u0301",
    "\u0085",
    "Ω", "\U0001f600", "a\U0001f600b", "\uffff", "z", " ", "a ", "0", "\0", "ﬀ", ".*", "(a|b)",
]  # fmt: skip
SCHEMA = pa.schema(
    {
        "i8": pa.int8(),
        "i32": pa.int32(),
        "i64": pa.int64(),
        "d": pa.float64(),
        "s": pa.string(),
        "a.b`c d": pa.string(),
        "f": pa.bool_(),
    }
)
TYPES = {"i8": 8, "i32": 32, "i64": 64}

texts = st.sampled_from(TEXTS) | st.text(max_size=6)
doubles = st.sampled_from(DOUBLES) | st.floats()


def whole(name):
    bound = 1 << (TYPES[name] - 1)
    return st.sampled_from(LIMITS[name]) | st.integers(-bound, bound - 1)


rows = st.lists(
    st.fixed_dictionaries(
        {
            **{name: st.none() | whole(name) for name in TYPES},
            "d": st.none() | doubles,
            "s": st.none() | texts,
            "a.b`c d": st.none() | texts,
            "f": st.none() | st.booleans(),
        }
    ),
    min_size=20,
    max_size=80,
)

ops = st.sampled_from(["=", "==", "!=", "<>", "<", "<=", ">", ">="])
limits = st.sampled_from([limit for of_type in LIMITS.values() for limit in of_type])
whole_literals = limits.map(str) | st.integers(-(1 << 63), (1 << 63) - 1).map(str)
fractions = st.sampled_from(["0.0", "-0.0", "0.1", "1.5", "-2.00", "1e308", "2.5E-3", "0.30"])
quoted_texts = texts.filter(lambda t: not set(t) & {"'", "\\", "$"}).map(lambda t: f"'{t}'")
text_columns = st.sampled_from(["s", "`s`", "`a.b``c d`"])
text_functions = st.one_of(
    text_columns,
    st.builds("upper({})".format, text_columns),
    st.builds("Substring({}, {}, {})".format, text_columns, st.integers(0, 3), st.integers(0, 3)),
)
whole_columns = st.sampled_from(["i8", "i32", "i64", "`i64`"])
whole_functions = whole_columns | st.builds("LENGTH ( {} )".format, text_columns)
patterns = st.lists(st.sampled_from(["%", "_", "a", "b", "X", "\U0001f600", ".", "\n"]), max_size=5)

tests = st.one_of(
    st.builds("{} {} {}".format, whole_functions, ops, whole_literals),
    st.builds("{} {} {}".format, whole_literals, ops, whole_functions),
    st.builds("d {} {}".format, ops, whole_literals | fractions),
    st.builds("{} {} d".format, fractions, ops),
    st.builds("{} {} {}".format, text_functions, ops, quoted_texts),
    st.builds("f {} {}".format, st.sampled_from(["=", "!="]), st.sampled_from(["true", "FALSE"])),
    st.builds(
        "{} % {} {} {}".format, whole_functions, st.sampled_from([1, 2, 3, 7, 100]), ops,
        st.integers(-8, 8),
    ),
    st.builds("({} % 2) = 0".format, whole_columns),
    st.sampled_from(["f", "not f", "(f)", "true", "FALSE"]),
    st.builds(
        "{} is {}null".format, st.sampled_from(["d", "s", "f", "upper(s)"]),
        st.sampled_from(["", "NOT "]),
    ),
    st.builds(
        "{} {}in ({})".format, whole_functions, st.sampled_from(["", "not "]),
        st.lists(whole_literals, min_size=1, max_size=14).map(", ".join),
    ),
    st.builds(
        "{} {}IN ({})".format, text_functions, st.sampled_from(["", "NOT "]),
        st.lists(quoted_texts, min_size=1, max_size=14).map(",".join),
    ),
    st.builds(
        "{} {}like '{}'".format, text_functions, st.sampled_from(["", "not "]),
        patterns.map("".join),
    ),
    st.builds("{} between {} and {}".format, whole_functions, whole_literals, whole_literals),
    st.builds("d not between {} and {}".format, fractions, fractions),
)  # fmt: skip
conditions = st.recursive(
    tests,
    lambda inner: st.one_of(
        st.builds("({}) AND {}".format, inner, inner),
        st.builds("{} or ({})".format, inner, inner),
        st.builds("{} and {} or {}".format, inner, inner, inner),
        st.builds("NOT ({})".format, inner),
        st.builds("not {}".format, inner),
    ),
    max_leaves=4,
)
some_jobs = settings(
    max_examples=8,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)


def batch_of(given_rows):
    return pa.RecordBatch.from_pylist(given_rows, SCHEMA)


@some_jobs
@given(rows=rows, conditions=st.lists(conditions, min_size=30, max_size=40))
def test_a_condition_is_true_false_and_null_for_the_same_rows_as_in_spark(spark, rows, conditions):
    batch = batch_of(rows)
    frame = spark.createDataFrame(pa.Table.from_batches([batch]))
    expected = frame.selectExpr(*(f"({c}) AS c{i}" for i, c in enumerate(conditions))).toArrow()
    for condition, column in zip(conditions, expected.columns, strict=True):
        kernel = compile_condition(condition, Row.of(SCHEMA), "p")
        assert kernel is not None, condition
        assert kernel.condition.mask(batch).to_pylist() == column.to_pylist(), condition


@pytest.mark.parametrize("name", LIMITS)
def test_the_limits_of_integers_compare_as_in_spark(spark, name):
    """Every limit against every limit, without random choice."""
    every = [*LIMITS["i8"], *LIMITS["i32"], *LIMITS["i64"]]
    batch = batch_of([{name: n} for n in [None, *LIMITS[name]]])
    conditions = [f"{name} {op} {n}" for n in every for op in ("=", "<", ">=")]
    frame = spark.createDataFrame(pa.Table.from_batches([batch]))
    expected = frame.selectExpr(*(f"{c} AS c{i}" for i, c in enumerate(conditions))).toArrow()
    for condition, column in zip(conditions, expected.columns, strict=True):
        kernel = compile_condition(condition, Row.of(SCHEMA), "p")
        assert kernel.condition.mask(batch).to_pylist() == column.to_pylist(), condition


def through_spark(frame, steps):
    """Run steps as the engine does."""
    for step in steps:
        if step.where is not None:
            frame = frame.where(step.where)
        if step.select is not None:
            frame = frame.selectExpr(*(f"{text} AS {quoted(name)}" for name, text in step.select))
    return frame.toArrow()


def through_kernels(batch, steps):
    for step in steps:
        batch = step.kernel(batch)
    return pa.Table.from_batches([batch])


CHAIN = {
    "transforms": "keep,insert,rename,project",
    "transforms.keep.type": "Filter",
    "transforms.keep.condition": "i64 % 2 = 0 or d > 1.5 or s like '%a%' or s is null",
    "transforms.insert.type": "InsertField",
    "transforms.insert.static.field": "fixed",
    "transforms.insert.static.value": "it's \\ ${env:HOME} `x` \" \u2028 \U0001f600 \n",
    "transforms.insert.topic.field": "to pic`.!",
    "transforms.rename.type": "ReplaceField",
    "transforms.rename.renames": "i64:number,i32:i64",
    "transforms.rename.exclude": "i8,d",
    "transforms.project.type": "Project",
    "transforms.project.columns": (
        "number, upper(s) as up, length(s) AS n, substring(s, 0, 2) AS a, substring(s, 2, 3) AS b,"
        "substring(`a.b``c d`, 1, 2147483647) AS c, fixed, `to pic``.`, f AS `f g`"
    ),
}


@some_jobs
@given(rows=rows)
def test_a_chain_of_kernels_gives_the_rows_that_spark_gives(spark, rows):
    batch = batch_of(rows)
    steps = build_chain(CHAIN).compile("data`set'${env:HOME}", SCHEMA).steps
    assert all(step.kernel is not None for step in steps)
    assert len(steps) == 4
    expected = through_spark(spark.createDataFrame(pa.Table.from_batches([batch])), steps)
    found = through_kernels(batch, steps)
    assert found.schema.names == expected.schema.names
    assert found.schema.types == expected.schema.types
    assert found.to_pylist() == expected.to_pylist()


NESTED = pa.schema(
    {
        "a": pa.struct({"i": pa.int32(), "s": pa.struct({"t": pa.string(), "f": pa.float64()})}),
        "i8": pa.int8(),
        "s": pa.string(),
        "b": pa.bool_(),
        "w": pa.timestamp("us", "UTC"),
        "l": pa.list_(pa.int32()),
    }
)
NESTED_CHAIN = {
    "transforms": "cast,mask,key,flat,hoist,extract,select",
    "transforms.cast.type": "Cast",
    "transforms.cast.spec": "i8:int64",
    "transforms.mask.type": "MaskField",
    "transforms.mask.fields": "s,b,w,l",
    "transforms.key.type": "ValueToKey",
    "transforms.key.fields": "i8,a,s",
    "transforms.flat.type": "Flatten",
    "transforms.hoist.type": "HoistField",
    "transforms.hoist.field": "all",
    "transforms.extract.type": "ExtractField",
    "transforms.extract.field": "all",
    "transforms.select.type": "Sql",
    "transforms.select.statement": (
        "SELECT *, upper(`a.s.t`) AS u FROM batch WHERE i8 < 5 OR `a.i` IS NULL"
    ),
}
nested_rows = st.lists(
    st.fixed_dictionaries(
        {
            "a": st.none()
            | st.fixed_dictionaries(
                {
                    "i": st.none() | whole("i32"),
                    "s": st.none()
                    | st.fixed_dictionaries({"t": st.none() | texts, "f": st.none() | doubles}),
                }
            ),
            "i8": st.none() | whole("i8"),
            "s": st.none() | texts,
            "b": st.none() | st.booleans(),
            "w": st.none() | st.datetimes().map(lambda t: t.replace(tzinfo=dt.UTC)),
            "l": st.none() | st.lists(st.integers(0, 9), max_size=3),
        }
    ),
    min_size=10,
    max_size=40,
)


@settings(parent=some_jobs, max_examples=4)
@given(rows=nested_rows)
def test_kernels_of_nested_rows_give_what_spark_gives(spark, rows):
    batch = pa.RecordBatch.from_pylist(rows, NESTED)
    steps = build_chain(NESTED_CHAIN).compile("d", NESTED).steps
    assert [step.kernel is not None for step in steps] == [True] * 7
    expected = through_spark(spark.createDataFrame(pa.Table.from_batches([batch])), steps)
    found = through_kernels(batch, steps)
    assert found.schema.names == expected.schema.names
    assert found.schema.types == expected.schema.types
    assert list(map(repr, found.to_pylist())) == list(map(repr, expected.to_pylist()))


HEADERS = pa.schema({"__headers": pa.map_(pa.string(), pa.binary()), "n": pa.int64()})
HEADER_CHAIN = {
    "transforms": "drop,insert,none,from",
    "transforms.drop.type": "DropHeaders",
    "transforms.drop.headers": "a,b",
    "transforms.insert.type": "InsertHeader",
    "transforms.insert.header": "c",
    "transforms.insert.value.literal": "[1, 2.5]",
    "transforms.none.type": "InsertHeader",
    "transforms.none.header": "a",
    "transforms.none.value.literal": "null",
    "transforms.from.type": "HeaderFrom",
    "transforms.from.fields": "n",
    "transforms.from.headers": "d",
    "transforms.from.operation": "copy",
}
some_headers = st.none() | st.dictionaries(
    st.sampled_from(["a", "b", "c", "d", "x", ""]), st.none() | st.binary(max_size=3), max_size=4
)


@settings(parent=some_jobs, max_examples=4)
@given(rows=st.lists(st.tuples(some_headers, st.none() | whole("i64")), min_size=8, max_size=30))
def test_headers_are_what_they_are_in_spark(spark, rows):
    """In every step, and of a batch that does not begin at its first row."""
    found = [{"__headers": given and list(given.items()), "n": n} for given, n in rows]
    batch = pa.RecordBatch.from_pylist(found, HEADERS)[3:]
    steps = build_chain(HEADER_CHAIN).compile("d", HEADERS).steps
    assert [step.kernel is not None for step in steps] == [True] * 4
    frame = spark.createDataFrame(pa.Table.from_batches([batch]))
    for count in range(1, 5):
        expected = through_spark(frame, steps[:count])
        result = through_kernels(batch, steps[:count])
        assert result.schema.types == expected.schema.types
        assert result["__headers"].to_pylist() == expected["__headers"].to_pylist()


def test_upper_is_the_same_for_every_code_point(spark):
    """Proves that the table of newer upper-case letters is complete."""
    points = [chr(i) for i in range(0x110000) if not 0xD800 <= i < 0xE000]
    frame = spark.createDataFrame(pa.table({"c": points}))
    found = frame.selectExpr("c", "upper(c) AS u").toArrow()
    for batch in found.to_batches(max_chunksize=5000):  # some have newer capitals, most have none
        assert Upper("c").array(batch).to_pylist() == batch.column("u").to_pylist()
