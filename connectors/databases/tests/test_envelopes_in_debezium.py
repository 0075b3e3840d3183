"""Debezium's own transform reads our envelopes: by the names of their schemas, and by their
fields.
"""

import json

import pyarrow as pa
import pytest
from py4j import java_gateway, protocol

from penstock_connector import Batch, Op
from penstock_connector.messages import Converters, MessageEncoder
from penstock_converters.registry import create_converter
from penstock_databases.cdc.envelopes import Envelopes
from penstock_databases.mysql_cdc.origins import EventOrigin, log_origins
from support.kafka_connect import jars
from support.kafka_transforms import Kafka

from .test_envelopes import NOW_NS

TOPIC = "shop.d.t"


@pytest.fixture(scope="module")
def kafka():
    """A JVM with Debezium's classes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(java_gateway, "get_return_value", protocol.get_return_value)
        kafka = Kafka(jars())
        yield kafka
        kafka.close()


def messages(ops, schema_names=True):
    """Keys and values of changes of one row, with their schemas."""
    count = len(ops)
    origin = EventOrigin(7, "0-1-9", "binlog.000001", 400, -1)
    places = pa.array(range(count)).to_numpy()
    row = pa.struct([("id", pa.int64()), ("name", pa.string())])
    rows = pa.RecordBatch.from_pydict(
        {
            "id": [1] * count,
            "name": ["a"] * count,
            "__op": pa.array(map(int, ops), pa.int8()),
            "__ts_us": [5_000_000] * count,
            "__before": pa.array([{"id": 1, "name": "b"}] * count, row),
            "__source": log_origins(("d", "t"), [origin] * count, places, places),
        }
    )
    envelopes = Envelopes("mariadb", "shop", "1.2", rows.column("__source").type)
    batch = envelopes.wrap(Batch(rows, dataset=TOPIC, key_columns=("id",)), NOW_NS).rows
    if not schema_names:
        batch = batch.cast(pa.schema([field.remove_metadata() for field in batch.schema]))
    converter = create_converter("json", {"schemas.enable": "true"}, is_key=False)
    encoder = MessageEncoder("kafka", TOPIC, batch.schema, (), Converters(converter, converter))
    encoded, bad = encoder.encode(batch)
    assert not bad
    return list(zip(*(encoded.column(name).to_pylist() for name in ("key", "value")), strict=True))


def unwrapped(kafka, key, value):
    """What ExtractNewRecordState makes of the value of a message; None: it drops it."""
    transform = kafka.jvm.io.debezium.transforms.ExtractNewRecordState()
    transform.configure(kafka._map({"add.fields": "op,source.file,source.pos,source.connector"}))
    read = [kafka.converter.toConnectData(TOPIC, one) for one in (key, value)]
    parts = [part for one in read for part in (one.schema(), one.value())]
    record = kafka.connect.sink.SinkRecord(TOPIC, 0, *parts, 0)
    found = transform.apply(record)
    return None if found is None else kafka._json(found.valueSchema(), found.value())


def test_schemas_have_debeziums_names():
    ((key, value),) = messages([Op.UPDATE])
    assert json.loads(key)["schema"]["name"] == f"{TOPIC}.Key"
    schema = json.loads(value)["schema"]
    assert schema["name"] == f"{TOPIC}.Envelope"
    names = {field["field"]: field.get("name") for field in schema["fields"]}
    assert [names[one] for one in ("before", "after", "source", "op")] == [
        f"{TOPIC}.Value", f"{TOPIC}.Value", "io.debezium.connector.mariadb.Source", None,
    ]  # fmt: skip


def test_debezium_unwraps_our_envelopes(kafka):
    created, updated, deleted, tombstone = messages([Op.CREATE, Op.UPDATE, Op.DELETE])
    added = {"__source_file": "binlog.000001", "__source_pos": 400, "__source_connector": "mariadb"}
    row = {"id": 1, "name": "a"}
    assert unwrapped(kafka, *created) == {**row, "__op": "c", **added}
    assert unwrapped(kafka, *updated) == {**row, "__op": "u", **added}
    assert unwrapped(kafka, *deleted) is None
    assert tombstone[1] is None


def test_without_the_names_debezium_would_not_know_envelopes(kafka):
    ((key, value),) = messages([Op.CREATE], schema_names=False)
    assert "after" in unwrapped(kafka, key, value)
