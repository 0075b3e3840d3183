"""Rows as JSON lines come back as they were, whatever their types."""

# ruff: noqa: DTZ001 - timestamps without a zone are a type of their own

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.spark.connector_io import json_lines
from penstock.spark.connector_io.json_lines import format_rows

CASES = [
    (pa.int8(), [-128, 127]),
    (pa.int64(), [-(2**63), 2**63 - 1, 2**53 + 1]),
    (pa.float32(), [0.5, float("inf"), float("-inf")]),
    (pa.float64(), [0.1, 1e300]),
    (pa.bool_(), [True, False]),
    (pa.string(), ["", 'a "quote"\n', "héllo 😀", "\u2028"]),
    (pa.binary(), [b"", b"\x00\xff"]),
    (pa.decimal128(38, 10), [Decimal("1.0000000001"), Decimal(-9999999999999999999999999999)]),
    (pa.date32(), [date(1, 1, 1), date(9999, 12, 31)]),
    (pa.timestamp("us"), [datetime(1970, 1, 1), datetime(2026, 1, 2, 3, 4, 5, 678901)]),
    (pa.timestamp("us", tz="UTC"), [datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)]),
    (pa.duration("us"), [timedelta(microseconds=-1), timedelta(days=3)]),
    (pa.list_(pa.int64()), [[], [1, None, 3]]),
    (pa.list_(pa.timestamp("us")), [[datetime(2026, 1, 1)], []]),
    (pa.map_(pa.string(), pa.binary()), [[("a", b"1"), ("b", None)], []]),
    (pa.struct([("a", pa.int64()), ("b", pa.binary())]), [{"a": 1, "b": b"x"}, {"a": None, "b": None}]),  # noqa: E501
    (pa.list_(pa.struct([("m", pa.map_(pa.string(), pa.date32()))])), [[{"m": [("k", date(2020, 1, 1))]}]]),  # noqa: E501
]  # fmt: skip


def back(batch):
    lines = format_rows(batch)
    assert all("\n" not in line for line in lines)
    return json_lines.parse_rows(("\n".join(lines) + "\n").encode(), batch.schema)


@pytest.mark.parametrize(("type_", "values"), CASES, ids=lambda v: str(v)[:30])
def test_each_type_comes_back(type_, values):
    column = pa.array([*values, None], type_)
    batch = pa.RecordBatch.from_arrays([column, pa.array(range(len(column)))], ["value", "n"])
    assert back(batch).to_pylist() == batch.to_pylist()
    tail = batch.slice(1)
    assert back(tail).to_pylist() == tail.to_pylist()


def test_a_number_that_is_none_comes_back():
    batch = pa.RecordBatch.from_pydict({"x": pa.array([float("nan")])})
    (value,) = back(batch).column(0).to_pylist()
    assert math.isnan(value)


NAMES = st.text(min_size=1, max_size=5)


@given(st.dictionaries(NAMES, st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=4))
def test_any_name_of_a_column_comes_back(row):
    batch = pa.RecordBatch.from_pylist([row])
    assert back(batch).to_pylist() == [row]
