"""CloudEvents in JSON: rows of events and events of rows, and what is none."""

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from py4j import java_gateway, protocol

from penstock_converters import InvalidConverterError
from penstock_converters.registry import create_converter
from support.kafka_connect import jars
from support.kafka_transforms import Kafka

DEBEZIUM = "io.debezium.converters.CloudEventsConverter"
EVENT = {"id": "1", "source": "/s", "specversion": "1.0", "type": "t"}
SCHEMA = {
    "type": "struct", "optional": False, "fields": [
        {"field": "n", "type": "int64", "optional": True},
        {"field": "at", "type": "int64", "optional": True, "name":
         "org.apache.kafka.connect.data.Timestamp", "version": 1},
    ],
}  # fmt: skip


def converter(**keys: str) -> Any:
    return create_converter("cloudevents", {k.replace("_", "."): v for k, v in keys.items()})


def messages(*events: Any) -> pa.Array:
    texts = [e if e is None or isinstance(e, bytes) else json.dumps(e).encode() for e in events]
    return pa.array(texts, pa.binary())


def decoded(*events: Any, by: Any = None) -> tuple[dict[int, Any], dict[int, str]]:
    """Return the values by their places, and the codes of those that are none."""
    found = (by or converter()).decode(messages(*events), "t")
    values = {
        row: value
        for run in found.runs
        for row, value in zip(run.rows, run.column.to_pylist(), strict=True)
    }
    return values, {row: problem.code for row, problem in found.rejected}


def encoded(values: list[Any], kind: pa.DataType, by: Any = None) -> tuple[list[Any], list[int]]:
    found = (by or converter(json_schemas_enable="false")).encode(
        pa.array(values, kind), pa.field("value", kind), "orders"
    )
    texts = [text if text is None else json.loads(text) for text in found.column.to_pylist()]
    return texts, [row for row, problem in found.rejected if problem.code == "converter.cloudevent"]


def test_attributes_and_data_are_columns_and_a_null_stays_one() -> None:
    values, rejected = decoded(EVENT | {"data": {"n": 1}, "time": "x"}, None, EVENT)
    assert values == {
        0: EVENT | {"data": {"n": 1}, "time": "x"},
        1: None,
        2: EVENT | {"data": None, "time": None},
    }
    assert rejected == {}


def test_data_is_what_its_schema_says() -> None:
    events = [
        EVENT | {"data": {"schema": SCHEMA, "payload": {"n": 1, "at": 5}}},
        EVENT | {"data": {"schema": SCHEMA, "payload": {"n": "x", "at": 5}}},
        EVENT | {"data": {"schema": {"type": "string", "optional": True}, "payload": "s"}},
        EVENT,
    ]
    found = converter().decode(messages(*events), "t")
    kinds = [run.field.type.field("data").type for run in found.runs]
    assert kinds[0] == pa.struct([("n", pa.int64()), ("at", pa.timestamp("ms", "UTC"))])
    assert kinds[1] == pa.string()
    assert [row for row, _ in found.rejected] == [1]
    assert [row for run in found.runs for row in run.rows] == [0, 2, 3]
    plain, _ = decoded(events[0], by=converter(json_schemas_enable="false"))
    assert plain[0]["data"]["payload"] == {"n": 1, "at": 5}


@pytest.mark.parametrize(
    "event",
    [
        *({k: v for k, v in EVENT.items() if k != name} for name in EVENT),
        EVENT | {"id": ""}, EVENT | {"type": None}, EVENT | {"source": 5},
        EVENT | {"specversion": "0.3"}, EVENT | {"data_base64": "%"},
        EVENT | {"data_base64": "AQI=", "data": "x"}, 5, [EVENT],
    ],
)  # fmt: skip
def test_what_is_no_event_is_rejected_and_the_others_are_rows(event: Any) -> None:
    good = EVENT | {"id": "2"}
    for events in ([event], [event, good, EVENT]):
        values, rejected = decoded(*events)
        assert rejected == {0: "converter.cloudevent"}
        assert set(values) == set(range(1, len(events)))


def test_text_that_is_not_json_is_rejected_as_by_json() -> None:
    _, rejected = decoded(b"{", EVENT, EVENT | {"data": {"schema": SCHEMA, "payload": {}}})
    assert rejected == {0: "converter.not_json"}


def test_bytes_are_base64_of_an_event() -> None:
    values, _ = decoded(EVENT | {"data_base64": "AQI="})
    assert values[0] == EVENT | {"data_base64": b"\x01\x02"}
    kind = pa.struct([("id", pa.string()), ("source", pa.string()), ("type", pa.string()),
                      ("data", pa.binary())])  # fmt: skip
    row = {"id": "1", "source": "/s", "type": "t", "data": b"\x01\x02"}
    assert encoded([row], kind) == ([EVENT | {"data_base64": "AQI="}], [])


def test_a_row_with_the_columns_of_an_event_is_that_event() -> None:
    kind = pa.struct(
        [("id", pa.string()), ("source", pa.string()), ("type", pa.string()),
         ("time", pa.timestamp("ms", "UTC")), ("tenant", pa.string()),
         ("data", pa.struct([("n", pa.int64())]))]
    )  # fmt: skip
    row = {"id": "1", "source": "/s", "type": "t", "time": 1000, "tenant": None, "data": {"n": 5}}
    (event, none, bare), rejected = encoded([row, None, row | {"data": None}], kind)
    assert rejected == []
    assert none is None
    assert event == EVENT | {
        "time": "1970-01-01T00:00:01.000000Z", "tenant": None,
        "datacontenttype": "application/json", "data": {"n": 5},
    }  # fmt: skip
    assert "data" not in bare
    assert encoded([row | {"id": ""}, row | {"type": None}], kind)[1] == [0, 1]


def test_a_row_with_a_column_that_is_no_attribute_is_rejected() -> None:
    kind = pa.struct([(name, pa.string()) for name in ("id", "source", "type", "order_id")])
    row = dict.fromkeys(("id", "source", "type", "order_id"), "x")
    assert encoded([row], kind) == ([None], [0])


def test_another_row_is_the_data_of_an_event_of_its_own() -> None:
    kind = pa.struct([("id", pa.int64()), ("name", pa.string())])
    rows = [{"id": 1, "name": "a"}, {"id": 1, "name": "a"}, None]
    (one, two, none), rejected = encoded(rows, kind)
    assert (none, rejected) == (None, [])
    assert one.pop("id") != two.pop("id")
    assert one == two == {
        "source": "/penstock/orders", "specversion": "1.0", "type": "penstock.row",
        "datacontenttype": "application/json", "data": {"id": 1, "name": "a"},
    }  # fmt: skip
    own = converter(event_source="/shop", event_type="com.shop.order")
    (event,), _ = encoded(["x"], pa.string(), own)
    assert (event["source"], event["type"]) == ("/shop", "com.shop.order")
    assert event["data"] == {"schema": {"type": "string", "optional": True}, "payload": "x"}


@pytest.mark.parametrize(
    ("key", "value", "code"),
    [
        ("serializer.type", "avro", "config.invalid_value"),
        ("data.serializer.type", "avro", "config.invalid_value"),
        ("json.schemas.enable", "so", "config.invalid_value"),
        ("json.decimal.format", "so", "config.invalid_value"),
        ("event.type", "", "config.invalid_value"),
        ("metadata.source", "header", "config.no_effect"),
        ("extension.attributes.enable", "true", "config.no_effect"),
        ("schema.cloudevents.name", "x", "config.no_effect"),
        ("avro.schema.registry.url", "http://r", "config.unknown_key"),
    ],
)
def test_a_key_without_effect_is_refused_by_its_name(key: str, value: str, code: str) -> None:
    with pytest.raises(InvalidConverterError) as caught:
        create_converter(DEBEZIUM, {key: value})
    assert (caught.value.code, caught.value.config_path) == (code, key)


def test_extensions_that_are_switched_off_are_accepted() -> None:
    create_converter(DEBEZIUM, {"extension.attributes.enable": "false"}).close()


texts = st.text(min_size=1, max_size=5)
events = st.fixed_dictionaries(
    {"id": texts, "source": texts, "specversion": st.just("1.0"), "type": texts},
    optional={"data": st.fixed_dictionaries({"n": st.integers(-9, 9), "s": texts}),
              "subject": texts},
)  # fmt: skip


@given(st.lists(events, min_size=1, max_size=6), st.booleans())
def test_events_come_back(given_events: list[dict[str, Any]], schemas: bool) -> None:
    by = converter(json_schemas_enable=str(schemas).lower())
    first = by.decode(messages(*given_events), "t")
    assert first.rejected == ()
    for run in first.runs:
        again = by.encode(run.column, run.field, "t")
        assert again.rejected == ()
        second, rejected = decoded(*(json.loads(m) for m in again.column.to_pylist()), by=by)
        assert rejected == {}
        for value, event in zip(second.values(), run.column.to_pylist(), strict=True):
            value.pop("datacontenttype", None)
            present = {k: v for k, v in value.items() if v is not None}
            assert present == {k: v for k, v in event.items() if v is not None}


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    """A JVM with Debezium's classes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(java_gateway, "get_return_value", protocol.get_return_value)
        kafka = Kafka(jars())
        yield kafka
        kafka.close()


@pytest.mark.parametrize("schemas", ["true", "false"])
def test_debezium_reads_our_events_as_we_do(kafka: Kafka, schemas: str) -> None:
    by = converter(json_schemas_enable=schemas)
    kind = pa.struct([("n", pa.int64()), ("s", pa.string()), ("d", pa.float64())])
    written = by.encode(
        pa.array([{"n": 1, "s": "é", "d": 1.5}], kind), pa.field("value", kind), "t"
    )
    (message,) = written.column.to_pylist()
    theirs = kafka.read_schemaless(DEBEZIUM, {"json.schemas.enable": schemas}, message)
    ours, _ = decoded(message, by=by)
    assert theirs == ours[0]
