"""Whatever a parser is given (X7): it reads it, or refuses it by the error that is its own.

Texts are good ones with something changed, and any others. `PENSTOCK_FUZZ_EXAMPLES=100000` looks
longer; a hang ends by the time limit of tests.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import wrappers_pb2
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.connector_config.dead_letters import read_tolerance
from penstock.gateway import request_input
from penstock.gateway.v1.bodies import parse_time
from penstock.model.dead_letter_queue import parse_edits, parse_ids
from penstock.model.errors import InternalError, PenstockError
from penstock.pipeline_files.connector_file import read_connector
from penstock.pipeline_files.files import read_flat, read_values
from penstock.plugin.catalog.manifest import parse_manifest
from penstock.plugin.process import handshake, logs
from penstock.secrets.resolution import find_references
from penstock.spark.connector_io import json_lines
from penstock.transform.functions.column_declaration import parse_columns
from penstock.transform.sql.guard import check_expression
from penstock_converters.avro import connect as avro_connect
from penstock_converters.avro.schema import parse_avro_schema
from penstock_converters.connect_schema import InvalidSchemaError, to_arrow_field
from penstock_converters.json import schema as json_schema
from penstock_converters.protobuf import connect as proto_connect
from penstock_converters.protobuf.schema import parse_proto
from penstock_converters.registry import create_converter
from penstock_values.frame_bounds import (
    FrameTooLargeError,
    MalformedFrameError,
    check_frame,
)
from penstock_values.identity import partition_key

EXAMPLES = int(os.environ.get("PENSTOCK_FUZZ_EXAMPLES", "200"))
ROWS = pa.schema([("id", pa.int64()), ("at", pa.date32()), ("tags", pa.list_(pa.string()))])
FRAME = pa.record_batch([[1, 2], [None, None], [["a"], []]], schema=ROWS).serialize().to_pybytes()
MANIFEST = """name = "x"
version = "1.0"
command = ["python", "x.py"]
[[connector]]
name = "x-source"
kind = "source"
"""
MONEY = (
    b'{"schema":{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal",'
    b'"parameters":{"scale":"2"}},"payload":1.5}'
)


AVRO = """{"type":"record","name":"R","namespace":"a.b","fields":[
{"name":"e","type":{"type":"enum","name":"E","symbols":["A"]},"default":"A","doc":"d"},
{"name":"d","type":["null",{"type":"bytes","logicalType":"decimal","precision":9,"scale":2}]},
{"name":"m","type":{"type":"map","values":{"type":"array","items":["int","E"]}},"default":{}},
{"name":"f","type":{"type":"fixed","name":"F","size":3,"connect.parameters":{"a":"b"}}}]}"""
JSON_SCHEMA = """{"$id":"x","type":"object","title":"T","required":["a"],"properties":{
"a":{"type":["null","integer"],"connect.index":1},"b":{"oneOf":[{"type":"string"},{"$ref":"#/d/c"}]},
"e":{"type":"array","items":{"enum":["A",null]}},"m":{"connect.type":"map","type":"object",
"additionalProperties":{"type":"number"}}},"d":{"c":{"allOf":[{"properties":{"z":{"const":"Q"}}}]}}}"""
PROTO = """syntax = "proto3"; package a.b; import "google/protobuf/timestamp.proto";
message R { option x = { y: 1 }; enum E { A = 0; B = -1 [z = true]; reserved 5; }
  E e = 1 [(confluent.field_meta) = { params: [{ key: "connect.type", value: "int8" }] }];
  oneof o { int32 i = 2; google.protobuf.Timestamp t = 3; } map<string, R.N> m = 4;
  message N { repeated sint64 s = 1 [packed = false]; optional string p = 2; } } // end"""


DESCRIPTOR = base64.b64encode(wrappers_pb2.DESCRIPTOR.serialized_pb).decode()


def read_avro_schema(text: str) -> object:
    """Return the columns of a schema of Avro."""
    return to_arrow_field(
        avro_connect.to_connect(parse_avro_schema(text), avro_connect.AvroOptions())
    )


def read_json_schema(text: str) -> object:
    """Return the columns of a JSON Schema."""
    schemas = json_schema.JsonSchemas(text)
    return to_arrow_field(json_schema.to_connect(schemas, json_schema.JsonSchemaOptions()))


def read_proto(text: str) -> list[object]:
    """Return the columns of the messages of a schema of Protobuf."""
    options = proto_connect.ProtoOptions()
    messages = parse_proto(text).messages
    return [to_arrow_field(proto_connect.to_connect(one, options)) for one in messages]


@dataclass(frozen=True)
class Parser:
    """What reads texts or bytes, some that it takes, and how it may refuse others."""

    name: str
    read: Callable[[Any], object]
    good: tuple[str | bytes, ...]
    refuses: tuple[type[Exception], ...] = (PenstockError,)


TEXTS = [
    Parser("handshake", handshake.parse_handshake, ("1|1|unix|/run/x|grpc|\n",), (InternalError,)),
    Parser("line of a plugin", logs.parse_line, ('{"@level":"warn","@message":"x"}',), ()),
    Parser("manifest", lambda text: parse_manifest(text, Path("/x")), (MANIFEST,)),
    Parser("tolerance", read_tolerance, ("none", "all", "5/1000")),
    Parser(
        "reference",
        lambda text: list(find_references({"k": text})),
        ("${file:/x:y}", "a${env:B}"),
        (),
    ),
    Parser(
        "columns", lambda text: parse_columns(text, "p"), ("id int64, x list<map<string,date>>",)
    ),
    Parser(
        "expression",
        lambda text: check_expression(text, "p"),
        ("a > 1 AND b LIKE '%x' OR upper(c) IN ('1')",),
    ),
    Parser("letters", parse_ids, ("0/17", "0/3,0/17-20")),
    Parser("edits", lambda text: parse_edits(text, {"0/1": text}), ('{"a": [1, {"b": null}]}',)),
    Parser("time", parse_time, ("2026-01-31T08:00:00Z", "2026-01-31T08:00:00+01:00")),
    Parser("Avro's schema", read_avro_schema, (AVRO,), (InvalidSchemaError,)),
    Parser("JSON Schema", read_json_schema, (JSON_SCHEMA,), (InvalidSchemaError,)),
    Parser("Protobuf's schema", read_proto, (PROTO,), (InvalidSchemaError,)),
    Parser("Protobuf's descriptor", read_proto, (DESCRIPTOR,), (InvalidSchemaError,)),
    Parser("partition", partition_key, ('{"f":{"$bytes":"AA=="},"n":1}',), (ValueError,)),
]
BYTES = [
    Parser(
        "body",
        lambda data: request_input.to_plain(request_input.parse_json(data)),
        (b'{"a": [1.0, {"b": null}]}',),
    ),
    Parser("frame of rows", check_frame, (FRAME,), (MalformedFrameError, FrameTooLargeError)),
    Parser(
        "rows as JSON",
        lambda data: json_lines.parse_rows(data, ROWS),
        (b'{"id": 1, "at": "2026-01-31", "tags": ["x"]}\n',),
        (json_lines.InvalidRowsError,),
    ),
    Parser(
        "message of Kafka's",
        lambda data: create_converter("json", {}).decode(pa.array([data], pa.binary()), "t"),
        (
            b'{"schema":{"type":"int64","name":"org.apache.kafka.connect.data.Date"},"payload":1}',
            MONEY,
        ),
        (),
    ),
]
FILES = {
    ".properties": b"name=x\nconnector.class=file-source\nkey=\\u00e4\n",
    ".yaml": b"name: x\ntransforms: [{name: a, type: Filter}]\nat: 2026-01-31\n",
    ".json": b'{"name": "x", "config": {"tasks.max": 2, "a": {"b": [true, null]}}}',
}
fuzzed = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


def changed(good: st.SearchStrategy[Any], other: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Texts in which a part is another one, or is there many times."""
    return st.builds(
        lambda text, at, size, part, times: text[:at] + part * times + text[at + size :],
        good,
        st.integers(0, 200),
        st.integers(0, 20),
        other,
        st.sampled_from([1, 1, 1, 2, 5_000]),
    )


def read(parser: Parser, text: Any) -> None:
    """Read a text: the only errors are those that the parser has for it."""
    try:
        parser.read(text)
    except parser.refuses:
        return


@pytest.mark.parametrize("parser", TEXTS, ids=lambda one: one.name)
def test_any_text_is_read_or_refused(parser):
    good = st.sampled_from(parser.good)

    @fuzzed
    @given(st.one_of(good, st.text(), changed(good, st.text(max_size=5))))
    def try_one(text: str) -> None:
        read(parser, text)

    try_one()


@pytest.mark.parametrize("parser", BYTES, ids=lambda one: one.name)
def test_any_bytes_are_read_or_refused(parser):
    good = st.sampled_from(parser.good)

    @fuzzed
    @given(st.one_of(good, st.binary(), changed(good, st.binary(max_size=5))))
    def try_one(data: bytes) -> None:
        read(parser, data)

    try_one()


@pytest.mark.parametrize("ending", FILES)
def test_any_file_is_read_or_refused(ending, tmp_path):
    good, file = st.just(FILES[ending]), tmp_path / f"x{ending}"

    @fuzzed
    @given(st.one_of(good, st.binary(), changed(good, st.binary(max_size=5))))
    def try_one(data: bytes) -> None:
        file.write_bytes(data)
        for reader in (read_flat, read_values, read_connector):
            read(Parser("file", reader, ()), file)

    try_one()


@pytest.mark.parametrize("parser", [*TEXTS, *BYTES], ids=lambda one: one.name)
def test_what_is_good_is_taken(parser):
    for text in parser.good:
        parser.read(text)


DEEP = "message A {" * 10_000, "[" * 100_000, '{"a":' * 100_000, "(" * 100_000, "x list<" * 100_000


@pytest.mark.parametrize("parser", [*TEXTS, *BYTES], ids=lambda one: one.name)
@pytest.mark.parametrize("text", DEEP, ids=lambda text: text[:3])
def test_what_is_deep_is_read_or_refused(parser, text):
    read(parser, text if parser in TEXTS else text.encode())


def test_a_parser_that_fails_otherwise_is_seen():
    broken = Parser("broken", base64.b64decode, ("AA==",))
    with pytest.raises(ValueError, match="base64"):
        read(broken, "A")
