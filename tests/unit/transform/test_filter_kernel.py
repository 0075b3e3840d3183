"""The condition parser compiles what Arrow computes like Spark, and leaves the rest to Spark."""

import pyarrow as pa
import pytest

from penstock.model.errors import ConfigError
from penstock.transform.row import Row
from penstock.transform.sql.condition_parser import compile_condition

SCHEMA = pa.schema(
    {
        "i": pa.int32(),
        "d": pa.float64(),
        "f4": pa.float32(),
        "s": pa.string(),
        "b": pa.bool_(),
        "t": pa.timestamp("us"),
        "dec": pa.decimal128(10, 2),
        "u": pa.uint8(),
        "dict": pa.dictionary(pa.int8(), pa.string()),
        "date": pa.string(),
        "1a": pa.int32(),
    }
)
ROW = Row.of(SCHEMA)


def rows_kept(condition, **columns):
    batch = pa.RecordBatch.from_pydict(columns)
    return compile_condition(condition, Row.of(batch.schema), "p")(batch).to_pydict()


@pytest.mark.parametrize(
    "text",
    [
        "i = 1.5", "i = '1'", "i > 1e3", "s = 1", "d = 'x'", "d in (1.5)", "b > true", "b = 1",
        "f4 > 1", "t > '2020'", "dec = 1", "u = 1", "dict is null", "dict = 'a'", "s is true",
        "i = 9223372036854775808", "i = NULL", "i in (1, NULL)", "i in (1, 'x')", "i in (true)",
        "i <=> 1", "i = d", "i + 1 = 2", "i % 0 = 1", "i % -2 = 1", "i % 2.5 = 1", "d % 2 = 0",
        "i = 1L", "i = 1 and", "i = 1and b", "i = .5", "d = 1.", "d = 1e400", "i = - 1 - 1",
        "d = 0.1234567890123456789012345678901", "s = 'a' 'b'", "s = 'it''s'", "s = 'a\\nb'",
        's = "a"', "s = r'a'", "s like 'a' escape 'b'", "s like '\\%'", "s rlike 'a'", "s like s",
        "date = 'x'", "current_date = 'x'", "1a = 1", "s.x = 1", "lower(s) = 'a'", "i = 1 = true",
        "1 = 1", "not", "", "(" * 12 + "b" + ")" * 12, " or ".join(["b"] * 600), "i = 1 i = 2",
        "b in (true)", "5", "'x'", "(i)", "i", "s", "case", "(i = 1) is null", "i is not",
        "exists(s)", "b is null is null", "i between 1 and '2'", "i not 1",
        "upper(i) = 'A'", "upper(date) = 'A'", "upper(upper(s)) = 'A'", "`upper`(s) = 'A'",
        "upper(s", "upper() = 'A'", "length(s, 1) = 1", "substring(s, -1, 1) = 'a'", "upper(s)",
        "substring(s, 1) = 'a'", "substring(s, 2, 2147483647) = 'a'", "length(s) = '1'",
    ],
)  # fmt: skip
def test_other_conditions_are_left_to_spark(text):
    assert compile_condition(text, ROW, "p") is None


@pytest.mark.parametrize(
    "text", ["x = 1", "i = 1 and `no such` = 2", "I = 1", "x is null or not (y like 'a')"]
)
def test_a_column_that_does_not_exist_is_reported(text):
    with pytest.raises(ConfigError) as caught:
        compile_condition(text, ROW, "transforms.t.condition")
    assert caught.value.code == "transform.unknown_column"
    assert caught.value.diagnostic.config_path == "transforms.t.condition"


def test_backticks_quote_names_of_columns():
    assert rows_kept("`date` = 'x' and `a``b` > 1", **{"date": ["x", "x"], "a`b": [1, 2]}) == {
        "date": ["x"],
        "a`b": [2],
    }


def test_nan_is_larger_than_every_number():
    values = [float("nan"), float("inf"), 1.0, None]
    assert len(rows_kept("d > 5", d=values)["d"]) == 2
    assert len(rows_kept("d >= 1 and d <= 1", d=values)["d"]) == 1


def test_a_null_is_kept_neither_by_in_nor_by_not_in():
    assert rows_kept("i in (1)", i=[1, 2, None])["i"] == [1]
    assert rows_kept("i not in (1)", i=[1, 2, None])["i"] == [2]


def test_a_remainder_has_the_sign_of_the_dividend():
    low = -(1 << 63)
    assert rows_kept("i % 3 = -2", i=[low, -1, 1, 7, None])["i"] == [low]


def test_and_binds_stronger_than_or_and_not_stronger_than_and():
    flags = {"a": [True, True, False, False], "b": [True, False, True, False], "c": [True] * 4}
    assert rows_kept("a or b and not c", **flags)["a"] == [True, True]
    assert rows_kept("not a and b or not c", **flags)["b"] == [True]
