"""Header values of messages and of rows, by the converter of headers."""

import json

import pyarrow as pa
import pytest

from penstock_connector import ConfigError
from penstock_connector.header_converters import HeaderConverter, open_header_converter
from penstock_connector.messages import (
    HEADERS_TYPE,
    MESSAGE_SCHEMA,
    Converters,
    MessageDecoder,
    MessageEncoder,
)
from penstock_converters.registry import create_converter

KAFKA = "org.apache.kafka.connect"
JSON = f"{KAFKA}.json.JsonConverter"


def maps(*headers):
    return pa.array(headers, HEADERS_TYPE)


def converter(name, **keys):
    made = open_header_converter(name, {k.replace("_", "."): v for k, v in keys.items()})
    assert isinstance(made, HeaderConverter)
    return made


def envelope(kind, payload):
    schema = kind if isinstance(kind, dict) else {"type": kind}
    return {"schema": schema | {"optional": False}, "payload": payload}


@pytest.mark.parametrize(
    ("text", "kind", "payload"),
    [
        (b"true", "boolean", True),
        (b"5", "int8", 5),
        (b"-129", "int16", -129),
        (b"40000", "int32", 40000),
        (b"3000000000", "int64", 3000000000),
        (
            b"99999999999999999999",
            {
                "type": "bytes",
                "name": f"{KAFKA}.data.Decimal",
                "version": 1,
                "parameters": {"scale": "0"},
            },
            "BWvHXi1jD///",
        ),
        (b"2020-01-02", {"type": "int32", "name": f"{KAFKA}.data.Date", "version": 1}, 18263),
        (b"1.5", "float", 1.5),
        (b"0.1", "float", 0.1),
        (b"1e39", "string", "1e39"),
        (b"4.0E38", "double", 4.0e38),
        (b"[1,300]", {"type": "array", "items": {"type": "int16", "optional": False}}, [1, 300]),
        (b"1e400", "string", "1e400"),
        (b"00501", "string", "00501"),
        (b"1.10", "string", "1.10"),
        (b"+5", "string", "+5"),
        (b"1e3", "string", "1e3"),
        (b"-0", "string", "-0"),
        (b"", "string", ""),
        ("über".encode(), "string", "über"),
    ],
)
def test_a_text_has_the_type_that_it_looks_like_and_comes_back(text, kind, payload):
    by = converter(JSON)
    there, rejected = by.encode(maps([("h", text)]), "t", {})
    assert rejected == []
    ((name, data),) = there.to_pylist()[0]
    assert (name, json.loads(data)) == ("h", envelope(kind, payload))
    back, rejected = by.decode(there, "t")
    assert (back.to_pylist(), rejected) == ([[("h", text)]], [])


def test_headers_keep_their_order_their_nulls_and_their_repeated_names():
    headers = maps([("a", b"1"), ("a", b"x"), ("b", None)], None, [], [("c", b"true")])
    by = converter(JSON, schemas_enable="false")
    there, _ = by.encode(headers, "t", {})
    assert there.to_pylist() == [
        [("a", b"1"), ("a", b'"x"'), ("b", None)], None, [], [("c", b"true")],
    ]  # fmt: skip
    assert by.decode(there, "t")[0].equals(headers)
    part, _ = by.decode(there.slice(3), "t")
    assert part.to_pylist() == [[("c", b"true")]]


def test_what_is_no_value_of_the_converter_is_rejected_with_its_message():
    by = converter(f"{KAFKA}.converters.LongConverter")
    there = maps([("n", (7).to_bytes(8, "big"))], [("n", b"short"), ("m", b"also")], None)
    back, rejected = by.decode(there, "t")
    assert back.to_pylist()[0] == [("n", b"7")]
    assert [index for index, _ in rejected] == [1]
    plain = converter(JSON, schemas_enable="false")
    for text in (b'"\\ud83d"', b"{", b"\xff"):
        _, rejected = plain.decode(maps([("h", text)]), "t")
        assert [index for index, _ in rejected] == [0], text
    _, rejected = converter(JSON).encode(maps([("h", b"\xff")]), "t", {})
    assert [(index, problem.code) for index, problem in rejected] == [(0, "converter.value")]


@pytest.mark.parametrize(
    "name",
    ["simple", f"{KAFKA}.storage.SimpleHeaderConverter", f"{KAFKA}.storage.StringConverter",
     f"{KAFKA}.converters.ByteArrayConverter"],
)  # fmt: skip
def test_texts_stay_as_they_are(name):
    by, headers = open_header_converter(name, {}), maps([("h", b"007"), ("b", b"\xff")], None)
    assert by.is_text
    assert by.decode(headers, "t") == (headers, ())
    assert by.encode(headers, "t", {}) == (headers, ())


@pytest.mark.parametrize(
    ("name", "keys", "code", "path"),
    [
        ("nobody", {}, "converter.unknown", "header.converter"),
        ("json", {"schemas.enable": "so"}, "config.invalid_value",
         "header.converter.schemas.enable"),
        ("avro", {}, "converter.not_for_headers", "header.converter"),
        ("avro", {"schema.registry.url": "http://r:1"}, "converter.not_for_headers",
         "header.converter"),
    ],
)  # fmt: skip
def test_a_converter_that_headers_cannot_have_is_refused(name, keys, code, path):
    with pytest.raises(ConfigError) as caught:
        open_header_converter(name, keys)
    assert (caught.value.code, caught.value.config_path) == (code, path)


def test_a_message_with_a_bad_header_is_refused_with_its_stage_and_the_others_are_rows():
    text = create_converter("string", {})
    decoder = MessageDecoder("kafka", "t", Converters(text, text, converter(JSON)))
    good = json.dumps(envelope("int32", 5)).encode()
    columns = [[None] * 3, [b"a", b"b", b"c"], [1] * 3, [[("h", good)], [("h", b"{")], None]]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, MESSAGE_SCHEMA, strict=True)]
    rows, bad = decoder.decode(pa.RecordBatch.from_arrays(arrays, schema=MESSAGE_SCHEMA))
    assert [row for one in rows for row in one.rows["value"].to_pylist()] == ["a", "c"]
    assert rows[0].rows["__headers"].to_pylist()[0] == [("h", b"5")]
    ((index, error),) = [(one.index, one.error) for one in bad]
    assert index == 1
    assert error.message.startswith("HEADER_CONVERTER: ")


def test_a_row_gives_its_headers_to_the_converter():
    text = create_converter("string", {})
    schema = pa.schema([("value", pa.string()), ("__headers", HEADERS_TYPE)])
    encoder = MessageEncoder("kafka", "t", schema, (), Converters(text, text, converter("json")))
    rows = pa.RecordBatch.from_arrays(
        [pa.array(["a", "b"]), maps([("h", b"5")], [("h", b"\xff")])], schema=schema
    )
    messages, bad = encoder.encode(rows)
    assert json.loads(messages["headers"].to_pylist()[0][0][1]) == envelope("int8", 5)
    assert [(one.index, one.error.message[:17]) for one in bad] == [(1, "HEADER_CONVERTER:")]


def test_types_of_a_source_and_of_transforms_reach_the_sink_beside_the_rows():
    text = create_converter("string", {})
    string = open_header_converter(f"{KAFKA}.storage.StringConverter", {})
    decoder = MessageDecoder("kafka", "t", Converters(text, text, string))
    columns = [[None], [b"a"], [1], [[("h", b"7"), ("n", None)]]]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, MESSAGE_SCHEMA, strict=True)]
    (decoded,), _ = decoder.decode(pa.RecordBatch.from_arrays(arrays, schema=MESSAGE_SCHEMA))
    encoder = MessageEncoder(
        "kafka", "t", decoded.rows.schema, (), Converters(text, text, converter("json"))
    )
    messages, bad = encoder.encode(decoded.rows)
    assert bad == []
    headers = dict(messages["headers"].to_pylist()[0])
    string = {"type": "string", "optional": True}
    assert json.loads(headers["h"]) == {"schema": string, "payload": "7"}
    assert json.loads(headers["n"]) == {"schema": string, "payload": None}


def test_a_text_that_is_not_of_its_type_has_the_type_that_it_looks_like():
    by, types = converter("json", schemas_enable="false"), {"h": pa.field("h", pa.int64())}
    there, _ = by.encode(maps([("h", b"x")], [("h", b"true")], [("h", b"7")]), "t", types)
    assert there.to_pylist() == [[("h", b'"x"')], [("h", b"true")], [("h", b"7")]]
