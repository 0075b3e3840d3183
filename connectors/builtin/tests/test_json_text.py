"""Rows as JSON text: a value has one form, at the top and inside lists, structs and maps."""

import datetime as dt
import json
import random
from decimal import Decimal

import pyarrow as pa
import pytest

from penstock_builtin.jsontext import json_lines

AT = dt.datetime(1969, 12, 31, 23, 59, 59, 999999)  # noqa: DTZ001 - has no zone
VALUES = [
    (pa.string(), 'é"\\\n', 'é"\\\n'),
    (pa.large_string(), "x", "x"),
    (pa.string_view(), "x", "x"),
    (pa.bool_(), True, True),
    (pa.int64(), -(2**63), -(2**63)),
    (pa.uint64(), 2**64 - 1, 2**64 - 1),
    (pa.float32(), 0.5, 0.5),
    (pa.float64(), float("nan"), None),
    (pa.float64(), float("inf"), None),
    (pa.decimal128(10, 2), Decimal("1.50"), Decimal("1.50")),
    (pa.date32(), dt.date(1, 1, 1), "0001-01-01"),
    (pa.time32("ms"), dt.time(23, 59, 59, 999000), "23:59:59.999"),
    (pa.time64("us"), dt.time(0, 0, 0, 1), "00:00:00.000001"),
    (pa.timestamp("us"), AT, "1969-12-31T23:59:59.999999"),
    (pa.timestamp("us", "UTC"), AT.replace(tzinfo=dt.UTC), "1969-12-31T23:59:59.999999Z"),
    (pa.duration("us"), dt.timedelta(microseconds=-1), "PT-0.000001S"),
    (pa.duration("us"), dt.timedelta(0), "PT0.000000S"),
    (pa.duration("s"), dt.timedelta(days=1), "PT86400S"),
    (pa.duration("ms"), dt.timedelta(milliseconds=1500), "PT1.500S"),
    (pa.duration("ns"), 1, "PT0.000000001S"),
    (pa.binary(), b"\xff\x00", "/wA="),
    (pa.binary(2), b"\xff\x00", "/wA="),
    (pa.null(), None, None),
    (pa.list_(pa.int8()), [], []),
    (pa.large_list(pa.int8()), [1, None], [1, None]),
    (pa.list_(pa.int8(), 2), [1, 2], [1, 2]),
    (pa.map_(pa.string(), pa.int8()), [('k"', 1), ("l", None)], {'k"': 1, "l": None}),
    (pa.map_(pa.int64(), pa.string()), [(1, "x")], {"1": "x"}),
    (pa.map_(pa.date32(), pa.int8()), [(dt.date(2020, 1, 1), 1)], {"2020-01-01": 1}),
    (pa.struct([("a", pa.int8()), ("b", pa.string())]), {"a": None, "b": "x"},
     {"a": None, "b": "x"}),
    (pa.struct([]), {}, {}),
    (pa.dictionary(pa.int8(), pa.string()), "x", "x"),
]  # fmt: skip
AROUND = {
    "top": (lambda kind: kind, lambda value: value, lambda value: value),
    "list": (pa.list_, lambda value: [value, None], lambda value: [value, None]),
    "fixed list": (lambda kind: pa.list_(kind, 1), lambda value: [value], lambda value: [value]),
    "struct": (lambda kind: pa.struct([("s", kind)]), lambda v: {"s": v}, lambda v: {"s": v}),
    "map": (lambda kind: pa.map_(pa.string(), kind), lambda v: [("m", v)], lambda v: {"m": v}),
    "lists": (lambda kind: pa.list_(pa.list_(kind)), lambda v: [[v], []], lambda v: [[v], []]),
}  # fmt: skip


def lines_of(column):
    rows = pa.RecordBatch.from_arrays([column, column], ["c", "d"])
    texts = json_lines(rows).to_pylist()
    return [json.loads(text, parse_float=Decimal)["c"] for text in texts]


@pytest.mark.parametrize("around", AROUND.values(), ids=AROUND)
@pytest.mark.parametrize(("kind", "value", "text"), VALUES, ids=lambda v: str(v)[:30])
def test_a_value_has_the_same_form_at_every_depth(around, kind, value, text):
    outer, wrap, wrapped = around
    values = [wrap(value), None, wrap(value)]
    column = pa.array([*values, *values], outer(kind))
    assert lines_of(column) == [wrapped(text), None, wrapped(text)] * 2
    assert lines_of(column.slice(2, 3)) == [wrapped(text), wrapped(text), None]


def test_what_lies_under_missing_lists_is_not_written():
    lists = pa.ListArray.from_arrays([0, 2, 3], pa.array([1, 2, 3]), mask=pa.array([True, False]))
    assert lines_of(lists) == [None, [3]]


def random_value(chance, kind):
    if chance.random() < 0.2:
        return None
    if pa.types.is_list(kind):
        return [random_value(chance, kind.value_type) for _ in range(chance.randint(0, 3))]
    if pa.types.is_struct(kind):
        return {field.name: random_value(chance, field.type) for field in kind}
    return (
        chance.choice([0, -7, 2**40]) if pa.types.is_integer(kind) else chance.choice(["", '"\x01'])
    )


def random_kind(chance, depth=0):
    match chance.choice("istl" if depth < 4 else "is"):
        case "i":
            return pa.int64()
        case "s":
            return pa.string()
        case "l":
            return pa.list_(random_kind(chance, depth + 1))
    return pa.struct([(name, random_kind(chance, depth + 1)) for name in "ab"])


def test_random_rows_are_what_python_writes():
    for seed in range(500):
        chance = random.Random(seed)
        kind = random_kind(chance)
        values = [random_value(chance, kind) for _ in range(20)]
        begin, size = chance.randint(0, 5), chance.randint(0, 10)
        column = pa.array(values, kind).slice(begin, size)
        assert lines_of(column) == values[begin : begin + size], (seed, kind)
