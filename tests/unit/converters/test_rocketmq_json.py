"""JSON as RocketMQ Connect's JsonConverter writes and reads it: Kafka Connect's, with other names
of logical types, and with keys in any order.
"""

import json
from datetime import UTC, date, datetime, time
from decimal import Decimal

import pyarrow as pa
import pytest

from penstock_converters.registry import create_converter

CLASS = "org.apache.rocketmq.connect.runtime.converter.record.json.JsonConverter"
OPEN, KAFKA = "io.openmessaging.connector.api.data.logical.", "org.apache.kafka.connect.data."


def schema(package):
    fields = [
        {"field": "d", "type": "bytes", "optional": False, "name": f"{package}Decimal",
         "version": 1, "parameters": {"scale": "2"}},
        {"field": "n", "type": "array", "optional": True,
         "items": {"type": "int32", "optional": False, "name": f"{package}Date", "version": 1}},
        {"field": "t", "type": "int32", "optional": True, "name": f"{package}Time", "version": 1},
        {"field": "s", "type": "int64", "optional": True, "name": f"{package}Timestamp",
         "version": 1},
    ]  # fmt: skip
    return {"type": "struct", "fields": fields, "optional": False}


PAYLOAD = {"d": "MDk=", "n": [19_723], "t": 3_600_000, "s": 1_704_067_200_000}
ROW = {
    "d": Decimal("123.45"),
    "n": [date(2024, 1, 1)],
    "t": time(1),
    "s": datetime(2024, 1, 1, tzinfo=UTC),
}


def message(package):
    document = {"payload": PAYLOAD, "schema": schema(package)}  # fastjson keeps no order
    return json.dumps(document).encode()


@pytest.mark.parametrize("name", ["rocketmq-json", CLASS, "json"])
@pytest.mark.parametrize("package", [OPEN, KAFKA])
def test_logical_types_of_both_are_read(name, package):
    messages = pa.array([message(package)] * 3)
    (run,) = create_converter(name, {}).decode(messages, "t").runs
    assert run.column.to_pylist() == [ROW] * 3


@pytest.mark.parametrize(("name", "package"), [(CLASS, OPEN), ("json", KAFKA)])
def test_each_writes_its_own_names(name, package):
    converter = create_converter(name, {})
    (run,) = converter.decode(pa.array([message(OPEN)]), "t").runs
    (written,) = converter.encode(run.column, run.field, "t").column.to_pylist()
    document = json.loads(written)
    assert document["payload"] == PAYLOAD
    assert document["schema"] == schema(package)


def test_a_default_that_looks_like_a_schema_is_left_alone():
    inside = {"name": f"{OPEN}Date", "type": "int32"}
    whole = {"type": "map", "keys": {"type": "string"}, "values": {"type": "string"},
             "optional": True, "default": inside}  # fmt: skip
    document = {"schema": whole, "payload": None}
    (run,) = create_converter("json", {}).decode(pa.array([json.dumps(document)]), "t").runs
    assert dict(run.column[0].as_py()) == inside


@pytest.mark.parametrize(
    ("name", "value"),
    [("String", "é"), ("ByteArray", b"\xff"), ("Short", 1), ("Integer", 2), ("Long", 3),
     ("Float", 0.5), ("Double", 0.5)],
)  # fmt: skip
def test_its_other_converters_are_kafka_connects(name, value):
    package = "org.apache.rocketmq.connect.runtime.converter.record"
    theirs = create_converter(f"{package}.{name}Converter", {})
    ours = create_converter(f"{name}Converter", {})
    kinds = {"Short": pa.int16(), "Integer": pa.int32(), "Float": pa.float32()}
    column = pa.array([value, None], kinds.get(name))
    field = pa.field("v", column.type)
    assert theirs.encode(column, field, "t") == ours.encode(column, field, "t")
