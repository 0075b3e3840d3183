"""JSON Schema and Kafka Connect's schemas, and messages with an id: what is written is valid by its
own schema, as another library says, and comes back as it was.
"""

import json

import jsonschema
import pyarrow as pa
import pytest
from hypothesis import given

from penstock_converters import InvalidConverterError, SchemaRefusedError
from penstock_converters.connect_schema import (
    InvalidSchemaError,
    to_arrow_field,
    to_connect_schema,
)
from penstock_converters.json.schema import (
    JsonSchemaOptions,
    JsonSchemas,
    from_connect,
    to_connect,
)
from penstock_converters.registry import create_converter
from penstock_converters.schema_registry import schemas as schemas_of_registry
from penstock_converters.schema_registry.client import Reference, RegisteredSchema

from .test_avro_converter import Schemas
from .test_json_columns import batches, envelopes

URL = {"schema.registry.url": "http://registry:8081"}
CLASS = "io.confluent.connect.json.JsonSchemaConverter"
PLAIN = JsonSchemaOptions()
CONNECT = "org.apache.kafka.connect.data"


@pytest.fixture(scope="module")
def schemas():
    found = Schemas()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schemas_of_registry, "RegistryClient", lambda *_: found)
        yield found


def connect_of(schema, references=(), options=PLAIN):
    return to_connect(JsonSchemas(json.dumps(schema), references), options)


@given(batches())
def test_what_is_written_is_valid_by_its_schema_and_comes_back(schemas, batch):
    schema, payloads = batch
    made = create_converter(CLASS, URL)
    for run in create_converter("json", {}).decode(envelopes(schema, payloads), "t").runs:
        if not run.column.type.num_fields:
            continue
        written = made.encode(run.column, run.field, "t")
        assert written.rejected == ()
        number = int.from_bytes(written.column[0].as_py()[1:5], "big")
        text = json.loads(schemas.by_id[number].text)
        for message in written.column.to_pylist():
            jsonschema.validate(json.loads(message[5:]), text)
        (again,) = made.decode(written.column, "t").runs
        assert again.column.equals(run.column)
        assert again.field.type == run.field.type


@pytest.mark.parametrize(
    ("field", "schema"),
    [
        (pa.field("v", pa.int8(), nullable=False), {"type": "integer", "connect.type": "int8"}),
        (pa.field("v", pa.float64(), nullable=False),
         {"type": "number", "connect.type": "float64"}),
        (pa.field("v", pa.string()), {"oneOf": [{"type": "null"}, {"type": "string"}]}),
        (pa.field("v", pa.date32(), nullable=False), {
            "type": "integer", "title": f"{CONNECT}.Date", "connect.version": 1,
            "connect.type": "int32"}),
        (pa.field("v", pa.decimal128(9, 2), nullable=False), {
            "type": "string", "title": f"{CONNECT}.Decimal", "connect.version": 1,
            "connect.type": "bytes",
            "connect.parameters": {"scale": "2", "connect.decimal.precision": "9"}}),
        (pa.field("v", pa.struct([("a", pa.string())]), nullable=False), {
            "type": "object", "properties": {
                "a": {"oneOf": [{"type": "null"}, {"type": "string"}], "connect.index": 0}}}),
        (pa.field("v", pa.map_(pa.string(), pa.bool_()), nullable=False), {
            "type": "object", "connect.type": "map",
            "additionalProperties": {"oneOf": [{"type": "null"}, {"type": "boolean"}]}}),
        (pa.field("v", pa.map_(pa.int64(), pa.field("value", pa.bool_(), nullable=False)),
                  nullable=False), {
            "type": "array", "connect.type": "map", "items": {"type": "object", "properties": {
                "key": {"type": "integer", "connect.type": "int64", "connect.index": 0},
                "value": {"type": "boolean", "connect.index": 1}}}}),
    ],
)  # fmt: skip
def test_schemas_of_columns_are_those_of_confluent(field, schema):
    assert from_connect(to_connect_schema(field), PLAIN) == schema
    assert to_arrow_field(connect_of(schema)).type == field.type


def text(**more):
    return {"type": "string", "optional": False, **more}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "integer"}, {"type": "int64", "optional": False}),
        ({"type": ["null", "number"]}, {"type": "double", "optional": True}),
        ({"anyOf": [{"type": "null"}, {"type": "string", "title": "T"}]},
         {"type": "string", "optional": True, "name": "T"}),
        ({"const": "A"}, text(parameters={
            "io.confluent.connect.json.Enum": "", "io.confluent.connect.json.Enum.A": "A"})),
        ({"type": "string", "enum": ["A"]}, text(parameters={
            "io.confluent.connect.json.Enum": "", "io.confluent.connect.json.Enum.A": "A"})),
        ({"type": "integer", "enum": [1, 2]}, {"type": "int64", "optional": False}),
        ({"minLength": 3}, text()), ({"pattern": "x", "description": "d"}, text(doc="d")),
        ({"type": "array", "items": {"type": "boolean"}},
         {"type": "array", "optional": False, "items": {"type": "boolean", "optional": False}}),
        ({"oneOf": [{"type": "string"}]}, text()),
    ],
)  # fmt: skip
def test_types_of_others_are_those_of_kafka_connect(schema, expected):
    assert connect_of(schema) == expected


def test_references_and_parts_of_all_are_joined():
    schema = {
        "$id": "order.json", "title": "Order", "allOf": [{"$ref": "base.json"}],
        "properties": {"lines": {"type": "array", "items": {"$ref": "#/definitions/line"}}},
        "definitions": {"line": {"type": "object", "properties": {
            "n": {"type": "integer"}, "who": {"$ref": "base.json#/definitions/who"}}}},
    }  # fmt: skip
    base = {
        "type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"],
        "definitions": {"who": {"type": "string"}},
    }  # fmt: skip
    options = JsonSchemaOptions(optional_unless_required=True)
    found = connect_of(schema, [("base.json", json.dumps(base))], options)
    assert {one["field"]: one["optional"] for one in found["fields"]} == {
        "id": False, "lines": True,
    }  # fmt: skip
    items = next(one for one in found["fields"] if one["field"] == "lines")["items"]
    assert [(one["field"], one["type"]) for one in items["fields"]] == [
        ("n", "int64"), ("who", "string"),
    ]  # fmt: skip
    assert found["name"] == "Order"


@pytest.mark.parametrize(
    "schema",
    [
        {}, True, {"type": "null"}, {"type": "array"}, {"type": "array", "items": [{}]},
        {"enum": [1]}, {"$ref": "#/definitions/x"}, {"$ref": "other.json"},
        {"type": "integer", "connect.type": "x"}, {"type": "file"}, {"oneOf": 5}, [],
        {"type": "object", "properties": {"a": {"$ref": "#"}}}, {"$ref": "#"},
        {"type": "object", "connect.type": "map"}, {"not": {"type": "string"}},
        {"definitions": {"a": {"allOf": [{"$ref": "#/definitions/a"}]}},
         "$ref": "#/definitions/a"},
    ],
)  # fmt: skip
def test_schemas_without_columns_are_refused(schema):
    with pytest.raises(InvalidSchemaError):
        connect_of(schema)


def test_a_schema_of_billions_of_types_is_refused():
    names = [f"d{at}" for at in range(40)]
    definitions = {
        name: {
            "type": "object",
            "properties": {p: {"$ref": f"#/definitions/{after}"} for p in "abc"},
        }
        for name, after in zip(names, [*names[1:], "end"], strict=True)
    }
    definitions["end"] = {"type": "string"}
    with pytest.raises(InvalidSchemaError, match="more than"):
        connect_of({"definitions": definitions, "$ref": "#/definitions/d0"})


UNION = {
    "type": "object", "properties": {"u": {"oneOf": [
        {"type": "integer"}, {"type": "string"},
        {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}}},
        {"type": "object", "properties": {"x": {"type": "integer"}, "z": {"type": "string"}}},
    ]}},
}  # fmt: skip


def add(schemas, schema, references=()):
    number = len(schemas.by_id) + 1
    schemas.by_id[number] = RegisteredSchema("JSON", json.dumps(schema), tuple(references), number)
    return number


def decode(schemas, schema, *texts, **config):
    number = add(schemas, schema)
    data = [b"\0" + number.to_bytes(4, "big") + one.encode() for one in texts]
    return create_converter("json-schema", URL | config).decode(pa.array(data, pa.binary()), "t")


def test_a_union_is_a_struct_with_the_type_that_a_value_has(schemas):
    texts = ['{"u": 1}', '{"u": "a"}', '{"u": {"x": 1, "z": "b"}}', '{"u": true}']
    found = decode(schemas, UNION, *texts)
    (run,) = found.runs
    values = [one["u"] for one in run.column.to_pylist()]
    prefix = "io.confluent.connect.json.OneOf.field."
    assert [{k: v for k, v in one.items() if v is not None} for one in values] == [
        {f"{prefix}0": 1}, {f"{prefix}1": "a"}, {f"{prefix}3": {"x": 1, "z": "b"}},
    ]  # fmt: skip
    assert [row for row, _ in found.rejected] == [3]
    made = create_converter("json-schema", URL).encode(run.column, run.field, "u")
    assert [json.loads(one[5:]) for one in made.column.to_pylist()] == [
        json.loads(one) for one in texts[:3]
    ]


def test_a_missing_property_is_told_with_its_key(schemas):
    schema = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}
    found = decode(schemas, schema, '{"a": "x", "b": 1, "c": [1]}', '{"a": "x"}', "[]", "{")
    assert [run.column.to_pylist() for run in found.runs] == [[{"a": "x", "b": 1}]]
    assert [problem.code for _, problem in found.rejected] == ["converter.value"] * 3
    more = {"use.optional.for.nonrequired": "true"}
    found = decode(schemas, schema, '{"a": "x"}', **more)
    assert found.runs[0].column.to_pylist() == [{"a": "x", "b": None}]


def test_what_a_schema_refers_to_is_asked_for(schemas):
    leaf = add(schemas, {"type": "object", "properties": {"x": {"type": "integer"}}})
    schemas.subjects["leaf"] = leaf
    schema = {"type": "object", "properties": {"l": {"$ref": "leaf.json"}}}
    number = add(schemas, schema, [Reference("leaf.json", "leaf", 1)])
    data = pa.array([b"\0" + number.to_bytes(4, "big") + b'{"l": {"x": 5}}'])
    found = create_converter("json-schema", URL).decode(data, "t")
    assert found.runs[0].column.to_pylist() == [{"l": {"x": 5}}]


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (pa.struct([("a", pa.string()), ("new", pa.int64())]), "no property 'new'"),
        (pa.struct([("a", pa.int64())]), "'a' is of the type int64"),
        (pa.struct([("l", pa.list_(pa.string()))]), "'l' is of the type string"),
    ],
)
def test_columns_that_the_newest_schema_lacks_are_refused(schemas, column, words):
    schema = {"type": "object", "properties": {
        "a": {"type": "string"}, "l": {"type": "array", "items": {"type": "integer"}}}}  # fmt: skip
    schemas.subjects["j-value"] = add(schemas, schema)
    latest = URL | {"auto.register.schemas": "false", "use.latest.version": "true"}
    field = pa.field("value", column)
    with pytest.raises(SchemaRefusedError, match=words):
        create_converter("json-schema", latest).encode(pa.array([], column), field, "j")
    lenient = create_converter("json-schema", latest | {"latest.compatibility.strict": "false"})
    assert lenient.encode(pa.array([], column), field, "j").rejected == ()


def test_decimals_are_numbers_or_base64(schemas):
    values = pa.array([{"d": 1}], pa.struct([("d", pa.decimal128(5, 2))]))
    field = pa.field("value", values.type, nullable=False)
    for form, payload in (("BASE64", b'{"d":"ZA=="}'), ("numeric", b'{"d":1.00}')):
        made = create_converter("json-schema", URL | {"decimal.format": form})
        encoded = made.encode(values, field, f"d{form}").column
        assert encoded[0].as_py()[5:] == payload
        assert made.decode(encoded, "d").runs[0].column.equals(values)


@pytest.mark.parametrize("key", ["preserve.additional.properties", "generalized.sum.type.support"])
def test_keys_that_are_not_offered_are_refused(key):
    with pytest.raises(InvalidConverterError, match=key):
        create_converter("json-schema", URL | {key: "true"})
    create_converter("json-schema", URL | {key: "false"})
