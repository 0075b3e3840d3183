"""Schemas of Kafka Connect and Avro, as Confluent's AvroData converts them: names, attributes and
their order, unions, defaults. A schema of rows that are read comes back unchanged.
"""

import json

import pyarrow as pa
import pytest

from penstock_converters.avro.connect import AvroOptions, from_connect, scrub_name, to_connect
from penstock_converters.avro.schema import parse_avro_schema
from penstock_converters.connect_schema import (
    InvalidSchemaError,
    to_arrow_field,
    to_connect_schema,
)

PLAIN = AvroOptions()
ENHANCED = AvroOptions(enhanced=True)
CONNECT = "org.apache.kafka.connect.data"
NAMESPACE = "io.confluent.connect.avro"


def avro_of(schema, options=PLAIN):
    return json.dumps(from_connect(schema, options), separators=(",", ":"))


def connect_of(schema, options=PLAIN):
    return to_connect(parse_avro_schema(json.dumps(schema)), options)


TIMESTAMP = (
    '{"type":"long","connect.version":1,"connect.name":"org.apache.kafka.connect.data.Timestamp",'
    '"logicalType":"timestamp-millis"}'
)
DECIMAL = (
    '{"type":"bytes","scale":2,"precision":10,"connect.version":1,"connect.parameters":'
    '{"scale":"2","connect.decimal.precision":"10"},'
    '"connect.name":"org.apache.kafka.connect.data.Decimal","logicalType":"decimal"}'
)
NESTED = (
    '{"type":"record","name":"ConnectDefault","namespace":"io.confluent.connect.avro",'
    '"fields":[{"name":"a","type":["null",{"type":"record","name":"ConnectDefault2",'
    '"fields":[{"name":"b","type":["null","string"],"default":null}]}],"default":null}]}'
)
INNER = pa.struct([("a", pa.struct([("b", pa.string())]))])
ENTRIES = (
    '{"type":"array","items":{"type":"record","name":"MapEntry","namespace":'
    '"io.confluent.connect.avro","fields":[{"name":"key","type":"int"},'
    '{"name":"value","type":["null","string"],"default":null}]}}'
)


# as Confluent's AvroData writes them, attribute by attribute: a registry compares texts
@pytest.mark.parametrize(
    ("field", "text"),
    [
        (pa.field("v", pa.int32(), nullable=False), '"int"'),
        (pa.field("v", pa.int8(), nullable=False), '{"type":"int","connect.type":"int8"}'),
        (pa.field("v", pa.string()), '["null","string"]'),
        (pa.field("v", pa.timestamp("us", "UTC"), nullable=False), TIMESTAMP),
        (pa.field("v", pa.decimal128(10, 2), nullable=False), DECIMAL),
        (pa.field("v", INNER, nullable=False), NESTED),
        (pa.field("v", pa.map_(pa.int32(), pa.string()), nullable=False), ENTRIES),
    ],
)  # fmt: skip
def test_schemas_of_columns_are_those_of_confluent(field, text):
    assert avro_of(to_connect_schema(field)) == text


def test_a_named_struct_is_a_record_of_its_name_and_defined_once():
    inner = {
        "type": "struct", "optional": False, "name": "com.x.Inner", "version": 3, "doc": "why",
        "fields": [{"type": "int32", "optional": True, "default": 5, "field": "n"}],
    }  # fmt: skip
    outer = {
        "type": "struct", "optional": False, "name": "com.x.Outer",
        "fields": [inner | {"field": "a"}, inner | {"field": "b", "optional": True}],
    }  # fmt: skip
    assert json.loads(avro_of(outer)) == {
        "type": "record", "name": "Outer", "namespace": "com.x", "connect.name": "com.x.Outer",
        "fields": [
            {"name": "a", "type": {
                "type": "record", "name": "Inner", "connect.doc": "why", "connect.version": 3,
                "connect.name": "com.x.Inner", "fields": [
                    {"name": "n", "type": [{"type": "int", "connect.default": 5}, "null"],
                     "default": 5}]}},
            {"name": "b", "type": ["null", "Inner"], "default": None},
        ],
    }  # fmt: skip
    assert to_arrow_field(connect_of(json.loads(avro_of(outer)))).type == to_arrow_field(outer).type


def test_two_structs_of_one_name_must_be_the_same():
    one = {"type": "struct", "optional": False, "name": "R", "fields": []}
    other = one | {"fields": [{"type": "int32", "optional": False, "field": "n"}]}
    outer = {
        "type": "struct", "optional": False,
        "fields": [one | {"field": "a"}, other | {"field": "b"}],
    }  # fmt: skip
    with pytest.raises(InvalidSchemaError, match="two types are named R"):
        from_connect(outer, PLAIN)


SHOP = {
    "type": "record", "name": "Order", "namespace": "com.shop", "doc": "An order", "fields": [
        {"name": "id", "type": "long", "doc": "its number"},
        {"name": "state", "type": {
            "type": "enum", "name": "State", "symbols": ["NEW", "PAID"], "doc": "how far"}},
        {"name": "amount", "type": {
            "type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 4}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []},
        {"name": "count", "type": "int", "default": 1},
        {"name": "by", "type": ["null", "string", "long"], "default": None},
        {"name": "then", "type": ["null", {"type": "map", "values": "double"}], "default": None},
    ],
}  # fmt: skip


def test_schemas_of_others_are_those_of_kafka_connect():
    found = connect_of(SHOP)
    by_name = {one["field"]: one for one in found["fields"]}
    assert (found["name"], found["optional"]) == ("com.shop.Order", False)
    assert found["parameters"] == {
        f"{NAMESPACE}.record.doc": "An order", f"{NAMESPACE}.field.doc.id": "its number",
    }  # fmt: skip
    assert by_name["state"] == {
        "type": "string", "optional": False, "name": "com.shop.State", "field": "state",
        "parameters": {
            f"{NAMESPACE}.enum.doc.State": "how far", f"{NAMESPACE}.Enum": "com.shop.State",
            f"{NAMESPACE}.Enum.NEW": "NEW", f"{NAMESPACE}.Enum.PAID": "PAID",
        },
    }  # fmt: skip
    assert by_name["amount"]["name"] == f"{CONNECT}.Decimal"
    assert by_name["amount"]["parameters"] == {"scale": "2", "connect.decimal.precision": "9"}
    assert by_name["hash"]["parameters"] == {"connect.fixed.size": "4"}
    assert by_name["at"]["name"] == f"{CONNECT}.Timestamp"
    assert by_name["count"]["default"] == 1
    assert by_name["count"]["parameters"] == {f"{NAMESPACE}.field.default": "true"}
    union = by_name["by"]
    assert (union["name"], union["optional"]) == (f"{NAMESPACE}.Union", True)
    assert [(one["field"], one["optional"]) for one in union["fields"]] == [
        ("string", True), ("long", True),
    ]  # fmt: skip
    assert by_name["then"]["optional"] is True


def test_a_schema_that_was_read_is_written_as_it_was():
    field = to_arrow_field(connect_of(SHOP, ENHANCED))
    again = from_connect(to_connect_schema(field), ENHANCED)
    names = {one["name"]: one["type"] for one in again["fields"]}
    assert (again["name"], again["namespace"], again["doc"]) == ("Order", "com.shop", "An order")
    assert names["state"]["symbols"] == ["NEW", "PAID"]
    assert (names["hash"]["type"], names["hash"]["size"]) == ("fixed", 4)
    assert names["by"] == ["null", "string", "long"]
    assert names["tags"]["items"] == "string"
    assert to_arrow_field(connect_of(again, ENHANCED)).type == field.type
    parse_avro_schema(json.dumps(again))


def test_without_metadata_schemas_are_avros_alone():
    options = AvroOptions(metadata=False)
    field = pa.field("v", pa.struct([pa.field("t", pa.date32(), nullable=False)]), nullable=False)
    assert avro_of(to_connect_schema(field), options).count("connect.") == 1  # the namespace
    assert "parameters" not in connect_of(
        {"type": "record", "name": "R", "doc": "x", "fields": []}, options
    )


def test_names_of_a_union_need_their_namespace_where_they_are_the_same():
    kinds = [{"type": "record", "name": f"{space}.R", "fields": []} for space in "ab"]
    schema = {"type": "record", "name": "O", "fields": [{"name": "u", "type": kinds}]}
    with pytest.raises(InvalidSchemaError, match=r"enhanced\.avro\.schema\.support"):
        connect_of(schema)
    assert [f["field"] for f in connect_of(schema, ENHANCED)["fields"][0]["fields"]] == [
        "a.R",
        "b.R",
    ]


@pytest.mark.parametrize(
    ("name", "scrubbed"),
    [
        ("fine_1", "fine_1"), ("a-b", "a_b"), ("1a", "x1a"), ("a b", "a_b"), ("é", "_C3_A9"),
        ("a.b", "a_b"), ("", ""), ("a~", "a_7E"),
    ],
)  # fmt: skip
def test_names_are_scrubbed_as_by_confluent(name, scrubbed):
    assert scrub_name(name, AvroOptions(scrub=True)) == scrubbed
    assert scrub_name(name, PLAIN) == name


@pytest.mark.parametrize(
    "schema",
    [
        "null", {"type": "int", "connect.type": "int64"}, {"type": "int", "connect.version": "x"},
        {"type": "record", "name": "R", "connect.name": 5, "fields": []},
        {"type": "bytes", "logicalType": "decimal", "precision": "x"},
        {"type": "bytes", "logicalType": "decimal", "precision": 5, "connect.name": "Other"},
    ],
)  # fmt: skip
def test_schemas_that_kafka_connect_does_not_have_are_refused(schema):
    with pytest.raises(InvalidSchemaError):
        connect_of(schema)
