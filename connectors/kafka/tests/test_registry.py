"""Messages with schemas of a real registry: Confluent's serializers read what is written here, and
write what is read; what the registry refuses, and when it is not there.
"""

import decimal
import json
import urllib.request
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import (
    Schema,
    SchemaRegistryClient,
    topic_subject_name_strategy,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_tools import protoc
from penstock_kafka import KafkaSink, KafkaSource

from penstock.model.schema_drift import compare_schemas
from penstock_connector._config import read_config
from penstock_connector.raw_messages import RawMessage
from penstock_connector.testing import RemoteError, sink_task, source_task
from support.processes import free_ports
from support.registry import SchemaRegistryServer

AVRO = "io.confluent.connect.avro.AvroConverter"
JSON = "io.confluent.connect.json.JsonSchemaConverter"
PROTOBUF = "io.confluent.connect.protobuf.ProtobufConverter"
APICURIO = "io.apicurio.registry.utils.converter.AvroConverter"
IDS = "io.apicurio.registry.serde"
DELETE = 3
BY_TOPIC = {"subject.name.strategy": topic_subject_name_strategy}
"""Otherwise Confluent's serializers ask for what this registry does not have."""


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    """A running registry, shared: tests use topics, and so subjects, of their own."""
    with SchemaRegistryServer(tmp_path_factory.mktemp("registry")) as server:
        yield server


@pytest.fixture
def client(registry):
    """Confluent's own client."""
    return SchemaRegistryClient({"url": registry.url})


def sides(url, converter=AVRO):
    return {
        name: value
        for side in ("key.converter", "value.converter")
        for name, value in ((side, converter), (f"{side}.schema.registry.url", url))
    }


def source(kafka, topic, url, **more):
    return {"bootstrap.servers": kafka.bootstrap, "topics": topic, **sides(url), **more}


def sink(kafka, topic, url, **more):
    return {
        "bootstrap.servers": kafka.bootstrap, "topic": topic, **sides(url),
        "offsets.storage.topic": f"{topic}-offsets", "transactional.id.prefix": f"{topic}-", **more,
    }  # fmt: skip


def data(row):
    return {name: value for name, value in row.items() if not name.startswith("__")}


ORDER = {
    "type": "record", "name": "Order", "namespace": "com.shop", "fields": [
        {"name": "id", "type": "long"},
        {"name": "amount", "type": {
            "type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}  # fmt: skip
AT = datetime(2026, 11, 26, 12, 0, 0, 123_000, tzinfo=UTC)
ROW = {
    "id": 7, "amount": decimal.Decimal("12.34"), "at": AT, "state": "PAID", "tags": ["a", "é"],
    "note": None,
}  # fmt: skip


def test_what_confluents_serializer_writes_is_read(kafka, registry, client, topic):
    serializer = AvroSerializer(client, json.dumps(ORDER), conf=BY_TOPIC)
    where = SerializationContext(topic, MessageField.VALUE)
    rows = [ROW | {"id": number, "note": f"n{number}"} for number in range(20)]
    kafka.create_topic(topic)
    kafka.produce(topic, [(None, serializer(row, where)) for row in rows])
    text = {"key.converter": "string"}
    given = {k: v for k, v in source(kafka, topic, registry.url).items() if "key.conv" not in k}
    with source_task(KafkaSource, given | text) as task:
        assert [data(row) for row in task.rows(20)] == rows


def test_confluents_deserializer_reads_what_is_written(kafka, registry, client, topic):
    kind = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False), ("amount", pa.decimal128(9, 2)),
            ("at", pa.timestamp("us", "UTC")), ("tags", pa.list_(pa.string())),
            ("note", pa.string()),
        ]
    )  # fmt: skip
    row = {name: value for name, value in ROW.items() if name != "state"}
    with sink_task(KafkaSink, sink(kafka, topic, registry.url)) as task:
        task.write(pa.RecordBatch.from_pylist([row], kind), dataset="d", key_columns=("id",))
    (found,) = kafka.read(topic)
    read = AvroDeserializer(client, conf=BY_TOPIC)
    assert read(found.value(), SerializationContext(topic, MessageField.VALUE)) == row
    assert read(found.key(), SerializationContext(topic, MessageField.KEY)) == {"id": 7}
    assert {f"{topic}-key", f"{topic}-value"} <= set(client.get_subjects())
    with source_task(KafkaSource, source(kafka, topic, registry.url)) as task:
        assert [data(one) for one in task.rows(1)] == [row]


PERSON = {
    "$schema": "http://json-schema.org/draft-07/schema#", "title": "Person", "type": "object",
    "properties": {
        "name": {"type": "string"}, "age": {"type": "integer"}, "score": {"type": "number"},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["name", "age", "score", "tags"],
}  # fmt: skip


def test_json_with_a_schema_is_written_and_read_as_by_confluents(kafka, registry, client, topic):
    where = SerializationContext(topic, MessageField.VALUE)
    rows = [{"name": f"é{at}", "age": at, "score": 0.5, "tags": ["a"]} for at in range(5)]
    serializer = JSONSerializer(json.dumps(PERSON), client, conf=BY_TOPIC)
    kafka.create_topic(topic)
    kafka.produce(topic, [(None, serializer(row, where)) for row in rows])
    converters = {
        "value.converter": JSON, "value.converter.schema.registry.url": registry.url,
        "key.converter": "string",
    }  # fmt: skip
    given = {"bootstrap.servers": kafka.bootstrap, **converters}
    with source_task(KafkaSource, given | {"topics": topic}) as task:
        assert [data(row) for row in task.rows(5)] == rows
    more = {"topic": f"{topic}-out", "offsets.storage.topic": f"{topic}-offsets"}
    with sink_task(KafkaSink, given | more) as task:
        task.write(rows, dataset="d")
    read = JSONDeserializer(None, schema_registry_client=client, conf=BY_TOPIC)
    found = [read(one.value(), where) for one in kafka.read(f"{topic}-out")]
    assert found == rows


def shop_order(folder):
    """Return the class of a message, as the compiler of Protobuf makes it."""
    text = """syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
message Order {
  message Line { string name = 1; double price = 2; }
  int64 id = 1; repeated Line lines = 2; google.protobuf.Timestamp at = 3; optional string note = 4;
}
"""
    (folder / "order.proto").write_text(text)
    include = Path(protoc.__file__).parent / "_proto"
    out = f"--descriptor_set_out={folder / 'out'}"
    words = ["", f"-I{folder}", f"-I{include}", "--include_imports", out, "order.proto"]
    assert protoc.main(words) == 0
    files = descriptor_pb2.FileDescriptorSet.FromString((folder / "out").read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for one in files.file:
        pool.Add(one)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


def test_protobuf_is_written_and_read_as_by_confluents(kafka, registry, client, topic, tmp_path):
    kind = shop_order(tmp_path)
    where = SerializationContext(topic, MessageField.VALUE)
    rows = [
        {"id": at, "lines": [{"name": "é", "price": 0.5}] * at, "at": AT, "note": f"n{at}"}
        for at in range(4)
    ]
    messages = [kind(id=row["id"], lines=row["lines"], note=row["note"]) for row in rows]
    for one in messages:
        one.at.FromDatetime(AT)
    how = {"use.deprecated.format": False, **BY_TOPIC}
    serializer = ProtobufSerializer(kind, client, how)
    kafka.create_topic(topic)
    kafka.produce(topic, [(None, serializer(one, where)) for one in messages])
    converters = {
        "value.converter": PROTOBUF, "value.converter.schema.registry.url": registry.url,
        "key.converter": "string",
    }  # fmt: skip
    given = {"bootstrap.servers": kafka.bootstrap, **converters}
    with source_task(KafkaSource, given | {"topics": topic}) as task:
        assert [data(row) for row in task.rows(4)] == rows
    more = {
        "topic": topic, "offsets.storage.topic": f"{topic}-offsets",
        "value.converter.auto.register.schemas": "false",
        "value.converter.use.latest.version": "true",
    }  # fmt: skip
    with sink_task(KafkaSink, given | more) as task:
        task.write(rows, dataset="d")
    read = ProtobufDeserializer(kind, how, client)
    found = [read(one.value(), where) for one in kafka.read(topic)]
    assert found == [*messages, *messages]
    own = {"topic": f"{topic}-own", "offsets.storage.topic": f"{topic}-offsets-own"}
    with sink_task(KafkaSink, given | own) as task:
        task.write(rows, dataset="d")
    with source_task(KafkaSource, given | {"topics": f"{topic}-own"}) as task:
        assert [data(row) for row in task.rows(4)] == rows


def test_a_deleted_row_is_a_tombstone_and_comes_back(kafka, registry, topic):
    with sink_task(KafkaSink, sink(kafka, topic, registry.url)) as task:
        rows = [{"id": 1, "name": "x", "__op": 1}, {"id": 1, "name": None, "__op": DELETE}]
        task.write(rows, dataset="d", key_columns=("id",))
    assert [one.value() is None for one in kafka.read(topic)] == [False, True]
    with source_task(KafkaSource, source(kafka, topic, registry.url)) as task:
        assert [one["__op"] for one in task.rows(2)][1] == DELETE


def test_a_change_that_the_registry_refuses_is_refused_as_a_schema(kafka, registry, client, topic):
    subject = f"{topic}-value"
    first = {"type": "record", "name": "ConnectDefault", "namespace": "io.confluent.connect.avro"}
    fields = [{"name": "n", "type": ["null", "long"], "default": None}]
    client.register_schema(subject, Schema(json.dumps(first | {"fields": fields}), "AVRO"))
    client.set_compatibility(subject_name=subject, level="BACKWARD")
    with sink_task(KafkaSink, sink(kafka, topic, registry.url)) as task:
        task.write([{"n": 1}], dataset="d")
    with (  # the kit raises it where a sink refuses a schema: the host's policy decides then
        sink_task(KafkaSink, sink(kafka, topic, registry.url), epoch=2) as task,
        pytest.raises(ValueError, match="does not fit to those that its subject has"),
    ):
        task.write([{"n": "a text"}], dataset="d")
    assert len(kafka.read(topic)) == 1


COLUMNS = {
    "n": pa.int64(), "text": pa.string(), "at": pa.timestamp("us", "UTC"), "on": pa.date32(),
    "price": pa.decimal128(12, 2), "__op": pa.int8(), "__key": pa.string(),
}  # fmt: skip


@pytest.mark.parametrize("converter", [AVRO, JSON, PROTOBUF])
def test_a_sink_knows_the_columns_of_a_topic_from_the_registry(kafka, registry, topic, converter):
    """Policies of schemas compare them with those of rows; what was written by them is equal."""
    given = sink(kafka, topic, registry.url) | {"value.converter": converter}
    given |= {"value.converter.optional.for.nullables": "true"} if converter == PROTOBUF else {}
    with sink_task(KafkaSink, given) as task:
        assert task.columns("orders") is None
        task.write(pa.RecordBatch.from_pylist([{"n": 1, "text": "a"}], pa.schema(COLUMNS)))
        found = task.columns("orders")
    assert {field.name for field in found} == {"n", "text", "at", "on", "price"}
    assert compare_schemas(found, pa.schema(COLUMNS)) == ()
    changed = pa.schema(COLUMNS | {"n": pa.string(), "more": pa.int32()})
    assert {change.column for change in compare_schemas(found, changed)} == {"n", "more"}


def test_a_sink_without_a_registry_knows_no_columns(kafka, topic):
    plain = {"bootstrap.servers": kafka.bootstrap, "topic": topic,
             "offsets.storage.topic": f"{topic}-offsets"}  # fmt: skip
    with sink_task(KafkaSink, plain) as task, pytest.raises(LookupError):
        task.columns("orders")


def test_a_schema_of_rows_is_registered_even_where_the_latest_is_wanted(
    kafka, registry, client, topic
):
    """As in Confluent's serializers, whose defaults register schemas."""
    latest = {"value.converter.use.latest.version": "true"}
    config, errors = read_config(KafkaSink.config_type, sink(kafka, topic, registry.url, **latest))
    assert not errors
    assert config.unused_keys().keys() == latest.keys()
    with sink_task(KafkaSink, sink(kafka, topic, registry.url, **latest)) as task:
        task.write([{"a": 1}], dataset="d")
        task.write([{"a": 2, "b": "x"}], dataset="d")
    assert len(client.get_versions(f"{topic}-value")) == 2


def test_a_message_whose_schema_the_registry_does_not_know_is_a_bad_row(kafka, registry, topic):
    unknown = b"\0\x00\x0f\x42\x3fabc"
    kafka.create_topic(topic)
    kafka.produce(topic, [(None, unknown), (None, b"no frame")])
    with source_task(KafkaSource, source(kafka, topic, registry.url)) as task:
        bad = [task.until("bad_row").bad_row for _ in range(2)]
    assert [(RawMessage.from_bytes(one.raw).value, one.reason.code) for one in bad] == [
        (unknown, "converter.unknown_schema"),
        (b"no frame", "converter.not_framed"),
    ]


def test_a_registry_that_is_away_is_asked_again_later(kafka, topic):
    (dead,) = free_ports(1)
    quick = {
        f"{side}.converter.{name}": value
        for side in ("key", "value")
        for name, value in (("max.retries", "0"), ("retries.wait.ms", "0"))
    }
    url = f"http://127.0.0.1:{dead}"
    kafka.create_topic(topic)
    kafka.produce(topic, [(None, b"\0\0\0\0\x01x")])
    with (
        pytest.raises(RemoteError, match=r"registry\.unavailable") as caught,
        source_task(KafkaSource, source(kafka, topic, url, **quick)) as task,
    ):
        task.rows(1)
    assert caught.value.status.name == "UNAVAILABLE"
    with (
        pytest.raises(RemoteError, match=r"registry\.unavailable") as caught,
        sink_task(KafkaSink, sink(kafka, topic, url, **quick)) as task,
    ):
        task.write([{"n": 1}], dataset="d")
    assert caught.value.status.name == "UNAVAILABLE"


def test_columns_are_added_as_the_schema_changes(kafka, registry, client, topic):
    with sink_task(KafkaSink, sink(kafka, topic, registry.url)) as task:
        task.write([{"a": 1}], dataset="d")
        task.write([{"a": 2, "b": "x"}], dataset="d")
    assert len(client.get_versions(f"{topic}-value")) == 2
    with source_task(KafkaSource, source(kafka, topic, registry.url)) as task:
        assert [data(row) for row in task.rows(2)] == [{"a": 1, "b": None}, {"a": 2, "b": "x"}]


def apicurio(server, version, **more):
    """Return the keys of Apicurio's converter, with those that its defaults lack."""
    keys = {"url": f"{server.root}/apis/registry/{version}", "auto-register": "true", **more}
    if version == "v2":
        keys |= {"headers.enabled": "false", "use-id": "contentId"}
    sides = {"key.converter": "string", "value.converter": APICURIO}
    return sides | {
        f"value.converter.apicurio.registry.{name}": text for name, text in keys.items()
    }


def call(server, path, body=None, **headers):
    """Ask Apicurio in its own protocol."""
    made = urllib.request.Request(f"{server.root}/apis/registry/v3{path}", headers=headers)
    if body is not None:
        made.data, made.method = json.dumps(body).encode(), "POST"
        made.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(made, timeout=10) as answer:
        return json.loads(answer.read())


@pytest.mark.parametrize(("version", "id_bytes"), [("v3", 4), ("v2", 8)])
def test_keys_of_apicurio_write_the_id_of_the_content(kafka, registry, topic, version, id_bytes):
    """In four bytes as 3.x, or in eight as 2.x, into the group that is named."""
    keys = apicurio(registry, version, **{"artifact.group-id": "shop"})
    more = {"topic": topic, "offsets.storage.topic": f"{topic}-offsets"}
    at = {"bootstrap.servers": kafka.bootstrap, **keys}
    with sink_task(KafkaSink, at | more) as task:
        task.write([{"name": "é"}], dataset="d")
    (found,) = kafka.read(topic)
    kept = call(registry, f"/groups/shop/artifacts/{topic}-value/versions/1")
    start = b"\0" + kept["contentId"].to_bytes(id_bytes, "big")
    assert found.value().startswith(start)
    assert found.value()[len(start) :] == b"\x02\x04\xc3\xa9"
    with source_task(KafkaSource, at | {"topics": topic}) as task:
        assert [data(row) for row in task.rows(1)] == [{"name": "é"}]


def test_a_message_of_apicurios_serializer_is_read(kafka, registry, topic):
    """Its schema is registered by Apicurio's own protocol."""
    schema = {"type": "record", "name": "A", "fields": [{"name": "n", "type": "long"}]}
    content = {"content": json.dumps(schema), "contentType": "application/json"}
    artifact = {
        "artifactId": f"{topic}-value", "artifactType": "AVRO", "firstVersion": {"content": content}
    }  # fmt: skip
    call(registry, "/groups/other/artifacts", artifact)
    made = call(registry, "/groups/default/artifacts", artifact)["version"]
    assert made["contentId"] != made["globalId"]  # one content, and two versions
    kafka.create_topic(topic)
    for id_bytes, keys in ((4, {}), (8, {"id-handler": f"{IDS}.Legacy8ByteIdHandler"})):
        message = b"\0" + made["contentId"].to_bytes(id_bytes, "big") + b"\x0e"
        kafka.produce(topic, [(None, message)])
        at = {"bootstrap.servers": kafka.bootstrap, "topics": topic}
        with source_task(KafkaSource, at | apicurio(registry, "v3", **keys)) as task:
            if id_bytes == 8:  # the one of four bytes is none of these
                assert task.until("bad_row").bad_row.reason.code == "converter.not_framed"
            assert [data(row) for row in task.rows(1)] == [{"n": 7}]


def test_rows_are_written_by_the_latest_schema_that_apicurio_has(kafka, registry, client, topic):
    fields = [{"name": "n", "type": "long"}, {"name": "s", "type": "string", "default": "none"}]
    schema = {"type": "record", "name": "B", "fields": fields}
    client.register_schema(f"{topic}-value", Schema(json.dumps(schema), "AVRO"))
    keys = apicurio(registry, "v3", **{"auto-register": "false", "find-latest": "true"})
    more = {"topic": topic, "offsets.storage.topic": f"{topic}-offsets"}
    with sink_task(KafkaSink, {"bootstrap.servers": kafka.bootstrap, **keys, **more}) as task:
        task.write([{"n": 7}], dataset="d")
    (found,) = kafka.read(topic)
    assert found.value()[5:] == b"\x0e\x08none"
    assert client.get_versions(f"{topic}-value") == [1]
