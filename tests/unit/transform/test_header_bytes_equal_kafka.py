"""What arrives in a message's headers is what Kafka's transforms and header converters make."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from py4j import java_gateway, protocol

from penstock.transform.headers import parse_header
from penstock_connector.header_converters import open_header_converter
from penstock_converters.headers.types import parse_header_types, with_header_types
from penstock_converters.headers.values import parse_literal
from support.kafka_connect import jars
from support.kafka_transforms import KAFKA, Kafka
from support.transforms import DATASET, Case

HEADERS = pa.map_(pa.string(), pa.binary())
CONVERTERS: dict[str, tuple[str, dict[str, str]]] = {
    "simple": (f"{KAFKA}.storage.SimpleHeaderConverter", {}),
    "string": (f"{KAFKA}.storage.StringConverter", {}),
    "json": (f"{KAFKA}.json.JsonConverter", {"schemas.enable": "true"}),
    "plain json": (f"{KAFKA}.json.JsonConverter", {"schemas.enable": "false"}),
    "bytes": (f"{KAFKA}.converters.ByteArrayConverter", {}),
    "short": (f"{KAFKA}.converters.ShortConverter", {}),
    "long": (f"{KAFKA}.converters.LongConverter", {}),
    "double": (f"{KAFKA}.converters.DoubleConverter", {}),
    "boolean": (f"{KAFKA}.converters.BooleanConverter", {}),
}
LITERALS = [
    "7", "007", "-129", "40000", "3000000000", "99999999999999999999", "1.10", "0.1", "1e3", "4e38",
    "true", "TRUE", "null", "it's 5", "", " ", '"q"', "[1, 2.50]", "[1,300]", '["a","b\\"c"]',
    '{"a": 1, "b": 300}', "{1: true}", "[[1],[2]]", "[null]", "[2020-01-02]", "2020-01-02",
    "1969-12-31", "2020-01-02T03:04:05.678Z", "2020-01-02T00:00:00.000Z", "03:04:05.678Z",
    "12:30", "[1,", "a:b",
]  # fmt: skip
FIELDS: dict[str, tuple[str, list[Any]]] = {
    "i": ("int32", [7, -1, None]),
    "l": ("int64", [7, 1 << 40, None]),
    "h": ("int16", [7, 300, None]),
    "d": ("float64", [1.5, 1e10, None]),
    "f": ("float32", [1.5, 0.25, None]),
    "s": ("string", ["7", "true", None]),
    "t": ("boolean", [True, False, None]),
    "b": ("binary", ["x", "yz", None]),
    "at": ("timestamp", [1577934245678000, 1577923200000000, -1000000]),
    "day": ("date", [18263, 0, None]),
    "li": ("list<int64>", [[1, None], [], None]),
    "m": ("map<string, int32>", [{"a": 1}, {"b": None}, None]),
    "st": (
        "struct<x: int32, y: string>",
        [{"x": 1, "y": 'a"b\\c'}, {"x": None, "y": ""}, None],
    ),
}
UNLIKE_LITERALS = {"json": {"[null]"}}
"""Literals that differ: Kafka's schema of a list of nulls has none of its items; ours are texts."""
UNLIKE = {"string": {"b"}}
"""Headers that differ: Java's text of bytes is the address of an array."""


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    """A JVM with Kafka's classes."""
    kafka = Kafka(jars())
    yield kafka
    kafka.close()


@pytest.fixture(autouse=True)
def errors_of_kafka(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read answers as py4j does (`test_equals_kafka`), also where Spark began only for this file:
    fixtures of the module are made before.
    """
    monkeypatch.setattr(java_gateway, "get_return_value", protocol.get_return_value)


@pytest.fixture(scope="module")
def from_fields(spark: Any) -> tuple[pa.ChunkedArray, str]:
    """The headers of rows after HeaderFrom, and their types."""
    from unit.transform.test_golden import compiled, in_spark

    rows, rejected = in_spark(spark, case())
    assert not rejected
    ((_, types),) = compiled(case()).steps[-1].semantic_types or ()
    return rows["__headers"], types


def case() -> Case:
    names = ",".join(FIELDS)
    rows = [[values[row] for _, values in FIELDS.values()] for row in range(3)]
    transform = {"type": "HeaderFrom", "fields": names, "headers": names, "operation": "copy"}
    return Case("headers", transform, {name: kind for name, (kind, _) in FIELDS.items()}, rows)


def written(headers: pa.Array, types: str, converter: str) -> list[dict[str, bytes | None] | None]:
    """Return the headers of messages; None for a message with a rejected one."""
    name, keys = CONVERTERS[converter]
    by = open_header_converter(name, keys)
    encoded, rejected = by.encode(headers, DATASET, parse_header_types(types))
    bad = {index for index, _ in rejected}
    return [
        None if index in bad else dict(row or ()) for index, row in enumerate(encoded.to_pylist())
    ]


@pytest.mark.parametrize("converter", CONVERTERS)
def test_inserted_headers(kafka: Kafka, converter: str) -> None:
    """Where Kafka's converter refuses a value, ours may be lenient."""
    kafka.use_header_converter(*CONVERTERS[converter])
    transform = {"type": f"{KAFKA}.transforms.InsertHeader", "header": "h"}
    unlike = {}
    for literal in LITERALS:
        one = Case("h", transform | {"value.literal": literal}, {"v": "int32"}, [[1]])
        (theirs,) = kafka.run(transform["type"], one)
        value = parse_header(literal)
        text = parse_literal(literal.strip()).row_text.encode()
        header = None if value.sql.startswith("CAST(NULL") else text
        types = with_header_types("", [("h", value.type)])
        (ours,) = written(pa.array([[("h", header)]], HEADERS), types, converter)
        if theirs != "refused" and ours != theirs["__headers"]:  # type: ignore[index]
            unlike[literal] = (ours, theirs)
    assert set(unlike) == UNLIKE_LITERALS.get(converter, set()), unlike


@pytest.mark.parametrize("converter", CONVERTERS)
def test_headers_from_fields(
    kafka: Kafka, from_fields: tuple[pa.ChunkedArray, str], converter: str
) -> None:
    """Each field by itself: Kafka's converters of numbers refuse the others."""
    kafka.use_header_converter(*CONVERTERS[converter])
    headers, types = from_fields
    one = case()
    unlike = {}
    for field in FIELDS:
        transform = one.transform | {"fields": field, "headers": field}
        moved = Case("h", transform, one.columns, one.rows)
        theirs = list(kafka.run(f"{KAFKA}.transforms.HeaderFrom$Value", moved))
        only = [[pair for pair in row if pair[0] == field] for row in headers.to_pylist()]
        ours = written(pa.array(only, HEADERS), types, converter)
        for row, found in zip(ours, theirs, strict=True):
            if found != "refused" and row != found["__headers"]:  # type: ignore[index]
                unlike[field] = (row, found["__headers"])  # type: ignore[index]
    assert set(unlike) == UNLIKE.get(converter, set()), unlike
