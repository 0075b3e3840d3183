"""String, ByteArray and the numbers; names, keys, and what is refused."""

from decimal import Decimal

import pyarrow as pa
import pytest

from penstock_converters import InvalidConverterError
from penstock_converters.registry import create_converter
from penstock_converters.simple_converters import NUMBERS

KAFKA = "org.apache.kafka.connect"


def field(column):
    return pa.field("value", column.type)


# the bytes are those of Kafka's serializers
@pytest.mark.parametrize(
    ("name", "value", "data"),
    [
        ("Boolean", True, b"\x01"), ("Boolean", False, b"\x00"),
        ("Short", -2, b"\xff\xfe"), ("Integer", 258, b"\x00\x00\x01\x02"),
        ("Long", -(2**63), b"\x80" + bytes(7)), ("Float", 1.5, b"\x3f\xc0\x00\x00"),
        ("Double", -0.1, bytes.fromhex("bfb999999999999a")),
    ],
)  # fmt: skip
def test_numbers_are_bytes_as_kafka_writes_them(name, value, data):
    made = create_converter(f"{KAFKA}.converters.{name}Converter", {})
    column = pa.array([value, None], NUMBERS[name].kind)
    assert made.encode(column, field(column), "t").column.to_pylist() == [data, None]
    (run,) = made.decode(pa.array([None, data], pa.binary()), "t").runs
    assert run.column.to_pylist() == [None, value]
    assert run.column.type == NUMBERS[name].kind


@pytest.mark.parametrize("name", NUMBERS)
def test_bytes_of_another_length_are_bad_rows(name):
    made = create_converter(name.lower(), {})
    data = pa.array([b"", bytes(made.size_bytes), bytes(made.size_bytes + 1)])
    decoded = made.decode(data, "t")
    assert [row for row, _ in decoded.rejected] == [0, 2]
    assert decoded.runs[0].rows == [1]


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("short", pa.array([40_000])), ("integer", pa.array([1.0])), ("boolean", pa.array([1])),
        ("long", pa.array([True])), ("float", pa.array([0.1])), ("double", pa.array(["x"])),
    ],
)  # fmt: skip
def test_what_is_no_such_number_exactly_is_a_bad_row(name, column):
    encoded = create_converter(name, {}).encode(column, field(column), "t")
    assert [error.code for _, error in encoded.rejected] == ["converter.type"]
    assert encoded.column.to_pylist() == [None]


def test_a_boolean_of_another_byte_is_a_bad_row():
    assert len(create_converter("boolean", {}).decode(pa.array([b"\x02"]), "t").rejected) == 1


def test_texts_are_their_bytes():
    made = create_converter(f"{KAFKA}.storage.StringConverter", {})
    column = pa.array(["Ä", "", None])
    data = ["Ä".encode(), b"", None]
    assert made.encode(column, field(column), "t").column.to_pylist() == data
    decoded = made.decode(pa.array([*data, b"\xff"], pa.binary()), "t")
    assert decoded.runs[0].column.to_pylist() == ["Ä", "", None]
    assert [(row, error.code) for row, error in decoded.rejected] == [(3, "converter.not_text")]


def test_another_encoding_is_obeyed():
    made = create_converter("string", {"converter.encoding": "ISO-8859-1"})
    column = pa.array(["Ä", "€"])
    encoded = made.encode(column, field(column), "t")
    assert encoded.column.to_pylist() == [b"\xc4", None]
    assert [row for row, _ in encoded.rejected] == [1]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"), (5, "5"), (1e10, "1.0E10"), (float("nan"), "NaN"),
        (Decimal("1.50"), "1.50"), ([1, None], "[1, null]"),
        ({"a": 1, "b": None, "c": {"d": "x"}}, "Struct{a=1,c=Struct{d=x}}"),
    ],
)  # fmt: skip
def test_other_values_are_written_as_java_does(value, text):
    column = pa.array([value])
    encoded = create_converter("string", {}).encode(column, field(column), "t")
    assert encoded.column.to_pylist() == [text.encode()]


def test_a_map_is_written_as_java_does():
    column = pa.array([[("k", 1), ("n", None)]], pa.map_(pa.string(), pa.int32()))
    assert (
        create_converter("string", {}).encode(column, field(column), "t").column[0].as_py()
        == b"{k=1, n=null}"
    )


def test_bytes_are_bytes_and_nothing_else_is():
    made = create_converter("ByteArrayConverter", {})
    column = pa.array([b"\x00\xff", None], pa.large_binary())
    assert made.encode(column, field(column), "t").column.to_pylist() == [b"\x00\xff", None]
    (run,) = made.decode(column, "t").runs
    assert run.column.to_pylist() == [b"\x00\xff", None]
    texts = pa.array(["x", None])
    assert [row for row, _ in made.encode(texts, field(texts), "t").rejected] == [0]


@pytest.mark.parametrize(
    ("name", "config", "code"),
    [
        ("JsonConvertor", {}, "converter.unknown"),
        ("json", {"schema.enable": "x"}, "config.unknown_key"),
        ("json", {"schemas.enable": "maybe"}, "config.invalid_value"),
        ("json", {"decimal.format": "HEX"}, "config.invalid_value"),
        ("json", {"schemas.cache.size": "-1"}, "config.invalid_value"),
        ("json", {"schema.content": "{"}, "config.invalid_value"),
        ("json", {"schema.content": '{"type": 5}'}, "config.invalid_value"),
        ("string", {"converter.encoding": "EBCDIC-9"}, "converter.encoding"),
        ("long", {"schemas.enable": "false"}, "config.unknown_key"),
    ],
)
def test_what_cannot_be_meant_is_refused(name, config, code):
    with pytest.raises(InvalidConverterError) as caught:
        create_converter(name, config)
    assert caught.value.code == code
